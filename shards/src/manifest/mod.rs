//! The live segments, and the parts of the write-ahead log that they make unnecessary.
//!
//! The manifest is a checkpoint (`MANIFEST`), written at each start, and the edits since then,
//! in one log per shard ([`ManifestLog`]). [`read_manifest`] puts them together. The start of a
//! node does so, removes the left-overs of a crash, and writes the next checkpoint. It repeats the
//! footers of the live segments, so that a start opens none of their files.
//! `docs/format.md` has the bytes and the rules.
//!
//! Guarantees: an acknowledged edit is in force, whole, at every later start. No edit is in
//! force in part. A file is removed only when no part of the manifest that counts names it. If
//! the manifest is damaged, no entry is lost, as `docs/format.md` argues, and the node reports
//! the damage.

mod adopt;
mod bundle_files;
mod content;
mod edit;
mod footers;
mod format;
pub(crate) mod fuzz;
mod log;
mod names;
mod read;
mod start;
mod survey;
mod task_lock;
mod unlisted;

pub(crate) use bundle_files::{BundleError, bundles_dir, read_bundle_head};
#[cfg(test)]
pub(crate) use edit::tests::random_edit;
pub use edit::{EditError, LeftPart, LiveSegment, ManifestEdit};
pub use footers::FooterRecord;
pub(crate) use footers::{read_footer, read_stored_footer};
pub use log::{EditNumbers, ManifestLog, ToldEdit};
pub use names::{CHECKPOINT_NAME, Day, ManifestLogName, SegmentName, make_day_folder};
pub(crate) use names::{QUARANTINE_NAME, is_manifest_file};
pub use read::{ManifestDamage, ManifestState, read_manifest};
pub(crate) use start::ReadManifest;
pub use start::{ManifestReport, StoredSet};
pub use survey::{FoundSegment, SegmentsSurvey, survey_segments};
pub(crate) use unlisted::{LiveFiles, Unlisted, UnlistedKind, find_unlisted, lost_edits, path_of};
