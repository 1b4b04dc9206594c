//! The demand for CPU of everything besides long work: of cores, while pushes come, and of jobs
//! for which a client waits. Long work asks here how much of the CPU to leave.
//!
//! Guarantees: all threads see the notes of one thread after a short time, and no thread waits
//! for another. Correctness does not depend on it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::commits::Commits;
use crate::{CoreId, Monotonic};

/// The shortest time between two looks at the times of cores, on whichever thread.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Time in which a core waits for a CPU counts so many times as much as time in which it runs.
const WAITED_FACTOR: f64 = 8.0;

/// The shared notes of all threads, see the module's header.
pub(crate) struct Pressure {
    commits: Commits,
    /// Jobs that wait or run, by their urgency.
    jobs: [AtomicUsize; Urgency::COUNT],
    cores: Box<[OnceLock<SystemTimes>]>,
    /// The time of the last look at the times of cores, a [`Monotonic`], and the times then.
    looked: AtomicU64,
    ran_nanos: AtomicU64,
    waited_nanos: AtomicU64,
    /// The result of that look for [`Pressure::rests_for_cores`], an `f64`.
    rests_bits: AtomicU64,
}

/// The order in which jobs give way: every job to more urgent ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Urgency {
    /// Takes the CPU time that other jobs leave.
    Long = 0,
    /// Is waited for only where it falls far behind.
    Merging = 1,
    /// A caller waits for the job.
    Soon = 2,
}

impl Urgency {
    const COUNT: usize = 3;

    /// The longest rest after a piece of work, in times of that: it has a part of the time at
    /// least, however much others want.
    pub(crate) fn longest_rests(self) -> u32 {
        match self {
            Urgency::Long => 16,
            Urgency::Merging => 4,
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

impl Pressure {
    /// The pressure of a process with this many cores, none of which has begun.
    pub(crate) fn new(cores: u16) -> Pressure {
        Pressure {
            commits: Commits::default(),
            jobs: Default::default(),
            cores: (0..cores).map(|_| OnceLock::new()).collect(),
            looked: AtomicU64::new(0),
            ran_nanos: AtomicU64::new(0),
            waited_nanos: AtomicU64::new(0),
            rests_bits: AtomicU64::new(0),
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

    /// Counts a job until the returned guard is dropped.
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
        if let Some(place) = self.cores.get(usize::from(core.0))
            && let Ok(times) = SystemTimes::of_this_thread()
        {
            // A core that is added twice has the times of the first.
            let _ = place.set(times);
        }
    }

    /// How long to rest for each unit of work, so that cores have the CPU time that they need.
    pub(crate) fn rests_for_cores(&self, now: Monotonic) -> f64 {
        let looked = self.looked.load(Ordering::Relaxed);
        let is_old = now.since(Monotonic(looked)) >= LOOK_INTERVAL;
        let claim =
            || self.looked.compare_exchange(looked, now.0, Ordering::Relaxed, Ordering::Relaxed);
        // Only one of the threads that find the times old looks anew.
        if is_old && claim().is_ok() {
            let of_core = |core: &OnceLock<SystemTimes>| core.get().map(SystemTimes::read);
            // Without a core whose times can be read, cores are taken to need half of the CPUs.
            let rests = match self.cores.iter().map(of_core).collect::<Option<io::Result<Vec<_>>>>()
            {
                Some(Ok(times)) => {
                    let sum = |of: fn(&Times) -> u64| times.iter().map(of).sum::<u64>();
                    let ran = sum(|times| times.ran_nanos);
                    let waited = sum(|times| times.waited_nanos);
                    let ran = ran.saturating_sub(self.ran_nanos.swap(ran, Ordering::Relaxed));
                    let waited =
                        waited.saturating_sub(self.waited_nanos.swap(waited, Ordering::Relaxed));
                    let wall = now.since(Monotonic(looked)).as_nanos() as f64 * times.len() as f64;
                    rests_of(ran as f64 / wall.max(1.0), waited as f64 / wall.max(1.0))
                }
                Some(Err(_)) | None => rests_of(0.5, 0.0),
            };
            self.rests_bits.store(rests.to_bits(), Ordering::Relaxed);
        }
        f64::from_bits(self.rests_bits.load(Ordering::Relaxed))
    }
}

/// How long to rest for each unit of work while cores run for this part of the time, and wait for a
/// CPU for that part. The rest leaves cores the time that they run, and more where they wait,
/// because rests are to prevent waits.
fn rests_of(ran: f64, waited: f64) -> f64 {
    (ran + waited * WAITED_FACTOR) / (1.0 - ran - waited).max(0.01)
}

/// The system's file with the CPU times of a thread.
struct SystemTimes(File);

struct Times {
    ran_nanos: u64,
    waited_nanos: u64,
}

impl SystemTimes {
    #[expect(clippy::disallowed_methods, reason = "not a file of a disk, once per core")]
    fn of_this_thread() -> io::Result<SystemTimes> {
        File::open("/proc/thread-self/schedstat").map(SystemTimes)
    }

    /// See `Documentation/scheduler/sched-stats.rst` of Linux.
    fn read(&self) -> io::Result<Times> {
        let mut buffer = [0; 96];
        let count = self.0.read_at(&mut buffer, 0)?;
        let text = std::str::from_utf8(&buffer[..count]).unwrap_or_default();
        let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(ran_nanos)), Some(Ok(waited_nanos))) => Ok(Times { ran_nanos, waited_nanos }),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::thread;

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
    fn rests_are_longer_the_more_cores_run_and_wait() {
        assert_eq!(rests_of(0.0, 0.0), 0.0);
        assert_eq!(rests_of(0.5, 0.0), 1.0);
        assert_eq!(rests_of(0.75, 0.0), 3.0);
        assert!(rests_of(0.5, 0.1) > 3.0);
        for (ran, waited) in [(1.0, 0.0), (0.5, 0.5), (2.0, 3.0)] {
            assert!(rests_of(ran, waited) >= 100.0);
        }
    }

    #[test]
    fn cores_are_looked_at_now_and_then() {
        let pressure = Pressure::new(1);
        let at = |ms: u64| Monotonic(ms * 1_000_000 + clock::now().0);
        assert_eq!(pressure.rests_for_cores(at(0)), 1.0, "nothing is known");
        thread::scope(|scope| {
            scope.spawn(|| pressure.add_core(CoreId(0))).join().unwrap();
        });
        assert_eq!(pressure.rests_for_cores(at(0)), 1.0, "it is too soon");
        // The thread is gone, and with it its CPU times.
        assert_eq!(pressure.rests_for_cores(at(1_000_000)), 1.0);
        let pressure = Pressure::new(1);
        pressure.add_core(CoreId(0));
        pressure.rests_for_cores(at(0));
        // This thread did not run for years.
        let rests = pressure.rests_for_cores(at(1_000_000_000_000));
        assert!(rests < 0.001, "{rests}");
        let times = SystemTimes::of_this_thread().unwrap().read().unwrap();
        assert!(times.ran_nanos > 0);
    }

    #[test]
    fn a_core_that_computes_wants_rests() {
        let pressure = Pressure::new(1);
        pressure.add_core(CoreId(0));
        pressure.rests_for_cores(clock::now());
        let end = clock::now().after(LOOK_INTERVAL * 4);
        while clock::now() < end {
            black_box(());
        }
        assert!(pressure.rests_for_cores(clock::now()) > 1.0);
    }
}
