//! One evaluation: from a table and the alerts of a result to the next table, and what is to be
//! written, sent and recorded.

use std::cmp::Ordering;

use logsvc_proto::Labels;

use super::prepare::NewAlert;
use super::samples::{SampleRun, Series};
use super::table::{Alert, AlertTable, NEVER_NS};
use crate::messages::AlertState;
use crate::rule_error::RuleError;
use crate::sink::{Notification, RecordedSample};

/// How long a resolved alert is kept to be told about.
const RESOLVED_KEPT_NS: i64 = 15 * 60 * 1_000_000_000;

/// The terms of an evaluation.
#[derive(Clone, PartialEq, Debug)]
pub struct Terms {
    /// Evaluation time in ns since the Unix epoch. Later than that of the table.
    pub time_ns: i64,
    /// How long an alert is pending before it fires, in ns.
    pub hold_ns: i64,
    /// How long an alert fires on after its condition has ended, in ns.
    pub keep_firing_ns: i64,
    /// Most pending and firing alerts; 0: no limit.
    pub limit: u64,
    /// Most time between two sends of an alert, in ns.
    pub resend_delay_ns: i64,
    /// Time from one evaluation to the next, in ns.
    pub interval_ns: i64,
    /// The time of samples, in ms since the Unix epoch; `None`: there shall be no samples.
    pub sample_ms: Option<i64>,
    /// The link of notifications.
    pub generator_url: String,
}

/// What an evaluation gave.
#[derive(Clone, PartialEq, Debug)]
pub struct Evaluated {
    /// The alerts from here on.
    pub table: AlertTable,
    /// Which of them, by their places in the table, a start would restore in another way than
    /// those of the table before.
    pub changed: Vec<usize>,
    /// Labels of those that have left the table.
    pub gone: Vec<Labels>,
    /// What the Alertmanagers are to be told. The table says that they were.
    pub notifications: Vec<Notification>,
    /// `ALERTS` and `ALERTS_FOR_STATE` of active alerts.
    pub samples: Vec<RecordedSample>,
    /// The series of those that have ended with this evaluation.
    pub ended: Vec<Labels>,
}

impl AlertTable {
    /// The table after an evaluation that gave `found`, which is in the order of tables.
    ///
    /// # Errors
    /// There are more pending and firing alerts than the limit: the caller drops all alerts of the
    /// rule.
    pub fn evaluate(&self, found: Vec<NewAlert>, terms: &Terms) -> Result<Evaluated, RuleError> {
        let mut step = Step {
            terms,
            alerts: Vec::with_capacity(self.len().max(found.len())),
            evaluated: Evaluated {
                table: AlertTable::default(),
                changed: Vec::new(),
                gone: Vec::new(),
                notifications: Vec::new(),
                samples: Vec::new(),
                ended: Vec::new(),
            },
            samples: terms.sample_ms.map(|at_ms| SampleRun { at_ms }),
        };
        let (mut old, mut new) = (self.alerts().iter().peekable(), found.into_iter().peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(old), Some(new)) => old.labels.as_bytes().cmp(new.labels.as_bytes()),
            };
            let old = if order.is_le() { old.next() } else { None };
            match (old, if order.is_ge() { new.next() } else { None }) {
                (Some(old), None) => step.absent(old),
                (old, Some(new)) => step.present(old, new),
                (None, None) => unreachable!("one of both has come"),
            }
        }
        step.end()
    }
}

struct Step<'a> {
    terms: &'a Terms,
    alerts: Vec<Alert>,
    evaluated: Evaluated,
    samples: Option<SampleRun>,
}

impl Step<'_> {
    /// The result has the alert.
    fn present(&mut self, old: Option<&Alert>, new: NewAlert) {
        let time_ns = self.terms.time_ns;
        let mut alert = Alert::pending(new.labels, new.annotations, new.value, time_ns);
        if let Some(old) = old.filter(|old| old.is_active()) {
            alert.state = old.state;
            alert.active_at_ns = old.active_at_ns;
            alert.fired_at_ns = old.fired_at_ns;
            alert.last_sent_ns = old.last_sent_ns;
        }
        let pending_ns = time_ns.saturating_sub(alert.active_at_ns);
        if alert.state == AlertState::Pending && pending_ns >= self.terms.hold_ns {
            alert.state = AlertState::Firing;
            alert.fired_at_ns = time_ns;
        }
        self.keep(old, alert);
    }

    /// The result does not have the alert.
    fn absent(&mut self, old: &Alert) {
        let time_ns = self.terms.time_ns;
        match old.state {
            AlertState::Pending => self.remove(old),
            AlertState::Inactive => {
                if time_ns.saturating_sub(old.resolved_at_ns) > RESOLVED_KEPT_NS {
                    self.remove(old);
                } else {
                    self.keep(Some(old), old.clone());
                }
            }
            AlertState::Firing => {
                let mut alert = old.clone();
                if self.terms.keep_firing_ns > 0 {
                    if alert.keep_firing_since_ns == NEVER_NS {
                        alert.keep_firing_since_ns = time_ns;
                    }
                    let kept_ns = time_ns.saturating_sub(alert.keep_firing_since_ns);
                    if kept_ns < self.terms.keep_firing_ns {
                        return self.keep(Some(old), alert);
                    }
                }
                alert.state = AlertState::Inactive;
                alert.resolved_at_ns = time_ns;
                self.keep(Some(old), alert);
            }
        }
    }

    fn remove(&mut self, old: &Alert) {
        self.evaluated.gone.push(old.labels.clone());
        if self.samples.is_some() && old.is_active() {
            self.evaluated.ended.extend(Series::of(old).map(|series| series.labels(&old.labels)));
        }
    }

    fn keep(&mut self, old: Option<&Alert>, mut alert: Alert) {
        if old.is_none_or(|old| alert.differs_on_disk(old)) {
            self.evaluated.changed.push(self.alerts.len());
        }
        if let Some(run) = &self.samples {
            run.active(&alert, &mut self.evaluated.samples);
            if let Some(old) = old {
                run.ended(old, &alert, &mut self.evaluated.ended);
            }
        }
        if self.is_to_be_sent(&alert) {
            let Terms { time_ns, resend_delay_ns, interval_ns, generator_url, .. } = self.terms;
            let valid_ns = (*resend_delay_ns).max(*interval_ns).max(1).saturating_mul(4);
            alert.last_sent_ns = *time_ns;
            let valid_until_ns = time_ns.saturating_add(valid_ns);
            self.evaluated.notifications.push(alert.notification(valid_until_ns, generator_url));
        }
        self.alerts.push(alert);
    }

    fn is_to_be_sent(&self, alert: &Alert) -> bool {
        if alert.state == AlertState::Pending {
            return false;
        }
        // Also true for one that was never sent.
        if alert.resolved_at_ns > alert.last_sent_ns || alert.last_sent_ns == NEVER_NS {
            return true;
        }
        alert.last_sent_ns.saturating_add(self.terms.resend_delay_ns) < self.terms.time_ns
    }

    fn end(mut self) -> Result<Evaluated, RuleError> {
        let found = self.alerts.iter().filter(|alert| alert.is_active()).count();
        let limit = self.terms.limit;
        if limit > 0 && found as u64 > limit {
            return Err(RuleError::TooManyAlerts { limit, found });
        }
        self.evaluated.table = AlertTable::from_sorted(self.alerts);
        Ok(self.evaluated)
    }
}
