//! Waits for the shards that store a push, and makes one answer of theirs.
//!
//! Guarantees: of every request the good entries are stored, and the answer reports the worst
//! refusal of the others: first a limit on rates or on the number of streams, then refusals by
//! shards, then limits of single streams and entries, and last blocked ingestion. Success means
//! that every entry is committed. An error that asks for another attempt says so if some entries
//! were stored: it is given once no batch of the push is on its way. Every refusal has been noted
//! when the outcome is there.

use std::rc::Rc;

use http::StatusCode;
use logsvc_http::Response;
use logsvc_proto::error::ApiError;
use logsvc_proto::{StreamId, TenantId};
use logsvc_runtime::mesh::{Disconnected, PendingReply};
use logsvc_runtime::{CoreId, Runtime};
use logsvc_shards::messages::{
    AppendError, AppendOutcome, AppendRequest, ShardReply, ShardRequest, TooFarBehind,
};
use logsvc_shards::wal::writer::WalUnavailable;

use super::Ingest;
use super::admission::LimitCheck;
use super::batches::{BatchReply, Ingested, SentBatch, SentEntries, SentPush};
use super::refusals::{Refusals, too_far_behind};
use super::stream_cache::CachedStream;
use crate::front::core::Core;
use crate::front::core::errors::shard_gone;
use crate::metrics::{Amount, Mutation, Reason, add};

/// When a client may try again for whose streams there is no memory, in seconds.
const TOO_MANY_STREAMS_RETRY_S: u32 = 60;

/// The outcome of a push that need not be sent again.
pub(super) enum PushOutcome {
    /// This is the answer.
    Answered(Response),
    /// All of it is stored.
    Stored,
    /// Some or all of it was refused for good.
    PartlyRefused(PartlyRefused),
}

/// See [`PushOutcome::PartlyRefused`].
pub(super) struct PartlyRefused {
    /// Why.
    pub(super) error: ApiError,
    /// How many entries were refused.
    pub(super) refused_entries: u64,
    /// How many were stored.
    pub(super) stored_entries: u64,
}

/// What became of a push.
pub(super) struct Gathered {
    pub(super) stored: Stored,
    refusals: Refusals,
    pub(super) limit_check: LimitCheck,
    /// Entries that were refused for good.
    refused_entries: u64,
}

impl Gathered {
    /// The worst of it.
    fn into_outcome(self, tenant: &TenantId) -> Result<PushOutcome, ApiError> {
        let Gathered { stored, refusals, limit_check, refused_entries } = self;
        if let Some(error) = stored.failure {
            return Err(error);
        }
        // A client sends a push again after a 429 and gives up after a 400; entries that are stored
        // already are dropped as duplicates.
        if let Some(error) = limit_check.into_error(tenant) {
            return Err(error);
        }
        if !stored.refused_streams.ids.is_empty() {
            return Err(stored.refused_streams.error());
        }
        let late = (!stored.too_far_behind.is_empty())
            .then(|| too_far_behind(tenant.as_str(), &stored.too_far_behind));
        match late.or_else(|| refusals.into_error()) {
            None => Ok(PushOutcome::Stored),
            Some(error) => Ok(PushOutcome::PartlyRefused(PartlyRefused {
                error,
                refused_entries,
                stored_entries: stored.accepted,
            })),
        }
    }
}

impl<R: Runtime> Ingest<R> {
    /// Waits for the shards that store a push, and returns its outcome.
    ///
    /// # Errors
    /// The refused entries may be stored when they are sent again.
    pub(super) async fn outcome(
        &self,
        tenant: &TenantId,
        push: Ingested<'_>,
    ) -> Result<PushOutcome, ApiError> {
        match push {
            Ingested::Answered(response) => Ok(PushOutcome::Answered(response)),
            Ingested::Refused(error) => Err(error),
            Ingested::Sent(sent) => self.gather(tenant, *sent).await.into_outcome(tenant),
        }
    }

