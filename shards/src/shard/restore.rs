//! Rebuilds a shard at a start from its segments and its log.
//!
//! Guarantees: only [`Shard::step`] and this file change a shard. Everything here is called
//! between [`Shard::new`] and the first step, by the task that owns the shard. Entries that
//! are stored are taken over even if the budgets are smaller than they were; the summary
//! says by how much.

use std::sync::Arc;

use logsvc_proto::StreamId;

use super::Shard;
use crate::manifest::LiveSegment;
use crate::sealed::{Bundle, RestoredSegments, SealedSegment};
use crate::types::StreamDefinition;
use crate::wal::restored::{RecoverySummary, Restored};
use logsvc_segment::batch::Section;

impl Restored for Shard {
    fn knows(&self, id: StreamId) -> bool {
        self.by_id.contains_key(&id)
    }

    fn define(&mut self, definition: StreamDefinition) {
        if self.knows(definition.id) {
            return;
        }
        let cost_bytes = self.stream_memory.cost_of(&definition.tenant, &definition.labels);
        if !self.stream_memory.try_take(cost_bytes) {
            self.stream_memory.uncounted_bytes += cost_bytes;
            self.recovery.over_budget_bytes += cost_bytes;
        }
        self.define_stream(definition);
    }

    fn append(&mut self, section: &Section<'_>) -> bool {
        let Some(&slot) = self.by_id.get(&section.stream) else { return false };
        let kept_bytes = self.append_section(slot, section);
        if !self.head_memory.reserved.try_grow(kept_bytes) {
            self.recovery.over_budget_bytes += kept_bytes;
        }
        let stream = &mut self.streams[slot as usize];
        stream.newest_admitted_ns = stream.newest_admitted_ns.max(section.max_ns);
        true
    }

    fn finish_log(&mut self, summary: RecoverySummary) {
        let over_budget_bytes = self.recovery.over_budget_bytes;
        self.sealing.note_replayed(summary.read_bytes);
        self.recovery = RecoverySummary { over_budget_bytes, ..summary };
    }
}

impl RestoredSegments for Shard {
    fn add_segment(&mut self, segment: SealedSegment) {
        self.insert_segment(segment);
    }

    fn add_bundles(&mut self, bundles: Vec<Bundle>) {
        Shard::add_bundles(self, bundles.into_iter().map(Arc::new).collect());
    }

    fn miss_segment(&mut self, live: &LiveSegment) {
        self.missing.push(*live);
    }
}
