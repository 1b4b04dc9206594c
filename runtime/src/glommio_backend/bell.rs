//! How other threads wake this core's tasks.
//!
//! glommio 0.9.0 has a way of its own, an eventfd that its latency ring reads, and a core
//! may sleep through what comes that way. Its executor looks at that ring to see whether
//! tasks have run for long enough. If something completes there just before the first task
//! of a round, it runs none, takes what completed out of the ring, and goes to sleep although
//! tasks are ready, unless somebody waits for just that completion. An eventfd that is
//! written late, for a task that was found ready already, has no such waiter; nor has the
//! timer that ends long rounds.
//!
//! So no thread but the core itself ever touches a waker of glommio's here, and that timer
//! never fires. Each task gets a waker that another thread may use freely: it puts the task
//! into the core's queue and rings the core's [`Bell`], an eventfd that an ordinary task of
//! the core reads through the main ring.
//!
//! Guarantees: a wake from any thread polls the task again, however the threads interleave.
//! A task lies in the queue at most once, and a bell that has been rung is not rung again
//! until the core has heard it, so a burst of wakes costs one system call.

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
    /// The number of the bell that this thread listens to; zero on all other threads.
    static HERE: Cell<u64> = const { Cell::new(0) };
}

/// What other threads ring to have a core look for woken tasks.
pub(super) struct Bell {
    number: u64,
    eventfd: File,
    /// Whether it has been rung since the core last listened.
    is_rung: AtomicBool,
    woken: flume::Sender<Arc<Woken>>,
}

impl Bell {
    /// A bell for this thread, and what must run there as a task of its own.
    pub(super) fn new() -> io::Result<(Arc<Bell>, impl Future<Output = ()> + use<>)> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        // SAFETY: a call that takes and returns numbers only.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was opened above, and nobody else has it.
        let eventfd = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        let heard = ring_file(eventfd.try_clone()?);
        let (woken, queue) = flume::unbounded();
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        HERE.set(number);
        let bell = Arc::new(Bell { number, eventfd, is_rung: AtomicBool::new(false), woken });
        let listening = listen(Arc::clone(&bell), heard, queue);
        Ok((bell, listening))
    }

    fn is_here(&self) -> bool {
        HERE.get() == self.number
    }

    fn ring(&self) {
        if !self.is_rung.swap(true, Ordering::AcqRel) {
            let written = (&self.eventfd).write(&1_u64.to_ne_bytes());
            assert!(written.is_ok(), "an eventfd far from its limit takes a count: {written:?}");
        }
    }
}

async fn listen(bell: Arc<Bell>, heard: BufferedFile, queue: flume::Receiver<Arc<Woken>>) {
    loop {
        let count = heard.read_at(0, COUNT_BYTES).await;
        assert!(count.is_ok(), "an eventfd can be read: {count:?}");
        // Whoever comes after this rings again; whoever came before has put its task into the
        // queue before it found the bell rung.
        bell.is_rung.swap(false, Ordering::AcqRel);
        for _ in 0..queue.len() {
            let Ok(task) = queue.try_recv() else { break };
            task.is_queued.swap(false, Ordering::AcqRel);
            task.of_glommio.wake();
        }
    }
}

/// Wakes a task, from any thread.
struct Woken {
    bell: Arc<Bell>,
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
        if self.bell.is_here() {
            self.of_glommio.wake();
        } else if !self.is_queued.swap(true, Ordering::AcqRel) {
            // Fails when the core has ended, and its tasks with it.
            if self.bell.woken.send(Arc::clone(self)).is_ok() {
                self.bell.ring();
            }
        }
    }
}

pin_project_lite::pin_project! {
    /// A future as a task of a core: other threads may wake it.
    pub(super) struct Belled<F> {
        registration: Registration,
        waker: Waker,
        #[pin]
        future: F,
    }
}

impl<F> Belled<F> {
    pub(super) fn new(bell: &Arc<Bell>, future: F) -> Belled<F> {
        let woken = Arc::new(Woken {
            bell: Arc::clone(bell),
            is_queued: AtomicBool::new(false),
            of_glommio: AtomicWaker::new(),
        });
        let waker = Waker::from(Arc::clone(&woken));
        Belled { registration: Registration(woken), waker, future }
    }
}

impl<F: Future> Future for Belled<F> {
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
