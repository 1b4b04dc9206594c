//! The series that Prometheus writes about alerts.

use logsvc_proto::{Labels, LabelsBuilder};

use super::table::{Alert, AlertTable};
use crate::messages::AlertState;
use crate::sink::RecordedSample;

/// The metric that is 1 for each active alert, with its state as a label.
pub const ALERTS: &str = "ALERTS";
/// The metric whose value is when the alert became active, in seconds since the Unix epoch.
pub const ALERTS_FOR_STATE: &str = "ALERTS_FOR_STATE";

/// A series of an active alert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Series {
    Alerts(AlertState),
    ForState,
}

impl Series {
    /// The series of an active alert.
    pub(super) fn of(alert: &Alert) -> impl Iterator<Item = Series> + use<> {
        [Series::Alerts(alert.state), Series::ForState].into_iter()
    }

    /// The labels of the series of an alert with these labels.
    pub(super) fn labels(self, alert: &Labels) -> Labels {
        let mut builder = LabelsBuilder::from_labels(alert);
        match self {
            Series::Alerts(state) => {
                builder.set("__name__", ALERTS).set("alertstate", state.word());
            }
            Series::ForState => {
                builder.set("__name__", ALERTS_FOR_STATE);
            }
        }
        builder.build_result()
    }
}

/// Makes the samples of an evaluation.
#[derive(Debug)]
pub(super) struct SampleRun {
    /// In ms since the Unix epoch.
    pub(super) at_ms: i64,
}

impl SampleRun {
    /// Adds the samples of an alert, if it is active.
    pub(super) fn active(&self, alert: &Alert, samples: &mut Vec<RecordedSample>) {
        if !alert.is_active() {
            return;
        }
        for series in Series::of(alert) {
            let value = match series {
                Series::Alerts(_) => 1.0,
                // Whole seconds, as in Prometheus.
                Series::ForState => alert.active_at_ns.div_euclid(1_000_000_000) as f64,
            };
            let labels = series.labels(&alert.labels);
            samples.push(RecordedSample { labels, timestamp_ms: self.at_ms, value });
        }
    }

    /// Adds the series that `old` had and `new` has not.
    pub(super) fn ended(&self, old: &Alert, new: &Alert, ended: &mut Vec<Labels>) {
        if !old.is_active() || old.state == new.state {
            return;
        }
        ended.push(Series::Alerts(old.state).labels(&old.labels));
        if !new.is_active() {
            ended.push(Series::ForState.labels(&old.labels));
        }
    }
}

impl AlertTable {
    /// All series of active alerts.
    pub fn series(&self) -> Vec<Labels> {
        let of_alert = |alert| Series::of(alert).map(|series| series.labels(&alert.labels));
        self.active().flat_map(of_alert).collect()
    }
}
