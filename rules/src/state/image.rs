//! The state of all groups, as a file tells it.

use std::collections::BTreeMap;
use std::sync::Arc;

use logsvc_proto::{Labels, TenantId};

use super::format::Record;
use crate::alert::{Alert, AlertTable};

/// Which group.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupKey {
    /// Whose.
    pub tenant: TenantId,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// The state of a rule.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RuleImage {
    /// The rule's name.
    pub name: String,
    /// Its query as it was written.
    pub expr: String,
    /// Its labels and those of its group.
    pub labels: Vec<(String, String)>,
    /// Its alerts.
    pub table: Arc<AlertTable>,
}

/// The state of a group.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct GroupImage {
    /// The time of its last evaluation, in ns since the Unix epoch.
    pub last_evaluation_ns: Option<i64>,
    /// Rules that have alerts.
    pub rules: Vec<RuleImage>,
}

/// The state of all groups that have alerts.
pub type StateImage = BTreeMap<GroupKey, GroupImage>;

/// Applies records in their order.
#[derive(Debug, Default)]
pub(super) struct Replay {
    groups: BTreeMap<u32, (GroupKey, Option<i64>)>,
    rules: BTreeMap<u32, ReplayedRule>,
}

#[derive(Debug)]
struct ReplayedRule {
    group: u32,
    name: String,
    expr: String,
    labels: Vec<(String, String)>,
    /// By encoded labels.
    alerts: BTreeMap<Box<[u8]>, Alert>,
}

impl Replay {
    /// Applies a run of records. False if it ends in something that is no record; those before it
    /// are applied. Records about unknown groups and rules do nothing.
    pub(super) fn apply(&mut self, mut run: &[u8]) -> bool {
        while !run.is_empty() {
            let Some(record) = Record::take(&mut run) else { return false };
            self.apply_record(record);
        }
        true
    }

    fn apply_record(&mut self, record: Record) {
        match record {
            Record::Group { number, tenant, namespace, name } => {
                let key = GroupKey { tenant, namespace: namespace.into(), name: name.into() };
                let known = self.groups.entry(number).or_insert_with(|| (key.clone(), None));
                if known.0 != key {
                    *known = (key, None);
                    self.rules.retain(|_, rule| rule.group != number);
                }
            }
            Record::Rule { number, group, name, expr, labels } => {
                // A rule that gets other texts keeps its alerts.
                let before = self.rules.remove(&number).filter(|rule| rule.group == group);
                let alerts = before.map_or_else(BTreeMap::new, |rule| rule.alerts);
                self.rules.insert(number, ReplayedRule { group, name, expr, labels, alerts });
            }
            Record::Alert { rule, alert } => {
                if let Some(rule) = self.rules.get_mut(&rule) {
                    rule.alerts.insert(alert.labels.as_bytes().into(), alert);
                }
            }
            Record::Gone { rule, labels } => {
                if let Some(rule) = self.rules.get_mut(&rule) {
                    rule.alerts.remove(labels.as_bytes());
                }
            }
            Record::ForgetRule { rule } => {
                self.rules.remove(&rule);
            }
            Record::ForgetGroup { group } => {
                if self.groups.remove(&group).is_some() {
                    self.rules.retain(|_, rule| rule.group != group);
                }
            }
            Record::Evaluated { group, time_ns } => {
                if let Some((_, last_ns)) = self.groups.get_mut(&group) {
                    *last_ns = Some(time_ns);
                }
            }
        }
    }

    /// The state after the last record. Rules are in the order of their numbers.
    pub(super) fn finish(self) -> StateImage {
        let mut image = StateImage::new();
        for rule in self.rules.into_values() {
            let Some((key, last_ns)) = self.groups.get(&rule.group) else { continue };
            if rule.alerts.is_empty() {
                continue;
            }
            let group = image.entry(key.clone()).or_default();
            group.last_evaluation_ns = group.last_evaluation_ns.max(*last_ns);
            group.rules.push(RuleImage {
                name: rule.name,
                expr: rule.expr,
                labels: rule.labels,
                table: Arc::new(AlertTable::new(rule.alerts.into_values().collect())),
            });
        }
        image
    }
}

impl GroupKey {
    /// The record that gives the group a number.
    pub fn record(&self, number: u32) -> Record {
        Record::Group {
            number,
            tenant: self.tenant.clone(),
            namespace: self.namespace.to_string(),
            name: self.name.to_string(),
        }
    }
}

/// Labels and the size of what an alert takes in a file, about, in bytes.
pub(super) fn stored_bytes(labels: &Labels, annotations: &Labels) -> usize {
    54 + labels.as_bytes().len() + annotations.as_bytes().len()
}
