//! Drives one shard: receives requests from its lanes, performs the effects of each step, and
//! feeds their outcomes back.
//!
//! With a [`SinkMesh`] all that is written to the log goes to the bucket, too, and appends are answered
//! when it is there ([`acks`]). Queries may show entries before they are acknowledged, then.
//!
//! Guarantees: one task touches the state, and never holds it across a wait. At most one log
//! operation, one sealing and one maintenance job are under way. The driver ends when its lanes
//! are closed, or after it has answered a stop and no further request arrives.

mod acks;

use std::future::{Future, poll_fn};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use logsvc_runtime::mesh::{Inbox, InboxCounters, Incoming};
use logsvc_runtime::{AlignedBuffer, Budget, File, Monotonic, Runtime};

use self::acks::{Acks, answer};
use crate::changes::NodeChanges;
use crate::compact::{CompactError, CompactionPolicy, Compactor, MaintenanceOutcome};
use crate::deletion::DeleteFilters;
use crate::messages::{ShardEdits, ShardReply, ShardRequest};
use crate::node::NodePlan;
use crate::retention::{RetentionPolicy, keep_clock};
use crate::scan::{self, ScanConfig, ScanEnv};
use crate::sealed::{self, Directories, OpenedSegment, Sealer, SegmentFolder};
use crate::shard::{Effect, Event, MaintenanceConfig, SealPolicy, Shard, ShardConfig, StepContext};
use crate::sink::{SinkEnd, SinkMesh};
use crate::wal::SyncPolicy;
use crate::wal::files::LogFiles;
use crate::wal::format::{FRAME_HEADER_LEN, FrameHeader, WalName};
use crate::wal::recovery::{ReplayTask, replay};
use crate::wal::restored::RecoverySummary;
use crate::wal::writer::{WalConfig, WalOp};
use logsvc_segment::version::{UnknownVersion, describe};
use logsvc_store::Store;

/// Requests taken from the lanes before the log and the timers get their turn.
const REQUESTS_PER_TURN: usize = 64;

/// A log operation under way.
type Operation<F> = Pin<Box<dyn Future<Output = Finished<F>>>>;

/// A log operation that has ended.
struct Finished<F> {
    event: Event,
    /// The file that it opened.
    opened: Option<Rc<F>>,
}

/// Settings and shared memory of a shard.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Settings of the log.
    pub wal: WalConfig,
    /// Memory for entries; shared by all shards of the node.
    pub heads: Budget,
    /// Memory for streams, besides their entries; shared by all shards of the node.
    pub streams: Budget,
    /// When heads are written to segments.
    pub seal: SealPolicy,
    /// When segments are merged.
    pub compaction: CompactionPolicy,
    /// How long entries stay.
    pub retention: Arc<RetentionPolicy>,
    /// Settings of scans.
    pub scan: ScanConfig,
    /// Memory for new entries on their way to tails; shared by all shards of the node.
    pub tails: Budget,
    /// The counters of the node for the changes of its shards.
    pub changes: NodeChanges,
    /// The filters of requests for deletion that are not processed.
    pub deletions: DeleteFilters,
    /// The ways to the sink of the node, if the bucket gets the log. The log's policy has to be
    /// [`SyncPolicy::Always`] then.
    pub sink: Option<SinkMesh>,
}

/// Why a shard cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The budget for entries or streams does not even allow an empty reservation.
    #[error("the memory for recent entries and streams allows nothing; raise memory.max-bytes")]
    NoMemory,
    /// Another version of the program has written segments.
    #[error(
        "the data folder has segments that this version of logsvc cannot read: {}. To start \
         without what they hold, set storage.ignore_unknown_versions",
        describe(.0)
    )]
    UnknownVersions(Vec<UnknownVersion>),
    /// A log file cannot be read or mended.
    #[error("cannot replay the write-ahead log: {0}")]
    Replay(#[from] io::Error),
}

/// Drafts take at most one part in so many of the disk space of segments.
const DRAFTS_DISK_SHARE: u64 = 8;

