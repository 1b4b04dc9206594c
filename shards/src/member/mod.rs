//! A node among others: drives a [`Member`] over the bucket, and brings the shards in step with it. One
//! per node, on core 0.
//!
//! What the member wants of the store is done one request at a time of each kind ([`maps`], [`fence`]).
//! What it wants of the storage engine follows from what it owns ([`engine`]): whatever the shards have
//! is compared with that after each step, and the difference is made up by one job at a time.
//!
//! Guarantees, besides those of [`logsvc_cluster::member`]:
//! - The shards have a partition only while the member owns it. [`MemberHandle::may_answer`] says yes
//!   only while they have all that it owns, with all that earlier owners have left.
//! - A partition that is given up is in live segments of the bucket before the map says so.
//!
//! Failures: a bucket that is slow or away leaves the node with what it has, as long as its proof
//! holds. A node that was taken over ends ([`MemberDriver::run`]), and has to start again as another
//! writer.

mod engine;
mod fence;
mod handle;
mod jobs;
mod maps;
mod reach;
mod replay;
mod routes;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use logsvc_cluster::map::{Epoch, MemberInfo};
use logsvc_cluster::member::{CreateOutcome, Effect, Input, Member, ReadOutcome, Stop};
use logsvc_cluster::settings::Settings;
use logsvc_runtime::mesh::Caller;
use logsvc_runtime::{Latch, Monotonic, Runtime};
use logsvc_store::Store;

use self::engine::{Engine, JobEnd};
pub use self::handle::MemberHandle;
use self::jobs::Tools;
pub(crate) use self::maps::newest_is;
pub use self::reach::{CUT_OFF_AFTER, CutOff, WELL_AFTER};
pub use self::routes::{Here, KEEPER_PARTITION, Place, Routes};
use crate::follower::{BucketStatus, OwnedSegments};
use crate::lanes::{Lanes, Stopped};
use crate::messages::{ShardReply, ShardRequest};
use crate::node::NodePlan;
use crate::sink::SinkStatus;

/// Why a node is none among others any more.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// The member has ended.
    #[error("{0}")]
    Stopped(#[from] Stop),
    /// The shards have stopped, or do not do what they have to.
    #[error("the shards of the node do not follow: {0}")]
    Shards(Arc<str>),
}

impl From<Stopped> for MemberError {
    fn from(_: Stopped) -> MemberError {
        MemberError::Shards(Arc::from("they have stopped"))
    }
}

/// Parts of a node that a [`MemberDriver`] works with.
pub struct MemberParts<R: Runtime> {
    /// The bucket.
    pub store: Store<R>,
    /// The plan of the start, which has to be one of a member.
    pub plan: NodePlan,
    /// Lanes from core 0 to all shards.
    pub shards: Caller<ShardRequest, ShardReply>,
    /// How the node and its bucket stand.
    pub bucket: Arc<BucketStatus>,
    /// The log of the node in the bucket, if it is there.
    pub sink: Option<Arc<SinkStatus>>,
    /// What the follower is told.
    pub owned: OwnedSegments,
}

impl<R: Runtime> std::fmt::Debug for MemberParts<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemberParts").field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// See the module.
pub struct MemberDriver<R: Runtime> {
    tools: Rc<Tools<R>>,
    handle: MemberHandle,
    engine: Engine,
    /// Requests that are on their way.
    requests: FuturesUnordered<LocalBoxFuture<'static, Input>>,
    /// What the engine does.
    job: Option<LocalBoxFuture<'static, Result<JobEnd, MemberError>>>,
    /// The newest time at which the sink has shown that nobody has taken over.
    shown: Option<Monotonic>,
}

impl<R: Runtime> std::fmt::Debug for MemberDriver<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemberDriver").field("handle", &self.handle).finish_non_exhaustive()
    }
}

enum Event {
    Input(Input),
    Job(Result<JobEnd, MemberError>),
    Told,
    Tick,
    Lost,
}

impl<R: Runtime> MemberDriver<R> {
    /// A node that joins; `info` is what others know of it.
    pub fn new(
        runtime: R,
        settings: Settings,
        info: MemberInfo,
        parts: MemberParts<R>,
    ) -> MemberDriver<R> {
        let me = Epoch(parts.plan.epoch);
        let partitions = parts.plan.layout().partitions();
        let chance = runtime.random_u64();
        let member = Member::new(settings, me, info, partitions, None, chance);
        let cores = runtime.core_count();
        let MemberParts { store, plan, shards, bucket, sink, owned } = parts;
        let handle = MemberHandle::new(member, sink.clone());
        let lanes = Lanes { runtime: runtime.clone(), caller: shards };
        let tools = Tools { runtime, store, plan, lanes, bucket, sink, owned, me };
        MemberDriver {
            tools: Rc::new(tools),
            engine: Engine::new(cores, partitions),
            handle,
            requests: FuturesUnordered::new(),
            job: None,
            shown: None,
        }
    }

