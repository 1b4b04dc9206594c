//! Plans the jobs of the compactor: merging segments, removing expired and deleted entries, keeping
//! within the disk space. Takes their results over.
//!
//! Guarantees: one job at a time, and none begins while the shard seals. If the disk fails, the
//! next attempt comes after a pause, which grows with each failure.

mod bundles;
mod expiry;
mod own_totals;
mod purge;
mod segments;
mod time;

use std::sync::Arc;

use ahash::{AHashMap, AHashSet};
use logsvc_runtime::Monotonic;

use super::{Effect, Shard, StepContext};
use crate::compact::{
    Activity, Candidate, CompactError, CompactionPolicy, Inspection, MaintenanceJob,
    MaintenanceOutcome, MergeJob, OwnTotals, RETRY_PAUSE_MAX, Throttle, choose,
};
use crate::manifest::{LiveSegment, SegmentName};
use crate::messages::MaintenanceStatus;
use crate::retention::{ExpiryFilter, NodeSegments, RetentionClock, RetentionPolicy, StartClock};
use crate::sealed::{SealedSegment, hasher};
use crate::types::OwnedPartitions;
use bundles::Bundles;
use expiry::Expiry;
use purge::Purge;

/// The rules by which a shard merges and removes segments.
#[derive(Clone, Debug, Default)]
pub struct MaintenanceConfig {
    /// When segments are merged.
    pub compaction: CompactionPolicy,
    /// How long entries stay.
    pub retention: Arc<RetentionPolicy>,
    /// The disk space that the segments of the node may take, in bytes; follows from `retention`.
    pub disk_max_bytes: Option<u64>,
    /// The knowledge about segments that the shards of the node share.
    pub node: Arc<NodeSegments>,
    /// The knowledge of the start about the time; `None`: nothing.
    pub clock: Option<StartClock>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Running,
    /// After a failure.
    Paused {
        until: Monotonic,
    },
}

/// Directories of segments that leave the list are held at once up to this many bytes.
const LEAVING_DIRECTORIES_BYTES: u64 = 8 << 20;

/// The first of these segments, so many that their directories may be held at once.
fn some_of(mut segments: Vec<Arc<SealedSegment>>) -> Vec<Arc<SealedSegment>> {
    let mut bytes = 0;
    let fits = |segment: &&Arc<SealedSegment>| {
        bytes += segment.footer.directory_len_bytes();
        bytes <= LEAVING_DIRECTORIES_BYTES
    };
    let count = segments.iter().take_while(fits).count().max(1);
    segments.truncate(count);
    segments
}

/// The maintenance part of a shard's state.
#[derive(Debug)]
pub(super) struct Maintenance {
    config: MaintenanceConfig,
    /// Which of the policies since the start holds, from 1.
    policy: u32,
    shard: u16,
    /// The partitions of the shard.
    pub(super) owned: OwnedPartitions,
    phase: Phase,
    planning: Planning,
    /// When the job that runs began.
    job_began: Monotonic,
    /// Failures since the last success.
    failures_in_a_row: u32,
    /// Segments with damage.
    unmergeable: AHashSet<SegmentName>,
    /// The shard's own part of segments that other shards use too, or that streams have left.
    own_totals: AHashMap<SegmentName, OwnTotals>,
    /// When the entries of segments expire, as far as it is known.
    expiries: AHashMap<SegmentName, Expiry>,
    /// A segment of which half has expired.
    to_rewrite: Option<SegmentName>,
    retired: Retired,
    pub(super) bundles: Bundles,
    pub(super) throttle: Arc<Throttle>,
    time: RetentionTime,
    /// The removal of deleted entries that is under way.
    purge: Option<Box<Purge>>,
    status: MaintenanceStatus,
}

