use super::super::super::regex::{Anchoring, compile};
use super::*;
use crate::syntax::ast::{MatchOp, Matcher, Text};
use crate::syntax::go_regex::compile_matcher;
use crate::testing::Rng;

fn matcher(pattern: &str) -> CompiledMatcher {
    let value = Text::from(pattern);
    let matcher = Matcher { name: "a".into(), op: MatchOp::Regex, value };
    CompiledMatcher::new(&matcher).unwrap_or_else(|error| panic!("{pattern:?}: {error}"))
}

const ATOMS: [&str; 29] = [
    "a", "b", "ab", "-", "7", "é", "K", "ss", ".", ".*", ".+", ".*?", "[ab]", "[^a]", r"\d", r"\W",
    r"\pL", "[à-ü]", r"\n", r"\b", r"\B", "^", "$", r"\z", "(?i:k)", "(?i:ÉS)", "(?-s:.)",
    "(?m:^)", "(?m:$)",
];

const SUFFIXES: [&str; 10] = ["", "", "", "*", "+", "?", "{2}", "{0,3}", "+?", "??"];

/// A random pattern in Go's syntax.
fn pattern(rng: &mut Rng, depth: usize) -> String {
    let mut text = String::new();
    for _ in 0..rng.below(5) {
        let atom = if depth > 0 && rng.one_in(4) {
            let flags = *rng.pick(&["", "", "?:", "?i:", "?U:"]);
            let left = pattern(rng, depth - 1);
            let right =
                if rng.one_in(2) { format!("|{}", pattern(rng, depth - 1)) } else { String::new() };
            format!("({flags}{left}{right})")
        } else {
            (*rng.pick(&ATOMS)).to_owned()
        };
        // Go refuses a repetition of a repetition, but not a repetition of an assertion.
        let suffix = if atom.starts_with('.') && atom.len() > 1 { "" } else { rng.pick(&SUFFIXES) };
        text += &atom;
        text += suffix;
    }
    text
}

const PIECES: [&str; 20] = [
    "a",
    "b",
    "ab",
    "aab",
    "-",
    "7",
    "77",
    "é",
    "É",
    "k",
    "K",
    "\u{212a}",
    "s",
    "ß",
    "\u{17f}",
    "\n",
    "\0",
    "字",
    "\u{10ffff}",
    " ",
];

/// Random values, the empty one among them, sorted.
fn values(rng: &mut Rng) -> Vec<String> {
    let mut values = vec![String::new()];
    for _ in 0..40 {
        // Most begin like another.
        let mut value = if rng.one_in(3) { String::new() } else { rng.pick(&values).clone() };
        for _ in 0..1 + rng.below(4) {
            value += *rng.pick(&PIECES);
        }
        values.push(value);
    }
    values.sort_unstable();
    values.dedup();
    values
}

/// Checks the outcomes of a walk over values.
fn check(
    pattern: &str,
    values: &[&str],
    test: &mut dyn FnMut(usize) -> Option<PatternOutcome>,
) -> [usize; 3] {
    let plain = compile_matcher(pattern.as_bytes()).expect("it compiled before");
    let mut counts = [0; 3];
    for (at, value) in values.iter().enumerate() {
        let expected = plain.is_match(value.as_bytes());
        let Some(outcome) = test(at) else { continue };
        let kind = match outcome {
            PatternOutcome::Accepted => 0,
            PatternOutcome::Rejected => 1,
            PatternOutcome::RejectedBeginning(len) => {
                let alike = values.iter().filter(|other| {
                    other.len() >= len && other.as_bytes()[..len] == value.as_bytes()[..len]
                });
                for other in alike {
                    let matches = plain.is_match(other.as_bytes());
                    assert!(!matches, "{pattern:?} on {other:?}, {len} bytes of {value:?}");
                }
                2
            }
        };
        assert_eq!(expected, outcome == PatternOutcome::Accepted, "{pattern:?} on {value:?}");
        counts[kind] += 1;
    }
    counts
}

