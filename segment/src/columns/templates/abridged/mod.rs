//! Abridged lines of a block, made from its parts.
//!
//! What an [`Abridger`] does with a fragment follows from its state. The column of a number tells
//! mostly what stands before it, so all lines that come to a slot have one state, and each
//! fragment of the slot is read once for the whole block. Slots are worked on in the order in
//! which lines use them. A slot of which nothing is kept is passed over, whatever number of lines
//! use it. Only where lines come in several states, each of them is looked at. Only numbers that
//! are kept are decoded.
//!
//! Guarantees: a line that the abridger refuses is there as a whole. Arbitrary parts give an error
//! or lines. Some blocks give `None`, since they had better be read as a whole: those in which
//! lines come to one slot several times, or fragments are read in many states, or more than a
//! quarter of the lines is refused.

mod pieces;
mod slots;

use logsvc_logql::engine::Abridger;

use self::slots::{Abridging, Before};
use super::super::packed::Malformed;
use super::{LineParts, SlotLines, SlotSet};

/// The abridged lines of a block.
#[derive(Debug, Default)]
pub struct AbridgedLines {
    /// The exclusive end of each line.
    pub ends: Vec<u32>,
    /// The lines, one after another.
    pub lines: Vec<u8>,
}

/// A block of which more than one line in so many is refused is read as a whole.
const REFUSED_ONE_IN: usize = 4;

impl LineParts {
    /// The abridged lines of the block. `slot_lines` are those of these parts, `timestamps_ns` the
    /// timestamps of all lines, if [`Self::has_times`]. `None` if the block had better be read as
    /// a whole.
    ///
    /// # Errors
    /// If the timestamps do not fit the block, or its uses or numbers are malformed.
    pub fn abridged(
        &self,
        abridger: &mut Abridger,
        slot_lines: &mut SlotLines,
        timestamps_ns: &[i64],
    ) -> Result<Option<AbridgedLines>, Malformed> {
        if self.has_times() && timestamps_ns.len() != self.line_count() {
            return Err(Malformed);
        }
        let before = self.slots_before();
        let Some(order) = in_order(&before) else { return Ok(None) };
        let refused_max = self.line_count() / REFUSED_ONE_IN;
        let mut work = Abridging::new(self, &before, abridger);
        for slot in order {
            match work.befores[slot] {
                Before::Unmet => {}
                Before::One(state) => work.slot(slot, state, slot_lines, timestamps_ns)?,
                Before::Several => {
                    work.note_states(slot, slot_lines)?;
                    work.mixed_slot(slot, slot_lines, timestamps_ns)?;
                }
            }
            if work.refused_count > refused_max {
                return Ok(None);
            }
        }
        work.end(slot_lines)?;
        if work.pieces.is_full() {
            return Ok(None);
        }
        let found = work.pieces.lines();
        if work.refused_count == 0 {
            return Ok(Some(found));
        }
        let is_refused = std::mem::take(&mut work.is_refused);
        self.with_whole(found, &is_refused, slot_lines, timestamps_ns).map(Some)
    }

    /// Puts the lines that were refused among the others.
    fn with_whole(
        &self,
        abridged: AbridgedLines,
        is_refused: &[bool],
        slot_lines: &mut SlotLines,
        timestamps_ns: &[i64],
    ) -> Result<AbridgedLines, Malformed> {
        let mut all = AbridgedLines::default();
        let mut taken = 0;
        let mut take = |all: &mut AbridgedLines, until: usize| {
            for line in taken..until {
                let start = line.checked_sub(1).map_or(0, |before| abridged.ends[before] as usize);
                all.lines.extend_from_slice(&abridged.lines[start..abridged.ends[line] as usize]);
                all.ends.push(all.lines.len() as u32);
            }
            taken = until + 1;
        };
        let lines = 0..self.line_count();
        self.join(
            slot_lines,
            timestamps_ns,
            lines,
            |line| is_refused[line],
            |line, text| {
                take(&mut all, line);
                all.lines.extend_from_slice(text);
                all.ends.push(all.lines.len() as u32);
            },
        )?;
        take(&mut all, self.line_count());
        Ok(all)
    }
}

/// The slots, each behind all that lead to it, by the slots before each. `None` if a slot comes
/// before itself.
fn in_order(before: &[SlotSet]) -> Option<Vec<usize>> {
    let mut left: Vec<usize> = before.iter().map(SlotSet::len).collect();
    let mut order: Vec<usize> = (0..before.len()).filter(|&slot| left[slot] == 0).collect();
    let mut done = 0;
    while let Some(&slot) = order.get(done) {
        done += 1;
        for behind in (0..before.len()).filter(|&behind| before[behind].has(slot)) {
            left[behind] -= 1;
            if left[behind] == 0 {
                order.push(behind);
            }
        }
    }
    (order.len() == before.len()).then_some(order)
}

#[cfg(test)]
mod tests;
