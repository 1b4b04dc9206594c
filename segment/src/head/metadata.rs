//! The structured metadata of a block's entries.
//!
//! Guarantees: a shared set, such as a level, takes one byte of each entry, and the pairs of
//! the set once per block. Other pairs are stored with each entry, and so are shared pairs for
//! which the table of the block has no room. A block without own pairs takes a pointer for
//! them.

use super::range_of;
use crate::batch::{MetadataPairs, SHARED_SETS_MAX, Section, SetTable, SharedSets};

/// The metadata columns of a block. Each column has an element per entry, or none at all.
#[derive(Debug, Default)]
pub(super) struct HeadMetadata {
    /// Numbers of the entries' shared sets; empty if none has one.
    set_numbers: Vec<u8>,
    sets: SetTable,
    own: Option<Box<OwnPairs>>,
}

/// Pairs that entries do not share.
#[derive(Debug, Default)]
struct OwnPairs {
    /// As in a batch, but without counts.
    bytes: Vec<u8>,
    /// Exclusive ends of the entries' pairs; empty if none has any.
    ends: Vec<u32>,
}

impl OwnPairs {
    /// Adds entries without own pairs until there are `entries`.
    fn fill_to(&mut self, entries: usize) {
        let end = self.bytes.len() as u32;
        self.ends.resize(entries, end);
    }

    fn end_entry(&mut self) {
        self.ends.push(self.bytes.len() as u32);
    }
}

