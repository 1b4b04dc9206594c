//! Side threads: where blocking calls and long computations go, so that a core
//! never stalls.
//!
//! A few queues serve the whole process, each with its own threads. `files` takes
//! the file operations that a backend's driver cannot do itself; they are short,
//! and commits wait for them. What takes as long as the device does, such as writing back,
//! has threads of its own, and so has the closing of files ([`crate::closing`]). The others
//! take what [`crate::Runtime::offload_to`] is given, which may be long (compression, the work
//! of queries). So a commit never waits behind a computation, nor sealing behind a query. Within
//! a queue any free thread takes the next job, whichever core sent it: a core waits only while
//! all threads are busy.
//!
//! Threads that compute are *nicer* than cores, so that the system takes the CPU from them
//! whenever a core has something to do. Those of short queries are like those of upkeep:
//! what pushes wait for in the end has time enough, and such a query must not wait for a
//! pause of the pushes. Merges are nicer still: pushes wait for them where they fall far behind,
//! but never short queries. What takes long whatever happens gets the CPU time that is left.
//! Beside such a query upkeep would come too late for pushes, if it had an equal part.
//!
//! Being idle is not enough, though. Where the system schedules the threads of a session as one
//! (`sched_autogroup_enabled`), threads of the kernel, which are not among them, waited for 110 ms,
//! where it was traced, for a CPU on which an idle thread computed: the one that tells of the end
//! of a durable write, and the one that moves packets. So idle threads rest after each job while
//! commits come one after the other, and then the CPU is free for whoever waits (docs/performance.md,
//! *Commits beside a heavy query*).
//!
//! A panicking job stops the process, like a panic on a core. A job whose caller
//! has gone runs to its end and its result is dropped. The threads are not
//! pinned; they end when the last runtime value is gone.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures_channel::oneshot;

use crate::commits::Commits;
use crate::launch::stop_process_on_panic;
use crate::priority::{be_idle, be_nicer};
use crate::{SideQueue, clock, closing, file_ops};

/// Jobs waiting in one queue before a caller has to wait to hand one in.
const QUEUE_JOBS: usize = 1024;

/// How much nicer than cores threads are that compute what is waited for: next to a core that
/// is always busy one still gets two fifths of its CPU.
const SOON_NICENESS: i32 = 2;

/// How much nicer those are that merge: next to a short query such a thread gets three tenths of
/// a CPU.
const MERGING_NICENESS: i32 = 6;

/// How much nicer those of long queries are where the system does not let them be idle: a
/// tenth of a CPU next to a core that is always busy.
const LONG_NICENESS: i32 = 10;

/// How long an idle thread rests after a job, which takes some milliseconds, while commits come.
const REST: Duration = Duration::from_micros(300);

/// When the threads of a queue get the CPU.
#[derive(Clone, Copy, PartialEq)]
enum Turn {
    /// So much nicer than cores.
    Nicer(i32),
    /// When nobody else wants it; where the system refuses that, nicer than all others.
    Idle,
}

impl Turn {
    /// Gives the calling thread this turn.
    fn take(self) {
        match self {
            Turn::Nicer(niceness) => be_nicer(niceness),
            Turn::Idle => {
                be_nicer(LONG_NICENESS);
                be_idle();
            }
        }
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// The sending side of all queues.
#[derive(Clone)]
pub(crate) struct SideThreads {
    files: flume::Sender<Job>,
    device: flume::Sender<Job>,
    closing: flume::Sender<Job>,
    upkeep: flume::Sender<Job>,
    merging: flume::Sender<Job>,
    queries: flume::Sender<Job>,
    heavy_queries: flume::Sender<Job>,
    long_queries: flume::Sender<Job>,
    commits: Arc<Commits>,
}

impl SideThreads {
    /// Starts so many threads for each of the queues, at least one.
    pub(crate) fn start(threads: u16) -> io::Result<SideThreads> {
        let commits = Arc::<Commits>::default();
        let start = |name, threads, turn| start_queue(name, threads, turn, &commits);
        Ok(SideThreads {
            files: start("side-file", threads, Turn::Nicer(0))?,
            device: start("side-flush", threads, Turn::Nicer(0))?,
            closing: start("side-close", 1, Turn::Nicer(0))?,
            upkeep: start("side-work", threads, Turn::Nicer(SOON_NICENESS))?,
            merging: start("side-merge", threads, Turn::Nicer(MERGING_NICENESS))?,
            queries: start("side-query", threads, Turn::Nicer(SOON_NICENESS))?,
            heavy_queries: start("side-heavy", threads, Turn::Idle)?,
            long_queries: start("side-long", threads, Turn::Idle)?,
            commits,
        })
    }

    /// Has idle threads know that a durable write begins, for which somebody waits.
    pub(crate) fn note_commit(&self) {
        self.commits.note(clock::now());
    }

    /// Runs a file operation.
    pub(crate) async fn file<T, F>(&self, operation: F) -> T
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        run(&self.files, operation).await
    }

    /// Runs a file operation that waits for the device and that no commit waits for.
    pub(crate) async fn device<T, F>(&self, operation: F) -> T
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        run(&self.device, operation).await
    }

