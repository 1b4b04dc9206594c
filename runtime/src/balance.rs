//! Spreads accepted connections evenly over the cores.
//!
//! The system gives a connection to one of the listeners of an address by a hash. Of
//! four connections, which is many for an agent, one core gets three or all in five of
//! eight cases. So a core that has more open connections than another passes on what it
//! accepts. Guarantees: a connection is passed on once at most, as an open socket before
//! anything is read; none is lost while the listener of its core lives. What can go
//! wrong: connections differ, and the balance is one of their number only.
//!
//! The list of listeners is behind a lock, which is held for as long as it takes to look
//! through it, once per connection and never while something is awaited.

use std::net::{self, SocketAddr};
#[expect(clippy::disallowed_types, reason = "see the module's header")]
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use crate::spare::SpareDescriptors;

/// Connections on their way to one listener; with more, cores keep what they accept.
const INBOX_CONNECTIONS: usize = 1024;

/// The listeners of all cores.
#[derive(Clone, Default)]
pub(crate) struct Balance {
    /// Locked for a moment when a listener comes or goes and when a connection is
    /// accepted.
    #[expect(clippy::disallowed_types, reason = "see the module's header")]
    doors: Arc<Mutex<Vec<Entry>>>,
    spare: SpareDescriptors,
}

struct Entry {
    address: SocketAddr,
    open: Arc<AtomicUsize>,
    inbox: flume::Sender<Arrival>,
}

/// A connection that was accepted.
pub(crate) struct Arrival {
    pub(crate) stream: net::TcpStream,
    pub(crate) address: SocketAddr,
    pub(crate) seat: Seat,
}

/// Counts a connection as one of its core's until it is dropped.
pub(crate) struct Seat(Arc<AtomicUsize>);

impl Seat {
    fn new(open: &Arc<AtomicUsize>) -> Seat {
        open.fetch_add(1, Ordering::Relaxed);
        Seat(Arc::clone(open))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One listener among those of its address.
pub(crate) struct Door {
    balance: Balance,
    address: SocketAddr,
    open: Arc<AtomicUsize>,
    inbox: flume::Receiver<Arrival>,
}

impl Balance {
    /// The door of a listener with this address.
    pub(crate) fn door(&self, address: SocketAddr) -> Door {
        self.spare.refill();
        let (sender, inbox) = flume::bounded(INBOX_CONNECTIONS);
        let open = Arc::new(AtomicUsize::new(0));
        let entry = Entry { address, open: Arc::clone(&open), inbox: sender };
        self.doors.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
        Door { balance: self.clone(), address, open, inbox }
    }
}

impl Door {
    /// Returns a connection that was accepted here, unless another listener of the address
    /// has fewer: then it goes there.
    pub(crate) fn place(&self, stream: net::TcpStream, address: SocketAddr) -> Option<Arrival> {
        let doors = self.balance.doors.lock().unwrap_or_else(PoisonError::into_inner);
        let open = |entry: &&Entry| entry.open.load(Ordering::Relaxed);
        let others = doors.iter().filter(|entry| entry.address == self.address);
        let emptiest = others.min_by_key(open);
        let here = self.open.load(Ordering::Relaxed);
        let Some(there) = emptiest.filter(|entry| open(entry) < here) else {
            return Some(Arrival { stream, address, seat: Seat::new(&self.open) });
        };
        let arrival = Arrival { stream, address, seat: Seat::new(&there.open) };
        match there.inbox.try_send(arrival) {
            Ok(()) => None,
            Err(
                flume::TrySendError::Full(arrival) | flume::TrySendError::Disconnected(arrival),
            ) => Some(Arrival { seat: Seat::new(&self.open), ..arrival }),
        }
    }

    /// Descriptors that all listeners keep together.
    pub(crate) fn spare(&self) -> &SpareDescriptors {
        &self.balance.spare
    }

    /// A connection that was accepted here and stays.
    pub(crate) fn keep(&self, stream: net::TcpStream, address: SocketAddr) -> Arrival {
        Arrival { stream, address, seat: Seat::new(&self.open) }
    }

    /// A connection that was accepted elsewhere, if one is there.
    pub(crate) fn arrived(&self) -> Option<Arrival> {
        self.inbox.try_recv().ok()
    }

    /// Waits for a connection that was accepted elsewhere, and puts it into `arrival`.
    pub(crate) async fn wait(&self, arrival: &mut Option<Arrival>) {
        match self.inbox.recv_async().await {
            Ok(arrived) => *arrival = Some(arrived),
            // The sender is in the list as long as this door.
            Err(flume::RecvError::Disconnected) => std::future::pending().await,
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let mut doors = self.balance.doors.lock().unwrap_or_else(PoisonError::into_inner);
        doors.retain(|entry| !Arc::ptr_eq(&entry.open, &self.open));
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn connection(listener: &TcpListener) -> (TcpStream, SocketAddr) {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        drop(client);
        listener.accept().unwrap()
    }

    #[test]
    fn who_has_fewest_gets_the_next() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let balance = Balance::default();
        let (here, there) = (balance.door(address), balance.door(address));
        let elsewhere = balance.door("127.0.0.1:1".parse().unwrap());
        let mut kept = Vec::new();
        for _ in 0..6 {
            let (stream, peer) = connection(&listener);
            kept.extend(here.place(stream, peer));
        }
        assert_eq!(kept.len(), 3);
        let passed: Vec<Arrival> = std::iter::from_fn(|| there.arrived()).collect();
        assert_eq!(passed.len(), 3);
        assert!(elsewhere.arrived().is_none(), "another address is another service");

        // Who has gone makes room.
        kept.truncate(1);
        for _ in 0..2 {
            let (stream, peer) = connection(&listener);
            kept.extend(here.place(stream, peer));
        }
        assert!(there.arrived().is_none());
        drop(passed);
        let (stream, peer) = connection(&listener);
        assert!(here.place(stream, peer).is_none());
        assert!(there.arrived().is_some());

        // A listener that has gone gets nothing.
        drop(there);
        let (stream, peer) = connection(&listener);
        assert!(here.place(stream, peer).is_some());
    }
}
