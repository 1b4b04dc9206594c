//! The storage engine: one shard per core, each the only owner of its streams.
//!
//! A front core turns a push into one [`batch`] per shard and sends it through a
//! lane ([`messages`]); the shard ([`shard`], driven by [`host`]) commits it to its
//! write-ahead log ([`wal`]) together with whatever arrived meanwhile, appends it
//! to the heads of its streams ([`head`]) and its label index ([`index`]), and
//! answers. Queries read snapshots beside the shard ([`scan`]). [`node`] claims the
//! data folder and decides what recovery has to replay.
//!
//! What must be absent: this crate knows nothing of HTTP, of query text, or of how
//! entries came to the node.

pub mod batch;
pub mod changes;
pub mod check;
pub mod compact;
pub mod filter;
pub mod fuzz;
pub mod head;
pub mod host;
pub(crate) mod index;
pub mod manifest;
pub mod messages;
pub mod node;
pub mod retention;
pub mod scan;
pub mod scope;
pub(crate) mod sealed;
pub mod segment;
pub mod shard;
pub mod tail;
pub mod testing;
pub mod types;
pub mod version;
pub mod wal;
