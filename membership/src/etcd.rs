//! Membership by keys in etcd, in place of gossip: over etcd's JSON gateway, which speaks HTTP/1.1.
//!
//! Each node keeps a key `<prefix>instances/<name>` with what it tells of itself, under a lease of
//! [`LEASE`], and reads the keys of all each [`ROUND_EVERY`]. Whose key is gone is dead, since its lease has
//! ended.
//!
//! Guarantees: while etcd does not answer, the list stays as it was: nobody is taken for dead for that, nor
//! within [`GRACE`] of its return, in which others renew their leases. A node whose lease was lost makes a new
//! one. Who leaves in order is gone, and never shown as dead. Each request has a deadline, and each answer a
//! limit; whatever etcd holds, a node neither stops nor grows without a bound.
//!
//! What can go wrong: a node does not reach etcd. Then its lease ends, and others take it for dead. Two living
//! nodes have one name: the key is that of the one that has started last.

mod api;
mod client;
mod driver;
mod roster;
mod settings;

pub use driver::{EtcdStartError, start};
pub use settings::EtcdSettings;

use std::time::Duration;

/// How long a key outlives the last sign of life of its node.
pub const LEASE: Duration = Duration::from_secs(5);

/// How often a node renews its lease and reads all keys.
pub const ROUND_EVERY: Duration = Duration::from_secs(1);

/// How long nobody is taken for dead after an outage of etcd.
pub const GRACE: Duration = Duration::from_secs(10);
