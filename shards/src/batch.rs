//! The batch: entries of one push for one shard, as they travel through a lane
//! and as they lie in the write-ahead log. `docs/format.md` gives the bytes.
//!
//! Guarantees: [`BatchBuilder`] produces only batches that [`sections`] accepts;
//! [`sections`] and [`Section::entries`] meet arbitrary bytes without panic and
//! without allocating. What can go wrong is one thing, [`BatchError`]: the bytes
//! are not a batch.

mod memory;

use std::ops::Range;

use logsvc_proto::{StreamId, varint};

/// Bytes of a section before its lines.
pub const SECTION_HEADER_LEN: usize = 48;

/// Largest batch in bytes; a larger push is cut into several batches.
pub const BATCH_MAX_BYTES: usize = 64 << 20;

/// A section takes no further line once its lines have this many bytes; the rest
/// of the stream's entries goes to a section of its own.
const SECTION_TARGET_BYTES: usize = 1 << 20;

/// The bytes are not a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed batch: {what} at byte {offset}")]
pub struct BatchError {
    /// What did not hold.
    pub what: &'static str,
    /// Where the section or field begins.
    pub offset: usize,
}

/// Builds the batch of one shard. Sections are opened one at a time.
#[derive(Debug, Default)]
pub struct BatchBuilder {
    bytes: Vec<u8>,
    section_start: usize,
    stream: Option<StreamId>,
    timestamps: Vec<u8>,
    ends: Vec<u8>,
    /// Empty until an entry of the section has metadata.
    metadata: Vec<u8>,
    entry_count: u32,
    section_count: u32,
    total_entries: u64,
    min_ns: i64,
    max_ns: i64,
}

impl BatchBuilder {
    /// A builder that writes into `buffer`, which is cleared first.
    pub fn new(mut buffer: Vec<u8>) -> BatchBuilder {
        buffer.clear();
        BatchBuilder { bytes: buffer, ..BatchBuilder::default() }
    }

    /// Opens a section. The one before must have been closed.
    pub fn begin(&mut self, stream: StreamId) {
        debug_assert!(self.stream.is_none(), "a section is open");
        if self.bytes.capacity() == 0 {
            self.take_memory();
        }
        self.stream = Some(stream);
        self.section_start = self.bytes.len();
        self.bytes.resize(self.section_start + SECTION_HEADER_LEN, 0);
        self.timestamps.clear();
        self.ends.clear();
        self.metadata.clear();
        self.entry_count = 0;
        self.min_ns = i64::MAX;
        self.max_ns = i64::MIN;
    }

    fn take_memory(&mut self) {
        self.bytes = memory::take_batch();
        let columns = [&mut self.timestamps, &mut self.ends, &mut self.metadata];
        columns.into_iter().for_each(|column| *column = memory::take_column());
    }

    /// Appends an entry to the open section. `metadata` must be sorted by name,
    /// with unique names, and UTF-8.
    pub fn push<T: AsRef<[u8]>>(
        &mut self,
        timestamp_ns: i64,
        line: &[u8],
        metadata: impl Iterator<Item = (T, T)>,
    ) {
        debug_assert!(self.stream.is_some(), "no section is open");
        if self.bytes.len() - self.section_start > SECTION_TARGET_BYTES
            && let Some(stream) = self.stream
        {
            // Bounds what the owner appends to a head in one go.
            self.end();
            self.begin(stream);
        }
        self.bytes.extend_from_slice(line);
        let lines_len = self.bytes.len() - self.section_start - SECTION_HEADER_LEN;
        self.ends.extend_from_slice(&(lines_len as u32).to_le_bytes());
        self.timestamps.extend_from_slice(&timestamp_ns.to_le_bytes());
        self.min_ns = self.min_ns.min(timestamp_ns);
        self.max_ns = self.max_ns.max(timestamp_ns);
        self.push_metadata(metadata);
        self.entry_count += 1;
    }

