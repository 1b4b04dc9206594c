//! The lines behind an alert: the log query within the metric query of its rule.
//!
//! Guarantees: the query compares a label with that of the sample only where the sample has it from
//! the entries. Where the sample may come from entries of another query, or from none, there is no
//! query. What can go wrong: LogQL cannot say that entries have no labels but some. So the lines of
//! a sample without `by` may be those of a sample with further labels, too.

use logsvc_logql::syntax;
use logsvc_logql::syntax::ast::{
    BinaryOp, BinaryOperation, Cardinality, Expr, Grouping, GroupingKind, LabelFilter, LogExpr,
    LogRange, MatchOp, Matcher, MatchingKind, MetricExpr, RangeAggregation, RangeFunction, Stage,
    VectorAggregation, VectorFunction, VectorMatching,
};
use logsvc_proto::Labels;
use logsvc_proto::labels::is_valid_label_name;

use super::names::Names;

/// The log query behind an alert.
#[derive(Clone, PartialEq, Debug)]
pub struct LogQueryOfAlert {
    /// The query as text.
    pub text: String,
    /// The same, parsed.
    pub expr: Expr,
    /// Length of the window in ns: entries later than the evaluation time less the offset less the
    /// window, up to the evaluation time less the offset.
    pub window_ns: i64,
    /// Shift of the window into the past in ns; negative into the future.
    pub offset_ns: i64,
}

/// The first log query of a metric query, with its pipeline and without `unwrap`. It finds the
/// entries of one sample: filters at the end of the pipeline compare the labels of the sample. A
/// label that the sample has from elsewhere narrows nothing: from `label_replace`, from the other
/// side of an operation, or from the rule. So `sample_labels` are the labels that the query gave.
///
/// `None` for a query that reads no entries, and for a sample that may have come from elsewhere:
/// from the other side of `or`, or from a missing side of `unless`.
pub fn log_query_of(expr: &Expr, sample_labels: &Labels) -> Option<LogQueryOfAlert> {
    let Expr::Metric(metric) = expr else { return None };
    let found = Found::within(metric, sample_labels)?;
    let expr = found.narrowed(sample_labels);
    let (window_ns, offset_ns) = (found.window_ns, found.range.offset_ns);
    Some(LogQueryOfAlert { text: expr.to_string(), expr, window_ns, offset_ns })
}

/// Whether a query reads entries at all.
pub fn reads_entries(expr: &Expr) -> bool {
    match expr {
        Expr::Log(_) => true,
        Expr::Metric(metric) => metric_reads_entries(metric),
    }
}

fn metric_reads_entries(expr: &MetricExpr) -> bool {
    match expr {
        MetricExpr::Literal(_) | MetricExpr::Vector(_) => false,
        MetricExpr::RangeAggregation(_) => true,
        MetricExpr::VectorAggregation(node) => metric_reads_entries(&node.expr),
        MetricExpr::LabelReplace(node) => metric_reads_entries(&node.expr),
        MetricExpr::BinaryOperation(node) => {
            metric_reads_entries(&node.left) || metric_reads_entries(&node.right)
        }
    }
}

/// Whether a query gives one number without labels, which pairs with every sample.
fn is_scalar(expr: &MetricExpr) -> bool {
    match expr {
        MetricExpr::Literal(_) => true,
        MetricExpr::BinaryOperation(node) => is_scalar(&node.left) && is_scalar(&node.right),
        _ => false,
    }
}

/// Whether a query that reads no entries gives samples without labels alone.
fn has_no_labels(expr: &MetricExpr) -> bool {
    match expr {
        MetricExpr::LabelReplace(_) => false,
        MetricExpr::VectorAggregation(node) => has_no_labels(&node.expr),
        MetricExpr::BinaryOperation(node) => {
            has_no_labels(&node.left) && has_no_labels(&node.right)
        }
        _ => true,
    }
}

/// Which samples of an operation's operands its own are made of.
#[derive(Clone, Copy)]
enum Side {
    /// Samples of both sides are paired one to one.
    Single,
    /// The side whose labels the result has.
    Many,
    /// The side that gives the labels of `group_left (...)` or `group_right (...)`.
    One,
}

/// The first range of a metric query.
struct Found<'e> {
    range: &'e LogRange,
    window_ns: i64,
    /// Labels that a sample has, or lacks, as the entries behind it do.
    own: Names<'e>,
}

impl<'e> Found<'e> {
    fn within(expr: &'e MetricExpr, sample: &Labels) -> Option<Self> {
        match expr {
            MetricExpr::Literal(_) | MetricExpr::Vector(_) => None,
            MetricExpr::RangeAggregation(node) => Some(Self::of_range(node)),
            MetricExpr::VectorAggregation(node) => {
                Some(Self::within(&node.expr, sample)?.aggregated(node))
            }
            MetricExpr::LabelReplace(node) => {
                let target = [node.dst.as_str()?].into();
                Some(Self::within(&node.expr, sample)?.kept(&Names::Except(target)))
            }
            MetricExpr::BinaryOperation(node) => Self::within_operation(node, sample),
        }
    }

    fn of_range(node: &'e RangeAggregation) -> Self {
        let range = &node.range;
        let grouped = node.grouping.as_ref().map_or_else(Names::all, names_of);
        let own = match (node.function, &range.unwrap) {
            // Its labels are those of the selector, and there are no entries.
            (RangeFunction::AbsentOverTime, _) => Names::none(),
            // The label that is the value is none of the sample's.
            (_, Some(unwrap)) => grouped.and(&Names::Except([unwrap.label.as_str()].into())),
            (_, None) => grouped,
        };
        Self { range, window_ns: range.range_ns, own }
    }

