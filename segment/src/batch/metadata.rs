//! The structured metadata of an entry: the pairs of a set that it shares with other entries,
//! and pairs of its own.
//!
//! Guarantees: readers see the union of both parts by ascending name, each name once, if each
//! part has ascending, unique names. If both parts have a name, the own pair is the entry's.
//! Two entries with the same union are equal, however their pairs are divided. Malformed pairs
//! cause neither a panic nor an allocation.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use logsvc_proto::bytes::equal;
use logsvc_proto::varint;

/// Structured metadata of one entry, encoded as in a batch. Iterates over (name, value).
#[derive(Clone, Copy, Debug)]
pub struct MetadataPairs<'a> {
    shared: &'a [u8],
    own: &'a [u8],
}

impl<'a> MetadataPairs<'a> {
    /// No metadata.
    pub const NONE: MetadataPairs<'static> = MetadataPairs { shared: &[], own: &[] };

    /// The pairs of a shared set and the entry's own pairs without their count, both from
    /// columns that were checked.
    #[inline]
    pub fn from_checked(shared: &'a [u8], own: &'a [u8]) -> MetadataPairs<'a> {
        MetadataPairs { shared, own }
    }

    /// Whether the entry has no metadata.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.shared.is_empty() && self.own.is_empty()
    }

    /// The encoded shared pairs.
    #[inline]
    pub(crate) fn shared_bytes(&self) -> &'a [u8] {
        self.shared
    }

    /// The entry's own encoded pairs.
    #[inline]
    pub fn own_bytes(&self) -> &'a [u8] {
        self.own
    }

    /// Bytes of all encoded pairs.
    #[inline]
    pub fn encoded_len(&self) -> usize {
        self.shared.len() + self.own.len()
    }

    /// Appends the encoded pairs in their order.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        match (self.shared, self.own) {
            (only, []) | ([], only) => out.extend_from_slice(only),
            (shared, own) if is_one_before(shared, own) => {
                out.extend_from_slice(shared);
                out.extend_from_slice(own);
            }
            _ => self.texts().for_each(|(name, value)| write_pair(name, value, out)),
        }
    }

    /// Names and values, without a check of their UTF-8.
    #[inline]
    pub(crate) fn texts(mut self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone {
        std::iter::from_fn(move || self.next_texts())
    }

    /// Bytes of all names and values.
    pub(crate) fn text_bytes(&self) -> u64 {
        self.texts().map(|(name, value)| (name.len() + value.len()) as u64).sum()
    }

    /// Name and value of the next pair, without a check of their UTF-8. A malformed pair ends
    /// the iteration.
    #[inline]
    pub(crate) fn next_texts(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        if self.shared.is_empty() {
            return read_pair(&mut self.own);
        }
        if self.own.is_empty() {
            return read_pair(&mut self.shared);
        }
        let (mut shared, mut own) = (self.shared, self.own);
        let (ours, others) = (read_pair(&mut own)?, read_pair(&mut shared)?);
        let order = ours.0.cmp(others.0);
        if order.is_ge() {
            self.shared = shared;
        }
        if order.is_le() {
            self.own = own;
        }
        Some(if order == Ordering::Greater { others } else { ours })
    }
}

impl<'a> Iterator for MetadataPairs<'a> {
    type Item = (&'a str, &'a str);

    #[inline]
    fn next(&mut self) -> Option<(&'a str, &'a str)> {
        let (name, value) = self.next_texts()?;
        Some((std::str::from_utf8(name).ok()?, std::str::from_utf8(value).ok()?))
    }
}

impl PartialEq for MetadataPairs<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.shared == other.shared && self.own == other.own) || self.texts().eq(other.texts())
    }
}

impl Eq for MetadataPairs<'_> {}

impl Hash for MetadataPairs<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.texts().for_each(|pair| pair.hash(state));
    }
}

/// Whether there is one shared pair, such as a level, and its name precedes all own names.
#[inline]
fn is_one_before(mut shared: &[u8], mut own: &[u8]) -> bool {
    match (read_pair(&mut shared), read_pair(&mut own)) {
        (Some((first, _)), Some((second, _))) => shared.is_empty() && first < second,
        _ => false,
    }
}

/// Appends a pair in the encoding of metadata columns.
pub(crate) fn write_pair(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    for text in [name, value] {
        varint::write(out, text.len() as u64);
        out.extend_from_slice(text);
    }
}

/// Whether `encoded` is the output of [`write_pair`] for these pairs. May be false if a text
/// has 128 bytes or more.
#[inline]
pub(super) fn encodes(mut encoded: &[u8], pairs: &[(&[u8], &[u8])]) -> bool {
    for text in pairs.iter().flat_map(|&(name, value)| [name, value]) {
        let Some((&len, rest)) = encoded.split_first() else { return false };
        let Some((known, rest)) = rest.split_at_checked(text.len()) else { return false };
        if len >= 0x80 || usize::from(len) != text.len() || !equal(known, text) {
            return false;
        }
        encoded = rest;
    }
    encoded.is_empty()
}

