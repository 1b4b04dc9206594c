//! The accept loop and the stop.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use futures_util::future::{Either, select};
use logsvc_runtime::{Latch, Listener, Runtime};

use crate::config::ServerConfig;
use crate::connection::{Connection, Shared};
use crate::date::DateCache;
use crate::gzip::Compressors;
use crate::service::Service;
use crate::signal::Signal;

/// First and longest pause after a failed accept.
const ACCEPT_PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));
/// Accepts in a row before other tasks get their turn.
const ACCEPT_BURST: u32 = 32;

/// Serves connections of one core until `stop` is triggered. Then it stops
/// accepting, closes idle connections at once, lets requests under way finish
/// within the drain timeout, drops the rest, and returns when no connection is
/// left. Each connection is one task.
/// The listener is the runtime's own, or a layer over it.
pub async fn serve<R: Runtime, L: Listener, S: Service>(
    runtime: R,
    listener: L,
    service: Rc<S>,
    config: Rc<ServerConfig>,
    stop: Latch,
) {
    let shared = Rc::new(Shared {
        runtime: runtime.clone(),
        service,
        config,
        stopping: Signal::new(),
        date: DateCache::new(),
        compressors: Compressors::default(),
    });
    let open = Rc::new(Open::default());
    let abort = Signal::new();

    accept_until(&shared, &listener, &open, &abort, &stop).await;
    drop(listener);

    shared.stopping.set();
    let deadline = runtime.now().after(shared.config.drain_timeout);
    let timed_out = {
        let passed = pin!(runtime.sleep_until(deadline));
        matches!(select(pin!(open.none_left()), passed).await, Either::Right(_))
    };
    if timed_out {
        tracing::warn!(open = open.count.get(), "dropped connections that did not finish in time");
        abort.set();
        open.none_left().await;
    }
}

async fn accept_until<R: Runtime, L: Listener, S: Service>(
    shared: &Rc<Shared<R, S>>,
    listener: &L,
    open: &Rc<Open>,
    abort: &Signal,
    stop: &Latch,
) {
    let runtime = &shared.runtime;
    let mut stopped = stop.wait();
    let mut pause = ACCEPT_PAUSES.0;
    let mut burst = 0;
    loop {
        let accepted = match select(pin!(listener.accept()), &mut stopped).await {
            Either::Left((accepted, _)) => accepted,
            Either::Right(_) => return,
        };
        match accepted {
            Ok((reader, writer, peer)) => {
                pause = ACCEPT_PAUSES.0;
                if open.count.get() >= shared.config.max_connections {
                    shared.service.connection_refused();
                } else {
                    let guard = OpenGuard::new(shared, open);
                    let shared = Rc::clone(shared);
                    let connection =
                        Box::new(Connection::<R, L, S>::new(shared, reader, writer, peer));
                    let aborted = abort.wait();
                    drop(runtime.spawn(async move {
                        let _guard = guard;
                        select(pin!(connection.run()), aborted).await;
                    }));
                }
            }
            Err(error) => {
                // Mostly too many open files: only the end of a connection
                // helps, so there is no use in trying at once.
                tracing::warn!(%error, pause_ms = pause.as_millis(), "accept failed");
                let resume = pin!(runtime.sleep_until(runtime.now().after(pause)));
                pause = (pause * 2).min(ACCEPT_PAUSES.1);
                if let Either::Right(_) = select(resume, &mut stopped).await {
                    return;
                }
            }
        }
        burst += 1;
        if burst == ACCEPT_BURST {
            burst = 0;
            runtime.yield_now().await;
        }
    }
}

/// Number of open connections.
#[derive(Default)]
struct Open {
    count: Cell<usize>,
    waiter: RefCell<Option<Waker>>,
}

impl Open {
    async fn none_left(&self) {
        poll_fn(|cx| {
            if self.count.get() == 0 {
                return Poll::Ready(());
            }
            *self.waiter.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Counts a connection for as long as it lives.
struct OpenGuard<R, S: Service> {
    shared: Rc<Shared<R, S>>,
    open: Rc<Open>,
}

impl<R, S: Service> OpenGuard<R, S> {
    fn new(shared: &Rc<Shared<R, S>>, open: &Rc<Open>) -> OpenGuard<R, S> {
        open.count.set(open.count.get() + 1);
        shared.service.connections_changed(open.count.get());
        OpenGuard { shared: Rc::clone(shared), open: Rc::clone(open) }
    }
}

impl<R, S: Service> Drop for OpenGuard<R, S> {
    fn drop(&mut self) {
        let count = self.open.count.get() - 1;
        self.open.count.set(count);
        self.shared.service.connections_changed(count);
        if count == 0 {
            let waiter = self.open.waiter.borrow_mut().take();
            if let Some(waiter) = waiter {
                waiter.wake();
            }
        }
    }
}
