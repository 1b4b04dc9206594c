//! The directory of a segment, read in place.
//!
//! Guarantees: [`Directory::open`] checks the CRC, then the structure of the archive, then all
//! invariants of the accessors. After that an accessor neither fails nor panics for a number
//! below the bound that its documentation gives, and all places lie within the parts of the
//! file. No row is copied or allocated.

mod access;
pub(crate) mod rows;
mod validate;

pub use access::{BlockInfo, LabelChunk, RunInfo};

use crate::error::{Part, SegmentError};
use crate::filter::{FilterError, FilterIndex};
use crate::format::Footer;
use crate::version::UnknownPart;
use rows::{ArchivedRoot, Root};

/// The directory of one segment, with its footer.
#[derive(Debug)]
pub struct Directory {
    /// The archive, checked by [`Directory::open`] and never changed.
    bytes: Vec<u8>,
    footer: Footer,
    filters: FilterIndex,
}

impl Directory {
    /// Opens the directory of the segment that has this footer. `bytes` are those of
    /// [`Footer::directory_range`].
    ///
    /// # Errors
    /// If they are damaged or contradict the footer.
    pub fn open(footer: Footer, bytes: Vec<u8>) -> Result<Directory, SegmentError> {
        let fail = |what| SegmentError::new(Part::Directory, what);
        let range = footer.directory_range();
        if bytes.len() as u64 != range.end - range.start {
            return Err(fail("not all of it was read"));
        }
        if crc32c::crc32c(&bytes) != footer.directory_crc {
            return Err(fail("the checksum does not match"));
        }
        let root = rkyv::access::<ArchivedRoot, rkyv::rancor::Failure>(&bytes)
            .map_err(|_| fail("it is not an archive of a directory"))?;
        let unknown = |part| SegmentError::other_version(Part::Directory, UnknownPart::Part(part));
        // The checksum matches, so a later version has written it.
        validate::check(root, &footer).map_err(|what| match what {
            validate::UNKNOWN_CODEC => unknown("the codec of a column"),
            what => fail(what),
        })?;
        let filters = FilterIndex::decode(&root.filter_index).map_err(|error| match error {
            FilterError::Version => unknown("the index of the filters"),
            _ => fail("the index of the filters is malformed"),
        })?;
        let region = footer.filters_range();
        if filters.block_count() != root.blocks.len()
            || filters.region_len() != region.end - region.start
        {
            return Err(fail("the index of the filters does not fit the segment"));
        }
        Ok(Directory { bytes, footer, filters })
    }

    /// The bytes of the archive of these rows.
    pub(crate) fn serialize(root: &Root) -> Option<Vec<u8>> {
        let bytes = rkyv::to_bytes::<rkyv::rancor::Failure>(root).ok()?;
        Some(bytes.into_vec())
    }

    #[inline]
    fn root(&self) -> &ArchivedRoot {
        // SAFETY: `open` is the only constructor; it let `rkyv::access` check these
        // very bytes as an archive with this root, and nothing changes them: the
        // field is private and no method takes it mutably. Moving the vector does
        // not move its bytes, and the archive has no alignment.
        unsafe { rkyv::access_unchecked::<ArchivedRoot>(&self.bytes) }
    }

    /// The segment's footer.
    #[inline]
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// The index of the block filters. Its ranges count from the beginning of
    /// [`Footer::filters_range`], and its blocks are the blocks of the segment.
    pub fn filters(&self) -> &FilterIndex {
        &self.filters
    }

    /// Bytes that the directory occupies in memory.
    pub fn held_bytes(&self) -> usize {
        size_of::<Directory>() + self.bytes.capacity() + 2 * self.filters.block_count()
    }
}
