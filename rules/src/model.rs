//! Rule groups as users write them.

use std::time::Duration;

/// A rule group: rules that are evaluated in their order, at one time, again and again.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RuleGroup {
    /// Unique within its namespace; not empty.
    pub name: String,
    /// Time from one evaluation to the next; `None`: `ruler.evaluation_interval`.
    pub interval: Option<Duration>,
    /// Most alerts or series that each rule may give; 0: no limit.
    pub limit: u64,
    /// How far before the evaluation's time the query looks; `None`: the tenant's
    /// `ruler_evaluation_delay_duration`.
    pub query_offset: Option<Duration>,
    /// Labels that all rules of the group add. A rule's own labels win.
    pub labels: Vec<(String, String)>,
    /// The rules, in their order.
    pub rules: Vec<Rule>,
}

/// A rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// An alert or a record, and its name.
    pub kind: RuleKind,
    /// The metric query as it was sent, byte for byte.
    pub expr: String,
    /// Labels that are added to the result's and win over them, sorted by name. Values are
    /// templates in alerting rules.
    pub labels: Vec<(String, String)>,
}

/// The kinds of rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RuleKind {
    /// Fires for each sample of the result.
    Alert(AlertRule),
    /// Sends the result as samples of a metric.
    Record {
        /// The metric's name.
        record: String,
    },
}

/// What an alerting rule has beside its query.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AlertRule {
    /// The alert's name.
    pub alert: String,
    /// How long an alert is pending before it fires.
    pub hold: Duration,
    /// How long an alert fires on after its condition has ended.
    pub keep_firing: Duration,
    /// Annotations, sorted by name; values are templates.
    pub annotations: Vec<(String, String)>,
}

impl Rule {
    /// The name of the alert or of the metric.
    pub fn name(&self) -> &str {
        match &self.kind {
            RuleKind::Alert(alert) => &alert.alert,
            RuleKind::Record { record } => record,
        }
    }
}

/// What a text costs beside its bytes.
const TEXT_BYTES: u64 = 24;
/// What a rule or a group costs beside its texts.
const FIXED_BYTES: u64 = 160;

impl RuleGroup {
    /// About what the group takes in memory, in bytes.
    pub fn held_bytes(&self) -> u64 {
        let rules = self.rules.iter().map(Rule::held_bytes);
        FIXED_BYTES + self.name.len() as u64 + pairs_bytes(&self.labels) + rules.sum::<u64>()
    }
}

impl Rule {
    fn held_bytes(&self) -> u64 {
        let annotations = match &self.kind {
            RuleKind::Alert(alert) => pairs_bytes(&alert.annotations),
            RuleKind::Record { .. } => 0,
        };
        let texts = (self.name().len() + self.expr.len()) as u64;
        FIXED_BYTES + texts + pairs_bytes(&self.labels) + annotations
    }
}

fn pairs_bytes(pairs: &[(String, String)]) -> u64 {
    pairs.iter().map(|(name, value)| 2 * TEXT_BYTES + (name.len() + value.len()) as u64).sum()
}
