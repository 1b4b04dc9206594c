//! Decides when the entries in memory are sealed, and takes the segments over.
//!
//! Sealing goes by generations. When a bound of [`SealPolicy`] is reached, or on request, the shard
//! waits until no commit is under way, closes its log file and freezes all heads: every entry in
//! them came from closed files. A task beside the shard writes the frozen heads to segments
//! ([`crate::sealed`]). Meanwhile they stay visible, and new entries go to new heads and a new
//! log file.
//!
//! Under fast pushes a generation, or its rest, is written as a draft. [`crate::compact`] has the
//! rules in `drafts.rs`.
//!
//! Guarantees: there is one generation at a time. A frozen head leaves memory only after its
//! segments and the manifest edit that names them are on stable storage. If the disk fails, the
//! generation stays in memory and in the log, and sealing is tried again after a pause. Memory
//! does not grow meanwhile, because the budget of the heads refuses pushes.

use std::sync::Arc;
use std::time::Duration;

use logsvc_runtime::Monotonic;
use logsvc_runtime::mesh::ReplyTo;

use super::{Effect, Shard, StepContext};
use crate::compact::{Drafts, Heads};
use crate::index::Slot;
use crate::messages::{SealStatus, ShardReply};
use crate::sealed::{DraftFlag, OpenedSegment, SealJob, SealStream};

/// How long after a failure sealing is tried again.
pub(super) const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// Pushes do not wait for the sake of less than this, in bytes.
const PAUSE_MIN_BYTES: u64 = 1 << 20;

/// When a shard writes its heads to segments.
#[derive(Clone, Copy, Debug)]
pub struct SealPolicy {
    /// Bytes of entries in heads.
    pub head_max_bytes: u64,
    /// Bytes that were written to the log, or replayed from it, since the last time.
    pub wal_max_bytes: u64,
    /// How long an entry stays in memory at most.
    pub max_age: Duration,
    /// Whether a stop seals the entries in memory. Otherwise the next start finds them in the log.
    pub on_stop: bool,
}

impl SealPolicy {
    /// Sealing on request only.
    pub const ON_REQUEST: SealPolicy = SealPolicy {
        head_max_bytes: u64::MAX,
        wal_max_bytes: u64::MAX,
        max_age: Duration::MAX,
        on_stop: false,
    };
}

impl Default for SealPolicy {
    fn default() -> SealPolicy {
        SealPolicy {
            head_max_bytes: 24 << 20,
            wal_max_bytes: 256 << 20,
            max_age: Duration::from_secs(30 * 60),
            on_stop: true,
        }
    }
}

/// Where sealing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    /// As soon as no commit is under way.
    Wanted,
    Running,
    /// The generation waits for another attempt.
    Failed {
        retry_at: Monotonic,
    },
}

/// The sealing part of a shard's state.
#[derive(Debug)]
pub(super) struct Sealing {
    policy: SealPolicy,
    phase: Phase,
    /// Streams whose heads hold entries.
    active: Vec<Slot>,
    /// Streams of the frozen generation.
    generation: Vec<Slot>,
    closed_wal_index: Option<u32>,
    draft: Arc<DraftFlag>,
    /// Bytes of the heads, without frozen ones.
    head_bytes: u64,
    generation_bytes: u64,
    /// When the oldest entry of the heads came.
    oldest: Option<Monotonic>,
    /// How long it took to fill the heads, once they are full.
    filled_in: Option<Duration>,
    /// Bytes of the log since the last generation was frozen.
    wal_bytes: u64,
    wal_written_bytes: u64,
    /// The flushes that wait for the frozen generation, and for the next one.
    waiting: Vec<ReplyTo<ShardReply>>,
    waiting_next: Vec<ReplyTo<ShardReply>>,
    /// Why the last attempt failed.
    failure: Option<Arc<str>>,
    /// Generations that were frozen.
    frozen: u64,
    /// Generations that were sealed.
    sealed: u64,
    /// Attempts that failed.
    failures: u64,
    /// Blocks of new segments that had to be stored without templates.
    pub(super) refused_blocks: u64,
}

