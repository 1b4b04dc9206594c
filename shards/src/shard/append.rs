//! Lets pushes into the log, or refuses them with a reason.

use std::sync::Arc;

use logsvc_runtime::mesh::ReplyTo;

use super::{Effect, Moment, PendingAppend, STREAM_OVERHEAD_BYTES, Shard};
use crate::batch::{BatchBuilder, Section, sections};
use crate::index::Slot;
use crate::messages::{
    AppendError, AppendOutcome, AppendRequest, REFUSALS_LISTED_MAX, ShardReply, TooFarBehind,
};

/// What a section costs in a head, in bytes: lines, metadata, and the columns of
/// timestamps and ends.
pub(super) fn section_cost(section: &Section<'_>) -> u64 {
    let fixed = if section.metadata.is_empty() { 12 } else { 16 };
    (section.lines.len() + section.metadata.len() + section.entry_count() * fixed) as u64
}

/// What the first look at a batch found.
#[derive(Default)]
struct Admission {
    slots: Vec<Slot>,
    accepted: u64,
    cost_bytes: u64,
    definitions_len: usize,
    /// Whether a section holds entries that are too far behind.
    needs_filter: bool,
}

impl Shard {
    pub(super) fn append(
        &mut self,
        request: AppendRequest,
        reply_to: ReplyTo<ShardReply>,
        moment: Moment,
        effects: &mut Vec<Effect>,
    ) {
        match self.admit(request, moment) {
            Ok((batch, admission, too_far_behind)) => {
                let outcome = AppendOutcome { accepted: admission.accepted, too_far_behind };
                if batch.is_empty() {
                    effects.push(Effect::Reply(reply_to, ShardReply::Append(Ok(outcome))));
                    return;
                }
                let reserved_bytes = admission.cost_bytes;
                let slots = admission.slots;
                let pending = PendingAppend { reply_to, slots, outcome, reserved_bytes };
                self.wal.add(&batch, admission.definitions_len, pending);
            }
            Err(error) => {
                effects.push(Effect::Reply(reply_to, ShardReply::Append(Err(error))));
            }
        }
    }

    fn admit(
        &mut self,
        request: AppendRequest,
        moment: Moment,
    ) -> Result<(Vec<u8>, Admission, Vec<TooFarBehind>), AppendError> {
        if self.stopping {
            return Err(AppendError::Stopping);
        }
        let streams_before = self.streams.len();
        for definition in request.definitions {
            self.define(definition);
        }
        let new_streams = (self.streams.len() - streams_before) as u64;
        let mut batch = request.batch;
        let mut admission = self.look_at(&batch, request.out_of_order_window_ns)?;
        let mut too_far_behind = Vec::new();
        if admission.needs_filter
            && let Some(window_ns) = request.out_of_order_window_ns
        {
            (batch, too_far_behind) = self.without_late_entries(&batch, window_ns);
            // The rest is in the window by construction.
            admission = self.look_at(&batch, None)?;
        }
        if batch.is_empty() {
            return Ok((batch, admission, too_far_behind));
        }
        self.wal.accepts(batch.len(), admission.definitions_len, moment.now)?;
        if !self.heads.try_grow(admission.cost_bytes + new_streams * STREAM_OVERHEAD_BYTES) {
            return Err(AppendError::HeadsFull);
        }
        for (section, &slot) in sections(&batch).flatten().zip(&admission.slots) {
            let newest_ns = &mut self.streams[slot as usize].newest_admitted_ns;
            *newest_ns = (*newest_ns).max(section.max_ns);
        }
        Ok((batch, admission, too_far_behind))
    }

    fn look_at(&self, batch: &[u8], window_ns: Option<i64>) -> Result<Admission, AppendError> {
        let mut admission = Admission::default();
        for section in sections(batch) {
            let section = section.map_err(|error| AppendError::Malformed(error.to_string()))?;
            let slot = *self.by_id.get(&section.stream).ok_or(AppendError::UnknownStream)?;
            let stream = &self.streams[slot as usize];
            admission.slots.push(slot);
            admission.accepted += section.entry_count() as u64;
            admission.cost_bytes += section_cost(&section);
            admission.definitions_len += stream.definition_len as usize;
            if let Some(window_ns) = window_ns {
                let newest_ns = stream.newest_admitted_ns.max(section.max_ns);
                admission.needs_filter |= section.min_ns < newest_ns.saturating_sub(window_ns);
            }
        }
        Ok(admission)
    }

    /// Rebuilds a batch without the entries that are further than `window_ns`
    /// behind the newest entry of their stream at their turn. Rare, so it may cost
    /// a copy.
    fn without_late_entries(
        &self,
        batch: &[u8],
        window_ns: i64,
    ) -> (Vec<u8>, Vec<TooFarBehind>) {
        let mut builder = BatchBuilder::new(Vec::with_capacity(batch.len()));
        let mut refusals: Vec<TooFarBehind> = Vec::new();
        // A stream may have several sections; later ones see the newest entry of
        // the ones before.
        let mut newest_seen = std::collections::BTreeMap::new();
        for section in sections(batch).flatten() {
            let Some(&slot) = self.by_id.get(&section.stream) else { continue };
            let stream = &self.streams[slot as usize];
            let newest_ns = newest_seen.entry(slot).or_insert(stream.newest_admitted_ns);
            let mut refused = Vec::new();
            let mut refused_count = 0;
            builder.begin(section.stream);
            for entry in section.entries() {
                let oldest_ns = newest_ns.saturating_sub(window_ns);
                if entry.timestamp_ns < oldest_ns {
                    refused_count += 1;
                    if refused.len() < REFUSALS_LISTED_MAX {
                        refused.push((entry.timestamp_ns, oldest_ns));
                    }
                    continue;
                }
                *newest_ns = (*newest_ns).max(entry.timestamp_ns);
                builder.push(entry.timestamp_ns, entry.line, entry.metadata);
            }
            builder.end();
            if refused_count > 0 {
                refusals.push(TooFarBehind {
                    stream: section.stream,
                    labels: Arc::clone(&stream.labels),
                    entries: refused,
                    refused: refused_count,
                    total: section.entry_count() as u64,
                });
            }
        }
        (builder.finish(), refusals)
    }
}
