//! Pushes: from the bytes of a request to the replies of the shards.

mod active_streams;
mod admission;
mod batches;
mod entries;
pub(super) mod otlp;
mod outcome;
mod push;
mod push_memory;
mod rate_limit;
mod refusals;
mod stream_cache;
mod streams;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use logsvc_runtime::{Runtime, Turns};

use super::core::Core;
use active_streams::ActiveStreams;
use push::PushBuffers;
use rate_limit::TokenBuckets;
use stream_cache::StreamCache;

/// Tenants and streams whose rates are known at a time; slow ones need no place.
const TENANT_RATES: usize = 4096;
const STREAM_RATES: usize = 16384;

/// Streams that are counted for the limit on active streams.
const ACTIVE_STREAMS: usize = 1 << 17;

/// Counters of all cores for the limits on rates and on active streams. Cheap to clone.
#[derive(Clone)]
pub(super) struct Rates {
    /// Token buckets of tenants.
    tenants: Arc<TokenBuckets>,
    /// Token buckets of streams.
    streams: Arc<TokenBuckets>,
    /// Streams that got entries lately.
    active_streams: Arc<ActiveStreams>,
}

impl Rates {
    /// Nothing was pushed.
    pub(super) fn new() -> Rates {
        Rates {
            tenants: Arc::new(TokenBuckets::new(TENANT_RATES)),
            streams: Arc::new(TokenBuckets::new(STREAM_RATES)),
            active_streams: Arc::new(ActiveStreams::new(ACTIVE_STREAMS, TENANT_RATES)),
        }
    }
}

/// Takes the pushes of one core.
pub(super) struct Ingest<R: Runtime> {
    core: Rc<Core<R>>,
    rates: Rates,
    streams: RefCell<StreamCache>,
    /// Decoding pushes takes turns with other work of the core.
    turns: Turns,
    /// Buffers that no push uses at the moment.
    spare_buffers: RefCell<Vec<PushBuffers>>,
}

impl<R: Runtime> Ingest<R> {
    /// Knows no stream.
    pub(super) fn new(core: Rc<Core<R>>, rates: Rates) -> Ingest<R> {
        let config = core.config();
        let resolved_share = config.resolved_budget_bytes / u64::from(config.cores);
        let streams = StreamCache::new(resolved_share, core.runtime.random_u64());
        Ingest {
            core,
            rates,
            streams: RefCell::new(streams),
            turns: Turns::default(),
            spare_buffers: RefCell::new(Vec::new()),
        }
    }
}