/// Brings a shard's state back from segments and log, and runs it in a task of its
/// own until its lanes are closed. A segment that cannot be opened is counted and
/// logged, and the rest goes on. Segments whose files are not there are read from `store`.
///
/// # Errors
/// See [`StartError`].
pub async fn start<R: Runtime>(
    runtime: &R,
    plan: &NodePlan,
    config: HostConfig,
    inbox: Inbox<ShardRequest, ShardReply>,
    store: Option<Store<R>>,
) -> Result<RecoverySummary, StartError> {
    let (core, shards) = (runtime.core(), runtime.core_count());
    let (partitions, part) = plan.layout().part_of(core.0).numbers();
    let first_wal = WalName { epoch: plan.epoch, shards: partitions, shard: part, index: 0 };
    // With a bucket the disk holds copies, and none of them goes for good.
    let disk_max_bytes = match &plan.bucket {
        Some(_) => None,
        None => disk_max_bytes(runtime, plan, &config.retention).await?,
    };
    let mut compaction = config.compaction;
    if let (Some(drafts), Some(disk_max_bytes)) = (&mut compaction.drafts, disk_max_bytes) {
        // Drafts must not push out encoded segments.
        let share_bytes = disk_max_bytes / DRAFTS_DISK_SHARE / u64::from(shards);
        drafts.max_line_bytes = drafts.max_line_bytes.min(share_bytes);
    }
    let maintenance = MaintenanceConfig {
        compaction,
        disk_max_bytes,
        retention: config.retention,
        node: Arc::clone(&plan.node_segments),
        clock: Some(plan.clock),
    };
    let shard_config = ShardConfig {
        wal: config.wal,
        first_wal,
        heads: config.heads,
        streams: config.streams,
        seal: config.seal,
        maintenance,
        tails: config.tails,
        changes: config.changes.of_shard(core.0),
        deletions: config.deletions,
    };
    let mut state = Shard::new(&shard_config).ok_or(StartError::NoMemory)?;
    let directories = Directories::new(runtime.clone(), &config.scan.directories);
    let directories = Rc::new(directories.with_store(store));
    let unknown = sealed::open_all(runtime, plan, &mut state).await;
    if !unknown.is_empty() && !plan.options.ignores_unknown_versions {
        return Err(StartError::UnknownVersions(unknown));
    }
    let task = ReplayTask {
        wal_dir: &plan.wal_dir,
        files: &plan.files,
        covers: &plan.covers,
        replayed: &plan.replayed,
        progress: &plan.progress,
        shard: core.0,
        layout: plan.layout(),
    };
    let found = replay(runtime, task, &mut state).await?;
    let folder = SegmentFolder::new(runtime.clone(), plan, first_wal, Rc::clone(&directories));
    let folder = Rc::new(folder);
    let replayed = Arc::clone(&plan.replayed);
    let logs = LogFiles::new(runtime.clone(), plan.wal_dir.clone(), config.wal.sync);
    let logs = Rc::new(logs);
    let sealer = Sealer::new(Rc::clone(&folder), Rc::clone(&logs), first_wal, replayed);
    let compactor = Compactor::new(Rc::clone(&folder), Arc::clone(&plan.node_segments));
    let env = Rc::new(ScanEnv::new(runtime.clone(), config.scan, directories));
    let attached = config.sink.map(|mesh| mesh.attach(core));
    let acks = attached.map(|end| Acks::new(runtime.clone(), end, Rc::clone(&logs)));
    let sync = config.wal.sync;
    let log = Log { files: logs, sync, file: None, name: None, giving_back: None };
    let driver = Driver {
        clock_path: Rc::from(plan.clock_path()),
        runtime: runtime.clone(),
        env,
        log,
        acks,
        folder,
        operation: None,
        sealer: Some(sealer),
        sealing: None,
        compactor: Some(compactor),
        maintaining: None,
        lane: inbox.counters(),
    };
    drop(runtime.spawn(run(driver, state, inbox)));
    Ok(found)
}

/// Runs a shard until its lanes are closed.
async fn run<R: Runtime>(
    mut driver: Driver<R>,
    mut state: Shard,
    mut inbox: Inbox<ShardRequest, ShardReply>,
) {
    let mut effects = Vec::new();
    while let Some(event) = driver.wait(&mut inbox, state.next_wakeup()).await {
        let mut next = Some(event);
        let mut taken = 0;
        while let Some(event) = next.take() {
            if let Some(event) = driver.answer(event) {
                state.step(event, driver.context(), &mut effects);
            }
            driver.lane = inbox.counters();
            for effect in effects.drain(..) {
                driver.perform(effect);
            }
            taken += 1;
            if taken < REQUESTS_PER_TURN {
                next = inbox.try_receive().map(Event::Request);
            }
        }
        if taken == REQUESTS_PER_TURN {
            // A full turn: there may be more at once, but the core's other tasks
            // must get theirs.
            driver.runtime.yield_now().await;
        }
    }
    driver.log.files.give_back().await;
}

