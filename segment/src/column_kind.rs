//! The kinds of columns of a block.

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
