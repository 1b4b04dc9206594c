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
mod log;
mod setup;

use std::future::{Future, poll_fn};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use futures_util::future;
use futures_util::stream::{self, StreamExt};
use logsvc_runtime::mesh::{Inbox, InboxCounters, Incoming};
use logsvc_runtime::{Monotonic, Runtime};

use self::acks::{Acks, answer};
use self::log::{Log, Operation};
pub use self::setup::{HostConfig, StartError, start};
use crate::compact::{CompactError, Compactor, MaintenanceOutcome};
use crate::manifest::SegmentName;
use crate::messages::{ShardEdits, ShardReply, ShardRequest};
use crate::retention::keep_clock;
use crate::scan::{self, ScanEnv};
use crate::sealed::{OpenedSegment, SealedSegment, Sealer, SegmentFolder};
use crate::shard::{Effect, Event, Shard, StepContext};

/// Segments whose ends come to the local disk at once, if the memory for queries allows it.
const EVICTIONS_AT_ONCE: u64 = 4;
/// One of them for each of so many bytes of that memory: it takes 4 MiB.
const EVICTION_BYTES: u64 = 64 << 20;

/// Requests taken from the lanes before the log and the timers get their turn.
const REQUESTS_PER_TURN: usize = 64;

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
                    status.reads = self.env.directories.files.reads();
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
                let sink = self.acks.as_ref().map(Acks::end);
                self.operation = Some(self.log.begin(self.runtime.clone(), sink, operation));
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
                    reply_to.send(ShardReply::Evicted(evict(&env, &segments).await));
                }));
            }
            Effect::StopLogReuse => {
                self.log.files.stop_reuse();
                let files = Rc::clone(&self.log.files);
                let task = self.runtime.spawn(async move { files.give_all_back().await });
                self.log.giving_back = Some(Box::pin(task));
            }
            Effect::Own { owned, first_order } => self.folder.own(owned, first_order),
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

/// Keeps only the ends of segments on the local disk; gives those of which that is true.
async fn evict<R: Runtime>(env: &ScanEnv<R>, segments: &[Arc<SealedSegment>]) -> Vec<SegmentName> {
    let evict = async |segment: &Arc<SealedSegment>| {
        let evicted = env.directories.files.evict(&env.runtime, segment).await;
        let told = evicted.inspect_err(|error| {
            tracing::warn!(
                %error, file = %segment.path.display(),
                "a segment that the bucket has stays on the local disk"
            );
        });
        told.ok().map(|()| segment.live.name)
    };
    let at_once = env.queries.max_bytes() / EVICTION_BYTES;
    let at_once = at_once.clamp(1, EVICTIONS_AT_ONCE) as usize;
    let evicting = stream::iter(segments.iter().map(evict)).buffer_unordered(at_once);
    evicting.filter_map(future::ready).collect().await
}
