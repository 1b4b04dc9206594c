//! Keeps the requests for deletion: records them, has them hide entries, and has the entries
//! removed when their cancel period is over.
//!
//! The keeper runs on core 0. Front cores ask it through a mesh of its own ([`DeletionRequest`],
//! [`DeletionReply`]). It is the only one that writes the record of requests
//! ([`RequestStore`]), that publishes versions ([`NodeDeletions`]), and that tells shards of
//! filters.
//!
//! Order of a change: the record on the disk, then all shards, then the version in force, with the
//! count for caches before and behind it, then the answer, for which the bucket may have to have the
//! record, too ([`KeptFiles`]). A crash in between leaves a request that
//! is in force from the next start on though nobody was told so. So an answer other than success
//! leaves open whether the request is recorded.
//!
//! Guarantees: requests, lists and cancels are answered while entries are being removed. One pass
//! of removal runs at a time. A request is processed when the files that held its entries are
//! gone from the folders, durably, and from the bucket if there is one, and the quarantine folders hold
//! no entries. A pass that fails is
//! repeated after a pause that doubles up to [`LONGEST_PAUSE`]. Nothing is lost by a kill at any
//! moment: a pass that was cut short begins anew, and finds nothing where it was done. The query
//! of a request, which may be the very datum that is to go, is in the record alone and in no log
//! line.

mod common;
mod gone;
mod pass;
mod records;
mod removal;
mod serve;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::{Future, poll_fn};
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use logsvc_proto::TenantId;
use logsvc_runtime::mesh::{Caller, Inbox, Incoming};
use logsvc_runtime::{Budget, Latch, Monotonic, Reservation, Runtime};

use self::common::CommonRecord;
use self::gone::Folders;
use self::pass::{Outside, PassEnd, PassError};
use self::records::{Change, PassOutcome, Records, Times};
use crate::changes::NodeChanges;
use crate::common::CommonFiles;
use crate::deletion::store::RequestStore;
use crate::deletion::{
    DeleteFilter, DeleteRequest, DeleteState, DeletionReply, DeletionRequest, DeletionStatus,
    NodeDeletions,
};
use crate::follower::BucketStatus;
use crate::kept::KeptFiles;
use crate::lanes::Lanes;
use crate::messages::{ShardReply, ShardRequest};
use crate::node::NodePlan;
use crate::retention::{RetentionClock, keep_clock};
use crate::sink::SinkStatus;

/// The first pause after a failure; pauses double.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause after a failure.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// The most memory that the list of one tenant's requests takes, in bytes.
pub const LISTED_MAX_BYTES: u64 = records::LISTED_MAX_BYTES as u64;
/// How often the keeper looks at the clock while no request is pending.
const IDLE_INTERVAL: Duration = Duration::from_secs(600);
/// How often it looks for processed requests that leave the record.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(24 * 3600);
/// How long after shard 0 the keeper leaves a reading of the clock for the next start. Shard 0 does
/// so only while entries expire by age.
const CLOCK_DELAY: Duration = Duration::from_secs(60);

/// Settings of a [`Keeper`].
pub struct KeeperConfig {
    /// How long a request can be cancelled; its entries stay on the disk for as long.
    pub cancel_period: Duration,
    /// How many requests one pass works on, at least 1.
    pub batch_size: usize,
    /// How often the keeper looks whether a request is due, besides the moments when a cancel
    /// period is over: tenants' modes may have changed.
    pub check_interval: Duration,
    /// Whether entries are removed from the disk at all.
    pub is_removing: bool,
    /// Whether entries of a tenant are removed from the disk, at this moment.
    pub removes: Box<dyn Fn(&TenantId) -> bool>,
}

impl fmt::Debug for KeeperConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeeperConfig")
            .field("cancel_period", &self.cancel_period)
            .field("batch_size", &self.batch_size)
            .field("check_interval", &self.check_interval)
            .field("is_removing", &self.is_removing)
            .finish_non_exhaustive()
    }
}

