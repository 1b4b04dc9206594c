//! The simulated network: addresses, listeners, connecting.
//!
//! All nodes share one host: all listeners of an address share it (`SO_REUSEPORT`), and connections
//! spread over them at random. A connection to an address without a listener is refused; one to a
//! full accept queue waits and tries again, until its deadline. Accepting can be made to fail.
//!
//! Links between nodes can be cut, in one direction or both. Nothing that was sent arrives then: a
//! datagram is lost, a connection that is being opened waits, and bytes of an open one come when the
//! link is whole again. Only resets pass.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use super::datagrams::Sockets;
use super::hosts::Hosts;
use super::random::Random;
use super::runtime::SimRuntime;
use super::stream::{Endpoint, SimReader, SimWriter, connection};
use super::timer::Timer;
use super::world::NodeId;
use crate::{Listener, Monotonic, Runtime};

/// Time on the wire, in nanoseconds; one parcel in 64 takes thirty times as long.
const DELAY_NANOS: RangeInclusive<u64> = 3_000..=100_000;
const SLOW_ONE_IN: u64 = 64;
const SLOW_FACTOR: u64 = 30;

/// Once in so many times, a socket operation that need not wait lets other tasks run first, as the
/// real backends do.
const STEP_ASIDE_ONE_IN: u64 = 4;

/// When a connection attempt that found a full queue is repeated.
const RETRY_AFTER: Duration = Duration::from_secs(1);

const FIRST_FREE_PORT: u16 = 32_768;

pub(super) struct Network {
    random: Random,
    listeners: RefCell<Vec<Rc<Queue>>>,
    next_port: Cell<u16>,
    pub(super) hosts: Hosts,
    pub(super) datagrams: Sockets,
    failing_accepts_count: Cell<u64>,
    /// The capacity of one direction of a connection, in bytes that its reader has not taken.
    pub(super) buffer_bytes: RefCell<RangeInclusive<u64>>,
    /// Connections that wait to be accepted, for one listener.
    pub(super) backlog_connections: Cell<usize>,
    /// Links that are cut: from, to.
    cuts: RefCell<BTreeSet<(NodeId, NodeId)>>,
}

/// The connections of one listener that wait to be accepted.
struct Queue {
    node: NodeId,
    address: SocketAddr,
    waiting: RefCell<VecDeque<(Endpoint, SocketAddr)>>,
    acceptors: RefCell<Vec<Waker>>,
}

impl Network {
    pub(super) fn new(seed: u64) -> Network {
        Network {
            random: Random::derive(seed, 3),
            listeners: RefCell::default(),
            next_port: Cell::new(FIRST_FREE_PORT),
            hosts: Hosts::default(),
            datagrams: Sockets::new(seed),
            failing_accepts_count: Cell::new(0),
            buffer_bytes: RefCell::new(64 << 10..=512 << 10),
            backlog_connections: Cell::new(4096),
            cuts: RefCell::default(),
        }
    }

    pub(super) fn fail_next_accepts(&self, count: u64) {
        self.failing_accepts_count.set(count);
    }

    pub(super) fn cut(&self, from: NodeId, to: NodeId) {
        self.cuts.borrow_mut().insert((from, to));
    }

    pub(super) fn heal(&self) {
        self.cuts.borrow_mut().clear();
    }

