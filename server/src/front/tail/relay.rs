//! Tells another node the new entries that the shards of this node have taken, for one of its tails.
//!
//! Guarantees: each entry that becomes visible behind the first word is in a later one, or is counted
//! as dropped. Entries that requests for deletion hide are in none. While the connection takes no
//! bytes, entries wait in the inbox within its bounds. When the other node goes away the subscription
//! ends; when this node stops in order, its last word says so.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use logsvc_http::{ChunkError, ChunkSource, Disconnect};
use logsvc_logql::engine::LeafPlan;
use logsvc_peers::frame::Failure;
use logsvc_peers::tail::{TailEnd, WordWriter};
use logsvc_proto::error::ApiError;
use logsvc_runtime::{Account, Latch, Monotonic, Reservation, Runtime};
use logsvc_shards::deletion::HiddenEntries;
use logsvc_shards::messages::ShardReply;
use logsvc_shards::scan::PartAllowance;
use logsvc_shards::scope::TenantScope;
use logsvc_shards::tail::{TailBatch, TailBlock, TailDropped};
use logsvc_shards::types::Cancellation;

use super::hub::{Hub, Inbox};
use crate::front::core::errors::{node_stopping, shard_gone};

/// There is a word at least so often.
const BEAT_EVERY: Duration = Duration::from_secs(1);

/// A word gets no further part once its entries have so many bytes.
const WORD_BYTES: usize = 256 << 10;

/// Bytes of the queue for the other node in each shard.
const QUEUE_BYTES: usize = 4 << 20;

/// Follows the shards of a node for others.
pub(crate) struct Relays<R: Runtime>(pub(super) Rc<Hub<R>>);

/// See the module.
pub(crate) struct Relay<R: Runtime> {
    hub: Rc<Hub<R>>,
    id: u64,
    inbox: Rc<Inbox>,
    waiting: VecDeque<Waiting>,
    next_beat: Monotonic,
    has_ended: bool,
    disconnect: Disconnect,
    stop: Latch,
    /// Of the question.
    _memory: Reservation,
}

/// What is to be told.
enum Waiting {
    Entries(Arc<TailBlock>),
    Dropped(Vec<TailDropped>, u64),
}

/// The answer to a tail that cannot be followed: one word that says why.
pub(crate) struct Refusal(Option<Vec<u8>>);

impl Refusal {
    /// Of a node that knows the map of this number.
    pub(crate) fn new(number: u64, failure: Failure) -> Refusal {
        let mut word = WordWriter::new(number);
        word.end(&TailEnd::Failed(failure));
        Refusal(Some(word.finish()))
    }
}

impl ChunkSource for Refusal {
    fn next(&mut self) -> LocalBoxFuture<'_, Option<Result<Vec<u8>, ChunkError>>> {
        Box::pin(std::future::ready(self.0.take().map(Ok)))
    }
}

impl<R: Runtime> Relays<R> {
    /// Follows the streams of a leaf in all shards. The relay begins when they do.
    ///
    /// # Errors
    /// The node is too busy, or stops.
    pub(crate) async fn follow(
        &self,
        tenants: &TenantScope,
        plan: &Arc<LeafPlan>,
        memory: Reservation,
        disconnect: &Disconnect,
    ) -> Result<Relay<R>, ApiError> {
        let hub = &self.0;
        let cluster = hub.core.cluster().ok_or_else(node_stopping)?;
        let inbox = Rc::new(Inbox::default());
        let relay = Relay {
            id: hub.open(&inbox),
            hub: Rc::clone(hub),
            inbox,
            waiting: VecDeque::new(),
            next_beat: hub.core.runtime.now(),
            has_ended: false,
            disconnect: disconnect.clone(),
            stop: cluster.peers_stop.clone(),
            _memory: memory,
        };
        for reply in hub.follow(relay.id, QUEUE_BYTES, tenants, plan)? {
            match reply.await {
                Ok(ShardReply::Tailed(_)) => {}
                Ok(ShardReply::Leaf(Err(error))) => {
                    return Err(ApiError::bad_request(error.to_string()));
                }
                _ => return Err(shard_gone()),
            }
        }
        Ok(relay)
    }
}

