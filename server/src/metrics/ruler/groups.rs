//! Numbers of evaluations, by tenant and group.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use logsvc_rules::messages::{GroupNumbers, RulerNumbers};

use super::super::exposition::Exposition;
use super::super::pushes::OTHERS;
use super::{GROUPS_MAX, GroupLabels, TENANTS_MAX, family};

/// The values of a group, or the sums of several.
#[derive(Default)]
struct Row {
    user: String,
    group: Option<String>,
    rules: u64,
    evaluations: u64,
    failures: u64,
    iterations: u64,
    missed: u64,
    samples: u64,
    interval: Duration,
    last_duration: Duration,
    rules_time: Duration,
    iterations_time: Duration,
    /// The newest one.
    last_evaluation_ns: Option<i64>,
}

impl Row {
    fn add(&mut self, group: &GroupNumbers) {
        self.rules += group.rules;
        self.evaluations += group.evaluations;
        self.failures += group.evaluation_failures;
        self.iterations += group.iterations;
        self.missed += group.iterations_missed;
        self.samples += group.last_samples;
        self.interval += group.interval;
        self.last_duration += group.last_duration;
        self.rules_time += group.rules_time;
        self.iterations_time += group.iterations_time;
        self.last_evaluation_ns = self.last_evaluation_ns.max(group.last_evaluation_ns);
    }
}

/// A metric of groups: name, kind, help and value.
type Family = (&'static str, &'static str, &'static str, fn(&Row) -> Option<f64>);

const FAMILIES: [Family; 9] = [
    ("loki_prometheus_rule_evaluations_total", "counter", "Evaluations of rules.", |row| {
        Some(row.evaluations as f64)
    }),
    (
        "loki_prometheus_rule_evaluation_failures_total",
        "counter",
        "Evaluations of rules that failed.",
        |row| Some(row.failures as f64),
    ),
    (
        "loki_prometheus_rule_group_iterations_total",
        "counter",
        "Evaluations of groups that were due, also those that were missed.",
        |row| Some((row.iterations + row.missed) as f64),
    ),
    (
        "loki_prometheus_rule_group_iterations_missed_total",
        "counter",
        "Evaluations of groups that were missed because one before took too long.",
        |row| Some(row.missed as f64),
    ),
    (
        "loki_prometheus_rule_group_interval_seconds",
        "gauge",
        "Time between two evaluations of a group.",
        |row| Some(row.interval.as_secs_f64()),
    ),
    (
        "loki_prometheus_rule_group_last_evaluation_timestamp_seconds",
        "gauge",
        "When a group was last evaluated.",
        |row| Some(row.last_evaluation_ns? as f64 / 1e9),
    ),
    (
        "loki_prometheus_rule_group_last_duration_seconds",
        "gauge",
        "How long the last evaluation of a group took.",
        |row| Some(row.last_duration.as_secs_f64()),
    ),
    ("loki_prometheus_rule_group_rules", "gauge", "Rules of a group.", |row| {
        Some(row.rules as f64)
    }),
    (
        "loki_prometheus_last_evaluation_samples",
        "gauge",
        "Samples of the last evaluation of a group.",
        |row| Some(row.samples as f64),
    ),
];

/// A metric of tenants with a sum and a count: name, help and both.
type Summary = (&'static str, &'static str, fn(&Row) -> (Duration, u64));

const SUMMARIES: [Summary; 2] = [
    (
        "loki_prometheus_rule_evaluation_duration_seconds",
        "How long evaluations of rules took.",
        |row| (row.rules_time, row.evaluations),
    ),
    (
        "loki_prometheus_rule_group_duration_seconds",
        "How long evaluations of groups took.",
        |row| (row.iterations_time, row.iterations),
    ),
];

pub(super) fn expose(numbers: &RulerNumbers, labels: GroupLabels<'_>, out: &mut Exposition) {
    let rows = rows(&numbers.groups, labels);
    for (name, kind, help, read) in FAMILIES {
        family(out, (name, kind, help), &rows, |row, sample| {
            let Some(value) = read(row) else { return };
            match &row.group {
                Some(group) => sample(&[("user", &row.user), ("rule_group", group)], value),
                None => sample(&[("user", &row.user)], value),
            }
        });
    }
    let tenants = self::rows(&numbers.groups, GroupLabels { rule_path: None });
    for (name, help, read) in SUMMARIES {
        out.family(name, "summary", help);
        for row in &tenants {
            let (sum, count) = read(row);
            let labels = [("user", row.user.as_str())];
            out.sample(&format!("{name}_sum"), &labels, sum.as_secs_f64());
            out.sample(&format!("{name}_count"), &labels, count as f64);
        }
    }
    let managers: BTreeSet<&str> = numbers.groups.iter().map(|it| it.tenant.as_str()).collect();
    let help = "Tenants with rules that are evaluated.";
    out.single("loki_ruler_managers_total", "gauge", help, managers.len() as u64);
    let unreadable: BTreeSet<&str> = numbers.unreadable.iter().map(|it| it.as_str()).collect();
    let read: Vec<&str> = managers.union(&unreadable).copied().collect();
    let help = "1 if all rule files of the tenant could be read, else 0.";
    let name = "loki_ruler_config_last_reload_successful";
    family(out, (name, "gauge", help), &read, |user, sample| {
        sample(&[("user", user)], f64::from(!unreadable.contains(user)));
    });
}

/// Values by the labels that they get, in the order of these.
fn rows(groups: &[GroupNumbers], labels: GroupLabels<'_>) -> Vec<Row> {
    let mut rows: BTreeMap<(String, Option<String>), Row> = BTreeMap::new();
    let mut tenants = BTreeSet::new();
    for (place, group) in groups.iter().enumerate() {
        let tenant = group.tenant.as_str();
        let is_known =
            tenants.contains(tenant) || (tenants.len() < TENANTS_MAX && tenants.insert(tenant));
        let user = if is_known { tenant } else { OTHERS };
        let name = labels.rule_path.map(|path| match is_known && place < GROUPS_MAX {
            true => label(path, group),
            false => OTHERS.to_owned(),
        });
        let new = Row { user: user.to_owned(), group: name.clone(), ..Row::default() };
        rows.entry((user.to_owned(), name)).or_insert(new).add(group);
    }
    rows.into_values().collect()
}

/// The name of a group as Loki has it: a file, and behind a semicolon the name.
fn label(rule_path: &str, group: &GroupNumbers) -> String {
    let folder = rule_path.trim_end_matches('/');
    let mut label = format!("{folder}/{}/", group.tenant.as_str());
    // What a segment of a path may have as it is.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~$&+:=@".contains(&byte);
    for byte in group.namespace.bytes() {
        // Writing to a string cannot fail.
        let _ = match is_plain(byte) {
            true => write!(label, "{}", char::from(byte)),
            false => write!(label, "%{byte:02X}"),
        };
    }
    label.push(';');
    label.push_str(&group.name);
    label
}