/// The log files of the shard.
struct Log<R: Runtime> {
    files: Rc<LogFiles<R>>,
    sync: SyncPolicy,
    /// The file that commits go to.
    file: Option<Rc<R::File>>,
    /// Its name.
    name: Option<WalName>,
    /// The removal of the file that waits for its use.
    giving_back: Running<R, ()>,
}

struct Driver<R: Runtime> {
    runtime: R,
    env: Rc<ScanEnv<R>>,
    log: Log<R>,
    /// Replies that wait for the bucket, if it gets the log.
    acks: Option<Acks<R>>,
    folder: Rc<SegmentFolder<R>>,
    operation: Option<Operation<R::File>>,
    /// Here while nothing is being sealed.
    sealer: Option<Sealer<R>>,
    sealing: Running<R, SealEnd<R>>,
    /// Here while nothing is done about segments.
    compactor: Option<Compactor<R>>,
    maintaining: Running<R, MaintainEnd<R>>,
    /// The counters of the lane at the last event.
    lane: InboxCounters,
    /// Where the time is kept for the next start.
    clock_path: Rc<Path>,
}

/// A task that gives this at its end, if there is one.
type Running<R, T> = Option<Pin<Box<<R as Runtime>::Task<T>>>>;

/// The compactor, and the outcome of its job.
type MaintainEnd<R> = (Compactor<R>, Result<MaintenanceOutcome, CompactError>);

/// The sealer, and the outcome of its job.
type SealEnd<R> = (Sealer<R>, io::Result<Vec<OpenedSegment>>);

impl<R: Runtime> Driver<R> {
    fn context(&self) -> StepContext {
        StepContext {
            now: self.runtime.now(),
            unix_ns: self.runtime.unix_nanos(),
            random: self.runtime.random_u64(),
        }
    }

    /// Answers what is no business of the shard, and gives everything else back.
    fn answer(&self, event: Event) -> Option<Event> {
        match event {
            Event::Request(Incoming { request: ShardRequest::Edits, reply_to }) => {
                let edits = self.folder.manifest.take_told();
                let retired = self.folder.take_retired();
                // Files that another core has evicted take space as long as they are open.
                self.env.directories.files.close_unused();
                let used = self.env.directories.files.take_used();
                reply_to.send(ShardReply::Edits(ShardEdits { edits, retired, used }));
                None
            }
            Event::Request(Incoming { request: ShardRequest::Append(request), reply_to }) => {
                match self.acks.as_ref().and_then(Acks::refusal) {
                    Some(refusal) => {
                        reply_to.send(ShardReply::Append(Err(refusal)));
                        None
                    }
                    None => {
                        let request = ShardRequest::Append(request);
                        Some(Event::Request(Incoming { request, reply_to }))
                    }
                }
            }
            other => Some(other),
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Reply(reply_to, mut reply) => {
                if let ShardReply::Status(status) = &mut reply {
                    // The shard does not see these: they belong to the core and its scans.
                    status.cache = self.env.cache.counters();
                    status.directories = self.env.directories.counters();
                    status.lane = self.lane;
                }
                match &mut self.acks {
                    Some(acks) => acks.send(reply_to, reply),
                    None => answer(&self.runtime, &self.log.files, reply_to, reply),
                }
            }
            Effect::Scan(job, reply_to) => {
                let env = Rc::clone(&self.env);
                drop(self.runtime.spawn(async move {
                    let result = scan::run(&env, *job).await;
                    reply_to.send(ShardReply::Leaf(result.map(Box::new)));
                }));
            }
            Effect::List(job, reply_to) => {
                let env = Rc::clone(&self.env);
                drop(self.runtime.spawn(async move {
                    let listed = scan::list(&env, *job).await;
                    reply_to.send(listed.into());
                }));
            }
            Effect::Wal(operation) => {
                debug_assert!(self.operation.is_none(), "one log operation at a time");
                self.operation = Some(self.start(operation));
            }
            Effect::Seal(job) => {
                let Some(mut sealer) = self.sealer.take() else {
                    unreachable!("one sealing at a time");
                };
                self.sealing = Some(Box::pin(self.runtime.spawn(async move {
                    let result = sealer.seal(*job).await;
                    (sealer, result)
                })));
            }
            Effect::Maintain(job) => {
                let Some(mut compactor) = self.compactor.take() else {
                    unreachable!("one maintenance at a time");
                };
                self.maintaining = Some(Box::pin(self.runtime.spawn(async move {
                    let result = compactor.run(*job).await;
                    (compactor, result)
                })));
            }
            Effect::Evict(segments, reply_to) => {
                let env = Rc::clone(&self.env);
                drop(self.runtime.spawn(async move {
                    let mut evicted = Vec::new();
                    for segment in segments {
                        let name = segment.live.name;
                        match env.directories.files.evict(&env.runtime, &segment).await {
                            Ok(()) => evicted.push(name),
                            Err(error) => tracing::warn!(
                                %error, file = %segment.path.display(),
                                "a segment that the bucket has stays on the local disk"
                            ),
                        }
                    }
                    reply_to.send(ShardReply::Evicted(evicted));
                }));
            }
            Effect::StopLogReuse => {
                self.log.files.stop_reuse();
                let files = Rc::clone(&self.log.files);
                let task = self.runtime.spawn(async move { files.give_all_back().await });
                self.log.giving_back = Some(Box::pin(task));
            }
            Effect::AllowLogReuse => self.log.files.allow_reuse(),
            Effect::KeepClock { unix_ns } => {
                let (runtime, path) = (self.runtime.clone(), Rc::clone(&self.clock_path));
                drop(self.runtime.spawn(async move {
                    keep_clock(&runtime, &path, unix_ns).await;
                }));
            }
            Effect::Retire { name, path } => {
                self.env.directories.forget(name);
                self.env.label_roots.forget(name);
                let files = &self.env.directories.files;
                files.close_unused();
                self.folder.note_retired(name);
                if let Some(path) = path {
                    // Without a bucket there are no tails.
                    let tail = path.with_file_name(name.tail_file_name());
                    self.remove_file(path);
                    if files.has_store() {
                        self.remove_file(tail);
                    }
                }
            }
        }
    }

