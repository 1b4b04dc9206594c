//! Asks the shards of all nodes that own partitions, if this node is one of many.
//!
//! Guarantees: the answer is by one map. Each owner has answered at one instant behind the beginning of
//! the query, and the bucket has all that its shards had then ([`here`]). The answer is whole, or it is
//! an error, unless the caller takes a part ([`partial`]). When the caller goes away, so do the requests
//! to other nodes, and their work. Owners look for their share of the lines that an answer may have
//! before they look for all of them ([`cut`]).
//!
//! What can go wrong: an owner has gone, and nobody has taken its partitions over yet. The question
//! waits for [`PATIENCE`]. An owner that this node does not reach counts as gone then.

mod cut;
mod here;
mod partial;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use http::StatusCode;
use logsvc_cluster::asker::{AskReply, AskStep, Question as Asking, Snapshot};
use logsvc_cluster::map::{Epoch, Partition};
use logsvc_cluster::settings::Settings;
use logsvc_logql::engine::LeafResult;
use logsvc_peers::client::Unanswered;
use logsvc_peers::frame::{Addressee, Failure};
use logsvc_peers::question::{Found, Question, Reply};
use logsvc_proto::error::ApiError;
use logsvc_runtime::{Account, Grant, Monotonic, Runtime};
use logsvc_shards::deletion::DeletionVersion;
use logsvc_shards::scan::stop_of;
use logsvc_shards::types::Cancellation;

use super::Querier;
use super::errors::stopped;
use super::leaves::{inline_or_offloaded, merge_queue};
use crate::front::core::errors::node_stopping;
pub(crate) use here::HereReply;
pub(crate) use partial::{Lacking, TakesPart, warning_of};

/// How long a question waits for owners that do not answer. A takeover takes less.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What all owners have found, with its memory.
#[derive(Debug)]
pub(crate) struct FoundByAll {
    pub(crate) found: Found,
    pub(crate) memory: Grant,
    /// What it lacks; only if the caller takes a part.
    pub(crate) lacking: Option<Lacking>,
}

/// What one owner has found, with its memory.
type Content = (Found, Grant);

/// The end of a request to one owner: who, by which map, and what it says.
type Answered = (Epoch, u64, Result<AskReply<Content>, Unfinished>);

/// Why a question has no answer.
enum Unfinished {
    Failed(ApiError),
    /// An owner knows this version of the requests for deletion, which is later than the question's.
    Hides(DeletionVersion),
    /// Owners have looked for their share of the answer, and do not answer now for the rest of it.
    Short,
}

impl From<ApiError> for Unfinished {
    fn from(error: ApiError) -> Unfinished {
        Unfinished::Failed(error)
    }
}

/// Memory and end of a question.
#[derive(Clone)]
pub(crate) struct Bounds {
    pub(crate) account: Account,
    pub(crate) cancellation: Cancellation,
    /// When nobody waits for the answer any more.
    pub(crate) deadline: Monotonic,
    /// Whether a part of the answer is better than none.
    pub(crate) takes_part: Option<TakesPart>,
}

impl<R: Runtime> Querier<R> {
    /// Asks the shards of all owners. If one of them knows later requests for deletion than the
    /// question, all are asked anew.
    ///
    /// # Errors
    /// One of them has failed, there is no memory for the answers, or partitions have no owner that
    /// answers.
    pub(crate) async fn ask_owners(
        &self,
        question: Question,
        bounds: &Bounds,
    ) -> Result<FoundByAll, ApiError> {
        let entries_each = self.entries_each(&question);
        let mut question = Arc::new(Question { entries_each, ..question });
        loop {
            match self.ask_owners_once(Arc::clone(&question), bounds).await {
                Ok(found) => return Ok(found),
                Err(Unfinished::Failed(error)) => return Err(error),
                Err(Unfinished::Hides(version)) => {
                    self.core.tell_common(version.common_number());
                    Arc::make_mut(&mut question).deletions = version;
                }
                Err(Unfinished::Short) => Arc::make_mut(&mut question).entries_each = None,
            }
        }
    }

