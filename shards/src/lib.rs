//! The storage engine: one shard per core, each the only owner of its streams.
//!
//! A front core turns a push into one batch per shard and sends it through a lane ([`messages`]).
//! The shard ([`shard`], driven by [`host`]) commits the batch to its write-ahead log ([`wal`]),
//! together with the batches that arrived meanwhile, appends it to the heads of its streams and to
//! its label index, and answers. Queries read snapshots beside the shard ([`scan`]). [`node`]
//! claims the data folder and decides which log files recovery replays.
//!
//! The modules are floors. A module imports modules of lower floors only; `ci layers` checks
//! this. From the bottom: [`types`], [`changes`]; `index`, [`scope`]; [`deletion`]; [`kept`], [`wal`];
//! [`manifest`], [`sink`]; [`ledger`]; [`retention`]; [`node`]; `sealed`, [`check`], [`backup`]; [`compact`]; [`scan`]; [`tail`];
//! [`messages`]; `lanes`, [`shard`]; [`host`]; [`follower`]; [`member`]; [`common`];
//! [`keeper`].
//!
//! This crate knows nothing of HTTP, or of the protocols by which entries come to the node. It
//! parses query text for one purpose: requests for deletion are recorded as text.

pub mod backup;
pub mod changes;
pub mod check;
pub mod common;
pub mod compact;
pub mod deletion;
pub mod follower;
#[doc(hidden)]
pub mod fuzz;
pub mod host;
pub(crate) mod index;
pub mod keeper;
pub mod kept;
mod lanes;
pub mod ledger;
pub mod manifest;
pub mod member;
pub mod messages;
pub mod node;
pub mod retention;
pub mod scan;
pub mod scope;
pub(crate) mod sealed;
pub mod shard;
pub mod sink;
pub mod tail;
pub mod types;
pub mod wal;
