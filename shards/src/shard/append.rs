//! Lets pushes into the log, or refuses them with a reason.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use logsvc_proto::StreamId;
use logsvc_runtime::Monotonic;
use logsvc_runtime::mesh::ReplyTo;

use super::{Effect, PendingAppend, Shard, StepContext};
use crate::index::Slot;
use crate::messages::{
    AppendError, AppendOutcome, AppendRequest, PauseStatus, REFUSALS_LISTED_MAX, ShardReply,
    TooFarBehind,
};
use crate::types::StreamDefinition;
use logsvc_segment::batch::{BatchBuilder, Section, checked_sections, recycle, sections};

/// The cost of a section in a head, in bytes: lines, metadata, and the columns of timestamps and
/// ends. Sets that entries share are counted as if the head did not have them yet.
pub(super) fn section_cost(section: &Section<'_>) -> u64 {
    let fixed = if section.has_own_metadata() { 16 } else { 12 };
    (section.lines.len() + section.metadata_len() + section.entry_count() * fixed) as u64
}

/// The cost of a head besides its entries, in bytes: its first block and the empty part of the last
/// one.
pub(super) const HEAD_OVERHEAD_BYTES: u64 = 640;

/// The result of the first look at a batch.
#[derive(Default)]
struct Admission {
    slots: Vec<Slot>,
    accepted: u64,
    cost_bytes: u64,
    definitions_len: usize,
    /// Whether a section holds entries that are too far behind.
    needs_filter: bool,
}

/// Streams, and how many entries of each.
type EntriesByStream = Vec<(StreamId, u64)>;

/// The part of a push that goes on to the log.
struct Admitted {
    batch: Vec<u8>,
    admission: Admission,
    too_far_behind: Vec<TooFarBehind>,
    refused_streams: EntriesByStream,
}

/// Why a push does not go on to the log.
enum Refusal {
    Error(AppendError),
    /// There is no memory for it at this moment.
    NoMemory(AppendRequest),
    /// There is no memory for its new streams, until others have no entries in memory.
    NoStreams(AppendRequest),
    /// The push uses streams that are neither known nor defined.
    Unknown(AppendRequest),
    /// The push has streams of partitions that the shard does not own, or is about to give up.
    Elsewhere(AppendRequest),
}

impl From<AppendError> for Refusal {
    fn from(error: AppendError) -> Refusal {
        Refusal::Error(error)
    }
}

/// How long a push waits for memory that sealing is about to release.
const DEFERRED_MAX_TIME: Duration = Duration::from_secs(10);

/// Bytes of pushes that may wait for memory.
const DEFERRED_MAX_BYTES: usize = 32 << 20;

/// Pushes that wait for memory. So clients send as fast as the disk takes their pushes. This serves
/// them better than refusals, which they would answer with long pauses.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    waiting: VecDeque<(AppendRequest, ReplyTo<ShardReply>, Monotonic)>,
    bytes: usize,
    /// Since when some have waited all the time.
    since: Option<Monotonic>,
    status: PauseStatus,
}

impl Deferred {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn has_room(&self, request: &AppendRequest) -> bool {
        self.bytes + request.batch.len() <= DEFERRED_MAX_BYTES
    }

    fn push(&mut self, request: AppendRequest, reply_to: ReplyTo<ShardReply>, since: Monotonic) {
        self.bytes += request.batch.len();
        self.waiting.push_back((request, reply_to, since));
    }

    fn take(&mut self) -> VecDeque<(AppendRequest, ReplyTo<ShardReply>, Monotonic)> {
        self.bytes = 0;
        std::mem::take(&mut self.waiting)
    }

    /// Counts a pause that begins or ends at this moment.
    fn note_pause(&mut self, now: Monotonic) {
        if self.is_empty() {
            if let Some(since) = self.since.take() {
                self.status.total += now.since(since);
            }
        } else if self.since.is_none() {
            self.since = Some(now);
            self.status.pauses += 1;
        }
    }

    /// Pauses since the start. The time of one that has not ended is not in it.
    pub(super) fn status(&self) -> PauseStatus {
        self.status
    }

