//! Brings into the bucket what the shards have made: the follower, one per node, on core 0.
//!
//! It asks the shards again and again which edits of the live set have come into force, folds them
//! ([`fold`]), uploads the segments and appends the edit to the node's log in the bucket ([`send`]).
//! Then it removes the objects of segments that no edit names any more and that no query reads, and
//! those of write-ahead logs whose entries are in segments of the bucket ([`logs`]). Kept files go
//! beside all that ([`files`]).
//!
//! Guarantees: the bucket goes from one state of a shard's live set to a later one, and names no
//! segment whose object is not whole. Nothing on the local disk waits for it: a bucket that is slow
//! or away leaves a longer fold. A segment is sent [`FollowerConfig::max_age`] after its first entry
//! came into a segment, or sooner.
//!
//! Failures: if another process has taken the bucket over, [`Follower::run`] ends with an error,
//! and nothing that this node does counts in the bucket any more.

mod cache;
mod disk;
mod ended;
mod files;
mod finish;
mod fold;
mod logs;
mod member;
mod objects;
mod orphans;
mod pull;
mod send;
mod status;
mod sweep;
mod upload;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use logsvc_runtime::mesh::Caller;
use logsvc_runtime::{Budget, Latch, Monotonic, Runtime};
use logsvc_store::Store;

use self::disk::Disk;
pub(crate) use self::ended::remove_ended;
use self::files::{Recorder, asked};
use self::fold::{Added, Batch, Fold};
use self::logs::WalLogs;
use self::member::AsMember;
pub use self::member::OwnedSegments;
use self::objects::{Objects, Removed};
use self::pull::Told;
use self::send::{SendError, Sender};
pub use self::status::{BucketNumbers, BucketStatus};
pub(crate) use self::sweep::list;
use self::upload::Uploader;
use crate::kept::KeptFiles;
use crate::lanes::{Lanes, Stopped};
use crate::ledger::{Ledger, LedgerError};
use crate::manifest::{FooterRecord, LeftPart, ManifestEdit, SegmentName};
use crate::messages::{ShardReply, ShardRequest};
use crate::node::{Node, NodePlan};
use crate::sink::WalIndex;

/// How often the shards are asked.
const INTERVAL: Duration = Duration::from_secs(1);
/// The same while somebody waits for the bucket.
const SHORT_INTERVAL: Duration = Duration::from_millis(20);
/// A segment of this length does not wait for others.
const LARGE_BYTES: u64 = 32 << 20;
/// If so much is missing in the bucket, nothing waits for its age.
const BACKLOG_BYTES: u64 = 256 << 20;
/// Free segments that go at once.
const BATCH_BYTES: u64 = 1 << 30;
/// Drafts wait so many times as long as others: a merge takes their place soon.
const DRAFT_PATIENCE: u32 = 10;
/// How often a node that sends nothing looks whether another has taken over.
const IDLE_INTERVAL: Duration = Duration::from_secs(30);
/// Settings of a [`Follower`].
#[derive(Clone, Debug)]
pub struct FollowerConfig {
    /// How old a segment gets before it is sent.
    pub max_age: Duration,
    /// Memory for what is on its way.
    pub memory: Budget,
    /// Most bytes of files of segments that the bucket has, too; `None`: as many as the disk has room
    /// for.
    pub cache_max_bytes: Option<u64>,
    /// The same as a part of the disk.
    pub cache_max_percent: Option<u16>,
    /// The length of parts of long segments, in bytes: at least 5 MiB, and at most the memory.
    pub part_bytes: u64,
}

type SendEnd<R> = (Sender<R>, Batch, Result<(), SendError>);
type Sending<R> = Pin<Box<dyn Future<Output = SendEnd<R>>>>;

/// How far a wish for the bucket to have everything has come.
enum Reaching {
    Nobody,
    /// A batch with everything is on its way.
    Sending(u64),
    /// These objects have to go, and those of the node's own log before this number.
    Removing(u64, BTreeSet<SegmentName>, u64),
}

