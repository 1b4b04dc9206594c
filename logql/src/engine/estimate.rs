//! Estimates of the time and memory that a query takes before it reads any entry: to be parsed, to
//! be compiled, and to be merged.
//!
//! A query of 130 kilobytes may hold ten thousand stages; compiling them takes seconds and a
//! hundred megabytes. The caller asks for an estimate first, has the memory admitted, and moves
//! long work to another thread. An estimate reads the text or the tree once and compiles nothing.
//!
//! Guarantees: memory is estimated within a factor of about two, or too high (`tests/estimate.rs`
//! measures it). Times are those of a current machine. What can go wrong: patterns of equal
//! estimate differ in the automaton that a regex engine builds for them, so an estimate of one
//! pattern is less exact than a sum over many.

mod weight;

use super::pipeline::effects;
use super::pipeline::effects::Arguments;
use super::plan::{LeafKind, LeafPlan, Node, Plan, Root};
use crate::syntax::MAX_QUERY_LEN_BYTES;
use crate::syntax::ast::{
    Expr, Extraction, LabelFilter, LabelFormatValue, LineFilter, LineFilterOp, LineOperand,
    LogExpr, MatchOp, Matcher, MetricExpr, NameOrMatcher, Stage, Text,
};
use crate::syntax::go_regex::{Purpose, translate};

/// An estimate of time and memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Estimate {
    /// Time of one CPU in ns.
    pub time_ns: u64,
    /// Memory in bytes.
    pub bytes: u64,
}

/// Work that takes longer than this, in ns, is better done on another thread.
const SHORT_MAX_NS: u64 = 500_000;

/// Bytes of a tree for each byte of its text: a stage of five bytes is an enum of
/// a hundred and its place in a list that doubles.
const TREE_BYTES: u64 = 32;

/// Reading a byte of text, in ns.
const PARSE_NS: u64 = 40;

/// Time to check a pattern whose text is not read, in ns.
const UNSEEN_PATTERN_NS: u64 = 150_000;

impl Estimate {
    /// The largest tree of a query, in bytes.
    pub const TREE_MAX_BYTES: u64 = MAX_QUERY_LEN_BYTES as u64 * TREE_BYTES;

    pub(super) const fn new(time_ns: u64, bytes: u64) -> Self {
        Self { time_ns, bytes }
    }

    /// The estimate of parsing a text; its tree holds the memory.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        let len = text.len() as u64;
        let bytes = text.as_bytes();
        // Label filters are checked while they are parsed, which compiles their patterns.
        let patterns = memchr::memchr_iter(b'~', bytes).count() as u64;
        let may_be_large = patterns > 0
            && (memchr::memmem::find(bytes, b"\\p").is_some()
                || memchr::memmem::find(bytes, b"\\P").is_some()
                || bytes.windows(2).any(|pair| pair[0] == b'{' && pair[1].is_ascii_digit()));
        let parsers = memchr::memmem::find_iter(bytes, b"regexp").count() as u64;
        let patterns_ns = (patterns + parsers) * UNSEEN_PATTERN_NS;
        let large_ns = if may_be_large { SHORT_MAX_NS } else { 0 };
        Self::new(len * PARSE_NS + patterns_ns + large_ns, len * TREE_BYTES)
    }

    /// The estimate of planning a query. The memory is used by one leaf after the other.
    #[must_use]
    pub fn of_plan(expr: &Expr) -> Self {
        match expr {
            Expr::Log(log) => Self::of_stages(log) + Self::of_matchers(&log.selector.matchers),
            Expr::Metric(metric) => of_metric(metric),
        }
    }

    /// The estimate of planning a log query.
    #[must_use]
    pub fn of_stages(log: &LogExpr) -> Self {
        compiled(log, true)
    }

    /// The estimate of compiling some matchers.
    #[must_use]
    pub fn of_matchers(matchers: &[Matcher]) -> Self {
        matchers.iter().map(of_matcher).sum()
    }

    /// Whether it takes so little that it may be done on a core.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.time_ns <= SHORT_MAX_NS
    }
}

