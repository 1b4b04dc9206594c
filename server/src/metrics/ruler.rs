//! Metrics of the ruler, under the names that Loki has for them.
//!
//! Numbers of a tenant have the label `user` where they are about evaluations and notifications,
//! and `tenant` where they are about samples that are sent, as in Loki. Bounds: the first
//! [`GROUPS_MAX`] groups and the first tenants count alone, all others as `(others)`.

mod groups;
mod notifications;
mod remote;

use logsvc_rules::messages::RulerNumbers;

use super::exposition::Exposition;
use super::pushes::TENANTS_MAX;
use crate::config::RulerSettings;

/// Most rule groups with values of their own.
const GROUPS_MAX: usize = 10_000;

/// How groups are named.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupLabels<'a> {
    /// The folder with which the names begin (`ruler.rule_path`); `None`: groups have no names.
    pub(crate) rule_path: Option<&'a str>,
}

impl GroupLabels<'_> {
    /// As the settings say.
    pub(crate) fn of(settings: &RulerSettings) -> GroupLabels<'_> {
        let has_label = !settings.disable_rule_group_label;
        GroupLabels { rule_path: has_label.then_some(settings.rule_path.as_str()) }
    }
}

/// `numbers` are `None` while the ruler does not run; then only the names are there.
pub(super) fn expose(
    numbers: Option<&RulerNumbers>,
    labels: GroupLabels<'_>,
    out: &mut Exposition,
) {
    let empty = RulerNumbers::default();
    let numbers = numbers.unwrap_or(&empty);
    groups::expose(numbers, labels, out);
    notifications::expose(&numbers.notifications, out);
    remote::expose(&numbers.remote, out);
}

/// Writes a family of which each row has a value.
fn family<Row>(
    out: &mut Exposition,
    (name, kind, help): (&str, &str, &str),
    rows: &[Row],
    sample: impl Fn(&Row, &mut dyn FnMut(&[(&str, &str)], f64)),
) {
    out.family(name, kind, help);
    for row in rows {
        sample(row, &mut |labels, value| out.sample(name, labels, value));
    }
}

#[cfg(test)]
mod tests;