    /// When the push that waits longest is refused.
    pub(super) fn next_wakeup(&self) -> Option<Monotonic> {
        self.waiting.front().map(|(_, _, since)| since.after(DEFERRED_MAX_TIME))
    }
}

impl Shard {
    pub(super) fn append(
        &mut self,
        request: AppendRequest,
        reply_to: ReplyTo<ShardReply>,
        context: StepContext,
        effects: &mut Vec<Effect>,
    ) {
        if !self.deferred.is_empty() && self.deferred.has_room(&request) {
            // Pushes wait in their order.
            self.deferred.push(request, reply_to, context.now);
            return;
        }
        self.append_now(request, reply_to, context.now, context, effects);
        self.deferred.note_pause(context.now);
    }

    /// Tries the pushes again that wait for memory.
    pub(super) fn append_deferred(&mut self, context: StepContext, effects: &mut Vec<Effect>) {
        let mut rest = self.deferred.take();
        while let Some((request, reply_to, since)) = rest.pop_front() {
            if !self.deferred.is_empty() {
                self.deferred.push(request, reply_to, since);
                continue;
            }
            self.append_now(request, reply_to, since, context, effects);
        }
        self.deferred.note_pause(context.now);
    }

    fn append_now(
        &mut self,
        request: AppendRequest,
        reply_to: ReplyTo<ShardReply>,
        since: Monotonic,
        context: StepContext,
        effects: &mut Vec<Effect>,
    ) {
        let may_wait = context.now < since.after(DEFERRED_MAX_TIME)
            && !self.stop.begun
            && self.deferred.has_room(&request);
        let coming_bytes = self.sealing.head_bytes() + self.head_memory.in_log_bytes;
        if may_wait && self.sealing.should_hold_pushes(coming_bytes + request.batch.len() as u64) {
            self.sealing.note_full(context.now, &mut self.drafts);
            self.deferred.push(request, reply_to, since);
            return;
        }
        let is_replayed = request.is_replayed;
        let admitted = self.admit(request, may_wait, context);
        if let Err(Refusal::NoMemory(_)) = admitted {
            self.sealing.seal_soon();
        }
        match admitted {
            Ok(Admitted { batch, admission, too_far_behind, refused_streams }) => {
                let accepted = admission.accepted;
                let over_limit = Vec::new();
                let outcome =
                    AppendOutcome { accepted, too_far_behind, refused_streams, over_limit };
                if batch.is_empty() {
                    effects.push(Effect::Reply(reply_to, ShardReply::Append(Ok(outcome))));
                    return;
                }
                let reserved_bytes = admission.cost_bytes;
                let slots = admission.slots;
                for &slot in &slots {
                    self.streams[slot as usize].in_log += 1;
                }
                self.head_memory.in_log_bytes += reserved_bytes;
                self.ownership.note_begun();
                let pending =
                    PendingAppend { reply_to, slots, outcome, reserved_bytes, is_replayed };
                self.wal.add(&batch, admission.definitions_len, pending);
                recycle(batch);
            }
            Err(Refusal::NoStreams(request)) => self.deferred.push(request, reply_to, since),
            Err(Refusal::NoMemory(request)) if may_wait && self.sealing.will_release() => {
                self.deferred.push(request, reply_to, since);
            }
            Err(Refusal::Unknown(request)) => {
                effects.push(Effect::Reply(reply_to, ShardReply::Unknown(Box::new(request))));
            }
            Err(Refusal::Elsewhere(request)) => {
                effects.push(Effect::Reply(reply_to, ShardReply::Elsewhere(Box::new(request))));
            }
            Err(refusal) => {
                let error = match refusal {
                    Refusal::Unknown(_) | Refusal::NoStreams(_) | Refusal::Elsewhere(_) => {
                        AppendError::UnknownStream
                    }
                    Refusal::Error(error) => error,
                    // The memory is full because the disk refuses to take it over.
                    Refusal::NoMemory(_) => match self.sealing.failure() {
                        Some(cause) => AppendError::Disk(Arc::clone(cause)),
                        None => AppendError::HeadsFull,
                    },
                };
                effects.push(Effect::Reply(reply_to, ShardReply::Append(Err(error))));
            }
        }
    }

