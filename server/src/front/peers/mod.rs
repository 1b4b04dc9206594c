//! Answers other nodes: takes entries of partitions that this node owns, answers for its part of their
//! queries, and tells new entries for their tails.
//!
//! Guarantees: nothing here asks another node, so nodes never wait for each other in a circle. Memory
//! and places of a question are of this node. Its work ends when the node that has asked goes away.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use logsvc_http::{ChunkSource, Disconnect, Request, Response};
use logsvc_peers::frame::{Damaged, Failure};
use logsvc_peers::push::{Push, PushReply};
use logsvc_peers::question::{Asked, NotChecked, Reply, Sent, UncheckedSent};
use logsvc_peers::removal::{decode_question, encode_report};
use logsvc_peers::service::Answerer;
use logsvc_proto::error::ApiError;
use logsvc_runtime::{Account, Grant, Reservation, Runtime, SideQueue};
use logsvc_segment::batch::sections;
use logsvc_shards::messages::{AppendOutcome, ShardReply, ShardRequest};
use logsvc_shards::scan::{PartAllowance, stop_of};
use logsvc_shards::types::Cancellation;

use super::core::Core;
use super::core::errors::{node_stopping, too_busy};
use super::core::targets::Target;
use super::ingest::delivery::{add, split};
use super::ingest::outcome::{Took, took};
use super::ingest::owned_streams::OwnedStreams;
use super::query::execute::CancelOnDrop;
use super::query::leaves::{inline_or_offloaded, merge_queue};
use super::query::owners::{Bounds, HereReply};
use super::query::queue::QueueKind;
use super::query::tenants::Tenants;
use super::query::{self, Querier};
use super::tail::{Refusal, Relay, Relays};

/// Questions of up to so many bytes compile in less than a millisecond.
const SHORT_QUESTION_BYTES: usize = 4 << 10;

/// The longest question. Nobody waits longer for an answer.
const QUESTION_MAX_TIME: Duration = Duration::from_secs(24 * 3600);

/// Answers a client's request that another node has sent on for a writer.
pub(super) type Forwarded = Box<dyn Fn(Request, u32) -> LocalBoxFuture<'static, Response>>;

/// See the module.
pub(crate) struct PeerAnswers<R: Runtime> {
    forwarded: Forwarded,
    core: Rc<Core<R>>,
    querier: Rc<Querier<R>>,
    relays: Relays<R>,
    owned_streams: OwnedStreams,
}

impl<R: Runtime> PeerAnswers<R> {
    /// Answers of a core.
    pub(super) fn new(
        core: Rc<Core<R>>,
        querier: Rc<Querier<R>>,
        relays: Relays<R>,
        owned_streams: OwnedStreams,
        forwarded: Forwarded,
    ) -> PeerAnswers<R> {
        PeerAnswers { core, querier, relays, owned_streams, forwarded }
    }

    /// Follows the streams of a question.
    async fn follow(
        &self,
        sent: UncheckedSent,
        disconnect: &Disconnect,
    ) -> Result<Relay<R>, NotAnswered> {
        let routes = self.core.routes();
        let to = sent.to();
        if routes.as_ref().is_none_or(|routes| routes.me.0 != to.writer) {
            return Err(NotAnswered::Failed(node_stopping()));
        }
        if routes.is_some_and(|routes| routes.number < to.number) {
            self.core.tell_heard(to.number);
        }
        let busy = || NotAnswered::Failed(too_busy());
        let memory = self.core.budgets().tails.try_reserve(sent.estimate().bytes);
        let memory = memory.ok_or_else(busy)?;
        let queries = &self.core.budgets().queries;
        let account = Account::open(queries, 0, queries.max_bytes()).ok_or_else(busy)?;
        let cancellation = CancelOnDrop(Cancellation::default());
        let allowance =
            PartAllowance { grant: account.grant(), cancellation: cancellation.0.clone() };
        let compile = move || sent.checked(&allowance);
        let queue = Some(SideQueue::Queries);
        let sent = match inline_or_offloaded(&self.core.runtime, queue, compile).await {
            Ok(sent) => sent,
            Err(NotChecked::Stopped(stop)) => {
                return Err(NotAnswered::Failed(query::errors::stopped(stop)));
            }
            Err(NotChecked::Damaged(damaged)) => return Err(NotAnswered::Damaged(damaged)),
        };
        let question = sent.question;
        let Asked::Leaves(leaves) = &question.asked else { return Err(NotAnswered::no_tail()) };
        let [leaf] = &leaves[..] else { return Err(NotAnswered::no_tail()) };
        let relay = self.relays.follow(&question.tenants, leaf, memory, disconnect).await;
        relay.map_err(NotAnswered::Failed)
    }

