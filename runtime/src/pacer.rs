//! Lets long work rest, so that more urgent threads of this process get the CPU.
//!
//! The system shares the CPU among all threads of the machine. A thread with a much lower
//! priority than its own process would also lose against all other processes. So long work has
//! nearly the usual priority, and gives way by itself: after each *piece* of some milliseconds a
//! thread checks whether more urgent jobs wait, and how much of the CPU cores need while pushes
//! come ([`crate::pressure`]), and rests.
//!
//! Guarantees: without more urgent work there is no rest. Long work always goes on, because rests
//! are at most as long as [`Urgency::longest_rests`] says. While commits come, at least [`REST`]
//! follows each piece: the kernel's threads for the end of durable writes and for packets run then,
//! which a computing thread can keep from running. Worth (2026-11-25, two CPUs, pushes at 250 MB/s
//! beside a heavy query): a p99 of 7 to 10 ms; without rests 46 and 81 ms. Further figures are in
//! docs/design/runtime.md, *Side threads*. What can go wrong: a job that never calls [`give_way`]
//! is one piece, however long it takes.

use std::cell::RefCell;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::pressure::{Pressure, Urgency};
use crate::{Monotonic, clock, sim};

/// Work that is too short to rest after.
const PIECE_MIN: Duration = Duration::from_millis(1);

/// Within a job, work goes on for so long before it rests.
const PIECE: Duration = Duration::from_millis(2);

/// The shortest rest, and the time between two looks whether it may end.
const REST: Duration = Duration::from_micros(300);

thread_local! {
    /// The pacer of the thread, if the thread is one for long work.
    static PACER: RefCell<Option<Pacer>> = const { RefCell::new(None) };
}

/// Rests if the thread is one for long work, has computed for some milliseconds, and other threads
/// of the process want the CPU. Long computations call it between their parts, each tenth of a
/// millisecond or so. The caller may hold nothing that other threads wait for. On the simulation a
/// call costs the time that the test has set.
pub fn give_way() {
    sim::charge();
    PACER.with_borrow_mut(|pacer| {
        if let Some(pacer) = pacer {
            pacer.piece(PIECE);
        }
    });
}

/// Has the calling thread give way from now on.
pub(crate) fn start(pressure: Arc<Pressure>, urgency: Urgency) {
    PACER.set(Some(Pacer::new(pressure, urgency)));
}

/// Notes that the calling thread begins a job.
pub(crate) fn begin_job() {
    PACER.with_borrow_mut(|pacer| {
        if let Some(pacer) = pacer {
            pacer.begin();
        }
    });
}

/// Notes that the calling thread has done a job, and rests if it has to.
pub(crate) fn end_job() {
    PACER.with_borrow_mut(|pacer| {
        if let Some(pacer) = pacer {
            pacer.piece(PIECE_MIN);
            pacer.ended = clock::now();
        }
    });
}

struct Pacer {
    pressure: Arc<Pressure>,
    urgency: Urgency,
    /// Work since the last rest, up to `begun`.
    worked: Duration,
    begun: Monotonic,
    ended: Monotonic,
}

impl Pacer {
    fn new(pressure: Arc<Pressure>, urgency: Urgency) -> Pacer {
        let now = clock::now();
        Pacer { pressure, urgency, worked: Duration::ZERO, begun: now, ended: now }
    }

    fn begin(&mut self) {
        self.begun = clock::now();
        if self.begun.since(self.ended) >= REST {
            // To wait for a job is as good as a rest.
            self.worked = Duration::ZERO;
        }
    }

    /// Counts a piece of work, and rests if the work since the last rest is at least `at_least`.
    fn piece(&mut self, at_least: Duration) {
        let now = clock::now();
        let worked = self.worked + now.since(self.begun);
        if worked < at_least {
            (self.worked, self.begun) = (worked, now);
            return;
        }
        self.rest(now, worked);
        self.worked = Duration::ZERO;
        self.begun = clock::now();
    }

