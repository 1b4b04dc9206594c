//! Side threads: they run blocking calls and long computations, so that a core never stalls.
//!
//! A few queues serve the whole process, each with its own threads. The queue `files` takes the
//! short file operations that a backend's driver cannot do itself; commits wait for them.
//! Operations that take as long as the device, such as write-back, have threads of their own,
//! and so have the closing of files ([`crate::closing`]) and look-ups of names. The other queues take the jobs of
//! [`crate::Runtime::offload_to`], which may be long (compression, the work of queries). So a
//! commit never waits behind a computation, nor sealing behind a query. Within a queue any free
//! thread takes the next job of any core: a core waits only while all threads are busy.
//!
//! Threads that compute are a little *nicer* than cores, so that the system takes the CPU from
//! them when a core becomes ready. The difference is small, because a thread with a much lower
//! priority would also lose against every other program of the machine. The order among the side
//! threads is their own business: threads that merge, and threads of long queries, check after
//! each job, and between the pieces of a long job, whether more urgent work waits or runs, and
//! rest if it does ([`crate::pacer`]). Work is more urgent if pushes or short queries wait for
//! it. Merges count as urgent where they have fallen far behind.
//!
//! A panicking job stops the process, like a panic on a core. A job whose caller is gone runs to
//! its end, and its result is dropped. The threads are not pinned. They end when the last
//! runtime value is dropped.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use futures_channel::oneshot;

use crate::panics::stop_process_on_panic;
use crate::pressure::{Pressure, Urgency};
use crate::priority::be_nicer;
use crate::{CoreId, SideQueue, clock, closing, file_ops, pacer};

/// Most jobs in one queue. A caller that finds the queue full waits.
const QUEUE_JOBS: usize = 1024;

/// Names that are looked up at a time. A look-up waits for other machines, sometimes for many
/// seconds.
const NAME_THREADS: u16 = 4;

/// How much nicer computing threads are than cores. Beside a thread of another program, or a core,
/// that always computes, a computing thread gets two fifths of a CPU.
const COMPUTING_NICENESS: i32 = 2;

type Job = Box<dyn FnOnce() + Send>;

/// The sending side of all queues.
#[derive(Clone)]
pub(crate) struct SideThreads {
    files: flume::Sender<Job>,
    device: flume::Sender<Job>,
    closing: flume::Sender<Job>,
    names: flume::Sender<Job>,
    upkeep: flume::Sender<Job>,
    merging: flume::Sender<Job>,
    queries: flume::Sender<Job>,
    heavy_queries: flume::Sender<Job>,
    long_queries: flume::Sender<Job>,
    pressure: Arc<Pressure>,
}

/// The kind of work that the threads of a queue do.
#[derive(Clone, Copy)]
enum Kind {
    /// The threads make blocking system calls.
    Files,
    /// The threads compute.
    Computations(Urgency),
}

/// The urgency of the jobs of a queue.
fn urgency_of(queue: SideQueue) -> Urgency {
    match queue {
        SideQueue::Upkeep | SideQueue::Queries => Urgency::Soon,
        SideQueue::Merging => Urgency::Merging,
        SideQueue::HeavyQueries | SideQueue::LongQueries => Urgency::Long,
    }
}

impl SideThreads {
    /// Starts `threads` threads for each queue, at least one, in a process with `cores` cores.
    pub(crate) fn start(threads: u16, cores: u16) -> io::Result<SideThreads> {
        let pressure = Arc::new(Pressure::new(cores));
        let files = |name, threads| start_queue(name, threads, Kind::Files, &pressure);
        let computing = |name, queue| {
            start_queue(name, threads, Kind::Computations(urgency_of(queue)), &pressure)
        };
        Ok(SideThreads {
            files: files("side-file", threads)?,
            device: files("side-flush", threads)?,
            closing: files("side-close", 1)?,
            names: files("side-name", NAME_THREADS)?,
            upkeep: computing("side-work", SideQueue::Upkeep)?,
            merging: computing("side-merge", SideQueue::Merging)?,
            queries: computing("side-query", SideQueue::Queries)?,
            heavy_queries: computing("side-heavy", SideQueue::HeavyQueries)?,
            long_queries: computing("side-long", SideQueue::LongQueries)?,
            pressure,
        })
    }

    /// Tells long work that a durable write begins. A push waits for that write.
    pub(crate) fn note_commit(&self) {
        self.pressure.note_commit(clock::now());
    }