    async fn store(&self, push: Push) -> PushReply {
        let Push { to, append } = push;
        let routes = self.core.routes();
        let newest = routes.as_ref().map_or(0, |routes| routes.number);
        let elsewhere = PushReply::Elsewhere { newest };
        if to.number > newest {
            self.core.tell_heard(to.number);
        }
        let is_for_me = routes.is_some_and(|routes| routes.me.0 == to.writer);
        if !is_for_me || !self.core.takes_entries() {
            return elsewhere;
        }
        let (append, over_limit) = self.owned_streams.within_limits(&self.core, append);
        let parts = split(append, &self.core.targets());
        let mut replies = Vec::new();
        for (target, part) in parts {
            // One part that is for others has all of it sent again.
            let Target::Shard(shard) = target else { return elsewhere };
            match self.core.ask(shard, ShardRequest::Append(part)) {
                Ok(reply) => replies.push((shard, reply)),
                Err(error) => return PushReply::Failed(failure(&error)),
            }
        }
        let (too_far_behind, refused_streams) = (Vec::new(), Vec::new());
        let mut all = AppendOutcome { accepted: 0, too_far_behind, refused_streams, over_limit };
        let mut worst = None;
        for (shard, reply) in replies {
            let reply = reply.await;
            if matches!(reply, Ok(ShardReply::Unknown(_))) {
                worst.get_or_insert(PushReply::Unknown);
                continue;
            }
            match took(&self.core, shard, reply) {
                Ok(Took::Stored(outcome)) => add(&mut all, outcome),
                Ok(Took::Elsewhere(_)) => {
                    worst.get_or_insert(PushReply::Elsewhere { newest });
                }
                Err(error) => return PushReply::Failed(failure(&error)),
            }
        }
        worst.unwrap_or(PushReply::Stored(all))
    }

    /// Compiles a question and answers it, within the time and the memory of a query. Gives what was
    /// asked, too, and the memory that it holds.
    async fn answer(
        &self,
        sent: UncheckedSent,
        len_bytes: usize,
        disconnect: &Disconnect,
    ) -> Result<Answered, NotAnswered> {
        let tenants = Tenants::of_scope(sent.tenants());
        let mut limits = self.querier.limits_of(&tenants);
        // The time is that of the node that asks.
        let timeout = sent.timeout().min(QUESTION_MAX_TIME);
        Arc::make_mut(&mut limits).query_timeout_ns =
            i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX).max(1);
        let context = self.querier.context_within(tenants, limits, disconnect);
        let work = async {
            let permit =
                self.querier.permit(&context.tenants, &context.limits, QueueKind::Peer).await?;
            let cancellation = CancelOnDrop(Cancellation::default());
            let mut memory = permit.account.grant();
            let no_memory = |denied| query::errors::stopped(stop_of(denied));
            memory.grow(sent.estimate().bytes).map_err(no_memory)?;
            let allowance = PartAllowance {
                grant: permit.account.grant(),
                cancellation: cancellation.0.clone(),
            };
            let queue = (len_bytes > SHORT_QUESTION_BYTES).then_some(SideQueue::Queries);
            let compile = move || sent.checked(&allowance);
            let sent = match inline_or_offloaded(&self.core.runtime, queue, compile).await {
                Ok(sent) => sent,
                Err(NotChecked::Stopped(stop)) => return Err(query::errors::stopped(stop)),
                Err(NotChecked::Damaged(damaged)) => return Ok(Err(damaged)),
            };
            let me = self.core.routes().map(|routes| routes.me.0);
            if me != Some(sent.to.writer) {
                let asked = sent.question.asked;
                return Ok(Ok(Answered { reply: HereReply::NotOwner, asked, memory }));
            }
            let bounds = Bounds {
                account: permit.account.clone(),
                cancellation: cancellation.0.clone(),
                deadline: permit.deadline,
                takes_part: None,
            };
            let reply = self.querier.answer_here(&sent.question, sent.to.number, &bounds).await?;
            Ok(Ok(Answered { reply, asked: sent.question.asked, memory }))
        };
        match self.querier.bounded(&context, work).await {
            Ok(Ok(answered)) => Ok(answered),
            Ok(Err(damaged)) => Err(NotAnswered::Damaged(damaged)),
            Err(error) => Err(NotAnswered::Failed(error)),
        }
    }
}

