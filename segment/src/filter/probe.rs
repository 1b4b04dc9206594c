//! Asks the filters of a segment, range by range.

use super::bitmap::Descriptor;
use super::block_set::BlockSet;
use super::error::FilterError;
use super::index::{FilterIndex, Part};
use super::layout::checked_payload;
use super::needle::{Needle, NeedleKey};
use std::ops::Range;

/// How many keys of a needle are asked for at once when so many blocks are left. A key
/// that is absent leaves about six blocks in ten, so these leave less than one by
/// chance, and what follows is read only for needles that are there.
fn stage_keys(blocks: usize) -> usize {
    (blocks.max(1).ilog2() as usize * 4 / 3 + 2).clamp(8, 16)
}

/// A search through the filters of one segment.
///
/// Read the ranges of [`Probe::next_reads`], hand their bytes to [`Probe::supply`], and
/// go on until there are none; see the [module](super) for an example. What is read is
/// decided step by step, so that a needle that is nowhere costs a few hundred bytes to
/// a few kilobytes. One may stop at any time: [`Probe::into_candidates`] gives a superset of what
/// going on would have given.
#[derive(Debug)]
pub struct Probe<'a> {
    index: &'a FilterIndex,
    candidates: BlockSet,
    /// Conditions not yet looked at, the next one last.
    conditions: Vec<Vec<Needle>>,
    current: Option<Condition>,
    /// What was asked for and not yet supplied: units in ascending order.
    units: Vec<Unit>,
    reads: Vec<Range<u64>>,
}

#[derive(Debug)]
struct Condition {
    /// Blocks for which the condition may hold, whatever the other alternatives say.
    settled: BlockSet,
    alternatives: Vec<Alternative>,
}

#[derive(Debug)]
struct Alternative {
    needle: Needle,
    /// How many keys were looked at.
    keys_done: usize,
    /// Blocks that have all of them.
    targets: Vec<Target>,
}

#[derive(Clone, Copy, Debug)]
struct Target {
    block: u32,
    descriptor: Descriptor,
    /// Place of the block's first bit in a slice.
    first_bit: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Unit {
    number: u32,
    part: Part,
}

impl Alternative {
    fn next_keys(&self) -> &[NeedleKey] {
        let rest = &self.needle.keys[self.keys_done..];
        &rest[..rest.len().min(stage_keys(self.targets.len()))]
    }
}

/// Whether a filter says anything about a key.
fn decides(descriptor: Descriptor, key: NeedleKey) -> bool {
    !(key.often_left_out && descriptor.has_quarter_of_mixed())
}

impl<'a> Probe<'a> {
    pub(super) fn new(
        index: &'a FilterIndex,
        mut conditions: Vec<Vec<Needle>>,
        candidates: BlockSet,
    ) -> Probe<'a> {
        assert_eq!(candidates.capacity(), index.block_count(), "blocks of the segment");
        // Few alternatives cost little, many keys exclude much: such conditions first.
        conditions.sort_by_key(|alternatives| {
            let keys: usize = alternatives.iter().map(|needle| needle.keys.len()).sum();
            (std::cmp::Reverse(alternatives.len()), keys)
        });
        let (units, reads) = (Vec::new(), Vec::new());
        Probe { index, candidates, conditions, current: None, units, reads }
    }

    /// The ranges of the region that must be read next, ascending and apart from each
    /// other; `None` if the candidates are final.
    pub fn next_reads(&mut self) -> Option<&[Range<u64>]> {
        while self.units.is_empty() {
            if self.candidates.is_empty() {
                return None;
            }
            let condition = match self.current.take() {
                Some(condition) => condition,
                None => {
                    let alternatives = self.conditions.pop()?;
                    self.begin(alternatives)
                }
            };
            self.ask(&condition);
            if self.units.is_empty() {
                self.candidates = condition.into_candidates();
            } else {
                self.current = Some(condition);
            }
        }
        Some(&self.reads)
    }

