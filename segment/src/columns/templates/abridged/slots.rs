//! Works on the slots of a block one by one.

use ahash::HashMap;
use logsvc_logql::engine::{Abridger, AbridgerState, NumberKind};

use super::super::super::packed::Malformed;
use super::super::decode::NUMBER_ROOM;
use super::super::parts::Numbers;
use super::super::{END, Form, LineParts, SlotLines, SlotSet};
use super::pieces::{Pieces, Text};

/// Fragments are read again in other states up to so many times their text.
const MOST_READS: usize = 4;

/// What the abridger does with a fragment or a number.
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
pub(super) enum Before {
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

/// The work on one block.
pub(super) struct Abridging<'a> {
    parts: &'a LineParts,
    abridger: &'a mut Abridger,
    /// By slot: the slots before it, and how lines come from them.
    slots_before: &'a [SlotSet],
    pub(super) befores: Vec<Before>,
    /// By slot. Only slots behind a single one have texts.
    pending: Vec<Pending>,
    /// One move of each fragment. It is the only one where lines come in one state.
    moves: Vec<Move>,
    /// The moves of fragments that are read in several states.
    others: HashMap<(u16, AbridgerState), Move>,
    /// The state of each line, where it is noted.
    line_states: Vec<AbridgerState>,
    pub(super) pieces: Pieces,
    /// Slots at whose fragments lines end, with the last text of each such fragment.
    ends: Vec<(usize, Vec<(u16, Text)>)>,
    /// Whether lines end at fragments that are read in several states.
    has_mixed_ends: bool,
    pub(super) is_refused: Vec<bool>,
    pub(super) refused_count: usize,
    /// Bytes of fragments that may still be read.
    reads_left: usize,
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
    pub(super) fn new(
        parts: &'a LineParts,
        slots_before: &'a [SlotSet],
        abridger: &'a mut Abridger,
    ) -> Self {
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
            pieces: Pieces::new(lines, parts.raw_len()),
            ends: Vec::new(),
            has_mixed_ends: false,
            is_refused: vec![false; lines],
            refused_count: 0,
            reads_left: MOST_READS * parts.text.len() + parts.nexts.len(),
        }
    }

    /// Takes a slot to which lines come in one state.
    pub(super) fn slot(
        &mut self,
        slot: usize,
        state: AbridgerState,
        slot_lines: &mut SlotLines,
        timestamps_ns: &[i64],
    ) -> Result<(), Malformed> {
        let parts = self.parts;
        let mut number = self.number(slot, state);
        if let Pending::Text(text) = self.pending[slot] {
            number.text = self.pieces.joined(text, number.text);
        }
        let mut ends = Vec::new();
        let mut is_seen = number.is_kept || number.to == REFUSED;
        if number.to != REFUSED {
            for fragment in parts.fragments_of(slot) {
                let (mut step, end) = self.read(fragment as u16, number.to);
                if !number.is_kept {
                    step.text = self.pieces.joined(number.text, step.text);
                }
                if parts.nexts[fragment] == END && step.to != REFUSED {
                    let mut last = end;
                    if !number.is_kept {
                        last = self.pieces.joined(std::mem::take(&mut step.text), end);
                    }
                    ends.push((fragment as u16, last));
                }
                self.moves[fragment] = step;
                self.lead(parts.nexts[fragment], step);
            }
            if !ends.is_empty() {
                self.ends.push((slot, ends));
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
        slot_lines.of(parts, slot)?.each(parts.uses_of(slot), |used, line| {
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
    pub(super) fn mixed_slot(
        &mut self,
        slot: usize,
        slot_lines: &mut SlotLines,
        timestamps_ns: &[i64],
    ) -> Result<(), Malformed> {
        let parts = self.parts;
        self.has_mixed_ends |= parts.nexts[parts.fragments_of(slot)].contains(&END);
        // Of each state that was met.
        let mut moves: Vec<Move> = Vec::new();
        let mut numbers = None;
        let mut index = 0;
        let mut end = Ok(());
        slot_lines.of(parts, slot)?.each(parts.uses_of(slot), |used, line| {
            let state = self.line_states[line];
            let place = index;
            index += 1;
            if self.is_refused[line] {
                return;
            }
            let number = match moves.iter().find(|known| known.from == state) {
                Some(known) => *known,
                None => {
                    moves.push(self.number(slot, state));
                    moves[moves.len() - 1]
                }
            };
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
    pub(super) fn note_states(
        &mut self,
        slot: usize,
        slot_lines: &mut SlotLines,
    ) -> Result<(), Malformed> {
        self.line_states.resize(self.parts.line_count(), REFUSED);
        let before = self.slots_before[slot].iter();
        for from in before.filter(|&from| self.befores[from] != Before::Several) {
            slot_lines.of(self.parts, from)?.each(self.parts.uses_of(from), |used, line| {
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
            let is_equal = |text: Text| self.pieces.are_equal(text, step.text);
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
            self.pieces.add(line, number.text);
            self.pieces.add(line, fragment.text);
            return Ok(());
        }
        let mut digits = [0; NUMBER_ROOM];
        let numbers = numbers.ok_or(Malformed)?;
        let number_text = numbers.number(index, timestamp_ns, &mut digits)?;
        self.pieces.add_around(line, number.text, number_text, fragment.text);
        Ok(())
    }

    /// The move of a number before the fragments of a slot.
    fn number(&mut self, slot: usize, state: AbridgerState) -> Move {
        let still = Move { from: state, to: state, ..Move::UNKNOWN };
        let Some(column) = slot.checked_sub(1) else { return still };
        let Some(kind) = self.parts.form(column as u8).and_then(kind_of) else { return still };
        let start = self.pieces.kept.len();
        let read = self.abridger.number(state, kind, &mut self.pieces.kept);
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
        let (mut found, end) = self.read(fragment, state);
        // It stands behind the other.
        found.text.len += end.len;
        if known.from == REFUSED {
            self.moves[usize::from(fragment)] = found;
        } else {
            self.others.insert((fragment, state), found);
        }
        found
    }

    /// Reads a fragment. The second text is what a line that ends there has behind that.
    fn read(&mut self, fragment: u16, state: AbridgerState) -> (Move, Text) {
        let text = self.parts.fragment(usize::from(fragment));
        let start = self.pieces.kept.len();
        let mut to = None;
        if let Some(left) = self.reads_left.checked_sub(text.len() + 1) {
            self.reads_left = left;
            to = self.abridger.text(state, text, &mut self.pieces.kept);
        }
        let mut step = self.made(state, to, start, false);
        let mut end = Text { start: self.pieces.kept.len() as u32, len: 0 };
        if self.parts.nexts[usize::from(fragment)] == END && step.to != REFUSED {
            if !self.abridger.end(step.to, &mut self.pieces.kept) {
                step.to = REFUSED;
            }
            end.len = self.pieces.kept.len() as u32 - end.start;
        }
        (step, end)
    }

    /// Ends the lines that do not end at fragments which are read in several states.
    pub(super) fn end(&mut self, slot_lines: &mut SlotLines) -> Result<(), Malformed> {
        let ends = std::mem::take(&mut self.ends);
        let mut texts = ends.iter().flat_map(|(_, ends)| ends).map(|(_, text)| *text);
        let Some(first) = texts.next() else { return Ok(()) };
        let is_first = |text: Text| self.pieces.are_equal(text, first);
        if !self.has_mixed_ends && texts.all(is_first) {
            self.pieces.end_with(first);
            return Ok(());
        }
        let mut last = vec![Text::default(); self.moves.len()];
        for (slot, ends) in &ends {
            if ends.iter().all(|(_, text)| text.len == 0) {
                continue;
            }
            ends.iter().for_each(|&(fragment, text)| last[usize::from(fragment)] = text);
            slot_lines.of(self.parts, *slot)?.each(self.parts.uses_of(*slot), |used, line| {
                self.pieces.add(line, last[usize::from(used)]);
            });
        }
        Ok(())
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
            self.pieces.kept.truncate(start);
        }
        let text = Text { start: start as u32, len: (self.pieces.kept.len() - start) as u32 };
        let to = to.unwrap_or(REFUSED);
        Move { from, to, text, is_kept: is_kept && to != REFUSED }
    }
}
