//! Where the queries of rules are evaluated.

use std::sync::Arc;

use logsvc_logql::engine::VectorSample;
use logsvc_logql::syntax::ast::Expr;
use logsvc_proto::{Labels, TenantId};

/// A query of a rule at one instant.
#[derive(Clone, Debug)]
pub struct RuleQuery {
    /// Whose entries are read.
    pub tenant: TenantId,
    /// The query as it was written.
    pub text: Arc<str>,
    /// The same, parsed.
    pub expr: Arc<Expr>,
    /// Evaluation time in ns since the Unix epoch.
    pub time_ns: i64,
    /// When the same query comes again, in ns after this one: a hint by which windows are divided
    /// into parts that serve again. 0: it comes once.
    pub interval_ns: i64,
    /// What is asked for.
    pub wanted: Wanted,
    /// Chooses the core that evaluates, by the remainder: a hash of the group.
    pub spread: u64,
}

/// What a rule asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// The vector of a metric query.
    Vector,
    /// The newest lines of a log query.
    Lines {
        /// Oldest time that is asked for, in ns since the Unix epoch. The evaluation time is the
        /// newest one.
        start_ns: i64,
        /// Most lines.
        limit: usize,
    },
}

/// The answer to a rule's query.
#[derive(Clone, PartialEq, Debug)]
pub enum RuleAnswer {
    /// A vector; the scalar of a literal is one sample without labels.
    Vector(Vec<VectorSample>),
    /// Lines, newest first.
    Lines(Vec<RuleLine>),
}

/// A line of a log query's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleLine {
    /// Time in ns since the Unix epoch.
    pub time_ns: i64,
    /// All labels of the entry.
    pub labels: Labels,
    /// The line as the pipeline left it.
    pub line: Box<[u8]>,
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RuleQueryError {
    /// The query gives log lines, or lines were asked of a metric query.
    #[error("rule result is not a vector or scalar")]
    NoVector,
    /// The query failed; the text is the one that a client of the query endpoints reads.
    #[error("{0}")]
    Failed(String),
    /// The node is stopping.
    #[error("the node is stopping")]
    Stopping,
}

/// Evaluates queries of rules. An error is no empty result: it changes no alert.
#[allow(async_fn_in_trait)]
pub trait Evaluator: Clone + 'static {
    /// The answer to a query, from the entries that are stored now.
    ///
    /// # Errors
    /// See [`RuleQueryError`].
    async fn evaluate(&self, query: RuleQuery) -> Result<RuleAnswer, RuleQueryError>;
}