    /// Whether streams will soon have no entries in memory: theirs are on their way to segments, or
    /// to the heads.
    fn will_have_idle_streams(&self) -> bool {
        self.sealing.will_release() || self.head_memory.in_log_bytes > 0
    }

    fn admit(
        &mut self,
        request: AppendRequest,
        may_wait: bool,
        context: StepContext,
    ) -> Result<Admitted, Refusal> {
        if self.stop.begun {
            return Err(AppendError::Stopping.into());
        }
        if self.ownership.refuses_some(&request) {
            return Err(Refusal::Elsewhere(request));
        }
        // Nothing is remembered of a push that has no chance.
        self.wal.accepts(request.batch.len(), 0, context.now).map_err(AppendError::from)?;
        let (new, refused) = self.define_all(&request);
        if !refused.is_empty() && may_wait {
            // Streams whose entries are sealed give up their memory.
            self.sealing.seal_soon();
            if self.will_have_idle_streams() {
                self.forget_new(&new);
                return Err(Refusal::NoStreams(request));
            }
        }
        self.stream_memory.refused += refused.len() as u64;
        let admitted = self.admit_known(request, &refused, context);
        if admitted.is_err() {
            // The new streams may never get an entry.
            self.forget_new(&new);
        }
        admitted
    }

    /// Admits a push whose streams are known, except for the streams in `refused`.
    fn admit_known(
        &mut self,
        request: AppendRequest,
        refused: &[StreamId],
        context: StepContext,
    ) -> Result<Admitted, Refusal> {
        let AppendRequest { mut batch, definitions, out_of_order_window_ns, is_replayed } = request;
        let mut refused_streams = Vec::new();
        if !refused.is_empty() {
            (batch, refused_streams) = self.without_streams(&batch, refused)?;
        }
        let mut admission = match self.look_at(&batch, out_of_order_window_ns) {
            Err(AppendError::UnknownStream) => {
                let request =
                    AppendRequest { batch, definitions, out_of_order_window_ns, is_replayed };
                return Err(Refusal::Unknown(request));
            }
            other => other?,
        };
        let mut too_far_behind = Vec::new();
        if admission.needs_filter
            && let Some(window_ns) = out_of_order_window_ns
        {
            (batch, too_far_behind) = self.without_late_entries(&batch, window_ns);
            // The rest is in the window by construction.
            admission = self.look_at(&batch, None)?;
        }
        if batch.is_empty() {
            return Ok(Admitted { batch, admission, too_far_behind, refused_streams });
        }
        let accepts = self.wal.accepts(batch.len(), admission.definitions_len, context.now);
        accepts.map_err(AppendError::from)?;
        if !self.head_memory.reserved.try_grow(admission.cost_bytes) {
            // The answer to the push tells which entries were taken out. A second try would not
            // know of them, so the rest is not tried again.
            let request = AppendRequest { batch, definitions, out_of_order_window_ns, is_replayed };
            return Err(if too_far_behind.is_empty() && refused_streams.is_empty() {
                Refusal::NoMemory(request)
            } else {
                AppendError::HeadsFull.into()
            });
        }
        for (section, &slot) in checked_sections(&batch).flatten().zip(&admission.slots) {
            let newest_ns = &mut self.streams[slot as usize].newest_admitted_ns;
            *newest_ns = (*newest_ns).max(section.max_ns);
        }
        Ok(Admitted { batch, admission, too_far_behind, refused_streams })
    }