/// When the next job is planned.
#[derive(Debug)]
struct Planning {
    /// Whether something has changed since the last plan.
    wanted: bool,
    /// Whether the change needs a step of its own, because no event may follow.
    needs_step: bool,
    /// Whether the plan waits for the end of a sealing, which makes a step of its own.
    is_blocked: bool,
    /// When a plan is due although nothing has changed.
    next_check: Option<Monotonic>,
}

/// Segments that have left the shard's list.
#[derive(Debug, Default)]
struct Retired {
    /// Segments that scans may hold, and whether their files go: no other shard has used them.
    segments: Vec<(Arc<SealedSegment>, bool)>,
    /// When the shard looks again whether scans hold them.
    next_sweep: Option<Monotonic>,
    /// Segments that other shards use, and that no scan of this shard holds.
    to_release: Vec<LiveSegment>,
}

/// The time by which entries expire.
#[derive(Debug)]
struct RetentionTime {
    clock: RetentionClock,
    /// As of the last look at the clocks, in ns since the Unix epoch.
    now_ns: i64,
}

impl Maintenance {
    pub(super) fn new(
        config: MaintenanceConfig,
        shard: u16,
        owned: OwnedPartitions,
    ) -> Maintenance {
        let clock = config.clock.as_ref().map(RetentionClock::new).unwrap_or_default();
        let is_active = config.retention.periods.is_some() || config.disk_max_bytes.is_some();
        Maintenance {
            config,
            policy: 1,
            shard,
            owned,
            phase: Phase::Idle,
            planning: Planning {
                wanted: true,
                needs_step: is_active,
                is_blocked: false,
                next_check: None,
            },
            job_began: Monotonic(0),
            failures_in_a_row: 0,
            unmergeable: AHashSet::with_hasher(hasher()),
            own_totals: AHashMap::with_hasher(hasher()),
            expiries: AHashMap::with_hasher(hasher()),
            to_rewrite: None,
            retired: Retired::default(),
            bundles: Bundles::new(),
            throttle: Arc::default(),
            time: RetentionTime { clock, now_ns: i64::MIN },
            purge: None,
            status: MaintenanceStatus::default(),
        }
    }

    /// Notes that segments have been added.
    pub(super) fn segments_changed(&mut self) {
        self.planning.wanted = true;
        self.planning.needs_step = true;
    }

    /// Counts a stream that has left the memory.
    pub(super) fn note_forgotten_stream(&mut self) {
        self.status.forgotten_streams += 1;
    }

    pub(super) fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    pub(super) fn next_wakeup(&self) -> Option<Monotonic> {
        let work = match self.phase {
            _ if self.planning.is_blocked => None,
            Phase::Idle if self.planning.needs_step => Some(Monotonic(0)),
            Phase::Idle => self.planning.next_check,
            Phase::Running => None,
            Phase::Paused { until } => Some(until),
        };
        [work, self.retired.next_sweep].into_iter().flatten().min()
    }

    pub(super) fn status(&self) -> MaintenanceStatus {
        MaintenanceStatus { retired_segments: self.retired.segments.len() as u64, ..self.status }
    }

    fn is_mergeable(&self, segment: &SealedSegment) -> bool {
        !self.unmergeable.contains(&segment.live.name) && !self.lacks_totals(segment)
    }

    /// Whether other shards use a segment, too.
    fn is_shared(&self, segment: &SealedSegment) -> bool {
        !self.owned.contain_file(segment.live.name.writer(), &segment.left)
    }

    /// The part of a segment's file that counts as the shard's, in bytes.
    pub(super) fn share_bytes(&self, live: &LiveSegment) -> u64 {
        self.config.node.share_bytes(live)
    }
}

