//! Errors of reading stored filters.

/// The bytes are not those of a [`RegionWriter`](super::RegionWriter).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FilterError {
    /// The index does not decode.
    #[error("the index of the block filters is damaged: {0}")]
    Index(&'static str),
    /// The index is of a version that this program does not know.
    #[error("the index of the block filters was written by another version of logsvc")]
    Version,
    /// A piece of the region is shorter or longer than the requested range.
    #[error("a piece of the block filters at {offset} has the wrong length")]
    Length {
        /// Where the range begins, in bytes from the start of the region.
        offset: u64,
    },
    /// A checksum does not match.
    #[error("the block filters at {offset} do not match their checksum")]
    Checksum {
        /// Where the damaged unit begins, in bytes from the start of the region.
        offset: u64,
    },
}
