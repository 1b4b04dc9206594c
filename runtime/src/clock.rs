//! The process' clocks, for the backends on a real machine.
//!
//! All cores share one monotonic origin, so a [`Monotonic`] can move between them.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

use crate::Monotonic;

static ORIGIN: OnceLock<Instant> = OnceLock::new();

/// A timer is never set further ahead than this; a longer wait sets it again. monoio's wheel and
/// the `Instant` arithmetic of both backends take it.
pub(crate) const LONGEST_TIMER: Duration = Duration::from_secs(30 * 24 * 3600);

#[expect(clippy::disallowed_methods, reason = "this is what Runtime::now calls")]
fn origin() -> Instant {
    // One second back, so that tests may subtract a little from the first reading.
    *ORIGIN.get_or_init(|| {
        let now = Instant::now();
        now.checked_sub(Duration::from_secs(1)).unwrap_or(now)
    })
}

/// Nanoseconds since the process' origin.
#[expect(clippy::disallowed_methods, reason = "this is what Runtime::now calls")]
pub(crate) fn now() -> Monotonic {
    let elapsed = Instant::now().saturating_duration_since(origin());
    Monotonic(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX - 1))
}

/// Whether `deadline` is over; reads no clock for one that never passes.
pub(crate) fn has_passed(deadline: Monotonic) -> bool {
    deadline != Monotonic::NEVER && now() >= deadline
}

/// Time left until `deadline`, at most [`LONGEST_TIMER`].
pub(crate) fn time_until(deadline: Monotonic) -> Duration {
    deadline.since(now()).min(LONGEST_TIMER)
}

/// The instant at which `deadline` passes, at most [`LONGEST_TIMER`] from now.
pub(crate) fn instant_of(deadline: Monotonic) -> Instant {
    let latest = now().after(LONGEST_TIMER);
    origin() + Duration::from_nanos(deadline.min(latest).0)
}

/// Nanoseconds since the Unix epoch, clamped to the range of `i64` (the year 2262).
#[expect(clippy::disallowed_methods, reason = "this is what Runtime::unix_nanos calls")]
pub(crate) fn unix_nanos() -> i64 {
    match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_and_nanoseconds_agree() {
        let at = now().after(Duration::from_millis(250));
        let again = instant_of(at).saturating_duration_since(origin());
        assert_eq!(again.as_nanos(), u128::from(at.0));
    }

    #[test]
    fn far_deadlines_are_clamped() {
        assert_eq!(time_until(Monotonic::NEVER), LONGEST_TIMER);
        assert!(instant_of(Monotonic::NEVER) <= instant_of(now().after(LONGEST_TIMER)));
        assert_eq!(time_until(Monotonic(0)), Duration::ZERO);
    }
}
