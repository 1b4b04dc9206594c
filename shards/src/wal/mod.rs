//! The write-ahead log of one shard: an acknowledged entry is in it, on stable
//! storage when `wal.sync` is `always`.
//!
//! [`format`] holds the bytes, [`writer`] decides what to write when (without
//! I/O), [`files`] makes the files, [`recovery`] reads files back after a start, [`replayed`] removes them when their
//! entries are in segments. `docs/format.md` explains
//! the order of a commit and what recovery makes of damage.

pub mod covers;
pub mod files;
pub mod format;
pub(crate) mod frames;
pub mod recovery;
pub mod replayed;
pub(crate) mod restored;
pub mod writer;

use std::time::Duration;

/// When a commit reaches stable storage, and so what a crash can lose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncPolicy {
    /// Before it is acknowledged. Nothing acknowledged is ever lost.
    Always,
    /// At most this long after it was written. A crash of the process loses
    /// nothing; a crash of the machine loses at most that much time.
    Interval(Duration),
    /// When the kernel likes. A crash of the process loses nothing; a crash of
    /// the machine loses what the kernel had not written, about 30 seconds.
    Never,
}