impl<R: Runtime> Drop for Relay<R> {
    fn drop(&mut self) {
        self.hub.close(self.id);
    }
}

impl<R: Runtime> ChunkSource for Relay<R> {
    fn next(&mut self) -> LocalBoxFuture<'_, Option<Result<Vec<u8>, ChunkError>>> {
        Box::pin(async move { self.next_word().await.map(Ok) })
    }

    fn is_live(&self) -> bool {
        true
    }
}

impl<R: Runtime> Relay<R> {
    async fn next_word(&mut self) -> Option<Vec<u8>> {
        while !self.has_ended {
            let now = self.hub.core.runtime.now();
            for batch in self.inbox.take_batches().0 {
                self.take(batch);
            }
            // Everything that has come is told before the end.
            self.has_ended = self.waiting.is_empty() && self.stop.is_triggered();
            if self.has_ended || !self.waiting.is_empty() || now >= self.next_beat {
                self.next_beat = now.after(BEAT_EVERY);
                return Some(self.word());
            }
            if self.wait().await {
                return None;
            }
        }
        None
    }

    fn take(&mut self, batch: TailBatch) {
        let TailBatch { parts, dropped, dropped_count, .. } = batch;
        if dropped_count > 0 {
            self.waiting.push_back(Waiting::Dropped(dropped, dropped_count));
        }
        self.waiting.extend(parts.into_iter().map(|part| Waiting::Entries(part.block)));
    }

    /// A word with what waits, as far as it has room.
    fn word(&mut self) -> Vec<u8> {
        let core = &self.hub.core;
        let mut word = WordWriter::new(core.routes().map_or(0, |routes| routes.number));
        let cancellation = Cancellation::default();
        let queries = &core.budgets().queries;
        let account = Account::open(queries, 0, queries.max_bytes());
        let mut hidden = account.map(|account| {
            let grant = account.grant();
            HiddenEntries::new(Box::new(PartAllowance { grant, cancellation }))
        });
        while word.len_bytes() < WORD_BYTES
            && let Some(next) = self.waiting.pop_front()
        {
            match (next, &mut hidden) {
                (Waiting::Dropped(listed, count), _) => {
                    let listed = listed.iter().map(|one| (&one.labels, one.timestamp_ns));
                    word.dropped(listed, count);
                }
                (Waiting::Entries(block), Some(hidden)) => {
                    let written = word.part(block.labels(), |stream, batch| {
                        block.write_shown(stream, hidden, batch)
                    });
                    if written.is_err() {
                        drop_entries(&mut word, &block);
                    }
                }
                (Waiting::Entries(block), None) => drop_entries(&mut word, &block),
            }
        }
        if self.has_ended {
            word.end(&TailEnd::Stops);
        }
        word.finish()
    }

    /// Waits for something to tell. True when nobody listens any more.
    async fn wait(&self) -> bool {
        let mut beat = pin!(self.hub.core.runtime.sleep_until(self.next_beat));
        let mut gone = pin!(self.disconnect.wait());
        let mut stopped = pin!(self.stop.wait());
        poll_fn(|cx| {
            if gone.as_mut().poll(cx).is_ready() {
                return Poll::Ready(true);
            }
            let has_more = self.inbox.poll_changed(cx).is_ready()
                || stopped.as_mut().poll(cx).is_ready()
                || beat.as_mut().poll(cx).is_ready();
            if has_more { Poll::Ready(false) } else { Poll::Pending }
        })
        .await
    }
}

/// Says that the entries of a block had no room.
fn drop_entries(word: &mut WordWriter, block: &TailBlock) {
    let times_ns = block.timestamps_ns();
    word.dropped(times_ns.iter().map(|time_ns| (block.labels(), *time_ns)), times_ns.len() as u64);
}
