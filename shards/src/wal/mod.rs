//! The write-ahead log of one shard: an acknowledged entry is in it, on stable
//! storage when `wal.sync` is `always`.
//!
//! [`format`] holds the bytes. [`writer`] decides when to write them, without I/O, and
//! [`files`] makes the files. After a start [`planned`] tells from the headers of the files
//! which ones count, [`recovery`] reads them back into a [`restored::Restored`], [`covers`]
//! says which entries live segments hold already, and [`replayed`] removes the files when
//! segments hold all of their entries. [`pieced`] reads files of which a bucket has the bytes. `docs/format.md` explains the order of a commit and how
//! recovery treats damage.

pub mod covers;
pub mod files;
pub mod format;
pub(crate) mod frames;
pub(crate) mod pieced;
pub(crate) mod planned;
pub mod progress;
pub(crate) mod recovery;
pub(crate) mod replayed;
pub mod restored;
mod salvage;
pub mod writer;

use std::time::Duration;

/// When a commit reaches stable storage. This decides which entries a crash can lose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncPolicy {
    /// Before it is acknowledged. Nothing acknowledged is ever lost.
    Always,
    /// At most this long after it was written. A crash of the process loses
    /// nothing; a crash of the machine loses at most that much time.
    Interval(Duration),
    /// When the kernel likes. A crash of the process loses nothing; a crash of the machine loses
    /// the bytes that the kernel had not written, about 30 seconds of pushes.
    Never,
}
