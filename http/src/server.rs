//! The accept loop and the stop.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use futures_util::future::{Either, select};
use logsvc_runtime::{
    Latch, Listener, Monotonic, Reader, Runtime, SpareConnection, Writer, is_lack_of_descriptors,
};

use crate::config::ServerConfig;
use crate::connection::{Connection, Shared};
use crate::date::DateCache;
use crate::gzip::Compressors;
use crate::limit::ConnectionPermit;
use crate::receiving::Receiving;
use crate::service::Service;
use crate::signal::Signal;
use crate::turn_away::{MAX_TURNED_AWAY, PATIENCE, SPARE_PATIENCE, turn_away};

/// First and longest pause after a failed accept.
const ACCEPT_PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));
/// How often the log says that there are no descriptors for connections.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);
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
    config.body_budget.set_secret(runtime.random_u64());
    let receiving = Receiving::new(runtime.clone(), Rc::clone(&config));
    let shared = Rc::new(Shared {
        runtime: runtime.clone(),
        service,
        config,
        receiving,
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
    let mut warned = Warning::default();
    // Whether the last accept failed for lack of descriptors.
    let mut is_lacking = false;
    loop {
        let accepted = match select(pin!(accept(listener, is_lacking)), &mut stopped).await {
            Either::Left((accepted, _)) => accepted,
            Either::Right(_) => return,
        };
        match accepted {
            Ok(connection) => {
                pause = ACCEPT_PAUSES.0;
                is_lacking &= !connection.has_descriptor;
                let permit = match connection.has_descriptor {
                    true => shared.config.connections.try_enter(),
                    false => None,
                };
                match permit {
                    Some(permit) => begin::<R, L, S>(shared, connection, open, abort, permit),
                    None => refuse(shared, connection, open),
                }
            }
            Err(error) if !is_lacking && is_lack_of_descriptors(&error) => {
                is_lacking = true;
                if warned.is_due(runtime.now()) {
                    tracing::warn!(%error, "accept failed: connections are refused");
                }
            }
            Err(error) => {
                // Only the end of a connection helps, so there is no use in trying at once.
                if !is_lacking || pause >= ACCEPT_PAUSES.1 {
                    tracing::warn!(%error, pause_ms = pause.as_millis(), "accept failed");
                }
                is_lacking = false;
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

/// The next connection, by way of the listener's spare descriptors if there are no others.
async fn accept<L: Listener>(
    listener: &L,
    is_lacking: bool,
) -> io::Result<SpareConnection<L::Reader, L::Writer>> {
    if is_lacking {
        return listener.accept_with_spare().await;
    }
    let (reader, writer, peer) = listener.accept().await?;
    Ok(SpareConnection { reader, writer, peer, has_descriptor: true })
}

/// Serves a connection on a task of its own.
fn begin<R: Runtime, L: Listener, S: Service>(
    shared: &Rc<Shared<R, S>>,
    connection: SpareConnection<L::Reader, L::Writer>,
    open: &Rc<Open>,
    abort: &Signal,
    permit: ConnectionPermit,
) {
    let SpareConnection { reader, writer, peer, .. } = connection;
    let guard = OpenGuard::new(shared, open, permit);
    let connection = Box::new(Connection::<R, L, S>::new(Rc::clone(shared), reader, writer, peer));
    let aborted = abort.wait();
    drop(shared.runtime.spawn(async move {
        let _guard = guard;
        select(pin!(connection.run()), aborted).await;
    }));
}

/// Tells a connection that it is one too many, if not too many are being told.
fn refuse<R: Runtime, S: Service>(
    shared: &Rc<Shared<R, S>>,
    connection: SpareConnection<impl Reader, impl Writer>,
    open: &Rc<Open>,
) {
    let SpareConnection { reader, writer, peer, has_descriptor } = connection;
    shared.service.connection_refused(peer);
    if let Some(guard) = TurnedAwayGuard::new(open) {
        let shared = Rc::clone(shared);
        let patience = if has_descriptor { PATIENCE } else { SPARE_PATIENCE };
        drop(shared.runtime.clone().spawn(async move {
            let _guard = guard;
            let told = pin!(turn_away(&shared.runtime, reader, writer, patience));
            select(told, shared.stopping.wait()).await;
        }));
    }
}

/// A line that was logged lately.
#[derive(Default)]
struct Warning {
    last: Option<Monotonic>,
}

impl Warning {
    /// Whether it is time to say it again.
    fn is_due(&mut self, now: Monotonic) -> bool {
        let is_due = self.last.is_none_or(|last| now.since(last) >= WARNING_INTERVAL);
        if is_due {
            self.last = Some(now);
        }
        is_due
    }
}

/// Number of open connections.
#[derive(Default)]
struct Open {
    count: Cell<usize>,
    /// Connections over the limit that are being told so.
    turned_away: Cell<usize>,
    waiter: RefCell<Option<Waker>>,
}

impl Open {
    async fn none_left(&self) {
        poll_fn(|cx| {
            if self.is_empty() {
                return Poll::Ready(());
            }
            *self.waiter.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn is_empty(&self) -> bool {
        self.count.get() == 0 && self.turned_away.get() == 0
    }

    fn wake_if_empty(&self) {
        if self.is_empty() {
            let waiter = self.waiter.borrow_mut().take();
            waiter.into_iter().for_each(Waker::wake);
        }
    }
}

/// Counts a connection for as long as it lives.
struct OpenGuard<R, S: Service> {
    shared: Rc<Shared<R, S>>,
    open: Rc<Open>,
    _permit: ConnectionPermit,
}

impl<R, S: Service> OpenGuard<R, S> {
    fn new(
        shared: &Rc<Shared<R, S>>,
        open: &Rc<Open>,
        permit: ConnectionPermit,
    ) -> OpenGuard<R, S> {
        open.count.set(open.count.get() + 1);
        shared.service.connections_changed(open.count.get());
        OpenGuard { shared: Rc::clone(shared), open: Rc::clone(open), _permit: permit }
    }
}

impl<R, S: Service> Drop for OpenGuard<R, S> {
    fn drop(&mut self) {
        let count = self.open.count.get() - 1;
        self.open.count.set(count);
        self.shared.service.connections_changed(count);
        self.open.wake_if_empty();
    }
}

/// Counts a connection that is being turned away.
struct TurnedAwayGuard {
    open: Rc<Open>,
}

impl TurnedAwayGuard {
    /// `None` if there are enough.
    fn new(open: &Rc<Open>) -> Option<TurnedAwayGuard> {
        let count = open.turned_away.get();
        (count < MAX_TURNED_AWAY).then(|| {
            open.turned_away.set(count + 1);
            TurnedAwayGuard { open: Rc::clone(open) }
        })
    }
}

impl Drop for TurnedAwayGuard {
    fn drop(&mut self) {
        self.open.turned_away.set(self.open.turned_away.get() - 1);
        self.open.wake_if_empty();
    }
}
