//! Memory for reads and writes that bypass the page cache.
//!
//! A device reads and writes whole blocks, in memory with the alignment of a block. Guarantee:
//! the first byte of an [`AlignedBuffer`] lies at a multiple of [`DIRECT_BLOCK_BYTES`], however
//! the buffer has grown. [`crate::File::write_aligned_at`] and [`crate::File::read_aligned_at`]
//! refuse lengths and offsets that are not multiples of a block.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut, Range};

/// The blocks in which files are written around the page cache, in bytes. No usual device
/// wants larger ones.
pub const DIRECT_BLOCK_BYTES: usize = 4096;

/// Bytes that begin at a multiple of [`DIRECT_BLOCK_BYTES`].
#[derive(Default)]
pub struct AlignedBuffer {
    /// The content, behind `start` bytes that only align it. Never grows by itself, since
    /// other memory would be aligned differently.
    memory: Vec<u8>,
    start: usize,
}

impl AlignedBuffer {
    /// An empty buffer without memory.
    pub const fn new() -> AlignedBuffer {
        AlignedBuffer { memory: Vec::new(), start: 0 }
    }

    /// An empty buffer with room for this many bytes.
    pub fn with_capacity(capacity: usize) -> AlignedBuffer {
        let mut buffer = AlignedBuffer::new();
        buffer.reserve(capacity);
        buffer
    }

    /// How many bytes fit before the content moves to larger memory.
    pub fn capacity(&self) -> usize {
        self.memory.capacity() - self.start
    }

    /// Takes the content away and keeps the memory.
    pub fn clear(&mut self) {
        self.memory.truncate(self.start);
    }

    /// Cuts the content to its first `len` bytes, if it has more.
    pub fn truncate(&mut self, len: usize) {
        self.memory.truncate(self.start.saturating_add(len));
    }

    /// Appends bytes.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        self.memory.extend_from_slice(bytes);
    }

    /// Cuts the content or fills it up with `value`, to `len` bytes.
    pub fn resize(&mut self, len: usize, value: u8) {
        self.reserve(len.saturating_sub(self.len()));
        self.memory.resize(self.start + len, value);
    }

    /// Fills up the last block with zeros.
    pub fn pad_to_block(&mut self) {
        self.resize(self.len().next_multiple_of(DIRECT_BLOCK_BYTES), 0);
    }

    /// Makes room for `additional` more bytes, and for some bytes after them.
    pub fn reserve(&mut self, additional: usize) {
        if self.capacity() - self.len() >= additional {
            return;
        }
        let content = (self.len() + additional).max(self.len().saturating_mul(2));
        let capacity = content.next_multiple_of(DIRECT_BLOCK_BYTES) + DIRECT_BLOCK_BYTES;
        let mut memory: Vec<u8> = Vec::with_capacity(capacity);
        let start = memory.as_ptr().align_offset(DIRECT_BLOCK_BYTES);
        memory.resize(start, 0);
        memory.extend_from_slice(self);
        *self = AlignedBuffer { memory, start };
    }

    /// Memory with room for exactly `count` bytes behind its alignment bytes.
    pub(crate) fn into_room(mut self, count: usize) -> Vec<u8> {
        self.clear();
        self.reserve(count);
        self.memory
    }

    /// The memory, and where in it the content is.
    pub(crate) fn into_parts(self) -> (Vec<u8>, Range<usize>) {
        let range = self.start..self.memory.len();
        (self.memory, range)
    }

    /// Builds a buffer from the parts that [`AlignedBuffer::into_parts`] returned.
    pub(crate) fn from_parts(memory: Vec<u8>, range: Range<usize>) -> AlignedBuffer {
        debug_assert_eq!(range.end, memory.len());
        AlignedBuffer { memory, start: range.start }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..]
    }
}

impl Clone for AlignedBuffer {
    fn clone(&self) -> AlignedBuffer {
        AlignedBuffer::from(&self[..])
    }
}

impl From<&[u8]> for AlignedBuffer {
    fn from(bytes: &[u8]) -> AlignedBuffer {
        let mut buffer = AlignedBuffer::new();
        buffer.extend_from_slice(bytes);
        buffer
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuffer of {} bytes", self.len())
    }
}

/// Whether a device takes `len_bytes` at `offset_bytes`.
pub(crate) fn check_blocks(len_bytes: usize, offset_bytes: u64) -> io::Result<()> {
    let block = DIRECT_BLOCK_BYTES;
    if len_bytes.is_multiple_of(block) && offset_bytes.is_multiple_of(block as u64) {
        return Ok(());
    }
    let text = format!("{len_bytes} bytes at {offset_bytes} are not whole blocks of the file");
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// Why a file of one of the modes for whole blocks takes no memory of another kind.
pub(crate) fn not_aligned() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the file takes aligned memory only")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_stays_aligned_however_it_grows() {
        let mut buffer = AlignedBuffer::new();
        let mut expected: Vec<u8> = Vec::new();
        for number in 0..200_usize {
            let piece = vec![number as u8; number * number % 5000];
            buffer.extend_from_slice(&piece);
            expected.extend_from_slice(&piece);
            if number % 50 == 49 {
                buffer.pad_to_block();
                expected.resize(expected.len().next_multiple_of(DIRECT_BLOCK_BYTES), 0);
            }
            assert_eq!(buffer.len(), expected.len());
            assert!(buffer.capacity() >= buffer.len());
            if !buffer.is_empty() {
                assert!(buffer.as_ptr().addr().is_multiple_of(DIRECT_BLOCK_BYTES));
            }
        }
        assert!(buffer[..] == expected[..]);
        let copy = buffer.clone();
        assert!(copy[..] == expected[..]);
        assert!(copy.as_ptr().addr().is_multiple_of(DIRECT_BLOCK_BYTES));
        buffer.resize(3, 0);
        assert_eq!(buffer[..], expected[..3]);
        let (memory, range) = buffer.into_parts();
        let mut buffer = AlignedBuffer::from_parts(memory, range);
        buffer.clear();
        buffer.resize(5, 7);
        assert_eq!(buffer[..], [7; 5]);
        assert!(buffer.as_ptr().addr().is_multiple_of(DIRECT_BLOCK_BYTES));
    }

    #[test]
    fn only_whole_blocks_are_taken() {
        assert!(check_blocks(0, 0).is_ok() && check_blocks(8192, 4096).is_ok());
        assert!(check_blocks(8191, 4096).is_err() && check_blocks(4096, 1).is_err());
    }
}
