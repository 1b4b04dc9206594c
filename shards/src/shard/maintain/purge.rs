//! Removes the entries of requests for deletion from all of the shard's files.
//!
//! A purge goes in rounds. First the log file that waits for its use is removed, because it holds
//! old bytes. Then the heads are sealed, and the log goes on with a new file, even if the heads are
//! empty. Then each segment that overlaps a target is examined by a job of its own
//! ([`crate::compact`]). If entries of a target have come meanwhile, there is another round, up to
//! [`ROUNDS_MAX`]. At last half-made segments of attempts that failed are removed.
//!
//! Guarantees: after success no segment in the shard's list and no log file from
//! [`PurgeOutcome::first_log`] on has an entry of a target, except for entries that came during
//! the last round. Other files that may have one are listed as leaving. Other jobs may run in
//! between: a merge of segments without such entries gives one without. If the disk fails, the
//! jobs pause and go on. Damaged segments, and segments whose jobs fail again and again, are left,
//! and the answer names them. A stop ends the purge.

mod rounds;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ahash::{AHashMap, AHashSet};
use logsvc_proto::{Labels, TenantId};
use logsvc_runtime::mesh::ReplyTo;

use super::Maintenance;
use crate::compact::{CompactError, MaintenanceOutcome, Purged};
use crate::deletion::{PurgeTarget, RemovedTotals};
use crate::manifest::SegmentName;
use crate::messages::{PurgeOutcome, ShardReply};
use crate::sealed::{OpenedSegment, SealedSegment, hasher};
use crate::wal::format::WalName;

/// How often heads are sealed for one purge, at most.
const ROUNDS_MAX: u8 = 4;

/// A segment is left after so many failures of the disk, over some minutes.
const ATTEMPTS_MAX: u8 = 5;

/// Where a purge stands.
#[derive(Debug)]
enum Stage {
    /// The log file that waits for its use is being removed.
    GivingBack,
    /// The heads are to be sealed.
    Sealing {
        /// Whether they are frozen.
        is_frozen: bool,
    },
    /// The segments are examined.
    Examining,
    /// Half-made segments are removed.
    Sweeping,
    /// These files are being removed.
    Done(Vec<PathBuf>),
}

/// A purge under way.
#[derive(Debug)]
pub(super) struct Purge {
    reply_to: ReplyTo<ShardReply>,
    targets: Arc<[PurgeTarget]>,
    stage: Stage,
    rounds: u8,
    /// Segments without entries of a target.
    clean: AHashSet<SegmentName>,
    /// Segments that were sealed during the round: their entries came later.
    later: AHashSet<SegmentName>,
    /// Failures of the disk, by segment.
    attempts: AHashMap<SegmentName, u8>,
    /// Segments that are left, and why.
    failed: BTreeMap<SegmentName, String>,
    /// The segment whose job is under way, or has failed.
    examined: Option<SegmentName>,
    /// Whether entries of a target have come since the heads were frozen.
    has_new: bool,
    outcome: PurgeOutcome,
}

impl Purge {
    fn new(reply_to: ReplyTo<ShardReply>, targets: Arc<[PurgeTarget]>) -> Purge {
        let removed = vec![RemovedTotals::default(); targets.len()];
        Purge {
            reply_to,
            targets,
            stage: Stage::GivingBack,
            rounds: 0,
            clean: AHashSet::with_hasher(hasher()),
            later: AHashSet::with_hasher(hasher()),
            attempts: AHashMap::with_hasher(hasher()),
            failed: BTreeMap::new(),
            examined: None,
            has_new: false,
            outcome: PurgeOutcome { removed, ..PurgeOutcome::default() },
        }
    }

    fn overlaps(&self, min_ns: i64, max_ns: i64) -> bool {
        self.targets.iter().any(|target| target.overlaps(min_ns, max_ns))
    }

    fn segment_overlaps(&self, segment: &SealedSegment) -> bool {
        self.overlaps(segment.live.min_ns, segment.live.max_ns)
    }

    /// Whether a segment has to be examined in this round.
    fn wants(&self, segment: &SealedSegment) -> bool {
        let name = segment.live.name;
        !self.clean.contains(&name)
            && !self.later.contains(&name)
            && !self.failed.contains_key(&name)
            && self.segment_overlaps(segment)
    }

    /// Notes that entries of a stream were added to its head.
    pub(super) fn note_entries(
        &mut self,
        tenant: &TenantId,
        labels: &Labels,
        (min_ns, max_ns): (i64, i64),
    ) {
        let is_hit = |target: &PurgeTarget| {
            target.overlaps(min_ns, max_ns)
                && !target.filter.is_ended()
                && target.filter.selects(tenant, labels)
        };
        self.has_new = self.has_new || self.targets.iter().any(is_hit);
    }