    fn kept(mut self, names: &Names<'e>) -> Self {
        self.own = self.own.and(names);
        self
    }

    fn aggregated(self, node: &'e VectorAggregation) -> Self {
        match (node.function, &node.grouping) {
            // They choose samples and order them.
            (
                VectorFunction::Topk
                | VectorFunction::Bottomk
                | VectorFunction::ApproxTopk
                | VectorFunction::Sort
                | VectorFunction::SortDesc,
                _,
            ) => self,
            (_, Some(grouping)) => self.kept(&names_of(grouping)),
            (_, None) => self.kept(&Names::none()),
        }
    }

    fn within_operation(node: &'e BinaryOperation, sample: &Labels) -> Option<Self> {
        let BinaryOperation { op, matching, left, right, .. } = node;
        if is_scalar(left) {
            return Self::within(right, sample);
        }
        if is_scalar(right) {
            return Self::within(left, sample);
        }
        let reads = (metric_reads_entries(left), metric_reads_entries(right));
        match (op, reads) {
            (BinaryOp::Or, reads) => Self::within_union(node, reads, sample),
            (BinaryOp::And | BinaryOp::Unless, (true, _)) => Self::within(left, sample),
            // The sample is there since the right side has none.
            (BinaryOp::Unless, (false, _)) => None,
            (BinaryOp::And, (false, _)) => {
                Some(Self::within(right, sample)?.kept(&paired_by(matching)))
            }
            (_, (is_left, _)) => {
                let side = match (&matching.cardinality, is_left) {
                    (Cardinality::OneToOne, _) => Side::Single,
                    (Cardinality::GroupLeft(_), true) | (Cardinality::GroupRight(_), false) => {
                        Side::Many
                    }
                    (Cardinality::GroupLeft(_), false) | (Cardinality::GroupRight(_), true) => {
                        Side::One
                    }
                };
                let operand = if is_left { left } else { right };
                Some(Self::within(operand, sample)?.kept(&labels_from(matching, side)))
            }
        }
    }

    /// The sample may be one of either side, which nothing but its labels can tell.
    fn within_union(
        node: &'e BinaryOperation,
        reads: (bool, bool),
        sample: &Labels,
    ) -> Option<Self> {
        let (found, other) = match reads {
            (true, true) => {
                let left = Self::within(&node.left, sample)?;
                let right = Self::within(&node.right, sample)?;
                let (of_left, of_right) = (left.range, right.range);
                let is_same = of_left.log == of_right.log
                    && of_left.unwrap == of_right.unwrap
                    && of_left.offset_ns == of_right.offset_ns;
                let window_ns = left.window_ns.min(right.window_ns);
                return is_same.then(|| Self { window_ns, ..left.kept(&right.own) });
            }
            (true, false) => (Self::within(&node.left, sample)?, &node.right),
            (false, true) => (Self::within(&node.right, sample)?, &node.left),
            (false, false) => return None,
        };
        let is_shadowed = !reads.0;
        let may_be_other = match has_no_labels(other) {
            true => sample.is_empty() && (is_shadowed || matches!(found.own, Names::Except(_))),
            false => true,
        };
        (!may_be_other).then_some(found)
    }

    fn narrowed(&self, sample_labels: &Labels) -> Expr {
        let LogExpr { selector, mut stages } = self.range.log.clone();
        if let Some(unwrap) = &self.range.unwrap {
            stages.extend(unwrap.filters.iter().cloned().map(Stage::LabelFilter));
        }
        let lacks = |name: &&str| sample_labels.get(name).is_none();
        let missing = match &self.own {
            Names::Only(names) => names.iter().copied().filter(lacks).collect(),
            Names::Except(_) => Vec::new(),
        };
        let own = sample_labels.iter().filter(|(name, _)| self.own.contains(name));
        let wanted = own.chain(missing.into_iter().map(|name| (name, "")));
        for (name, value) in wanted {
            let filter = Stage::LabelFilter(LabelFilter::String(Matcher {
                name: name.to_owned(),
                op: MatchOp::Equal,
                value: value.into(),
            }));
            // A label may have the name of a stage, by which no query can ask for it.
            let alone = LogExpr { selector: selector.clone(), stages: vec![filter.clone()] };
            let alone = Expr::Log(alone);
            let is_askable = is_valid_label_name(name.as_bytes())
                && syntax::parse(&alone.to_string()).as_ref() == Ok(&alone);
            if is_askable {
                stages.push(filter);
            }
        }
        Expr::Log(LogExpr { selector, stages })
    }
}

/// The labels that a grouping keeps.
fn names_of(grouping: &Grouping) -> Names<'_> {
    match grouping.kind {
        GroupingKind::By => Names::only(&grouping.labels),
        GroupingKind::Without => Names::except(&grouping.labels),
    }
}

/// The labels that samples of both sides have in common.
fn paired_by(matching: &VectorMatching) -> Names<'_> {
    match matching.kind {
        MatchingKind::On => Names::only(&matching.labels),
        MatchingKind::Ignoring => Names::except(&matching.labels),
    }
}

/// The labels of a result that are those of a side.
fn labels_from(matching: &VectorMatching, side: Side) -> Names<'_> {
    let paired = paired_by(matching);
    let included = match &matching.cardinality {
        Cardinality::OneToOne => Names::none(),
        Cardinality::GroupLeft(labels) | Cardinality::GroupRight(labels) => Names::only(labels),
    };
    match side {
        Side::Single => paired,
        Side::Many => paired.or(&included.opposite()),
        Side::One => paired.or(&included),
    }
}