/// An answer to what was asked.
struct Answered {
    reply: HereReply,
    asked: Asked,
    /// Of what was asked.
    memory: Grant,
}

enum NotAnswered {
    Damaged(Damaged),
    Failed(ApiError),
}

impl NotAnswered {
    fn no_tail() -> NotAnswered {
        NotAnswered::Damaged(Damaged::Message("a tail has one leaf".to_owned()))
    }
}

impl<R: Runtime> Answerer for PeerAnswers<R> {
    async fn push(
        &self,
        message: Vec<u8>,
        memory: Option<Reservation>,
    ) -> Result<Vec<u8>, Damaged> {
        let push = Push::decode(message)?;
        for section in sections(&push.append.batch) {
            section.map_err(|error| Damaged::Message(error.to_string()))?;
        }
        let reply = self.store(push).await;
        drop(memory);
        Ok(reply.encode())
    }

    async fn removed(&self, message: &[u8]) -> Result<Vec<u8>, Damaged> {
        let question = decode_question(message)?;
        let is_me = self.core.routes().is_some_and(|routes| routes.me.0 == question.writer);
        let known = self.core.cluster().map_or(0, |cluster| cluster.common.get().number());
        if is_me && question.common > known {
            self.core.tell_common(question.common);
        }
        let report = if is_me { self.core.removal_report().await } else { None };
        Ok(encode_report(report.as_ref()))
    }

    async fn forwarded(&self, request: Request, writer: u32) -> Response {
        (self.forwarded)(request, writer).await
    }

    async fn question(&self, message: &[u8], disconnect: &Disconnect) -> Result<Vec<u8>, Damaged> {
        let sent = Sent::read(message)?;
        let nothing = Asked::Leaves(Vec::new());
        let reply = match self.answer(sent, message.len(), disconnect).await {
            Ok(Answered { reply: HereReply::Found(found, memory), asked, memory: of_asked }) => {
                let queue = merge_queue(found.held_bytes());
                let encode = move || {
                    let _memory = (memory, of_asked);
                    Reply::Found(*found).encode(&asked)
                };
                return Ok(inline_or_offloaded(&self.core.runtime, queue, encode).await);
            }
            Ok(Answered { reply: HereReply::Newer(number), .. }) => Reply::Newer(number),
            Ok(Answered { reply: HereReply::Hides(version), .. }) => Reply::Hides(version),
            Ok(Answered { reply: HereReply::Wait, .. }) => Reply::Wait,
            Ok(Answered { reply: HereReply::NotOwner, .. }) => Reply::NotOwner,
            Err(NotAnswered::Failed(error)) => Reply::Failed(failure(&error)),
            Err(NotAnswered::Damaged(damaged)) => return Err(damaged),
        };
        Ok(reply.encode(&nothing))
    }

    async fn tail(
        &self,
        message: &[u8],
        disconnect: &Disconnect,
    ) -> Result<Box<dyn ChunkSource>, Damaged> {
        match self.follow(Sent::read(message)?, disconnect).await {
            Ok(relay) => Ok(Box::new(relay)),
            Err(NotAnswered::Damaged(damaged)) => Err(damaged),
            Err(NotAnswered::Failed(error)) => {
                let number = self.core.routes().map_or(0, |routes| routes.number);
                Ok(Box::new(Refusal::new(number, failure(&error))))
            }
        }
    }
}

/// An error as another node hears it.
fn failure(error: &ApiError) -> Failure {
    Failure {
        status: error.status.as_u16(),
        text: error.message.clone(),
        retry_after_s: error.retry_after_s,
    }
}