    #[inline]
    fn push_metadata<T: AsRef<[u8]>>(&mut self, mut metadata: impl Iterator<Item = (T, T)>) {
        let first = metadata.next();
        if first.is_none() && self.metadata.is_empty() {
            return;
        }
        if self.metadata.is_empty() {
            // Entries before the first one with metadata have zero pairs each.
            self.metadata.resize(self.entry_count as usize, 0);
        }
        // Nearly always the number of pairs takes one byte.
        let count_at = self.metadata.len();
        self.metadata.push(0);
        let mut pairs = 0_u64;
        for (name, value) in first.into_iter().chain(metadata) {
            pairs += 1;
            for text in [name.as_ref(), value.as_ref()] {
                varint::write(&mut self.metadata, text.len() as u64);
                self.metadata.extend_from_slice(text);
            }
        }
        if pairs < 0x80 {
            self.metadata[count_at] = pairs as u8;
            return;
        }
        let mut count = Vec::new();
        varint::write(&mut count, pairs);
        self.metadata.splice(count_at..=count_at, count);
    }

    /// Closes the open section; one without entries leaves no trace.
    pub fn end(&mut self) {
        let Some(stream) = self.stream.take() else { return };
        if self.entry_count == 0 {
            self.bytes.truncate(self.section_start);
            return;
        }
        let lines_len = self.bytes.len() - self.section_start - SECTION_HEADER_LEN;
        self.bytes.extend_from_slice(&self.timestamps);
        self.bytes.extend_from_slice(&self.ends);
        self.bytes.extend_from_slice(&self.metadata);
        let header = &mut self.bytes[self.section_start..self.section_start + SECTION_HEADER_LEN];
        header[0..16].copy_from_slice(&stream.to_bytes());
        header[16..20].copy_from_slice(&self.entry_count.to_le_bytes());
        header[20..24].copy_from_slice(&(lines_len as u32).to_le_bytes());
        header[24..28].copy_from_slice(&(self.metadata.len() as u32).to_le_bytes());
        header[32..40].copy_from_slice(&self.min_ns.to_le_bytes());
        header[40..48].copy_from_slice(&self.max_ns.to_le_bytes());
        self.section_count += 1;
        self.total_entries += u64::from(self.entry_count);
    }

    /// Bytes written so far, including the open section's lines.
    pub fn len_bytes(&self) -> usize {
        self.bytes.len() + self.timestamps.len() + self.ends.len() + self.metadata.len()
    }

    /// Whether no section holds an entry.
    pub fn is_empty(&self) -> bool {
        self.section_count == 0
    }

    /// Entries in the closed sections.
    pub fn entry_count(&self) -> u64 {
        self.total_entries
    }

    /// The finished batch.
    pub fn finish(mut self) -> Vec<u8> {
        self.end();
        let BatchBuilder { bytes, timestamps, ends, metadata, .. } = self;
        [timestamps, ends, metadata].into_iter().for_each(memory::give_column);
        bytes
    }
}

/// Gives the memory of a batch back, for one that is made on this core later on.
pub(crate) fn recycle(batch: Vec<u8>) {
    memory::give_batch(batch);
}

/// One section of a batch, borrowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Section<'a> {
    /// The stream all entries belong to.
    pub stream: StreamId,
    /// Smallest timestamp, as the section claims it.
    pub min_ns: i64,
    /// Largest timestamp, as the section claims it.
    pub max_ns: i64,
    /// All lines, one after another.
    pub lines: &'a [u8],
    timestamps: &'a [u8],
    ends: &'a [u8],
    /// The metadata column, empty if no entry has metadata.
    pub metadata: &'a [u8],
}

impl<'a> Section<'a> {
    /// Number of entries, at least 1.
    pub fn entry_count(&self) -> usize {
        self.ends.len() / 4
    }

    /// Timestamps in arrival order.
    pub fn timestamps(&self) -> impl ExactSizeIterator<Item = i64> + Clone + use<'a> {
        self.timestamps.chunks_exact(8).map(|raw| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(raw);
            i64::from_le_bytes(bytes)
        })
    }

    /// Exclusive ends of the lines within [`Section::lines`].
    pub fn ends(&self) -> impl ExactSizeIterator<Item = u32> + Clone + use<'a> {
        self.ends.chunks_exact(4).map(|raw| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(raw);
            u32::from_le_bytes(bytes)
        })
    }

    /// The entries in arrival order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = SectionEntry<'a>> + Clone + use<'a> {
        let lines = self.lines;
        let mut start = 0usize;
        let mut metadata = MetadataPairs { bytes: self.metadata };
        let has_metadata = !self.metadata.is_empty();
        self.timestamps().zip(self.ends()).map(move |(timestamp_ns, end)| {
            let end = end as usize;
            let line = &lines[start..end];
            start = end;
            let entry_metadata =
                if has_metadata { metadata.split_entry() } else { MetadataPairs { bytes: &[] } };
            SectionEntry { timestamp_ns, line, metadata: entry_metadata }
        })
    }
}

