//! Sorts distinct texts by comparing numbers of eight bytes.
//!
//! Values of a label often have long beginnings in common, and each comparison of two texts would
//! miss the cache. So each round sorts the texts of a group by the eight bytes behind what all of
//! them have in common. Those with equal bytes are a group of the next round.

use crate::label_index::key::common_len;

/// A text of a group, which is sorted by its next bytes.
struct Next {
    bytes: u64,
    /// How many there are.
    len: u8,
    text: u32,
}

/// Sorts numbers of texts by the texts, which all differ.
pub(super) fn sort_texts<'t>(numbers: &mut [u32], text: impl Fn(u32) -> &'t [u8]) {
    // Ranges of equal beginnings, and how long these are.
    let mut groups = vec![(0..numbers.len(), 0)];
    let mut nexts: Vec<Next> = Vec::new();
    while let Some((range, known)) = groups.pop() {
        let start = range.start;
        let group = &mut numbers[range];
        let [first, others @ ..] = &*group else { continue };
        let first = &text(*first)[known..];
        let common = others.iter().fold(first.len(), |common, &other| {
            common_len(&first[..common], &text(other)[known..])
        });
        let known = known + common;
        nexts.clear();
        nexts.extend(group.iter().map(|&number| {
            let rest = &text(number)[known..];
            let mut bytes = [0; 8];
            let len = rest.len().min(bytes.len());
            bytes[..len].copy_from_slice(&rest[..len]);
            Next { bytes: u64::from_be_bytes(bytes), len: len as u8, text: number }
        }));
        // A stable sort takes little time where rows, and so texts, come in order.
        nexts.sort_by_key(|next| (next.bytes, next.len));
        let mut at = start;
        for equal in nexts.chunk_by(|a, b| (a.bytes, a.len) == (b.bytes, b.len)) {
            if equal.len() > 1 {
                groups.push((at..at + equal.len(), known + 8));
            }
            at += equal.len();
        }
        for (place, next) in group.iter_mut().zip(&nexts) {
            *place = next.text;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    #[test]
    fn texts_are_sorted() {
        for seed in seeds(500) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let mut texts = BTreeSet::new();
            for _ in 0..rng.below(300) {
                let pieces =
                    (0..rng.below(8)).flat_map(|_| *rng.pick(&[&b"\0"[..], b"a", b"abcdefgh"]));
                texts.insert(pieces.copied().collect::<Vec<u8>>());
            }
            let texts: Vec<Vec<u8>> = texts.into_iter().collect();
            let mut numbers: Vec<u32> = (0..texts.len() as u32).collect();
            numbers.sort_by_cached_key(|_| rng.next_u64());
            sort_texts(&mut numbers, |number| &texts[number as usize]);
            assert!(numbers.iter().copied().eq(0..texts.len() as u32));
        }
    }
}