impl Sealing {
    pub(super) fn new(policy: SealPolicy) -> Sealing {
        Sealing {
            policy,
            phase: Phase::Idle,
            active: Vec::new(),
            generation: Vec::new(),
            closed_wal_index: None,
            draft: Arc::default(),
            head_bytes: 0,
            generation_bytes: 0,
            oldest: None,
            filled_in: None,
            wal_bytes: 0,
            wal_written_bytes: 0,
            waiting: Vec::new(),
            waiting_next: Vec::new(),
            failure: None,
            frozen: 0,
            sealed: 0,
            failures: 0,
            refused_blocks: 0,
        }
    }

    /// Notes that entries worth `bytes` were added to a head that was empty or not.
    pub(super) fn note_entries(&mut self, slot: Slot, was_empty: bool, bytes: u64) {
        if was_empty {
            self.active.push(slot);
        }
        self.head_bytes += bytes;
    }

    /// Notes that the heads cost less than was noted.
    pub(super) fn uncount(&mut self, bytes: u64) {
        self.head_bytes = self.head_bytes.saturating_sub(bytes);
    }

    /// Whether pushes should wait until the generation that is being sealed is out of
    /// memory, if the heads come to cost so much: otherwise the next one would grow for
    /// as long as entries come faster than they are sealed.
    pub(super) fn should_hold_pushes(&self, head_and_log_bytes: u64) -> bool {
        self.phase == Phase::Running
            && self.generation_bytes > 0
            && head_and_log_bytes > self.policy.head_max_bytes.max(PAUSE_MIN_BYTES)
    }

    /// Bytes of the heads, without frozen ones.
    pub(super) fn head_bytes(&self) -> u64 {
        self.head_bytes
    }

    /// Notes when entries came.
    pub(super) fn note_time(&mut self, now: Monotonic) {
        if !self.active.is_empty() {
            self.oldest.get_or_insert(now);
        }
    }

    /// Notes bytes of the log that were replayed at the start.
    pub(super) fn note_replayed(&mut self, wal_bytes: u64) {
        self.wal_bytes += wal_bytes;
    }

    /// Asks for sealing because memory is short.
    pub(super) fn seal_soon(&mut self) {
        if self.phase == Phase::Idle && !self.active.is_empty() {
            self.phase = Phase::Wanted;
        }
    }

    /// Why entries cannot be sealed at present.
    pub(super) fn failure(&self) -> Option<&Arc<str>> {
        self.failure.as_ref()
    }

    /// Whether memory for entries will soon be released.
    pub(super) fn will_release(&self) -> bool {
        match self.phase {
            Phase::Running => self.generation_bytes > 0,
            Phase::Wanted => self.head_bytes > 0,
            Phase::Idle | Phase::Failed { .. } => false,
        }
    }

    /// How many generations are in segments.
    pub(super) fn generations_sealed(&self) -> u64 {
        self.sealed
    }

    /// How many are to be in segments, so that all entries of the heads are.
    pub(super) fn generations_with_heads(&self) -> u64 {
        self.frozen + u64::from(!self.active.is_empty())
    }

    /// Whether entries are being written to segments.
    pub(super) fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    /// Notes that the heads are full, or would be with a push that has to wait.
    pub(super) fn note_full(&mut self, now: Monotonic, drafts: &mut Drafts) {
        if self.filled_in.is_some() {
            return;
        }
        self.filled_in = self.oldest.map(|oldest| now.since(oldest));
        if self.phase == Phase::Running {
            drafts.note_overrun(self.filled_in);
        }
    }

    /// The heads as they would be sealed at this moment.
    fn heads(&self) -> Heads {
        let (bytes, streams) = (self.head_bytes, self.active.len());
        Heads { bytes, streams, filled_in: self.filled_in }
    }

    fn is_full(&self) -> bool {
        self.head_bytes >= self.policy.head_max_bytes
    }

    fn is_due(&self, now: Monotonic) -> bool {
        let policy = &self.policy;
        self.is_full()
            || self.wal_bytes >= policy.wal_max_bytes
            || self.oldest.is_some_and(|oldest| now >= oldest.after(policy.max_age))
    }

