//! Errors of reading and of writing a segment.

use crate::column_kind::ColumnKind;
use crate::version::UnknownPart;

/// A segment, or a part of one, is damaged or not a segment at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentError {
    /// The part of the file.
    pub part: Part,
    /// The rule that its bytes break.
    pub what: &'static str,
    /// The part that another version of the program has written: then nothing is damaged.
    version: Option<UnknownPart>,
}

impl SegmentError {
    /// A part whose bytes are damaged, and the rule that they break.
    pub const fn new(part: Part, what: &'static str) -> SegmentError {
        SegmentError { part, what, version: None }
    }

    /// Another version of the program has written the part.
    pub(crate) const fn other_version(part: Part, version: UnknownPart) -> SegmentError {
        let what = "written by another version of logsvc";
        SegmentError { part, what, version: Some(version) }
    }

    /// The part that another version of the program has written. `None` if the bytes are
    /// damaged.
    pub fn unknown_version(&self) -> Option<UnknownPart> {
        self.version
    }
}

impl std::fmt::Display for SegmentError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.version {
            Some(version) => write!(f, "{}: {version}", self.part),
            None => write!(f, "damaged segment: {}: {}", self.part, self.what),
        }
    }
}

impl std::error::Error for SegmentError {}

/// A part of a segment that has a checksum of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The first bytes of the file.
    Header,
    /// The last bytes of the file.
    Footer,
    /// The directory.
    Directory,
    /// The labels of the streams.
    StreamTable,
    /// The root or a page of the label index.
    LabelIndex,
    /// The filters.
    Filters,
    /// A column of a block.
    Column {
        /// The block's number in the segment.
        block: u32,
        /// Which of its columns.
        kind: ColumnKind,
    },
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Part::Header => f.write_str("header"),
            Part::Footer => f.write_str("footer"),
            Part::Directory => f.write_str("directory"),
            Part::StreamTable => f.write_str("stream table"),
            Part::LabelIndex => f.write_str("label index"),
            Part::Filters => f.write_str("filters"),
            Part::Column { block, kind } => write!(f, "{} of block {block}", kind.name()),
        }
    }
}

/// Why a writer refuses a call. The writer stays as it was, except after
/// [`WriteError::Compression`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// Streams must ascend by tenant, labels, id.
    #[error("streams are not in the order of a segment")]
    StreamOrder,
    /// Entries were given before any stream.
    #[error("entries without a stream")]
    NoStream,
    /// Entries of a stream must be in time order.
    #[error("entries are not in time order")]
    TimeOrder,
    /// The columns of the entries do not fit each other.
    #[error("malformed entries: {0}")]
    Malformed(&'static str),
    /// An entry is larger than a block may be.
    #[error("an entry has more than {max_bytes} bytes")]
    EntryTooLarge {
        /// The limit in bytes.
        max_bytes: usize,
    },
    /// The segment has the largest number of streams, runs or blocks.
    #[error("the segment is full")]
    Full,
    /// A segment without entries cannot be written.
    #[error("the segment has no entries")]
    Empty,
    /// A block to be copied from another segment is damaged.
    #[error(transparent)]
    Damaged(#[from] SegmentError),
    /// The compressor or the serialiser failed; the segment cannot be finished.
    #[error("compression failed: {0}")]
    Compression(String),
}
