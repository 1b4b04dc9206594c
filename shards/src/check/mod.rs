//! Verifies a stopped store or a bucket, prints the contents of a file or an object, and finds those
//! that hold a text.
//!
//! [`check_store`] reads every byte that has a checksum and decodes everything that can be
//! decoded. It makes the lock file if it is missing, changes nothing else, and fails if the store
//! is in use or cannot be read. Damage is not an error but a [`Finding`]. [`inspect_file`] prints
//! the directory of a segment, the segments of a bundle, or the record of requests for deletion.
//! [`find_text`] searches all files of a folder.
//!
//! [`check_bucket`], [`inspect_bucket`], [`inspect_object`] and [`find_in_bucket`] do the same with a
//! bucket. They change nothing there and take no lock, so a server may work with it meanwhile.

mod bucket;
mod bundles;
mod find;
mod find_stored;
mod inspect;
mod inspect_bucket;
mod labels;
mod left;
mod listing;
mod requests;
mod segment;
mod source;
mod store;
mod stored;
mod stored_log;
mod wal;

use std::path::{Path, PathBuf};

use logsvc_segment::SegmentError;
use logsvc_segment::version::UnknownVersion;

pub use bucket::check_bucket;
pub use find::{FindReport, find_text};
pub use find_stored::find_in_bucket;
pub use inspect::{inspect_file, inspect_segment};
pub use inspect_bucket::{inspect_bucket, inspect_object};
pub use store::{CheckError, check_store, check_store_with};

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Everything that is worth a word, in the order in which it was met.
    pub findings: Vec<Finding>,
    /// Live segments, by the manifest.
    pub segments: u64,
    /// Those of them that were checked in the bucket.
    pub stored_segments: u64,
    /// Those that are in the bucket only and were not checked.
    pub unchecked_segments: u64,
    /// Ends of segments on the local disk, beside the bucket.
    pub tails: u64,
    /// Blocks of segments that were read and decoded.
    pub blocks: u64,
    /// Entries in them.
    pub segment_entries: u64,
    /// Live segments that do not count for all of their streams any more.
    pub left_segments: u64,
    /// Streams that have left them, once for each segment.
    pub left_streams: u64,
    /// The number of [`CheckReport::segment_entries`] that do not count, because their streams have
    /// left the segment.
    pub left_entries: u64,
    /// Bundles of filters.
    pub bundles: u64,
    /// Files of the write-ahead log.
    pub wal_files: u64,
    /// Frames in them that check.
    pub wal_frames: u64,
    /// Entries in these frames.
    pub wal_entries: u64,
    /// Requests for deletion that are not processed.
    pub pending_requests: u64,
    /// Requests for deletion that are processed and still in the record.
    pub processed_requests: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
}

/// Something about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The file.
    pub file: PathBuf,
    /// Where in the file.
    pub offset: u64,
    /// The fault, in words.
    pub what: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A crash has left a file that the next start clears up, or work is under way.
    Note,
    /// Another version of the program has written it, so this one cannot tell.
    OtherVersion,
    /// Bytes differ from the bytes that were written, or their contents contradict each other.
    Damage,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let severity = match self.severity {
            Severity::Note => "note",
            Severity::OtherVersion => "UNKNOWN",
            Severity::Damage => "DAMAGE",
        };
        write!(f, "{severity}: {} at byte {}: {}", self.file.display(), self.offset, self.what)
    }
}

impl CheckReport {
    /// How many findings are damage.
    pub fn damaged_places(&self) -> usize {
        let damage = |finding: &&Finding| finding.severity == Severity::Damage;
        self.findings.iter().filter(damage).count()
    }

    fn find(&mut self, severity: Severity, file: &Path, offset: u64, what: impl Into<String>) {
        self.findings.push(Finding { severity, file: file.to_owned(), offset, what: what.into() });
    }

    fn damage(&mut self, file: &Path, offset: u64, what: impl Into<String>) {
        self.find(Severity::Damage, file, offset, what);
    }

    /// How many files another version of the program has written.
    pub fn unknown_files(&self) -> usize {
        let unknown = |finding: &&Finding| finding.severity == Severity::OtherVersion;
        self.findings.iter().filter(unknown).count()
    }

    fn other_version(&mut self, unknown: &UnknownVersion) {
        self.find(Severity::OtherVersion, &unknown.file, 0, unknown.what.to_string());
    }

    /// The faults of a segment.
    fn segment(&mut self, file: &Path, offset: u64, error: &SegmentError) {
        match error.unknown_version() {
            Some(version) => self.find(Severity::OtherVersion, file, offset, version.to_string()),
            None => self.damage(file, offset, error.to_string()),
        }
    }

    fn note(&mut self, file: &Path, offset: u64, what: impl Into<String>) {
        self.find(Severity::Note, file, offset, what);
    }
}