    /// Waits for the shards that store a push; counts, and notes what is refused.
    pub(super) async fn gather(&self, tenant: &TenantId, push: SentPush<'_>) -> Gathered {
        let SentPush { kind, now_ns, sent_entries, mut limit_check } = push;
        let counters = self.core.counters().pushes.of(tenant);
        let SentEntries {
            sent,
            mut stored,
            mut refusals,
            good,
            metadata_bytes,
            newest_ns,
            lengths,
            ..
        } = sent_entries;
        for sent in sent {
            self.take_reply(tenant, sent, &mut stored).await;
        }
        // Before the client hears of it, and whatever was stored: an entry that was there
        // already may have come by a push that is not counted yet.
        add(&self.core.counters().stored_pushes, 1);
        if let Some(newest_ns) = newest_ns {
            let lag_ms = u64::try_from(now_ns.saturating_sub(newest_ns)).unwrap_or(0) / 1_000_000;
            self.core.counters().lags.add(tenant, kind.sender.user_agent, kind.format, lag_ms);
        }
        self.core.counters().line_lengths.add(&lengths);
        counters.mutated(Mutation::LineTooLong, sent_entries.shortened);
        counters.mutated(Mutation::MetadataNamesMerged, sent_entries.merged);
        // A shard counts entries that it takes or refuses: their bytes are estimated by the average
        // entry of the push.
        let share = |bytes: u64, entries: u64| {
            let bytes = u128::from(bytes) * u128::from(entries) / u128::from(good.entries.max(1));
            u64::try_from(bytes).unwrap_or(u64::MAX)
        };
        let amount = |entries| Amount { entries, bytes: share(good.bytes, entries) };
        let invalid = refusals.pieces.entries();
        if stored.refused_streams.entries > 0 {
            let amount = amount(stored.refused_streams.entries);
            let text = "there is no memory for more active streams";
            refusals.pieces.add(amount, Reason::StreamLimit, None, text, (None, None));
        }
        for (stream, entries) in stored.over_limit.drain(..) {
            limit_check.refuse_one_too_many(&stream, amount(entries));
        }
        let mut too_late = 0;
        for TooFarBehind { labels, entries, refused, .. } in &stored.too_far_behind {
            too_late += refused;
            let times = entries.first().map(|&(entry_ns, oldest_ns)| (entry_ns, oldest_ns)).unzip();
            let text = "the entries are too far behind the newest of their stream";
            let (amount, reason) = (amount(*refused), Reason::TooFarBehind);
            refusals.pieces.add(amount, reason, Some(labels), text, times);
        }
        self.note_pieces(tenant, kind.sender, &limit_check.pieces);
        self.note_pieces(tenant, kind.sender, &refusals.pieces);
        counters.received(amount(stored.accepted), share(metadata_bytes, stored.accepted));
        if let Some(error) = stored.failure.take() {
            let error = telling_what_is_stored(error, stored.accepted, kind.entries);
            self.core.note_refused_push(Some(tenant), kind.sender, &error);
            stored.failure = Some(error);
        }
        Gathered { stored, refusals, limit_check, refused_entries: invalid + too_late }
    }

    /// Waits for the reply to a batch.
    pub(super) async fn take_reply(&self, tenant: &TenantId, sent: SentBatch, stored: &mut Stored) {
        let SentBatch { reply, streams, .. } = sent;
        let outcome = match reply {
            BatchReply::Shard(shard, reply) => {
                match self.shard_outcome(tenant, shard, reply, &streams).await {
                    Ok(Took::Stored(outcome)) => Ok(outcome),
                    // Partitions have gone to another node, or to another core.
                    Ok(Took::Elsewhere(append)) => self.deliver(tenant, append, &streams).await,
                    Err(error) => Err(error),
                }
            }
            BatchReply::Owners(outcome) => outcome.await,
        };
        match outcome {
            Ok(outcome) => {
                let (refused, over_limit) = (&outcome.refused_streams, &outcome.over_limit);
                for stream in streams {
                    let is_known = refused.binary_search_by_key(&stream.id, |r| r.0).is_err();
                    let too_many = over_limit.binary_search_by_key(&stream.id, |r| r.0).ok();
                    stream.announced.set(is_known && too_many.is_none());
                    stored.over_limit.extend(too_many.map(|at| (stream, over_limit[at].1)));
                }
                stored.refused_streams.ids.extend(refused.iter().map(|r| r.0));
                stored.refused_streams.entries += refused.iter().map(|r| r.1).sum::<u64>();
                stored.accepted += outcome.accepted;
                stored.too_far_behind.extend(outcome.too_far_behind);
            }
            Err(error) => stored.fail(error),
        }
    }

    /// What a shard of this node says to a batch.
    async fn shard_outcome(
        &self,
        tenant: &TenantId,
        shard: CoreId,
        reply: PendingReply<ShardReply>,
        streams: &[Rc<CachedStream>],
    ) -> Result<Took, ApiError> {
        let mut reply = reply.await;
        if let Ok(ShardReply::Unknown(mut append)) = reply {
            // It has forgotten streams of which nothing was left.
            append.definitions = streams.iter().map(|s| s.definition(tenant)).collect();
            reply = self.core.ask(shard, ShardRequest::Append(*append))?.await;
        }
        took(&self.core, shard, reply)
    }
}

