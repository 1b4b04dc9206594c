//! Yielding so that the driver and the timers really run.
//!
//! monoio enters the driver fully (timers, wake-ups from other threads) only
//! when no task is ready. A yield therefore has to leave the run queue and come
//! back through the driver.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::task::{Poll, Waker};

use monoio::io::AsyncReadRent;

use super::ChosenDriver;

pub(super) enum Yielder {
    /// A read of no bytes from /dev/zero: completes with the next entry into
    /// the ring, touches no memory.
    Ring(monoio::fs::File),
    Epoll(WakePair),
}

impl Yielder {
    pub(super) fn new(driver: ChosenDriver) -> io::Result<Yielder> {
        match driver {
            ChosenDriver::Ring => {
                #[expect(clippy::disallowed_methods, reason = "a device, once, before main runs")]
                let zero = std::fs::File::open("/dev/zero")?;
                Ok(Yielder::Ring(monoio::fs::File::from_std(zero)?))
            }
            ChosenDriver::Epoll => Ok(Yielder::Epoll(WakePair::new()?)),
        }
    }

    pub(super) async fn yield_now(&self) {
        match self {
            Yielder::Ring(zero) => {
                // Whatever the result of the read, it came through the ring.
                let _ = zero.read_at(Vec::new(), 0).await;
            }
            Yielder::Epoll(pair) => pair.wait().await,
        }
    }
}

/// A socket pair: the first task that yields writes a byte, epoll reports it, and a task of our own
/// wakes all tasks that wait by then. monoio keeps one waker per descriptor, so the waiting tasks
/// keep a list themselves.
pub(super) struct WakePair {
    sender: UnixStream,
    waiting: Rc<RefCell<Vec<Waker>>>,
}

impl WakePair {
    fn new() -> io::Result<WakePair> {
        let (sender, receiver) = UnixStream::pair()?;
        sender.set_nonblocking(true)?;
        receiver.set_nonblocking(true)?;
        let mut receiver = monoio::net::UnixStream::from_std(receiver)?;
        let waiting = Rc::new(RefCell::new(Vec::<Waker>::new()));
        let listed = Rc::downgrade(&waiting);
        monoio::spawn(async move {
            let mut buffer = Vec::with_capacity(64);
            let mut woken = Vec::new();
            loop {
                buffer.clear();
                let (result, returned) = receiver.read(buffer).await;
                buffer = returned;
                // No bytes: the sender's side is closed, so the runtime is gone.
                let Some(waiting) = listed.upgrade() else { return };
                if !matches!(result, Ok(1..)) {
                    return;
                }
                std::mem::swap(&mut woken, &mut *waiting.borrow_mut());
                woken.drain(..).for_each(Waker::wake);
            }
        });
        Ok(WakePair { sender, waiting })
    }

    async fn wait(&self) {
        let mut has_asked = false;
        poll_fn(|cx| {
            if has_asked {
                return Poll::Ready(());
            }
            has_asked = true;
            let first = {
                let mut waiting = self.waiting.borrow_mut();
                waiting.push(cx.waker().clone());
                waiting.len() == 1
            };
            // A full socket buffer cannot be: at most one byte is under way.
            if first && (&self.sender).write(&[1]).is_err() {
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        })
        .await;
    }
}
