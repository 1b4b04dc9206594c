//! Syslog over TCP, TLS and UDP: listeners, and the connections that they accept.
//!
//! Guarantees: messages are durable before more is read from their connection, so a sender that is
//! faster than the node waits. A message that cannot be stored at the moment is tried again, not
//! dropped. On a stop the listeners close at once, each connection gets the end of the stream, and
//! what was received on it is stored. Memory of a connection comes from the budget of bodies.
//!
//! What can go wrong: the protocol has no acknowledgement. What the sender's kernel and this one's
//! hold when a machine fails is lost without a word.

mod connection;
mod datagrams;
mod mapping;
mod pending;

use std::cell::Cell;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{Either, join3, select};
use jiff::tz::TimeZone;
use logsvc_proto::TenantId;
use logsvc_runtime::{Latch, Listener, Reservation, Runtime};

use super::core::Core;
use super::ingest::Ingest;
use crate::config::targets::Part;
use crate::metrics::Metric;
use connection::Connection;
use pending::{BYTES_PER_ROOM, RETRY_MIN};

/// How long a listener waits after an error, such as a lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Open connections of all cores. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct OpenConnections {
    open: Arc<AtomicUsize>,
    max: usize,
}

impl OpenConnections {
    /// None is open.
    pub(super) fn new(max: usize) -> OpenConnections {
        OpenConnections { open: Arc::new(AtomicUsize::new(0)), max }
    }

    fn try_enter(&self) -> bool {
        // The count guards no other memory.
        let entered = self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
            (open < self.max).then_some(open + 1)
        });
        entered.is_ok()
    }

    fn leave(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the connections of a core share.
struct Intake<R: Runtime> {
    core: Rc<Core<R>>,
    ingest: Rc<Ingest<R>>,
    connections: OpenConnections,
    tenant: TenantId,
    zone: TimeZone,
    /// Open connections of this core.
    open_here: Cell<u64>,
    /// Triggered when the last of them is closed after the stop.
    all_closed: Latch,
}

/// Takes messages until the node stops and what was received is stored.
pub(super) async fn serve<R: Runtime>(
    core: Rc<Core<R>>,
    ingest: Rc<Ingest<R>>,
    connections: OpenConnections,
) {
    let settings = &core.config().syslog;
    let (tcp, tls, udp) = (settings.tcp(), settings.tls(), settings.udp());
    if tcp.is_none() && tls.is_none() && udp.is_none() {
        return;
    }
    if !core.config().parts().has(Part::Distributor) {
        tracing::info!("nodes that take pushes listen for syslog; this one does not");
        return;
    }
    // The settings are checked at the start.
    let (Some(tenant), Ok(zone)) = (settings.tenant(), settings.zone()) else { return };
    core.node.recovered.wait().await;
    if core.node.failure().is_some() {
        return;
    }
    let (open_here, all_closed) = (Cell::new(0), Latch::new());
    let intake = Intake { core, ingest, connections, tenant, zone, open_here, all_closed };
    let intake = Rc::new(intake);
    let datagrams = datagrams::take(&intake, udp);
    join3(listen_plain(&intake, tcp), listen_encrypted(&intake, tls), datagrams).await;
    if intake.open_here.get() > 0 {
        intake.all_closed.wait().await;
    }
}

async fn listen_plain<R: Runtime>(intake: &Rc<Intake<R>>, address: Option<SocketAddr>) {
    if let Some(address) = address
        && let Some(listener) = intake.listen(address)
    {
        accept(intake, listener, Metric::SyslogTcpMessages).await;
    }
}

#[cfg(feature = "tls")]
async fn listen_encrypted<R: Runtime>(intake: &Rc<Intake<R>>, address: Option<SocketAddr>) {
    let node = &intake.core.node;
    let Some((address, acceptor)) = address.zip(node.entrance.tls.of_clients()) else { return };
    let Some(listener) = intake.listen(address) else { return };
    let listener = logsvc_tls::TlsListener::new(
        intake.core.runtime.clone(),
        listener,
        acceptor,
        HANDSHAKE_TIMEOUT,
        node.budgets.handshakes.clone(),
    );
    let told = Rc::clone(&intake.core);
    let watch = move |peer, why: &str| told.tell_connection("syslog_tls", peer, why);
    accept(intake, listener.watched_by(Rc::new(watch)), Metric::SyslogTlsMessages).await;
}

#[cfg(feature = "tls")]
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(not(feature = "tls"))]
async fn listen_encrypted<R: Runtime>(_: &Rc<Intake<R>>, _: Option<SocketAddr>) {}

/// Accepts connections until the node stops.
async fn accept<R: Runtime, L: Listener>(intake: &Rc<Intake<R>>, listener: L, counted: Metric) {
    let core = &intake.core;
    let mut stopped = pin!(core.node.stop.wait());
    loop {
        let accepted = match select(stopped.as_mut(), pin!(listener.accept())).await {
            Either::Left(_) => return,
            Either::Right((accepted, _)) => accepted,
        };
        let (reader, writer, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(_) => {
                core.runtime.sleep_until(core.runtime.now().after(ACCEPT_PAUSE)).await;
                continue;
            }
        };
        if !intake.connections.try_enter() {
            let why = "as many syslog connections are open as may be";
            core.tell_connection("too_many_connections", peer, why);
            core.counters().numbers.add(Metric::ConnectionsRefused, 1);
            continue;
        }
        intake.opened();
        let connection = Connection::new(Rc::clone(intake), peer, counted);
        let intake = Rc::clone(intake);
        drop(core.runtime.spawn(async move {
            connection.run(reader, writer).await;
            intake.closed();
        }));
    }
}

impl<R: Runtime> Intake<R> {
    /// Waits until there is memory for so much room.
    async fn reserve(&self, room_bytes: usize) -> Reservation {
        let core = &self.core;
        loop {
            let bytes = BYTES_PER_ROOM * room_bytes as u64;
            if let Some(memory) = core.budgets().bodies.try_reserve(bytes) {
                return memory;
            }
            core.runtime.sleep_until(core.runtime.now().after(RETRY_MIN)).await;
        }
    }

    fn listen(&self, address: SocketAddr) -> Option<R::Listener> {
        match self.core.runtime.listen(address) {
            Ok(listener) => Some(listener),
            Err(error) => {
                self.core.node.fail(format!("cannot listen on {address} for syslog: {error}"));
                None
            }
        }
    }

    fn opened(&self) {
        self.count(self.open_here.get() + 1);
    }

    fn closed(&self) {
        self.connections.leave();
        self.count(self.open_here.get() - 1);
        if self.open_here.get() == 0 && self.core.node.stop.is_triggered() {
            self.all_closed.trigger();
        }
    }

    fn count(&self, open: u64) {
        self.open_here.set(open);
        self.core.counters().numbers.set(Metric::SyslogConnections, open);
    }
}
