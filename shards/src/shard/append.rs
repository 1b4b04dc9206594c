//! Lets pushes into the log, or refuses them with a reason.

use std::collections::BTreeMap;
use std::sync::Arc;

use logsvc_runtime::mesh::ReplyTo;

use super::{Effect, Moment, PendingAppend, STREAM_OVERHEAD_BYTES, Shard};
use crate::batch::{BatchBuilder, Section, sections};
use crate::index::Slot;
use crate::messages::{
    AppendError, AppendOutcome, AppendRequest, REFUSALS_LISTED_MAX, ShardReply, StreamDefinition,
    TooFarBehind,
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
        // Nothing is remembered of a push that has no chance.
        self.wal.accepts(request.batch.len(), 0, moment.now)?;
        self.define_all(request.definitions)?;
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
        if !self.heads.try_grow(admission.cost_bytes) {
            return Err(AppendError::HeadsFull);
        }
        for (section, &slot) in sections(&batch).flatten().zip(&admission.slots) {
            let newest_ns = &mut self.streams[slot as usize].newest_admitted_ns;
            *newest_ns = (*newest_ns).max(section.max_ns);
        }
        Ok((batch, admission, too_far_behind))
    }

    /// Makes streams known. They stay so even if the push is refused later on, so
    /// their memory is paid for here.
    fn define_all(&mut self, definitions: Vec<StreamDefinition>) -> Result<(), AppendError> {
        for definition in definitions {
            if self.by_id.contains_key(&definition.id) {
                continue;
            }
            if !self.heads.try_grow(STREAM_OVERHEAD_BYTES) {
                return Err(AppendError::HeadsFull);
            }
            self.define(definition);
        }
        Ok(())
    }

    fn look_at(&mut self, batch: &[u8], window_ns: Option<i64>) -> Result<Admission, AppendError> {
        let mut admission = Admission::default();
        self.looks += 1;
        for section in sections(batch) {
            let section = section.map_err(|error| AppendError::Malformed(error.to_string()))?;
            let slot = *self.by_id.get(&section.stream).ok_or(AppendError::UnknownStream)?;
            let looks = self.looks;
            let stream = &mut self.streams[slot as usize];
            if stream.looked_at != looks {
                stream.looked_at = looks;
                stream.newest_looked_at_ns = stream.newest_admitted_ns;
            }
            admission.slots.push(slot);
            admission.accepted += section.entry_count() as u64;
            admission.cost_bytes += section_cost(&section);
            admission.definitions_len += stream.definition_len as usize;
            if let Some(window_ns) = window_ns {
                // A stream may have several sections, each the newer for the next.
                let newest_ns = stream.newest_looked_at_ns.max(section.max_ns);
                admission.needs_filter |= section.min_ns < newest_ns.saturating_sub(window_ns);
                stream.newest_looked_at_ns = newest_ns;
            }
        }
        Ok(admission)
    }

    /// Rebuilds a batch without the entries that are further than `window_ns`
    /// behind the newest entry of their stream at their turn. Rare, so it may cost
    /// a copy.
    fn without_late_entries(&self, batch: &[u8], window_ns: i64) -> (Vec<u8>, Vec<TooFarBehind>) {
        let mut builder = BatchBuilder::new(Vec::with_capacity(batch.len()));
        // Per stream, over all of its sections: the newest entry so far, and what
        // was refused.
        let mut seen: BTreeMap<Slot, (i64, TooFarBehind)> = BTreeMap::new();
        for section in sections(batch).flatten() {
            let Some(&slot) = self.by_id.get(&section.stream) else { continue };
            let (newest_ns, refusal) = seen.entry(slot).or_insert_with(|| {
                let stream = &self.streams[slot as usize];
                let refusal = TooFarBehind {
                    stream: section.stream,
                    labels: Arc::clone(&stream.labels),
                    entries: Vec::new(),
                    refused: 0,
                    total: 0,
                };
                (stream.newest_admitted_ns, refusal)
            });
            refusal.total += section.entry_count() as u64;
            builder.begin(section.stream);
            for entry in section.entries() {
                let oldest_ns = newest_ns.saturating_sub(window_ns);
                if entry.timestamp_ns < oldest_ns {
                    refusal.refused += 1;
                    if refusal.entries.len() < REFUSALS_LISTED_MAX {
                        refusal.entries.push((entry.timestamp_ns, oldest_ns));
                    }
                    continue;
                }
                *newest_ns = (*newest_ns).max(entry.timestamp_ns);
                builder.push(entry.timestamp_ns, entry.line, entry.metadata);
            }
            builder.end();
        }
        let refusals = seen.into_values().map(|(_, refusal)| refusal);
        (builder.finish(), refusals.filter(|refusal| refusal.refused > 0).collect())
    }
}
