//! The cost of a leaf per entry, as far as it decides on which thread the leaf runs.
//!
//! Guarantees: a batch of [`LeafPlan::core_batch_bytes`] with some thousand entries takes some
//! milliseconds at most. What can go wrong: the estimate does not know the entries, so the caller
//! bounds the number of short lines.

use super::{LeafPlan, for_each_filter, is_plain};
use crate::engine::pipeline::effects;
use crate::engine::pipeline::effects::Arguments;
use crate::syntax::ast::{
    LabelFilter, LabelFormatValue, LineFilterOp, LineOperand, Matcher, NameOrMatcher, Stage, Text,
};
use crate::syntax::go_regex::{Purpose, translate};

impl LeafPlan {
    /// How many bytes of entries may be computed on a core at once, 0 if none may be: a few blocks
    /// for filters of plain texts, one for a parser, and a part of one for more of them, or for a
    /// simple pattern or two, which in the worst case read some megabytes a second.
    #[must_use]
    pub fn core_batch_bytes(&self) -> usize {
        let stages = &self.log.stages;
        if stages.len() > LIGHT_STAGES {
            return 0;
        }
        let mut sum = Weight::PLAIN;
        for stage in stages {
            sum.add(weight_of(stage));
        }
        if sum.is_heavy || sum.patterns > LIGHT_PATTERNS {
            return 0;
        }
        let texts_bytes = TEXTS_BATCH_BYTES / sum.texts.max(1);
        let parsed_bytes = PARSED_BATCH_BYTES.checked_div(sum.parsers).unwrap_or(usize::MAX);
        let patterns_bytes = if sum.patterns > 0 { PATTERN_BATCH_BYTES } else { usize::MAX };
        texts_bytes.min(parsed_bytes).min(patterns_bytes)
    }
}

/// A text is searched at a gigabyte a second, whatever it is; most at ten times as many.
const TEXTS_BATCH_BYTES: usize = 1 << 20;

/// Parsers read one or two hundred megabytes a second. Most blocks of lines are smaller.
const PARSED_BATCH_BYTES: usize = 352 << 10;

const PATTERN_BATCH_BYTES: usize = 32 << 10;

/// Stages of a leaf that is computed on a core at most.
const LIGHT_STAGES: usize = 16;

/// Alternatives of a stage of such a leaf at most.
const LIGHT_ITEMS: usize = 16;

/// Patterns of such a leaf at most.
const LIGHT_PATTERNS: usize = 2;

/// States of such a pattern at most, see [`crate::syntax::go_regex::Translation::cost`].
const LIGHT_STATES: u64 = 64;

/// The cost of a stage for each entry.
#[derive(Clone, Copy, Default)]
struct Weight {
    is_heavy: bool,
    /// Texts that lines are searched for.
    texts: usize,
    /// Parsers, and other stages that read and write a line byte by byte.
    parsers: usize,
    /// Simple patterns in it.
    patterns: usize,
}

impl Weight {
    const PLAIN: Weight = Weight { is_heavy: false, texts: 0, parsers: 0, patterns: 0 };
    const HEAVY: Weight = Weight { is_heavy: true, ..Weight::PLAIN };
    const TEXT: Weight = Weight { texts: 1, ..Weight::PLAIN };
    const PARSER: Weight = Weight { parsers: 1, ..Weight::PLAIN };

    fn add(&mut self, other: Weight) {
        self.is_heavy |= other.is_heavy;
        self.texts += other.texts;
        self.parsers += other.parsers;
        self.patterns += other.patterns;
    }

    /// The weight of several parts together. More than [`LIGHT_ITEMS`] parts are heavy.
    fn of_all(weights: impl Iterator<Item = Weight>) -> Weight {
        let (mut sum, mut count) = (Weight::PLAIN, 0);
        for weight in weights {
            count += 1;
            sum.add(weight);
            sum.is_heavy |= count > LIGHT_ITEMS;
        }
        sum
    }

    fn of_pattern(text: &Text) -> Weight {
        match translate(text.as_bytes(), Purpose::Search) {
            Ok(pattern) if pattern.cost <= LIGHT_STATES => Weight { patterns: 1, ..Weight::PLAIN },
            _ => Weight::HEAVY,
        }
    }

    fn of_matcher(matcher: &Matcher) -> Weight {
        if is_plain(matcher) { Weight::PLAIN } else { Weight::of_pattern(&matcher.value) }
    }

    fn of_template(text: &Text) -> Weight {
        if has_plain_fields(text) { Weight::PARSER } else { Weight::HEAVY }
    }
}