    /// Removes a file. Its blocks are freed aside.
    pub(crate) async fn remove_file(&self, path: PathBuf) -> io::Result<()> {
        let removed = self.file(move || file_ops::remove_file(&path)).await?;
        if let Some(file) = removed {
            self.close(file);
        }
        Ok(())
    }

    /// Closes the file of a descriptor that is about to be closed, and that nothing uses any
    /// more.
    pub(crate) fn close_file_of(&self, descriptor: BorrowedFd<'_>) {
        // What cannot be taken is closed by who has it, who may have to wait.
        if let Ok(file) = closing::take(descriptor) {
            self.close(file);
        }
    }

    fn close(&self, file: OwnedFd) {
        // A job that finds no room is dropped here, and the file with it.
        let queue = self.closing.clone();
        let _ = self.closing.try_send(Box::new(move || closing::close(file, || queue.len())));
    }

    /// Runs a computation.
    pub(crate) async fn work<T, F>(&self, queue: SideQueue, computation: F) -> T
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let queue = match queue {
            SideQueue::Upkeep => &self.upkeep,
            SideQueue::Merging => &self.merging,
            SideQueue::Queries => &self.queries,
            SideQueue::HeavyQueries => &self.heavy_queries,
            SideQueue::LongQueries => &self.long_queries,
        };
        run(queue, computation).await
    }
}

async fn run<T, F>(queue: &flume::Sender<Job>, work: F) -> T
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let (sender, receiver) = oneshot::channel();
    let job: Job = Box::new(move || {
        // The caller may have gone: its result is of no use to anybody then.
        let _ = sender.send(work());
    });
    if let Err(flume::TrySendError::Full(job) | flume::TrySendError::Disconnected(job)) =
        queue.try_send(job)
    {
        let sent = queue.send_async(job).await;
        assert!(sent.is_ok(), "side threads live as long as a sender of their queue");
    }
    receiver.await.expect("a job that panics ends the process, all others send their result")
}

fn start_queue(
    name: &str,
    threads: u16,
    turn: Turn,
    commits: &Arc<Commits>,
) -> io::Result<flume::Sender<Job>> {
    let (sender, receiver) = flume::bounded::<Job>(QUEUE_JOBS);
    for number in 0..threads.max(1) {
        let (jobs, commits) = (receiver.clone(), Arc::clone(commits));
        thread::Builder::new().name(format!("{name}-{number}")).spawn(move || {
            stop_process_on_panic();
            turn.take();
            while let Ok(job) = jobs.recv() {
                job();
                if turn == Turn::Idle && commits.are_recent(clock::now()) {
                    rest();
                }
            }
        })?;
    }
    Ok(sender)
}

