//! Which lines use each slot of a block.
//!
//! A slot that follows the numbers of a column is used by the lines of the fragments that lead to
//! the column. So the lines of a slot follow from the lines of the slots before it, without a
//! look at any other slot. If all fragments of a slot lead to one column, which no other slot
//! leads to, the slot behind it has the same lines. Where a slot comes before itself, a walk along
//! all lines finds the lines of all uses. Parts keep what was found for those that come later.
//!
//! Guarantees: arbitrary parts give an error or, for each slot, as many lines as it has uses, in
//! ascending order. The work is bounded by the uses of the block, and its lines for each slot.

use std::sync::Arc;

use super::super::packed::Malformed;
use super::{LineParts, MAX_COLUMNS};

/// Works out which lines use the slots of one block, when they are asked for. The parts keep what
/// was found.
#[derive(Debug, Default)]
pub struct SlotLines {
    /// By slot: the slots that lead to it, once one was asked for that is not known.
    before: Vec<SlotSet>,
}

/// The lines that use a slot.
#[derive(Clone, Debug)]
pub(super) enum LinesOf {
    /// Each line, once.
    Each,
    /// The line of each use.
    Lines(Arc<[u16]>),
}

impl SlotLines {
    /// The lines that use a slot. `parts` are the same in all calls.
    pub(super) fn of<'a>(
        &mut self,
        parts: &'a LineParts,
        slot: usize,
    ) -> Result<&'a LinesOf, Malformed> {
        if let Some(lines) = parts.known_lines(slot) {
            return Ok(lines);
        }
        if self.before.is_empty() {
            self.before = parts.slots_before();
        }
        if !self.find(parts, slot, &mut vec![false; parts.slot_count()])? {
            walk(parts)?;
        }
        parts.known_lines(slot).ok_or(Malformed)
    }

    /// The slot before this one, if the same lines use it.
    fn same_lines(&self, parts: &LineParts, slot: usize) -> Option<usize> {
        let mut before = self.before[slot].iter();
        let (Some(one), None) = (before.next(), before.next()) else { return None };
        let leads = |next: &u8| usize::from(*next) + 1 == slot;
        parts.nexts[parts.fragments_of(one)].iter().all(leads).then_some(one)
    }

    /// Works a slot out, after those before it. False if a slot comes before itself.
    fn find(
        &mut self,
        parts: &LineParts,
        slot: usize,
        is_begun: &mut [bool],
    ) -> Result<bool, Malformed> {
        if parts.known_lines(slot).is_some() {
            return Ok(true);
        }
        if std::mem::replace(&mut is_begun[slot], true) {
            return Ok(false);
        }
        let before: Vec<usize> = self.before[slot].iter().collect();
        for &slot in &before {
            if !self.find(parts, slot, is_begun)? {
                return Ok(false);
            }
        }
        let lines = self.behind(parts, &before, slot - 1)?;
        let uses = match &lines {
            LinesOf::Each => parts.line_count(),
            LinesOf::Lines(lines) => lines.len(),
        };
        if uses != parts.uses_of(slot).len() {
            return Err(Malformed);
        }
        parts.keep_lines(slot, lines);
        Ok(true)
    }

    /// The lines with a number of a column, to which some slots lead.
    fn behind(
        &self,
        parts: &LineParts,
        before: &[usize],
        column: usize,
    ) -> Result<LinesOf, Malformed> {
        if let Some(slot) = self.same_lines(parts, column + 1) {
            return parts.known_lines(slot).cloned().ok_or(Malformed);
        }
        let leads = |next: u8| usize::from(next) == column;
        if let [slot] = *before {
            let all = parts.known_lines(slot).ok_or(Malformed)?;
            let mut lines = vec![0; parts.uses_of(slot).len()];
            let mut len = 0;
            all.each(parts.uses_of(slot), |used, line| {
                lines[len] = line as u16;
                len += usize::from(leads(parts.nexts[usize::from(used)]));
            });
            return Ok(LinesOf::Lines(lines[..len].into()));
        }
        // No slot comes before itself, so a line uses one of them, once.
        let mut is_led = vec![0u8; parts.line_count()];
        for &slot in before {
            let lines = parts.known_lines(slot).ok_or(Malformed)?;
            lines.each(parts.uses_of(slot), |used, line| {
                is_led[line] |= u8::from(leads(parts.nexts[usize::from(used)]));
            });
        }
        let mut lines = vec![0; is_led.len()];
        let mut len = 0;
        for (&is_led, line) in is_led.iter().zip(0..=u16::MAX) {
            lines[len] = line;
            len += usize::from(is_led);
        }
        Ok(LinesOf::Lines(lines[..len].into()))
    }
}