    /// Notes a segment that leaves the list.
    pub(super) fn note_leaving(&mut self, segment: &SealedSegment) {
        if self.segment_overlaps(segment) {
            self.outcome.leaving.push(segment.path.clone());
        }
    }

    /// Takes over the outcome for a segment.
    fn note_purged(&mut self, purged: Purged, added: Option<SegmentName>) {
        let Purged { segment, removed, is_clean } = purged;
        self.examined = None;
        self.failed.remove(&segment);
        if is_clean {
            self.clean.insert(added.unwrap_or(segment));
        }
        for (total, removed) in self.outcome.removed.iter_mut().zip(removed) {
            total.add(removed);
        }
    }

    /// Takes over the outcome of a merge of other segments.
    fn note_merged(&mut self, added: SegmentName, inputs: impl Iterator<Item = SegmentName>) {
        let (mut are_clean, mut are_known) = (true, true);
        for input in inputs {
            are_clean &= self.clean.contains(&input);
            are_known &= self.clean.contains(&input) || self.later.contains(&input);
        }
        if are_clean {
            self.clean.insert(added);
        } else if are_known {
            self.later.insert(added);
        }
    }

    fn note_failure(&mut self, error: &CompactError) {
        let Some(segment) = self.examined.take() else { return };
        let is_final = match error {
            CompactError::Stopped => return,
            CompactError::Damaged { .. } | CompactError::Write(_) => true,
            CompactError::Io(_) => {
                let attempts = self.attempts.entry(segment).or_insert(0);
                *attempts += 1;
                *attempts >= ATTEMPTS_MAX
            }
        };
        if is_final {
            let name = segment.file_name();
            let text = error.to_string();
            let reason = text.strip_prefix(&format!("{name}: ")).unwrap_or(&text);
            self.failed.insert(segment, format!("{name}: {reason}"));
        }
    }
}

impl Maintenance {
    /// Whether a purge waits for the heads to be frozen.
    pub(in crate::shard) fn wants_sealing(&self) -> bool {
        let stage = self.purge.as_ref().map(|purge| &purge.stage);
        matches!(stage, Some(Stage::Sealing { is_frozen: false }))
    }

    /// Notes that the heads were frozen. The log goes on with this file.
    pub(in crate::shard) fn heads_frozen(&mut self, next_log: WalName) {
        if let Some(purge) = &mut self.purge
            && let Stage::Sealing { is_frozen } = &mut purge.stage
        {
            *is_frozen = true;
            purge.has_new = false;
            purge.rounds += 1;
            purge.outcome.first_log = Some(next_log);
        }
    }

    /// Notes entries that were added to the head of a stream.
    pub(in crate::shard) fn entries_added(
        &mut self,
        tenant: &TenantId,
        labels: &Labels,
        bounds_ns: (i64, i64),
    ) {
        if let Some(purge) = &mut self.purge {
            purge.note_entries(tenant, labels, bounds_ns);
        }
    }

    /// Notes the segments of a generation, before they come into the list.
    pub(in crate::shard) fn generation_sealed(&mut self, segments: &[OpenedSegment]) {
        let Some(purge) = &mut self.purge else { return };
        if matches!(purge.stage, Stage::GivingBack | Stage::Sealing { .. }) {
            return;
        }
        purge.later.extend(segments.iter().map(|opened| opened.segment.live.name));
    }

    /// Takes over the part of an outcome that concerns a purge.
    pub(super) fn note_for_purge(&mut self, outcome: &mut MaintenanceOutcome) {
        let added = outcome.added.as_ref().map(|added| added.segment.live.name);
        if let Some(purged) = &outcome.purged {
            let entries = purged.removed.iter().map(|totals| totals.entries).sum::<u64>();
            let line_bytes = purged.removed.iter().map(|totals| totals.line_bytes);
            self.status.purged_entries += entries;
            self.status.purged_line_bytes += line_bytes.sum::<u64>();
            self.status.purge_rewritten_line_bytes += outcome.line_bytes_out;
            if outcome.is_merge {
                // The others that went have expired.
                outcome.entries_in = outcome.entries_in.saturating_sub(entries);
            }
        }
        let Some(purge) = &mut self.purge else { return };
        if let Some(purged) = outcome.purged.take() {
            purge.outcome.rewritten_line_bytes += outcome.line_bytes_out;
            purge.note_purged(purged, added);
        } else if let Some(added) = added {
            purge.note_merged(added, outcome.removed.iter().copied());
        }
        if let Some(leaving) = outcome.leaving.take() {
            purge.stage = Stage::Done(leaving);
        }
    }

    /// Notes that a job has failed.
    pub(super) fn note_failure_for_purge(&mut self, error: &CompactError) {
        if let Some(purge) = &mut self.purge {
            purge.note_failure(error);
        }
    }
}
