//! The rows of an entry as a label index stores them.
//!
//! Guarantees: [`StoredRows::parse`] accepts ranges that ascend, do not touch each other and lie
//! within the rows of their tenant, and nothing else. What it returns is read without errors.

use std::ops::Range;

use logsvc_proto::varint;

use crate::columns::packed::Malformed;
use crate::row_set::RowSet;

/// Appends the rows of an entry, which ascend and do not touch each other. `first` is the first row
/// of their tenant.
pub(crate) fn write(
    mut rows: impl Iterator<Item = Range<u32>>,
    first: u32,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
) {
    let Some(begin) = rows.next() else { return };
    match rows.next() {
        None if begin.len() == 1 => {
            out.push(0);
            varint::write(out, u64::from(begin.start - first));
        }
        second => {
            scratch.clear();
            write_ranges([begin].into_iter().chain(second).chain(rows), first, scratch);
            varint::write(out, scratch.len() as u64);
            out.extend_from_slice(scratch);
        }
    }
}

/// Appends ranges that ascend and do not touch each other, counted from `first`.
pub(crate) fn write_ranges(
    ranges: impl Iterator<Item = Range<u32>>,
    first: u32,
    out: &mut Vec<u8>,
) {
    // The least number at which the next range may begin.
    let mut least = first;
    for range in ranges {
        varint::write(out, u64::from(range.start - least));
        varint::write(out, range.len() as u64 - 1);
        least = range.end + 1;
    }
}

/// Reads ranges within `rows`.
struct RangesWalk<'p> {
    bytes: &'p [u8],
    position: usize,
    /// The least number at which the next range may begin.
    least: u32,
    end: u32,
}

impl RangesWalk<'_> {
    fn read(&mut self) -> Result<Range<u32>, Malformed> {
        let left = u64::from(self.end.saturating_sub(self.least));
        let gap = varint::read(self.bytes, &mut self.position).map_err(|_| Malformed)?;
        let more = varint::read(self.bytes, &mut self.position).map_err(|_| Malformed)?;
        if gap >= left || more >= left - gap {
            return Err(Malformed);
        }
        // Both are below `left`, which has 32 bits.
        let start = self.least + gap as u32;
        let range = start..start + more as u32 + 1;
        self.least = range.end.saturating_add(1);
        Ok(range)
    }
}

impl Iterator for RangesWalk<'_> {
    type Item = Result<Range<u32>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.position >= self.bytes.len() {
            return None;
        }
        let range = self.read();
        if range.is_err() {
            self.position = self.bytes.len();
        }
        Some(range)
    }
}

/// The set of ranges within `rows`.
pub(super) fn read_ranges(bytes: &[u8], rows: Range<u32>) -> Result<RowSet, Malformed> {
    RangesWalk { bytes, position: 0, least: rows.start, end: rows.end }.collect()
}

/// The rows of an entry, in the bytes of its page.
#[derive(Clone, Copy, Debug)]
pub struct StoredRows<'p>(Form<'p>);

#[derive(Clone, Copy, Debug)]
enum Form<'p> {
    One(u32),
    Ranges { bytes: &'p [u8], first: u32, end: u32 },
}

/// The length of an entry's rows at the beginning of `bytes`.
pub(super) fn stored_len(bytes: &[u8]) -> Result<usize, Malformed> {
    let mut position = 0;
    let ranges_len = varint::read(bytes, &mut position).map_err(|_| Malformed)?;
    if ranges_len == 0 {
        varint::read(bytes, &mut position).map_err(|_| Malformed)?;
        return Ok(position);
    }
    let left = bytes.len() - position;
    match usize::try_from(ranges_len) {
        Ok(len) if len <= left => Ok(position + len),
        _ => Err(Malformed),
    }
}

impl<'p> StoredRows<'p> {
    /// Reads `bytes`, which are those of [`stored_len`]. `rows` are those of the tenant.
    pub(crate) fn parse(bytes: &'p [u8], rows: Range<u32>) -> Result<StoredRows<'p>, Malformed> {
        let mut position = 0;
        let ranges_len = varint::read(bytes, &mut position).map_err(|_| Malformed)?;
        if ranges_len == 0 {
            let row = varint::read(bytes, &mut position).map_err(|_| Malformed)?;
            let is_there = row < rows.len() as u64;
            return match is_there {
                true => Ok(StoredRows(Form::One(rows.start + row as u32))),
                false => Err(Malformed),
            };
        }
        let ranges = Form::Ranges { bytes: &bytes[position..], first: rows.start, end: rows.end };
        let all = StoredRows(ranges);
        match all.walk().all(|range| range.is_ok()) {
            true => Ok(all),
            false => Err(Malformed),
        }
    }

    fn walk(&self) -> impl Iterator<Item = Result<Range<u32>, Malformed>> + use<'p> {
        let (one, walk) = match self.0 {
            Form::One(row) => (Some(Ok(row..row + 1)), None),
            Form::Ranges { bytes, first, end } => {
                (None, Some(RangesWalk { bytes, position: 0, least: first, end }))
            }
        };
        one.into_iter().chain(walk.into_iter().flatten())
    }

    /// The rows as ranges that ascend and do not touch each other.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u32>> + use<'p> {
        // `parse` has read all of them.
        self.walk().map_while(Result::ok)
    }

    /// Whether one of the rows belongs to the set. Stops at the first one.
    #[must_use]
    pub fn intersects(&self, set: &RowSet) -> bool {
        self.ranges().any(|range| set.intersects(range))
    }

    /// Whether there is one row. Then [`Self::intersects`] is quick.
    pub(super) fn is_one(&self) -> bool {
        matches!(self.0, Form::One(_))
    }

    /// The rows as a set.
    #[must_use]
    pub fn to_set(&self) -> RowSet {
        self.ranges().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    #[test]
    fn rows_read_back_and_damaged_ones_stay_within_their_tenant() {
        for seed in seeds(2000) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let first = rng.below(1000) as u32;
            let span = *rng.pick(&[1, 3, 200, 100_000]);
            let ranges = (0..rng.between(1, 30)).map(|_| {
                let start = first + rng.below(span) as u32;
                start..start + rng.between(1, 1 + span / 20) as u32
            });
            let set: RowSet = ranges.collect();
            let end = set.ranges().last().unwrap().end + rng.below(2) as u32;
            let mut bytes = Vec::new();
            write(set.ranges().iter().cloned(), first, &mut Vec::new(), &mut bytes);
            assert_eq!(stored_len(&bytes), Ok(bytes.len()));
            let rows = StoredRows::parse(&bytes, first..end).unwrap();
            assert_eq!(rows.to_set(), set);
            assert!(rows.intersects(&set));
            assert!(end - first < 3 || StoredRows::parse(&bytes, first..end - 2).is_err());
            rng.damage(&mut bytes);
            let Ok(len) = stored_len(&bytes) else { continue };
            if let Ok(rows) = StoredRows::parse(&bytes[..len], first..end) {
                let set = rows.to_set();
                assert!(set.ranges().iter().cloned().eq(rows.ranges()));
                assert!(set.difference(&RowSet::from(first..end)).is_empty());
            }
        }
    }

    #[test]
    fn neighbours_take_two_bytes_and_a_row_of_its_own_as_well() {
        let stored = |ranges: RowSet| {
            let mut bytes = Vec::new();
            write(ranges.ranges().iter().cloned(), 100, &mut Vec::new(), &mut bytes);
            bytes
        };
        assert_eq!(stored(RowSet::from(107..108)), [0, 7]);
        assert_eq!(stored([107..110, 111..112].into_iter().collect()), [4, 7, 2, 0, 0]);
    }
}
