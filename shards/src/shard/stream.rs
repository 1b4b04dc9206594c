//! The streams of a shard, their memory, and their definitions in the log.

use std::sync::Arc;

use ahash::HashMap;
use logsvc_proto::{Labels, StreamId, TenantId};
use logsvc_runtime::Reservation;

use super::tails::StreamSubscriptions;
use crate::changes::TenantKey;
use crate::deletion::DeleteFilters;
use crate::index::Slot;
use crate::messages::TenantCounts;
use crate::wal::format::write_definition;
use crate::wal::writer::FramePosition;
use logsvc_segment::head::StreamHead;

/// The memory of a stream besides its entries and its labels, in bytes: its state, and its rows in
/// the table of ids and in the index. `benches/index.rs` measures it.
const STREAM_OVERHEAD_BYTES: u64 = 512;

/// The memory of a tenant besides its streams and its name, in bytes: its part of the index, with
/// the first values of some labels. `benches/index.rs` measures it.
const TENANT_OVERHEAD_BYTES: u64 = 768;

/// The memory of a stream besides its entries, in bytes. Most streams have a value of a label to
/// themselves, which is in the index, too.
fn stream_cost(labels: &Labels) -> u64 {
    STREAM_OVERHEAD_BYTES + labels.as_bytes().len() as u64 * 5 / 4
}

/// The memory of a tenant that has a stream, in bytes.
fn tenant_cost(tenant: &TenantId) -> u64 {
    TENANT_OVERHEAD_BYTES + tenant.as_str().len() as u64
}

/// A stream that this shard owns.
#[derive(Debug)]
pub(super) struct StreamState {
    pub(super) id: StreamId,
    pub(super) tenant: TenantId,
    pub(super) tenant_key: TenantKey,
    pub(super) labels: Arc<Labels>,
    pub(super) head: StreamHead,
    /// Entries that are being sealed.
    pub(super) frozen: Option<Box<StreamHead>>,
    /// Oldest and newest timestamp in known segments; segments that are gone may have had them.
    pub(super) sealed_bounds_ns: Option<(i64, i64)>,
    /// No segment has a later entry; the stream may have been forgotten meanwhile, so it may be
    /// later than all of its entries.
    pub(super) sealed_newest_ns: i64,
    /// The order of the last segment to which its entries were sealed, since it is in memory.
    pub(super) sealed_order: Option<u64>,
    /// Its place among the streams that may be idle; 0: none.
    pub(super) idle_place: u64,
    /// How many sections of pushes that are in the log, and not yet in the head, are
    /// the stream's.
    pub(super) in_log: u32,
    /// Newest timestamp that was let into the log, committed or not. An entry is too far behind by
    /// its distance from this timestamp.
    pub(super) newest_admitted_ns: i64,
    /// The look at a batch that last met the stream, and the newest timestamp as
    /// of its place in that batch.
    pub(super) checked_in: u64,
    pub(super) newest_checked_ns: i64,
    /// Where the log defines the stream.
    pub(super) defined: Defined,
    /// Bytes that its definition takes in the log.
    pub(super) definition_len: u32,
    /// A stream shows in the index from its first committed entry on.
    pub(super) indexed: bool,
    /// Subscriptions to its new entries.
    pub(super) tails: StreamSubscriptions,
    /// The filters of requests for deletion that select it.
    pub(super) deletions: Option<DeleteFilters>,
}

/// Where the current log file defines a stream. It does so twice, in the first two
/// frames that use the stream, so that damage to one frame does not take the
/// meaning of all others with it.
#[derive(Debug, Default)]
pub(super) struct Defined {
    /// Index of the file.
    pub(super) file: u32,
    /// Number of the last frame with a definition.
    pub(super) frame: u64,
    /// How many definitions the file has.
    pub(super) times: u8,
}

/// The memory of the streams, besides their entries.
#[derive(Debug)]
pub(super) struct StreamMemory {
    pub(super) reserved: Reservation,
    /// The shard's part of the budget, in bytes. Ids spread streams evenly, and a shard cannot make
    /// others give up theirs.
    pub(super) share_bytes: u64,
    /// The bytes that the budget had no room for when the shard started: stored streams are known,
    /// even if this start has less memory.
    pub(super) uncounted_bytes: u64,
    /// How many times a stream was refused.
    pub(super) refused: u64,
    /// Streams that are known, by the tenant's hash. Tenants that share one are few, and
    /// counted as one.
    pub(super) tenants: HashMap<TenantKey, u32>,
    /// Streams that pushes made known.
    pub(super) created: TenantCounts,
    /// Streams that were forgotten.
    pub(super) removed: TenantCounts,
}

impl StreamMemory {
    /// Takes memory for a stream; returns whether there was so much.
    pub(super) fn try_take(&mut self, bytes: u64) -> bool {
        self.reserved.bytes() + bytes <= self.share_bytes && self.reserved.try_grow(bytes)
    }

    /// The memory of a stream, in bytes, with its tenant's if the tenant has no other stream.
    pub(super) fn cost_of(&self, tenant: &TenantId, labels: &Labels) -> u64 {
        let is_first = !self.tenants.contains_key(&TenantKey::of(tenant));
        stream_cost(labels) + if is_first { tenant_cost(tenant) } else { 0 }
    }

    /// Notes that a stream is known.
    pub(super) fn add_stream(&mut self, key: TenantKey) {
        *self.tenants.entry(key).or_insert(0) += 1;
    }

    /// Releases the memory of a stream that was forgotten.
    pub(super) fn forget_stream(&mut self, tenant: &TenantId, key: TenantKey, labels: &Labels) {
        if let Some(streams) = self.tenants.get_mut(&key) {
            *streams -= 1;
            if *streams == 0 {
                self.tenants.remove(&key);
            }
        }
        self.removed.add(tenant);
        self.release(self.cost_of(tenant, labels));
    }

    pub(super) fn release(&mut self, bytes: u64) {
        let uncounted_bytes = bytes.min(self.uncounted_bytes);
        self.uncounted_bytes -= uncounted_bytes;
        let left_bytes = self.reserved.bytes().saturating_sub(bytes - uncounted_bytes);
        self.reserved.shrink_to(left_bytes);
    }
}

/// Appends the definitions of the streams that the log file lacks.
pub(super) fn define_streams(
    streams: &mut [StreamState],
    slots: &[Slot],
    position: FramePosition,
    out: &mut Vec<u8>,
) {
    for &slot in slots {
        let stream = &mut streams[slot as usize];
        let defined = &mut stream.defined;
        if defined.file != position.file {
            *defined = Defined { file: position.file, frame: 0, times: 0 };
        }
        if defined.times == 0 || (defined.times == 1 && defined.frame != position.frame) {
            defined.times += 1;
            defined.frame = position.frame;
            write_definition(out, stream.id, &stream.tenant, &stream.labels);
        }
    }
}
