//! When a group is evaluated.
//!
//! Evaluations of a group happen at multiples of its interval plus an offset that depends on the
//! group's name, so that groups are spread over the interval and a restart changes no time. Nothing
//! here reads a clock: the caller tells the wall clock and the monotonic clock.
//!
//! Guarantees, whatever the wall clock does:
//! - No time is evaluated twice by one schedule, and none twice across a start for which
//!   [`Schedule::resume`] was called.
//! - Between two looks at a schedule the caller waits at least a nanosecond and at most
//!   [`LONGEST_WAIT`], so a clock that is set forth or back delays evaluations by no more than that
//!   or two intervals.
//! - A clock that is set forth makes no missed evaluations: only long evaluations do.

use std::time::Duration;

use logsvc_runtime::Monotonic;

/// The longest sleep, in case that the wall clock is set meanwhile.
pub const LONGEST_WAIT: Duration = Duration::from_secs(20);
/// How far the grid moves when the wall clock was set back, so that the times that come again are
/// others.
const GRID_SHIFT_NS: i64 = 1_000_000;

/// What is to be done now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Sleep so long, then ask again.
    Wait(Duration),
    /// Evaluate the group now.
    Evaluate {
        /// Evaluation time, in ns since the Unix epoch. Not in the future, unless by a millisecond
        /// after the clock was set back.
        time_ns: i64,
        /// Evaluations that are left out because the one before took too long.
        missed: u64,
    },
}

/// The schedule of a group.
#[derive(Clone, Debug)]
pub struct Schedule {
    interval_ns: i64,
    offset_ns: i64,
    /// The next time, and none before the first look.
    armed_ns: Option<i64>,
    /// The latest time that was evaluated since the grid has moved, or before this process.
    last_ns: Option<i64>,
    /// When the last evaluation was given out.
    given_at: Option<Monotonic>,
    /// How long it took: until the first look behind it.
    took: Option<Duration>,
}

impl Schedule {
    /// The schedule of a group whose name has this hash. A group is evaluated for the first time at
    /// its next time after the first look. Intervals are at least a millisecond.
    pub fn new(interval: Duration, hash: u64) -> Schedule {
        let interval_ns = interval_ns(interval);
        let offset_ns = (hash % interval_ns.unsigned_abs()) as i64;
        Schedule {
            interval_ns,
            offset_ns,
            armed_ns: None,
            last_ns: None,
            given_at: None,
            took: None,
        }
    }

    /// Tells the time of the last evaluation of an earlier process.
    pub fn resume(&mut self, last_ns: i64) {
        self.last_ns = self.last_ns.max(Some(last_ns));
    }

    /// Goes on with another interval, from the last evaluation on.
    pub fn set_interval(&mut self, interval: Duration, hash: u64) {
        let changed = Schedule::new(interval, hash);
        if changed.interval_ns != self.interval_ns {
            *self = Schedule { last_ns: self.last_ns, ..changed };
        }
    }

    /// What is to be done at a moment of both clocks.
    pub fn next(&mut self, unix_ns: i64, now: Monotonic) -> Next {
        let given_at = self.given_at;
        let took =
            *self.took.get_or_insert_with(|| given_at.map_or(Duration::ZERO, |at| now.since(at)));
        if let Some(last_ns) = self.last_ns
            && unix_ns < last_ns.saturating_sub(self.interval_ns)
        {
            // The wall clock was set back by more than can be waited for.
            self.offset_ns += GRID_SHIFT_NS.min(self.interval_ns / 2).max(1);
            self.offset_ns %= self.interval_ns;
            self.last_ns = None;
            self.armed_ns = None;
        }
        let slot_ns = self.slot_at(unix_ns);
        let following_ns = slot_ns.saturating_add(self.interval_ns);
        let armed_ns = match self.armed_ns {
            // A time so far ahead is one of a clock that was set back.
            Some(armed_ns) if armed_ns <= following_ns.saturating_add(self.interval_ns) => armed_ns,
            _ => self.fresh_after(following_ns),
        };
        self.armed_ns = Some(armed_ns);
        if unix_ns < armed_ns {
            let wait_ns = armed_ns.saturating_sub(unix_ns).unsigned_abs();
            return Next::Wait(Duration::from_nanos(wait_ns).min(LONGEST_WAIT));
        }
        let by_wall = slot_ns.saturating_sub(armed_ns) / self.interval_ns;
        let by_length = took.as_nanos() / u128::from(self.interval_ns.unsigned_abs());
        let missed = by_wall.unsigned_abs().min(u64::try_from(by_length).unwrap_or(u64::MAX));
        self.armed_ns = Some(following_ns);
        self.last_ns = Some(slot_ns);
        self.given_at = Some(now);
        self.took = None;
        Next::Evaluate { time_ns: slot_ns, missed }
    }

    /// The newest time of the grid that is not after a moment.
    fn slot_at(&self, unix_ns: i64) -> i64 {
        let since_ns = unix_ns.saturating_sub(self.offset_ns).rem_euclid(self.interval_ns);
        unix_ns.saturating_sub(since_ns)
    }

    /// The first time of the grid from `at_ns` on that was not evaluated.
    fn fresh_after(&self, at_ns: i64) -> i64 {
        match self.last_ns {
            Some(last_ns) if last_ns >= at_ns => {
                self.slot_at(last_ns).saturating_add(self.interval_ns)
            }
            _ => at_ns,
        }
    }
}

