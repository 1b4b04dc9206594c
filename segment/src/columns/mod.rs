//! The columns of a block: their encodings, and how the encoded bytes are stored.

pub(crate) mod compress;
mod hex;
pub(crate) mod lengths;
pub(crate) mod metadata;
pub(crate) mod packed;
mod template_store;
pub(crate) mod templates;
pub(crate) mod timestamps;

/// A column of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ColumnKind {
    /// Bytes of the lines.
    Lines,
    /// Timestamps.
    Timestamps,
    /// Lengths of the lines.
    Lengths,
    /// Structured metadata.
    Metadata,
}

impl ColumnKind {
    /// All columns, in the order of their rows in the directory.
    pub const ALL: [ColumnKind; 4] =
        [ColumnKind::Lines, ColumnKind::Timestamps, ColumnKind::Lengths, ColumnKind::Metadata];

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            ColumnKind::Lines => "lines",
            ColumnKind::Timestamps => "timestamps",
            ColumnKind::Lengths => "lengths",
            ColumnKind::Metadata => "metadata",
        }
    }
}