impl Shard {
    /// Begins the next job, if one is due. To be called at the end of each step.
    pub(super) fn maintain_if_due(&mut self, context: StepContext, effects: &mut Vec<Effect>) {
        self.retire_unused(context, effects);
        self.end_purge_if_due(effects);
        let activity = if self.stop.begun || self.ownership.blocks_jobs() {
            Activity::Stopping
        } else if self.sealing.is_running() {
            Activity::Sealing
        } else if self.wal.is_idle() {
            Activity::Idle
        } else {
            Activity::Busy
        };
        if activity == Activity::Idle && self.sealing.head_bytes() == 0 {
            // No push is under way, and merges need memory.
            self.head_memory.pool.release();
        }
        let is_overtaken = activity != Activity::Stopping && self.drafts.are_too_many();
        let maintenance = &mut self.maintenance;
        maintenance.throttle.set(if is_overtaken { Activity::Overtaken } else { activity });
        maintenance.planning.needs_step = false;
        maintenance.planning.is_blocked =
            matches!(activity, Activity::Stopping | Activity::Sealing);
        if maintenance.planning.is_blocked {
            return;
        }
        let resumes = match maintenance.phase {
            Phase::Running => return,
            Phase::Paused { until } if context.now < until => return,
            Phase::Paused { .. } => true,
            Phase::Idle => {
                let is_due = maintenance.planning.next_check.is_some_and(|due| context.now >= due);
                if !maintenance.planning.wanted && !is_due {
                    return;
                }
                false
            }
        };
        maintenance.planning.wanted = false;
        maintenance.phase = Phase::Idle;
        // A job that has failed comes first.
        let job =
            if resumes { Some(MaintenanceJob::Resume) } else { self.next_job(context, effects) };
        let maintenance = &mut self.maintenance;
        let config = &maintenance.config;
        let expires = config.retention.periods.is_some() || config.disk_max_bytes.is_some();
        let interval = config.compaction.check_interval;
        let check = expires.then(|| context.now.after(interval));
        let drafts_due = self.drafts_due();
        let maintenance = &mut self.maintenance;
        maintenance.planning.next_check = [check, drafts_due].into_iter().flatten().min();
        if job.is_none() {
            maintenance.status.failing_since = None;
        }
        if let Some(job) = job {
            maintenance.phase = Phase::Running;
            maintenance.job_began = context.now;
            effects.push(Effect::Maintain(Box::new(job)));
        }
    }

    /// The next job: jobs that free space come first.
    fn next_job(
        &mut self,
        context: StepContext,
        effects: &mut Vec<Effect>,
    ) -> Option<MaintenanceJob> {
        if !self.maintenance.retired.to_release.is_empty() {
            return Some(MaintenanceJob::Release(std::mem::take(
                &mut self.maintenance.retired.to_release,
            )));
        }
        let now_ns = self.retention_now_ns(context, effects);
        let mut expired = self.expired_segments(now_ns);
        expired.extend(self.over_disk_share(&expired));
        // Shared ones leave this shard's list at once, and the node when the last shard
        // does not read them any more.
        let (shared, own): (Vec<_>, Vec<_>) =
            expired.into_iter().partition(|segment| self.maintenance.is_shared(segment));
        if !shared.is_empty() {
            return Some(MaintenanceJob::Leave(some_of(shared)));
        }
        if !own.is_empty() {
            return Some(MaintenanceJob::Remove(some_of(own)));
        }
        let stale = self.take_stale_bundles();
        if !stale.is_empty() {
            let paths = stale.iter().map(|bundle| bundle.path.clone()).collect();
            return Some(MaintenanceJob::Unbundle(paths));
        }
        if let Some(segment) = self.due_for_inspection(now_ns) {
            return Some(MaintenanceJob::Inspect(Inspection {
                segment,
                retention: Arc::clone(&self.maintenance.config.retention),
                policy: self.maintenance.policy,
                now_ns,
                throttle: Arc::clone(&self.maintenance.throttle),
            }));
        }
        let mut neighbours = self.small_neighbours(context.now);
        if self.maintenance.purge.is_some() {
            let is_draft = |index: &usize| self.segments[*index].footer.is_draft;
            let are_drafts = neighbours.iter().flatten().any(is_draft);
            if !are_drafts && let Some(job) = self.purge_job(now_ns) {
                return Some(job);
            }
            neighbours = neighbours.filter(|_| are_drafts);
        }
        let Some(inputs) = self.half_expired().or(neighbours) else {
            return self.bundle_job().map(MaintenanceJob::Bundle);
        };
        let retention = Arc::clone(&self.maintenance.config.retention);
        Some(MaintenanceJob::Merge(MergeJob {
            earlier: self.overlapping_before(&inputs),
            inputs: inputs.iter().map(|&index| Arc::clone(&self.segments[index])).collect(),
            keep: Box::new(ExpiryFilter::new(retention, now_ns)),
            throttle: Arc::clone(&self.maintenance.throttle),
        }))
    }