/// The parts of the node that the keeper needs.
pub struct KeeperLinks {
    /// The lanes from core 0 to all shards.
    pub shards: Caller<ShardRequest, ShardReply>,
    /// Where changes are counted for caches.
    pub changes: NodeChanges,
    /// The version in force.
    pub deletions: NodeDeletions,
    /// Memory for filters; shared by all cores of the node.
    pub memory: Budget,
    /// How the node and its bucket stand, if it has one.
    pub bucket: Option<Arc<BucketStatus>>,
    /// How the log and the bucket stand, if that gets the log.
    pub sink: Option<Arc<SinkStatus>>,
    /// Where changes of the record are noted, if there is a bucket.
    pub files: Option<KeptFiles>,
}

impl fmt::Debug for KeeperLinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeeperLinks").field("deletions", &self.deletions).finish_non_exhaustive()
    }
}

type Incomings = Incoming<DeletionRequest, DeletionReply>;
type Pass = Pin<Box<dyn Future<Output = PassEnd>>>;

/// See the module.
pub struct Keeper<R: Runtime> {
    runtime: R,
    config: KeeperConfig,
    lanes: Lanes<R>,
    changes: NodeChanges,
    deletions: NodeDeletions,
    memory: Budget,
    /// The memory of the filters of earlier starts; `None` if there was none: they hold all the
    /// same.
    _loaded_memory: Option<Reservation>,
    store: RequestStore<R>,
    folders: Folders,
    outside: Option<Outside>,
    files: Option<KeptFiles>,
    /// Where the record is if there are other nodes.
    common: Option<CommonRecord<R>>,
    records: Records,
    status: DeletionStatus,
    clock: Clock,
    pass: Option<Pass>,
    /// The pause after the last failure; none if the last pass ended well.
    pause: Option<(Duration, Monotonic)>,
    next_expiry: Monotonic,
    /// Whether the file may hold other requests than the memory, because a write has failed.
    is_unsure: bool,
    /// Whether a shard has stopped, so that a filter may be known to some shards only.
    is_stopping: bool,
}

/// The time by which entries may be removed.
struct Clock {
    clock: RetentionClock,
    now_ns: i64,
    path: PathBuf,
    /// When a reading is left for the next start.
    keep_at: Option<Monotonic>,
}

impl<R: Runtime> fmt::Debug for Keeper<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("config", &self.config).finish_non_exhaustive()
    }
}

/// What the keeper has waited for.
enum Event {
    Request(Incomings),
    PassEnded(PassEnd),
    Timer,
    /// Another node may have changed the common requests.
    Common,
    /// There will be no further request.
    Stop,
}

impl<R: Runtime> Keeper<R> {
    /// The keeper of a start. All shards must have been started with the filters of the plan.
    /// To be made on core 0.
    pub fn new(runtime: R, plan: &NodePlan, links: KeeperLinks, config: KeeperConfig) -> Keeper<R> {
        let folders = Folders {
            wal_dir: plan.wal_dir.clone(),
            segments_dir: plan.segments_dir.clone(),
            epoch: plan.epoch,
        };
        let clock = Clock {
            clock: RetentionClock::new(&plan.clock),
            now_ns: i64::MIN,
            path: plan.clock_path(),
            keep_at: None,
        };
        let pending = plan.deletions.requests.iter().filter(|request| request.is_pending());
        let loaded_bytes = pending.map(|request| DeleteFilter::held_bytes_of(&request.query)).sum();
        Keeper {
            store: RequestStore::new(runtime.clone(), plan.data_dir().to_path_buf()),
            lanes: Lanes { runtime: runtime.clone(), caller: links.shards },
            changes: links.changes,
            deletions: links.deletions,
            _loaded_memory: links.memory.try_reserve(loaded_bytes),
            memory: links.memory,
            folders,
            outside: links.bucket.map(|bucket| Outside { bucket, sink: links.sink }),
            files: links.files,
            common: None,
            records: Records::new(&plan.deletions),
            status: DeletionStatus::default(),
            clock,
            pass: None,
            pause: None,
            next_expiry: runtime.now(),
            is_unsure: false,
            is_stopping: false,
            runtime,
            config,
        }
    }