/// See the module.
pub struct Follower<R: Runtime> {
    runtime: R,
    config: FollowerConfig,
    lanes: Lanes<R>,
    plan: NodePlan,
    store: Store<R>,
    data_dir: PathBuf,
    status: Arc<BucketStatus>,
    logs: WalLogs,
    /// Here while nothing is being sent.
    sender: Option<Sender<R>>,
    sending: Option<Sending<R>>,
    objects: Objects,
    disk: Disk,
    told: Told,
    fold: Fold,
    /// The batch that is on its way.
    in_flight: Batch,
    reaching: Reaching,
    /// When something was sent last.
    sent_at: Monotonic,
    /// Kept files that have changed.
    kept: KeptFiles,
    /// Whether the bucket may have objects that no kept file has any more.
    has_gone_files: bool,
    /// What a node among others has to know besides.
    member: AsMember,
}

impl<R: Runtime> std::fmt::Debug for Follower<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower").field("config", &self.config).finish_non_exhaustive()
    }
}

/// What the follower has waited for.
enum Event<R: Runtime> {
    Sent(Box<SendEnd<R>>),
    Removed(Removed),
    /// What was chosen, and what has lost its file.
    Evicted(Vec<SegmentName>, Vec<SegmentName>),
    Swept(bool),
    Tick,
    Stop,
}

impl<R: Runtime> Follower<R> {
    /// The follower of a start; `None` if it has no bucket, or has one already. To be made on core
    /// 0, with lanes from there to all shards.
    pub fn new(
        runtime: R,
        node: &mut Node<R>,
        store: Store<R>,
        shards: Caller<ShardRequest, ShardReply>,
        config: FollowerConfig,
        status: Arc<BucketStatus>,
    ) -> Option<Follower<R>> {
        let ledger = node.ledger.take()?;
        let plan = node.plan.clone();
        let data_dir = plan.data_dir().to_path_buf();
        let mut follower = Follower {
            lanes: Lanes { runtime: runtime.clone(), caller: shards },
            logs: WalLogs::new(&plan),
            told: Told::default(),
            fold: Fold::default(),
            in_flight: Batch::default(),
            sending: None,
            objects: Objects::new(runtime.now(), &ledger.state, &plan),
            disk: Disk::new(runtime.now()),
            sender: None,
            reaching: Reaching::Nobody,
            sent_at: runtime.now(),
            kept: KeptFiles::new(false),
            has_gone_files: !ledger.state.gone_files.is_empty(),
            member: AsMember::default(),
            plan,
            store: store.clone(),
            data_dir: data_dir.clone(),
            status: Arc::clone(&status),
            config,
            runtime: runtime.clone(),
        };
        follower.compare(&ledger);
        follower.look_at_files(&ledger);
        ledger.unsent_files.iter().for_each(|path| follower.kept.note(path.clone()));
        let FollowerConfig { memory, part_bytes, .. } = follower.config.clone();
        let recorder = Recorder {
            runtime: runtime.clone(),
            store: store.clone(),
            ledger,
            logs: follower.logs.clone(),
            kept: follower.kept.clone(),
            data_dir,
            status,
            memory: memory.clone(),
            epoch: follower.plan.epoch,
            next_number: Cell::new(0),
        };
        let uploader = Uploader { runtime, store, memory, part_bytes };
        let segments_dir = follower.plan.segments_dir.clone();
        follower.sender = Some(Sender { uploader, segments_dir, recorder });
        Some(follower)
    }

    /// The same for a node whose log goes to the bucket, through the sink with this index.
    #[must_use]
    pub fn with_log(mut self, index: WalIndex) -> Follower<R> {
        self.logs.index = Some(index);
        if let Some(sender) = &mut self.sender {
            sender.recorder.logs = self.logs.clone();
        }
        self
    }

    /// The same for a node whose owners of kept files note their changes here.
    #[must_use]
    pub fn with_files(mut self, kept: KeptFiles) -> Follower<R> {
        kept.take_over(&self.kept);
        if let Some(sender) = &mut self.sender {
            sender.recorder.kept = kept.clone();
        }
        self.kept = kept;
        self
    }

