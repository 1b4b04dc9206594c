//! The lines behind an alert: the log query within the metric query of its rule.

use logsvc_logql::syntax;
use logsvc_logql::syntax::ast::{
    BinaryOp, BinaryOperation, Cardinality, Expr, LabelFilter, LogExpr, LogRange, MatchOp, Matcher,
    MetricExpr, Stage,
};
use logsvc_proto::Labels;
use logsvc_proto::labels::is_valid_label_name;

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
/// `None` for a query that reads no entries.
pub fn log_query_of(expr: &Expr, sample_labels: &Labels) -> Option<LogQueryOfAlert> {
    let Expr::Metric(metric) = expr else { return None };
    let found = Found::within(metric)?;
    let LogRange { log, range_ns, offset_ns, .. } = found.range;
    let plain = Expr::Log(log.clone());
    let narrowed = found.narrowed(sample_labels);
    // A label may have the name of a stage, by which no query can ask for it.
    let expr = if syntax::parse(&narrowed.to_string()).as_ref() == Ok(&narrowed) {
        narrowed
    } else {
        plain
    };
    Some(LogQueryOfAlert {
        text: expr.to_string(),
        expr,
        window_ns: *range_ns,
        offset_ns: *offset_ns,
    })
}

/// The first range of a metric query.
struct Found<'e> {
    range: &'e LogRange,
    /// The entries have the labels of the sample.
    has_own_labels: bool,
    /// Labels that samples have from elsewhere.
    foreign: Vec<&'e str>,
}

impl<'e> Found<'e> {
    fn within(expr: &'e MetricExpr) -> Option<Self> {
        match expr {
            MetricExpr::Literal(_) | MetricExpr::Vector(_) => None,
            MetricExpr::RangeAggregation(node) => {
                Some(Self { range: &node.range, has_own_labels: true, foreign: Vec::new() })
            }
            MetricExpr::VectorAggregation(node) => Self::within(&node.expr),
            MetricExpr::LabelReplace(node) => {
                Some(Self { has_own_labels: false, ..Self::within(&node.expr)? })
            }
            MetricExpr::BinaryOperation(node) => Self::within_operation(node),
        }
    }

    fn within_operation(node: &'e BinaryOperation) -> Option<Self> {
        let Some(mut found) = Self::within(&node.left) else { return Self::within(&node.right) };
        match &node.matching.cardinality {
            Cardinality::OneToOne => {}
            Cardinality::GroupLeft(labels) => {
                found.foreign.extend(labels.iter().map(String::as_str));
            }
            Cardinality::GroupRight(_) => found.has_own_labels = false,
        }
        // The sample may be one of the right side.
        if node.op == BinaryOp::Or {
            found.has_own_labels = false;
        }
        Some(found)
    }

    fn narrowed(&self, sample_labels: &Labels) -> Expr {
        let LogExpr { selector, mut stages } = self.range.log.clone();
        if self.has_own_labels {
            let own = sample_labels.iter().filter(|(name, _)| {
                is_valid_label_name(name.as_bytes()) && !self.foreign.contains(name)
            });
            stages.extend(own.map(|(name, value)| {
                Stage::LabelFilter(LabelFilter::String(Matcher {
                    name: name.to_owned(),
                    op: MatchOp::Equal,
                    value: value.into(),
                }))
            }));
        }
        Expr::Log(LogExpr { selector, stages })
    }
}