/// Works all slots out, line by line.
fn walk(parts: &LineParts) -> Result<(), Malformed> {
    let lines = parts.walk()?;
    for slot in 0..parts.slot_count() {
        let start = parts.first_use(slot);
        let of_slot = &lines[start..start + parts.uses_of(slot).len()];
        parts.keep_lines(slot, LinesOf::Lines(of_slot.into()));
    }
    Ok(())
}

/// Some slots of a block.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct SlotSet([u64; (MAX_COLUMNS + 1).div_ceil(64)]);

impl SlotSet {
    pub(super) fn add(&mut self, slot: usize) {
        self.0[slot / 64] |= 1 << (slot % 64);
    }

    pub(super) fn has(&self, slot: usize) -> bool {
        self.0[slot / 64] >> (slot % 64) & 1 == 1
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// In ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        let mut words = self.0;
        let mut at = 0;
        std::iter::from_fn(move || {
            while *words.get(at)? == 0 {
                at += 1;
            }
            let bit = words[at].trailing_zeros() as usize;
            words[at] &= words[at] - 1;
            Some(64 * at + bit)
        })
    }
}

impl LinesOf {
    /// Calls `each` with the `uses` of the slot and their lines.
    #[inline]
    pub(super) fn each(&self, uses: &[u16], mut each: impl FnMut(u16, usize)) {
        match self {
            LinesOf::Each => uses.iter().zip(0..).for_each(|(used, line)| each(*used, line)),
            LinesOf::Lines(lines) => {
                let lines = uses.iter().zip(&**lines);
                lines.for_each(|(used, line)| each(*used, usize::from(*line)));
            }
        }
    }
}

/// Finds the uses of a slot line by line.
pub(super) struct UseCursor<'a> {
    lines: &'a LinesOf,
    /// The first use that was not passed.
    at: usize,
    /// The line behind the last one.
    line: usize,
}

impl<'a> UseCursor<'a> {
    pub(super) fn new(lines: &'a LinesOf) -> UseCursor<'a> {
        UseCursor { lines, at: 0, line: 0 }
    }

    /// The next use of the slot by a line. Lines ascend from call to call.
    #[inline]
    pub(super) fn next_of(&mut self, line: usize) -> Result<usize, Malformed> {
        let found = match self.lines {
            // A line has one.
            LinesOf::Each if line < self.at => return Err(Malformed),
            LinesOf::Each => line,
            LinesOf::Lines(lines) => {
                let has =
                    |place: usize| lines.get(place).is_some_and(|&of| usize::from(of) == line);
                // Most slots are used by nearly each line, once.
                let guess = (self.at + line).saturating_sub(self.line);
                let is_first = |place: usize| place == self.at || !has(place - 1);
                let found = match guess > self.at && has(guess) && is_first(guess) {
                    true => guess,
                    false => first_from(lines, self.at, line),
                };
                if !has(found) {
                    return Err(Malformed);
                }
                found
            }
        };
        (self.at, self.line) = (found + 1, line + 1);
        Ok(found)
    }
}

/// The first place from `at` on with this line or a later one. `lines` ascend.
#[inline]
fn first_from(lines: &[u16], at: usize, line: usize) -> usize {
    let is_before = |place: usize| lines.get(place).is_some_and(|&of| usize::from(of) < line);
    if !is_before(at) {
        return at;
    }
    let (mut low, mut step) = (at, 1);
    while is_before(low + step) {
        low += step;
        step *= 2;
    }
    let high = (low + step).min(lines.len());
    low + 1 + lines[low + 1..high].partition_point(|&of| usize::from(of) < line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_from_any_place_on() {
        let lines = [0, 0, 2, 3, 3, 3, 7, 9, 20, 21, 22, 23, 40];
        for at in 0..=lines.len() {
            for line in 0..50 {
                let after = |place: &usize| lines.get(*place).is_none_or(|&of| of as usize >= line);
                let expected = (at..=lines.len()).find(after);
                assert_eq!(Some(first_from(&lines, at, line)), expected, "{at} {line}");
            }
        }
    }
}