    /// What others on this core may ask.
    pub fn handle(&self) -> MemberHandle {
        self.handle.clone()
    }

    /// Goes on until the node has left or was taken over. `lost` is to be triggered when a write to a
    /// log of the node has met a fence.
    ///
    /// # Errors
    /// Always: [`Stop::Left`] is the good end.
    pub async fn run(mut self, lost: Latch) -> Result<(), MemberError> {
        self.step(Input::Tick);
        loop {
            self.begin_job();
            match self.wait(&lost).await {
                Event::Input(input) => self.step(input),
                Event::Job(end) => {
                    self.job = None;
                    let inputs = self.engine.end(end?, &self.handle);
                    inputs.into_iter().for_each(|input| self.step(input));
                }
                Event::Told => {
                    self.show();
                    loop {
                        let Some(input) = self.handle.0.inputs.borrow_mut().pop_front() else {
                            break;
                        };
                        self.step(input);
                    }
                }
                Event::Tick => self.step(Input::Tick),
                Event::Lost => self.step(Input::Fenced),
            }
            self.handle.publish();
            if let Some(stop) = self.handle.stopped() {
                return Err(stop.into());
            }
        }
    }

    /// Tells the member what the sink has shown.
    fn show(&mut self) {
        let shown = self.tools.sink.as_ref().and_then(|sink| sink.was_own_at());
        if let Some(sent) = shown.filter(|_| shown > self.shown) {
            self.shown = shown;
            self.step(Input::WalCreated { sent });
        }
    }

    fn step(&mut self, input: Input) {
        let now = self.tools.runtime.now();
        if is_answer(&input) {
            self.handle.0.reach.note_answered(now);
        }
        let effects = self.handle.0.member.borrow_mut().step(now, input);
        for effect in effects {
            self.perform(effect);
        }
        let owned = self.handle.0.member.borrow().owned().collect();
        self.engine.note_owned(owned);
        self.handle.0.is_in_step.set(self.engine.is_in_step());
    }

    fn perform(&mut self, effect: Effect) {
        let tools = Rc::clone(&self.tools);
        if matches!(effect, Effect::ReadMap { .. } | Effect::CreateMap { .. }) {
            self.handle.0.reach.note_asked(tools.runtime.now());
        }
        match effect {
            Effect::ReadMap { number } => self.requests.push(Box::pin(async move {
                let outcome = maps::read(&tools.runtime, &tools.store, number).await;
                Input::Read { number, outcome }
            })),
            Effect::CreateMap { number, bytes } => self.requests.push(Box::pin(async move {
                let outcome = maps::create(&tools.runtime, &tools.store, number, &bytes).await;
                Input::Created { number, outcome }
            })),
            Effect::Fence { epoch } => self.requests.push(Box::pin(async move {
                let ended = fence::end(&tools.runtime, &tools.store, tools.me, epoch).await;
                let ended = ended.inspect_err(|error| {
                    tracing::warn!("cannot end the writer {epoch}, which is tried again: {error}");
                });
                Input::FenceDone { epoch, ends: ended.ok() }
            })),
            Effect::Recover { partition, since, from } => {
                self.engine.recover(partition, since, from);
            }
            Effect::Seal { partition, ticket } => self.engine.seal(partition, ticket),
            Effect::Adopt { epochs } => self.engine.adopt(epochs),
            // The loop ends.
            Effect::Stop(_) => {}
        }
    }

    /// Begins what the shards need in order to have what the member owns.
    fn begin_job(&mut self) {
        if self.job.is_none() {
            self.job = self.engine.next(&self.tools, &self.handle);
        }
    }

    async fn wait(&mut self, lost: &Latch) -> Event {
        let wake = self.handle.0.member.borrow().wake();
        let mut timer = pin!(self.tools.runtime.sleep_until(wake));
        let mut told = pin!(self.handle.0.bell.wait());
        let mut lost = pin!(lost.wait());
        let (requests, job) = (&mut self.requests, &mut self.job);
        poll_fn(|context| {
            if lost.as_mut().poll(context).is_ready() {
                return Poll::Ready(Event::Lost);
            }
            if !requests.is_empty()
                && let Poll::Ready(Some(input)) = requests.poll_next_unpin(context)
            {
                return Poll::Ready(Event::Input(input));
            }
            if let Some(running) = job
                && let Poll::Ready(end) = Pin::new(running).poll(context)
            {
                return Poll::Ready(Event::Job(end));
            }
            if told.as_mut().poll(context).is_ready() {
                return Poll::Ready(Event::Told);
            }
            timer.as_mut().poll(context).map(|()| Event::Tick)
        })
        .await
    }
}

/// Whether the bucket has said something of a map, or has taken an object of the log.
fn is_answer(input: &Input) -> bool {
    match input {
        Input::Read { outcome, .. } => !matches!(outcome, ReadOutcome::Failed),
        Input::Created { outcome, .. } => !matches!(outcome, CreateOutcome::Unknown),
        Input::WalCreated { .. } => true,
        _ => false,
    }
}
