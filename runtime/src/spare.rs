//! Descriptors that a listener keeps for the time when the process has no others.
//!
//! Without descriptors nothing can be accepted, and clients would hang without a word. So a
//! listener holds a few that nobody needs, and gives one up for a connection that is told so
//! and closed. What can go wrong: another thread takes the descriptor in between; then the
//! connection has to wait for the next one.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::net::{self, SocketAddr};

use crate::socket;

/// Descriptors of one listener.
const SPARE_COUNT: usize = 4;

pub(crate) struct SpareDescriptors {
    held: RefCell<Vec<File>>,
}

impl SpareDescriptors {
    pub(crate) fn new() -> SpareDescriptors {
        let spare = SpareDescriptors { held: RefCell::default() };
        spare.refill();
        spare
    }

    /// Takes descriptors until there are enough. True if there are.
    pub(crate) fn refill(&self) -> bool {
        let mut held = self.held.borrow_mut();
        while held.len() < SPARE_COUNT {
            // Fails if there are none, which is what the spare ones are for.
            let Ok(file) = File::open("/dev/null") else { return false };
            held.push(file);
        }
        true
    }

    /// Gives one up, so that something else may have it. False if there is none.
    pub(crate) fn release(&self) -> bool {
        let spare = self.held.borrow_mut().pop();
        spare.is_some()
    }

    /// Accepts with one of them, without waiting: `None` if nobody is there.
    ///
    /// # Errors
    /// All are in use, or those of [`socket::accept`].
    pub(crate) fn accept(
        &self,
        listener: &net::TcpListener,
    ) -> io::Result<Option<(net::TcpStream, SocketAddr)>> {
        if !self.release() {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        let accepted = socket::accept(listener);
        if !matches!(accepted, Ok(Some(_))) {
            self.refill();
        }
        accepted
    }
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
        let spare = SpareDescriptors::new();
        assert!(spare.accept(&listener).unwrap().is_none());
        assert_eq!(spare.held.borrow().len(), SPARE_COUNT);
        let clients: Vec<_> =
            (0..=SPARE_COUNT).map(|_| net::TcpStream::connect(address).unwrap()).collect();
        let mut accepted = Vec::new();
        for _ in 0..SPARE_COUNT {
            accepted.push(spare.accept(&listener).unwrap().expect("a connection waits"));
        }
        let error = spare.accept(&listener).err().expect("all are in use");
        assert!(is_lack_of_descriptors(&error));
        assert!(spare.refill());
        assert!(spare.accept(&listener).unwrap().is_some());
        drop(clients);
    }
}
