//! Wakes the tasks of a glommio core from other threads.
//!
//! glommio 0.9.0 wakes a core through an eventfd that its latency ring reads, and a core can sleep
//! through such a wake-up. The executor looks at the latency ring to see whether tasks have run for
//! long enough. If an operation completes there just before the first task of a round, the executor
//! runs no task, takes the completion out of the ring, and goes to sleep although tasks are ready,
//! unless a task waits for exactly this completion. No task waits for an eventfd that is written
//! late, for a task that was found ready already, or for the timer that ends long rounds.
//!
//! So in this backend only the core itself touches glommio's wakers, and the timer never fires.
//! Each task gets a waker that other threads may use: it puts the task into the core's queue and
//! notifies the core's [`Notifier`], an eventfd that an ordinary task of the core reads through
//! the main ring.
//!
//! Guarantees: a wake from any thread polls the task again, on any interleaving of threads. A
//! task is in the queue at most once. A notifier is not notified again until the core has read
//! it, so a burst of wakes costs one system call.

use std::cell::Cell;
use std::fs::File;
use std::future::Future;
use std::io::{self, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use glommio::io::BufferedFile;

use super::ring_file;

/// Bytes of an eventfd's count.
const COUNT_BYTES: usize = 8;

thread_local! {
    /// The number of the notifier that this thread reads; zero on all other threads.
    static HERE: Cell<u64> = const { Cell::new(0) };
}

/// Other threads notify a core through it, and the core looks for woken tasks.
pub(super) struct Notifier {
    number: u64,
    eventfd: File,
    /// Whether it has been rung since the core last listened.
    is_notified: AtomicBool,
    woken: flume::Sender<Arc<Woken>>,
}

impl Notifier {
    /// A notifier for this thread, and the future that must run there as a task of its own.
    pub(super) fn new() -> io::Result<(Arc<Notifier>, impl Future<Output = ()> + use<>)> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        // SAFETY: a call that takes and returns numbers only.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was opened above, and nothing else has it.
        let eventfd = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        let heard = ring_file(eventfd.try_clone()?);
        let (woken, queue) = flume::unbounded();
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        HERE.set(number);
        let notifier =
            Arc::new(Notifier { number, eventfd, is_notified: AtomicBool::new(false), woken });
        let listening = listen(Arc::clone(&notifier), heard, queue);
        Ok((notifier, listening))
    }

    fn is_here(&self) -> bool {
        HERE.get() == self.number
    }

    fn ring(&self) {
        if !self.is_notified.swap(true, Ordering::AcqRel) {
            let written = (&self.eventfd).write(&1_u64.to_ne_bytes());
            assert!(written.is_ok(), "an eventfd far from its limit takes a count: {written:?}");
        }
    }
}

async fn listen(notifier: Arc<Notifier>, heard: BufferedFile, queue: flume::Receiver<Arc<Woken>>) {
    loop {
        let count = heard.read_at(0, COUNT_BYTES).await;
        assert!(count.is_ok(), "an eventfd can be read: {count:?}");
        // A thread that wakes a task after this line writes again. A thread that found the flag
        // set has put its task into the queue already.
        notifier.is_notified.swap(false, Ordering::AcqRel);
        for _ in 0..queue.len() {
            let Ok(task) = queue.try_recv() else { break };
            task.is_queued.swap(false, Ordering::AcqRel);
            task.of_glommio.wake();
        }
    }
}

/// Wakes a task, from any thread.
struct Woken {
    notifier: Arc<Notifier>,
    is_queued: AtomicBool,
    /// Only set, used and taken away on the core: glommio would tell of all that on its own
    /// eventfd otherwise.
    of_glommio: AtomicWaker,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.notifier.is_here() {
            self.of_glommio.wake();
        } else if !self.is_queued.swap(true, Ordering::AcqRel) {
            // Fails when the core has ended, and its tasks with it.
            if self.notifier.woken.send(Arc::clone(self)).is_ok() {
                self.notifier.ring();
            }
        }
    }
}

pin_project_lite::pin_project! {
    /// A future as a task of a core: other threads may wake it.
    pub(super) struct Notified<F> {
        registration: Registration,
        waker: Waker,
        #[pin]
        future: F,
    }
}

impl<F> Notified<F> {
    pub(super) fn new(notifier: &Arc<Notifier>, future: F) -> Notified<F> {
        let woken = Arc::new(Woken {
            notifier: Arc::clone(notifier),
            is_queued: AtomicBool::new(false),
            of_glommio: AtomicWaker::new(),
        });
        let waker = Waker::from(Arc::clone(&woken));
        Notified { registration: Registration(woken), waker, future }
    }
}

impl<F: Future> Future for Notified<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        // Before the future looks whether it can go on, so that no wake falls between.
        this.registration.0.of_glommio.register(cx.waker());
        this.future.poll(&mut Context::from_waker(this.waker))
    }
}

/// The core's own hold on a task's waker.
struct Registration(Arc<Woken>);

impl Drop for Registration {
    fn drop(&mut self) {
        // Others may hold the task's waker for long and drop it anywhere.
        drop(self.0.of_glommio.take());
    }
}