impl HeadMetadata {
    /// Whether any entry has metadata.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.set_numbers.is_empty() && self.own_columns().1.is_empty()
    }

    /// The metadata of the entry at `index`.
    #[inline]
    pub(super) fn get(&self, index: usize) -> MetadataPairs<'_> {
        let number = self.set_numbers.get(index).copied().unwrap_or(0);
        let (bytes, ends) = self.own_columns();
        let own = if ends.is_empty() { &[] } else { &bytes[range_of(ends, index)] };
        MetadataPairs::from_checked(self.sets.sets().get(number), own)
    }

    /// For each entry the number of its shared set, and the sets; no numbers if none has one.
    #[inline]
    pub(super) fn shared_columns(&self) -> (&[u8], SharedSets<'_>) {
        (&self.set_numbers, self.sets.sets())
    }

    /// The own pairs of all entries, as in a batch but without counts, and the exclusive end of
    /// each entry's pairs; both are empty if no entry has own pairs.
    #[inline]
    pub(super) fn own_columns(&self) -> (&[u8], &[u32]) {
        self.own.as_ref().map_or((&[], &[]), |own| (&own.bytes, &own.ends))
    }

    /// Bytes of the names and values of all entries.
    pub(super) fn text_bytes(&self) -> u64 {
        let (_, ends) = self.own_columns();
        if ends.is_empty() {
            let mut lens = [0u64; SHARED_SETS_MAX + 1];
            for (set, len) in self.sets.sets().iter().zip(&mut lens[1..]) {
                *len = MetadataPairs::from_checked(set, &[]).text_bytes();
            }
            return self.set_numbers.iter().map(|&number| lens[usize::from(number)]).sum();
        }
        (0..ends.len().max(self.set_numbers.len())).map(|index| self.get(index).text_bytes()).sum()
    }

    /// Appends the metadata of the entry at `index`, which is the next one.
    pub(super) fn push(&mut self, index: usize, metadata: MetadataPairs<'_>) {
        let known = self.sets.number_of(metadata.shared_bytes());
        let number = known.unwrap_or(0);
        if number != 0 || !self.set_numbers.is_empty() {
            self.set_numbers.resize(index, 0);
            self.set_numbers.push(number);
        }
        let kept = match known {
            Some(_) => MetadataPairs::from_checked(&[], metadata.own_bytes()),
            None => metadata,
        };
        if !kept.is_empty() || !self.own_columns().1.is_empty() {
            let own = self.own.get_or_insert_default();
            own.fill_to(index);
            kept.write_to(&mut own.bytes);
            own.end_entry();
        }
    }

    /// Appends the metadata of a section whose first entry is the entry at `index`.
    pub(super) fn push_section(&mut self, index: usize, section: &Section<'_>) {
        let entries = section.entry_count();
        let Some(numbers) = self.numbers_of(section.sets) else {
            for (entry, index) in section.entries().zip(index..) {
                self.push(index, entry.metadata);
            }
            return;
        };
        if !section.set_numbers.is_empty() {
            self.set_numbers.resize(index, 0);
            let ours = |&theirs: &u8| numbers[usize::from(theirs)];
            self.set_numbers.extend(section.set_numbers.iter().map(ours));
        } else if !self.set_numbers.is_empty() {
            self.set_numbers.resize(index + entries, 0);
        }
        if section.has_own_metadata() {
            let own = self.own.get_or_insert_default();
            own.fill_to(index);
            for entry in section.entries() {
                own.bytes.extend_from_slice(entry.metadata.own_bytes());
                own.end_entry();
            }
        } else if let Some(own) = self.own.as_mut().filter(|own| !own.ends.is_empty()) {
            own.fill_to(index + entries);
        }
    }

    /// For each set of a section its number in this block; `None` if the table has no room.
    fn numbers_of(&mut self, sets: SharedSets<'_>) -> Option<[u8; SHARED_SETS_MAX + 1]> {
        let mut numbers = [0; SHARED_SETS_MAX + 1];
        for (set, number) in sets.iter().zip(&mut numbers[1..]) {
            *number = self.sets.number_of(set)?;
        }
        Some(numbers)
    }

    /// Forgets everything and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.set_numbers.clear();
        self.sets.clear();
        if let Some(own) = &mut self.own {
            own.bytes.clear();
            own.ends.clear();
        }
    }

    /// Becomes a copy of `other`.
    pub(super) fn copy_from(&mut self, other: &HeadMetadata) {
        self.clear();
        self.set_numbers.extend_from_slice(&other.set_numbers);
        self.sets.copy_from(&other.sets);
        let (bytes, ends) = other.own_columns();
        if !ends.is_empty() {
            let own = self.own.get_or_insert_default();
            own.bytes.extend_from_slice(bytes);
            own.ends.extend_from_slice(ends);
        }
    }

    /// Bytes that it occupies besides itself.
    pub(super) fn held_bytes(&self) -> usize {
        let own = self.own.as_ref().map_or(0, |own| {
            size_of::<OwnPairs>() + own.bytes.capacity() + own.ends.capacity() * size_of::<u32>()
        });
        self.set_numbers.capacity() + self.sets.held_bytes() + own
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{BatchBuilder, sections};
    use logsvc_proto::StreamId;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    type Pairs = Vec<(String, String)>;

    /// Random metadata: shared and own pairs.
    fn random_metadata(rng: &mut Rng, values: u64) -> (Pairs, Pairs) {
        let pairs = |name: &str, value: String| vec![(name.to_owned(), value)];
        let shared = match rng.below(4) {
            0 => Vec::new(),
            _ => pairs("detected_level", format!("level {}", rng.below(values))),
        };
        let own = match rng.below(3) {
            0 => pairs("a", "\u{e9}".repeat(rng.below(3) as usize)),
            1 => pairs("trace_id", format!("{:032x}", rng.next_u64())),
            _ => Vec::new(),
        };
        (shared, own)
    }

    fn owned(metadata: MetadataPairs<'_>) -> Pairs {
        metadata.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn sections_and_entries_read_back_however_many_sets_they_share() {
        for seed in seeds(300) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let has_own = rng.one_in(2);
            // Sometimes more sets than a table has room for.
            let values = *rng.pick(&[1, 4, 1000]);
            let (mut column, mut expected) = (HeadMetadata::default(), Vec::new());
            for _ in 0..rng.below(8) {
                let mut builder = BatchBuilder::new(Vec::new());
                builder.begin(StreamId(1));
                let first = expected.len();
                for _ in 0..rng.between(1, 200) {
                    let (shared, mut own) = random_metadata(&mut rng, values);
                    own.truncate(if has_own { 1 } else { 0 });
                    let shared_bytes: Vec<_> =
                        shared.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
                    builder.push_sharing(7, b"x", &shared_bytes, own.iter().map(|(n, v)| (n, v)));
                    let mut union = [shared, own].concat();
                    union.sort();
                    expected.push(union);
                }
                let batch = builder.finish();
                let section = sections(&batch).next().unwrap().unwrap();
                if rng.one_in(3) {
                    for (entry, index) in section.entries().zip(first..) {
                        column.push(index, entry.metadata);
                    }
                } else {
                    column.push_section(first, &section);
                }
            }
            let read = |column: &HeadMetadata| {
                (0..expected.len()).map(|i| owned(column.get(i))).collect::<Vec<_>>()
            };
            assert_eq!(read(&column), expected);
            assert_eq!(column.is_empty(), expected.iter().all(Vec::is_empty));
            let mut copy = HeadMetadata::default();
            copy.push(0, column.get(0));
            copy.copy_from(&column);
            assert_eq!(read(&copy), expected);
            copy.clear();
            assert!(copy.is_empty());
        }
    }

    #[test]
    fn a_level_takes_a_byte_of_an_entry() {
        let mut builder = BatchBuilder::new(Vec::new());
        let none = std::iter::empty::<(&str, &str)>();
        builder.begin(StreamId(1));
        for number in 0..4096_i64 {
            let level: &[u8] = if number % 3 == 0 { b"error" } else { b"info" };
            builder.push_sharing(number, b"", &[(b"detected_level", level)], none.clone());
        }
        let batch = builder.finish();
        let section = sections(&batch).next().unwrap().unwrap();
        assert_eq!(section.metadata_len(), 4096 + 22 + 21);
        let mut column = HeadMetadata::default();
        column.push_section(0, &section);
        assert!(column.held_bytes() < 4096 + 100, "{}", column.held_bytes());
        assert!(column.own.is_none());
    }
}
