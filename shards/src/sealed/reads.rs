//! Counts where reads of segments are answered, so that it shows how good the local disk is as a
//! cache of the bucket.

use std::cell::Cell;

/// Where the bytes of a read were.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// In the segment's own file.
    File,
    /// In its tail.
    Tail,
    /// In the bucket.
    Bucket,
}

/// Reads of one place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadCount {
    /// Ranges that were read.
    pub reads: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The numbers of a core since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadCounters {
    /// Reads of segments' own files.
    pub file: ReadCount,
    /// Reads of tails.
    pub tail: ReadCount,
    /// Reads of the bucket.
    pub bucket: ReadCount,
    /// Files that were evicted.
    pub evicted_files: u64,
    /// Their bytes.
    pub evicted_bytes: u64,
}

/// The counters of a core.
#[derive(Debug, Default)]
pub(crate) struct Reads(Cell<ReadCounters>);

impl Reads {
    /// Notes a read.
    pub(super) fn note(&self, place: Place, bytes: u64) {
        let mut counters = self.0.get();
        let count = match place {
            Place::File => &mut counters.file,
            Place::Tail => &mut counters.tail,
            Place::Bucket => &mut counters.bucket,
        };
        count.reads += 1;
        count.bytes += bytes;
        self.0.set(counters);
    }

    /// Notes that a file has gone.
    pub(super) fn note_evicted(&self, bytes: u64) {
        let mut counters = self.0.get();
        counters.evicted_files += 1;
        counters.evicted_bytes += bytes;
        self.0.set(counters);
    }

    pub(super) fn counters(&self) -> ReadCounters {
        self.0.get()
    }
}