    /// The keeper of a node among others, which have the requests in common.
    #[must_use]
    pub fn with_common(self, files: CommonFiles<R>) -> Keeper<R> {
        let mut keeper = Keeper { common: Some(CommonRecord::new(files)), ..self };
        keeper.records.is_shared = true;
        keeper
    }

    /// Serves requests until the latch is triggered, or until no front core can send any. To be
    /// triggered when all front cores have ended their requests and before the shards stop.
    /// Requests that come later are answered by a lane that is gone.
    ///
    /// The inbox is the one of core 0 in the keeper's mesh. Other cores drop theirs.
    pub async fn run(mut self, mut inbox: Inbox<DeletionRequest, DeletionReply>, stop: Latch) {
        loop {
            self.upkeep().await;
            let wakeup = self.next_wakeup();
            match self.wait(&mut inbox, &stop, wakeup).await {
                Event::Stop => return,
                Event::Timer => {}
                Event::Common => self.follow().await,
                Event::PassEnded(end) => self.end_pass(end).await,
                Event::Request(request) => self.serve(request, &mut inbox).await,
            }
        }
    }

    async fn wait(
        &mut self,
        inbox: &mut Inbox<DeletionRequest, DeletionReply>,
        stop: &Latch,
        wakeup: Monotonic,
    ) -> Event {
        let mut request = pin!(inbox.receive());
        let mut timer = pin!(self.runtime.sleep_until(wakeup));
        let mut stopping = pin!(stop.wait());
        let mut common = pin!(async {
            match &self.common {
                Some(record) => record.changed(&self.runtime).await,
                None => std::future::pending().await,
            }
        });
        let pass = &mut self.pass;
        poll_fn(|context| {
            if stopping.as_mut().poll(context).is_ready() {
                return Poll::Ready(Event::Stop);
            }
            if let Some(running) = pass
                && let Poll::Ready(end) = running.as_mut().poll(context)
            {
                *pass = None;
                return Poll::Ready(Event::PassEnded(end));
            }
            if let Poll::Ready(incoming) = request.as_mut().poll(context) {
                return Poll::Ready(incoming.map_or(Event::Stop, Event::Request));
            }
            if common.as_mut().poll(context).is_ready() {
                return Poll::Ready(Event::Common);
            }
            timer.as_mut().poll(context).map(|()| Event::Timer)
        })
        .await
    }

    fn times(&self) -> Times {
        Times {
            now: self.runtime.now(),
            retention_ns: self.clock.now_ns,
            cancel_period: self.config.cancel_period,
        }
    }

    fn next_wakeup(&self) -> Monotonic {
        let now = self.runtime.now();
        let is_idle = self.records.pending().next().is_none() && !self.is_unsure;
        let interval = if is_idle { IDLE_INTERVAL } else { self.config.check_interval };
        let next_due = self.records.next_due_in(&self.times());
        let wakeup = now.after(next_due.map_or(interval, |left| left.min(interval)));
        self.pause.map_or(wakeup, |(_, until)| if until > now { wakeup.min(until) } else { wakeup })
    }

    /// Looks at the clock, and does what is due.
    async fn upkeep(&mut self) {
        let (now, unix_ns) = (self.runtime.now(), self.runtime.unix_nanos());
        let reading = self.clock.clock.read(now, unix_ns);
        self.clock.now_ns = reading.now_ns;
        if reading.is_to_be_kept {
            self.clock.keep_at = Some(now.after(CLOCK_DELAY));
        }
        if self.clock.keep_at.is_some_and(|at| now >= at) && reading.now_ns == unix_ns {
            self.clock.keep_at = None;
            keep_clock(&self.runtime, &self.clock.path, unix_ns).await;
        }
        let is_recorder = self.common.as_ref().is_none_or(CommonRecord::is_keeper);
        if now >= self.next_expiry && is_recorder {
            self.next_expiry = now.after(EXPIRY_INTERVAL);
            let removed = self.records.expired(reading.now_ns);
            let change = Change { removed, ..Change::default() };
            if change.removed.is_empty() {
                // Nothing has expired.
            } else if self.common.is_some() {
                // What fails is tried again with the next look.
                drop(self.change_common(&change, false).await);
            } else if self.write(&change).await.is_ok() {
                self.records.apply(change, Vec::new(), now);
            }
        }
        let is_pausing = self.pause.is_some_and(|(_, until)| now < until);
        if self.is_unsure && !is_pausing && self.write(&Change::default()).await.is_err() {
            self.pause_longer();
        }
        if self.pass.is_none() && !is_pausing && self.config.is_removing && !self.is_stopping {
            self.begin_pass().await;
        }
        if self.common.is_some() && self.config.is_removing && !self.is_stopping {
            self.end_covered().await;
        }
    }

