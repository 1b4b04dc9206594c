//! The alerts of a rule: from the vector of an evaluation to alerts that are pending, fire and end.
//!
//! Nothing here does I/O or reads a clock. A table of alerts is never changed in place: an
//! evaluation gives the next table, so that a large one is worked on by a side thread while others
//! read the last one. The semantics are Prometheus':
//!
//! - An alert's identity is its labels: those of the result, without `__name__`, with the rule's
//!   over them, and `alertname`.
//! - It is pending from the first evaluation that has it, fires once it was there for as long as
//!   the rule's `for` says, and is kept as resolved for 15 minutes when it was firing and the
//!   result does not have it.
//! - An evaluation that fails gives no table. Nothing changes, except that a result beyond the
//!   group's limit costs all alerts of the rule.
//!
//! Times are evaluation times, in ns since the Unix epoch. The caller gives each table a later
//! time than the one before; when the wall clock was set back, it moves the alerts first
//! ([`AlertTable::moved`]).

mod evaluate;
mod link;
mod prepare;
mod restore;
mod samples;
mod table;
#[cfg(test)]
mod tests;

pub use evaluate::{Evaluated, Terms};
pub use link::generator_url;
pub use prepare::{Answers, Needs, NewAlert, Prepared, RuleTexts, Text, prepare};
pub use restore::Outage;
pub use samples::{ALERTS, ALERTS_FOR_STATE};
pub use table::{Alert, AlertTable, NEVER_NS};