    /// When something is to be done although nothing else happens.
    pub(super) fn next_wakeup(&self) -> Option<Monotonic> {
        match self.phase {
            Phase::Idle => {
                let due = self.oldest.map(|oldest| oldest.after(self.policy.max_age));
                due.filter(|due| *due != Monotonic::NEVER)
            }
            Phase::Failed { retry_at } => Some(retry_at),
            Phase::Wanted | Phase::Running => None,
        }
    }
}

impl Shard {
    /// Seals everything in memory and answers when this is done.
    pub(super) fn flush(&mut self, reply_to: ReplyTo<ShardReply>) {
        self.sealing.waiting_next.push(reply_to);
        // A client that flushes wants to see all entries in encoded segments.
        self.drafts.merge_at_once();
        self.maintenance.segments_changed();
    }

    /// Begins or retries sealing if it is time to. To be called before the log is
    /// asked for its next operation.
    pub(super) fn seal_if_due(&mut self, context: StepContext, effects: &mut Vec<Effect>) {
        let written_bytes = self.wal.counters().written_bytes;
        self.sealing.wal_bytes += written_bytes - self.sealing.wal_written_bytes;
        self.sealing.wal_written_bytes = written_bytes;
        if self.sealing.is_full() {
            self.sealing.note_full(context.now, &mut self.drafts);
        }
        match self.sealing.phase {
            Phase::Running => {
                self.hurry_if_late();
                return;
            }
            Phase::Failed { retry_at } => {
                if context.now >= retry_at {
                    self.start_sealing(effects);
                }
                return;
            }
            Phase::Idle => {
                let asked = !self.sealing.waiting_next.is_empty()
                    || self.must_seal_to_stop()
                    || self.ownership.wants_sealing(self.sealing.frozen);
                if self.maintenance.wants_sealing() {
                    // The log goes on with a new file, even if there is nothing to seal.
                    self.sealing.phase = Phase::Wanted;
                } else if asked && self.sealing.active.is_empty() && self.wal.is_idle() {
                    for reply_to in self.sealing.waiting_next.drain(..) {
                        effects.push(Effect::Reply(reply_to, ShardReply::Flushed(Ok(()))));
                    }
                } else if asked || self.sealing.is_due(context.now) {
                    self.sealing.phase = Phase::Wanted;
                }
            }
            Phase::Wanted => {}
        }
        if self.sealing.phase == Phase::Wanted && self.wal.is_quiet() {
            if let Some(op) = self.wal.sync_now() {
                // A closed file must be on stable storage, whatever the policy.
                effects.push(Effect::Wal(op));
                return;
            }
            self.sealing.draft = Arc::default();
            if self.drafts.wants(self.sealing.heads()) {
                self.sealing.draft.set();
            }
            self.freeze_heads();
            self.start_sealing(effects);
        }
    }

    /// Has the rest of the generation that is being sealed written as a draft, if the next one
    /// is nearly full: pushes would have to wait.
    fn hurry_if_late(&self) {
        let Sealing { policy, head_bytes, generation_bytes, draft, .. } = &self.sealing;
        if !draft.is_set()
            && self.drafts.wants_rest(*generation_bytes, *head_bytes, policy.head_max_bytes)
        {
            draft.set();
        }
    }

    /// Freezes the heads. No commit is under way.
    fn freeze_heads(&mut self) {
        debug_assert!(self.sealing.generation.is_empty());
        self.sealing.closed_wal_index = self.wal.rotate();
        self.maintenance.heads_frozen(self.wal.name());
        let generation = std::mem::take(&mut self.sealing.active);
        for &slot in &generation {
            let stream = &mut self.streams[slot as usize];
            stream.frozen = Some(Box::new(std::mem::take(&mut stream.head)));
        }
        let sealing = &mut self.sealing;
        sealing.frozen += 1;
        sealing.generation = generation;
        sealing.generation_bytes = std::mem::take(&mut sealing.head_bytes);
        sealing.oldest = None;
        sealing.filled_in = None;
        sealing.wal_bytes = 0;
        sealing.waiting = std::mem::take(&mut sealing.waiting_next);
    }

