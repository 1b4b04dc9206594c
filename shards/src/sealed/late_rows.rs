//! The streams of a segment that may repeat entries of earlier segments.
//!
//! Guarantees: it takes at most [`MAX_GROUPS`] bits for each segment, and no memory if no stream is
//! late. In segments with more streams, groups of neighbours share a bit: a stream that is not late
//! may be taken for late, which costs time and changes no result.

use logsvc_segment::RowSet;

/// Most bits: 8 KiB.
const MAX_GROUPS: u32 = 64 << 10;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LateRows {
    /// How many neighbours share a bit, as a power of two.
    shift: u32,
    /// None if no stream is late.
    words: Box<[u64]>,
}

impl LateRows {
    /// None of so many streams.
    pub(crate) fn none_of(streams: u32) -> LateRows {
        let shift = streams.div_ceil(MAX_GROUPS).max(1).next_power_of_two().ilog2();
        LateRows { shift, words: Box::default() }
    }

    /// These of so many streams.
    pub(crate) fn of(rows: &RowSet, streams: u32) -> LateRows {
        let mut late = LateRows::none_of(streams);
        rows.iter().for_each(|row| late.insert(row, streams));
        late
    }

    /// Notes a stream; `streams` is how many there are.
    pub(crate) fn insert(&mut self, row: u32, streams: u32) {
        if self.words.is_empty() {
            let groups = (streams >> self.shift) as usize + 1;
            self.words = vec![0; groups.div_ceil(64)].into();
        }
        let group = row >> self.shift;
        if let Some(word) = self.words.get_mut(group as usize / 64) {
            *word |= 1 << (group % 64);
        }
    }

    /// Whether a stream may be late.
    pub(crate) fn contains(&self, row: u32) -> bool {
        let group = row >> self.shift;
        self.words.get(group as usize / 64).is_some_and(|word| word & (1 << (group % 64)) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_segments_are_exact_and_large_ones_bounded() {
        for streams in [1, 2, 64, 65, 1000, MAX_GROUPS, MAX_GROUPS + 1, 1_000_003, 1 << 24] {
            let mut rows = LateRows::none_of(streams);
            assert!(!rows.contains(0));
            for row in [0, streams / 3, streams - 1] {
                rows.insert(row, streams);
                assert!(rows.contains(row), "{row} of {streams}");
            }
            assert!(rows.words.len() as u32 * 64 <= MAX_GROUPS + 64, "{streams}");
            let late = (0..streams).filter(|&row| rows.contains(row)).count() as u32;
            let most = if streams <= MAX_GROUPS { 3 } else { 3 << rows.shift };
            assert!(late <= most, "{late} of {streams}");
        }
    }
}
