//! Who a member is: one life of a node at an address.
//!
//! Guarantees: a process that starts anew, or comes back after it was taken for dead, has an identity
//! that replaces its former one at the same address.
//!
//! What can go wrong: the wall clock goes back between two starts. Then the new life is the older one
//! by its generation, until it hears of the former one and takes a higher generation
//! ([`Identity::above`]). Two processes that advertise one address take it from each other, over and
//! over.

use std::net::{IpAddr, SocketAddr};

/// Generations are below this.
pub(crate) const GENERATION_END: u64 = 1 << 48;

/// One life of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity {
    /// Where it hears gossip and exchanges states.
    pub address: SocketAddr,
    /// At the start of the process the time in ms since the Unix epoch.
    pub generation: u64,
    /// A random number of the process.
    pub chance: u64,
}

impl Identity {
    /// The identity of a process that starts at this time, in ns since the Unix epoch.
    #[must_use]
    pub fn at_start(address: SocketAddr, unix_nanos: i64, chance: u64) -> Identity {
        let unix_ms = u64::try_from(unix_nanos / 1_000_000).unwrap_or(0);
        Identity { address: plain(address), generation: unix_ms.min(GENERATION_END - 1), chance }
    }

    /// Whether it is a later life at the address than the other one.
    #[must_use]
    pub fn is_newer_than(&self, other: &Identity) -> bool {
        (self.generation, self.chance) > (other.generation, other.chance)
    }

    /// This identity with a generation that replaces `other`, if there is one.
    #[must_use]
    pub fn above(&self, other: &Identity) -> Option<Identity> {
        let generation = self.generation.max(other.generation) + 1;
        (generation < GENERATION_END).then_some(Identity { generation, ..*self })
    }
}

impl foca::Identity for Identity {
    type Addr = SocketAddr;

    fn renew(&self) -> Option<Identity> {
        self.above(self)
    }

    fn addr(&self) -> SocketAddr {
        self.address
    }

    fn win_addr_conflict(&self, adversary: &Identity) -> bool {
        self.is_newer_than(adversary)
    }
}

/// The one form of an address: IPv4 as such, and nothing besides IP address and port.
#[must_use]
pub(crate) fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Whether others can reach a member at the address, and it is in its one form.
#[must_use]
pub(crate) fn is_reachable(address: SocketAddr) -> bool {
    let is_one_form = match address.ip() {
        IpAddr::V4(_) => true,
        IpAddr::V6(ip) => ip.to_ipv4_mapped().is_none(),
    };
    address.port() != 0 && !address.ip().is_unspecified() && is_one_form
}

#[cfg(test)]
mod tests {
    use foca::Identity as _;

    use super::*;

    fn identity(generation: u64, chance: u64) -> Identity {
        Identity { address: ([10, 0, 0, 1], 7946).into(), generation, chance }
    }

    #[test]
    fn a_later_life_replaces_the_former_one() {
        let first = Identity::at_start(([10, 0, 0, 1], 7946).into(), 5_000_000, 9);
        assert_eq!(first, identity(5, 9));
        assert!(identity(6, 1).is_newer_than(&first) && !first.is_newer_than(&identity(6, 1)));
        assert!(identity(5, 10).win_addr_conflict(&first) && !first.win_addr_conflict(&first));
        assert!(first.renew().is_some_and(|next| next.is_newer_than(&first)));
    }

    #[test]
    fn a_clock_that_went_back_is_made_up_for() {
        let former = identity(1_000_000, 77);
        let me = identity(400, 3);
        assert_eq!(me.above(&former), Some(identity(1_000_001, 3)));
        assert_eq!(identity(GENERATION_END - 1, 0).renew(), None);
        let early = Identity::at_start(former.address, -5, 1);
        assert_eq!(early.generation, 0);
    }

    #[test]
    fn an_address_has_one_form() {
        let mapped: SocketAddr = "[::ffff:10.0.0.1]:7946".parse().expect("an address");
        assert!(!is_reachable(mapped) && is_reachable(plain(mapped)));
        assert_eq!(plain(mapped), identity(0, 0).address);
        assert!(!is_reachable(([10, 0, 0, 1], 0).into()));
        assert!(!is_reachable(([0, 0, 0, 0], 7946).into()));
    }
}