/// Cuts the next entry's own pairs off a column that [`check_metadata`] has accepted.
pub(super) fn split_entry<'a>(column: &mut &'a [u8]) -> &'a [u8] {
    let mut cursor = *column;
    let pairs = read_varint(&mut cursor).unwrap_or(0);
    let start = column.len() - cursor.len();
    for _ in 0..pairs {
        for _ in 0..2 {
            let len = read_varint(&mut cursor).unwrap_or(0) as usize;
            cursor = &cursor[len.min(cursor.len())..];
        }
    }
    let end = column.len() - cursor.len();
    let own = &column[start..end];
    *column = cursor;
    own
}

/// Whether `column` holds exactly `entry_count` entries of well-formed pairs.
pub(super) fn check_metadata(mut column: &[u8], entry_count: usize) -> Option<()> {
    // Nearly all columns are ASCII, as counts and lengths below 128 are ASCII too. Then each
    // text is ASCII, and its UTF-8 needs no check.
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
fn read_pair<'a>(cursor: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let mut rest = *cursor;
    let pair = (read_bytes(&mut rest)?, read_bytes(&mut rest)?);
    *cursor = rest;
    Some(pair)
}

#[inline]
pub(super) fn read_text<'a>(cursor: &mut &'a [u8]) -> Option<&'a str> {
    std::str::from_utf8(read_bytes(cursor)?).ok()
}

#[inline]
pub(super) fn read_bytes<'a>(cursor: &mut &'a [u8]) -> Option<&'a [u8]> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_testkit::{Rng, SeedGuard, seeds};
    use std::collections::BTreeMap;

    fn encoded(pairs: &BTreeMap<String, String>) -> Vec<u8> {
        let mut out = Vec::new();
        pairs.iter().for_each(|(name, value)| {
            write_pair(name.as_bytes(), value.as_bytes(), &mut out);
        });
        out
    }

    fn hash_of(pairs: MetadataPairs<'_>) -> u64 {
        ahash::RandomState::with_seeds(1, 2, 3, 4).hash_one(pairs)
    }

    #[test]
    fn however_pairs_are_divided_the_union_is_the_same() {
        let mut rng = Rng::new(1);
        for seed in seeds(3000) {
            let _guard = SeedGuard(seed);
            rng = Rng::new(seed ^ rng.next_u64());
            let (mut shared, mut own) = (BTreeMap::new(), BTreeMap::new());
            for name in ["a", "detected_level", "pod", "trace_id", "zz"] {
                let value = |rng: &mut Rng| "\u{e9}v".repeat(rng.below(80) as usize);
                if rng.one_in(2) {
                    shared.insert(name.to_owned(), value(&mut rng));
                }
                if rng.one_in(3) {
                    own.insert(name.to_owned(), value(&mut rng));
                }
            }
            let mut union = shared.clone();
            union.extend(own.clone());
            let (shared, own, union) = (encoded(&shared), encoded(&own), encoded(&union));
            let divided = MetadataPairs::from_checked(&shared, &own);
            let whole = MetadataPairs::from_checked(&[], &union);
            assert_eq!(divided.collect::<Vec<_>>(), whole.collect::<Vec<_>>());
            assert!(divided == whole && hash_of(divided) == hash_of(whole));
            assert_eq!(MetadataPairs::from_checked(&union, &[]), divided);
            assert_eq!(divided.is_empty(), union.is_empty());
            let mut written = Vec::new();
            divided.write_to(&mut written);
            assert_eq!(written, union);
            let more = [&union[..], b"\x03zzz\x00"].concat();
            assert_ne!(MetadataPairs::from_checked(&more, &[]), divided);
        }
    }

    #[test]
    fn pairs_are_told_from_their_encoded_form() {
        let long = [b'v'; 128];
        let sets: [&[(&[u8], &[u8])]; 8] = [
            &[],
            &[(b"level", b"info")],
            &[(b"level", b"warn")],
            &[(b"level", b"")],
            &[(b"levelinf", b"o")],
            &[(b"level", b"info"), (b"x", b"y")],
            &[(b"level", &long[..127])],
            &[(b"level", &long)],
        ];
        for (number, set) in sets.iter().enumerate() {
            let mut encoded = Vec::new();
            set.iter().for_each(|(name, value)| write_pair(name, value, &mut encoded));
            for (other_number, other) in sets.iter().enumerate() {
                let is_told = number == other_number && number < sets.len() - 1;
                assert_eq!(encodes(&encoded, other), is_told, "{number} and {other_number}");
            }
            for len in 0..encoded.len() {
                assert!(!encodes(&encoded[..len], set));
            }
        }
    }

    #[test]
    fn pairs_that_are_malformed_end_the_walk() {
        let good = b"\x01b\x01v";
        for bad in [&b"\x05a"[..], b"\x01a", b"\x01a\x80", b"\x01\xff\x01v", b"\x01a\x01\xff"] {
            for (shared, own) in [(bad, &good[..]), (good, bad), (bad, bad), (&[], bad)] {
                let pairs = MetadataPairs::from_checked(shared, own);
                assert!(pairs.count() <= 1, "{shared:?} {own:?}");
                assert!(pairs.texts().count() <= 2, "{shared:?} {own:?}");
            }
        }
    }
}
