//! The steps of a purge, from the request to the answer.

use std::sync::Arc;

use logsvc_runtime::mesh::ReplyTo;

use super::{Purge, ROUNDS_MAX, Stage};
use crate::compact::{MaintenanceJob, PurgeJob};
use crate::manifest::SegmentName;
use crate::messages::{PurgeOutcome, PurgeRequest, ShardReply};
use crate::retention::ExpiryFilter;
use crate::shard::{Effect, Shard};

impl Shard {
    /// Begins to remove entries from the disk.
    pub(in crate::shard) fn purge(
        &mut self,
        request: PurgeRequest,
        reply_to: ReplyTo<ShardReply>,
        effects: &mut Vec<Effect>,
    ) {
        let refusal = if self.stop.begun {
            Some("the shard is stopping")
        } else if self.maintenance.purge.is_some() {
            Some("another removal is under way")
        } else if request.targets.len() > usize::from(u16::MAX) {
            Some("too many requests for deletion at once")
        } else {
            None
        };
        if let Some(refusal) = refusal {
            let reply = ShardReply::Purged(Err(refusal.into()));
            effects.push(Effect::Reply(reply_to, reply));
            return;
        }
        let mut purge = Purge::new(reply_to, request.targets);
        // Scans hold them, or a merge under way.
        let retired = &self.maintenance.retired.segments;
        retired.iter().for_each(|(segment, _)| purge.note_leaving(segment));
        self.maintenance.purge = Some(Box::new(purge));
        effects.push(Effect::StopLogReuse);
    }

    /// Goes on with a purge: no log file waits for its use.
    pub(in crate::shard) fn logs_given_back(&mut self) {
        if let Some(purge) = &mut self.maintenance.purge {
            purge.stage = Stage::Sealing { is_frozen: false };
        }
    }

    /// Goes on with a purge if its generation is in segments.
    pub(in crate::shard) fn examine_if_sealed(&mut self) {
        let Some(purge) = &mut self.maintenance.purge else { return };
        if matches!(purge.stage, Stage::Sealing { is_frozen: true }) {
            purge.stage = Stage::Examining;
            purge.later.clear();
            self.maintenance.segments_changed();
        }
    }

    /// The next job of a purge.
    pub(in crate::shard) fn purge_job(&mut self, now_ns: i64) -> Option<MaintenanceJob> {
        let purge = self.maintenance.purge.as_ref()?;
        match purge.stage {
            Stage::Examining => {}
            Stage::Sweeping => return Some(MaintenanceJob::Sweep),
            Stage::GivingBack | Stage::Sealing { .. } | Stage::Done(_) => return None,
        }
        let attempts = |name: SegmentName| purge.attempts.get(&name).copied().unwrap_or(0);
        let wanted = self.segments.iter().enumerate();
        let wanted = wanted.filter(|(_, segment)| purge.wants(segment));
        let next = wanted.min_by_key(|(index, segment)| (attempts(segment.live.name), *index));
        let next = next.map(|(index, _)| index);
        let Some(index) = next else { return self.end_round() };
        let segment = Arc::clone(&self.segments[index]);
        let retention = Arc::clone(&self.maintenance.config.retention);
        let job = PurgeJob {
            earlier: self.overlapping_before(&[index]),
            targets: Arc::clone(&purge.targets),
            own_entries: self.maintenance.totals(&segment).entries,
            // Streams that have left it may have had hidden entries, which are still in the file.
            must_leave: self.maintenance.is_shared(&segment) || segment.has_gone,
            keep: Box::new(ExpiryFilter::new(retention, now_ns)),
            throttle: Arc::clone(&self.maintenance.throttle),
            segment,
        };
        let purge = self.maintenance.purge.as_mut()?;
        purge.examined = Some(job.segment.live.name);
        Some(MaintenanceJob::Purge(Box::new(job)))
    }

    /// All segments are examined: another round, or the last job.
    fn end_round(&mut self) -> Option<MaintenanceJob> {
        let purge = self.maintenance.purge.as_mut()?;
        if purge.has_new && purge.rounds < ROUNDS_MAX {
            purge.stage = Stage::Sealing { is_frozen: false };
            // Sealing needs a step.
            self.maintenance.segments_changed();
            return None;
        }
        purge.stage = Stage::Sweeping;
        Some(MaintenanceJob::Sweep)
    }

    /// Answers a purge that has ended, or has to.
    pub(in crate::shard) fn end_purge_if_due(&mut self, effects: &mut Vec<Effect>) {
        let is_due = |purge: &Purge| self.stop.begun || matches!(purge.stage, Stage::Done(_));
        if !self.maintenance.purge.as_deref().is_some_and(is_due) {
            return;
        }
        let Some(purge) = self.maintenance.purge.take() else { return };
        effects.push(Effect::AllowLogReuse);
        let Purge { reply_to, mut failed, outcome, targets, stage, .. } = *purge;
        let is_missed = |min_ns, max_ns| targets.iter().any(|t| t.overlaps(min_ns, max_ns));
        for live in self.missing.iter().filter(|live| is_missed(live.min_ns, live.max_ns)) {
            let text = format!("{}: it could not be opened at the start", live.name.file_name());
            failed.insert(live.name, text);
        }
        let result = match stage {
            Stage::Done(mut leaving) if failed.is_empty() => {
                leaving.extend(outcome.leaving);
                leaving.sort_unstable();
                leaving.dedup();
                Ok(PurgeOutcome { leaving, ..outcome })
            }
            Stage::Done(_) => {
                let reasons: Vec<String> = failed.into_values().collect();
                Err(format!("entries may be left in damaged segments: {}", reasons.join("; ")))
            }
            _ => Err("the shard is stopping".to_owned()),
        };
        let reply = ShardReply::Purged(result.map_err(Arc::from));
        effects.push(Effect::Reply(reply_to, reply));
    }
}
