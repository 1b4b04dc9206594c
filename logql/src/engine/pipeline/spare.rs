//! The memory that compiling a stage may take, estimated from its text. The memory is asked for
//! before the stage is compiled. A compiled stage knows its exact size.

use super::super::filter::spare::{STAGE_BYTES, of_text};
use super::super::labels::key_cache::KeyCache;
use super::super::regex as patterns;
use super::effects::{Arguments, Effects};
use crate::syntax::ast::{self, MatchOp, Matcher, NameOrMatcher};

/// Bytes that compiling a stage may take. Templates and line filters count for themselves.
pub(super) fn of_stage(effects: &Effects<'_>) -> usize {
    STAGE_BYTES
        + match effects.arguments {
            Arguments::None | Arguments::LineFilters(_) | Arguments::Template(_) => 0,
            Arguments::OwnPattern(pattern) => patterns::spare_bytes(pattern.as_bytes()),
            Arguments::LabelFilter(filter) => of_label_filter(filter),
            Arguments::Extractions(list) => KeyCache::BYTES + of_list(list),
            Arguments::Groups(pattern) => patterns::spare_bytes(pattern.as_bytes()),
            Arguments::Captures(text) => of_text(text.as_bytes()),
            Arguments::Formats(list) => list.len() * STAGE_BYTES,
            Arguments::Names(list) => list.iter().map(of_item).sum(),
        }
}

fn of_list(list: &[ast::Extraction]) -> usize {
    list.iter().map(|item| of_text(&item.source) + item.label.len()).sum()
}

/// The same for a filter of labels.
pub(super) fn of_label_filter(filter: &ast::LabelFilter) -> usize {
    match filter {
        ast::LabelFilter::String(matcher) => of_matcher(matcher),
        ast::LabelFilter::And(left, right) | ast::LabelFilter::Or(left, right) => {
            STAGE_BYTES + of_label_filter(left) + of_label_filter(right)
        }
        ast::LabelFilter::Number { .. }
        | ast::LabelFilter::Duration { .. }
        | ast::LabelFilter::Bytes { .. }
        | ast::LabelFilter::Ip { .. } => STAGE_BYTES,
    }
}

fn of_matcher(matcher: &Matcher) -> usize {
    let text = matcher.value.as_bytes();
    match matcher.op {
        MatchOp::Equal | MatchOp::NotEqual => of_text(text),
        MatchOp::Regex | MatchOp::NotRegex => patterns::spare_bytes(text),
    }
}

fn of_item(item: &NameOrMatcher) -> usize {
    match item {
        NameOrMatcher::Name(name) => STAGE_BYTES + name.len(),
        NameOrMatcher::Matcher(matcher) => of_matcher(matcher),
    }
}