impl std::ops::Add for Estimate {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            time_ns: self.time_ns.saturating_add(other.time_ns),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

impl std::iter::Sum for Estimate {
    fn sum<I: Iterator<Item = Self>>(estimates: I) -> Self {
        estimates.fold(Self::default(), |sum, estimate| sum + estimate)
    }
}

impl LeafPlan {
    /// The time to compile the leaf, and the memory of the compiled leaf with the caches of
    /// its patterns.
    #[must_use]
    pub fn estimate(&self) -> Estimate {
        let keeps_all = matches!(self.kind, LeafKind::Log { .. });
        let filters: Estimate = match &self.kind {
            LeafKind::Samples { unwrap, .. } => unwrap.filters.iter().map(of_filter).sum(),
            _ => Estimate::default(),
        };
        compiled(&self.log, keeps_all)
            + filters
            + Estimate::of_matchers(&self.log.selector.matchers)
    }
}

impl Plan {
    /// The work to merge parts that hold `held_bytes`, in bytes that are read or written: each
    /// node of the query goes through all parts.
    #[must_use]
    pub fn merge_bytes(&self, held_bytes: usize) -> usize {
        let Root::Metric { node, grid, .. } = &*self.root else { return held_bytes };
        let steps_bytes = 16 * grid.steps as usize;
        let mut passes = Passes::default();
        passes.add(node);
        let each = held_bytes.max(steps_bytes);
        each.saturating_mul(passes.nodes).saturating_add(passes.value_bytes)
    }
}

fn is_plain(matcher: &Matcher) -> bool {
    matches!(matcher.op, MatchOp::Equal | MatchOp::NotEqual)
}

fn of_metric(expr: &MetricExpr) -> Estimate {
    let mut sum = Estimate::default();
    let mut largest = 0;
    // As deep as the parser lets it be, which is not deep.
    let mut rest = vec![expr];
    while let Some(expr) = rest.pop() {
        match expr {
            MetricExpr::Literal(_) | MetricExpr::Vector(_) => {}
            MetricExpr::RangeAggregation(range) => {
                let mut estimate = compiled(&range.range.log, range.grouping.is_none());
                for filter in range.range.unwrap.iter().flat_map(|unwrap| &unwrap.filters) {
                    estimate = estimate + of_filter(filter);
                }
                estimate = estimate + Estimate::of_matchers(&range.range.log.selector.matchers);
                sum.time_ns = sum.time_ns.saturating_add(estimate.time_ns);
                largest = largest.max(estimate.bytes);
            }
            MetricExpr::VectorAggregation(vector) => rest.push(&vector.expr),
            MetricExpr::BinaryOperation(binary) => rest.extend([&*binary.left, &*binary.right]),
            MetricExpr::LabelReplace(replace) => {
                rest.push(&replace.expr);
                // Its pattern stays in the plan.
                sum = sum + of_pattern(&replace.regex);
            }
        }
    }
    sum + Estimate::new(0, largest)
}

/// The estimate of a leaf without stages.
const LEAF: Estimate = Estimate::new(10_000, 8 << 10);

/// Compiles the stages twice where all labels of an entry are wanted: once to look at it
/// beforehand.
fn compiled(log: &LogExpr, keeps_all: bool) -> Estimate {
    let stages: Estimate = log.stages.iter().map(of_stage).sum();
    let parses = log.stages.iter().any(|stage| effects(stage).only_parses());
    let filters = log.stages.iter().any(|stage| effects(stage).label_filter().is_some());
    let twice = if keeps_all && parses && filters { stages } else { Estimate::default() };
    LEAF + stages + twice
}

fn of_stage(stage: &Stage) -> Estimate {
    match effects(stage).arguments {
        Arguments::LineFilters(filters) => {
            let of_operand = |op: LineFilterOp, operand: &LineOperand| match (op, operand) {
                (_, LineOperand::Ip(text)) => Estimate::new(2_000, 512 + text_bytes(text)),
                (LineFilterOp::Regex | LineFilterOp::NotRegex, LineOperand::Text(text)) => {
                    // Once to filter with, once to find the texts that it requires.
                    let pattern = of_pattern(text);
                    Estimate::new(pattern.time_ns + pattern.time_ns / 2, pattern.bytes)
                }
                (_, LineOperand::Text(text)) => Estimate::new(1_000, 700 + 4 * text_bytes(text)),
            };
            let of_filter = |filter: &LineFilter| {
                let operands: Estimate =
                    filter.operands.iter().map(|one| of_operand(filter.op, one)).sum();
                // Several are searched for together.
                let is_set = filter.operands.len() > 1;
                if is_set { operands + Estimate::new(PATTERN_NS, PATTERN_BYTES) } else { operands }
            };
            filters.iter().map(of_filter).sum()
        }
        Arguments::Extractions([]) => KEY_CACHE,
        Arguments::Extractions(list) => of_extractions(list),
        Arguments::Groups(text) => of_pattern(text) + Estimate::new(0, GROUPS_BYTES),
        Arguments::Captures(text) => {
            let captures = memchr::memchr_iter(b'<', text.as_bytes()).count() as u64;
            Estimate::new(1_000 + captures * 200, 400 + captures * 650 + 2 * text_bytes(text))
        }
        Arguments::None | Arguments::OwnPattern(_) => Estimate::new(200, 256),
        Arguments::LabelFilter(filter) => of_filter(filter),
        Arguments::Template(text) => of_template(text),
        Arguments::Formats(list) => list
            .iter()
            .map(|item| {
                let label = Estimate::new(200, 450 + 2 * item.label.len() as u64);
                label
                    + match &item.value {
                        LabelFormatValue::Rename(from) => Estimate::new(200, 2 * from.len() as u64),
                        LabelFormatValue::Template(text) => of_template(text),
                    }
            })
            .sum(),
        Arguments::Names(list) => list
            .iter()
            .map(|item| match item {
                NameOrMatcher::Name(name) => Estimate::new(200, 450 + 2 * name.len() as u64),
                NameOrMatcher::Matcher(matcher) => of_matcher(matcher),
            })
            .sum(),
    }
}

/// The estimate of a parser that remembers keys.
const KEY_CACHE: Estimate = Estimate::new(1_000, 4_300);

fn of_extractions(list: &[Extraction]) -> Estimate {
    list.iter()
        .map(|one| {
            let texts = one.label.len() as u64 + text_bytes(&one.source);
            Estimate::new(500, 300 + 2 * texts)
        })
        .sum()
}

fn of_template(text: &Text) -> Estimate {
    // Patterns of its functions are compiled with it.
    let patterns = memchr::memmem::find_iter(text.as_bytes(), b"regex").count() as u64;
    let len = text_bytes(text);
    let own = Estimate::new(500 + 60 * len, 600 + 80 * len);
    own + Estimate::new(patterns * PATTERN_NS, patterns * PATTERN_BYTES)
}

fn of_filter(filter: &LabelFilter) -> Estimate {
    let mut sum = Estimate::default();
    for_each_filter(filter, &mut |filter| {
        sum = sum
            + match filter {
                LabelFilter::String(matcher) => of_matcher(matcher),
                LabelFilter::Number { name, .. }
                | LabelFilter::Duration { name, .. }
                | LabelFilter::Bytes { name, .. } => Estimate::new(300, 280 + name.len() as u64),
                LabelFilter::Ip { name, pattern, .. } => {
                    Estimate::new(2_000, 512 + name.len() as u64 + text_bytes(pattern))
                }
                LabelFilter::And(..) | LabelFilter::Or(..) => Estimate::new(50, 64),
            };
    });
    sum
}

/// Calls `look` with a filter and with the filters that it consists of.
fn for_each_filter<'f>(filter: &'f LabelFilter, look: &mut impl FnMut(&'f LabelFilter)) {
    let mut rest = vec![filter];
    while let Some(filter) = rest.pop() {
        look(filter);
        if let LabelFilter::And(left, right) | LabelFilter::Or(left, right) = filter {
            rest.extend([&**left, &**right]);
        }
    }
}

fn of_matcher(matcher: &Matcher) -> Estimate {
    let own =
        Estimate::new(300, 280 + 2 * (matcher.name.len() as u64 + text_bytes(&matcher.value)));
    if is_plain(matcher) { own } else { own + of_pattern(&matcher.value) }
}

/// The estimate of the smallest pattern.
const PATTERN_NS: u64 = 10_000;
const PATTERN_BYTES: u64 = 6 << 10;

/// Addition for each state of its automaton.
const STATE_NS: u64 = 1_200;
const STATE_BYTES: u64 = 75;

/// Addition for classes of any character, and for letters of both cases.
const ANY_CHAR_NS: u64 = 200_000;

/// Addition for alternatives: tables to search for their beginnings.
const LITERALS_NS: u64 = 60_000;
const LITERALS_BYTES: u64 = 16 << 10;

/// Memory for a byte of a pattern whose alternatives are plain texts. The compiler of the
/// pattern takes most of it while it splits the alternatives.
const TEXT_BYTES: u64 = 110;

/// Most bytes of alternatives that count as few.
const FEW_TEXTS_BYTES: u64 = 256;

/// Addition for finding the groups of a pattern.
const GROUPS_BYTES: u64 = 4 << 10;

/// The estimate of a pattern in Go's syntax; nothing if it is none.
fn of_pattern(text: &Text) -> Estimate {
    let bytes = text.as_bytes();
    let is_text = |byte: &u8| byte.is_ascii_alphanumeric() || b" _-/|".contains(byte);
    if bytes.iter().all(is_text) {
        let len = bytes.len() as u64;
        let byte_bytes = if len <= FEW_TEXTS_BYTES { TEXT_BYTES / 2 } else { TEXT_BYTES };
        return Estimate::new(PATTERN_NS + 1_000 * len, byte_bytes * (2 + len));
    }
    let Ok(translation) = translate(bytes, Purpose::Search) else { return Estimate::default() };
    let has = |text: &[u8]| memchr::memmem::find(bytes, text).is_some();
    let mut estimate = Estimate::new(
        PATTERN_NS + translation.cost.saturating_mul(STATE_NS),
        PATTERN_BYTES + translation.cost.saturating_mul(STATE_BYTES),
    );
    let ignores_case = has(b"(?i");
    if ignores_case || has(b".") || has(b"[^") {
        estimate = estimate + Estimate::new(ANY_CHAR_NS, 0);
    }
    if ignores_case || has(b"|") {
        estimate =
            estimate + Estimate::new(LITERALS_NS, LITERALS_BYTES + TEXT_BYTES * bytes.len() as u64);
    }
    estimate
}

fn text_bytes(text: &Text) -> u64 {
    text.as_bytes().len() as u64
}

/// How often the nodes of a query go through their values.
#[derive(Default)]
struct Passes {
    nodes: usize,
    /// Bytes of values that `label_replace` makes in the longest case, for one series.
    value_bytes: usize,
}

/// How long a label value is that is stored, about.
const STORED_VALUE_BYTES: usize = 64;

impl Passes {
    /// Adds a node; returns how long its label values may be.
    fn add(&mut self, node: &Node) -> usize {
        self.nodes += 1;
        match node {
            Node::Scalar(_)
            | Node::Vector(_)
            | Node::Sums { .. }
            | Node::Samples { .. }
            | Node::Absent { .. } => STORED_VALUE_BYTES,
            Node::Aggregate { input, .. } => self.add(input),
            Node::Binary { left, right, .. } => {
                let (left, right) = (self.add(left), self.add(right));
                left.max(right)
            }
            Node::LabelReplace { replace, input } => {
                let source = self.add(input);
                let references = memchr::memchr_iter(b'$', &replace.replacement).count();
                let made = replace
                    .replacement
                    .len()
                    .saturating_add(references.saturating_mul(source))
                    .min(1 << 30);
                self.value_bytes = self.value_bytes.saturating_add(made);
                made.max(source)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::QueryParams;
    use crate::syntax;

    pub(super) fn plan(query: &str) -> Plan {
        let expr = syntax::parse(query).expect("a query");
        let params = QueryParams::range(0, 3_600_000_000_000, 60_000_000_000);
        Plan::new(&expr, &params).expect("a plan")
    }

    #[test]
    fn short_queries_are_short_and_long_ones_are_not() {
        for query in
            [r#"{a="b"}"#, r#"sum by (level) (count_over_time({a=~"b|c"} |= "error" | json [1m]))"#]
        {
            let expr = syntax::parse(query).expect("a query");
            assert!(Estimate::of_text(query).is_short() && Estimate::of_plan(&expr).is_short());
        }
        for query in [
            format!("{{a=\"b\"}}{}", " |= `x`".repeat(9_000)),
            format!("{{a=\"b\"}}{}", " | a=~`x.+`".repeat(20)),
            r#"{a="b"} | x=~"[\\pL]{900}""#.to_owned(),
        ] {
            assert!(!Estimate::of_text(&query).is_short(), "{query}");
        }
        let query = format!("{{a=\"b\"}}{}", " |~ `x.+y`".repeat(20));
        let expr = syntax::parse(&query).expect("a query");
        assert!(!Estimate::of_plan(&expr).is_short());
    }

    #[test]
    fn merging_is_as_large_as_the_values_that_it_makes() {
        let small = plan(r#"sum by (a) (rate({a="b"}[1m]))"#).merge_bytes(1000);
        assert!(small < 16 << 10, "{small}");
        let nested = |count: usize| {
            let open = "label_replace(".repeat(count);
            let close = r#","a","$1$1","a","(.*)")"#.repeat(count);
            plan(&format!(r#"{open}rate({{a="b"}}[1m]){close}"#)).merge_bytes(1000)
        };
        assert!(nested(1) < 16 << 10 && nested(20) > 64 << 20, "{}", nested(1));
    }
}
