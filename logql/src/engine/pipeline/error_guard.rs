//! Error guards: label filters that admit an entry only without `__error__`.
//!
//! Query builders put `| __error__=""` right behind the parser, so a comparison behind it must
//! not bring errors back: where a filter is a guard, an entry with which a comparison of the
//! same or of a later filter cannot be made is dropped, as if the guard stood at the end. A
//! guard changes nothing for errors that other stages set.
//!
//! A pattern counts as one that admits only the empty text, or as one that every other text
//! matches, where its form shows it. A filter with any other pattern is no guard.

use regex_syntax::hir::{Class, Hir, HirKind, Look};

use super::super::regex::{self as patterns, Anchoring};
use crate::syntax::ast::{LabelFilter, MatchOp, Matcher};

/// The label that a guard tests.
const ERROR_NAME: &str = "__error__";

/// Whether every entry that the filter admits is without `__error__`.
pub(crate) fn is_guard(filter: &LabelFilter) -> bool {
    match filter {
        LabelFilter::And(left, right) => is_guard(left) || is_guard(right),
        LabelFilter::Or(left, right) => is_guard(left) && is_guard(right),
        LabelFilter::String(matcher) => matcher.name == ERROR_NAME && admits_only_empty(matcher),
        LabelFilter::Number { .. }
        | LabelFilter::Duration { .. }
        | LabelFilter::Bytes { .. }
        | LabelFilter::Ip { .. } => false,
    }
}

fn admits_only_empty(matcher: &Matcher) -> bool {
    let of_pattern = |test: fn(&Hir) -> bool| {
        let pattern = patterns::compile(matcher.value.as_bytes(), Anchoring::Full);
        pattern.is_ok_and(|pattern| test(&pattern.hir))
    };
    match matcher.op {
        MatchOp::Equal => matcher.value.is_empty(),
        MatchOp::NotEqual => false,
        MatchOp::Regex => of_pattern(|hir| hir.properties().maximum_len() == Some(0)),
        MatchOp::NotRegex => of_pattern(matches_all_but_empty),
    }
}

/// Whether an anchored pattern matches every text but perhaps the empty one.
fn matches_all_but_empty(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Capture(capture) => matches_all_but_empty(&capture.sub),
        HirKind::Alternation(branches) => branches.iter().any(matches_all_but_empty),
        HirKind::Repetition(repeated) => {
            let sub = &repeated.sub;
            let is_run = repeated.max.is_none() && is_any_character(sub);
            repeated.min <= 1 && (is_run || matches_all_but_empty(sub))
        }
        HirKind::Concat(parts) => {
            let is_anchor =
                |part: &&Hir, look| matches!(part.kind(), HirKind::Look(l) if *l == look);
            let mut parts: Vec<&Hir> = parts.iter().collect();
            while parts.first().is_some_and(|part| is_anchor(part, Look::Start)) {
                parts.remove(0);
            }
            while parts.last().is_some_and(|part| is_anchor(part, Look::End)) {
                parts.pop();
            }
            // One part takes all but a first or a last character; the others take that, or nothing.
            let (nullable, rest): (Vec<&Hir>, Vec<&Hir>) =
                parts.into_iter().partition(|part| patterns::matches_everything(part));
            match rest.as_slice() {
                [] => nullable.into_iter().any(matches_all_but_empty),
                [only] => {
                    matches_all_but_empty(only)
                        || (is_any_character(only)
                            && nullable.into_iter().any(matches_all_but_empty))
                }
                _ => false,
            }
        }
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => false,
    }
}

/// Whether an expression is one character of any kind. Names of errors have no line breaks, so
/// `.` is such an expression with either meaning.
fn is_any_character(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Capture(capture) => is_any_character(&capture.sub),
        HirKind::Class(Class::Unicode(class)) => {
            let mut others = class.clone();
            others.negate();
            others.iter().all(|range| (range.start(), range.end()) == ('\n', '\n'))
        }
        HirKind::Class(Class::Bytes(class)) => {
            let mut others = class.clone();
            others.negate();
            others.iter().all(|range| (range.start(), range.end()) == (b'\n', b'\n'))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_guard;
    use crate::syntax::ast::{Expr, Stage};
    use crate::syntax::parse;

    fn guards(filter: &str) -> bool {
        let expr = parse(&format!(r#"{{a="b"}} | {filter}"#)).expect("a query");
        let Expr::Log(log) = expr else { panic!("a log query") };
        let [Stage::LabelFilter(filter)] = log.stages.as_slice() else { panic!("one filter") };
        is_guard(filter)
    }

    #[test]
    fn a_guard_admits_no_error_however_it_is_written() {
        for filter in [
            r#"__error__="""#,
            r#"__error__=~"""#,
            r#"__error__=~"^$""#,
            r#"__error__=~"()|^""#,
            r#"__error__!~".+""#,
            r#"__error__!~"^(.+)$""#,
            r#"__error__!~"(?s).+""#,
            r#"__error__!~".*.+|x""#,
            r#"__error__!~"..*""#,
            r#"__error__!~".*.""#,
            r#"__error__!~"(.+)?""#,
            r#"__error__!~"[^\\n]+""#,
            r#"__error__!~"[\\s\\S]+""#,
            r#"__error__="" and x > 5"#,
            r#"x > 5, __error__="""#,
            r#"(__error__="" and x="1") or (y > 2 and __error__!~".+")"#,
        ] {
            assert!(guards(filter), "{filter}");
        }
    }

    #[test]
    fn a_filter_that_may_admit_an_error_is_no_guard() {
        for filter in [
            r#"__error__!="""#,
            r#"__error__!="JSONParserErr""#,
            r#"__error__="JSONParserErr""#,
            r#"__error__=~".*""#,
            r#"__error__=~"|x""#,
            r#"__error__!~"""#,
            r#"__error__!~"J.+""#,
            r#"__error__!~".+Err""#,
            r#"__error__!~".{2,}""#,
            r#"__error__!~".""#,
            r#"__error__!~"a?..*""#,
            r#"__error__!~"..*.""#,
            r#"__error__!~"$.+""#,
            r#"__error__!~"[a-z]+""#,
            r#"__error_details__="""#,
            r#"x="""#,
            r#"__error__="" or x > 5"#,
        ] {
            // A rule that holds for every text is found where the form shows it.
            let holds = filter == r#"__error__!~"a?..*""#;
            assert_eq!(guards(filter), holds, "{filter}");
        }
    }
}
