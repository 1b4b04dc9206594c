//! The alerts of an earlier process, at the first evaluation after a start.

use super::table::{Alert, AlertTable};
use crate::messages::AlertState;

/// What is known of the time between two processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outage {
    /// The last evaluation of the earlier process, in ns since the Unix epoch.
    pub last_ns: i64,
    /// The first evaluation of this one.
    pub first_ns: i64,
    /// Time from one evaluation to the next, in ns.
    pub interval_ns: i64,
    /// After a longer outage nothing is restored, in ns.
    pub tolerance_ns: i64,
    /// Shortest time that an alert stays pending after a start, if its `for` is not shorter, in ns.
    pub grace_ns: i64,
}

impl AlertTable {
    /// The alerts to go on with, for a rule with this `for`. Firing and resolved ones are what they
    /// were. Those that are pending have waited as long as before: the outage does not count. Only
    /// what is beyond the pause between two evaluations is outage.
    #[must_use]
    pub fn restored(&self, outage: &Outage, hold_ns: i64) -> AlertTable {
        let Outage { last_ns, first_ns, interval_ns, tolerance_ns, grace_ns } = *outage;
        if first_ns.saturating_sub(last_ns) > tolerance_ns {
            return AlertTable::default();
        }
        if first_ns <= last_ns {
            // The wall clock was set back.
            let by_ns = first_ns.saturating_sub(last_ns).saturating_sub(interval_ns);
            return self.moved(by_ns);
        }
        let down_ns = first_ns.saturating_sub(last_ns).saturating_sub(interval_ns).max(0);
        let restored = |alert: &Alert| {
            let mut alert = alert.clone();
            if alert.state == AlertState::Pending {
                let left_ns = hold_ns.saturating_sub(last_ns.saturating_sub(alert.active_at_ns));
                alert.active_at_ns = if hold_ns >= grace_ns && left_ns > 0 && left_ns < grace_ns {
                    first_ns.saturating_add(grace_ns).saturating_sub(hold_ns)
                } else {
                    alert.active_at_ns.saturating_add(down_ns)
                };
            }
            alert
        };
        AlertTable::from_sorted(self.alerts().iter().map(restored).collect())
    }
}
