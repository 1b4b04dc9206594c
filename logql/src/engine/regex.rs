//! Regular expressions of the engine: compiling Go syntax, and recognising patterns that are plain
//! texts, so that these never pay for a regex engine.
//!
//! All patterns match bytes: a line need not be valid UTF-8.

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::hir::literal::{ExtractKind, Extractor};
use regex_syntax::hir::{Hir, HirKind};

use crate::syntax::go_regex::{
    Purpose, REGEX_NEST_LIMIT, SIZE_LIMIT_BYTES, STATES_LIMIT_BYTES, Translation, translate,
};

/// Longest match of a pattern that may be searched over a whole block. It bounds
/// the work that a candidate costs after its line has ended.
const BLOCK_MATCH_MAX_LEN_BYTES: usize = 256;

/// How a pattern in Go syntax is to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Anchoring {
    /// Anywhere in the text; `.` excludes `\n`.
    Search,
    /// The whole text; `.` includes `\n`. Values of labels.
    Full,
}

/// A pattern, compiled, together with its syntax tree for analysis.
pub(crate) struct Pattern {
    /// Matches with the requested anchoring.
    pub(crate) regex: Regex,
    /// The pattern without the anchoring.
    pub(crate) hir: Hir,
    /// Its cost, for [`held_bytes`].
    pub(crate) cost: u64,
}

/// Compiles a pattern in Go syntax.
///
/// # Errors
/// The message of Loki, `error parsing regexp: ...`.
pub(crate) fn compile(pattern: &[u8], anchoring: Anchoring) -> Result<Pattern, String> {
    let (purpose, dot_all) = match anchoring {
        Anchoring::Search => (Purpose::Search, false),
        Anchoring::Full => (Purpose::Matcher, true),
    };
    let Translation { pattern: translated, cost, .. } = translate(pattern, purpose)?;
    let hir = regex_syntax::ParserBuilder::new()
        .utf8(false)
        .nest_limit(REGEX_NEST_LIMIT)
        .dot_matches_new_line(dot_all)
        .build()
        .parse(&translated)
        .map_err(|error| format!("error parsing regexp: {error}"))?;
    let anchored;
    let text = if anchoring == Anchoring::Search {
        &translated
    } else {
        anchored = format!(r"\A(?:{translated})\z");
        &anchored
    };
    let regex = RegexBuilder::new(text)
        .dot_matches_new_line(dot_all)
        .nest_limit(REGEX_NEST_LIMIT)
        .size_limit(SIZE_LIMIT_BYTES)
        .dfa_size_limit(STATES_LIMIT_BYTES)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                "error parsing regexp: expression too large".to_owned()
            }
            other => format!("error parsing regexp: {other}"),
        })?;
    Ok(Pattern { regex, hir, cost })
}

/// About the heap memory of a compiled pattern by its cost (see [`Translation::cost`]), in bytes:
/// the compiled program, and the caches that searches fill.
///
/// [`Translation::cost`]: crate::syntax::go_regex::Translation::cost
pub(crate) fn held_bytes(cost: u64) -> usize {
    // Small patterns have searchers and automata for little text, large ones share states.
    const BYTES: usize = 8 << 10;
    const SMALL: (usize, usize) = (128, 512);
    const MEDIUM: (usize, usize) = (1_000, 192);
    const LARGE: usize = 48;
    let cost = usize::try_from(cost).unwrap_or(usize::MAX);
    let (small, rest) = (cost.min(SMALL.0), cost.saturating_sub(SMALL.0));
    let (medium, large) = (rest.min(MEDIUM.0), rest.saturating_sub(MEDIUM.0));
    BYTES + small * SMALL.1 + medium * MEDIUM.1 + large.saturating_mul(LARGE)
}

/// Bytes that compiling a pattern of a cost takes besides the result, about.
pub(crate) fn compiling_bytes(cost: u64) -> usize {
    const BYTES: usize = 352 << 10;
    const BYTES_PER_COST: usize = 96;
    BYTES + usize::try_from(cost).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_COST)
}

/// The cost of a pattern in Go syntax; 0 for a text that is no pattern.
pub(crate) fn cost_of(pattern: &[u8]) -> u64 {
    translate(pattern, Purpose::Search).map_or(0, |translation| translation.cost)
}

/// Bytes that compiling a pattern in Go syntax and holding it may take, about.
pub(crate) fn spare_bytes(pattern: &[u8]) -> usize {
    let cost = cost_of(pattern);
    held_bytes(cost) + compiling_bytes(cost)
}

