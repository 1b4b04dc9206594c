//! The state that a start rebuilds from the log, and the totals of the replay.

use logsvc_proto::StreamId;

use crate::types::StreamDefinition;
use logsvc_segment::batch::Section;

/// Takes over the streams and entries that recovery reads back. A shard implements it, and recovery
/// knows nothing else of a shard.
pub(crate) trait Restored {
    /// Whether the id of a stream is known.
    fn knows(&self, id: StreamId) -> bool;

    /// Makes a stream known; one that is known already stays as it is.
    fn define(&mut self, definition: StreamDefinition);

    /// Appends a section of the log to its stream, which must be known. Returns whether it is.
    fn append(&mut self, section: &Section<'_>) -> bool;

    /// Keeps the totals of a recovery that has ended.
    fn finish_log(&mut self, summary: RecoverySummary);
}

/// The findings of recovery. Totals of one shard, or of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoverySummary {
    /// Files that were replayed.
    pub files: u64,
    /// Frames that were replayed.
    pub frames: u64,
    /// Entries that were replayed, duplicates included.
    pub entries: u64,
    /// Entries that were passed over because live segments hold them.
    pub covered_entries: u64,
    /// Bytes of frames that were read.
    pub read_bytes: u64,
    /// Torn tails that were cut off.
    pub torn_tails: u64,
    /// Their bytes.
    pub torn_bytes: u64,
    /// Places where acknowledged bytes were damaged.
    pub damaged_places: u64,
    /// Their bytes.
    pub damaged_bytes: u64,
    /// Damaged places of which no copy could be made. Their bytes stay where they
    /// are.
    pub uncopied_places: u64,
    /// Holes in bytes that were acknowledged but never synced.
    pub unsynced_holes: u64,
    /// Memory that replayed entries take beyond the budget for entries.
    pub over_budget_bytes: u64,
}

impl RecoverySummary {
    /// Adds the findings of another shard.
    pub fn add(&mut self, other: &RecoverySummary) {
        self.files += other.files;
        self.frames += other.frames;
        self.entries += other.entries;
        self.covered_entries += other.covered_entries;
        self.read_bytes += other.read_bytes;
        self.torn_tails += other.torn_tails;
        self.torn_bytes += other.torn_bytes;
        self.damaged_places += other.damaged_places;
        self.damaged_bytes += other.damaged_bytes;
        self.uncopied_places += other.uncopied_places;
        self.unsynced_holes += other.unsynced_holes;
        self.over_budget_bytes += other.over_budget_bytes;
    }
}
