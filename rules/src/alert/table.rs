//! The alerts of a rule between two evaluations.

use logsvc_proto::Labels;

use crate::messages::{AlertState, AlertStatus};
use crate::sink::Notification;

/// Stands for a time that has not come. No evaluation has it.
pub const NEVER_NS: i64 = i64::MIN;

/// An alert. Times are in ns since the Unix epoch, or [`NEVER_NS`].
#[derive(Clone, PartialEq, Debug)]
pub struct Alert {
    /// All labels, with `alertname`.
    pub labels: Labels,
    /// Annotations of the last evaluation that had the alert.
    pub annotations: Labels,
    /// The value of that evaluation.
    pub value: f64,
    /// When it became pending.
    pub active_at_ns: i64,
    /// When it began to fire.
    pub fired_at_ns: i64,
    /// When it ended.
    pub resolved_at_ns: i64,
    /// Since when it fires on without being in the result.
    pub keep_firing_since_ns: i64,
    /// When it was last given to the Alertmanagers; not known after a start.
    pub last_sent_ns: i64,
    /// An inactive alert has fired before and is kept to be told about.
    pub state: AlertState,
}

impl Alert {
    /// A pending alert.
    pub(super) fn pending(
        labels: Labels,
        annotations: Labels,
        value: f64,
        active_at_ns: i64,
    ) -> Alert {
        Alert {
            labels,
            annotations,
            value,
            active_at_ns,
            fired_at_ns: NEVER_NS,
            resolved_at_ns: NEVER_NS,
            keep_firing_since_ns: NEVER_NS,
            last_sent_ns: NEVER_NS,
            state: AlertState::Pending,
        }
    }

    /// Whether it is pending or firing.
    pub fn is_active(&self) -> bool {
        self.state != AlertState::Inactive
    }

    /// Whether a start would restore it in another way than `other`. Values and annotations do not
    /// count, as the next evaluation brings them again.
    pub(super) fn differs_on_disk(&self, other: &Alert) -> bool {
        let times = |alert: &Alert| {
            let ends = (alert.resolved_at_ns, alert.keep_firing_since_ns);
            (alert.state, alert.active_at_ns, alert.fired_at_ns, ends)
        };
        times(self) != times(other)
    }

    fn moved(&self, by_ns: i64) -> Alert {
        let moved = |time_ns: i64| match time_ns {
            NEVER_NS => NEVER_NS,
            time_ns => time_ns.saturating_add(by_ns).max(NEVER_NS + 1),
        };
        Alert {
            active_at_ns: moved(self.active_at_ns),
            fired_at_ns: moved(self.fired_at_ns),
            resolved_at_ns: moved(self.resolved_at_ns),
            keep_firing_since_ns: moved(self.keep_firing_since_ns),
            last_sent_ns: moved(self.last_sent_ns),
            ..self.clone()
        }
    }

    /// What the Alertmanagers read. It ends when it was resolved, or at `valid_until_ns`.
    pub(super) fn notification(&self, valid_until_ns: i64, generator_url: &str) -> Notification {
        let is_resolved = self.resolved_at_ns != NEVER_NS;
        Notification {
            labels: self.labels.clone(),
            annotations: self.annotations.clone(),
            starts_at_ns: self.fired_at_ns,
            ends_at_ns: if is_resolved { self.resolved_at_ns } else { valid_until_ns },
            generator_url: generator_url.to_owned(),
        }
    }

    fn status(&self) -> AlertStatus {
        let since_ns = self.keep_firing_since_ns;
        AlertStatus {
            labels: self.labels.clone(),
            annotations: self.annotations.clone(),
            state: self.state,
            active_at_ns: self.active_at_ns,
            keep_firing_since_ns: (since_ns != NEVER_NS).then_some(since_ns),
            value: self.value,
        }
    }
}

/// The alerts of a rule, resolved ones included, in the bytewise order of their encoded labels.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AlertTable {
    alerts: Vec<Alert>,
}

impl AlertTable {
    /// A table of these alerts. Of alerts with equal labels the first one stays.
    pub fn new(mut alerts: Vec<Alert>) -> AlertTable {
        alerts.sort_by(|a, b| a.labels.as_bytes().cmp(b.labels.as_bytes()));
        alerts.dedup_by(|later, first| later.labels == first.labels);
        AlertTable { alerts }
    }

    /// A table of alerts that are in order.
    pub(super) fn from_sorted(alerts: Vec<Alert>) -> AlertTable {
        debug_assert!(
            alerts.is_sorted_by(|a, b| a.labels.as_bytes() < b.labels.as_bytes()),
            "sorted and unique"
        );
        AlertTable { alerts }
    }

    /// All alerts.
    pub fn alerts(&self) -> &[Alert] {
        &self.alerts
    }

    /// Whether there is no alert, not even a resolved one.
    pub fn is_empty(&self) -> bool {
        self.alerts.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.alerts.len()
    }

    /// What the table takes in memory, in bytes, without what the allocator adds.
    pub fn held_bytes(&self) -> usize {
        let texts =
            |alert: &Alert| alert.labels.as_bytes().len() + alert.annotations.as_bytes().len();
        size_of::<Alert>() * self.alerts.capacity() + self.alerts.iter().map(texts).sum::<usize>()
    }

    /// The pending and firing ones.
    pub fn active(&self) -> impl Iterator<Item = &Alert> {
        self.alerts.iter().filter(|alert| alert.is_active())
    }

    /// The active ones as listings show them.
    pub fn statuses(&self) -> Vec<AlertStatus> {
        self.active().map(Alert::status).collect()
    }

    /// The same alerts with all times moved. For a wall clock that was set back: ages stay what
    /// they were.
    #[must_use]
    pub fn moved(&self, by_ns: i64) -> AlertTable {
        AlertTable { alerts: self.alerts.iter().map(|alert| alert.moved(by_ns)).collect() }
    }
}