    /// Removes a file of a segment that is not live any more.
    fn remove_file(&self, path: PathBuf) {
        let removals = Rc::clone(&self.folder.removals);
        removals.note(path.clone());
        drop(self.runtime.spawn(async move { removals.remove(path).await }));
    }

    fn start(&mut self, operation: WalOp) -> Operation<R::File> {
        let runtime = self.runtime.clone();
        let sink = self.acks.as_ref().map(Acks::end);
        match operation {
            WalOp::Open { header, next } => {
                self.log.file = None;
                self.log.name = Some(header.name);
                let files = Rc::clone(&self.log.files);
                Box::pin(async move {
                    let (result, opened) = match files.open(header, next).await {
                        Ok(file) => {
                            if let Some(sink) = sink {
                                sink.send(&runtime, header.name, 0, header.encode()).await;
                            }
                            (Ok(()), Some(file))
                        }
                        Err(error) => {
                            let file = header.name.file_name();
                            tracing::error!(%error, file, "cannot make a log file");
                            (Err(Arc::from(error.to_string())), None)
                        }
                    };
                    Finished { event: Event::WalOpened(result), opened }
                })
            }
            WalOp::Commit { frame, offset, sync } => {
                let (file, name) = (self.log.file.clone(), self.log.name);
                let (files, policy) = (Rc::clone(&self.log.files), self.log.sync);
                Box::pin(async move {
                    let begun = runtime.now();
                    let (result, frame) = match file {
                        Some(file) => {
                            let (result, frame) = commit(&*file, frame, offset, sync, policy).await;
                            match &result {
                                Ok(()) => files.committed(),
                                Err(_) => files.give_up(&file),
                            }
                            (result, frame)
                        }
                        None => (Err(io::Error::other("the log file is not open")), frame),
                    };
                    let latency = runtime.now().since(begun);
                    if let (Some(sink), Some(name), Ok(())) = (sink, name, &result) {
                        send_frame(&sink, &runtime, name, offset, &frame).await;
                    }
                    let result = result.map_err(|error| {
                        tracing::error!(%error, offset, "a commit of the write-ahead log failed");
                        Arc::from(error.to_string())
                    });
                    Finished { event: Event::WalCommitted { result, frame, latency }, opened: None }
                })
            }
        }
    }

