//! Pushes: from the bytes of a request to the replies of the shards.

mod active_streams;
mod admission;
mod batches;
pub(super) mod delivery;
mod elastic_bulk;
pub(super) mod elastic_pages;
mod entries;
mod import;
mod journald;
pub(super) mod lines;
pub(super) mod otlp;
pub(super) mod outcome;
pub(super) mod owned_streams;
mod push;
mod push_memory;
mod rate_limit;
mod record_batch;
pub(crate) mod records;
mod refusals;
mod stream_cache;
mod streamed;
mod streams;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use logsvc_proto::TenantId;
use logsvc_proto::error::ApiError;
use logsvc_runtime::{Runtime, Turns};

use super::core::Core;
use crate::refusals::{Cause, Refused, Sender};
use active_streams::ActiveStreams;
use owned_streams::OwnedStreams;
use push::PushBuffers;
use rate_limit::TokenBuckets;
use refusals::Pieces;
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
    /// Those of them whose partitions this node owns among others.
    owned_streams: OwnedStreams,
}

impl Rates {
    /// Nothing was pushed.
    pub(super) fn new() -> Rates {
        Rates {
            tenants: Arc::new(TokenBuckets::new(TENANT_RATES)),
            streams: Arc::new(TokenBuckets::new(STREAM_RATES)),
            active_streams: Arc::new(ActiveStreams::new(ACTIVE_STREAMS, TENANT_RATES)),
            owned_streams: OwnedStreams::new(ACTIVE_STREAMS, TENANT_RATES),
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

    /// The streams that count for the limit of all nodes.
    pub(super) fn owned_streams(&self) -> OwnedStreams {
        self.rates.owned_streams.clone()
    }

    /// Notes the error of a push, of which nothing is stored and nothing was noted.
    fn noted<T>(
        &self,
        tenant: Option<&TenantId>,
        sender: Sender<'_>,
        outcome: Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        outcome.inspect_err(|error| self.core.note_refused_push(tenant, sender, error))
    }

    /// Notes refused entries of a push.
    fn note_pieces(&self, tenant: &TenantId, sender: Sender<'_>, pieces: &Pieces) {
        for piece in pieces.iter() {
            self.core.note(&Refused {
                tenant: Some(tenant),
                cause: Cause::Entries(piece.reason, piece.amount),
                sender,
                stream: piece.stream.as_deref().filter(|labels| !labels.is_empty()),
                entry_ns: piece.entry_ns,
                limit_ns: piece.limit_ns,
                text: &piece.text,
            });
        }
    }
}