    fn start_sealing(&mut self, effects: &mut Vec<Effect>) {
        let streams = self.sealing.generation.iter().map(|&slot| {
            let stream = &self.streams[slot as usize];
            SealStream {
                id: stream.id,
                tenant: stream.tenant.clone(),
                labels: Arc::clone(&stream.labels),
                is_late: stream.frozen_is_late(),
                blocks: stream.frozen.iter().flat_map(|head| head.blocks()).cloned().collect(),
            }
        });
        let job = SealJob {
            streams: streams.collect(),
            closed_wal_index: self.sealing.closed_wal_index,
            draft: Arc::clone(&self.sealing.draft),
        };
        self.sealing.phase = Phase::Running;
        effects.push(Effect::Seal(Box::new(job)));
    }

    /// Takes over the segments of a [`SealJob`].
    pub(super) fn sealed(
        &mut self,
        result: Result<Vec<OpenedSegment>, Arc<str>>,
        context: StepContext,
        effects: &mut Vec<Effect>,
    ) {
        let segments = match result {
            Ok(segments) => segments,
            Err(cause) => {
                self.sealing.failures += 1;
                self.sealing.failure = Some(Arc::clone(&cause));
                self.sealing.phase = Phase::Failed { retry_at: context.now.after(RETRY_PAUSE) };
                // The next generation cannot be sealed before the current one, so a flush that waits for
                // it would wait until the disk is well again.
                let sealing = &mut self.sealing;
                for reply_to in sealing.waiting.drain(..).chain(sealing.waiting_next.drain(..)) {
                    let reply = ShardReply::Flushed(Err(Arc::clone(&cause)));
                    effects.push(Effect::Reply(reply_to, reply));
                }
                return;
            }
        };
        let is_draft = segments.iter().any(|opened| opened.segment.footer.is_draft);
        if is_draft {
            self.drafts.note_written(context.now);
        }
        self.maintenance.generation_sealed(&segments);
        for segment in segments {
            self.add_sealed(segment);
        }
        let generation = std::mem::take(&mut self.sealing.generation);
        self.examine_if_sealed();
        self.head_memory.pool.begin_generation();
        for &slot in &generation {
            let Some(sealed) = self.streams[slot as usize].frozen.take() else { continue };
            for block in sealed.blocks() {
                self.counters.entries -= block.len() as u64;
                self.counters.line_bytes -= block.lines().len() as u64;
            }
            sealed.recycle(&mut self.head_memory.pool);
        }
        self.may_be_idle(&generation);
        let released_bytes = std::mem::take(&mut self.sealing.generation_bytes);
        self.head_memory.release(released_bytes);
        self.sealing.failure = None;
        self.sealing.sealed += 1;
        self.sealing.phase = Phase::Idle;
        for reply_to in self.sealing.waiting.drain(..) {
            effects.push(Effect::Reply(reply_to, ShardReply::Flushed(Ok(()))));
        }
    }

    /// Numbers for metrics.
    pub(super) fn seal_status(&self) -> SealStatus {
        let mut status = SealStatus {
            sealed: self.sealing.sealed,
            drafts: self.drafts.written(),
            draft_line_bytes: self.drafts.line_bytes(),
            failures: self.sealing.failures,
            refused_blocks: self.sealing.refused_blocks,
            segments: self.segments.len() as u64,
            damaged_segments: self.missing.len() as u64,
            bundles: self.maintenance.bundles.count() as u64,
            bundle_bytes: self.maintenance.bundles.file_bytes(),
            maintenance: self.maintenance.status(),
            ..SealStatus::default()
        };
        for segment in &self.segments {
            let totals = self.maintenance.totals(segment);
            status.file_bytes += self.maintenance.share_bytes(&segment.live);
            status.entries += totals.entries;
            status.line_bytes += totals.line_bytes;
            status.directory_bytes += segment.footer.directory_len_bytes();
        }
        status
    }

    fn must_seal_to_stop(&self) -> bool {
        self.stop.reply_to.is_some()
            && self.sealing.policy.on_stop
            && !self.sealing.active.is_empty()
    }

    /// Whether a stop may be answered as far as sealing goes.
    pub(super) fn sealing_allows_stop(&self) -> bool {
        match self.sealing.phase {
            Phase::Idle => !self.must_seal_to_stop(),
            // The log has everything; the next start seals it.
            Phase::Failed { .. } => true,
            Phase::Wanted | Phase::Running => false,
        }
    }
}