    /// Makes the streams of a push known, and pays for their memory. Returns the new streams, and
    /// the streams without memory, sorted.
    fn define_all(&mut self, request: &AppendRequest) -> (Vec<Slot>, Vec<StreamId>) {
        let is_new = |definition: &&StreamDefinition| !self.by_id.contains_key(&definition.id);
        if !request.definitions.iter().any(|definition| is_new(&definition)) {
            return (Vec::new(), Vec::new());
        }
        // The other streams of the push must not give up their memory for the new ones.
        let ids = sections(&request.batch).flatten().map(|section| section.stream);
        let mut held: Vec<Slot> = ids.filter_map(|id| self.by_id.get(&id).copied()).collect();
        held.iter().for_each(|&slot| self.streams[slot as usize].in_log += 1);
        let (mut new, mut refused) = (Vec::new(), Vec::new());
        for definition in &request.definitions {
            if self.by_id.contains_key(&definition.id) {
                continue;
            }
            if self.take_stream_memory(definition) {
                self.define_stream(definition.clone());
                self.stream_memory.created.add(&definition.tenant);
                if let Some(&slot) = self.by_id.get(&definition.id) {
                    self.streams[slot as usize].in_log += 1;
                    held.push(slot);
                    new.push(slot);
                }
            } else {
                refused.push(definition.id);
            }
        }
        held.into_iter().for_each(|slot| self.streams[slot as usize].in_log -= 1);
        refused.sort_unstable();
        refused.dedup();
        (new, refused)
    }

    /// Rebuilds a batch without the streams of `refused`, which is sorted; tells which it
    /// had, and how many entries of each.
    fn without_streams(
        &self,
        batch: &[u8],
        refused: &[StreamId],
    ) -> Result<(Vec<u8>, EntriesByStream), AppendError> {
        let mut builder = BatchBuilder::new(Vec::with_capacity(batch.len()));
        let mut left_out: BTreeMap<StreamId, u64> = BTreeMap::new();
        for section in sections(batch) {
            let section = section.map_err(|error| AppendError::Malformed(error.to_string()))?;
            if refused.binary_search(&section.stream).is_ok() {
                *left_out.entry(section.stream).or_default() += section.entry_count() as u64;
                continue;
            }
            builder.begin(section.stream);
            for entry in section.entries() {
                builder.push_entry(&entry);
            }
            builder.end();
        }
        Ok((builder.finish(), left_out.into_iter().collect()))
    }

    fn look_at(&mut self, batch: &[u8], window_ns: Option<i64>) -> Result<Admission, AppendError> {
        let mut admission = Admission::default();
        self.counters.checks += 1;
        for section in sections(batch) {
            let section = section.map_err(|error| AppendError::Malformed(error.to_string()))?;
            let slot = *self.by_id.get(&section.stream).ok_or(AppendError::UnknownStream)?;
            let check = self.counters.checks;
            let stream = &mut self.streams[slot as usize];
            if stream.checked_in != check {
                stream.checked_in = check;
                stream.newest_checked_ns = stream.newest_admitted_ns;
            }
            admission.slots.push(slot);
            admission.accepted += section.entry_count() as u64;
            admission.cost_bytes += section_cost(&section);
            if stream.head.is_empty() && stream.in_log == 0 {
                admission.cost_bytes += HEAD_OVERHEAD_BYTES;
            }
            admission.definitions_len += stream.definition_len as usize;
            if let Some(window_ns) = window_ns {
                // A stream may have several sections, each the newer for the next.
                let newest_ns = stream.newest_checked_ns.max(section.max_ns);
                admission.needs_filter |= section.min_ns < newest_ns.saturating_sub(window_ns);
                stream.newest_checked_ns = newest_ns;
            }
        }
        Ok(admission)
    }

    /// Rebuilds a batch without the entries that are further than `window_ns`
    /// behind the newest entry of their stream at their turn. Rare, so it may cost
    /// a copy.
    fn without_late_entries(&self, batch: &[u8], window_ns: i64) -> (Vec<u8>, Vec<TooFarBehind>) {
        let mut builder = BatchBuilder::new(Vec::with_capacity(batch.len()));
        // Per stream, over all of its sections: the newest entry so far, and the entries that were
        // refused.
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
                builder.push_entry(&entry);
            }
            builder.end();
        }
        let refusals = seen.into_values().map(|(_, refusal)| refusal);
        (builder.finish(), refusals.filter(|refusal| refusal.refused > 0).collect())
    }
}
