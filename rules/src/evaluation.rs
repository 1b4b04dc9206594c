//! What evaluates the groups that the ruler has loaded, as the ruler sees it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use logsvc_logql::syntax;
use logsvc_proto::{Labels, LabelsBuilder, TenantId};
use logsvc_runtime::Latch;

use crate::catalogue::TenantGroups;
use crate::messages::{AlertingStatus, GroupStatus, Health, RuleStatus, RulerNumbers};
use crate::model::{Rule, RuleGroup, RuleKind};

/// Evaluates groups, beside the requests that the ruler answers. All calls come from core 0.
///
/// The ruler tells all tenants' groups before it polls [`Evaluation::run`] for the first time. So
/// an implementation knows then which stored states have no group any more.
#[allow(async_fn_in_trait)]
pub trait Evaluation: 'static {
    /// The groups of a tenant are these from now on; the ones before are over unless they are among
    /// them. Called when they have changed, also while [`Evaluation::run`] is pending. A group that
    /// is unchanged is the same value. A client is told of the change when this has returned.
    fn set_groups(&self, tenant: &TenantId, groups: &TenantGroups);

    /// The state of a tenant's groups, by namespace, then by name. A group is among them as soon as
    /// [`Evaluation::set_groups`] has told it.
    async fn status(&self, tenant: &TenantId) -> Vec<Arc<GroupStatus>>;

    /// Numbers for metrics.
    fn numbers(&self) -> RulerNumbers;

    /// Evaluates until the latch is triggered. Returns when what is to outlive the process is on
    /// the disk.
    async fn run(&self, stop: Latch);
}

/// Evaluates nothing. It lists the groups as they are before their first evaluation.
#[derive(Debug, Default)]
pub struct Unevaluated {
    /// Of groups that have no interval of their own.
    default_interval: Duration,
    groups: RefCell<BTreeMap<TenantId, Vec<Arc<GroupStatus>>>>,
}

impl Unevaluated {
    /// Lists groups that have no interval of their own with this one.
    pub fn new(default_interval: Duration) -> Unevaluated {
        Unevaluated { default_interval, groups: RefCell::default() }
    }
}

impl Evaluation for Unevaluated {
    fn set_groups(&self, tenant: &TenantId, groups: &TenantGroups) {
        let listed = groups.groups().map(|(namespace, _, group)| {
            Arc::new(status_of(namespace, group, self.default_interval))
        });
        self.groups.borrow_mut().insert(tenant.clone(), listed.collect());
    }

    async fn status(&self, tenant: &TenantId) -> Vec<Arc<GroupStatus>> {
        self.groups.borrow().get(tenant).cloned().unwrap_or_default()
    }

    fn numbers(&self) -> RulerNumbers {
        RulerNumbers::default()
    }

    async fn run(&self, stop: Latch) {
        stop.wait().await;
    }
}

/// The state of a group before its first evaluation.
pub fn status_of(
    namespace: &Arc<str>,
    group: &RuleGroup,
    default_interval: Duration,
) -> GroupStatus {
    GroupStatus {
        namespace: Arc::clone(namespace),
        name: group.name.as_str().into(),
        interval: group.interval.unwrap_or(default_interval),
        limit: group.limit,
        rules: group.rules.iter().map(rule_status_of).collect(),
        last_evaluation_ns: None,
        evaluation_time: Duration::ZERO,
    }
}

fn rule_status_of(rule: &Rule) -> RuleStatus {
    let query = match syntax::parse(&rule.expr) {
        Ok(expr) => expr.to_string(),
        Err(_) => rule.expr.clone(),
    };
    let alerting = match &rule.kind {
        RuleKind::Alert(alert) => Some(AlertingStatus {
            hold: alert.hold,
            keep_firing: alert.keep_firing,
            annotations: labels_of(&alert.annotations),
            alerts: Arc::new([]),
        }),
        RuleKind::Record { .. } => None,
    };
    RuleStatus {
        name: rule.name().into(),
        query: query.into(),
        labels: labels_of(&rule.labels),
        health: Health::Unknown,
        last_evaluation_ns: None,
        evaluation_time: Duration::ZERO,
        alerting,
    }
}

/// The labels of a rule as they were written. Names were checked when the group came.
fn labels_of(pairs: &[(String, String)]) -> Labels {
    let mut labels = LabelsBuilder::new();
    for (name, value) in pairs {
        labels.set(name, value);
    }
    labels.build_result()
}
