//! Datagrams of the simulated network.
//!
//! Each datagram takes its own time on the wire, so it may overtake others. It may get lost there
//! at a rate that is zero unless set, or arrive twice at another rate, or meet a cut link. One that
//! finds its socket full is dropped and counted. One
//! to an address without a socket vanishes. Sockets that share an address share the senders by
//! their ports, as the kernel does by a hash.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::task::{Poll, Waker};

use super::random::Random;
use super::runtime::SimRuntime;
use super::world::NodeId;
use crate::{Datagram, Datagrams};

/// The longest datagram that IPv4 can carry.
const LONGEST_DATAGRAM: usize = 65_507;

/// What the system counts for a datagram besides its content.
const OVERHEAD_BYTES: usize = 256;

/// All sockets of the network.
pub(super) struct Sockets {
    random: Random,
    bound: RefCell<Vec<Rc<Inbox>>>,
    pub(super) loss_per_million: Cell<u32>,
    pub(super) double_per_million: Cell<u32>,
}

/// The datagrams that nobody has received from a socket.
struct Inbox {
    node: NodeId,
    address: SocketAddr,
    buffer_bytes: usize,
    waiting: RefCell<VecDeque<(Vec<u8>, SocketAddr)>>,
    used_bytes: Cell<usize>,
    dropped: Cell<u64>,
    receiver: Cell<Option<Waker>>,
}

impl Sockets {
    pub(super) fn new(seed: u64) -> Sockets {
        Sockets {
            random: Random::derive(seed, 4),
            bound: RefCell::default(),
            loss_per_million: Cell::new(0),
            double_per_million: Cell::new(0),
        }
    }

    pub(super) fn has_port(&self, port: u16) -> bool {
        self.bound.borrow().iter().any(|inbox| inbox.address.port() == port)
    }

    /// The socket that a datagram reaches.
    fn find(&self, sender: SocketAddr, receiver: SocketAddr) -> Option<Rc<Inbox>> {
        let bound = self.bound.borrow();
        let hears = |inbox: &&Rc<Inbox>| {
            let ip = inbox.address.ip();
            inbox.address.port() == receiver.port() && (ip == receiver.ip() || ip.is_unspecified())
        };
        let count = bound.iter().filter(hears).count();
        let place = usize::from(sender.port()).checked_rem(count)?;
        bound.iter().filter(hears).nth(place).map(Rc::clone)
    }
}

impl Inbox {
    /// Takes a datagram that has come.
    fn arrive(&self, bytes: Vec<u8>, sender: SocketAddr) {
        let used_bytes = self.used_bytes.get() + bytes.len() + OVERHEAD_BYTES;
        if used_bytes > self.buffer_bytes {
            self.dropped.set(self.dropped.get() + 1);
            return;
        }
        self.used_bytes.set(used_bytes);
        self.waiting.borrow_mut().push_back((bytes, sender));
        if let Some(waker) = self.receiver.take() {
            waker.wake();
        }
    }

    fn take(&self, buffer: &mut Vec<u8>) -> Option<Datagram> {
        let (bytes, sender) = self.waiting.borrow_mut().pop_front()?;
        self.used_bytes.set(self.used_bytes.get() - bytes.len() - OVERHEAD_BYTES);
        let room = buffer.capacity() - buffer.len();
        buffer.extend_from_slice(&bytes[..bytes.len().min(room)]);
        Some(Datagram { sender, len_bytes: bytes.len() })
    }
}

/// A UDP socket of the simulation.
pub struct SimDatagrams {
    runtime: SimRuntime,
    inbox: Rc<Inbox>,
}

impl SimDatagrams {
    pub(super) fn bind(
        runtime: &SimRuntime,
        mut address: SocketAddr,
        buffer_bytes: usize,
    ) -> SimDatagrams {
        if address.port() == 0 {
            address.set_port(runtime.network.free_port());
        }
        let inbox = Rc::new(Inbox {
            node: runtime.node.id,
            address,
            buffer_bytes,
            waiting: RefCell::default(),
            used_bytes: Cell::new(0),
            dropped: Cell::new(0),
            receiver: Cell::new(None),
        });
        runtime.network.datagrams.bound.borrow_mut().push(Rc::clone(&inbox));
        SimDatagrams { runtime: runtime.clone(), inbox }
    }

    fn put_on_the_wire(&self, bytes: Vec<u8>, receiver: SocketAddr) {
        let (network, world) = (Rc::clone(&self.runtime.network), Rc::clone(&self.runtime.world));
        let (sender, node) = (self.shown_address(), self.runtime.node.id);
        let delay_nanos = network.delay_nanos();
        // It belongs to no node: it is on the wire, whatever happens to its sender.
        self.runtime.world.schedule(None, delay_nanos, move |_| {
            world.note(bytes.len() as u64);
            if let Some(inbox) = network.datagrams.find(sender, receiver)
                && !network.is_cut(node, inbox.node)
            {
                inbox.arrive(bytes, sender);
            }
        });
    }

    /// The address that receivers see.
    fn shown_address(&self) -> SocketAddr {
        let mut address = self.inbox.address;
        if address.ip().is_unspecified() {
            address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
        }
        address
    }
}

impl Datagrams for SimDatagrams {
    async fn receive(&self, mut buffer: Vec<u8>) -> (io::Result<Datagram>, Vec<u8>) {
        if buffer.len() == buffer.capacity() {
            return (Err(io::ErrorKind::InvalidInput.into()), buffer);
        }
        self.runtime.network.step_aside().await;
        let datagram = poll_fn(|cx| match self.inbox.take(&mut buffer) {
            Some(datagram) => Poll::Ready(datagram),
            None => {
                self.inbox.receiver.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        })
        .await;
        (Ok(datagram), buffer)
    }

    fn send(&self, bytes: &[u8], receiver: SocketAddr) -> io::Result<()> {
        if bytes.len() > LONGEST_DATAGRAM {
            return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
        }
        let network = Rc::clone(&self.runtime.network);
        let sockets = &network.datagrams;
        if sockets.random.per_million(sockets.loss_per_million.get()) {
            return Ok(());
        }
        if sockets.random.per_million(sockets.double_per_million.get()) {
            self.put_on_the_wire(bytes.to_vec(), receiver);
        }
        self.put_on_the_wire(bytes.to_vec(), receiver);
        Ok(())
    }

    fn dropped(&self) -> io::Result<u64> {
        Ok(self.inbox.dropped.get())
    }

    fn buffer_bytes(&self) -> io::Result<usize> {
        Ok(self.inbox.buffer_bytes)
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        Ok(self.inbox.address)
    }
}

impl Drop for SimDatagrams {
    fn drop(&mut self) {
        let bound = &self.runtime.network.datagrams.bound;
        bound.borrow_mut().retain(|inbox| !Rc::ptr_eq(inbox, &self.inbox));
    }
}