fn weight_of(stage: &Stage) -> Weight {
    let of_operand = |op: LineFilterOp, operand: &LineOperand| match (op, operand) {
        (LineFilterOp::Contains | LineFilterOp::NotContains, LineOperand::Text(_)) => Weight::TEXT,
        (LineFilterOp::Regex | LineFilterOp::NotRegex, LineOperand::Text(text)) => {
            Weight::of_pattern(text)
        }
        _ => Weight::HEAVY,
    };
    let few = |count: usize| if count <= LIGHT_ITEMS { Weight::PARSER } else { Weight::HEAVY };
    match effects(stage).arguments {
        Arguments::LineFilters(filters) => Weight::of_all(
            filters
                .iter()
                .flat_map(|filter| filter.operands.iter().map(|one| of_operand(filter.op, one))),
        ),
        Arguments::Extractions(list) => few(list.len()),
        Arguments::Names(list) => Weight::of_all(list.iter().map(|item| match item {
            NameOrMatcher::Name(_) => Weight::PLAIN,
            NameOrMatcher::Matcher(matcher) => Weight::of_matcher(matcher),
        })),
        Arguments::LabelFilter(filter) => {
            let mut weights = Vec::new();
            for_each_filter(filter, &mut |filter| {
                weights.push(match filter {
                    LabelFilter::String(matcher) => Weight::of_matcher(matcher),
                    LabelFilter::Ip { .. } => Weight::HEAVY,
                    _ => Weight::PLAIN,
                });
            });
            Weight::of_all(weights.into_iter())
        }
        Arguments::Formats(list) => Weight::of_all(list.iter().map(|item| match &item.value {
            LabelFormatValue::Rename(_) => Weight::PLAIN,
            LabelFormatValue::Template(text) => Weight::of_template(text),
        })),
        Arguments::Template(text) => Weight::of_template(text),
        Arguments::Captures(text) => few(text.as_bytes().len() / 16),
        Arguments::None | Arguments::OwnPattern(_) => Weight::PARSER,
        // Groups are looked for by slower means.
        Arguments::Groups(_) => Weight::HEAVY,
    }
}

/// Whether a template has nothing but text and a few fields, `{{.name}}`.
fn has_plain_fields(text: &Text) -> bool {
    let (mut rest, mut count) = (text.as_bytes(), 0);
    while let Some(start) = memchr::memmem::find(rest, b"{{") {
        let Some(len) = memchr::memmem::find(&rest[start..], b"}}") else { return false };
        let action = rest[start + 2..start + len].trim_ascii();
        let is_field = action.strip_prefix(b".").is_some_and(|name| {
            !name.is_empty()
                && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        });
        count += 1;
        if !is_field || count > LIGHT_ITEMS {
            return false;
        }
        rest = &rest[start + len + 2..];
    }
    text.as_bytes().len() <= 1024
}

#[cfg(test)]
mod tests {
    use super::super::tests::plan;
    use super::*;

    fn core_batch_bytes(query: &str) -> usize {
        let plan = plan(query);
        plan.leaves().iter().map(LeafPlan::core_batch_bytes).min().expect("a leaf")
    }

    #[test]
    fn only_what_costs_little_for_each_line_is_computed_on_a_core() {
        for (query, bytes) in [
            (r#"{a="b"}"#, TEXTS_BATCH_BYTES),
            (r#"{a="b"} |= "x" | level="error" | drop c"#, TEXTS_BATCH_BYTES),
            (r#"{a="b"} |= "x" or "y" != "z" |= "u""#, TEXTS_BATCH_BYTES / 4),
            (r#"{a="b"} |= "x" != "y" | logfmt | status>=500 or d>1s"#, PARSED_BATCH_BYTES),
            (r#"{a="b"} | json | line_format "{{.x}} {{ .y }}" | drop z"#, PARSED_BATCH_BYTES / 2),
            (
                r#"sum by (x) (rate({a="b"} | pattern "<x> <_>" | label_format y="{{.x}}-" [1m]))"#,
                PARSED_BATCH_BYTES / 2,
            ),
        ] {
            assert_eq!(core_batch_bytes(query), bytes, "{query}");
        }
        for query in [
            r#"{a="b"} |~ "x.+y""#,
            r#"{a="b"} |~ "x|y" | json | x=~"y.+""#,
            r#"{a="b"} | drop x=~"y+""#,
        ] {
            assert_eq!(core_batch_bytes(query), PATTERN_BATCH_BYTES, "{query}");
        }
        for query in [
            r#"{a="b"} |~ "x" |~ "y.+" !~ "z.+" | a=~"b.+""#,
            r#"{a="b"} |~ "[^x]{30}""#,
            r#"{a="b"} | regexp "(?P<x>.+)""#,
            r#"{a="b"} | line_format "{{ repeat 1000 .x }}""#,
            r#"{a="b"} | line_format "{{.x | upper}}""#,
            r#"{a="b"} | label_format x="{{ if .y }}z{{ end }}""#,
            r#"{a="b"} |= ip("10.0.0.0/8")"#,
        ] {
            assert_eq!(core_batch_bytes(query), 0, "{query}");
        }
        let stages = " | logfmt".repeat(LIGHT_STAGES + 1);
        assert_eq!(core_batch_bytes(&format!("{{a=\"b\"}}{stages}")), 0);
        let filters = " |= `x`".repeat(LIGHT_ITEMS + 1);
        assert_eq!(core_batch_bytes(&format!("{{a=\"b\"}}{filters}")), 0);
        let fields = "{{.x}}".repeat(LIGHT_ITEMS + 1);
        assert_eq!(core_batch_bytes(&format!("{{a=\"b\"}} | line_format \"{fields}\"")), 0);
    }
}