    /// Waits for whatever comes first: the end of the log operation, a request, or
    /// the shard's timer. `None` when there will be no further request.
    async fn wait(
        &mut self,
        inbox: &mut Inbox<ShardRequest, ShardReply>,
        wakeup: Option<Monotonic>,
    ) -> Option<Event> {
        let mut request = pin!(inbox.receive());
        let mut timer = pin!(async {
            match wakeup {
                Some(deadline) => self.runtime.sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        });
        let (operation, acks) = (&mut self.operation, &mut self.acks);
        let (file, giving_back) = (&mut self.log.file, &mut self.log.giving_back);
        let sealing = &mut self.sealing;
        let sealer = &mut self.sealer;
        let (maintaining, compactor) = (&mut self.maintaining, &mut self.compactor);
        poll_fn(|context| {
            if let Some(acks) = acks {
                acks.poll(context);
            }
            // The operation comes first: its end frees the pushes that wait for it, and the
            // requests behind it go with the next operation.
            if let Some(running) = operation
                && let Poll::Ready(finished) = running.as_mut().poll(context)
            {
                *operation = None;
                if finished.opened.is_some() {
                    *file = finished.opened;
                }
                return Poll::Ready(Some(finished.event));
            }
            if let Some(running) = sealing
                && let Poll::Ready((idle, result)) = running.as_mut().poll(context)
            {
                *sealing = None;
                *sealer = Some(idle);
                let result = result.map_err(|error| {
                    tracing::error!(%error, "cannot write entries to a segment");
                    Arc::from(error.to_string())
                });
                return Poll::Ready(Some(Event::Sealed(result)));
            }
            if let Some(running) = maintaining
                && let Poll::Ready((idle, result)) = running.as_mut().poll(context)
            {
                *maintaining = None;
                *compactor = Some(idle);
                return Poll::Ready(Some(Event::Maintained(Box::new(result))));
            }
            if let Some(running) = giving_back
                && running.as_mut().poll(context).is_ready()
            {
                *giving_back = None;
                return Poll::Ready(Some(Event::LogsGivenBack));
            }
            if let Poll::Ready(incoming) = request.as_mut().poll(context) {
                return Poll::Ready(incoming.map(Event::Request));
            }
            timer.as_mut().poll(context).map(|()| Some(Event::Timer))
        })
        .await
    }
}

/// The bytes that the segments of the node may take on the disk.
async fn disk_max_bytes<R: Runtime>(
    runtime: &R,
    plan: &NodePlan,
    retention: &RetentionPolicy,
) -> io::Result<Option<u64>> {
    let Some(percent) = retention.disk_max_percent else { return Ok(retention.disk_max_bytes) };
    let space = runtime.disk_space(&plan.segments_dir).await?;
    let share_bytes = (space.total_bytes as f64 * percent / 100.0) as u64;
    Ok(Some(retention.disk_max_bytes.map_or(share_bytes, |bytes| bytes.min(share_bytes))))
}

/// Sends a frame to the sink, without the zeros that fill up its last block.
async fn send_frame<R: Runtime>(
    sink: &SinkEnd,
    runtime: &R,
    name: WalName,
    offset: u64,
    frame: &AlignedBuffer,
) {
    // A commit without a frame only syncs.
    let Some(header) = FrameHeader::decode_any(frame) else { return };
    let len = (FRAME_HEADER_LEN + header.payload_len as usize).min(frame.len());
    sink.send(runtime, name, offset, frame[..len].to_vec()).await;
}

async fn commit<F: File>(
    file: &F,
    mut frame: AlignedBuffer,
    offset: u64,
    sync: bool,
    policy: SyncPolicy,
) -> (io::Result<()>, AlignedBuffer) {
    if policy == SyncPolicy::Always {
        // The file's writes are durable when they return.
        return file.write_aligned_at(frame, offset).await;
    }
    if !frame.is_empty() {
        let (result, returned) = file.write_aligned_at(frame, offset).await;
        frame = returned;
        if result.is_err() {
            // The file is closed for good. By an interval's policy it may hold acknowledged commits
            // that nothing would sync any more.
            if let Err(error) = file.sync_data().await {
                tracing::error!(%error, "the log file that is given up cannot be synced");
            }
            return (result, frame);
        }
    }
    let result = if sync { file.sync_data().await } else { Ok(()) };
    (result, frame)
}