    /// Begins with the difference between the folder and the bucket.
    fn compare(&mut self, ledger: &Ledger<R>) {
        let plan = &self.plan;
        let bucket = &ledger.state;
        let unusable = plan.unusable_segments.iter().map(|live| live.name);
        let local: BTreeSet<SegmentName> =
            self.objects.opened.iter().copied().chain(unusable).collect();
        let added = plan.segments.iter().filter(|live| !bucket.live.contains_key(&live.name));
        let added: Vec<_> = added.copied().collect();
        let footer_of = |name: SegmentName| Some(FooterRecord::of(name, plan.footers.get(&name)?));
        let left = local.iter().flat_map(|&segment| {
            let parts: Vec<_> = plan.node_segments.left(segment).iter().collect();
            parts.into_iter().map(move |part| LeftPart { segment, part })
        });
        let edit = ManifestEdit {
            footers: added.iter().filter_map(|live| footer_of(live.name)).collect(),
            added,
            removed: bucket.live.keys().filter(|name| !local.contains(name)).copied().collect(),
            left: left.filter(|part| !bucket.left.contains(part)).collect(),
            covers: plan.covers.to_vec(),
        };
        // An earlier start may have uploaded them, and died before it could say so.
        let begun = edit.added.iter().map(|live| (live.name, live.day));
        self.objects.orphans.begun.extend(begun);
        self.take(edit, 0);
    }

    /// Follows the shards until the latch is triggered, which is to be done when all shards have
    /// stopped and before their lanes are closed. Brings everything into the bucket then, if that
    /// can be done soon.
    ///
    /// # Errors
    /// Another process has taken the bucket over, or its logs cannot be trusted.
    pub async fn run(mut self, stop: Latch) -> Result<(), LedgerError> {
        // The sum of all earlier logs.
        self.send(Batch::default());
        loop {
            match self.wait(&stop).await {
                Event::Stop => return self.finish().await,
                Event::Sent(end) => self.end_send(*end).await?,
                Event::Removed(removed) => self.end_removal(removed),
                Event::Evicted(chosen, evicted) => self.end_eviction(&chosen, &evicted),
                Event::Swept(is_complete) => {
                    self.objects.orphans.end_sweep(self.runtime.now(), is_complete);
                }
                Event::Tick => {}
            }
            if self.upkeep().await.is_err() {
                // The shards have stopped; the latch will tell.
                self.runtime.sleep_until(self.runtime.now().after(SHORT_INTERVAL)).await;
            }
        }
    }

    async fn wait(&mut self, stop: &Latch) -> Event<R> {
        let is_waited_for = self.status.is_wanted();
        let interval = if is_waited_for { SHORT_INTERVAL } else { INTERVAL };
        let mut timer = pin!(self.runtime.sleep_until(self.runtime.now().after(interval)));
        let mut asked = pin!(asked(Arc::clone(&self.status), self.kept.clone()));
        let mut stopping = pin!(stop.wait());
        let (sending, removing) = (&mut self.sending, &mut self.objects.removing);
        let (sweeping, evicting) = (&mut self.objects.orphans.sweeping, &mut self.disk.evicting);
        poll_fn(|context| {
            if let Some(running) = sending
                && let Poll::Ready(end) = running.as_mut().poll(context)
            {
                *sending = None;
                return Poll::Ready(Event::Sent(Box::new(end)));
            }
            if let Some(running) = removing
                && let Poll::Ready(removed) = running.as_mut().poll(context)
            {
                *removing = None;
                return Poll::Ready(Event::Removed(removed));
            }
            if let Some(running) = evicting
                && let Poll::Ready((chosen, evicted)) = running.as_mut().poll(context)
            {
                *evicting = None;
                return Poll::Ready(Event::Evicted(chosen, evicted));
            }
            if let Some(running) = sweeping
                && let Poll::Ready(is_complete) = running.as_mut().poll(context)
            {
                return Poll::Ready(Event::Swept(is_complete));
            }
            if stopping.as_mut().poll(context).is_ready() {
                return Poll::Ready(Event::Stop);
            }
            if asked.as_mut().poll(context).is_ready() || timer.as_mut().poll(context).is_ready() {
                return Poll::Ready(Event::Tick);
            }
            Poll::Pending
        })
        .await
    }

    /// Asks the shards, and begins what is due.
    async fn upkeep(&mut self) -> Result<(), Stopped> {
        let wanted = self.status.wanted();
        self.pull().await?;
        self.note_stock();
        self.find_orphans();
        self.remove_objects();
        self.check_reached();
        self.evict().await;
        self.sweep();
        if self.sender.is_none() {
            return Ok(());
        }
        if matches!(self.reaching, Reaching::Nobody) && self.status.is_wanted() {
            self.reaching = Reaching::Sending(wanted);
            let batch = self.fold.take_batch(|_| true, u64::MAX);
            self.send(batch.with_adopted(&self.member.adopted));
        } else if let Some(batch) = self.due() {
            self.send(batch);
        } else if self.kept.has_changed() || self.runtime.now().since(self.sent_at) >= self.rest() {
            self.send(Batch::default());
        }
        Ok(())
    }

