//! The time by which a shard removes expired entries, and the log lines about it.

use super::super::{Effect, Shard, StepContext};
use crate::retention::{ClockChange, STEADY_AFTER};

const SECOND_NS: i64 = 1_000_000_000;

impl Shard {
    /// The time by which entries expire, in ns since the Unix epoch, see [`crate::retention`].
    /// Shard 0 logs the changes of the clock, for all shards, and keeps its looks for the next
    /// start.
    pub(super) fn retention_now_ns(
        &mut self,
        context: StepContext,
        effects: &mut Vec<Effect>,
    ) -> i64 {
        let maintenance = &mut self.maintenance;
        if maintenance.config.retention.periods.is_none() {
            // Nothing expires.
            return context.unix_ns;
        }
        let reading = maintenance.time.clock.read(context.now, context.unix_ns);
        maintenance.time.now_ns = reading.now_ns;
        if maintenance.shard != 0 {
            return reading.now_ns;
        }
        let wait_s = STEADY_AFTER.as_secs();
        match reading.change {
            Some(ClockChange::Jumped { .. }) if reading.now_ns == i64::MIN => tracing::warn!(
                unix_ns = context.unix_ns,
                wait_s,
                "nothing tells whether the clock is right; retention removes nothing by age until \
                 it has gone on for so long"
            ),
            Some(ClockChange::Jumped { by_ns }) => tracing::warn!(
                unix_ns = context.unix_ns,
                by_s = by_ns / SECOND_NS,
                wait_s,
                "the clock has jumped; retention goes on by the time before until it has stayed \
                 for so long"
            ),
            Some(ClockChange::IsBack) => {
                tracing::warn!(unix_ns = context.unix_ns, "the clock is back where it ought to be");
            }
            Some(ClockChange::Counts) => tracing::warn!(
                unix_ns = context.unix_ns,
                "the clock has stayed; retention goes by it from now on"
            ),
            None => {}
        }
        if reading.is_to_be_kept {
            effects.push(Effect::KeepClock { unix_ns: context.unix_ns });
        }
        reading.now_ns
    }
}
