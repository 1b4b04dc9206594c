//! Abridged lines: what a parser looks for, without the rest of the line.
//!
//! `sum by (method) (count_over_time({app="x"} | json | status>=500 [1h]))` looks at two fields of
//! a line. A line that has nothing but these fields gives the same answer. A store that keeps
//! lines as texts with numbers between them makes such a line without putting the whole line
//! together: a text is read once, whatever lines have it, and numbers are copied or passed over.
//!
//! An [`Abridger`] reads lines piece by piece. It is an automaton: what it does with a piece
//! follows from its state and the piece, so the caller can remember that.
//!
//! Guarantees: the leaf that made the abridger gives the same answer for an abridged line as for
//! the line. A line for which that is not sure is refused, and must be read as a whole.

mod json;
mod logfmt;
mod pattern;
#[cfg(test)]
mod tests;

use ahash::HashMap;

use super::hash::fixed_state;
use super::labels::EntryLabels;
use super::labels::text::{is_blank, is_label_name, push_sanitized};
use super::pipeline::effects;
use super::pipeline::effects::LineUse;
use super::plan::{EntryValue, LeafKind, LeafPlan};
use crate::syntax::ast::Stage;
use json::JsonState;
use logfmt::LogfmtState;
use pattern::{PatternState, Reading};

/// The state of an [`Abridger`] between two pieces of a line.
pub type AbridgerState = u16;

/// The bytes of a piece whose text is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NumberKind {
    /// One or more decimal digits.
    Decimal,
    /// One or more of `0` to `9` and `a` to `f`.
    Hex,
    /// A date with a time of day: digits, ASCII letters and some of `-/:.,`, with a digit first.
    Time,
    /// The same, with a space.
    SpacedTime,
}

/// What becomes of a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NumberRead {
    /// The state behind it.
    pub state: AbridgerState,
    /// Whether it is part of the abridged line.
    pub is_kept: bool,
}

/// Abridges lines for the parser of one leaf.
#[derive(Debug)]
pub struct Abridger {
    parser: Parser,
    /// The states that were met, by number.
    states: Vec<State>,
    numbers: HashMap<State, AbridgerState>,
}

#[derive(Debug)]
enum Parser {
    Json(Names),
    Logfmt(Names),
    Pattern(Reading),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum State {
    Json(JsonState),
    Logfmt(LogfmtState),
    Pattern(PatternState),
}

/// Most states; keys are part of some.
const MAX_STATES: usize = 512;

/// Longer keys are not looked at in pieces.
const MAX_KEY_BYTES: usize = 64;

impl Abridger {
    /// Memory of an abridger in bytes, at most: each state, and its key, is there twice.
    pub const MOST_BYTES: usize = 2 * MAX_STATES * (size_of::<State>() + 2 * MAX_KEY_BYTES);

    /// The state at the beginning of a line.
    pub const START: AbridgerState = 0;

    /// The abridger of a leaf: if one parser is all that reads lines, and the labels that the leaf
    /// looks at are known.
    pub(super) fn new(plan: &LeafPlan, labels: &EntryLabels) -> Option<Abridger> {
        let counts_lines = match &plan.kind {
            LeafKind::Range { value, .. } => *value == EntryValue::One,
            LeafKind::Samples { .. } => true,
            LeafKind::Log { .. } | LeafKind::Patterns { .. } => false,
        };
        let mut readers =
            plan.log.stages.iter().filter(|stage| effects(stage).line != LineUse::None);
        let (Some(parser), None, true) = (readers.next(), readers.next(), counts_lines) else {
            return None;
        };
        let (wanted, minds_errors) = labels.wanted_names()?;
        let names = wanted.iter().map(|name| labels.name(*name).into()).collect();
        let names = Names { names, minds_errors };
        let parser = match parser {
            Stage::Json(list) if list.is_empty() => Parser::Json(names),
            Stage::Logfmt(parser) if parser.extractions.is_empty() && !parser.strict => {
                Parser::Logfmt(names)
            }
            Stage::Pattern(pattern) => Parser::Pattern(Reading::new(pattern, &names)),
            _ => return None,
        };
        let start = match parser {
            Parser::Json(_) => State::Json(JsonState::START),
            Parser::Logfmt(_) => State::Logfmt(LogfmtState::START),
            Parser::Pattern(_) => State::Pattern(PatternState::START),
        };
        let mut abridger =
            Abridger { parser, states: Vec::new(), numbers: HashMap::with_hasher(fixed_state()) };
        abridger.number_of(start);
        Some(abridger)
    }

