//! Reads the sections of a batch and their entries.
//!
//! Guarantees: [`sections`] accepts only sections whose columns fit each other; arbitrary bytes
//! give a [`BatchError`]. [`checked_sections`] skips the checks: over bytes that [`sections`]
//! refuses, entries are wrong, and slicing them may panic.

use std::ops::Range;

use logsvc_proto::StreamId;

use super::metadata::{MetadataPairs, check_metadata, split_entry};
use super::shared::SharedSets;
use super::{BatchError, SECTION_HEADER_LEN};

/// One section of a batch, borrowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Section<'a> {
    /// The stream of all entries.
    pub stream: StreamId,
    /// Smallest timestamp by the section's header; nothing compares it with the entries.
    pub min_ns: i64,
    /// Largest timestamp by the section's header; nothing compares it with the entries.
    pub max_ns: i64,
    /// All lines, one after another.
    pub lines: &'a [u8],
    timestamps: &'a [u8],
    ends: &'a [u8],
    /// The metadata column, empty if no entry has metadata of its own.
    metadata: &'a [u8],
    /// For each entry the number of its shared set; empty if none has one.
    pub(crate) set_numbers: &'a [u8],
    /// The shared sets.
    pub(crate) sets: SharedSets<'a>,
}

impl<'a> Section<'a> {
    /// Number of entries, at least 1.
    #[inline]
    pub fn entry_count(&self) -> usize {
        self.ends.len() / 4
    }

    /// Timestamps in arrival order.
    #[inline]
    pub fn timestamps(&self) -> impl ExactSizeIterator<Item = i64> + Clone + use<'a> {
        self.timestamps.chunks_exact(8).map(|raw| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(raw);
            i64::from_le_bytes(bytes)
        })
    }

    /// Exclusive ends of the lines within [`Section::lines`].
    #[inline]
    pub fn ends(&self) -> impl ExactSizeIterator<Item = u32> + Clone + use<'a> {
        self.ends.chunks_exact(4).map(|raw| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(raw);
            u32::from_le_bytes(bytes)
        })
    }

    /// Whether an entry has metadata of its own.
    #[inline]
    pub fn has_own_metadata(&self) -> bool {
        !self.metadata.is_empty()
    }

    /// Bytes of all metadata: own pairs, numbers of shared sets and the sets.
    #[inline]
    pub fn metadata_len(&self) -> usize {
        self.metadata.len() + self.set_numbers.len() + self.sets.as_bytes().len()
    }

    /// The entries in arrival order.
    #[inline]
    pub fn entries(&self) -> impl ExactSizeIterator<Item = SectionEntry<'a>> + Clone + use<'a> {
        let Section { lines, sets, mut metadata, .. } = *self;
        let has_own = self.has_own_metadata();
        let mut start = 0usize;
        let mut numbers = self.set_numbers.iter();
        // Neighbours often have the same set.
        let (mut last_number, mut last_set): (u8, &[u8]) = (0, &[]);
        self.timestamps().zip(self.ends()).map(move |(timestamp_ns, end)| {
            let end = end as usize;
            let line = &lines[start..end];
            start = end;
            let number = numbers.next().copied().unwrap_or(0);
            if number != last_number {
                (last_number, last_set) = (number, sets.get(number));
            }
            let own = if has_own { split_entry(&mut metadata) } else { &[] };
            let metadata = MetadataPairs::from_checked(last_set, own);
            SectionEntry { timestamp_ns, line, metadata }
        })
    }
}

/// One entry of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionEntry<'a> {
    /// Nanoseconds since the Unix epoch.
    pub timestamp_ns: i64,
    /// The line, any bytes.
    pub line: &'a [u8],
    /// Its structured metadata.
    pub metadata: MetadataPairs<'a>,
}

/// Iterates over the sections of a batch, checking each as it goes.
#[inline]
pub fn sections(batch: &[u8]) -> Sections<'_> {
    Sections { batch, offset: 0, is_checked: false }
}

