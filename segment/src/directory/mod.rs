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
    /// The archive, and the list of the runs' metadata behind it, checked by [`Directory::open`] and
    /// never changed.
    bytes: Vec<u8>,
    /// Where the list begins, if there is one; otherwise the end.
    archive_len: usize,
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
        let list_len = if footer.has_run_metadata() { footer.totals.runs as usize * 4 } else { 0 };
        let archive_len = bytes.len().checked_sub(list_len).ok_or(fail("it has not all runs"))?;
        let (archive, list) = bytes.split_at(archive_len);
        let root = rkyv::access::<ArchivedRoot, rkyv::rancor::Failure>(archive)
            .map_err(|_| fail("it is not an archive of a directory"))?;
        let unknown = |part| SegmentError::other_version(Part::Directory, UnknownPart::Part(part));
        // The checksum matches, so a later version has written it.
        validate::check(root, list, &footer).map_err(|what| match what {
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
        Ok(Directory { bytes, archive_len, footer, filters })
    }

    /// The bytes of the archive of these rows, and of the bytes of each run's metadata.
    pub(crate) fn serialize(root: &Root, runs_metadata: &[u32]) -> Option<Vec<u8>> {
        let mut bytes = rkyv::to_bytes::<rkyv::rancor::Failure>(root).ok()?.into_vec();
        bytes.reserve_exact(runs_metadata.len() * 4);
        bytes.extend(runs_metadata.iter().flat_map(|number| number.to_le_bytes()));
        Some(bytes)
    }

    #[inline]
    fn root(&self) -> &ArchivedRoot {
        // SAFETY: `open` is the only constructor; it let `rkyv::access` check these
        // very bytes, up to `archive_len`, as an archive with this root, and nothing changes
        // them or the length: the fields are private and no method takes them mutably. Moving
        // the vector does not move its bytes, and the archive has no alignment.
        unsafe { rkyv::access_unchecked::<ArchivedRoot>(&self.bytes[..self.archive_len]) }
    }

    /// The bytes of the names and values of a run's metadata, as stored; `None` if the segment has
    /// no list of them. The run is below [`Self::run_count`].
    #[inline]
    fn stored_metadata_bytes(&self, run: u32) -> Option<u32> {
        let (numbers, _) = self.bytes[self.archive_len..].as_chunks();
        numbers.get(run as usize).map(|number| u32::from_le_bytes(*number))
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
