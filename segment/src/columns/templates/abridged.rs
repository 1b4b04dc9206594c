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

use std::ops::Range;

use ahash::HashMap;
use logsvc_logql::engine::{Abridger, AbridgerState, NumberKind};

use super::super::packed::Malformed;
use super::decode::NUMBER_ROOM;
use super::parts::Numbers;
use super::{END, Form, LineParts, LinePlaces, SlotSet};

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

/// Fragments are read again in other states up to so many times their text.
const MOST_READS: usize = 4;

/// Abridged lines are not longer than whole ones, but for a few bytes.
const MOST_MORE_BYTES: usize = 64;

/// What the abridger does with a fragment, and the end of the line behind it, or with a number.
#[derive(Clone, Copy)]
struct Move {
    from: AbridgerState,
    /// [`REFUSED`] if the line must be read as a whole.
    to: AbridgerState,
    /// The text that is kept.
    text: Text,
    /// Of a number: whether it is kept behind that text.
    is_kept: bool,
}

/// No state: an abridger has fewer of them.
const REFUSED: AbridgerState = AbridgerState::MAX;

impl Text {
    fn range(self) -> Range<usize> {
        self.start as usize..(self.start + self.len) as usize
    }
}

impl Move {
    const UNKNOWN: Move =
        Move { from: REFUSED, to: REFUSED, text: Text { start: 0, len: 0 }, is_kept: false };

    /// Whether lines have to be looked at.
    fn is_seen(self) -> bool {
        self.text.len > 0 || self.is_kept || self.to == REFUSED
    }
}

/// In which state lines come to a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// None comes, or none that is not refused.
    Unmet,
    One(AbridgerState),
    /// Each line has its state noted.
    Several,
}

/// The text that all lines which come to a slot have, and that is not among their pieces yet. So
/// what many slots in turn keep of lines is one piece.
#[derive(Clone, Copy)]
enum Pending {
    Nothing,
    Text(Text),
    /// They differ, and are among the pieces.
    Different,
}

/// A place in the kept texts, in bytes.
#[derive(Clone, Copy, Default)]
struct Text {
    start: u32,
    len: u32,
}

/// A part of an abridged line.
struct Piece {
    line: u16,
    text: Text,
}

/// The work on one block.
struct Abridging<'a> {
    parts: &'a LineParts,
    abridger: &'a mut Abridger,
    /// By slot: the slots before it, and how lines come from them.
    slots_before: &'a [SlotSet],
    befores: Vec<Before>,
    /// By slot. Only slots behind a single one have texts.
    pending: Vec<Pending>,
    /// One move of each fragment. It is the only one where lines come in one state.
    moves: Vec<Move>,
    /// The moves of fragments that are read in several states.
    others: HashMap<(u16, AbridgerState), Move>,
    /// The state of each line, where it is noted.
    line_states: Vec<AbridgerState>,
    /// The texts that moves keep, and the pieces with numbers.
    kept: Vec<u8>,
    /// The pieces of lines, those of each line in order.
    pieces: Vec<Piece>,
    /// The length of each abridged line.
    lens: Vec<u32>,
    /// Bytes of abridged lines that may still come.
    room: usize,
    is_refused: Vec<bool>,
    refused_count: usize,
    /// Bytes of fragments that may still be read.
    reads_left: usize,
}

