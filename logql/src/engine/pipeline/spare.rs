//! What compiling a stage may take, by its text: memory that is asked for before it is compiled.
//! What it holds then is known better.

use super::super::regex as patterns;
use super::effects::{Arguments, Effects};
use super::key_cache::KeyCache;
use crate::syntax::ast::{self, LineFilterOp, LineOperand, MatchOp, Matcher, NameOrMatcher};

/// What is made beside texts of any stage: lists, boxes, searchers.
const STAGE_BYTES: usize = 1 << 10;

/// How often texts of a stage are copied.
const TEXT_FACTOR: usize = 8;

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

fn of_text(text: &[u8]) -> usize {
    STAGE_BYTES + TEXT_FACTOR * text.len()
}

fn of_list(list: &[ast::Extraction]) -> usize {
    list.iter().map(|item| of_text(&item.source) + item.label.len()).sum()
}

/// The same for a line filter.
pub(crate) fn of_line_filter(filter: &ast::LineFilter) -> usize {
    let is_regex = matches!(filter.op, LineFilterOp::Regex | LineFilterOp::NotRegex);
    let (mut held_bytes, mut compiling_bytes, mut literal_cost) = (STAGE_BYTES, 0, 0);
    for operand in &filter.operands {
        match operand {
            LineOperand::Text(text) if is_regex => {
                let cost = patterns::cost_of(text.as_bytes());
                // One that tests a line, and one that searches a block.
                held_bytes += 2 * patterns::held_bytes(cost);
                compiling_bytes = compiling_bytes.max(patterns::compiling_bytes(cost));
            }
            LineOperand::Text(text) => {
                held_bytes += of_text(text.as_bytes());
                literal_cost += text.as_bytes().len() as u64;
            }
            LineOperand::Ip(text) => held_bytes += of_text(text),
        }
    }
    // Several texts become one pattern of plain bytes.
    if literal_cost > 0 && filter.operands.len() > 1 {
        held_bytes += 2 * patterns::held_bytes(literal_cost);
    }
    held_bytes + compiling_bytes
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