    /// Segments that come before the last of these inputs in the order, and overlap them in time.
    fn overlapping_before(&self, inputs: &[usize]) -> Vec<Arc<SealedSegment>> {
        let lives = || inputs.iter().map(|&index| &self.segments[index].live);
        let first_ns = lives().map(|live| live.min_ns).min().unwrap_or(i64::MAX);
        let last_ns = lives().map(|live| live.max_ns).max().unwrap_or(i64::MIN);
        let end = inputs.last().copied().unwrap_or(0);
        let before = self.segments[..end].iter().enumerate().filter(|(index, segment)| {
            let live = &segment.live;
            !inputs.contains(index) && live.min_ns <= last_ns && live.max_ns >= first_ns
        });
        before.map(|(_, segment)| Arc::clone(segment)).collect()
    }

    /// Segments that have to go for the disk's sake, besides the segments in `going`.
    fn over_disk_share(&self, going: &[Arc<SealedSegment>]) -> Vec<Arc<SealedSegment>> {
        let Maintenance { config, shard, .. } = &self.maintenance;
        let Some(max_bytes) = config.disk_max_bytes else { return Vec::new() };
        let stays = |segment: &&Arc<SealedSegment>| {
            !going.iter().any(|other| other.live.name == segment.live.name)
        };
        let mut staying: Vec<&Arc<SealedSegment>> = self.segments.iter().filter(stays).collect();
        staying.sort_by_key(|segment| (segment.live.day, segment.live.order));
        let share = |segment: &&Arc<SealedSegment>| self.maintenance.share_bytes(&segment.live);
        // A bundle goes after its segments.
        let bundles = self.maintenance.bundles.file_bytes();
        let mut own_bytes: u64 = bundles + staying.iter().map(share).sum::<u64>();
        let publish = |own_bytes, first: Option<&&Arc<SealedSegment>>| {
            config.node.publish(*shard, own_bytes, first.map(|segment| segment.live.day));
        };
        publish(own_bytes, staying.first());
        let Some((total_bytes, oldest)) = config.node.total() else { return Vec::new() };
        let mut excess_bytes = total_bytes.saturating_sub(max_bytes);
        let mut gone = 0;
        for segment in &staying {
            // Another shard has older ones, or this one is done with the day.
            if excess_bytes == 0 || Some(segment.live.day) != oldest {
                break;
            }
            excess_bytes = excess_bytes.saturating_sub(share(segment));
            own_bytes -= share(segment);
            gone += 1;
        }
        publish(own_bytes, staying.get(gone));
        staying[..gone].iter().map(|segment| Arc::clone(segment)).collect()
    }

    /// From when on drafts are to be merged; `None` if there are none that can be.
    fn drafts_due(&self) -> Option<Monotonic> {
        let mut drafts = self.segments.iter().filter(|segment| segment.footer.is_draft);
        let has_mergeable = drafts.any(|segment| self.maintenance.is_mergeable(segment));
        has_mergeable.then(|| self.drafts.due()).flatten()
    }