    /// Reads a text and appends what the abridged line has of it. Returns the state behind the
    /// text; `None` if the line must be read as a whole.
    pub fn text(
        &mut self,
        state: AbridgerState,
        text: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<AbridgerState> {
        let mut state = self.states.get(usize::from(state))?.clone();
        let mut rest = text;
        loop {
            // Most bytes are of values and keys, which end at few bytes.
            let same = match (&self.parser, &mut state) {
                (Parser::Json(_), State::Json(state)) => state.same(rest, out)?,
                (Parser::Logfmt(_), State::Logfmt(state)) => state.same(rest, out)?,
                (Parser::Pattern(reading), State::Pattern(state)) => state.same(rest, reading),
                _ => return None,
            };
            let Some((&byte, behind)) = rest[same..].split_first() else { break };
            rest = behind;
            match (&self.parser, &mut state) {
                (Parser::Json(names), State::Json(state)) => state.byte(byte, names, out)?,
                (Parser::Logfmt(names), State::Logfmt(state)) => state.byte(byte, names, out)?,
                (Parser::Pattern(reading), State::Pattern(state)) => {
                    state.byte(byte, reading, out);
                    if state.is_refused() {
                        return None;
                    }
                }
                _ => return None,
            }
        }
        self.number_of(state)
    }

    /// Reads a number. Appends what the abridged line has before the number.
    pub fn number(
        &mut self,
        state: AbridgerState,
        kind: NumberKind,
        out: &mut Vec<u8>,
    ) -> Option<NumberRead> {
        let mut state = self.states.get(usize::from(state))?.clone();
        let is_kept = match (&self.parser, &mut state) {
            (Parser::Json(names), State::Json(state)) => state.number(kind, names, out)?,
            (Parser::Logfmt(_), State::Logfmt(state)) => state.number(kind)?,
            (Parser::Pattern(reading), State::Pattern(state)) => {
                state.number(kind, reading, out)?
            }
            _ => return None,
        };
        Some(NumberRead { state: self.number_of(state)?, is_kept })
    }

    /// Ends a line, and appends the rest of the abridged one. False if the line must be read as
    /// a whole.
    pub fn end(&self, state: AbridgerState, out: &mut Vec<u8>) -> bool {
        match (&self.parser, self.states.get(usize::from(state))) {
            (Parser::Json(_), Some(State::Json(state))) => *state == JsonState::Behind,
            (Parser::Logfmt(names), Some(State::Logfmt(state))) => state.end(names, out).is_some(),
            (Parser::Pattern(reading), Some(State::Pattern(state))) => state.end(reading, out),
            _ => false,
        }
    }

    /// The number of a state; `None` if there are too many.
    fn number_of(&mut self, state: State) -> Option<AbridgerState> {
        if let Some(number) = self.numbers.get(&state) {
            return Some(*number);
        }
        if self.states.len() == MAX_STATES {
            return None;
        }
        let number = self.states.len() as AbridgerState;
        self.states.push(state.clone());
        self.numbers.insert(state, number);
        Some(number)
    }
}

/// The names of the labels that a leaf looks at.
#[derive(Debug)]
struct Names {
    names: Vec<Box<[u8]>>,
    /// Whether it looks at errors, which objects within the line may have.
    minds_errors: bool,
}

impl Names {
    fn has(&self, name: &[u8]) -> bool {
        self.names.iter().any(|wanted| **wanted == *name)
    }

    /// Whether the label of a field may be wanted.
    fn may_want(&self, key: &[u8]) -> bool {
        if is_label_name(key) {
            return self.has(key);
        }
        let mut name = Vec::new();
        push_sanitized(&mut name, key);
        self.has(&name)
    }

    /// Whether the label of a field, or of a field within it, may be wanted.
    fn may_want_within(&self, key: &[u8]) -> bool {
        let mut name = Vec::new();
        push_sanitized(&mut name, key);
        let is_within = |wanted: &[u8]| {
            wanted.strip_prefix(&name[..]).is_some_and(|rest| matches!(rest, [] | [b'_', ..]))
        };
        is_blank(key) || self.names.iter().any(|wanted| is_within(wanted))
    }
}

/// Appends a part of a key; `None` if the key is too long.
fn push_key(key: &mut Vec<u8>, part: &[u8]) -> Option<()> {
    if key.len() + part.len() > MAX_KEY_BYTES {
        return None;
    }
    key.extend_from_slice(part);
    Some(())
}