#[expect(clippy::disallowed_methods, reason = "no core runs on a side thread")]
fn rest() {
    thread::sleep(REST);
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::sync::mpsc;
    use std::time::Duration;

    use futures_util::future::join;

    use super::*;
    use crate::testing::block_on;

    const QUEUES: [SideQueue; 5] = [
        SideQueue::Upkeep,
        SideQueue::Merging,
        SideQueue::Queries,
        SideQueue::HeavyQueries,
        SideQueue::LongQueries,
    ];

    #[test]
    fn a_long_computation_delays_neither_files_nor_other_threads() {
        let side = SideThreads::start(2).unwrap();
        let (release, blocked) = mpsc::channel();
        let wait = move || blocked.recv_timeout(Duration::from_secs(20)).is_ok();
        let long = side.work(SideQueue::Upkeep, wait);
        let others = async {
            // Both would hang if they had to wait for `long`.
            let file = side.file(|| 1).await;
            let work = side.work(SideQueue::Upkeep, || 2).await;
            release.send(()).unwrap();
            file + work
        };
        assert_eq!(block_on(join(long, others)), (true, 3));
    }

    #[test]
    fn a_queue_delays_no_other_one() {
        let side = SideThreads::start(1).unwrap();
        for busy in QUEUES {
            let (release, blocked) = mpsc::channel();
            let long = side.work(busy, move || blocked.recv_timeout(Duration::from_secs(20)));
            let others = async {
                for queue in QUEUES.into_iter().filter(|queue| *queue != busy) {
                    side.work(queue, || ()).await;
                }
                release.send(()).unwrap();
            };
            assert!(block_on(join(long, others)).0.is_ok(), "{busy:?}");
        }
    }

    #[test]
    fn waiting_for_the_device_delays_no_other_file_operation() {
        let side = SideThreads::start(1).unwrap();
        let (release, blocked) = mpsc::channel();
        let wait = move || blocked.recv_timeout(Duration::from_secs(20)).is_ok();
        let others = async {
            side.file(|| ()).await;
            release.send(()).unwrap();
        };
        assert!(block_on(join(side.device(wait), others)).0);
    }

    #[test]
    fn files_are_closed_on_a_thread_of_their_own() {
        let side = SideThreads::start(1).unwrap();
        let (release, blocked) = mpsc::channel::<()>();
        let wait = move || blocked.recv_timeout(Duration::from_secs(20)).unwrap();
        side.closing.send(Box::new(wait)).unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        side.close_file_of(writer.as_fd());
        drop(writer);
        // Nothing waits for what closes, neither who closes nor what else is to be done.
        for queue in QUEUES {
            block_on(side.work(queue, || ()));
        }
        block_on(join(side.file(|| ()), side.device(|| ())));
        release.send(()).unwrap();
        // It ends once the other end is closed, and that is done by nobody but the side thread.
        assert_eq!(reader.read_to_end(&mut Vec::new()).unwrap(), 0);
    }

    #[test]
    fn computations_are_nicer_than_files() {
        // SAFETY: the calls take and return numbers only; 0 is the calling thread.
        let turn =
            || unsafe { (libc::sched_getscheduler(0), libc::getpriority(libc::PRIO_PROCESS, 0)) };
        let side = SideThreads::start(1).unwrap();
        let (policy, here) = turn();
        assert_eq!(block_on(side.file(turn)), (policy, here));
        let of_queues = QUEUES.map(|queue| block_on(side.work(queue, turn)));
        // A sandbox may refuse the policy. The niceness has to be right all the same.
        let idle = || {
            let parameters = libc::sched_param { sched_priority: 0 };
            // SAFETY: the parameters are readable, and 0 is the calling thread.
            unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) }
        };
        let refused = thread::scope(|scope| scope.spawn(idle).join().unwrap()) != 0;
        let long_policy = if refused { policy } else { libc::SCHED_IDLE };
        let nicer = |policy: i32, niceness: i32| (policy, (here + niceness).min(19));
        let (soon, merging) = (nicer(policy, SOON_NICENESS), nicer(policy, MERGING_NICENESS));
        let long = nicer(long_policy, LONG_NICENESS);
        assert_eq!(of_queues, [soon, merging, soon, long, long]);
    }

    #[test]
    fn more_jobs_than_the_queue_holds_all_finish() {
        let side = SideThreads::start(1).unwrap();
        let jobs = (0..3 * QUEUE_JOBS).map(|n| side.work(SideQueue::Queries, move || n));
        let results = block_on(futures_util::future::join_all(jobs));
        assert!(results.into_iter().eq(0..3 * QUEUE_JOBS));
    }
}
