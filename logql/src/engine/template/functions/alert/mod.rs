//! The functions of Prometheus for labels and annotations of alerts.

mod address;
mod lines;
mod numbers;
mod places;
mod samples;
mod texts;

pub(super) use numbers::FUNCTIONS as NUMBERS;
pub(super) use places::FUNCTIONS as PLACES;
pub(super) use samples::FUNCTIONS as SAMPLES;
pub(super) use texts::FUNCTIONS as TEXTS;

use crate::engine::template::alert::AlertRun;
use crate::engine::template::execution::Execution;

/// What the functions see of the alert.
///
/// # Errors
/// Templates of queries cannot call these functions; this is never seen.
fn alert<'v>(run: &Execution<'v>) -> Result<&'v AlertRun<'v>, String> {
    run.alert.ok_or_else(|| "there is no alert".to_owned())
}
