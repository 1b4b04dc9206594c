//! Tables of metadata sets. Entries refer to a set by a number of one byte, so that a section
//! and a head block store a set once that many entries have.
//!
//! Guarantees: a table has at most [`SHARED_SETS_MAX`] distinct sets of at most
//! [`SHARED_SET_MAX_BYTES`] each, so it takes 64 KiB at most. The caller keeps a set that does
//! not fit with its entry. Numbers count from 1; number 0 is the empty set.
//! [`SharedSets::parse`] accepts only well-formed sets, of arbitrary bytes.

use logsvc_proto::varint;

use super::metadata::{read_bytes, read_text};

/// Most sets of a table: their numbers are bytes, and 0 means none.
pub const SHARED_SETS_MAX: usize = 255;

/// Most bytes of the pairs of a set. It bounds the metadata that an entry of few bytes can have.
const SHARED_SET_MAX_BYTES: usize = 256;

/// The encoded sets of a table: for each set a varint length and its pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedSets<'a> {
    bytes: &'a [u8],
}

impl<'a> SharedSets<'a> {
    /// No sets.
    pub const NONE: SharedSets<'static> = SharedSets { bytes: &[] };

    /// Sets that [`Self::parse`] has accepted or a [`SetTable`] has written.
    #[inline]
    pub(crate) fn from_checked(bytes: &'a [u8]) -> SharedSets<'a> {
        SharedSets { bytes }
    }

    /// The sets in arbitrary bytes, and their number. `None` if they are malformed: a set is
    /// empty or longer than [`SHARED_SET_MAX_BYTES`], names do not ascend, a text is not UTF-8,
    /// or there are more than [`SHARED_SETS_MAX`] sets.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<(SharedSets<'a>, u8)> {
        let mut cursor = bytes;
        let mut count = 0_u8;
        while !cursor.is_empty() {
            let mut set = read_bytes(&mut cursor)?;
            if set.len() > SHARED_SET_MAX_BYTES {
                return None;
            }
            let mut last = "";
            loop {
                let name = read_text(&mut set)?;
                read_text(&mut set)?;
                if name <= last {
                    return None;
                }
                last = name;
                if set.is_empty() {
                    break;
                }
            }
            count = count.checked_add(1)?;
        }
        Some((SharedSets { bytes }, count))
    }

    /// The pairs of each set in the order of their numbers, which begin at 1.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = &'a [u8]> + Clone {
        let mut cursor = self.bytes;
        std::iter::from_fn(move || read_bytes(&mut cursor))
    }

    /// The pairs of the set with this number; empty if there is no such set.
    #[inline]
    pub fn get(self, number: u8) -> &'a [u8] {
        match number.checked_sub(1) {
            None => &[],
            Some(before) => self.iter().nth(usize::from(before)).unwrap_or(&[]),
        }
    }

    /// Number of sets.
    #[inline]
    pub(crate) fn count(self) -> usize {
        self.iter().count()
    }

    /// The encoded sets.
    #[inline]
    pub(crate) fn as_bytes(self) -> &'a [u8] {
        self.bytes
    }
}

/// A table of sets to which sets are added.
#[derive(Debug, Default, Clone)]
pub(crate) struct SetTable {
    bytes: Vec<u8>,
}

impl SetTable {
    /// An empty table that uses `memory`.
    pub(super) fn within(mut memory: Vec<u8>) -> SetTable {
        memory.clear();
        SetTable { bytes: memory }
    }

    /// The number of the set with these pairs; a new set is added. `None` if the table has no
    /// room for it.
    pub(crate) fn number_of(&mut self, pairs: &[u8]) -> Option<u8> {
        let mut number = 0;
        for set in self.sets().iter() {
            number += 1;
            if set == pairs {
                return u8::try_from(number).ok();
            }
        }
        if number == SHARED_SETS_MAX || pairs.len() > SHARED_SET_MAX_BYTES || pairs.is_empty() {
            return pairs.is_empty().then_some(0);
        }
        varint::write(&mut self.bytes, pairs.len() as u64);
        self.bytes.extend_from_slice(pairs);
        u8::try_from(number + 1).ok()
    }

    pub(crate) fn sets(&self) -> SharedSets<'_> {
        SharedSets { bytes: &self.bytes }
    }

    /// Forgets all sets and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Replaces the sets by those of `other`.
    pub(crate) fn copy_from(&mut self, other: &SetTable) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&other.bytes);
    }

    /// Bytes that the table occupies.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) fn into_memory(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(value: &str) -> Vec<u8> {
        let mut out = Vec::new();
        super::super::metadata::write_pair(b"n", value.as_bytes(), &mut out);
        out
    }

    #[test]
    fn a_set_has_one_number_and_the_table_an_end() {
        let mut table = SetTable::default();
        assert_eq!(table.number_of(&[]), Some(0));
        for round in 0..2 {
            for number in 1..=SHARED_SETS_MAX {
                let pairs = pair(&format!("value {number}"));
                assert_eq!(table.number_of(&pairs), u8::try_from(number).ok(), "round {round}");
                assert_eq!(table.sets().get(number as u8), pairs);
            }
        }
        assert_eq!(table.number_of(&pair("one more")), None);
        let (sets, count) = SharedSets::parse(table.sets().as_bytes()).unwrap();
        assert_eq!((sets.count(), usize::from(count)), (SHARED_SETS_MAX, SHARED_SETS_MAX));
        assert_eq!(sets.get(0), b"");
        let mut other = SetTable::within(vec![1; 100]);
        assert_eq!(other.number_of(&pair(&"x".repeat(SHARED_SET_MAX_BYTES))), None);
        assert_eq!(other.number_of(&pair("short")), Some(1));
        assert_eq!(other.sets().get(2), b"");
    }

    #[test]
    fn malformed_sets_are_refused() {
        let good = b"\x08\x01a\x01v\x01b\x01w";
        assert_eq!(SharedSets::parse(good).unwrap().1, 1);
        assert_eq!(SharedSets::parse(b"").unwrap().1, 0);
        let bad: [&[u8]; 7] = [
            b"\x00",
            b"\x02\x01a",
            b"\x04\x00\x02vw",
            b"\x08\x01b\x01v\x01a\x01w",
            b"\x08\x01a\x01v\x01a\x01w",
            b"\x04\x01a\x01\xff",
            b"\x05\x01a\x01v",
        ];
        for sets in bad {
            assert_eq!(SharedSets::parse(sets), None, "{sets:?}");
        }
        let long = [b"\x84\x02\x01a\x80\x02", &[b'v'; SHARED_SET_MAX_BYTES][..]].concat();
        assert_eq!(SharedSets::parse(&long), None);
        let fits = [b"\x80\x02\x01a\xfc\x01", &[b'v'; SHARED_SET_MAX_BYTES - 4][..]].concat();
        assert!(SharedSets::parse(&fits).is_some());
        let many = b"\x04\x01a\x01v".repeat(SHARED_SETS_MAX + 1);
        assert!(SharedSets::parse(&many[5..]).is_some());
        assert_eq!(SharedSets::parse(&many), None);
    }
}