    async fn begin_pass(&mut self) {
        let is_quarantine_empty = match self.folders.quarantine(&self.runtime).await {
            Ok(found) => found.is_none(),
            Err(error) => {
                tracing::error!(%error, "cannot look for files with deleted entries");
                return self.pause_longer();
            }
        };
        if self.common.is_some() {
            return self.begin_common_pass(is_quarantine_empty);
        }
        let (times, batch) = (self.times(), self.config.batch_size.max(1));
        let removes = &self.config.removes;
        let wants = |request: &DeleteRequest| removes(&request.tenant);
        let parts = self.records.begin_pass(batch, &times, is_quarantine_empty, wants);
        if !parts.is_empty() {
            let run =
                pass::run(self.lanes.clone(), self.folders.clone(), self.outside.clone(), parts);
            self.pass = Some(Box::pin(run));
        }
    }

    /// Writes down the progress of a pass, and ends the filters of requests that are processed.
    async fn end_pass(&mut self, end: PassEnd) {
        let outcome = match &end.result {
            Ok(()) => PassOutcome::Done,
            Err(PassError::Quarantine(_)) => PassOutcome::Quarantine,
            Err(_) => PassOutcome::Failed,
        };
        let at_ms = self.runtime.unix_nanos() / 1_000_000;
        self.status.rewritten_line_bytes += end.rewritten_line_bytes;
        for (part, removed) in end.parts.iter().zip(&end.removed) {
            let tenant = part.target.filter.tenant.clone();
            self.status.tenants.entry(tenant).or_default().removed_entries += removed.entries;
        }
        let is_common = self.common.is_some();
        let change = match is_common {
            true => Change::default(),
            false => self.records.end_pass(&end.parts, &end.removed, outcome, at_ms),
        };
        if is_common {
            self.end_common_pass(&end);
        }
        if matches!(end.result, Err(PassError::Stopped)) {
            self.is_stopping = true;
            return;
        }
        // Among others a pass is recorded when all have made theirs.
        let written = if is_common { Ok(()) } else { self.write(&change).await };
        if let Err(error) = &end.result {
            tracing::error!(
                requests = end.parts.len(),
                "entries cannot be removed from the disk; they stay hidden, and this is tried \
                 again: {error}"
            );
        }
        if end.result.is_err() || written.is_err() {
            self.status.failures += 1;
            return self.pause_longer();
        }
        self.pause = None;
        self.status.last_success_ms = Some(at_ms);
        let is_processed = |request: &&DeleteRequest| !request.is_pending();
        change.replaced.values().filter(is_processed).for_each(|one| self.note_processed(one));
        for request in change.replaced.values() {
            if let DeleteState::Pending { parts_done } = request.state {
                tracing::debug!(id = %request.id, parts_done, parts = request.parts(), "progress");
            }
        }
        let now = self.runtime.now();
        let ended = self.records.apply(change, Vec::new(), now);
        self.end(&ended).await;
    }

    fn note_processed(&mut self, request: &DeleteRequest) {
        self.status.tenants.entry(request.tenant.clone()).or_default().processed += 1;
        tracing::info!(
            tenant = request.tenant.as_str(),
            id = %request.id,
            start_ns = request.start_ns,
            end_ns = request.end_ns,
            removed_entries = request.removed_entries,
            removed_line_bytes = request.removed_line_bytes,
            "a delete request is processed"
        );
    }

    fn pause_longer(&mut self) {
        let last = self.pause.map_or(FIRST_PAUSE / 2, |(pause, _)| pause);
        let pause = (last * 2).min(LONGEST_PAUSE);
        self.pause = Some((pause, self.runtime.now().after(pause)));
    }
}
