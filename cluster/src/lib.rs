//! The rules by which many nodes share one bucket.
//!
//! All of it is machines without I/O, clocks and chance: they take what has happened and when, and
//! give what is to be done. Who drives them talks to the store and to other nodes.
//! `docs/design/cluster.md` tells the protocol, and why it is safe.
//!
//! - [`map`]: who is there and owns which partition, and which map may follow which.
//! - [`plan`](mod@plan): who should own what.
//! - [`member`]: a node: takes over, hands over, and knows what it may do.
//! - [`asker`]: a query over all owners, as of one instant each.
//! - [`router`]: a push on its way to the owner.

pub mod asker;
pub mod map;
pub mod member;
mod pause;
pub mod plan;
mod proof;
pub mod router;
pub mod settings;
