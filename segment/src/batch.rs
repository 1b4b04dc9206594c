//! The batch: entries of one push for one shard. A batch has the same bytes on its way to the
//! shard and in the write-ahead log. `docs/format.md` gives the bytes.
//!
//! Guarantees: [`BatchBuilder`] produces only batches that [`sections`] accepts;
//! [`sections`] and [`Section::entries`] read arbitrary bytes without panic and
//! without allocating. The only error is [`BatchError`]: the bytes are not a batch.

mod memory;
mod metadata;
mod section;
mod shared;

use logsvc_proto::{StreamId, varint};

pub use metadata::MetadataPairs;
pub(crate) use metadata::write_pair;
pub use section::{Section, SectionEntry, Sections, checked_sections, sections, u32_at, u64_at};

pub(crate) use shared::SetTable;
pub use shared::{SHARED_SETS_MAX, SharedSets};

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
    /// The rule that the bytes break.
    pub what: &'static str,
    /// Where the section or field begins.
    pub offset: usize,
}

/// Builds the batch of one shard. Sections are opened one at a time.
#[derive(Debug, Default)]
pub struct BatchBuilder {
    bytes: Vec<u8>,
    /// Bytes of memory to take when the first section is opened.
    expected_bytes: usize,
    section_start: usize,
    stream: Option<StreamId>,
    timestamps: Vec<u8>,
    ends: Vec<u8>,
    /// Empty until an entry of the section has metadata of its own.
    metadata: Vec<u8>,
    /// Numbers of the entries' shared sets; empty until one has a set.
    set_numbers: Vec<u8>,
    sets: SetTable,
    /// The shared pairs of the last entry that had some, encoded, and the number of their set
    /// in the open section.
    last_shared: Vec<u8>,
    last_number: u8,
    /// The shared pairs of an entry, encoded.
    shared: Vec<u8>,
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

    /// A builder of a batch that will probably have `expected_bytes`. The builder takes memory
    /// when the first section is opened.
    pub fn expecting(expected_bytes: usize) -> BatchBuilder {
        BatchBuilder { expected_bytes, ..BatchBuilder::default() }
    }

