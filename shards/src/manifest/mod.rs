//! Which segments are live, and what of the write-ahead log they make unnecessary.
//!
//! The manifest is a checkpoint (`MANIFEST`), written at each start, and the edits
//! since then, in one log per shard ([`ManifestLog`]). [`read_manifest`] puts them
//! together; the start of a node does so, clears up what a crash has left, and writes
//! the next checkpoint. `docs/format.md` has the bytes and the rules.
//!
//! Guarantees: an acknowledged edit is in force at every later start, whole; an edit
//! never is in part; a file is removed only when nothing that counts names it. What can
//! go wrong is damage to the manifest: then no entry is lost, as the format document
//! argues, but the node says so.

mod adopt;
mod content;
mod edit;
mod format;
pub(crate) mod fuzz;
mod log;
mod names;
mod read;
mod start;
mod survey;
mod task_lock;
mod unlisted;

pub use edit::{EditError, LeftPart, LiveSegment, ManifestEdit};
pub use log::ManifestLog;
pub(crate) use names::QUARANTINE_NAME;
pub use names::{CHECKPOINT_NAME, Day, ManifestLogName, SegmentName, make_day_folder};
pub use read::{ManifestDamage, ManifestState, read_manifest};
pub use start::ManifestReport;
pub(crate) use start::OpenedManifest;
pub use survey::{FoundSegment, SegmentsSurvey, survey_segments};
pub(crate) use unlisted::{LiveFiles, Unlisted, UnlistedKind, find_unlisted, lost_edits, path_of};