    fn rest(&mut self, now: Monotonic, worked: Duration) {
        let mut wanted = Duration::ZERO;
        if self.pressure.has_commits(now) {
            let rests = self.pressure.rests_for_cores(now);
            wanted = worked.mul_f64(rests).clamp(REST, longest_rest(worked, self.urgency));
        }
        let longest = longest_rest(worked, self.urgency);
        let mut rested = Duration::ZERO;
        while rested < wanted || rested < longest && self.pressure.has_jobs_above(self.urgency) {
            sleep(if rested < wanted { wanted - rested } else { REST });
            rested = clock::now().since(now);
        }
    }
}

fn longest_rest(worked: Duration, urgency: Urgency) -> Duration {
    REST.max(worked * urgency.longest_rests())
}

#[expect(clippy::disallowed_methods, reason = "no core runs on a side thread")]
fn sleep(time: Duration) {
    thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressure() -> Arc<Pressure> {
        Arc::new(Pressure::new(1))
    }

    #[test]
    fn who_has_nobody_to_give_way_to_does_not_rest() {
        let pressure = pressure();
        let now = clock::now();
        let mut pacer = Pacer::new(Arc::clone(&pressure), Urgency::Long);
        let _less = pressure.count(Urgency::Long);
        // It would rest for sixteen hours.
        pacer.rest(now, Duration::from_secs(3600));
    }

    #[test]
    fn long_work_rests_after_a_piece_while_others_want_the_cpu_and_then_goes_on() {
        let pressure = pressure();
        let _job = pressure.count(Urgency::Soon);
        for (urgency, times) in [(Urgency::Long, 16), (Urgency::Merging, 4)] {
            let mut pacer = Pacer::new(Arc::clone(&pressure), urgency);
            let begun = clock::now();
            pacer.worked = PIECE;
            pacer.piece(PIECE);
            let rested = clock::now().since(begun);
            assert!(rested >= PIECE * times, "{urgency:?}: {rested:?}");
            assert_eq!(pacer.worked, Duration::ZERO);
        }
    }

    #[test]
    fn short_jobs_count_together() {
        let mut pacer = Pacer::new(pressure(), Urgency::Long);
        pacer.begun = clock::now();
        pacer.piece(Duration::from_secs(3600));
        let first = pacer.worked;
        pacer.ended = clock::now().after(Duration::from_secs(1));
        pacer.begin();
        pacer.piece(Duration::from_secs(3600));
        assert!(pacer.worked > first);
        pacer.ended = Monotonic(0);
        pacer.begin();
        assert_eq!(pacer.worked, Duration::ZERO, "it waited for this one");
    }

    #[test]
    fn rests_end_with_what_is_urgent() {
        let pressure = pressure();
        let job = pressure.count(Urgency::Soon);
        let mut pacer = Pacer::new(Arc::clone(&pressure), Urgency::Merging);
        thread::scope(|scope| {
            scope.spawn(|| {
                sleep(Duration::from_millis(5));
                drop(job);
            });
            // It would rest for a day.
            pacer.rest(clock::now(), Duration::from_secs(86_400));
        });
    }

    #[test]
    fn while_commits_come_each_piece_is_followed_by_a_rest() {
        let pressure = pressure();
        let mut pacer = Pacer::new(Arc::clone(&pressure), Urgency::Long);
        let now = clock::now();
        pressure.note_commit(now);
        pacer.rest(now, PIECE);
        assert!(clock::now().since(now) >= REST);
    }

    #[test]
    fn work_goes_on_however_much_others_want() {
        let ms = Duration::from_millis;
        assert_eq!(longest_rest(ms(2), Urgency::Long), ms(32));
        assert_eq!(longest_rest(ms(2), Urgency::Merging), ms(8));
        assert_eq!(longest_rest(Duration::ZERO, Urgency::Long), REST);
    }

    #[test]
    fn elsewhere_giving_way_is_nothing() {
        give_way();
        begin_job();
        end_job();
        PACER.with_borrow(|pacer| assert!(pacer.is_none()));
    }
}