/// What a shard has made of a batch.
pub(crate) enum Took {
    /// It is stored, but for what the outcome says.
    Stored(AppendOutcome),
    /// Nothing is: it is not for this shard.
    Elsewhere(AppendRequest),
}

/// The meaning of a shard's reply to a batch whose streams it knows.
///
/// # Errors
/// The batch is not stored.
pub(crate) fn took<R: Runtime>(
    core: &Core<R>,
    shard: CoreId,
    reply: Result<ShardReply, Disconnected>,
) -> Result<Took, ApiError> {
    match reply {
        Ok(ShardReply::Append(Ok(outcome))) => {
            core.node.intake.stored(shard);
            Ok(Took::Stored(outcome))
        }
        Ok(ShardReply::Elsewhere(append)) => Ok(Took::Elsewhere(*append)),
        Ok(ShardReply::Append(Err(error))) => {
            if let AppendError::Log(WalUnavailable::Disk) | AppendError::Disk(_) = &error {
                core.node.intake.failed(shard, core.runtime.now());
            }
            Err(append_error(error))
        }
        Ok(_) | Err(_) => Err(shard_gone()),
    }
}

/// The error for a push that could not be stored as a whole, with the number of stored entries.
fn telling_what_is_stored(mut error: ApiError, stored: u64, sent: u64) -> ApiError {
    if stored > 0 {
        error.message.push_str(&format!(
            "; {stored} of the {sent} entries of this push were stored all the same: send it \
             again, and those will be dropped as duplicates"
        ));
    }
    error
}

/// The replies of the shards to a push.
#[derive(Default)]
pub(super) struct Stored {
    accepted: u64,
    pub(super) too_far_behind: Vec<TooFarBehind>,
    pub(super) refused_streams: RefusedStreams,
    /// Streams that other nodes have refused because the tenant has too many, with their entries.
    over_limit: Vec<(Rc<CachedStream>, u64)>,
    pub(super) failure: Option<ApiError>,
}

/// New streams of a push that there is no memory for.
#[derive(Default)]
pub(super) struct RefusedStreams {
    pub(super) ids: Vec<StreamId>,
    entries: u64,
}

impl RefusedStreams {
    pub(super) fn error(&self) -> ApiError {
        let text = format!(
            "there is no memory for more active streams: {} new streams with {} entries were \
             refused, and the other entries were stored; new streams are taken again when entries \
             of others have been written to segments, which takes seconds, or when \
             memory.max_bytes is raised",
            self.ids.len(),
            self.entries
        );
        ApiError::too_many_requests(text, TOO_MANY_STREAMS_RETRY_S).with_newline()
    }
}

impl Stored {
    /// Whether something was refused that may be stored later: then there is no use in
    /// sending more.
    pub(super) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Keeps the worst failure: the one that makes a client try again wins over
    /// none, and 429 over 5xx, since it names a time.
    pub(super) fn fail(&mut self, error: ApiError) {
        let worse = |known: &ApiError| {
            error.status == StatusCode::TOO_MANY_REQUESTS && known.status != error.status
        };
        if self.failure.as_ref().is_none_or(worse) {
            self.failure = Some(error);
        }
    }
}

fn append_error(error: AppendError) -> ApiError {
    match error {
        AppendError::Log(WalUnavailable::Busy) | AppendError::HeadsFull => {
            ApiError::too_many_requests(error.to_string(), 1)
        }
        AppendError::Log(WalUnavailable::TooLarge) => {
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, error.to_string())
        }
        AppendError::Log(WalUnavailable::Disk) | AppendError::Disk(_) | AppendError::Bucket(_) => {
            ApiError::unavailable(error.to_string())
        }
        AppendError::Stopping => ApiError::unavailable("Ingester is shutting down"),
        AppendError::UnknownStream | AppendError::Malformed(_) => {
            ApiError::internal(error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_tell_what_is_stored() {
        let busy = || append_error(AppendError::Log(WalUnavailable::Busy));
        let told = telling_what_is_stored(busy(), 0, 7);
        assert_eq!(told.message, "the write-ahead log is busy");
        let told = telling_what_is_stored(busy(), 3, 7);
        assert_eq!((told.status.as_u16(), told.retry_after_s), (429, Some(1)));
        assert_eq!(
            told.message,
            "the write-ahead log is busy; 3 of the 7 entries of this push were stored all the same: \
             send it again, and those will be dropped as duplicates"
        );
    }
}
