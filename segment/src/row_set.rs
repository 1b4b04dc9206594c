//! Sets of rows: numbers of streams within a segment.
//!
//! Guarantees: a set is a list of ranges that ascend and do not touch each other, so equal sets
//! have equal lists. Union, intersection and difference take time in the number of ranges, however
//! many rows these have.

use std::ops::Range;

/// A set of rows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RowSet {
    /// Ascending, none empty, none touching the next.
    ranges: Vec<Range<u32>>,
}

impl RowSet {
    /// The set without rows.
    #[must_use]
    pub fn new() -> RowSet {
        RowSet::default()
    }

    /// The rows of ranges in any order, which may overlap or be empty.
    #[must_use]
    pub fn from_ranges(mut ranges: Vec<Range<u32>>) -> RowSet {
        if !ranges.is_sorted_by_key(|range| range.start) {
            ranges.sort_unstable_by_key(|range| range.start);
        }
        let mut kept = 0;
        for at in 0..ranges.len() {
            let range = ranges[at].clone();
            if range.is_empty() {
                continue;
            }
            if kept > 0 && range.start <= ranges[kept - 1].end {
                let last = &mut ranges[kept - 1];
                last.end = last.end.max(range.end);
            } else {
                ranges[kept] = range;
                kept += 1;
            }
        }
        ranges.truncate(kept);
        RowSet { ranges }
    }

    /// Adds rows that are not below any row of the set, unless they belong to it.
    ///
    /// # Panics
    /// If they begin before the last range of the set.
    pub fn push(&mut self, rows: Range<u32>) {
        if rows.is_empty() {
            return;
        }
        match self.ranges.last_mut() {
            Some(last) if rows.start <= last.end => {
                assert!(rows.start >= last.start, "rows are added in order");
                last.end = last.end.max(rows.end);
            }
            _ => self.ranges.push(rows),
        }
    }

    /// The ranges, ascending; none is empty, and none touches the next.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u32>] {
        &self.ranges
    }

    /// All rows, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges.iter().cloned().flatten()
    }

    /// The rows of the set that are among these, ascending.
    pub fn within(&self, rows: Range<u32>) -> impl Iterator<Item = u32> + '_ {
        let first = self.ranges.partition_point(|range| range.end <= rows.start);
        let overlapping =
            self.ranges[first..].iter().take_while(move |range| range.start < rows.end);
        overlapping.flat_map(move |range| range.start.max(rows.start)..range.end.min(rows.end))
    }

    /// The rows of the set that are in some ranges, which ascend and do not touch each other. Takes
    /// time in the number of these ranges, and little more in the number of the set's.
    #[must_use]
    pub fn among(&self, ranges: impl Iterator<Item = Range<u32>>) -> RowSet {
        let overlaps = |range: Range<u32>| {
            let first = self.ranges.partition_point(|own| own.end <= range.start);
            let own = self.ranges[first..].iter().take_while(move |own| own.start < range.end);
            own.map(move |own| own.start.max(range.start)..own.end.min(range.end))
        };
        ranges.flat_map(overlaps).collect()
    }

    /// How many rows the set has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges.iter().map(ExactSizeIterator::len).sum()
    }

    /// Whether the set has no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether a row belongs to the set.
    #[must_use]
    pub fn contains(&self, row: u32) -> bool {
        self.intersects(row..row.saturating_add(1))
    }

    /// Whether one of these rows belongs to the set.
    #[must_use]
    pub fn intersects(&self, rows: Range<u32>) -> bool {
        let behind = self.ranges.partition_point(|range| range.end <= rows.start);
        !rows.is_empty() && self.ranges.get(behind).is_some_and(|range| range.start < rows.end)
    }

    /// Rows that belong to one of the sets, or to both.
    #[must_use]
    pub fn union(&self, other: &RowSet) -> RowSet {
        let (mut ours, mut theirs) =
            (self.ranges.iter().peekable(), other.ranges.iter().peekable());
        let mut set = RowSet::new();
        loop {
            let next = match (ours.peek(), theirs.peek()) {
                (Some(a), Some(b)) if a.start <= b.start => ours.next(),
                (_, Some(_)) => theirs.next(),
                _ => ours.next(),
            };
            match next {
                Some(range) => set.push(range.clone()),
                None => return set,
            }
        }
    }

    /// Rows that belong to both sets.
    #[must_use]
    pub fn intersection(&self, other: &RowSet) -> RowSet {
        let (mut ours, mut theirs) = (&self.ranges[..], &other.ranges[..]);
        let mut set = RowSet::new();
        while let ([a, our_rest @ ..], [b, their_rest @ ..]) = (ours, theirs) {
            set.push(a.start.max(b.start)..a.end.min(b.end));
            if a.end <= b.end {
                ours = our_rest;
            } else {
                theirs = their_rest;
            }
        }
        set
    }

    /// Rows that belong to this set and not to the other.
    #[must_use]
    pub fn difference(&self, other: &RowSet) -> RowSet {
        let mut theirs = other.ranges.iter().peekable();
        let mut set = RowSet::new();
        for range in &self.ranges {
            let mut start = range.start;
            while let Some(taken) = theirs.next_if(|taken| taken.end <= range.end) {
                set.push(start..taken.start);
                start = start.max(taken.end);
            }
            let end = theirs.peek().map_or(range.end, |taken| taken.start.min(range.end));
            set.push(start..end);
        }
        set
    }

    /// Bytes that the set occupies.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        size_of::<RowSet>() + self.ranges.capacity() * size_of::<Range<u32>>()
    }
}

impl From<Range<u32>> for RowSet {
    fn from(rows: Range<u32>) -> RowSet {
        let mut set = RowSet::new();
        set.push(rows);
        set
    }
}

impl FromIterator<Range<u32>> for RowSet {
    fn from_iter<I: IntoIterator<Item = Range<u32>>>(ranges: I) -> RowSet {
        RowSet::from_ranges(ranges.into_iter().collect())
    }
}

#[cfg(test)]
mod tests;
