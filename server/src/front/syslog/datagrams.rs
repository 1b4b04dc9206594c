//! Syslog over UDP (RFC 5426): each datagram is one message.
//!
//! Guarantees: a core receives while it stores what came before, so that a write to disk drops
//! nothing. What waits is bounded: then the datagrams stay with the kernel, and what it drops is
//! counted. On a stop, what the kernel holds is received and stored.
//!
//! What can go wrong: everything that UDP allows. Datagrams get lost on their way or in the kernel,
//! come twice, and carry any address as that of their sender.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, join, select};
use logsvc_proto::syslog::datagram;
use logsvc_runtime::{Bell, Datagrams, Runtime};

use super::pending::{Came, Pending};
use super::{Intake, mapping};
use crate::metrics::Metric;

/// Bytes of waiting datagrams that the kernel is asked to hold for a core.
const KERNEL_BUFFER_BYTES: usize = 4 << 20;

/// No datagram is longer.
const DATAGRAM_MAX_BYTES: usize = u16::MAX as usize;

/// Bytes that wait in this process while those before them are stored.
const QUEUE_MAX_BYTES: usize = 512 << 10;

/// How long a stopping node waits for one more datagram, and how long in all.
const LAST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// A pause after an error of the socket.
const ERROR_PAUSE: Duration = Duration::from_millis(50);

/// Senders whose last times are known. Addresses can be invented, so the number is bounded.
const SENDERS_MAX: usize = 4096;

/// A datagram that waits.
struct Waiting {
    peer: SocketAddr,
    unix_ns: i64,
    /// Where its bytes end; they begin where those of the datagram before end.
    end: usize,
}

/// Datagrams in their order.
#[derive(Default)]
struct Queue {
    bytes: Vec<u8>,
    datagrams: Vec<Waiting>,
}

impl Queue {
    fn push(&mut self, bytes: &[u8], peer: SocketAddr, unix_ns: i64) {
        self.bytes.extend_from_slice(bytes);
        self.datagrams.push(Waiting { peer, unix_ns, end: self.bytes.len() });
    }

    fn is_full(&self) -> bool {
        let overhead = self.datagrams.len() * size_of::<Waiting>();
        self.bytes.len() + overhead >= QUEUE_MAX_BYTES
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.datagrams.clear();
    }

    /// Who sent them, if it was one; else the address that stands for any.
    fn sender(&self) -> SocketAddr {
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let Some(first) = self.datagrams.first() else { return any };
        let is_only = self.datagrams.iter().all(|datagram| datagram.peer.ip() == first.peer.ip());
        if is_only { first.peer } else { any }
    }
}

/// The socket of a core, and what came from it.
struct Port<R: Runtime> {
    intake: Rc<Intake<R>>,
    socket: R::Datagrams,
    queue: RefCell<Queue>,
    /// Rung when something waits, or nothing more will.
    filled: Bell,
    /// Rung when there is room again.
    emptied: Bell,
    is_done: Cell<bool>,
}

/// Takes datagrams until the node stops and what was received is stored.
pub(super) async fn take<R: Runtime>(intake: &Rc<Intake<R>>, address: Option<SocketAddr>) {
    let Some(address) = address else { return };
    let core = &intake.core;
    let socket = match core.runtime.bind_datagrams(address, KERNEL_BUFFER_BYTES) {
        Ok(socket) => socket,
        Err(error) => {
            core.node.fail(format!("cannot receive datagrams at {address} for syslog: {error}"));
            return;
        }
    };
    if core.runtime.core().0 == 0
        && let Ok(granted) = socket.buffer_bytes()
        && granted < KERNEL_BUFFER_BYTES
    {
        tracing::info!(
            granted_bytes = granted,
            asked_bytes = KERNEL_BUFFER_BYTES,
            "the kernel holds fewer syslog datagrams than were asked for; \
             net.core.rmem_max raises it"
        );
    }
    // Two queues, of which one is stored.
    let _memory = intake.reserve(QUEUE_MAX_BYTES + DATAGRAM_MAX_BYTES).await;
    let port = Port {
        intake: Rc::clone(intake),
        socket,
        queue: RefCell::default(),
        filled: Bell::new(),
        emptied: Bell::new(),
        is_done: Cell::new(false),
    };
    join(port.receive(), port.store()).await;
}

impl<R: Runtime> Port<R> {
    async fn receive(&self) {
        let core = &self.intake.core;
        let runtime = &core.runtime;
        {
            let mut receiving = pin!(self.receive_on());
            select(pin!(core.node.stop.wait()), receiving.as_mut()).await;
        }
        let ends = runtime.now().after(LAST_PATIENCE);
        while runtime.now() < ends {
            let pause = runtime.sleep_until(runtime.now().after(LAST_PAUSE));
            let one = self.receive_one(Vec::with_capacity(DATAGRAM_MAX_BYTES));
            if let Either::Left(_) = select(pin!(pause), pin!(one)).await {
                break;
            }
        }
        self.is_done.set(true);
        self.filled.ring();
    }

    async fn receive_on(&self) {
        let mut buffer = Vec::with_capacity(DATAGRAM_MAX_BYTES);
        loop {
            buffer = self.receive_one(buffer).await;
        }
    }

    /// Waits for room and for a datagram. The buffer comes back empty.
    async fn receive_one(&self, buffer: Vec<u8>) -> Vec<u8> {
        let runtime = &self.intake.core.runtime;
        while self.queue.borrow().is_full() {
            self.emptied.wait().await;
        }
        let (outcome, mut buffer) = self.socket.receive(buffer).await;
        match outcome {
            Ok(datagram) => {
                self.queue.borrow_mut().push(&buffer, datagram.sender, runtime.unix_nanos());
                self.filled.ring();
            }
            Err(_) => runtime.sleep_until(runtime.now().after(ERROR_PAUSE)).await,
        }
        buffer.clear();
        buffer
    }

    async fn store(&self) {
        let core = &self.intake.core;
        let max_bytes = core.config().syslog.message_max_bytes;
        let mut pending = Pending::new(Rc::clone(&self.intake), Metric::SyslogUdpMessages);
        let mut senders: BTreeMap<IpAddr, mapping::Times> = BTreeMap::new();
        let mut batch = Queue::default();
        let mut dropped = 0;
        loop {
            std::mem::swap(&mut batch, &mut *self.queue.borrow_mut());
            if batch.datagrams.is_empty() {
                if self.is_done.get() {
                    return;
                }
                self.filled.wait().await;
                continue;
            }
            self.emptied.ring();
            let mut start = 0;
            for &Waiting { peer, unix_ns, end } in &batch.datagrams {
                let message = datagram(&batch.bytes[start..end], max_bytes);
                start = end;
                let Some(frame) = message else { continue };
                if senders.len() >= SENDERS_MAX && !senders.contains_key(&peer.ip()) {
                    senders.clear();
                }
                let times = senders.entry(peer.ip()).or_default();
                pending.add(&Came { frame, peer, unix_ns }, times);
            }
            pending.store(batch.sender()).await;
            batch.clear();
            // A kernel that has dropped some had others, so this is reached after each drop.
            if let Ok(now) = self.socket.dropped() {
                core.counters().numbers.add(Metric::SyslogUdpDropped, now.saturating_sub(dropped));
                dropped = now;
            }
        }
    }
}
