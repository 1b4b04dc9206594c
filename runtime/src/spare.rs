//! Spare descriptors, for the time when the process has no others.
//!
//! Without a descriptor a listener cannot accept, and clients would hang without an answer. So
//! the listeners of a process hold a few spare descriptors, and give one up for a connection
//! that gets an error and is closed. The listeners share them: while one is missing, no
//! connection stays open, so that one listener's connection cannot keep the descriptor of
//! another one. What can go wrong: another part of the process takes a descriptor in between,
//! for example to open a file. Then connections wait until a descriptor is free again.

use std::fs::File;
use std::io;
use std::net::{self, SocketAddr};

use crate::socket;

/// Descriptors that are kept.
const SPARE_COUNT: usize = 8;

/// See the module. Clones share them.
#[derive(Clone)]
pub(crate) struct SpareDescriptors {
    sender: flume::Sender<File>,
    receiver: flume::Receiver<File>,
}

impl Default for SpareDescriptors {
    fn default() -> SpareDescriptors {
        let (sender, receiver) = flume::bounded(SPARE_COUNT);
        SpareDescriptors { sender, receiver }
    }
}

impl SpareDescriptors {
    /// Takes descriptors until there are enough. True if there are.
    #[expect(clippy::disallowed_methods, reason = "it touches no disk, and never blocks")]
    pub(crate) fn refill(&self) -> bool {
        while !self.sender.is_full() {
            // Fails if the process has no descriptors left. The spare ones are for this case.
            let Ok(file) = File::open("/dev/null") else { return false };
            if self.sender.try_send(file).is_err() {
                // Another thread was faster.
                return true;
            }
        }
        true
    }

    /// Accepts without waiting, unless a spare descriptor is missing.
    ///
    /// # Errors
    /// The process has no descriptors left, or an error of [`socket::accept`].
    pub(crate) fn accept_if_all(
        &self,
        listener: &net::TcpListener,
    ) -> io::Result<Option<(net::TcpStream, SocketAddr)>> {
        if self.refill() { socket::accept(listener) } else { Err(lack()) }
    }

    /// Gives a spare descriptor up for another use. False if no spare descriptor is left.
    pub(crate) fn release(&self) -> bool {
        self.receiver.try_recv().is_ok()
    }

    /// Accepts with a spare descriptor, without waiting: `None` if no connection waits.
    ///
    /// # Errors
    /// All spare descriptors are in use, or an error of [`socket::accept`].
    pub(crate) fn accept(
        &self,
        listener: &net::TcpListener,
    ) -> io::Result<Option<(net::TcpStream, SocketAddr)>> {
        if !self.release() {
            return Err(lack());
        }
        let accepted = socket::accept(listener);
        if !matches!(accepted, Ok(Some(_))) {
            self.refill();
        }
        accepted
    }
}

fn lack() -> io::Error {
    io::Error::from_raw_os_error(libc::EMFILE)
}

/// Whether an error says that the process, or the system, has no descriptors left.
pub fn is_lack_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spare_one_is_used_for_a_connection_only() {
        let listener = socket::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let spare = SpareDescriptors::default();
        assert!(spare.refill());
        assert!(spare.accept(&listener).unwrap().is_none());
        assert_eq!(spare.receiver.len(), SPARE_COUNT);
        let clients: Vec<_> =
            (0..=SPARE_COUNT).map(|_| net::TcpStream::connect(address).unwrap()).collect();
        let mut accepted = Vec::new();
        for _ in 0..SPARE_COUNT {
            accepted.push(spare.accept(&listener).unwrap().expect("a connection waits"));
        }
        let error = spare.accept(&listener).expect_err("all are in use");
        assert!(is_lack_of_descriptors(&error));
        assert!(spare.clone().refill());
        assert!(spare.accept_if_all(&listener).unwrap().is_some());
        drop(clients);
    }
}
