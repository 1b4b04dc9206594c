//! What others may know of groups.

use std::rc::Rc;
use std::sync::Arc;

use logsvc_runtime::{Runtime, SideQueue};

use super::node::{ASIDE_ITEMS, Group};
use super::rule::{Kind, RuleCell};
use crate::alert::AlertTable;
use crate::messages::{AlertStatus, AlertingStatus, GroupNumbers, GroupStatus, RuleStatus};

/// The status of a group. One with many alerts is made anew each time, on a side thread, so that
/// nobody holds it.
pub(super) async fn of_group<R: Runtime>(runtime: &R, group: &Rc<Group>) -> Arc<GroupStatus> {
    if let Some(status) = &*group.status.borrow() {
        return Arc::clone(status);
    }
    let definition = group.definition();
    let tables: Vec<Arc<AlertTable>> = definition.rules.iter().map(|rule| rule.table()).collect();
    let counts = group.counts.borrow().clone();
    let mut status = GroupStatus {
        namespace: Arc::clone(&group.key.namespace),
        name: Arc::clone(&group.key.name),
        interval: definition.interval,
        limit: definition.source.limit,
        rules: definition.rules.iter().map(of_rule).collect(),
        last_evaluation_ns: counts.last_evaluation_ns,
        evaluation_time: counts.last_duration,
    };
    let alerts: usize = tables.iter().map(|table| table.len()).sum();
    let make = move || -> Vec<Arc<[AlertStatus]>> {
        tables.iter().map(|table| table.statuses().into()).collect()
    };
    let is_large = alerts > ASIDE_ITEMS;
    let alerts = if is_large { runtime.offload_to(SideQueue::Upkeep, make).await } else { make() };
    for (rule, alerts) in status.rules.iter_mut().zip(alerts) {
        if let Some(alerting) = &mut rule.alerting {
            alerting.alerts = alerts;
        }
    }
    let status = Arc::new(status);
    if !is_large {
        // Nothing has happened since the tables were read.
        *group.status.borrow_mut() = Some(Arc::clone(&status));
    }
    status
}

fn of_rule(rule: &Rc<RuleCell>) -> RuleStatus {
    let state = rule.state.borrow();
    let alerting = match &rule.kind {
        Kind::Record => None,
        Kind::Alert { hold, keep_firing, annotations, .. } => Some(AlertingStatus {
            hold: *hold,
            keep_firing: *keep_firing,
            annotations: annotations.clone(),
            alerts: Arc::new([]),
        }),
    };
    RuleStatus {
        name: Arc::clone(&rule.name),
        query: Arc::clone(&rule.printed),
        labels: rule.labels.clone(),
        health: state.health.clone(),
        last_evaluation_ns: state.last_evaluation_ns,
        evaluation_time: state.evaluation_time,
        alerting,
    }
}

/// The numbers of a group.
pub(super) fn numbers(group: &Group) -> GroupNumbers {
    let definition = group.definition();
    let counts = group.counts.borrow();
    GroupNumbers {
        tenant: group.key.tenant.clone(),
        namespace: Arc::clone(&group.key.namespace),
        name: Arc::clone(&group.key.name),
        rules: definition.rules.len() as u64,
        evaluations: counts.evaluations,
        evaluation_failures: counts.evaluation_failures,
        iterations: counts.iterations,
        iterations_missed: counts.iterations_missed,
        interval: definition.interval,
        last_evaluation_ns: counts.last_evaluation_ns,
        last_duration: counts.last_duration,
        last_samples: counts.last_samples,
        rules_time: counts.rules_time,
        iterations_time: counts.iterations_time,
    }
}
