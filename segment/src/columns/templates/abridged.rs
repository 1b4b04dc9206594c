//! Abridged lines of a block, made from its parts.
//!
//! What an [`Abridger`] does with a fragment follows from its state. Nearly every fragment is read
//! in one state, so it is read once for the whole block, and a line costs a look at each of its
//! fragments. Only numbers that are kept are decoded.
//!
//! Guarantees: a line that the abridger refuses is there as a whole. Arbitrary parts give an error
//! or lines. Reading fragments in many states ends with `None`, as does a quarter of lines that
//! are refused: then the block had better be read as a whole.

use ahash::HashMap;
use logsvc_logql::engine::{Abridger, AbridgerState, NumberKind};

use super::super::packed::Malformed;
use super::decode::NUMBER_ROOM;
use super::parts::{Numbers, Use};
use super::{END, Form, LineParts, LinePlaces, MAX_COLUMNS};

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

/// What the abridger does with a fragment or number.
#[derive(Clone, Copy)]
struct Move {
    from: AbridgerState,
    /// [`REFUSED`] if the line must be read as a whole.
    to: AbridgerState,
    /// Where the text that is kept starts, and its length in bytes.
    start: u32,
    len: u32,
    /// Of a number: whether it is kept behind that text.
    is_kept: bool,
}

/// No state: an abridger has fewer of them.
const REFUSED: AbridgerState = AbridgerState::MAX;

impl Move {
    const UNKNOWN: Move = Move { from: REFUSED, to: REFUSED, start: 0, len: 0, is_kept: false };
}

/// The moves of a block that are known.
struct Moves<'a> {
    parts: &'a LineParts,
    abridger: &'a mut Abridger,
    /// One move of each fragment.
    fragments: Vec<Move>,
    /// The moves of fragments that are read in several states.
    others: HashMap<(u16, AbridgerState), Move>,
    /// The last move of the numbers of each column.
    numbers: [Move; MAX_COLUMNS],
    /// The texts that moves keep.
    kept: Vec<u8>,
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
        let mut moves = Moves {
            parts: self,
            abridger,
            fragments: vec![Move::UNKNOWN; self.nexts.len()],
            others: HashMap::with_hasher(ahash::RandomState::with_seeds(1, 2, 3, 4)),
            numbers: [Move::UNKNOWN; MAX_COLUMNS],
            kept: Vec::new(),
            reads_left: MOST_READS * self.text.len() + self.nexts.len(),
        };
        let mut numbers: Vec<Option<Numbers<'_>>> = Vec::new();
        numbers.resize_with(self.slot_count() - 1, || None);
        let kinds: Vec<Option<NumberKind>> = self.forms().map(kind_of).collect();
        let mut found = AbridgedLines::default();
        found.ends.reserve_exact(self.line_count());
        let mut refused = Vec::new();
        let (mut start, mut state) = (0, Abridger::START);
        let refused_max = self.line_count() / REFUSED_ONE_IN;
        let walked = self.walk(|Use { line, slot, place, fragment }| {
            if state != REFUSED
                && let Some(column) = slot.checked_sub(1)
                && let Some(kind) = kinds[column]
            {
                let step = moves.number(column, state, kind);
                state = step.to;
                if step.len > 0 {
                    found.lines.extend_from_slice(moves.text_of(step));
                }
                if step.is_kept {
                    let of = match &mut numbers[column] {
                        Some(of) => of,
                        none => none.insert(self.numbers_of(column)?),
                    };
                    let mut digits = [0; NUMBER_ROOM];
                    let index = place - self.first_use(slot);
                    let number = of.number(index, timestamps_ns.get(line), &mut digits)?;
                    found.lines.extend_from_slice(number);
                }
            }
            if state != REFUSED {
                let step = moves.fragment(fragment, state);
                state = step.to;
                if step.len > 0 {
                    found.lines.extend_from_slice(moves.text_of(step));
                }
            }
            if self.nexts[usize::from(fragment)] == END {
                if state == REFUSED || !moves.abridger.end(state, &mut found.lines) {
                    found.lines.truncate(start);
                    refused.push(line);
                    if refused.len() > refused_max {
                        // The block is read as a whole, and tells then whether it is malformed.
                        return Err(Malformed);
                    }
                }
                found.ends.push(found.lines.len() as u32);
                (start, state) = (found.lines.len(), Abridger::START);
            }
            Ok(())
        });
        if refused.len() > refused_max {
            return Ok(None);
        }
        walked?;
        if refused.is_empty() {
            return Ok(Some(found));
        }
        self.with_whole(found, &refused, places, timestamps_ns).map(Some)
    }

    /// Puts the lines that were refused among the others.
    fn with_whole(
        &self,
        abridged: AbridgedLines,
        refused: &[usize],
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
        let mut is_refused = vec![false; self.line_count()];
        refused.iter().for_each(|&line| is_refused[line] = true);
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

impl Moves<'_> {
    #[inline]
    fn text_of(&self, step: Move) -> &[u8] {
        &self.kept[step.start as usize..][..step.len as usize]
    }

    #[inline]
    fn fragment(&mut self, fragment: u16, state: AbridgerState) -> Move {
        let known = self.fragments[usize::from(fragment)];
        if known.from == state { known } else { self.other(fragment, state) }
    }

    #[cold]
    fn other(&mut self, fragment: u16, state: AbridgerState) -> Move {
        if let Some(known) = self.others.get(&(fragment, state)) {
            return *known;
        }
        let text = self.parts.fragment(usize::from(fragment));
        let start = self.kept.len();
        let to = match self.reads_left.checked_sub(text.len() + 1) {
            Some(left) => {
                self.reads_left = left;
                self.abridger.text(state, text, &mut self.kept)
            }
            None => None,
        };
        let found = self.made(state, to, start, false);
        let first = &mut self.fragments[usize::from(fragment)];
        if first.from == REFUSED {
            *first = found;
        } else {
            self.others.insert((fragment, state), found);
        }
        found
    }

    #[inline]
    fn number(&mut self, column: usize, state: AbridgerState, kind: NumberKind) -> Move {
        let known = self.numbers[column];
        if known.from == state { known } else { self.other_number(column, state, kind) }
    }

    fn other_number(&mut self, column: usize, state: AbridgerState, kind: NumberKind) -> Move {
        let start = self.kept.len();
        let read = self.abridger.number(state, kind, &mut self.kept);
        let is_kept = read.is_some_and(|read| read.is_kept);
        let found = self.made(state, read.map(|read| read.state), start, is_kept);
        self.numbers[column] = found;
        found
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
        let len = (self.kept.len() - start) as u32;
        let to = to.unwrap_or(REFUSED);
        Move { from, to, start: start as u32, len, is_kept: is_kept && to != REFUSED }
    }
}

#[cfg(test)]
mod tests;
