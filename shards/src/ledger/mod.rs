//! What a bucket holds of a store: which segments are live and which files are kept, as the logs in
//! the bucket say.
//!
//! Each start is a writer with an epoch of its own and with a log of its own
//! ([`logsvc_store::log`]). The first entry of a log is the sum of all logs before it, and the
//! others are edits. `docs/format.md` has the bytes. If several writers live at once, all their logs
//! count together ([`Logs`]), and each sums its own log up now and then ([`sums`]).
//!
//! Guarantees:
//! - A start writes the sum only when no earlier writer can add an entry any more. So the newest log
//!   with a sum tells everything, and a writer that was taken over learns it from its next create.
//! - An edit is in the log only when the objects of the segments and files that it adds are whole.
//! - A data folder is used with the bucket that it was written with, and never with entries that
//!   another writer may have moved or removed since ([`LedgerError::Unsent`]).
//!
//! Failures: see [`LedgerError`]. Nothing in the bucket has changed then but for epochs and fences.

mod cluster;
mod entry;
mod fetch;
mod files;
mod mark;
mod names;
mod numbered;
mod open;
mod state;
mod sums;
mod union;

pub(crate) use cluster::{ClusterId, is_cluster};
pub use entry::{EntryError, LogEntry};
pub(crate) use fetch::fetch;
pub(crate) use files::{FileRecord, decode as decode_files, encode as encode_files};
pub(crate) use mark::Mark;
pub(crate) use names::{LogPlace, MAPS, SWEPT_AGE, epoch_of};
pub(crate) use numbered::{Found, Numbered, Outcome};
pub(crate) use open::{Ledger, PATIENCE, Peeked, fence_log, join_ledger, open_ledger, peek};
pub use open::{LedgerError, LedgerOptions, check_unshared};
pub(crate) use state::LedgerState;
pub(crate) use sums::SUM_STEP;
pub use sums::SumsConfig;
pub use union::{Logs, LogsError, SegmentOf, Union};

/// The kind of objects of kept files.
pub(crate) const KIND_FILE: u32 = 6;
