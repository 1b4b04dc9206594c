//! Connections that wait for their next request.
//!
//! One task per client, the *tender*, watches all of them: a connection that the server closes, or
//! that was idle for too long, is closed at once. It lives only while connections wait.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use logsvc_runtime::{Monotonic, Reader, Runtime, Writer};

use super::link::Link;
use super::proxy::Route;

struct Idle<Rd, W> {
    link: Link<Rd, W>,
    until: Monotonic,
}

/// The connections of one client.
pub(super) struct Pool<Rd, W> {
    /// By destination; the newest last. No queue is empty.
    idle: RefCell<BTreeMap<Route, VecDeque<Idle<Rd, W>>>>,
    count: Cell<usize>,
    max_per_destination: usize,
    max_count: usize,
    idle_timeout: Duration,
    tender: RefCell<Option<Waker>>,
    is_tended: Cell<bool>,
}

impl<Rd: Reader, W: Writer> Pool<Rd, W> {
    pub(super) fn new(
        max_per_destination: usize,
        max_count: usize,
        idle_timeout: Duration,
    ) -> Pool<Rd, W> {
        Pool {
            idle: RefCell::default(),
            count: Cell::new(0),
            max_per_destination,
            max_count,
            idle_timeout,
            tender: RefCell::default(),
            is_tended: Cell::new(false),
        }
    }

    /// How many connections wait.
    pub(super) fn count(&self) -> usize {
        self.count.get()
    }

    /// The connection of a destination that was used last, and is open still.
    pub(super) fn take(&self, route: &Route) -> Option<Link<Rd, W>> {
        loop {
            let mut link = self.pop(route)?;
            if link.incoming.is_silent_now() {
                link.is_reused = true;
                return Some(link);
            }
        }
    }

    fn pop(&self, route: &Route) -> Option<Link<Rd, W>> {
        let mut idle = self.idle.borrow_mut();
        let queue = idle.get_mut(route)?;
        let newest = queue.pop_back();
        if queue.is_empty() {
            idle.remove(route);
        }
        self.count.set(self.count.get() - usize::from(newest.is_some()));
        newest.map(|newest| newest.link)
    }

    /// Keeps a connection, if there is room.
    pub(super) fn put<R: Runtime>(self: &Rc<Self>, runtime: &R, route: &Route, link: Link<Rd, W>) {
        let until = runtime.now().after(self.idle_timeout);
        if self.count.get() >= self.max_count || self.max_per_destination == 0 {
            return;
        }
        let oldest = {
            let mut idle = self.idle.borrow_mut();
            let queue = idle.entry(route.clone()).or_default();
            queue.push_back(Idle { link, until });
            if queue.len() > self.max_per_destination { queue.pop_front() } else { None }
        };
        self.count.set(self.count.get() + usize::from(oldest.is_none()));
        drop(oldest);
        if self.is_tended.replace(true) {
            // The tender has to look at the new connection.
            let tender = self.tender.take();
            tender.into_iter().for_each(Waker::wake);
        } else {
            drop(runtime.spawn(tend(runtime.clone(), Rc::downgrade(self))));
        }
    }

    fn next_expiry(&self) -> Option<Monotonic> {
        self.idle.borrow().values().flatten().map(|idle| idle.until).min()
    }

    /// Removes the connections that `is_kept` says no to.
    fn retain(&self, mut is_kept: impl FnMut(&mut Idle<Rd, W>) -> bool) -> Vec<Link<Rd, W>> {
        let mut removed = Vec::new();
        let mut idle = self.idle.borrow_mut();
        idle.retain(|_, queue| {
            for _ in 0..queue.len() {
                // All are taken from the front and put to the back, so their order stays.
                let Some(mut first) = queue.pop_front() else { break };
                if is_kept(&mut first) {
                    queue.push_back(first);
                } else {
                    removed.push(first.link);
                }
            }
            !queue.is_empty()
        });
        self.count.set(self.count.get() - removed.len());
        removed
    }

    fn drop_closed(&self, cx: &mut Context<'_>) {
        drop(self.retain(|idle| idle.link.incoming.is_silent(cx)));
    }
}

impl<Rd, W> Drop for Pool<Rd, W> {
    fn drop(&mut self) {
        let tender = self.tender.take();
        tender.into_iter().for_each(Waker::wake);
    }
}

/// Watches idle connections until there are none, or the pool is gone.
async fn tend<R: Runtime, Rd: Reader, W: Writer>(runtime: R, pool: Weak<Pool<Rd, W>>) {
    loop {
        let next = match pool.upgrade() {
            None => return,
            Some(pool) => match pool.next_expiry() {
                Some(next) => next,
                None => {
                    pool.is_tended.set(false);
                    return;
                }
            },
        };
        let mut expired = pin!(runtime.sleep_until(next));
        poll_fn(|cx| {
            let Some(pool) = pool.upgrade() else { return Poll::Ready(()) };
            pool.tender.replace(Some(cx.waker().clone()));
            pool.drop_closed(cx);
            if pool.count() == 0 {
                return Poll::Ready(());
            }
            expired.as_mut().poll(cx)
        })
        .await;
        let Some(removed) = pool.upgrade().map(|pool| {
            let now = runtime.now();
            pool.retain(|idle| idle.until > now)
        }) else {
            return;
        };
        for mut link in removed {
            link.writer.close().await;
        }
    }
}
