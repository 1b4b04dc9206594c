//! The table of hosts of the simulation, which stands for the resolver of the system.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// What looking a host up gives, and how long it takes.
#[derive(Clone)]
struct Entry {
    answer: Result<Vec<IpAddr>, io::ErrorKind>,
    delay: Duration,
}

/// Hosts by their names in lower case.
#[derive(Default)]
pub(super) struct Hosts {
    entries: RefCell<BTreeMap<String, Entry>>,
}

impl Hosts {
    pub(super) fn set(
        &self,
        host: &str,
        answer: Result<Vec<IpAddr>, io::ErrorKind>,
        delay: Duration,
    ) {
        self.entries.borrow_mut().insert(host.to_ascii_lowercase(), Entry { answer, delay });
    }

    /// The answer for a host, and the time that it takes.
    pub(super) fn look_up(&self, host: &str) -> (io::Result<Vec<IpAddr>>, Duration) {
        if let Ok(address) = host.parse() {
            return (Ok(vec![address]), Duration::ZERO);
        }
        let host = host.to_ascii_lowercase();
        match self.entries.borrow().get(&host) {
            Some(Entry { answer: Ok(addresses), delay }) if !addresses.is_empty() => {
                (Ok(addresses.clone()), *delay)
            }
            Some(Entry { answer: Err(kind), delay }) => (Err((*kind).into()), *delay),
            None if host == "localhost" => (Ok(vec![Ipv4Addr::LOCALHOST.into()]), Duration::ZERO),
            entry => {
                let delay = entry.map_or(Duration::ZERO, |entry| entry.delay);
                (Err(io::Error::new(io::ErrorKind::NotFound, "no such host")), delay)
            }
        }
    }
}
