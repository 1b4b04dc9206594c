//! The time by which retention removes entries: the wall clock, unless the clock has jumped.
//!
//! A wall clock may be wrong for seconds or for days, and entries that retention has removed do
//! not come back. So retention compares the wall clock with the monotonic clock since the last
//! reading. As long as the two agree, the wall clock counts. After a jump retention goes on by
//! the monotonic clock, or by the wall clock if that is earlier, until the wall clock has gone
//! on from its new time for [`STEADY_AFTER`].
//!
//! A start compares the wall clock with the readings that earlier starts have left in the file
//! `CLOCK` of the data folder. A wall clock that is at most [`TRUSTED_AWAY`] later counts at once.
//! Any other wall clock is taken for one that has jumped.
//!
//! Guarantees: a clock that is ahead for less than [`STEADY_AFTER`] removes nothing that the
//! right time would not remove. A clock that is wrong for longer counts.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use logsvc_runtime::{Monotonic, Runtime};

/// How long a clock that has jumped has to go on from there until it counts.
pub const STEADY_AFTER: Duration = Duration::from_secs(3600);

/// How much later than the last look that was kept the wall clock may be at a start: a node that
/// was away for longer waits for [`STEADY_AFTER`].
pub(crate) const TRUSTED_AWAY: Duration = Duration::from_secs(3600);

/// By how much the two clocks may differ from one reading to the next. Clocks drift, and are set
/// right by a little.
const TOLERANCE_NS: u64 = 10_000_000_000;

/// The clocks are compared with their readings of at least so long ago, so that many small steps
/// are a jump, too.
const ANCHOR_AGE: Duration = Duration::from_secs(600);

/// How often a look is kept for the next start.
const KEPT_EVERY: Duration = Duration::from_secs(600);

/// Both clocks at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    now: Monotonic,
    unix_ns: i64,
}

impl Reading {
    /// The expected reading of the wall clock at a later moment.
    fn at(self, now: Monotonic) -> i64 {
        let elapsed_ns = u64::try_from(now.since(self.now).as_nanos()).unwrap_or(u64::MAX);
        self.unix_ns.saturating_add_unsigned(elapsed_ns)
    }

    /// Whether the wall clock has gone on from here as the monotonic one has.
    fn agrees_with(self, later: Reading) -> bool {
        self.at(later.now).abs_diff(later.unix_ns) <= TOLERANCE_NS
    }
}

/// The knowledge of a start about the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartClock {
    /// When the start looked.
    now: Monotonic,
    /// The wall clock then.
    unix_ns: i64,
    /// The wall clock of the last look that was kept; `None` if there is none.
    last_ns: Option<i64>,
    /// Whether nothing was stored, so that no clock can do harm.
    is_new: bool,
}

impl StartClock {
    /// Reads the looks that earlier starts have kept, and keeps this look if the clock counts.
    pub(crate) async fn read<R: Runtime>(runtime: &R, data_dir: &Path, is_new: bool) -> StartClock {
        let path = clock_path(data_dir);
        let last_ns = match runtime.read_file(&path, 4096).await {
            Ok(text) => decode(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(%error, file = %path.display(), "cannot read the last time");
                None
            }
        };
        let (now, unix_ns) = (runtime.now(), runtime.unix_nanos());
        let clock = StartClock { now, unix_ns, last_ns, is_new };
        if clock.counts() {
            keep(runtime, &path, unix_ns).await;
        }
        clock
    }

    /// Whether the wall clock counts at once.
    fn counts(&self) -> bool {
        let Some(last_ns) = self.last_ns else { return self.is_new };
        let earliest_ns = last_ns.saturating_sub_unsigned(TOLERANCE_NS);
        let away_ns = TRUSTED_AWAY.as_nanos() as u64;
        (earliest_ns..=last_ns.saturating_add_unsigned(away_ns)).contains(&self.unix_ns)
    }

    /// The last time that is known for certain; `None` if none is.
    fn certain(&self) -> Option<Reading> {
        if self.counts() {
            return Some(Reading { now: self.now, unix_ns: self.unix_ns });
        }
        self.last_ns.map(|unix_ns| Reading { now: self.now, unix_ns })
    }
}

/// Where looks are kept.
pub(crate) fn clock_path(data_dir: &Path) -> PathBuf {
    data_dir.join("CLOCK")
}

fn decode(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    text.strip_prefix("logsvc clock 1\n")?.strip_suffix('\n')?.parse().ok()
}