    /// Tells what the bucket lacks, and what is on the local disk.
    fn note_stock(&self) {
        let backlog = self.fold.added().chain(self.in_flight.added.values());
        let (segments, len_bytes) =
            backlog.fold((0, 0), |(count, sum), added| (count + 1, sum + added.live.file_len));
        self.status.note_backlog(segments, len_bytes);
        self.status.note_local(self.disk.cache.bytes(), self.disk.cache.absent_count());
    }

    /// How long nothing is sent if there is nothing to be sent.
    fn rest(&self) -> Duration {
        if self.has_gone_files { INTERVAL } else { IDLE_INTERVAL }
    }

    /// The batch that is due, if one is.
    fn due(&mut self) -> Option<Batch> {
        let (now, max_age) = (self.runtime.now(), self.config.max_age);
        let is_over = |since: Monotonic| now.since(since) >= max_age;
        let has_backlog = self.fold.backlog_bytes() >= BACKLOG_BYTES;
        let is_due = |added: &Added| {
            if added.is_draft {
                now.since(added.since) >= max_age * DRAFT_PATIENCE
            } else {
                has_backlog || added.live.file_len >= LARGE_BYTES || is_over(added.since)
            }
        };
        let is_bound_due = self.fold.bound_since.is_some_and(is_over);
        if !is_bound_due && !self.fold.added().any(is_due) {
            return None;
        }
        Some(self.fold.take_batch(is_due, BATCH_BYTES)).filter(|batch| !batch.is_empty())
    }

    fn send(&mut self, batch: Batch) {
        let Some(mut sender) = self.sender.take() else { return };
        let uploads = batch.added.values().map(|added| (added.live.name, added.live.day));
        self.objects.orphans.begun.extend(uploads);
        self.in_flight = batch.clone();
        self.sent_at = self.runtime.now();
        let is_asked = matches!(self.reaching, Reaching::Sending(_));
        self.sending = Some(Box::pin(async move {
            let result = sender.send(&batch, is_asked).await;
            (sender, batch, result)
        }));
    }

    async fn end_send(&mut self, (sender, batch, result): SendEnd<R>) -> Result<(), LedgerError> {
        self.in_flight = Batch::default();
        self.has_gone_files = sender.recorder.has_gone();
        match result {
            Ok(()) => {
                self.status.note_sent();
                self.status.note_position(sender.recorder.ledger.position());
                // Those that came meanwhile stand behind.
                self.member.adopted.drain(..batch.adopted.len());
                self.note_sent(&sender.recorder.ledger, &batch);
                self.find_orphans();
                // Who waits for this moment reads the numbers when it has come.
                self.note_stock();
                if let Reaching::Sending(wanted) = self.reaching {
                    self.status.note_recorded(wanted);
                    let names = self.objects.gone.keys().copied().collect();
                    let logs = self.logs.first_needed(&sender.recorder.ledger.state);
                    self.reaching = Reaching::Removing(wanted, names, logs);
                    self.check_reached();
                }
            }
            Err(SendError::Lost(error)) => {
                self.status.note_lost();
                return Err(error);
            }
            Err(SendError::Gone(name)) => {
                // Its shard has told why before it removed the file.
                let pulled = self.pull_behind(batch).await;
                if pulled.is_ok() && self.fold.forget(name) {
                    tracing::error!(
                        segment = name.file_name(),
                        "the file of a segment is missing; the bucket does not get it"
                    );
                }
                if matches!(self.reaching, Reaching::Sending(_)) {
                    self.reaching = Reaching::Nobody;
                }
            }
        }
        self.sender = Some(sender);
        Ok(())
    }

    fn check_reached(&mut self) {
        if let Reaching::Removing(wanted, names, logs) = &self.reaching
            && !names.iter().any(|name| self.objects.gone.contains_key(name))
            && self.has_no_orphans()
            && self.has_removed_logs(*logs)
            && !self.has_gone_files
        {
            self.status.note_reached(*wanted);
            self.reaching = Reaching::Nobody;
        }
    }
}
