//! What a connection may write: bytes that the kernel reads while nobody else may move or change them.

use bytes::Bytes;

mod sealed {
    /// Bytes whose place in memory stays the same while their value moves.
    pub trait Still: monoio::buf::IoBuf {}
}

/// Bytes that are given to a write and come back with its result. [`Bytes`] are shared: to write them copies
/// nothing, and their owner may keep them for another attempt.
pub trait OwnedBytes: sealed::Still + AsRef<[u8]> {}

impl sealed::Still for Vec<u8> {}
impl OwnedBytes for Vec<u8> {}

impl sealed::Still for Bytes {}
impl OwnedBytes for Bytes {}