#[test]
fn a_walk_says_what_the_plain_pattern_does() {
    let (mut automata, mut counts) = (0, [0; 3]);
    for seed in 0..1500 {
        let mut rng = Rng::new(seed);
        let pattern = pattern(&mut rng, 2);
        let Ok(compiled) = compile(pattern.as_bytes(), Anchoring::Full) else {
            continue;
        };
        let values = values(&mut rng);
        let mut order: Vec<&str> = values.iter().map(String::as_str).collect();
        // Out of order it is slow and right all the same.
        match rng.below(4) {
            0 => order.reverse(),
            1 => order.sort_by_cached_key(|_| rng.next_u64()),
            _ => {}
        }
        eprintln!("seed {seed}: {pattern:?}");
        let matcher = matcher(&pattern);
        let mut few = matcher.pattern_walk(VALUES_MIN - 1);
        check(&pattern, &order, &mut |at| Some(few.test(order[at])));
        let mut many = matcher.pattern_walk(VALUES_MIN);
        check(&pattern, &order, &mut |at| Some(many.test(order[at])));
        let automaton = Automaton::new(&compiled.hir, STATES_MAX_BYTES);
        let mut automaton = automaton.expect("small patterns have one");
        let told = check(&pattern, &order, &mut |at| {
            Some(automaton.test(order[at].as_bytes()).expect("it is small"))
        });
        automata += 1;
        counts.iter_mut().zip(told).for_each(|(sum, count)| *sum += count);
    }
    assert!(automata > 750, "{automata}");
    assert!(counts.iter().all(|&count| count > 1500), "{counts:?}");
}

#[test]
fn an_automaton_that_grows_too_large_is_given_up() {
    // As many states as there are sets of places among eleven.
    const SMALL_MAX_BYTES: usize = 100 << 10;
    let text = ".*a.{10}";
    let hir = compile(text.as_bytes(), Anchoring::Full).expect("a pattern").hir;
    let mut rng = Rng::new(7);
    let mut values: Vec<String> =
        (0..2000).map(|_| (0..30).map(|_| *rng.pick(&['a', 'b'])).collect()).collect();
    values.sort_unstable();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let mut small = Automaton::new(&hir, SMALL_MAX_BYTES).expect("its first states have room");
    let mut given_up = false;
    check(text, &values, &mut |at| {
        let outcome = if given_up { None } else { small.test(values[at].as_bytes()) };
        given_up |= outcome.is_none();
        assert!(small.cache.memory_usage() <= SMALL_MAX_BYTES);
        outcome
    });
    assert!(given_up);
    assert!(Automaton::new(&hir, 1 << 10).is_none(), "no room for the first states");
    let large = regex_syntax::parse(r"\pL{300}").expect("a pattern");
    assert!(Automaton::new(&large, STATES_MAX_BYTES).is_none(), "too large before any state");

    // The caller does not notice.
    let matcher = matcher(text);
    let mut walk = matcher.pattern_walk(values.len());
    let automaton = walk.automaton.as_mut().expect("many values");
    **automaton = Automaton::new(&hir, SMALL_MAX_BYTES).expect("its first states have room");
    check(text, &values, &mut |at| Some(walk.test(values[at])));
    assert!(walk.automaton.is_none());
}

#[test]
fn a_boundary_of_unicode_words_is_left_to_the_plain_pattern() {
    // Go's syntax has none, so the automaton need not know it.
    let hir = regex_syntax::parse(r"a\b.*").expect("a pattern");
    assert!(Automaton::new(&hir, STATES_MAX_BYTES).is_none());
}

#[test]
fn beginnings_are_rejected_as_a_whole() {
    let long = "v".repeat(VALUES_MIN);
    let cases = [
        ("service-7-.*", "service-70-x", PatternOutcome::RejectedBeginning(10)),
        ("service-7-.*", "service-7-x", PatternOutcome::Accepted),
        ("service-7-.*", "serv", PatternOutcome::Rejected),
        ("service-7-.*", "", PatternOutcome::Rejected),
        ("(foo|bar)[0-9]+", "foe1", PatternOutcome::RejectedBeginning(3)),
        ("(foo|bar)[0-9]+", "bar7", PatternOutcome::Accepted),
        ("(foo|bar)[0-9]+", "bar", PatternOutcome::Rejected),
        (".*x", &long, PatternOutcome::Rejected),
        (".+", "", PatternOutcome::Rejected),
        ("x+^y", "x", PatternOutcome::Rejected),
    ];
    for (pattern, value, expected) in cases {
        let matcher = matcher(pattern);
        assert_eq!(matcher.pattern_walk(VALUES_MIN).test(value), expected, "{pattern} on {value}");
    }
}

#[test]
fn common_beginnings_are_counted_to_the_byte() {
    let text: Vec<u8> = (0..40).collect();
    for len in 0..=text.len() {
        for other in 0..=text.len() {
            assert_eq!(common_len(&text[..len], &text[..other]), len.min(other));
        }
        let mut differs = text.clone();
        if let Some(byte) = differs.get_mut(len) {
            *byte ^= 0x80;
        }
        assert_eq!(common_len(&text, &differs), len);
    }
}