    fn begin(&self, alternatives: Vec<Needle>) -> Condition {
        let mut settled = BlockSet::empty(self.index.block_count());
        let alternatives = alternatives.into_iter().map(|needle| {
            let mut first_bit = 0;
            let mut targets = Vec::new();
            for (block, &descriptor) in self.index.descriptors(needle.part).iter().enumerate() {
                if self.candidates.contains(block) {
                    if descriptor.is_unknown() {
                        settled.insert(block);
                    } else if descriptor.bits() > 0 {
                        targets.push(Target { block: block as u32, descriptor, first_bit });
                    }
                }
                first_bit += descriptor.bits() as u64;
            }
            Alternative { needle, keys_done: 0, targets }
        });
        let alternatives = alternatives.collect();
        Condition { settled, alternatives }
    }

    /// Finds the units that the next keys of a condition need.
    fn ask(&mut self, condition: &Condition) {
        let left = self.candidates.count();
        if condition.alternatives.iter().any(|alternative| {
            alternative.next_keys().is_empty() && alternative.targets.len() == left
        }) {
            // This alternative excludes nothing, so the others cannot help.
            return;
        }
        for alternative in &condition.alternatives {
            let part = alternative.needle.part;
            for &key in alternative.next_keys() {
                if alternative.targets.iter().any(|target| decides(target.descriptor, key)) {
                    let (number, _) = self.index.layout(part).locate(key.key.slice());
                    self.units.push(Unit { number, part });
                }
            }
        }
        self.units.sort_unstable();
        self.units.dedup();
        self.reads.clear();
        for unit in &self.units {
            let range = self.index.layout(unit.part).unit_range(unit.number);
            match self.reads.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => self.reads.push(range),
            }
        }
    }

    /// Takes the bytes of the ranges that [`Probe::next_reads`] gave, in their order.
    ///
    /// # Errors
    /// If the bytes are damaged or of another length. The condition in question then
    /// excludes no further block; one may go on with the others.
    pub fn supply<B: AsRef<[u8]>>(&mut self, pieces: &[B]) -> Result<(), FilterError> {
        let units = std::mem::take(&mut self.units);
        let Some(mut condition) = self.current.take() else { return Ok(()) };
        let payloads = self.check(&units, pieces)?;
        for alternative in &mut condition.alternatives {
            let layout = self.index.layout(alternative.needle.part);
            let keys = alternative.next_keys().to_vec();
            alternative.keys_done += keys.len();
            for key in keys {
                let (unit, slice_start) = layout.locate(key.key.slice());
                let found = units.binary_search_by_key(&unit, |asked| asked.number);
                // Units that no target needs were not asked for.
                let Ok(place) = found else { continue };
                let payload = payloads[place];
                alternative.targets.retain(|target| {
                    let bit_in_block = key.key.bit() as usize % target.descriptor.bits();
                    let at = slice_start + target.first_bit + bit_in_block as u64;
                    !decides(target.descriptor, key)
                        || payload[(at / 8) as usize] >> (at % 8) & 1 != 0
                });
            }
        }
        self.current = Some(condition);
        Ok(())
    }

    /// The payload of each unit out of the pieces, which cover the ranges.
    fn check<'b, B: AsRef<[u8]>>(
        &self,
        units: &[Unit],
        pieces: &'b [B],
    ) -> Result<Vec<&'b [u8]>, FilterError> {
        let mut payloads = Vec::with_capacity(units.len());
        let mut units = units.iter();
        for (number, read) in self.reads.iter().enumerate() {
            let mut rest = pieces.get(number).map_or(&[][..], |piece| piece.as_ref());
            if rest.len() as u64 != read.end - read.start {
                return Err(FilterError::Length { offset: read.start });
            }
            while !rest.is_empty() {
                let Some(unit) = units.next() else { break };
                let range = self.index.layout(unit.part).unit_range(unit.number);
                let (bytes, others) = rest.split_at((range.end - range.start) as usize);
                let payload = checked_payload(bytes, unit.number)
                    .ok_or(FilterError::Checksum { offset: range.start })?;
                payloads.push(payload);
                rest = others;
            }
        }
        Ok(payloads)
    }

    /// The blocks that are left: all in which the conditions hold are among them.
    #[must_use]
    pub fn into_candidates(self) -> BlockSet {
        self.candidates
    }
}

impl Condition {
    fn into_candidates(self) -> BlockSet {
        let mut candidates = self.settled;
        for target in self.alternatives.iter().flat_map(|alternative| &alternative.targets) {
            candidates.insert(target.block as usize);
        }
        candidates
    }
}