    async fn ask_owners_once(
        &self,
        question: Arc<Question>,
        bounds: &Bounds,
    ) -> Result<FoundByAll, Unfinished> {
        let settings = Settings::default();
        let runtime = &self.core.runtime;
        let cluster = self.core.cluster().ok_or_else(node_stopping)?;
        let published = cluster.routes().ok_or_else(node_stopping)?;
        let mut ended = pin!(cluster.ended.wait());
        let partitions: Vec<Partition> =
            published.get().map.partitions().map(|(partition, _)| partition).collect();
        let mut asking = Asking::new(partitions, Monotonic::NEVER, runtime.random_u64());
        let mut under_way: FuturesUnordered<LocalBoxFuture<'_, Answered>> = FuturesUnordered::new();
        let mut reply = None;
        let mut give_up = runtime.now().after(PATIENCE);
        let mut part = bounds.takes_part.as_ref().map(|it| it.begin(runtime.now()));
        loop {
            let routes = published.get();
            let mut until = Monotonic::NEVER;
            let now = runtime.now();
            for step in asking.step(&settings, now, (routes.number, &routes.map), reply.take()) {
                match step {
                    AskStep::Ask { to, number, .. } => {
                        let question = Arc::clone(&question);
                        under_way.push(Box::pin(async move {
                            (to, number, self.ask_owner(to, number, &question, bounds).await)
                        }));
                    }
                    AskStep::Wait { until: at, look } => {
                        until = at;
                        if look > routes.number {
                            self.core.tell_heard(look);
                        }
                    }
                    AskStep::Done(Snapshot { number, contents, .. }) => {
                        let contents =
                            self.complete_lines(contents, number, &question, bounds).await?;
                        return Ok(joined(contents, None, bounds));
                    }
                    AskStep::GiveUp => return Err(no_owner().into()),
                }
            }
            if part.as_mut().is_some_and(|part| part.is_due(now, routes.number))
                && !self.may_answer_yet(asking.silent(), &routes).await
                && let Some(part) = asking.take_part()
            {
                let lacking = Lacking::of(&part.missing, &routes.map);
                bounds.takes_part.iter().for_each(|it| it.note_given_up(routes.number));
                let Snapshot { number, contents, .. } = part.snapshot;
                let contents = self.complete_lines(contents, number, &question, bounds).await?;
                return Ok(joined(contents, Some(lacking), bounds));
            }
            if now >= give_up && !self.may_answer_yet(asking.silent(), &routes).await {
                return Err(no_owner().into());
            }
            let mut changed = pin!(published.when(|newer| newer.number > routes.number));
            let mut timer = pin!(runtime.sleep_until(until));
            let answered = std::future::poll_fn(|context| {
                if ended.as_mut().poll(context).is_ready() {
                    return Poll::Ready(Err(node_stopping()));
                }
                if !under_way.is_empty()
                    && let Poll::Ready(Some(answered)) = under_way.poll_next_unpin(context)
                {
                    return Poll::Ready(Ok(Some(answered)));
                }
                if changed.as_mut().poll(context).is_ready() {
                    return Poll::Ready(Ok(None));
                }
                timer.as_mut().poll(context).map(|()| Ok(None))
            })
            .await?;
            if let Some((from, number, answer)) = answered {
                let answer = answer?;
                if let AskReply::Answer { content: (found, _), .. } = &answer
                    && found.parts.iter().any(LeafResult::ends_query)
                {
                    // Whatever the others find changes nothing.
                    return Ok(decided(answer, bounds));
                }
                if matches!(answer, AskReply::Answer { .. } | AskReply::Newer(_)) {
                    give_up = runtime.now().after(PATIENCE);
                }
                reply = Some((from, number, answer));
            }
        }
    }