/// One entry of a section.
#[derive(Clone, Copy, Debug)]
pub struct SectionEntry<'a> {
    /// Nanoseconds since the Unix epoch.
    pub timestamp_ns: i64,
    /// The line, any bytes.
    pub line: &'a [u8],
    /// Its structured metadata.
    pub metadata: MetadataPairs<'a>,
}

/// Structured metadata of one entry within a checked column: the pairs without
/// their count. Iterates over (name, value).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataPairs<'a> {
    bytes: &'a [u8],
}

impl<'a> MetadataPairs<'a> {
    /// No metadata.
    pub const NONE: MetadataPairs<'static> = MetadataPairs { bytes: &[] };

    /// Pairs that [`MetadataPairs::as_bytes`] gave before.
    pub(crate) fn from_checked(bytes: &'a [u8]) -> MetadataPairs<'a> {
        MetadataPairs { bytes }
    }

    /// Whether the entry has no metadata.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The encoded pairs: equal bytes mean equal metadata.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Names and values, whose UTF-8 is not looked at once more.
    pub(crate) fn texts(mut self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        std::iter::from_fn(move || {
            Some((read_bytes(&mut self.bytes)?, read_bytes(&mut self.bytes)?))
        })
    }

    /// Cuts the next entry off a column. Relies on [`check_metadata`].
    fn split_entry(&mut self) -> MetadataPairs<'a> {
        let mut cursor = self.bytes;
        let pairs = read_varint(&mut cursor).unwrap_or(0);
        let start = self.bytes.len() - cursor.len();
        for _ in 0..pairs {
            for _ in 0..2 {
                let len = read_varint(&mut cursor).unwrap_or(0) as usize;
                cursor = &cursor[len.min(cursor.len())..];
            }
        }
        let end = self.bytes.len() - cursor.len();
        let entry = MetadataPairs { bytes: &self.bytes[start..end] };
        self.bytes = cursor;
        entry
    }
}

impl<'a> Iterator for MetadataPairs<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<(&'a str, &'a str)> {
        let name = read_text(&mut self.bytes)?;
        let value = read_text(&mut self.bytes)?;
        Some((name, value))
    }
}

/// Iterates over the sections of a batch, checking each as it goes.
pub fn sections(batch: &[u8]) -> Sections<'_> {
    Sections { batch, offset: 0, is_checked: false }
}

/// Like [`sections`], for the bytes of a batch that [`sections`] has found good: nothing is
/// looked at but the sections' headers.
pub(crate) fn checked_sections(batch: &[u8]) -> Sections<'_> {
    Sections { batch, offset: 0, is_checked: true }
}

/// See [`sections`].
#[derive(Clone, Debug)]
pub struct Sections<'a> {
    batch: &'a [u8],
    offset: usize,
    /// Whether the columns are known to be good.
    is_checked: bool,
}

impl<'a> Sections<'a> {
    /// Where in the batch the next section begins.
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

/// Whether `column` holds exactly `entry_count` entries of well-formed pairs.
fn check_metadata(mut column: &[u8], entry_count: usize) -> Option<()> {
    // So are nearly all: counts and lengths below 128 are ASCII, too. Then each text is.
    let is_ascii = column.is_ascii();
    for _ in 0..entry_count {
        let pairs = read_varint(&mut column)?;
        for _ in 0..2 * u64::from(pairs) {
            if is_ascii {
                read_bytes(&mut column)?;
            } else {
                read_text(&mut column)?;
            }
        }
    }
    column.is_empty().then_some(())
}

#[inline]
fn read_text<'a>(cursor: &mut &'a [u8]) -> Option<&'a str> {
    std::str::from_utf8(read_bytes(cursor)?).ok()
}