/// Like [`sections`], for the bytes of a batch that [`sections`] has accepted: reads only the
/// headers of the sections.
#[inline]
pub fn checked_sections(batch: &[u8]) -> Sections<'_> {
    Sections { batch, offset: 0, is_checked: true }
}

/// Iterator over the sections of a batch, see [`sections`].
#[derive(Clone, Debug)]
pub struct Sections<'a> {
    batch: &'a [u8],
    offset: usize,
    /// Whether the columns were checked.
    is_checked: bool,
}

impl<'a> Sections<'a> {
    /// Where in the batch the next section begins.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    fn read(&mut self) -> Result<Section<'a>, BatchError> {
        let start = self.offset;
        let fail = |what| BatchError { what, offset: start };
        let header = self
            .batch
            .get(start..start + SECTION_HEADER_LEN)
            .ok_or_else(|| fail("a section header is cut short"))?;
        let entry_count = u32_at(header, 16) as usize;
        let lines_len = u32_at(header, 20) as usize;
        let metadata_len = u32_at(header, 24) as usize;
        let shared_len = u32_at(header, 28) as usize;
        if entry_count == 0 {
            return Err(fail("a section has no entries"));
        }
        let batch = self.batch;
        let mut at = start + SECTION_HEADER_LEN;
        let mut column = |len: usize| -> Result<Range<usize>, BatchError> {
            let end = at.checked_add(len).filter(|&end| end <= batch.len());
            let end = end.ok_or_else(|| fail("a column is cut short"))?;
            let range = at..end;
            at = end;
            Ok(range)
        };
        let lines = column(lines_len)?;
        let timestamps = column(entry_count.saturating_mul(8))?;
        let ends = column(entry_count * 4)?;
        let metadata = column(metadata_len)?;
        let shared = &batch[column(shared_len)?];
        let shares = if shared_len == 0 { 0 } else { entry_count };
        let (set_numbers, sets) = shared
            .split_at_checked(shares)
            .ok_or_else(|| fail("not every entry has the number of a shared set"))?;
        let mut stream = [0; 16];
        stream.copy_from_slice(&header[..16]);
        let section = Section {
            stream: StreamId::from_bytes(stream),
            min_ns: u64_at(header, 32) as i64,
            max_ns: u64_at(header, 40) as i64,
            lines: &batch[lines],
            timestamps: &batch[timestamps],
            ends: &batch[ends],
            metadata: &batch[metadata],
            set_numbers,
            sets: SharedSets::from_checked(sets),
        };
        self.offset = at;
        if self.is_checked {
            return Ok(section);
        }
        let mut last = 0;
        for end in section.ends() {
            if end < last {
                return Err(fail("line ends fall"));
            }
            last = end;
        }
        if last as usize != lines_len {
            return Err(fail("line ends do not cover the lines"));
        }
        if !section.metadata.is_empty() {
            check_metadata(section.metadata, entry_count).ok_or_else(|| fail("bad metadata"))?;
        }
        if !shared.is_empty() {
            let (_, set_count) =
                SharedSets::parse(sets).ok_or_else(|| fail("bad shared sets of metadata"))?;
            // Without an early exit, so that the compiler compares many numbers at once.
            if set_numbers.iter().fold(0, |most, &number| number.max(most)) > set_count {
                return Err(fail("a shared set of metadata is not there"));
            }
        }
        Ok(section)
    }
}

impl<'a> Iterator for Sections<'a> {
    type Item = Result<Section<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset >= self.batch.len() {
            return None;
        }
        let result = self.read();
        if result.is_err() {
            self.offset = self.batch.len();
        }
        Some(result)
    }
}

/// The little-endian number in the four bytes from `at` on.
///
/// # Panics
/// If `bytes` ends before them.
#[inline]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut raw = [0; 4];
    raw.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(raw)
}

/// The little-endian number in the eight bytes from `at` on.
///
/// # Panics
/// If `bytes` ends before them.
#[inline]
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(raw)
}
