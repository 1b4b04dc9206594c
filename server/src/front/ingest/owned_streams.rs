//! The limit on the streams of a tenant on all nodes together (`max_global_streams_per_user`).
//!
//! Each node counts the streams of the partitions that it owns, whichever node has taken their entries from
//! clients, and takes a share of the limit that is as large as its share of the partitions. Streams are
//! spread over partitions by their hash, so the shares fill evenly.
//!
//! Guarantees: nodes ask nobody. Streams of partitions that went to another node do not count any more once
//! the limit is reached.
//!
//! What can go wrong: the hash is random, so the limit holds for all nodes together within some percent,
//! and for few streams within some streams. A stream that pauses for half an hour, and whose sender still
//! knows it, comes back without being counted. Streams that are there when the share shrinks stay.

use std::collections::BTreeMap;
use std::sync::Arc;

use logsvc_proto::StreamId;
use logsvc_runtime::{Monotonic, Runtime};
use logsvc_segment::batch::checked_sections;
use logsvc_shards::member::Routes;
use logsvc_shards::messages::AppendRequest;
use logsvc_shards::types::StreamDefinition;

use super::active_streams::ActiveStreams;
use super::admission::hash_of;
use crate::front::core::Core;

/// Streams that a limit refuses, with their number of entries; by id.
pub(crate) type OverLimit = Vec<(StreamId, u64)>;

/// See the module. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct OwnedStreams {
    active: Arc<ActiveStreams>,
}

impl OwnedStreams {
    /// A table for about this many streams and tenants.
    pub(super) fn new(streams: usize, tenants: usize) -> OwnedStreams {
        OwnedStreams { active: Arc::new(ActiveStreams::new(streams, tenants)) }
    }

    /// Whether a stream may get entries, given that its tenant, of this hash, may have `limit` active ones
    /// on all nodes. Always, if another node owns it: that one decides.
    pub(super) fn admit(
        &self,
        routes: &Routes,
        tenant: u64,
        stream: StreamId,
        limit: u64,
        now: Monotonic,
    ) -> bool {
        let hash = hash_of_stream(stream);
        let counts = |hash| owns(routes, hash);
        if !counts(hash) {
            return true;
        }
        let (owned, all) = (routes.here.len(), routes.map.slots.len());
        self.active.admit_of(tenant, hash, share(limit, owned, all), now, counts)
    }

    /// Takes the streams that are too many out of a batch of another node.
    pub(crate) fn within_limits<R: Runtime>(
        &self,
        core: &Core<R>,
        append: AppendRequest,
    ) -> (AppendRequest, OverLimit) {
        let Some(routes) = core.routes() else { return (append, Vec::new()) };
        let now = core.runtime.now();
        // Who sends a stream for the first time defines it.
        let is_refused = |definition: &&StreamDefinition| {
            let limit = core.limits(&definition.tenant).max_global_streams_per_user as u64;
            let tenant = hash_of(&definition.tenant);
            limit > 0 && !self.admit(&routes, tenant, definition.id, limit, now)
        };
        let refused = append.definitions.iter().filter(is_refused).map(|one| one.id).collect();
        for section in checked_sections(&append.batch).map_while(Result::ok) {
            self.active.touch(hash_of_stream(section.stream), now);
        }
        without(append, refused)
    }
}

/// A batch that was checked without some streams.
fn without(append: AppendRequest, refused: Vec<StreamId>) -> (AppendRequest, OverLimit) {
    if refused.is_empty() {
        return (append, Vec::new());
    }
    let mut left_out: BTreeMap<StreamId, u64> = refused.into_iter().map(|id| (id, 0)).collect();
    let mut batch = Vec::new();
    let (mut rest, mut start) = (checked_sections(&append.batch), 0);
    // A section is whole in itself.
    while let Some(Ok(section)) = rest.next() {
        match left_out.get_mut(&section.stream) {
            Some(entries) => *entries += section.entry_count() as u64,
            None => batch.extend_from_slice(&append.batch[start..rest.offset()]),
        }
        start = rest.offset();
    }
    let mut definitions = append.definitions;
    definitions.retain(|definition| !left_out.contains_key(&definition.id));
    (AppendRequest { batch, definitions, ..append }, left_out.into_iter().collect())
}

/// The half of the id that tells the partition.
fn hash_of_stream(stream: StreamId) -> u64 {
    (stream.0 >> 64) as u64
}

/// Whether this node has the partition of a stream.
fn owns(routes: &Routes, hash: u64) -> bool {
    let partitions = u16::try_from(routes.map.slots.len()).unwrap_or(u16::MAX);
    let partition = StreamId(u128::from(hash) << 64).shard(partitions);
    routes.here.contains_key(&partition)
}

/// The share of a limit for so many of all partitions.
fn share(limit: u64, owned: usize, all: usize) -> u64 {
    let (owned, all) = (owned as u128, all.max(1) as u128);
    let share = (u128::from(limit) * owned).div_ceil(all);
    u64::try_from(share).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use logsvc_segment::batch::BatchBuilder;

    use super::*;

    #[test]
    fn shares_make_the_limit() {
        assert_eq!([6, 5, 5].map(|owned| share(300, owned, 16)), [113, 94, 94]);
        assert_eq!([16, 8, 0].map(|owned| share(300, owned, 16)), [300, 150, 1]);
        assert_eq!(share(u64::MAX, 65_535, 65_535), u64::MAX);
        assert_eq!((share(1, 1, 64), share(5, 1, 0)), (1, 5));
    }

    #[test]
    fn refused_streams_are_taken_out_of_batches() {
        let mut builder = BatchBuilder::new(Vec::new());
        for (stream, entries) in [(1, 2), (2, 3), (1, 1), (3, 1)] {
            builder.begin(StreamId(stream));
            for entry in 0..entries {
                builder.push::<&str>(entry, b"line", std::iter::empty());
            }
            builder.end();
        }
        let append = AppendRequest {
            batch: builder.finish(),
            definitions: Vec::new(),
            out_of_order_window_ns: None,
            is_replayed: false,
        };
        let (append, over) = without(append, vec![StreamId(1), StreamId(3)]);
        assert_eq!(over, [(StreamId(1), 3), (StreamId(3), 1)]);
        let left = checked_sections(&append.batch).map_while(Result::ok);
        let left: Vec<_> = left.map(|one| (one.stream, one.entry_count())).collect();
        assert_eq!(left, [(StreamId(2), 3)]);
        let (append, over) = without(append, vec![StreamId(2)]);
        assert_eq!((append.batch.len(), over), (0, vec![(StreamId(2), 3)]));
    }
}
