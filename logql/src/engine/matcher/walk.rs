//! Testing a pattern on the values of a label, one after another.
//!
//! In a sorted list most values begin like the value before. So the walk keeps the state of an
//! automaton behind each byte of a value, and continues from the first byte in which the next value
//! differs. Where no continuation could match, the walk says so, and a caller with sorted values
//! skips all values with that beginning.
//!
//! Guarantees: the outcome for a value agrees with [`CompiledMatcher::pattern_matches`], in any
//! order of values. Memory is bounded by [`AUTOMATON_MAX_BYTES`], [`STATES_MAX_BYTES`] and four
//! bytes for each byte of the longest value. A pattern whose automaton would take more memory is
//! tested on each value separately.

use regex_automata::Anchored;
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::start;
use regex_syntax::hir::{Hir, Look};

use super::{Accepts, CompiledMatcher};

/// For fewer values an automaton is not worth the some 30 us that making it takes.
const VALUES_MIN: usize = 512;

/// Size that the automaton of a pattern may have before any state is known.
const AUTOMATON_MAX_BYTES: usize = 1 << 20;

/// Size of all states that the automaton turns out to have.
const STATES_MAX_BYTES: usize = 1 << 20;

/// The outcome of a pattern for a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PatternOutcome {
    /// The pattern matches the value.
    Accepted,
    /// The pattern does not match the value.
    Rejected,
    /// The pattern matches no value that begins with the first so many bytes of this value.
    RejectedBeginning(usize),
}

/// Tests values with the pattern of a matcher. See the module.
#[derive(Debug)]
pub struct PatternWalk<'m, 'v> {
    matcher: &'m CompiledMatcher,
    automaton: Option<Box<Automaton<'v>>>,
}

impl CompiledMatcher {
    /// Begins to test about `values` values, as if the matcher were not negated. The walk is
    /// quick if values come sorted by their bytes.
    #[must_use]
    pub fn pattern_walk<'v>(&self, values: usize) -> PatternWalk<'_, 'v> {
        let automaton = match &self.accepts {
            Accepts::Regex(expression) if values >= VALUES_MIN => {
                Automaton::new(&expression.hir, STATES_MAX_BYTES).map(Box::new)
            }
            _ => None,
        };
        PatternWalk { matcher: self, automaton }
    }
}

impl<'v> PatternWalk<'_, 'v> {
    /// Tests a value; pass "" for an absent label.
    pub fn test(&mut self, value: &'v str) -> PatternOutcome {
        if let Some(automaton) = &mut self.automaton {
            match automaton.test(value.as_bytes()) {
                Some(outcome) => return outcome,
                None => self.automaton = None,
            }
        }
        match &self.matcher.accepts {
            Accepts::Prefix(prefix) => {
                let common = common_len(prefix.as_bytes(), value.as_bytes());
                if common == prefix.len() {
                    PatternOutcome::Accepted
                } else if common == value.len() {
                    PatternOutcome::Rejected
                } else {
                    PatternOutcome::RejectedBeginning(common + 1)
                }
            }
            _ if self.matcher.pattern_matches(value) => PatternOutcome::Accepted,
            _ => PatternOutcome::Rejected,
        }
    }
}

/// An automaton whose states are made when they are first needed, and the way that it went
/// through the last value.
#[derive(Debug)]
struct Automaton<'v> {
    dfa: DFA,
    cache: Cache,
    last: &'v [u8],
    /// The states before `last` and behind each of its bytes, up to a dead one.
    states: Vec<LazyStateID>,
}

impl<'v> Automaton<'v> {
    /// `None` if the pattern has no automaton of the allowed size.
    fn new(pattern: &Hir, states_max_bytes: usize) -> Option<Self> {
        let whole = Hir::concat(vec![pattern.clone(), Hir::look(Look::End)]);
        let nfa = thompson::Config::new()
            .utf8(false)
            .which_captures(WhichCaptures::None)
            .nfa_size_limit(Some(AUTOMATON_MAX_BYTES));
        let nfa = thompson::Compiler::new().configure(nfa).build_from_hir(&whole).ok()?;
        // The automaton gives up where it would forget states, so all kept states stay valid.
        let config =
            DFA::config().cache_capacity(states_max_bytes).minimum_cache_clear_count(Some(0));
        let dfa = DFA::builder().configure(config).build_from_nfa(nfa).ok()?;
        let mut cache = dfa.create_cache();
        let anchored = start::Config::new().anchored(Anchored::Yes);
        let start = dfa.start_state(&mut cache, &anchored).ok()?;
        Some(Automaton { dfa, cache, last: &[], states: vec![start] })
    }

    /// `None` if it would need more memory than it may have, or cannot tell. Its states are of
    /// no use then.
    fn test(&mut self, value: &'v [u8]) -> Option<PatternOutcome> {
        let known = common_len(self.last, value).min(self.states.len() - 1);
        self.last = value;
        self.states.truncate(known + 1);
        let mut state = self.states[known];
        if state.is_dead() {
            return Some(PatternOutcome::RejectedBeginning(known));
        }
        self.states.reserve(value.len() - known);
        for (at, &byte) in value.iter().enumerate().skip(known) {
            state = self.dfa.next_state(&mut self.cache, state, byte).ok()?;
            self.states.push(state);
            if state.is_dead() {
                return Some(PatternOutcome::RejectedBeginning(at + 1));
            }
            if state.is_quit() {
                return None;
            }
        }
        let end = self.dfa.next_eoi_state(&mut self.cache, state).ok()?;
        Some(if end.is_match() { PatternOutcome::Accepted } else { PatternOutcome::Rejected })
    }
}

/// How many bytes two texts have in common at their beginnings.
fn common_len(a: &[u8], b: &[u8]) -> usize {
    const WORD: usize = 8;
    let words = a.as_chunks::<WORD>().0.iter().zip(b.as_chunks::<WORD>().0);
    let mut common = 0;
    for (a, b) in words {
        let differing = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differing != 0 {
            return common + differing.trailing_zeros() as usize / 8;
        }
        common += WORD;
    }
    let rest = a[common..].iter().zip(&b[common..]);
    common + rest.take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests;
