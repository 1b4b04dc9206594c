//! Spreads accepted connections evenly over the cores.
//!
//! The system chooses a listener of an address for each connection by a hash. Of four
//! connections, which is many for an agent, one core gets three or four in five of eight cases.
//! So a core that has more open connections than another one passes an accepted connection on.
//!
//! Guarantees: a connection is passed on at most once, as an open socket, before any of its bytes
//! are read. No connection is lost while the listener of its core lives. What can go wrong:
//! connections carry unequal load, and only their number is balanced.
//!
//! A mutex guards the list of listeners (ARCHITECTURE.md, *Locks*). A core holds it while it looks
//! through the list, once for each connection, and never across an await.

use std::net::{self, SocketAddr};
#[expect(clippy::disallowed_types, reason = "see the module's header")]
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use crate::spare::SpareDescriptors;

/// Most connections on their way to one listener. When they are as many, cores keep the connections
/// that they accept.
const INBOX_CONNECTIONS: usize = 1024;

/// The listeners of all cores.
#[derive(Clone, Default)]
pub(crate) struct Balance {
    /// Locked for a moment when a listener comes or goes and when a connection is
    /// accepted.
    #[expect(clippy::disallowed_types, reason = "see the module's header")]
    listeners: Arc<Mutex<Vec<Entry>>>,
    spare: SpareDescriptors,
}

struct Entry {
    address: SocketAddr,
    open: Arc<AtomicUsize>,
    inbox: flume::Sender<Accepted>,
}

/// A connection that was accepted.
pub(crate) struct Accepted {
    pub(crate) stream: net::TcpStream,
    pub(crate) address: SocketAddr,
    pub(crate) open_connection: OpenConnection,
}

/// Counts a connection as one of its core's until it is dropped.
pub(crate) struct OpenConnection(Arc<AtomicUsize>);

impl OpenConnection {
    fn new(open: &Arc<AtomicUsize>) -> OpenConnection {
        open.fetch_add(1, Ordering::Relaxed);
        OpenConnection(Arc::clone(open))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One of the listeners of an address.
pub(crate) struct BalancedListener {
    balance: Balance,
    address: SocketAddr,
    open: Arc<AtomicUsize>,
    inbox: flume::Receiver<Accepted>,
}

impl Balance {
    /// A listener with this address.
    pub(crate) fn listener(&self, address: SocketAddr) -> BalancedListener {
        self.spare.refill();
        let (sender, inbox) = flume::bounded(INBOX_CONNECTIONS);
        let open = Arc::new(AtomicUsize::new(0));
        let entry = Entry { address, open: Arc::clone(&open), inbox: sender };
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
        BalancedListener { balance: self.clone(), address, open, inbox }
    }
}

impl BalancedListener {
    /// Returns a connection that was accepted here, or passes it on to a listener of the
    /// address with fewer connections.
    pub(crate) fn assign(&self, stream: net::TcpStream, address: SocketAddr) -> Option<Accepted> {
        let listeners = self.balance.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let open = |entry: &&Entry| entry.open.load(Ordering::Relaxed);
        let others = listeners.iter().filter(|entry| entry.address == self.address);
        let emptiest = others.min_by_key(open);
        let here = self.open.load(Ordering::Relaxed);
        let Some(there) = emptiest.filter(|entry| open(entry) < here) else {
            return Some(Accepted {
                stream,
                address,
                open_connection: OpenConnection::new(&self.open),
            });
        };
        let accepted =
            Accepted { stream, address, open_connection: OpenConnection::new(&there.open) };
        match there.inbox.try_send(accepted) {
            Ok(()) => None,
            Err(
                flume::TrySendError::Full(accepted) | flume::TrySendError::Disconnected(accepted),
            ) => Some(Accepted { open_connection: OpenConnection::new(&self.open), ..accepted }),
        }
    }

    /// Descriptors that all listeners keep together.
    pub(crate) fn spare(&self) -> &SpareDescriptors {
        &self.balance.spare
    }

    /// A connection that was accepted here and stays.
    pub(crate) fn keep(&self, stream: net::TcpStream, address: SocketAddr) -> Accepted {
        Accepted { stream, address, open_connection: OpenConnection::new(&self.open) }
    }

    /// A connection that was accepted elsewhere, if one is there.
    pub(crate) fn arrived(&self) -> Option<Accepted> {
        self.inbox.try_recv().ok()
    }

    /// Waits for a connection that was accepted elsewhere, and puts it into `accepted`.
    pub(crate) async fn wait(&self, accepted: &mut Option<Accepted>) {
        match self.inbox.recv_async().await {
            Ok(arrived) => *accepted = Some(arrived),
            // The sender is in the list as long as this listener.
            Err(flume::RecvError::Disconnected) => std::future::pending().await,
        }
    }
}

impl Drop for BalancedListener {
    fn drop(&mut self) {
        let mut listeners = self.balance.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|entry| !Arc::ptr_eq(&entry.open, &self.open));
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
        let (here, there) = (balance.listener(address), balance.listener(address));
        let elsewhere = balance.listener("127.0.0.1:1".parse().unwrap());
        let mut kept = Vec::new();
        for _ in 0..6 {
            let (stream, peer) = connection(&listener);
            kept.extend(here.assign(stream, peer));
        }
        assert_eq!(kept.len(), 3);
        let passed: Vec<Accepted> = std::iter::from_fn(|| there.arrived()).collect();
        assert_eq!(passed.len(), 3);
        assert!(elsewhere.arrived().is_none(), "another address is another service");

        // A closed connection makes room.
        kept.truncate(1);
        for _ in 0..2 {
            let (stream, peer) = connection(&listener);
            kept.extend(here.assign(stream, peer));
        }
        assert!(there.arrived().is_none());
        drop(passed);
        let (stream, peer) = connection(&listener);
        assert!(here.assign(stream, peer).is_none());
        assert!(there.arrived().is_some());

        // A listener that has gone gets nothing.
        drop(there);
        let (stream, peer) = connection(&listener);
        assert!(here.assign(stream, peer).is_some());
    }
}