    /// Opens a section. No other section may be open.
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
        self.set_numbers.clear();
        self.sets.clear();
        self.last_shared.clear();
        self.last_number = 0;
        self.entry_count = 0;
        self.min_ns = i64::MAX;
        self.max_ns = i64::MIN;
    }

    fn take_memory(&mut self) {
        self.bytes = memory::take_batch(self.expected_bytes);
        self.sets = SetTable::within(memory::take_column());
        let columns =
            [&mut self.timestamps, &mut self.ends, &mut self.metadata, &mut self.set_numbers];
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
        self.push_line(timestamp_ns, line);
        self.push_number(0);
        self.push_metadata(metadata);
        self.entry_count += 1;
    }

    /// Appends an entry like [`Self::push`], with pairs that many entries of a push have, such
    /// as a level: the section stores each distinct `shared` set once. Both `shared` and `own`
    /// must be sorted by name, with unique names, and UTF-8. If both have a name, the pair in
    /// `own` is the entry's.
    pub fn push_sharing<T: AsRef<[u8]>>(
        &mut self,
        timestamp_ns: i64,
        line: &[u8],
        shared: &[(&[u8], &[u8])],
        own: impl Iterator<Item = (T, T)>,
    ) {
        self.push_line(timestamp_ns, line);
        // Neighbours often have the same set.
        let number = if metadata::encodes(&self.last_shared, shared) {
            Some(self.last_number)
        } else {
            self.shared.clear();
            shared.iter().for_each(|(name, value)| write_pair(name, value, &mut self.shared));
            self.shared_number()
        };
        match number {
            Some(number) => {
                self.push_number(number);
                self.push_metadata(own);
            }
            None => {
                let mut encoded = Vec::new();
                own.for_each(|(name, value)| {
                    write_pair(name.as_ref(), value.as_ref(), &mut encoded);
                });
                self.push_unshared(&encoded);
            }
        }
        self.entry_count += 1;
    }

    /// Appends an entry of another section; its shared pairs are shared here too.
    pub fn push_entry(&mut self, entry: &SectionEntry<'_>) {
        self.push_line(entry.timestamp_ns, entry.line);
        self.shared.clear();
        self.shared.extend_from_slice(entry.metadata.shared_bytes());
        let own = entry.metadata.own_bytes();
        match self.shared_number() {
            Some(number) => {
                self.push_number(number);
                self.push_metadata(MetadataPairs::from_checked(&[], own).texts());
            }
            None => self.push_unshared(own),
        }
        self.entry_count += 1;
    }

    /// Appends the line of an entry and its time.
    #[inline]
    fn push_line(&mut self, timestamp_ns: i64, line: &[u8]) {
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
    }

    /// The number of the set `self.shared`; `None` if the section cannot have it.
    #[inline]
    fn shared_number(&mut self) -> Option<u8> {
        if self.shared != self.last_shared {
            self.last_number = self.sets.number_of(&self.shared)?;
            self.last_shared.clone_from(&self.shared);
        }
        Some(self.last_number)
    }

    #[inline]
    fn push_number(&mut self, number: u8) {
        if number != 0 && self.set_numbers.is_empty() {
            // Entries before the first one with a set have none.
            self.set_numbers.resize(self.entry_count as usize, 0);
        }
        if number != 0 || !self.set_numbers.is_empty() {
            self.set_numbers.push(number);
        }
    }

    /// Appends the metadata of an entry as its own: the pairs of `self.shared` and `own`.
    fn push_unshared(&mut self, own: &[u8]) {
        self.push_number(0);
        let shared = std::mem::take(&mut self.shared);
        self.push_metadata(MetadataPairs::from_checked(&shared, own).texts());
        self.shared = shared;
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

    /// Closes the open section. A section without entries is dropped.
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
        let shared_start = self.bytes.len();
        if !self.set_numbers.is_empty() {
            self.bytes.extend_from_slice(&self.set_numbers);
            self.bytes.extend_from_slice(self.sets.sets().as_bytes());
        }
        let shared_len = self.bytes.len() - shared_start;
        let header = &mut self.bytes[self.section_start..self.section_start + SECTION_HEADER_LEN];
        header[0..16].copy_from_slice(&stream.to_bytes());
        header[16..20].copy_from_slice(&self.entry_count.to_le_bytes());
        header[20..24].copy_from_slice(&(lines_len as u32).to_le_bytes());
        header[24..28].copy_from_slice(&(self.metadata.len() as u32).to_le_bytes());
        header[28..32].copy_from_slice(&(shared_len as u32).to_le_bytes());
        header[32..40].copy_from_slice(&self.min_ns.to_le_bytes());
        header[40..48].copy_from_slice(&self.max_ns.to_le_bytes());
        self.section_count += 1;
        self.total_entries += u64::from(self.entry_count);
    }

    /// Bytes written so far, including the open section's lines.
    #[inline]
    pub fn len_bytes(&self) -> usize {
        let columns = [&self.timestamps, &self.ends, &self.metadata, &self.set_numbers];
        let columns_len: usize = columns.into_iter().map(Vec::len).sum();
        self.bytes.len() + columns_len + self.sets.sets().as_bytes().len()
    }

    /// Whether no section holds an entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.section_count == 0
    }

    /// Entries in the closed sections.
    #[inline]
    pub fn entry_count(&self) -> u64 {
        self.total_entries
    }

    /// The finished batch.
    pub fn finish(mut self) -> Vec<u8> {
        self.end();
        let BatchBuilder { bytes, timestamps, ends, metadata, set_numbers, sets, .. } = self;
        [timestamps, ends, metadata, set_numbers, sets.into_memory()]
            .into_iter()
            .for_each(memory::give_column);
        bytes
    }
}

/// Keeps the memory of a batch for the next batches that this thread builds.
pub fn recycle(batch: Vec<u8>) {
    memory::give_batch(batch);
}

#[cfg(test)]
mod tests;