/// True when the pattern finds a match in every text: it can match the empty
/// string and looks at nothing around it.
pub(crate) fn matches_everything(hir: &Hir) -> bool {
    let properties = hir.properties();
    properties.look_set().is_empty() && properties.minimum_len() == Some(0)
}

/// The bytes the pattern stands for when it is one literal.
pub(crate) fn as_literal(hir: &Hir) -> Option<&[u8]> {
    match hir.kind() {
        HirKind::Literal(literal) => Some(&literal.0),
        HirKind::Capture(capture) => as_literal(&capture.sub),
        _ => None,
    }
}

/// Every string the pattern matches in full, when these are few. The list is
/// sorted and free of duplicates.
pub(crate) fn as_literal_set(hir: &Hir, max: usize) -> Option<Vec<Vec<u8>>> {
    if !hir.properties().look_set().is_empty() {
        return None;
    }
    let mut extractor = Extractor::new();
    extractor.kind(ExtractKind::Prefix).limit_total(max).limit_literal_len(4096);
    let sequence = extractor.extract(hir);
    if !sequence.is_exact() {
        return None;
    }
    let mut strings: Vec<Vec<u8>> =
        sequence.literals()?.iter().map(|literal| literal.as_bytes().to_vec()).collect();
    strings.sort_unstable();
    strings.dedup();
    Some(strings)
}

/// True when a search with the pattern over contiguous lines finds a hit that
/// starts in every line the pattern matches by itself: it looks at nothing around
/// a match, so the match stays one inside the larger text, and a search from the
/// start of the line cannot start behind it.
pub(crate) fn searches_blocks(hir: &Hir) -> bool {
    let properties = hir.properties();
    properties.look_set().is_empty()
        && properties.minimum_len().is_some_and(|len| len > 0)
        && properties.maximum_len().is_some_and(|len| len <= BLOCK_MATCH_MAX_LEN_BYTES)
}

/// A regex that finds any of `needles`, which are non-empty. A needle with `true`
/// ignores the case of ASCII letters.
pub(crate) fn alternation<'n>(
    needles: impl Iterator<Item = (&'n [u8], bool)>,
) -> Result<Regex, String> {
    let mut text = String::from("(?-u)");
    for (i, (needle, ignore_case)) in needles.enumerate() {
        if i > 0 {
            text.push('|');
        }
        text.push_str(if ignore_case { "(?i:" } else { "(?:" });
        for byte in needle {
            text.push_str(&format!("\\x{byte:02x}"));
        }
        text.push(')');
    }
    RegexBuilder::new(&text)
        .size_limit(SIZE_LIMIT_BYTES)
        .dfa_size_limit(STATES_LIMIT_BYTES)
        .build()
        .map_err(|error| format!("error parsing regexp: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hir(pattern: &str) -> Hir {
        compile(pattern.as_bytes(), Anchoring::Search).expect("compiles").hir
    }

    #[test]
    fn literals_are_recognised_behind_groups_and_alternations() {
        assert_eq!(as_literal(&hir("(foo)")), Some(&b"foo"[..]));
        assert_eq!(as_literal(&hir("fo+")), None);
        let set = as_literal_set(&hir("foo|foobar|(b|c)d"), 64).expect("a set");
        assert_eq!(set, [&b"bd"[..], b"cd", b"foo", b"foobar"]);
        assert_eq!(as_literal_set(&hir("^foo"), 64), None);
        assert_eq!(as_literal_set(&hir("foo.*"), 64), None);
    }

    #[test]
    fn patterns_that_match_everything_are_known() {
        assert!(matches_everything(&hir("")));
        assert!(matches_everything(&hir(".*")));
        assert!(matches_everything(&hir("foo|")));
        assert!(!matches_everything(&hir("^$")));
        assert!(!matches_everything(&hir("a+")));
    }

    #[test]
    fn the_alternation_of_needles_takes_any_bytes() {
        let needles = [(&b"\xff("[..], false), (b"a|b", false), (b"\xffsk!", true)];
        let regex = alternation(needles.into_iter()).expect("compiles");
        assert!(regex.is_match(b"x\xff(y"));
        assert!(regex.is_match(b"a|b"));
        assert!(regex.is_match(b"x\xffSk!"));
        assert!(!regex.is_match(b"ab"));
        assert!(!regex.is_match("\u{17f}k!".as_bytes()));
    }

    #[test]
    fn oversized_patterns_are_refused() {
        let error = compile(b"(((a{1000}){1000}){1000})", Anchoring::Search).err();
        assert!(error.is_some_and(|text| text.starts_with("error parsing regexp: ")));
    }
}