#[inline]
fn read_bytes<'a>(cursor: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = read_varint(cursor)? as usize;
    let (bytes, rest) = cursor.split_at_checked(len)?;
    *cursor = rest;
    Some(bytes)
}

#[inline]
fn read_varint(cursor: &mut &[u8]) -> Option<u32> {
    let mut position = 0;
    let value = varint::read(cursor, &mut position).ok()?;
    *cursor = &cursor[position..];
    u32::try_from(value).ok()
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut raw = [0; 4];
    raw.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(raw)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: std::iter::Empty<(&str, &str)> = std::iter::empty();

    fn sample() -> Vec<u8> {
        let mut builder = BatchBuilder::new(Vec::new());
        builder.begin(StreamId(7));
        builder.push(10, b"first", NONE);
        builder.push(-5, b"", [("a", "1"), ("b", "x\u{e9}")].into_iter());
        builder.push(11, b"third", NONE);
        builder.end();
        builder.begin(StreamId(8));
        builder.end();
        builder.begin(StreamId(u128::MAX));
        builder.push(1, b"\xff\0", NONE);
        builder.end();
        assert_eq!(builder.entry_count(), 4);
        builder.finish()
    }

    #[test]
    fn what_was_built_reads_back() {
        let batch = sample();
        let read: Vec<_> = sections(&batch).collect::<Result<_, _>>().unwrap();
        assert_eq!(read.len(), 2, "an empty section leaves no trace");
        assert_eq!((read[0].stream, read[0].min_ns, read[0].max_ns), (StreamId(7), -5, 11));
        let entries: Vec<_> = read[0]
            .entries()
            .map(|entry| (entry.timestamp_ns, entry.line, entry.metadata.collect::<Vec<_>>()))
            .collect();
        assert_eq!(
            entries,
            vec![
                (10, &b"first"[..], vec![]),
                (-5, b"", vec![("a", "1"), ("b", "x\u{e9}")]),
                (11, b"third", vec![]),
            ]
        );
        assert_eq!(read[1].entries().next().unwrap().line, b"\xff\0");
    }

    #[test]
    fn any_number_of_pairs_reads_back() {
        for count in [0, 1, 127, 128, 300] {
            let pairs: Vec<(String, String)> =
                (0..count).map(|n| (format!("name_{n:03}"), "\u{e9}".repeat(n % 90))).collect();
            let mut builder = BatchBuilder::new(Vec::new());
            builder.begin(StreamId(7));
            builder.push(1, b"before", NONE);
            builder.push(2, b"with", pairs.iter().map(|(name, value)| (name, value)));
            builder.push(3, b"behind", NONE);
            let batch = builder.finish();
            let section = sections(&batch).next().unwrap().unwrap();
            let read: Vec<Vec<_>> =
                section.entries().map(|entry| entry.metadata.collect()).collect();
            let expected: Vec<_> = pairs.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            assert_eq!(read, [vec![], expected, vec![]], "{count} pairs");
        }
    }

    #[test]
    fn texts_that_are_not_utf8_are_refused_among_ascii() {
        for bad in [&b"\xff"[..], b"\xc3", b"x\xed\xa0\x80"] {
            let mut builder = BatchBuilder::new(Vec::new());
            builder.begin(StreamId(7));
            builder.push(2, b"line", [(&b"a"[..], bad), (b"b", b"good")].into_iter());
            let batch = builder.finish();
            let error = sections(&batch).next().unwrap().unwrap_err();
            assert_eq!(error.what, "bad metadata", "{bad:?}");
        }
    }

    #[test]
    fn every_cut_and_every_flipped_byte_is_read_without_panic() {
        let batch = sample();
        for len in 0..batch.len() {
            let complete = sections(&batch[..len]).all(|section| section.is_ok());
            let mut walk = sections(&batch);
            let mut ends = vec![0];
            while walk.next().is_some() {
                ends.push(walk.offset());
            }
            assert_eq!(complete, ends.contains(&len), "cut at {len}");
        }
        for at in 0..batch.len() {
            for mask in [0x01, 0x80, 0xff] {
                let mut bad = batch.clone();
                bad[at] ^= mask;
                for section in sections(&bad).flatten() {
                    for entry in section.entries() {
                        assert!(entry.metadata.count() <= batch.len());
                    }
                }
            }
        }
    }
}