    /// Segments to be merged.
    fn small_neighbours(&self, now: Monotonic) -> Option<Vec<usize>> {
        let maintenance = &self.maintenance;
        let candidate = |segment: &Arc<SealedSegment>| {
            let OwnTotals { line_bytes, runs, .. } = maintenance.totals(segment);
            Candidate {
                live: LiveSegment { line_bytes, ..segment.live },
                runs,
                is_mergeable: maintenance.is_mergeable(segment),
                is_draft: segment.footer.is_draft,
            }
        };
        let candidates: Vec<Candidate> = self.segments.iter().map(candidate).collect();
        let drafts_are_due = self.drafts_due().is_some_and(|due| now >= due);
        choose(&candidates, &maintenance.config.compaction, drafts_are_due)
    }

    /// Takes over the outcome of a job.
    pub(super) fn maintained(
        &mut self,
        result: Result<MaintenanceOutcome, CompactError>,
        context: StepContext,
    ) {
        let maintenance = &mut self.maintenance;
        maintenance.planning.wanted = true;
        let mut outcome = match result {
            Ok(outcome) => outcome,
            Err(error) => {
                self.maintenance_failed(&error, context);
                return;
            }
        };
        maintenance.phase = Phase::Idle;
        if outcome.is_merge || !outcome.removed.is_empty() || outcome.released > 0 {
            maintenance.failures_in_a_row = 0;
            maintenance.status.failing_since = None;
            maintenance.status.last_job = Some(context.now.since(maintenance.job_began));
        }
        // A merge that drops no entry changes no answer.
        let changes = !outcome.is_merge || outcome.entries_out < outcome.entries_in;
        maintenance.note_for_purge(&mut outcome);
        if outcome.is_merge {
            let status = &mut maintenance.status;
            status.merges += 1;
            status.merged_segments += outcome.removed.len() as u64;
            status.line_bytes_in += outcome.line_bytes_in;
            status.line_bytes_out += outcome.line_bytes_out;
            status.dropped_entries += outcome.entries_in.saturating_sub(outcome.entries_out);
        } else {
            maintenance.status.removed_segments += outcome.removed.len() as u64 + outcome.released;
        }
        if let Some(inspected) = outcome.inspected {
            let retention_now_ns = self.maintenance.time.now_ns;
            self.note_inspected(inspected, retention_now_ns);
        }
        if let Some(bundled) = outcome.bundled {
            self.note_bundled(bundled);
        }
        if let Some(added) = outcome.added {
            self.insert_segment(added.segment);
        }
        for removed in outcome.removed {
            self.remove_segment(removed, changes);
        }
    }

    fn maintenance_failed(&mut self, error: &CompactError, context: StepContext) {
        let maintenance = &mut self.maintenance;
        maintenance.note_failure_for_purge(error);
        match error {
            CompactError::Stopped => {
                maintenance.phase = Phase::Idle;
                return;
            }
            CompactError::Damaged { segment, .. } => {
                maintenance.unmergeable.insert(*segment);
            }
            CompactError::Io(_) | CompactError::Write(_) => {}
        }
        tracing::error!(%error, shard = maintenance.shard, "cannot compact segments");
        maintenance.status.failures += 1;
        maintenance.status.failing_since.get_or_insert(context.now);
        let pause = maintenance.config.compaction.retry_pause;
        let factor = 1u32 << maintenance.failures_in_a_row.min(16);
        let pause = pause.saturating_mul(factor).min(RETRY_PAUSE_MAX.max(pause));
        maintenance.failures_in_a_row += 1;
        maintenance.phase = Phase::Paused { until: context.now.after(pause) };
    }

    /// Keeps entries for other periods from this moment on. A job that is under way ends with the
    /// periods that it began with.
    pub(super) fn retain(&mut self, policy: Arc<RetentionPolicy>) {
        let maintenance = &mut self.maintenance;
        maintenance.config.retention = policy;
        maintenance.policy = maintenance.policy.wrapping_add(1).max(1);
        // Shorter periods may make them worth a look.
        maintenance.expiries.clear();
        maintenance.to_rewrite = None;
        maintenance.segments_changed();
    }
}
