//! What of this process wants the CPU besides long work: cores, while pushes come, and jobs that
//! somebody waits for. Long work asks here how much of the CPU to leave.
//!
//! Guarantees: what one thread notes is seen by all others before long; nobody
//! waits for anybody. Nothing that is right depends on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use crate::commits::Commits;
use crate::{CoreId, Monotonic};

/// See the module.
pub(crate) struct Pressure {
    commits: Commits,
    /// Jobs that wait or run, by their urgency.
    jobs: [AtomicUsize; Urgency::COUNT],
    /// The CPU clocks of the cores' threads; 0, the clock on the wall, where there is none yet.
    cores: Box<[AtomicI32]>,
}

/// Who gives way to whom: every job to those that are more urgent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Urgency {
    /// Takes what others leave.
    Long = 0,
    /// Is waited for only where it falls far behind.
    Merging = 1,
    /// Somebody waits for it.
    Soon = 2,
}

impl Urgency {
    const COUNT: usize = 3;

    /// The longest rest after a piece of work, in times of that: it has a part of the time at
    /// least, however much others want.
    pub(crate) fn longest_rests(self) -> u32 {
        match self {
            Urgency::Long => 16,
            Urgency::Merging => 1,
            Urgency::Soon => 0,
        }
    }
}

/// A job that waits or runs.
pub(crate) struct Counted {
    pressure: Arc<Pressure>,
    urgency: Urgency,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.pressure.jobs[self.urgency as usize].fetch_sub(1, Ordering::Relaxed);
    }
}

/// What cores have computed up to some time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoreTimes {
    at: Monotonic,
    computed_nanos: u64,
    cores: usize,
}

impl CoreTimes {
    /// Which part of the time since `earlier` the cores have computed, 0 to 1.
    pub(crate) fn busy_since(&self, earlier: &CoreTimes) -> f64 {
        let wall_nanos = self.at.since(earlier.at).as_nanos() as f64 * self.cores as f64;
        let computed_nanos = self.computed_nanos.saturating_sub(earlier.computed_nanos) as f64;
        if wall_nanos > 0.0 { (computed_nanos / wall_nanos).min(1.0) } else { 0.0 }
    }
}

impl Pressure {
    /// Of a process with so many cores, none of which has begun.
    pub(crate) fn new(cores: u16) -> Pressure {
        Pressure {
            commits: Commits::default(),
            jobs: Default::default(),
            cores: (0..cores).map(|_| AtomicI32::new(0)).collect(),
        }
    }

    /// Notes that a durable write begins.
    pub(crate) fn note_commit(&self, now: Monotonic) {
        self.commits.note(now);
    }

    /// Whether a durable write began a short time ago.
    pub(crate) fn has_commits(&self, now: Monotonic) -> bool {
        self.commits.are_recent(now)
    }

    /// Counts a job until what this gives is dropped.
    pub(crate) fn count(self: &Arc<Self>, urgency: Urgency) -> Counted {
        self.jobs[urgency as usize].fetch_add(1, Ordering::Relaxed);
        Counted { pressure: Arc::clone(self), urgency }
    }

    /// Whether a job waits or runs that is more urgent.
    pub(crate) fn has_jobs_above(&self, urgency: Urgency) -> bool {
        self.jobs[urgency as usize + 1..].iter().any(|jobs| jobs.load(Ordering::Relaxed) > 0)
    }

    /// Has the calling thread count as this core.
    pub(crate) fn add_core(&self, core: CoreId) {
        let mut clock = 0;
        // SAFETY: the clock's number is writable, and the calling thread exists.
        let error = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) };
        if let Some(place) = self.cores.get(usize::from(core.0))
            && error == 0
        {
            place.store(clock, Ordering::Relaxed);
        }
    }

    /// What all cores have computed by now. One whose thread has ended counts no more.
    pub(crate) fn core_times(&self, now: Monotonic) -> CoreTimes {
        let clocks = self.cores.iter().map(|clock| clock.load(Ordering::Relaxed));
        let computed_nanos = clocks.filter(|clock| *clock != 0).map(cpu_nanos).sum();
        CoreTimes { at: now, computed_nanos, cores: self.cores.len() }
    }
}

/// What a clock of a thread shows; 0 where the thread is gone.
fn cpu_nanos(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is writable; a clock that is gone is an error.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return 0;
    }
    let (seconds, nanos) = (time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned());
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::clock;

    #[test]
    fn jobs_press_on_those_that_are_less_urgent() {
        let pressure = Arc::new(Pressure::new(0));
        let presses = || {
            [Urgency::Long, Urgency::Merging, Urgency::Soon].map(|of| pressure.has_jobs_above(of))
        };
        assert_eq!(presses(), [false; 3]);
        let long = pressure.count(Urgency::Long);
        assert_eq!(presses(), [false; 3]);
        let merging = pressure.count(Urgency::Merging);
        assert_eq!(presses(), [true, false, false]);
        let soon = [pressure.count(Urgency::Soon), pressure.count(Urgency::Soon)];
        drop(merging);
        assert_eq!(presses(), [true, true, false]);
        drop((soon, long));
        assert_eq!(presses(), [false; 3]);
    }

    #[test]
    fn cores_are_as_busy_as_their_threads() {
        let pressure = Pressure::new(1);
        let earlier = pressure.core_times(clock::now());
        assert_eq!(pressure.core_times(clock::now()).busy_since(&earlier), 0.0, "no core");
        let (before, after) = thread::scope(|scope| {
            let core = scope.spawn(|| {
                pressure.add_core(CoreId(0));
                let before = pressure.core_times(clock::now());
                let end = before.at.after(Duration::from_millis(20));
                while clock::now() < end {
                    black_box(());
                }
                (before, pressure.core_times(clock::now()))
            });
            core.join().unwrap()
        });
        let busy = after.busy_since(&before);
        assert!(busy > 0.0 && busy <= 1.0, "{busy}");
        // Its thread is gone, or about to be: that is no error.
        assert!(pressure.core_times(clock::now()).busy_since(&after) <= 1.0);
    }

    #[test]
    fn a_part_of_no_time_is_nothing() {
        let times = CoreTimes { at: clock::now(), computed_nanos: 7, cores: 1 };
        assert_eq!(times.busy_since(&times), 0.0);
    }
}