fn interval_ns(interval: Duration) -> i64 {
    i64::try_from(interval.as_nanos()).unwrap_or(i64::MAX / 4).clamp(1_000_000, i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use logsvc_testkit::{Rng, SeedGuard, seeds};

    use super::*;

    const SECOND_NS: i64 = 1_000_000_000;
    const NOON_NS: i64 = 1_767_268_800 * SECOND_NS;

    /// Both clocks of a machine.
    struct Clocks {
        unix_ns: i64,
        now: Monotonic,
    }

    impl Clocks {
        fn new() -> Clocks {
            Clocks { unix_ns: NOON_NS, now: Monotonic(5) }
        }

        fn pass(&mut self, duration: Duration) {
            self.unix_ns += duration.as_nanos() as i64;
            self.now = self.now.after(duration);
        }

        /// Sleeps until the next evaluation.
        fn next(&mut self, schedule: &mut Schedule) -> (i64, u64) {
            for _ in 0..100_000 {
                match schedule.next(self.unix_ns, self.now) {
                    Next::Wait(wait) => self.pass(wait),
                    Next::Evaluate { time_ns, missed } => return (time_ns, missed),
                }
            }
            panic!("the schedule waits for ever");
        }
    }

    #[test]
    fn times_are_aligned_and_spread_by_hash() {
        let mut offsets = BTreeSet::new();
        for group in 0..1000_u64 {
            let mut clocks = Clocks::new();
            let hash = logsvc_testkit::mix(group, 1);
            let mut schedule = Schedule::new(Duration::from_secs(60), hash);
            let (first, missed) = clocks.next(&mut schedule);
            assert_eq!(missed, 0);
            assert!(first > NOON_NS && first <= NOON_NS + 60 * SECOND_NS);
            assert_eq!(clocks.next(&mut schedule), (first + 60 * SECOND_NS, 0));
            offsets.insert((first - NOON_NS) / SECOND_NS);
        }
        assert!(offsets.len() > 55, "spread over the minute: {}", offsets.len());
    }

    #[test]
    fn slow_evaluations_make_others_miss() {
        let mut clocks = Clocks::new();
        let mut schedule = Schedule::new(Duration::from_secs(10), 3);
        let (first, _) = clocks.next(&mut schedule);
        clocks.pass(Duration::from_secs(9));
        assert_eq!(clocks.next(&mut schedule), (first + 10 * SECOND_NS, 0));
        clocks.pass(Duration::from_secs(35));
        assert_eq!(clocks.next(&mut schedule), (first + 40 * SECOND_NS, 2));
        assert_eq!(clocks.next(&mut schedule), (first + 50 * SECOND_NS, 0));
    }

    #[test]
    fn a_clock_that_is_set_forth_misses_nothing() {
        let mut clocks = Clocks::new();
        let mut schedule = Schedule::new(Duration::from_secs(10), 3);
        let (first, _) = clocks.next(&mut schedule);
        clocks.unix_ns += 3600 * SECOND_NS;
        let (second, missed) = clocks.next(&mut schedule);
        assert_eq!((second, missed), (first + 3600 * SECOND_NS, 0));
        assert_eq!(clocks.next(&mut schedule), (second + 10 * SECOND_NS, 0));
    }

    #[test]
    fn a_small_step_back_waits_and_a_large_one_moves_the_grid() {
        let mut clocks = Clocks::new();
        let mut schedule = Schedule::new(Duration::from_secs(10), 3);
        let (first, _) = clocks.next(&mut schedule);
        clocks.unix_ns -= SECOND_NS;
        assert_eq!(clocks.next(&mut schedule), (first + 10 * SECOND_NS, 0));
        clocks.unix_ns -= 3600 * SECOND_NS;
        let before = clocks.now;
        let (third, _) = clocks.next(&mut schedule);
        assert!(clocks.now.since(before) <= Duration::from_secs(10) + LONGEST_WAIT);
        assert_eq!(third, first - 3590 * SECOND_NS + GRID_SHIFT_NS);
    }

    #[test]
    fn a_start_repeats_no_time() {
        let mut clocks = Clocks::new();
        let mut schedule = Schedule::new(Duration::from_secs(10), 3);
        let (first, _) = clocks.next(&mut schedule);
        let mut next_start = Schedule::new(Duration::from_secs(10), 3);
        next_start.resume(first);
        // The clock of the next process is a little behind.
        clocks.unix_ns -= 2 * SECOND_NS;
        assert_eq!(clocks.next(&mut next_start), (first + 10 * SECOND_NS, 0));
    }

    #[test]
    fn no_time_comes_twice_and_no_step_stalls_whatever_the_clock_does() {
        for seed in seeds(300) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let interval = Duration::from_millis(rng.between(1000, 120_000));
            let mut clocks = Clocks::new();
            let mut schedule = Schedule::new(interval, rng.next_u64());
            let mut seen = BTreeSet::new();
            for _ in 0..200 {
                let before = clocks.now;
                let (time_ns, missed) = clocks.next(&mut schedule);
                assert!(seen.insert(time_ns), "{time_ns} came twice");
                let waited = clocks.now.since(before);
                assert!(waited <= interval * 3 + LONGEST_WAIT, "waited {waited:?}");
                assert!(time_ns <= clocks.unix_ns, "not in the future");
                assert!(missed < 1000);
                match rng.below(8) {
                    0 => clocks.unix_ns += rng.below(1 << 43) as i64,
                    1 => clocks.unix_ns -= rng.below(1 << 43) as i64,
                    2 => clocks.unix_ns -= rng.below(20 * SECOND_NS as u64) as i64,
                    3 => clocks.pass(interval.mul_f64(rng.below(50) as f64 / 10.0)),
                    _ => clocks.pass(Duration::from_millis(rng.below(900))),
                }
            }
        }
    }
}
