//! Selects by rank from many keys that lie in many places.
//!
//! Few keys are copied together. Of more, a pass counts the keys by their next 16 bits, and those
//! that share the bits of the wanted one are looked at in the next pass, until they are few. So the
//! memory is 512 KiB for the counts and as much for the copy, whatever the number of keys.

use super::super::meter::Meter;

/// Keys that are copied.
const COPIED: usize = 1 << 16;

/// Bits that a pass decides.
const BITS: u32 = 16;

/// The buffers, used again and again.
#[derive(Debug, Default)]
pub(crate) struct Selector {
    copied: Vec<u64>,
    counts: Vec<usize>,
}

impl Selector {
    /// Of `count` keys the one that would have the index if they were sorted, and the next one;
    /// twice the same if it is the last. `None` when the meter is stopped.
    pub(crate) fn neighbours<'k>(
        &mut self,
        meter: &Meter,
        slices: impl Iterator<Item = &'k [u64]> + Clone,
        count: usize,
        index: usize,
    ) -> Option<(u64, u64)> {
        // The keys in question have these bits where the mask has bits.
        let (mut prefix, mut mask, mut shift) = (0u64, 0u64, u64::BITS);
        let (mut left, mut rank) = (count, index);
        while left > COPIED && shift > 0 {
            shift -= BITS;
            self.clear_counts(meter)?;
            for slice in slices.clone() {
                read(meter, slice)?;
                for key in slice.iter().filter(|key| *key & mask == prefix) {
                    self.counts[digit(*key, shift)] += 1;
                }
            }
            let mut value = 0;
            while rank >= self.counts[value] {
                rank -= self.counts[value];
                value += 1;
            }
            left = self.counts[value];
            prefix |= (value as u64) << shift;
            mask = u64::MAX << shift;
        }
        let is_last = rank + 1 == left;
        if shift == 0 {
            let upper = if is_last { next(meter, slices, prefix)? } else { prefix };
            return Some((prefix, upper));
        }
        self.copied.clear();
        if !meter.make_room(&mut self.copied, left) {
            return None;
        }
        for slice in slices.clone() {
            read(meter, slice)?;
            self.copied.extend(slice.iter().filter(|key| *key & mask == prefix));
        }
        let (_, lower, above) = self.copied.select_nth_unstable(rank);
        let lower = *lower;
        let upper = match above.iter().copied().min() {
            Some(upper) => upper,
            None if mask == 0 => lower,
            None => next(meter, slices, lower)?,
        };
        Some((lower, upper))
    }

    fn clear_counts(&mut self, meter: &Meter) -> Option<()> {
        self.counts.clear();
        if !meter.make_room(&mut self.counts, 1 << BITS) {
            return None;
        }
        self.counts.resize(1 << BITS, 0);
        Some(())
    }
}

/// The place of a key among the counts.
fn digit(key: u64, shift: u32) -> usize {
    ((key >> shift) & ((1 << BITS) - 1)) as usize
}

/// Counts the work of reading keys.
fn read(meter: &Meter, keys: &[u64]) -> Option<()> {
    meter.work(size_of_val(keys)).then_some(())
}

/// The smallest key above one, or that one.
fn next<'k>(meter: &Meter, slices: impl Iterator<Item = &'k [u64]>, key: u64) -> Option<u64> {
    let mut next: Option<u64> = None;
    for slice in slices {
        read(meter, slice)?;
        let least = slice.iter().copied().filter(|other| *other > key).min();
        next = next.into_iter().chain(least).min();
    }
    Some(next.unwrap_or(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_those_of_the_sorted_keys() {
        let mut seed = 5u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
            seed >> 11 << 11 | seed >> 53
        };
        let mut selector = Selector::default();
        // Few keys, spread ones, ones with long common prefixes, and equal ones.
        for (count, mask) in [
            (1, !0),
            (9, 3),
            (1000, !0),
            (200_000, !0),
            (200_000, 0xfff),
            (200_000, 1),
            (150_000, 0),
        ] {
            let keys: Vec<u64> = (0..count).map(|_| random() & mask).collect();
            let mut sorted = keys.clone();
            sorted.sort_unstable();
            for index in [0, count / 3, count / 2, count * 99 / 100, count.max(2) - 2, count - 1] {
                let index = index.min(count - 1);
                let slices = keys.chunks(777);
                let found = selector.neighbours(&Meter::default(), slices, count, index);
                let upper = sorted[(index + 1).min(count - 1)];
                assert_eq!(found, Some((sorted[index], upper)), "{count} {mask:x} {index}");
            }
        }
    }
}
