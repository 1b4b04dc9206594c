//! Searches the filters of a segment, range by range.

use super::bitmap::Descriptor;
use super::block_set::BlockSet;
use super::error::FilterError;
use super::index::{FilterIndex, Part};
use super::layout::checked_payload;
use super::needle::{Needle, NeedleKey};
use std::ops::Range;

/// Number of a needle's keys to read at once when so many blocks are left. An absent key leaves
/// about six blocks in ten by chance, so these keys leave less than one. Further keys are read
/// only for needles that exist.
fn stage_keys(blocks: usize) -> usize {
    (blocks.max(1).ilog2() as usize * 4 / 3 + 2).clamp(8, STAGE_KEYS_MAX)
}

/// Most keys of a needle that are read at once.
const STAGE_KEYS_MAX: usize = 16;

/// A search through the filters of one segment.
///
/// Read the ranges of [`Probe::next_reads`] and pass their bytes to [`Probe::supply`] until there
/// are no more; the [module](super) has an example. Each step decides about the next reads, so
/// that a needle that exists nowhere costs a few hundred bytes to a few kilobytes. The search may
/// stop at any time: the blocks of [`Probe::into_candidates`] are then a superset of those at the
/// end.
#[derive(Debug)]
pub struct Probe<'a> {
    index: &'a FilterIndex,
    candidates: BlockSet,
    /// Conditions that were not tested yet, the next one last.
    conditions: Vec<Vec<Needle>>,
    current: Option<Condition>,
    /// Requested units that were not supplied yet, in ascending order.
    units: Vec<Unit>,
    reads: Vec<Range<u64>>,
}

#[derive(Debug)]
struct Condition {
    /// Blocks in which an alternative that was tested may hold.
    settled: BlockSet,
    alternatives: Vec<Alternative>,
}

#[derive(Debug)]
struct Alternative {
    needle: Needle,
    /// Number of tested keys.
    keys_done: usize,
    /// Blocks that have all tested keys.
    targets: Vec<Target>,
}

#[derive(Clone, Copy, Debug)]
struct Target {
    block: u32,
    descriptor: Descriptor,
    /// Position of the block's first bit in a slice.
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

/// The number of a bit, below 64, modulo the bits of a block, up to 64. A division takes as long as
/// the rest of a test.
static REMAINDERS: [[u8; 65]; 64] = {
    let mut remainders = [[0; 65]; 64];
    let mut bit = 0;
    while bit < 64 {
        let mut bits = 1;
        while bits <= 64 {
            remainders[bit][bits] = (bit % bits) as u8;
            bits += 1;
        }
        bit += 1;
    }
    remainders
};

/// Whether a filter can prove that a key is absent.
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
        // Conditions with few alternatives cost little, and those with many keys exclude much: they
        // come first.
        conditions.sort_by_key(|alternatives| {
            let keys: usize = alternatives.iter().map(|needle| needle.keys.len()).sum();
            (std::cmp::Reverse(alternatives.len()), keys)
        });
        let (units, reads) = (Vec::new(), Vec::new());
        Probe { index, candidates, conditions, current: None, units, reads }
    }

    /// Most bytes of memory that a search takes, with the bytes that it is given at a time.
    #[must_use]
    pub fn memory_max_bytes(index: &FilterIndex, conditions: &[Vec<Needle>]) -> u64 {
        let of_alternative = |needle: &Needle| {
            let unit_len = index.layout(needle.part).unit_len();
            (index.block_count() * size_of::<Target>()) as u64 + STAGE_KEYS_MAX as u64 * unit_len
        };
        let of_condition = |needles: &Vec<Needle>| needles.iter().map(of_alternative).sum::<u64>();
        // Sets of blocks take a bit for each.
        conditions.iter().map(of_condition).max().unwrap_or(0) + index.block_count() as u64
    }

    /// The next ranges of the region to read, ascending and not adjacent; `None` if the candidates
    /// are final.
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
            // This alternative excludes no block, so neither does the condition.
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

    /// Takes the bytes of the ranges of the last [`Probe::next_reads`], in their order.
    ///
    /// # Errors
    /// If the bytes are damaged or of another length. The condition in question then excludes no
    /// further block, and the caller may continue with the other conditions.
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
                // Only units that a target needs were requested.
                let Ok(place) = found else { continue };
                let payload = payloads[place];
                let remainders = &REMAINDERS[key.key.bit() as usize];
                alternative.targets.retain(|target| {
                    let bit_in_block = remainders[target.descriptor.bits()];
                    let at = slice_start + target.first_bit + u64::from(bit_in_block);
                    !decides(target.descriptor, key)
                        || payload[(at / 8) as usize] >> (at % 8) & 1 != 0
                });
            }
        }
        self.current = Some(condition);
        Ok(())
    }

    /// The payload of each unit from the pieces, which cover the ranges.
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

    /// The blocks that are left. They include all blocks in which the conditions hold.
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