/// Leaves a reading for the next start. A failure costs the next start a delay.
pub(crate) async fn keep<R: Runtime>(runtime: &R, path: &Path, unix_ns: i64) {
    let text = format!("logsvc clock 1\n{unix_ns}\n");
    if let Err(error) = runtime.replace_file(path, text.into_bytes()).await {
        tracing::warn!(%error, file = %path.display(), "cannot keep the time for the next start");
    }
}

/// A change of the wall clock against the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockChange {
    /// The wall clock has jumped by so many ns.
    Jumped { by_ns: i64 },
    /// The clock is back where it ought to be.
    IsBack,
    /// The clock has stayed for long enough.
    Counts,
}

/// The result of reading the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockReading {
    /// The time by which entries may be removed, in ns since the Unix epoch.
    pub(crate) now_ns: i64,
    /// A change that is worth a log line.
    pub(crate) change: Option<ClockChange>,
    /// Whether the look is to be kept for the next start.
    pub(crate) is_to_be_kept: bool,
}

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RetentionClock {
    /// The last look at which the clocks agreed; `None` if nothing is known of the time.
    certain: Option<Reading>,
    /// Where the wall clock was first seen after a jump.
    jumped: Option<Reading>,
    kept: Option<Monotonic>,
}

impl RetentionClock {
    /// The clock of a start.
    pub(crate) fn new(start: &StartClock) -> RetentionClock {
        let kept = start.counts().then_some(start.now);
        RetentionClock { certain: start.certain(), jumped: None, kept }
    }