    async fn ask_owner(
        &self,
        to: Epoch,
        number: u64,
        question: &Question,
        bounds: &Bounds,
    ) -> Result<AskReply<Content>, Unfinished> {
        let routes = self.core.routes().ok_or_else(node_stopping)?;
        if to == routes.me {
            let answer = self.answer_here(question, number, bounds).await?;
            return Ok(match answer {
                HereReply::Found(found, memory) => {
                    AskReply::Answer { position: 0, content: (*found, memory) }
                }
                HereReply::Newer(number) => AskReply::Newer(number),
                HereReply::Hides(version) => return Err(Unfinished::Hides(version)),
                HereReply::Wait => AskReply::Wait,
                HereReply::NotOwner => AskReply::NoAnswer,
            });
        }
        let Some(info) = routes.map.members.get(&to) else { return Ok(AskReply::NoAnswer) };
        let Some(peers) = self.core.peers.get() else { return Ok(AskReply::NoAnswer) };
        let timeout = match bounds.deadline {
            Monotonic::NEVER => Duration::from_secs(24 * 3600),
            deadline => deadline.since(self.core.runtime.now()),
        };
        let message = Bytes::from(question.encode(Addressee { writer: to.0, number }, timeout));
        let mut memory = bounds.account.grant();
        let bytes = match peers.ask(&info.address, message, timeout, &mut memory).await {
            Ok(bytes) => bytes,
            Err(Unanswered::Memory(denied)) => return Err(stopped(stop_of(denied)).into()),
            Err(error) => {
                tracing::debug!(node = %info.name, "a node does not answer: {error}");
                return Ok(AskReply::NoAnswer);
            }
        };
        let asked = question.asked.clone();
        let read = move || Reply::decode(&bytes, &asked);
        let queue = merge_queue(usize::try_from(memory.bytes()).unwrap_or(usize::MAX));
        let reply = inline_or_offloaded(&self.core.runtime, queue, read).await;
        Ok(match reply {
            Ok(Reply::Found(found)) => {
                let (of_bytes, held) = (memory.bytes(), found.held_bytes() as u64);
                // Both were there at a time.
                memory.grow(held).map_err(|denied| stopped(stop_of(denied)))?;
                memory.shrink_to(memory.bytes() - of_bytes);
                AskReply::Answer { position: 0, content: (found, memory) }
            }
            Ok(Reply::Newer(number)) => AskReply::Newer(number),
            Ok(Reply::Hides(version)) => return Err(Unfinished::Hides(version)),
            Ok(Reply::Wait) => AskReply::Wait,
            Ok(Reply::NotOwner) => AskReply::NoAnswer,
            // It is about to stop. Perhaps somebody takes over.
            Ok(Reply::Failed(Failure { status: 503, .. })) => AskReply::NoAnswer,
            Ok(Reply::Failed(failure)) => return Err(api_error(failure).into()),
            Err(damaged) => {
                tracing::warn!(node = %info.name, "a node's answer cannot be read: {damaged}");
                AskReply::NoAnswer
            }
        })
    }
}

/// What owners have found, as one, and what that lacks.
fn joined(
    contents: BTreeMap<Epoch, Content>,
    lacking: Option<Lacking>,
    bounds: &Bounds,
) -> FoundByAll {
    let mut all = FoundByAll { found: Found::default(), memory: bounds.account.grant(), lacking };
    for (found, memory) in contents.into_values() {
        all.memory.merge(memory);
        all.found.parts.extend(found.parts);
        all.found.stats.add(&found.stats);
        all.found.texts.extend(found.texts);
        all.found.series.extend(found.series);
        all.found.unreadable_parts += found.unreadable_parts;
    }
    all
}

/// What one owner has found, which decides the answer.
fn decided(answer: AskReply<Content>, bounds: &Bounds) -> FoundByAll {
    match answer {
        AskReply::Answer { content: (mut found, memory), .. } => {
            found.parts.retain(LeafResult::ends_query);
            FoundByAll { found, memory, lacking: None }
        }
        _ => {
            let memory = bounds.account.grant();
            FoundByAll { found: Found::default(), memory, lacking: None }
        }
    }
}

/// A failure of another node, as the client reads it.
pub(crate) fn api_error(failure: Failure) -> ApiError {
    let Failure { status, text, retry_after_s } = failure;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    ApiError { retry_after_s, ..ApiError::new(status, text) }
}

/// The owner of some partitions has gone, and nobody has taken them over yet.
pub(crate) fn no_owner() -> ApiError {
    let text = "too many unhealthy instances in the ring: the owner of a part of the streams does not \
                answer, and no other node has taken them over yet";
    ApiError { retry_after_s: Some(1), ..ApiError::unavailable(text) }
}
