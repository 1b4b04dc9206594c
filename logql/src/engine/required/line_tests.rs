//! The line filters of a leaf as searches for texts, so that storage which holds lines in pieces
//! can filter them without putting them together.

use super::{LeafPlan, Literal, best, operand_items};
use crate::engine::pipeline::effects;
use crate::engine::pipeline::effects::Arguments;
use crate::syntax::ast::{LineFilter, LineFilterOp, LineOperand};

/// A test of stored lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineTest {
    /// Texts, one at least, none of them empty.
    pub any_of: Vec<Literal>,
    /// True when a line that has one of the texts may fail; false when a line that has none of
    /// them fails.
    pub negated: bool,
    /// Whether the texts alone decide. Otherwise a line that has one of them must be
    /// tested in full, and a line that has none passes if the test is negated.
    pub decides: bool,
}

/// The tests of a leaf, see [`LeafPlan::line_tests`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LineTests {
    /// All of which must hold.
    pub tests: Vec<LineTest>,
    /// Whether a line that passes all tests by their texts alone passes the line filters
    /// that come before all other stages.
    pub is_complete: bool,
}

impl LeafPlan {
    /// The line filters that look at stored lines, as tests. A line that fails one of
    /// them cannot pass the leaf's pipeline.
    #[must_use]
    pub fn line_tests(&self) -> LineTests {
        let mut found = LineTests { tests: Vec::new(), is_complete: true };
        for stage in &self.log.stages {
            let effects = effects(stage);
            if let Arguments::LineFilters(filters) = effects.arguments {
                for filter in filters {
                    match test_of(filter) {
                        Outcome::Passes => {}
                        Outcome::Tests(tests) => found.tests.extend(tests),
                        Outcome::Unknown => found.is_complete = false,
                    }
                }
            }
            if effects.rewrites_line {
                break;
            }
        }
        found
    }
}

enum Outcome {
    /// Every line passes.
    Passes,
    /// All of which must hold.
    Tests(Vec<LineTest>),
    Unknown,
}

fn test_of(filter: &LineFilter) -> Outcome {
    let (op, negated) = match filter.op {
        LineFilterOp::NotContains => (LineFilterOp::Contains, true),
        LineFilterOp::NotRegex => (LineFilterOp::Regex, true),
        LineFilterOp::NotPattern => (LineFilterOp::Pattern, true),
        op => (op, false),
    };
    let is_text = |operand: &LineOperand| matches!(operand, LineOperand::Text(_));
    let decides = op == LineFilterOp::Contains && filter.operands.iter().all(is_text);
    let mut any_of = Vec::new();
    for operand in &filter.operands {
        if op == LineFilterOp::Contains
            && matches!(operand, LineOperand::Text(text) if text.as_bytes().is_empty())
        {
            return if negated { Outcome::Unknown } else { Outcome::Passes };
        }
        let items = operand_items(op, operand);
        if !negated && filter.operands.len() == 1 && items.len() > 1 {
            let test = |any_of| LineTest { any_of, negated, decides };
            return Outcome::Tests(items.into_iter().map(test).collect());
        }
        let Some(one) = best(items) else { return Outcome::Unknown };
        any_of.extend(one);
    }
    any_of.sort_unstable();
    any_of.dedup();
    if any_of.is_empty() || any_of.iter().any(|literal| literal.bytes.is_empty()) {
        return Outcome::Unknown;
    }
    Outcome::Tests(vec![LineTest { any_of, negated, decides }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Plan, QueryParams, QueryTime};

    fn tests_of(pipeline: &str) -> LineTests {
        let text = format!("count_over_time({{a=\"b\"}} {pipeline} [1m])");
        let expr = crate::syntax::parse(&text).expect("valid");
        let params = QueryParams::new(QueryTime::Instant { time_ns: 1_000_000_000_000 });
        Plan::new(&expr, &params).expect("plans").leaves()[0].line_tests()
    }

    fn short(pipeline: &str) -> (Vec<String>, bool) {
        let found = tests_of(pipeline);
        let show = |test: &LineTest| {
            let texts: Vec<_> = test
                .any_of
                .iter()
                .map(|text| {
                    let case = if text.ignore_case { "i" } else { "" };
                    format!("{case}{}", String::from_utf8_lossy(&text.bytes))
                })
                .collect();
            let sign = if test.negated { "!" } else { "" };
            let doubt = if test.decides { "" } else { "?" };
            format!("{sign}{}{doubt}", texts.join("|"))
        };
        (found.tests.iter().map(show).collect(), found.is_complete)
    }

    #[test]
    fn filters_become_tests_as_far_as_texts_decide() {
        for (pipeline, expected, is_complete) in [
            ("|= `abc` != `d`", vec!["abc", "!d"], true),
            ("|= `abc` or `de`", vec!["abc|de"], true),
            ("!= `abc` or `de`", vec!["!abc", "!de"], true),
            ("|= `abc` or `` |= `x`", vec!["x"], true),
            ("!= ``", vec![], false),
            ("|~ `(?i)peer` | json | x=`y` |= `later`", vec!["ipeer?", "later"], true),
            ("|~ `ab[0-9]+`", vec!["ab?"], true),
            ("|~ `ab[0-9]+cd`", vec!["ab?", "cd?"], true),
            ("!~ `ab[0-9]+cd`", vec!["!cd?"], true),
            ("!~ `ab[0-9]+`", vec!["!ab?"], true),
            ("!~ `(ab|cd)[0-9]+`", vec!["!ab|cd?"], true),
            ("|~ `[0-9]+x?` |= `q`", vec!["q"], false),
            ("|> `<_>mid<_>`", vec!["mid?"], true),
            ("|= ip(`1.2.3.4`) |= `q`", vec!["1.2.3.4?", "q"], true),
            ("|= ip(`10.0.0.0/16`)", vec!["10.0.?"], true),
            ("!= ip(`10.0.0.0/8`) or `x`", vec!["!10.?", "!x"], true),
            ("|= ip(`10.0.0.0/8`) or `x`", vec!["10.|x?"], true),
            ("|= ip(`10.0.0.0/7`) or `x`", vec![], false),
            ("|= ip(`::1`) |= `q`", vec!["q"], false),
            ("|= `a` | line_format `x` |= `b`", vec!["a"], true),
        ] {
            let expected = expected.into_iter().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(short(pipeline), (expected, is_complete), "{pipeline}");
        }
    }
}
