//! Resolves matchers.
//!
//! A matcher is a pattern, perhaps negated. A stream without the label has the empty value. So
//! the streams of some of the label's values decide: the values that the pattern accepts, or, if
//! it accepts the empty value, the values that it rejects. The index takes whichever are fewer
//! to look up. The other streams are their complement, which costs one bit per stream.
//!
//! Matchers that look values up come first. Patterns that may reject values by their first
//! bytes come next. Patterns are tried only on values of streams that are left.

use logsvc_logql::engine::{CompiledMatcher, PatternOutcome};

use super::values::Values;
use super::{Slot, SlotSet, TenantIndex};

/// If a value has at most so many streams, the selection looks whether one of them is left before
/// it tries a pattern on the value. With more streams the look takes longer than the pattern.
const ASKED_FIRST_MAX: usize = 16;

impl TenantIndex {
    /// Streams that all matchers accept, in rising order.
    pub(crate) fn select<'m>(
        &self,
        matchers: impl IntoIterator<Item = &'m CompiledMatcher>,
    ) -> Vec<Slot> {
        let mut matchers: Vec<&CompiledMatcher> = matchers.into_iter().collect();
        matchers.sort_by_key(|matcher| self.cost(matcher));
        let mut selected: Option<SlotSet> = None;
        for matcher in matchers {
            let told = self.told(matcher, selected.as_ref());
            selected = match (selected, told) {
                (None, Told::Accepted(streams)) => Some(streams),
                (Some(mut selected), Told::Accepted(streams)) => {
                    selected.intersect(&streams);
                    Some(selected)
                }
                (None, Told::Rejected(streams)) if streams.is_empty() => None,
                (selected, Told::Rejected(streams)) => {
                    let mut selected = selected.unwrap_or_else(|| SlotSet::of(&self.streams));
                    selected.subtract(&streams);
                    Some(selected)
                }
            };
            if selected.as_ref().is_some_and(SlotSet::is_empty) {
                return Vec::new();
            }
        }
        selected.map_or_else(|| self.streams.clone(), |selected| selected.slots())
    }

    /// The cost of a matcher; cheap matchers compare as less.
    fn cost(&self, matcher: &CompiledMatcher) -> (u8, usize) {
        let Some(values) = self.values_of(matcher.name()) else { return (0, 0) };
        if matcher.pattern_literals().is_some() || matcher.pattern_accepts_all() {
            (0, 0)
        } else if matcher.pattern_rejects_beginnings() {
            (1, values.count())
        } else {
            (2, values.count())
        }
    }

    /// The verdict of a matcher on streams. If `left` is given, the verdict on streams outside of
    /// it need not be right.
    fn told(&self, matcher: &CompiledMatcher, left: Option<&SlotSet>) -> Told {
        let accepts_absent = matcher.pattern_matches("");
        let streams = match self.values_of(matcher.name()) {
            Some(values) if accepts_absent => rejected(values, matcher, left),
            Some(values) => accepted(values, matcher, left),
            None => SlotSet::default(),
        };
        if accepts_absent == matcher.is_negated() {
            Told::Accepted(streams)
        } else {
            Told::Rejected(streams)
        }
    }
}

/// The verdict of a matcher on streams.
enum Told {
    /// These streams are accepted and no others.
    Accepted(SlotSet),
    /// These streams are rejected and no others.
    Rejected(SlotSet),
}

/// Streams with a value that the pattern accepts, which is never the empty one.
fn accepted(values: &Values, matcher: &CompiledMatcher, left: Option<&SlotSet>) -> SlotSet {
    let mut streams = SlotSet::default();
    if let Some(literals) = matcher.pattern_literals() {
        literals.iter().for_each(|value| streams.insert_all(values.slots(value)));
        return streams;
    }
    let mut walk = matcher.pattern_walk(values.count());
    values.walk(|value, slots| {
        if !is_asked(slots, left) {
            return None;
        }
        match walk.test(value) {
            PatternOutcome::Accepted => streams.insert_all(slots),
            PatternOutcome::Rejected => {}
            PatternOutcome::RejectedBeginning(len) => return Some(len),
        }
        None
    });
    streams
}

/// Streams with a value that the pattern, which accepts the empty one, rejects.
fn rejected(values: &Values, matcher: &CompiledMatcher, left: Option<&SlotSet>) -> SlotSet {
    let mut streams = SlotSet::default();
    if matcher.pattern_accepts_all() {
        return streams;
    }
    let mut walk = matcher.pattern_walk(values.count());
    for (value, slots) in values.iter() {
        if is_asked(slots, left) && walk.test(value) != PatternOutcome::Accepted {
            streams.insert_all(slots);
        }
    }
    streams
}

/// Whether the verdict on a value with these streams matters.
fn is_asked(slots: &[Slot], left: Option<&SlotSet>) -> bool {
    left.is_none_or(|left| slots.len() > ASKED_FIRST_MAX || left.contains_any(slots))
}