    /// Counts the calling thread as a core. Long work leaves cores the CPU time that they need.
    pub(crate) fn add_core(&self, core: CoreId) {
        self.pressure.add_core(core);
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

    /// Looks a name up, or does other work that waits for other machines.
    pub(crate) async fn name<T, F>(&self, look_up: F) -> T
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        run(&self.names, look_up).await
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
        // A descriptor that cannot be taken is closed by its holder, which may have to wait.
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
        // The count lives in the job, which runs even if its caller has gone.
        let counted = self.pressure.count(urgency_of(queue));
        let computation = move || {
            let _counted = counted;
            computation()
        };
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
        // The caller may have gone; then its result is of no use.
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
    kind: Kind,
    pressure: &Arc<Pressure>,
) -> io::Result<flume::Sender<Job>> {
    let (sender, receiver) = flume::bounded::<Job>(QUEUE_JOBS);
    for number in 0..threads.max(1) {
        let (jobs, pressure) = (receiver.clone(), Arc::clone(pressure));
        thread::Builder::new().name(format!("{name}-{number}")).spawn(move || {
            stop_process_on_panic();
            if let Kind::Computations(urgency) = kind {
                be_nicer(COMPUTING_NICENESS);
                if urgency != Urgency::Soon {
                    pacer::start(pressure, urgency);
                }
            }
            while let Ok(job) = jobs.recv() {
                pacer::begin_job();
                job();
                pacer::end_job();
            }
        })?;
    }
    Ok(sender)
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
        let side = SideThreads::start(2, 1).unwrap();
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
        let side = SideThreads::start(1, 1).unwrap();
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
        let side = SideThreads::start(1, 1).unwrap();
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
        let side = SideThreads::start(1, 1).unwrap();
        let (release, blocked) = mpsc::channel::<()>();
        let wait = move || blocked.recv_timeout(Duration::from_secs(20)).unwrap();
        side.closing.send(Box::new(wait)).unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        side.close_file_of(writer.as_fd());
        drop(writer);
        // Neither the holder of a closing file nor other work waits for the close.
        for queue in QUEUES {
            block_on(side.work(queue, || ()));
        }
        block_on(join(side.file(|| ()), side.device(|| ())));
        release.send(()).unwrap();
        // The read ends once the other end is closed, and only the side thread closes it.
        assert_eq!(reader.read_to_end(&mut Vec::new()).unwrap(), 0);
    }

    #[test]
    fn computations_are_nicer_than_files() {
        // SAFETY: the calls take and return numbers only; 0 is the calling thread.
        let turn =
            || unsafe { (libc::sched_getscheduler(0), libc::getpriority(libc::PRIO_PROCESS, 0)) };
        let side = SideThreads::start(1, 1).unwrap();
        let (policy, here) = turn();
        assert_eq!(block_on(side.file(turn)), (policy, here));
        let of_queues = QUEUES.map(|queue| block_on(side.work(queue, turn)));
        // Of another policy, or much nicer, other programs of the machine would come first.
        assert_eq!(of_queues, [(policy, (here + COMPUTING_NICENESS).min(19)); 5]);
    }

    #[test]
    fn jobs_are_counted_until_they_are_done_even_if_nobody_waits() {
        let side = SideThreads::start(1, 1).unwrap();
        for (queue, presses) in QUEUES.into_iter().zip([true, true, true, false, false]) {
            let (release, blocked) = mpsc::channel();
            let wait = move || blocked.recv_timeout(Duration::from_secs(20)).is_ok();
            let mut job = Box::pin(side.work(queue, wait));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(job.as_mut().poll(&mut context).is_pending());
            drop(job);
            assert_eq!(side.pressure.has_jobs_above(Urgency::Long), presses, "{queue:?}");
            release.send(()).unwrap();
            // It is done once the next one is.
            block_on(side.work(queue, || ()));
            while side.pressure.has_jobs_above(Urgency::Long) {
                thread::yield_now();
            }
        }
    }

    #[test]
    fn long_work_goes_on_beside_what_is_always_urgent() {
        let side = SideThreads::start(1, 1).unwrap();
        let _urgent = side.pressure.count(Urgency::Soon);
        side.note_commit();
        for queue in [SideQueue::HeavyQueries, SideQueue::LongQueries] {
            for _ in 0..3 {
                block_on(side.work(queue, crate::give_way));
            }
        }
    }

    #[test]
    fn more_jobs_than_the_queue_holds_all_finish() {
        let side = SideThreads::start(1, 1).unwrap();
        let jobs = (0..3 * QUEUE_JOBS).map(|n| side.work(SideQueue::Queries, move || n));
        let results = block_on(futures_util::future::join_all(jobs));
        assert!(results.into_iter().eq(0..3 * QUEUE_JOBS));
    }
}
