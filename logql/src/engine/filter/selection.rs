//! Which lines of a block are still wanted.

use super::super::meter::Meter;

/// A bit per line. Reused from block to block, so that it allocates only when a
/// block is larger than all before it.
#[derive(Default, Debug)]
pub(crate) struct Selection {
    words: Vec<u64>,
    first: usize,
    end: usize,
}

impl Selection {
    /// Selects the lines `first..end` and no others. False if there is no memory for that;
    /// nothing is selected then.
    #[must_use]
    pub(crate) fn select(&mut self, first: usize, end: usize, meter: &Meter) -> bool {
        self.words.clear();
        (self.first, self.end) = (0, 0);
        if !meter.make_room(&mut self.words, end.div_ceil(64)) {
            return false;
        }
        self.first = first;
        self.end = end;
        self.words.resize(end.div_ceil(64), 0);
        if first >= end {
            return true;
        }
        let (first_word, last_word) = (first / 64, (end - 1) / 64);
        self.words[first_word..=last_word].fill(u64::MAX);
        self.words[first_word] &= u64::MAX << (first % 64);
        self.words[last_word] &= u64::MAX >> (63 - (end - 1) % 64);
        true
    }

    /// Heap memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    /// The range that was selected at first.
    pub(crate) fn range(&self) -> (usize, usize) {
        (self.first, self.end)
    }

    pub(crate) fn get(&self, line: usize) -> bool {
        self.words[line / 64] >> (line % 64) & 1 == 1
    }

    pub(crate) fn clear(&mut self, line: usize) {
        self.words[line / 64] &= !(1 << (line % 64));
    }

    /// Clears the lines `first..end`.
    pub(crate) fn clear_range(&mut self, first: usize, end: usize) {
        if first >= end {
            return;
        }
        let (first_word, last_word) = (first / 64, (end - 1) / 64);
        let first_mask = u64::MAX << (first % 64);
        let last_mask = u64::MAX >> (63 - (end - 1) % 64);
        if first_word == last_word {
            self.words[first_word] &= !(first_mask & last_mask);
            return;
        }
        self.words[first_word] &= !first_mask;
        self.words[first_word + 1..last_word].fill(0);
        self.words[last_word] &= !last_mask;
    }

    /// Number of selected lines.
    pub(crate) fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Keeps the selected lines for which `keep` holds.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(usize) -> bool) {
        for (index, word) in self.words.iter_mut().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                if !keep(index * 64 + bit) {
                    *word &= !(1 << bit);
                }
            }
        }
    }

    /// The selected lines, ascending.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(index, &word)| Bits { word, base: index * 64 })
    }
}

/// The set bits of one word from either end.
struct Bits {
    word: u64,
    base: usize,
}

impl Iterator for Bits {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.word == 0 {
            return None;
        }
        let bit = self.word.trailing_zeros() as usize;
        self.word &= self.word - 1;
        Some(self.base + bit)
    }
}

impl DoubleEndedIterator for Bits {
    fn next_back(&mut self) -> Option<usize> {
        if self.word == 0 {
            return None;
        }
        let bit = 63 - self.word.leading_zeros() as usize;
        self.word &= !(1 << bit);
        Some(self.base + bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_select_and_clear_exactly_their_lines() {
        let (mut selection, meter) = (Selection::default(), Meter::default());
        let select = |selection: &mut Selection, first, end| {
            assert!(selection.select(first, end, &meter), "there is memory");
        };
        for (first, end) in [(0, 0), (0, 1), (3, 64), (63, 65), (1, 200), (64, 128), (70, 71)] {
            select(&mut selection, first, end);
            let expected: Vec<usize> = (first..end).collect();
            assert_eq!(selection.iter().collect::<Vec<_>>(), expected);
            assert_eq!(selection.iter().rev().collect::<Vec<_>>(), {
                let mut reversed = expected.clone();
                reversed.reverse();
                reversed
            });
            assert_eq!(selection.count(), end - first);
            for (cut_first, cut_end) in [(first, end), (first + 1, end), (64, 66), (2, 130)] {
                select(&mut selection, first, end);
                let cut_end = cut_end.min(end);
                selection.clear_range(cut_first, cut_end);
                let left: Vec<usize> =
                    (first..end).filter(|i| !(cut_first..cut_end).contains(i)).collect();
                assert_eq!(selection.iter().collect::<Vec<_>>(), left);
            }
        }
        select(&mut selection, 0, 130);
        selection.retain(|line| line % 3 == 0);
        assert_eq!(selection.count(), 44);
        assert!(selection.get(129) && !selection.get(128));
    }
}