    /// Looks at both clocks.
    pub(crate) fn read(&mut self, now: Monotonic, unix_ns: i64) -> ClockReading {
        let reading = Reading { now, unix_ns };
        let change = match (self.certain, self.jumped) {
            (Some(certain), jumped) if certain.agrees_with(reading) => {
                if now.since(certain.now) >= ANCHOR_AGE || jumped.is_some() {
                    self.certain = Some(reading);
                }
                self.jumped = None;
                jumped.map(|_| ClockChange::IsBack)
            }
            (_, Some(jumped)) if jumped.agrees_with(reading) => {
                let is_steady = now.since(jumped.now) >= STEADY_AFTER;
                if is_steady {
                    (self.certain, self.jumped) = (Some(reading), None);
                }
                is_steady.then_some(ClockChange::Counts)
            }
            (certain, _) => {
                self.jumped = Some(reading);
                let by_ns =
                    certain.map_or(unix_ns, |certain| unix_ns.saturating_sub(certain.at(now)));
                Some(ClockChange::Jumped { by_ns })
            }
        };
        let now_ns = match (self.certain, self.jumped) {
            (_, None) => unix_ns,
            (Some(certain), Some(_)) => unix_ns.min(certain.at(now)),
            (None, Some(_)) => i64::MIN,
        };
        let is_due = self.kept.is_none_or(|kept| now.since(kept) >= KEPT_EVERY);
        let is_to_be_kept = self.jumped.is_none() && is_due;
        if is_to_be_kept {
            self.kept = Some(now);
        }
        ClockReading { now_ns, change, is_to_be_kept }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: i64 = 1_000_000_000;
    const HOUR_NS: i64 = 3600 * SECOND_NS;
    const DAY_NS: i64 = 24 * HOUR_NS;
    const NOON_NS: i64 = 1_767_268_800 * SECOND_NS;

    /// Clocks that are looked at.
    struct Clocks {
        now: Monotonic,
        unix_ns: i64,
        clock: RetentionClock,
    }

    impl Clocks {
        fn start(last_ns: Option<i64>, is_new: bool) -> Clocks {
            let (now, unix_ns) = (Monotonic(5), NOON_NS);
            let start = StartClock { now, unix_ns, last_ns, is_new };
            Clocks { now, unix_ns, clock: RetentionClock::new(&start) }
        }

        /// Lets time pass, and sets the wall clock by so much besides.
        fn after(&mut self, seconds: u64, by_ns: i64) -> ClockReading {
            self.now = self.now.after(Duration::from_secs(seconds));
            self.unix_ns += seconds as i64 * SECOND_NS + by_ns;
            self.clock.read(self.now, self.unix_ns)
        }
    }

    #[test]
    fn a_clock_that_goes_on_counts() {
        let mut clocks = Clocks::start(None, true);
        for seconds in [0, 1, 60, 600, 86_400, 30 * 86_400] {
            // The clock drifts, and is set right by a little.
            let reading = clocks.after(seconds, SECOND_NS);
            assert_eq!((reading.now_ns, reading.change), (clocks.unix_ns, None));
            assert_eq!(reading.is_to_be_kept, seconds >= 600);
        }
    }

    #[test]
    fn a_jump_that_goes_back_counts_for_nothing() {
        for by_ns in [400 * DAY_NS, HOUR_NS, 11 * SECOND_NS] {
            let mut clocks = Clocks::start(None, true);
            clocks.after(60, 0);
            let right_ns = clocks.unix_ns;
            let reading = clocks.after(0, by_ns);
            assert_eq!(reading.change, Some(ClockChange::Jumped { by_ns }));
            assert_eq!(reading.now_ns, right_ns);
            // As long as it is wrong, time goes on from where it was.
            let reading = clocks.after(3599, 0);
            assert_eq!((reading.now_ns, reading.change), (right_ns + 3599 * SECOND_NS, None));
            assert!(!reading.is_to_be_kept);
            let reading = clocks.after(0, -by_ns);
            assert_eq!(reading.change, Some(ClockChange::IsBack));
            assert_eq!(reading.now_ns, clocks.unix_ns);
        }
    }

    #[test]
    fn a_clock_that_stays_counts_in_the_end() {
        for by_ns in [400 * DAY_NS, -3 * DAY_NS] {
            let mut clocks = Clocks::start(None, true);
            let right_ns = clocks.unix_ns;
            let reading = clocks.after(60, by_ns);
            assert_eq!(reading.now_ns, clocks.unix_ns.min(right_ns + 60 * SECOND_NS));
            assert_eq!(clocks.after(1800, 0).change, None);
            let reading = clocks.after(1800, 0);
            assert_eq!(
                (reading.now_ns, reading.change),
                (clocks.unix_ns, Some(ClockChange::Counts))
            );
            let reading = clocks.after(60, 0);
            assert_eq!((reading.now_ns, reading.change), (clocks.unix_ns, None));
        }
    }

    #[test]
    fn every_jump_begins_the_delay_anew() {
        let mut clocks = Clocks::start(None, true);
        for _ in 0..5 {
            let reading = clocks.after(1800, DAY_NS);
            assert!(matches!(reading.change, Some(ClockChange::Jumped { .. })));
            assert!(reading.now_ns < clocks.unix_ns);
        }
        assert_eq!(clocks.after(3600, 0).change, Some(ClockChange::Counts));
    }

    #[test]
    fn many_small_steps_are_a_jump() {
        let mut clocks = Clocks::start(None, true);
        let changes: Vec<_> = (0..20).filter_map(|_| clocks.after(1, SECOND_NS).change).collect();
        assert!(matches!(changes[0], ClockChange::Jumped { .. }), "{changes:?}");
    }

    #[test]
    fn a_start_goes_on_from_what_is_known() {
        let minute_ns = 60 * SECOND_NS;
        for last_ns in [NOON_NS, NOON_NS - HOUR_NS, NOON_NS - minute_ns] {
            let reading = Clocks::start(Some(last_ns), false).after(1, 0);
            assert_eq!((reading.now_ns, reading.change), (NOON_NS + SECOND_NS, None));
        }
        // The node was away for long, or the clock is ahead.
        let mut clocks = Clocks::start(Some(NOON_NS - 400 * DAY_NS), false);
        let reading = clocks.after(1, 0);
        assert_eq!(reading.now_ns, NOON_NS - 400 * DAY_NS + SECOND_NS);
        assert_eq!(reading.change, Some(ClockChange::Jumped { by_ns: 400 * DAY_NS }));
        assert_eq!(clocks.after(3600, 0).change, Some(ClockChange::Counts));
        // The clock is behind.
        let reading = Clocks::start(Some(NOON_NS + DAY_NS), false).after(1, 0);
        assert_eq!(reading.now_ns, NOON_NS + SECOND_NS);
        // Nothing is known.
        let mut clocks = Clocks::start(None, false);
        assert_eq!(clocks.after(1, 0).now_ns, i64::MIN);
        assert_eq!(clocks.after(3600, 0).now_ns, clocks.unix_ns);
    }

    #[test]
    fn what_is_kept_reads_back_and_else_is_nothing() {
        assert_eq!(decode(b"logsvc clock 1\n-5\n"), Some(-5));
        for bad in ["", "logsvc clock 1\n5", "logsvc clock 2\n5\n", "logsvc clock 1\n5x\n"] {
            assert_eq!(decode(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(decode(b"logsvc clock 1\n\xff\n"), None);
    }
}
