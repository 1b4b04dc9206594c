//! Who is alive and where: nodes tell each other by gossip, or by keys in etcd.
//!
//! All of it is a hint. Who may write what is decided by objects in the bucket, so a membership that
//! lies makes things slow, and never wrong. `docs/design/membership.md` tells what holds and by when.
//!
//! - [`settings`], [`join_address`]: what an operator says.
//! - [`identity`], [`vitals`]: who a member is, and what it tells of itself.
//! - [`wire`]: the bytes of messages.
//! - [`engine`]: the machine, without I/O.
//! - [`members`]: the list that others see, on all cores.
//! - [`membership`]: a node's own handle.
//! - [`driver`]: the tasks that give the machine sockets and time.
//! - [`etcd`]: the same by keys in etcd.
//!
//! What must be absent: partitions, objects, readiness. A node is ready whoever else lives.

pub mod driver;
pub mod engine;
pub mod etcd;
pub mod identity;
pub mod join_address;
pub mod members;
pub mod membership;
pub mod settings;
pub mod vitals;
pub mod wire;