    /// Whether nothing arrives that is sent from one node to the other.
    pub(super) fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.cuts.borrow().contains(&(from, to))
    }

    pub(super) fn delay_nanos(&self) -> u64 {
        let usual_nanos = self.random.within(&DELAY_NANOS);
        if self.random.one_in(SLOW_ONE_IN) { usual_nanos * SLOW_FACTOR } else { usual_nanos }
    }

    pub(super) fn buffer_bytes(&self) -> usize {
        self.random.within(&self.buffer_bytes.borrow()).max(1) as usize
    }

    /// Before a socket operation: sometimes lets others run.
    pub(super) async fn step_aside(&self) {
        let mut goes_on = !self.random.one_in(STEP_ASIDE_ONE_IN);
        poll_fn(|cx| {
            if goes_on {
                return Poll::Ready(());
            }
            goes_on = true;
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    pub(super) fn coin(&self) -> bool {
        self.random.one_in(2)
    }

    /// How much of `possible` (at least one) moves at once.
    pub(super) fn piece(&self, possible: usize, short_one_in: u64) -> usize {
        if self.random.one_in(short_one_in) { 1 + self.random.index(possible) } else { possible }
    }

    pub(super) fn free_port(&self) -> u16 {
        loop {
            let port = self.next_port.get();
            self.next_port.set(port.checked_add(1).unwrap_or(FIRST_FREE_PORT));
            let is_free = self.listeners.borrow().iter().all(|queue| queue.address.port() != port);
            if is_free && !self.datagrams.has_port(port) {
                return port;
            }
        }
    }

    pub(super) fn listen(
        self: &Rc<Self>,
        runtime: &SimRuntime,
        mut address: SocketAddr,
    ) -> io::Result<SimListener> {
        if address.port() == 0 {
            address.set_port(self.free_port());
        }
        let queue = Rc::new(Queue {
            node: runtime.node.id,
            address,
            waiting: RefCell::default(),
            acceptors: RefCell::default(),
        });
        self.listeners.borrow_mut().push(Rc::clone(&queue));
        Ok(SimListener { runtime: runtime.clone(), queue })
    }

    pub(super) async fn connect(
        runtime: &SimRuntime,
        address: SocketAddr,
        deadline: Monotonic,
    ) -> io::Result<(SimReader, SimWriter)> {
        let mut timer = Timer::new(Rc::clone(&runtime.world));
        let right = runtime.right(deadline);
        loop {
            let knocking = runtime.clone();
            let delay_nanos = runtime.network.delay_nanos();
            let mut answer = runtime.submit(delay_nanos, move |_| knocking.knock(address));
            let attempt = poll_fn(|cx| {
                if timer.poll(right, cx).is_ready() {
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
                Pin::new(&mut answer).poll(cx)
            });
            if let Some(endpoint) = attempt.await? {
                return Ok(endpoint.split());
            }
            runtime.sleep_until(runtime.now().after(RETRY_AFTER).min(deadline)).await;
        }
    }
}

impl SimRuntime {
    /// Arrives at a listener. `None` if its queue is full, or the link is cut.
    fn knock(&self, address: SocketAddr) -> io::Result<Option<Endpoint>> {
        let network = &self.network;
        let hears = |queue: &&Rc<Queue>| {
            let ip = queue.address.ip();
            queue.address.port() == address.port() && (ip == address.ip() || ip.is_unspecified())
        };
        let listeners: Vec<Rc<Queue>> =
            network.listeners.borrow().iter().filter(hears).map(Rc::clone).collect();
        if listeners.is_empty() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let queue = &listeners[network.random.index(listeners.len())];
        let is_cut =
            network.is_cut(self.node.id, queue.node) || network.is_cut(queue.node, self.node.id);
        if is_cut || queue.waiting.borrow().len() >= network.backlog_connections.get() {
            return Ok(None);
        }
        let (near, far) = connection(&self.world, network, (self.node.id, queue.node));
        far.unaccepted.set(true);
        let ip = if address.ip().is_unspecified() {
            IpAddr::V4(Ipv4Addr::LOCALHOST)
        } else {
            address.ip()
        };
        queue.waiting.borrow_mut().push_back((far, SocketAddr::new(ip, network.free_port())));
        let acceptors = queue.acceptors.take();
        acceptors.into_iter().for_each(Waker::wake);
        Ok(Some(near))
    }
}

/// A listener of the simulation.
pub struct SimListener {
    runtime: SimRuntime,
    queue: Rc<Queue>,
}

impl Listener for SimListener {
    type Reader = SimReader;
    type Writer = SimWriter;

    async fn accept(&self) -> io::Result<(SimReader, SimWriter, SocketAddr)> {
        self.runtime.network.step_aside().await;
        let failing = &self.runtime.network.failing_accepts_count;
        poll_fn(|cx| {
            if failing.get() > 0 {
                failing.set(failing.get() - 1);
                return Poll::Ready(Err(io::Error::from_raw_os_error(libc::EMFILE)));
            }
            match self.queue.waiting.borrow_mut().pop_front() {
                Some((endpoint, address)) => {
                    endpoint.unaccepted.set(false);
                    let (reader, writer) = endpoint.split();
                    Poll::Ready(Ok((reader, writer, address)))
                }
                None => {
                    self.queue.acceptors.borrow_mut().push(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        Ok(self.queue.address)
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let listeners = &self.runtime.network.listeners;
        listeners.borrow_mut().retain(|queue| !Rc::ptr_eq(queue, &self.queue));
        let unaccepted = self.queue.waiting.take();
        drop(unaccepted);
    }
}
