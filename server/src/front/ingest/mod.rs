//! The ingest room: pushes, from the bytes of a request to what the shards say of its entries.

pub(crate) mod active_streams;
mod admission;
pub(super) mod batches;
mod entries;
pub(super) mod otlp;
mod outcome;
pub(super) mod push;
mod push_memory;
pub(crate) mod rate_limit;
mod refusals;
pub(super) mod stream_cache;
mod streams;