impl LineParts {
    /// The abridged lines of the block. `places` are those of these parts, `timestamps_ns` the
    /// timestamps of all lines, if [`Self::has_times`]. `None` if the block had better be read as
    /// a whole.
    ///
    /// # Errors
    /// If the timestamps do not fit the block, or its uses or numbers are malformed.
    pub fn abridged(
        &self,
        abridger: &mut Abridger,
        places: &mut LinePlaces,
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
                Before::One(state) => work.slot(slot, state, places, timestamps_ns)?,
                Before::Several => {
                    work.note_states(slot, places)?;
                    work.mixed_slot(slot, places, timestamps_ns)?;
                }
            }
            if work.refused_count > refused_max || work.is_full() {
                return Ok(None);
            }
        }
        let found = work.lines();
        if work.refused_count == 0 {
            return Ok(Some(found));
        }
        let is_refused = std::mem::take(&mut work.is_refused);
        self.with_whole(found, &is_refused, places, timestamps_ns).map(Some)
    }

    /// Puts the lines that were refused among the others.
    fn with_whole(
        &self,
        abridged: AbridgedLines,
        is_refused: &[bool],
        places: &mut LinePlaces,
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
            places,
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

/// What the numbers of a column look like; `None` if it has none.
fn kind_of(form: Form) -> Option<NumberKind> {
    match form {
        Form::Decimal | Form::FixedDecimal(_) => Some(NumberKind::Decimal),
        Form::FixedHex(_) => Some(NumberKind::Hex),
        Form::Time(layout, _) if layout.has_space() => Some(NumberKind::SpacedTime),
        Form::Time(..) => Some(NumberKind::Time),
        Form::Nothing => None,
    }
}

impl<'a> Abridging<'a> {
    fn new(parts: &'a LineParts, slots_before: &'a [SlotSet], abridger: &'a mut Abridger) -> Self {
        let lines = parts.line_count();
        let mut befores = vec![Before::Unmet; parts.slot_count()];
        befores[0] = Before::One(Abridger::START);
        Abridging {
            parts,
            abridger,
            slots_before,
            befores,
            pending: vec![Pending::Nothing; parts.slot_count()],
            moves: vec![Move::UNKNOWN; parts.nexts.len()],
            others: HashMap::with_hasher(ahash::RandomState::with_seeds(1, 2, 3, 4)),
            line_states: Vec::new(),
            kept: Vec::new(),
            pieces: Vec::new(),
            lens: vec![0; lines],
            room: parts.raw_len() + MOST_MORE_BYTES * lines,
            is_refused: vec![false; lines],
            refused_count: 0,
            reads_left: MOST_READS * parts.text.len() + parts.nexts.len(),
        }
    }

    /// Whether the lines have become too long, which lines of malformed parts may.
    fn is_full(&self) -> bool {
        self.room == 0
    }

    /// Takes a slot to which lines come in one state.
    fn slot(
        &mut self,
        slot: usize,
        state: AbridgerState,
        places: &mut LinePlaces,
        timestamps_ns: &[i64],
    ) -> Result<(), Malformed> {
        let parts = self.parts;
        let mut number = self.number(slot, state);
        if let Pending::Text(text) = self.pending[slot] {
            number.text = self.joined(text, number.text);
        }
        let mut is_seen = number.is_kept || number.to == REFUSED;
        if number.to != REFUSED {
            for fragment in parts.fragments_of(slot) {
                let mut step = self.read(fragment as u16, number.to);
                if !number.is_kept {
                    step.text = self.joined(number.text, step.text);
                }
                self.moves[fragment] = step;
                self.lead(parts.nexts[fragment], step);
            }
            if !number.is_kept {
                number.text = Text::default();
                self.put_off(slot);
            }
            is_seen |= self.moves[parts.fragments_of(slot)].iter().any(|step| step.is_seen());
        }
        if !is_seen {
            return Ok(());
        }
        let mut numbers = self.numbers(slot, number)?;
        let mut index = 0;
        let mut end = Ok(());
        places.of(parts, slot)?.each(parts.uses_of(slot), |used, line| {
            let step = match number.to {
                REFUSED => number,
                _ => self.moves[usize::from(used)],
            };
            if step.to == REFUSED {
                self.refuse(line);
            } else {
                let timestamp_ns = timestamps_ns.get(line);
                let kept = self.keep(line, number, step, numbers.as_mut(), index, timestamp_ns);
                end = end.and(kept);
            }
            index += 1;
        });
        end
    }

    /// Takes a slot to which lines come in several states, which are noted.
    fn mixed_slot(
        &mut self,
        slot: usize,
        places: &mut LinePlaces,
        timestamps_ns: &[i64],
    ) -> Result<(), Malformed> {
        let parts = self.parts;
        let mut number = Move::UNKNOWN;
        let mut numbers = None;
        let mut index = 0;
        let mut end = Ok(());
        places.of(parts, slot)?.each(parts.uses_of(slot), |used, line| {
            let state = self.line_states[line];
            let place = index;
            index += 1;
            if self.is_refused[line] {
                return;
            }
            if number.from != state {
                number = self.number(slot, state);
            }
            if number.to == REFUSED {
                return self.refuse(line);
            }
            let step = self.other(used, number.to);
            if step.to == REFUSED {
                return self.refuse(line);
            }
            if number.is_kept && numbers.is_none() {
                match self.numbers(slot, number) {
                    Ok(found) => numbers = found,
                    Err(malformed) => end = Err(malformed),
                }
            }
            let timestamp_ns = timestamps_ns.get(line);
            let kept = self.keep(line, number, step, numbers.as_mut(), place, timestamp_ns);
            end = end.and(kept);
            self.line_states[line] = step.to;
            self.lead(parts.nexts[usize::from(used)], step);
        });
        end
    }

    /// Notes the states of the lines that come to a slot from slots of one state.
    fn note_states(&mut self, slot: usize, places: &mut LinePlaces) -> Result<(), Malformed> {
        self.line_states.resize(self.parts.line_count(), REFUSED);
        let before = self.slots_before[slot].iter();
        for from in before.filter(|&from| self.befores[from] != Before::Several) {
            places.of(self.parts, from)?.each(self.parts.uses_of(from), |used, line| {
                if usize::from(self.parts.nexts[usize::from(used)]) + 1 == slot {
                    self.line_states[line] = self.moves[usize::from(used)].to;
                }
            });
        }
        Ok(())
    }

    /// Notes that lines come to the slot of a column from a move.
    #[inline]
    fn lead(&mut self, next: u8, step: Move) {
        if next == END || step.to == REFUSED {
            return;
        }
        let before = &mut self.befores[usize::from(next) + 1];
        *before = match *before {
            Before::Unmet => Before::One(step.to),
            Before::One(state) if state == step.to => Before::One(state),
            _ => Before::Several,
        };
    }

    /// Leaves the texts of a slot's moves to the next slots, where all that lead there are equal.
    fn put_off(&mut self, slot: usize) {
        let (parts, fragments) = (self.parts, self.parts.fragments_of(slot));
        let next_of = |fragment: usize| usize::from(parts.nexts[fragment]) + 1;
        for fragment in fragments.clone() {
            let step = self.moves[fragment];
            let Some(before) = self.slots_before.get(next_of(fragment)) else { continue };
            if step.to == REFUSED || before.len() > 1 {
                continue;
            }
            let is_equal = |text: Text| {
                text.len == step.text.len
                    && (text.len == 0 || text.start == step.text.start || {
                        self.kept[text.range()] == self.kept[step.text.range()]
                    })
            };
            self.pending[next_of(fragment)] = match self.pending[next_of(fragment)] {
                Pending::Nothing => Pending::Text(step.text),
                Pending::Text(text) if is_equal(text) => Pending::Text(text),
                _ => Pending::Different,
            };
        }
        for fragment in fragments {
            let next = next_of(fragment);
            // States of lines say nothing about texts.
            match (self.befores.get(next), self.pending.get_mut(next)) {
                (Some(Before::One(_)), Some(Pending::Text(_))) => {
                    self.moves[fragment].text = Text::default();
                }
                (Some(_), Some(pending)) => *pending = Pending::Different,
                _ => {}
            }
        }
    }

    /// One text, and another behind it.
    fn joined(&mut self, text: Text, behind: Text) -> Text {
        if text.len == 0 || behind.len == 0 {
            return if text.len == 0 { behind } else { text };
        }
        let start = self.kept.len() as u32;
        self.kept.extend_from_within(text.range());
        self.kept.extend_from_within(behind.range());
        Text { start, len: text.len + behind.len }
    }

    fn refuse(&mut self, line: usize) {
        if !std::mem::replace(&mut self.is_refused[line], true) {
            self.refused_count += 1;
        }
    }

    /// The numbers of a slot, if a move keeps them.
    fn numbers(&self, slot: usize, number: Move) -> Result<Option<Numbers<'a>>, Malformed> {
        match slot.checked_sub(1) {
            Some(column) if number.is_kept => self.parts.numbers_of(column).map(Some),
            _ => Ok(None),
        }
    }

    /// Adds what two moves keep to a line: a number, the one at `index` of its slot, and the
    /// fragment behind it.
    #[inline]
    fn keep(
        &mut self,
        line: usize,
        number: Move,
        fragment: Move,
        numbers: Option<&mut Numbers<'_>>,
        index: usize,
        timestamp_ns: Option<&i64>,
    ) -> Result<(), Malformed> {
        if !number.is_kept {
            self.add(line, number.text);
            self.add(line, fragment.text);
            return Ok(());
        }
        if self.is_full() {
            return Ok(());
        }
        let start = self.kept.len();
        self.kept.extend_from_within(number.text.range());
        let mut digits = [0; NUMBER_ROOM];
        let numbers = numbers.ok_or(Malformed)?;
        self.kept.extend_from_slice(numbers.number(index, timestamp_ns, &mut digits)?);
        self.kept.extend_from_within(fragment.text.range());
        self.add(line, Text { start: start as u32, len: (self.kept.len() - start) as u32 });
        Ok(())
    }

    #[inline]
    fn add(&mut self, line: usize, text: Text) {
        if text.len == 0 || self.is_full() {
            return;
        }
        self.room = self.room.saturating_sub(text.len as usize);
        self.lens[line] += text.len;
        self.pieces.push(Piece { line: line as u16, text });
    }

    /// The move of a number before the fragments of a slot.
    fn number(&mut self, slot: usize, state: AbridgerState) -> Move {
        let still = Move { from: state, to: state, ..Move::UNKNOWN };
        let Some(column) = slot.checked_sub(1) else { return still };
        let Some(kind) = self.parts.form(column as u8).and_then(kind_of) else { return still };
        let start = self.kept.len();
        let read = self.abridger.number(state, kind, &mut self.kept);
        let is_kept = read.is_some_and(|read| read.is_kept);
        self.made(state, read.map(|read| read.state), start, is_kept)
    }

    /// The move of a fragment, which may be known.
    #[inline]
    fn other(&mut self, fragment: u16, state: AbridgerState) -> Move {
        let known = self.moves[usize::from(fragment)];
        if known.from == state {
            return known;
        }
        if let Some(known) = self.others.get(&(fragment, state)) {
            return *known;
        }
        let found = self.read(fragment, state);
        if known.from == REFUSED {
            self.moves[usize::from(fragment)] = found;
        } else {
            self.others.insert((fragment, state), found);
        }
        found
    }

    /// Reads a fragment.
    fn read(&mut self, fragment: u16, state: AbridgerState) -> Move {
        let text = self.parts.fragment(usize::from(fragment));
        let start = self.kept.len();
        let mut to = None;
        if let Some(left) = self.reads_left.checked_sub(text.len() + 1) {
            self.reads_left = left;
            to = self.abridger.text(state, text, &mut self.kept);
        }
        if self.parts.nexts[usize::from(fragment)] == END {
            to = to.filter(|&state| self.abridger.end(state, &mut self.kept));
        }
        self.made(state, to, start, false)
    }

    /// A move that keeps the text from `start` on.
    fn made(
        &mut self,
        from: AbridgerState,
        to: Option<AbridgerState>,
        start: usize,
        is_kept: bool,
    ) -> Move {
        if to.is_none() {
            self.kept.truncate(start);
        }
        let text = Text { start: start as u32, len: (self.kept.len() - start) as u32 };
        let to = to.unwrap_or(REFUSED);
        Move { from, to, text, is_kept: is_kept && to != REFUSED }
    }

    /// Puts the pieces of lines together.
    fn lines(&self) -> AbridgedLines {
        let mut end = 0;
        let mut nexts: Vec<u32> = Vec::with_capacity(self.lens.len());
        let mut ends = Vec::with_capacity(self.lens.len());
        for len in &self.lens {
            nexts.push(end);
            end += len;
            ends.push(end);
        }
        let mut lines = vec![0; end as usize];
        for Piece { line, text } in &self.pieces {
            let at = &mut nexts[usize::from(*line)];
            lines[*at as usize..][..text.len as usize].copy_from_slice(&self.kept[text.range()]);
            *at += text.len;
        }
        AbridgedLines { ends, lines }
    }
}

#[cfg(test)]
mod tests;
