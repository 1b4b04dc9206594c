//! From checked streams to one batch per shard, and from the shards' answers to one.
//!
//! Guarantees: of every request the good entries are stored, and the answer reports
//! the worst that happened to the others: a limit on rates or streams before what the shards say,
//! that before what the limits say of streams and entries, and that before blocked
//! ingestion. 204 means that every entry is committed.
//!
//! Each line is copied twice on its way: out of the compressed body into a buffer that
//! is reused, and from there into its shard's batch. Nothing is allocated per line.

use std::rc::Rc;

use http::StatusCode;
use logsvc_http::Response;
use logsvc_proto::TenantId;
use logsvc_proto::error::ApiError;
use logsvc_proto::push::{Entries, EntryRef, StreamRef};
use logsvc_proto::time::write_rfc3339_nano;
use logsvc_runtime::mesh::PendingReply;
use logsvc_runtime::{CoreId, Runtime};
use logsvc_shards::batch::BatchBuilder;
use logsvc_shards::messages::{AppendError, AppendRequest, ShardReply, ShardRequest, TooFarBehind};
use logsvc_shards::wal::writer::WalUnavailable;

use super::Front;
use super::admission::Verdict;
use super::entries::EntryCheck;
use super::refusals::{Refusals, too_far_behind};
use super::scatter::shard_gone;
use super::stream_cache::CachedStream;
use crate::config::Limits;
use crate::metrics::{Amount, LineCounts, PushFormat, Reason, add};

/// A batch goes out when it has this many bytes, so that a huge push keeps neither
/// memory nor a core to itself.
const BATCH_TARGET_BYTES: usize = 4 << 20;

/// When a client may try again for whose streams there is no memory, in seconds.
const TOO_MANY_STREAMS_RETRY_S: u32 = 60;

/// A stream of a push, whatever form the push has.
pub(super) trait PushedStream {
    /// A cursor over its entries.
    type Entries<'s>: EntryCursor
    where
        Self: 's;

    /// Its entries, in the order sent. May be asked for several times.
    fn entries(&self) -> Self::Entries<'_>;
}

/// A cursor over entries, each of which borrows from it.
pub(super) trait EntryCursor {
    /// The next entry; `None` after the last.
    fn next_entry(&mut self) -> Option<EntryRef<'_>>;
}

impl<'a> PushedStream for StreamRef<'a> {
    type Entries<'s>
        = Entries<'a>
    where
        Self: 's;

    fn entries(&self) -> Entries<'a> {
        StreamRef::entries(self)
    }
}

impl EntryCursor for Entries<'_> {
    #[inline]
    fn next_entry(&mut self) -> Option<EntryRef<'_>> {
        self.next()
    }
}

/// What holds for a push as a whole.
#[derive(Clone, Copy)]
pub(super) struct PushKind<'r> {
    /// Entries as sent, for the metrics.
    pub(super) entries: u64,
    /// Bytes of lines and metadata as sent, for the metrics.
    pub(super) bytes: u64,
    /// Whether old entries are welcome.
    pub(super) is_backfill: bool,
    /// What the client calls itself, for the metrics.
    pub(super) user_agent: &'r str,
    /// The protocol, for the metrics.
    pub(super) format: PushFormat,
}

/// A batch on its way to a shard.
struct Sent {
    shard: CoreId,
    reply: PendingReply<ShardReply>,
    /// Its streams.
    streams: Vec<Rc<CachedStream>>,
}

/// The batch being filled for one shard.
struct Filling {
    builder: BatchBuilder,
    /// The streams in it, one for each section.
    streams: Vec<Rc<CachedStream>>,
    /// Bytes of the definitions that go along.
    definitions_len: usize,
}

impl Filling {
    fn new() -> Filling {
        Filling { builder: BatchBuilder::default(), streams: Vec::new(), definitions_len: 0 }
    }
}

impl<R: Runtime> Front<R> {
    /// Stores the streams of a push and gives the answer to it.
    pub(super) async fn ingest<S: PushedStream>(
        &self,
        tenant: &TenantId,
        limits: &Limits,
        streams: Vec<(S, Rc<CachedStream>)>,
        kind: PushKind<'_>,
    ) -> Result<Response, ApiError> {
        if is_blocked(limits, self.runtime.unix_nanos()) {
            return self.refuse_blocked(tenant, limits, &streams);
        }
        let counters = self.counters().pushes.of(tenant);
        let verdict = match self.ask_limits(tenant, limits, &streams, kind) {
            Ok(verdict) => verdict,
            Err(error) => {
                let amount = Amount { entries: kind.entries, bytes: kind.bytes };
                counters.discarded(Reason::RateLimited, amount);
                return Err(error);
            }
        };
        let now_ns = self.runtime.unix_nanos();
        let mut passed = Passed::default();
        let mut sent = Vec::new();
        let check = EntryCheck::new(limits, now_ns, kind.is_backfill);
        let outcome = self.store(tenant, streams, check, &verdict, &mut passed, &mut sent).await;
        let stored = self.gather_appends(tenant, sent).await;
        // Before the client hears of it, and whatever was stored: an entry that was there
        // already may have come by a push that is not counted yet.
        add(&self.counters().stored_pushes, 1);
        let Passed { refusals, good, metadata_bytes, newest_ns, lengths, shortened } = passed;
        if let Some(newest_ns) = newest_ns {
            let lag_ms = u64::try_from(now_ns.saturating_sub(newest_ns)).unwrap_or(0) / 1_000_000;
            self.counters().lags.add(tenant, kind.user_agent, kind.format, lag_ms);
        }
        self.counters().line_lengths.add(&lengths);
        counters.shortened(shortened);
        for &(reason, amount) in &refusals.discarded {
            counters.discarded(reason, amount);
        }
        counters.discarded(Reason::StreamLimit, verdict.too_many_streams);
        counters.discarded(Reason::PerStreamRateLimit, verdict.too_fast_streams);
        // What a shard refuses or takes it tells in entries: their bytes are those of the
        // average entry of the push.
        let share = |bytes: u64, entries: u64| {
            let bytes = u128::from(bytes) * u128::from(entries) / u128::from(good.entries.max(1));
            u64::try_from(bytes).unwrap_or(u64::MAX)
        };
        let amount = |entries| Amount { entries, bytes: share(good.bytes, entries) };
        counters.discarded(Reason::StreamLimit, amount(stored.refused_streams.entries));
        let too_late: u64 = stored.too_far_behind.iter().map(|stream| stream.refused).sum();
        counters.discarded(Reason::TooFarBehind, amount(too_late));
        counters.received(amount(stored.accepted), share(metadata_bytes, stored.accepted));
        outcome?;
        if let Some(error) = stored.failure {
            return Err(error);
        }
        // A client sends again what is refused with 429 and gives up what is refused
        // with 400; what was stored meanwhile is a duplicate then and dropped.
        if let Some(error) = verdict.into_error(tenant) {
            return Err(error);
        }
        if stored.refused_streams.streams > 0 {
            return Err(stored.refused_streams.error());
        }
        if !stored.too_far_behind.is_empty() {
            return Err(too_far_behind(tenant.as_str(), &stored.too_far_behind));
        }
        match refusals.into_error() {
            Some(error) => Err(error),
            None => Ok(Response::new(StatusCode::NO_CONTENT)),
        }
    }

    /// Answers a push while ingestion is blocked. Labels are judged all the same.
    fn refuse_blocked<S: PushedStream>(
        &self,
        tenant: &TenantId,
        limits: &Limits,
        streams: &[(S, Rc<CachedStream>)],
    ) -> Result<Response, ApiError> {
        let mut refusals = Refusals::default();
        let mut blocked = Amount::default();
        for (stream, resolved) in streams {
            let amount = amount_of(stream);
            match resolved.refusal.as_ref().filter(|_| amount.entries > 0) {
                Some(refusal) => refusals.add(amount, refusal.reason, refusal.text.clone()),
                None => blocked.add(amount.entries, amount.bytes),
            }
        }
        let counters = self.counters().pushes.of(tenant);
        for &(reason, amount) in &refusals.discarded {
            counters.discarded(reason, amount);
        }
        counters.discarded(Reason::BlockedIngestion, blocked);
        if let Some(error) = refusals.into_error() {
            return Err(error);
        }
        let status = StatusCode::from_u16(limits.block_ingestion_status_code)
            .unwrap_or(StatusCode::TOO_MANY_REQUESTS);
        if blocked.entries == 0 || status == StatusCode::OK {
            return Ok(Response::new(StatusCode::NO_CONTENT));
        }
        let mut until = Vec::new();
        write_rfc3339_nano(limits.block_ingestion_until_ns, &mut until);
        let text = format!(
            "ingestion blocked for user '{}' until '{}' with status code '{}'",
            tenant.as_str(),
            String::from_utf8_lossy(&until),
            status.as_u16(),
        );
        Err(ApiError::new(status, text).with_newline())
    }

    /// Sends the entries of all streams to their shards.
    async fn store<S: PushedStream>(
        &self,
        tenant: &TenantId,
        streams: Vec<(S, Rc<CachedStream>)>,
        mut check: EntryCheck<'_>,
        verdict: &Verdict,
        passed: &mut Passed,
        sent: &mut Vec<Sent>,
    ) -> Result<(), ApiError> {
        let mut filling: Vec<Filling> =
            (0..self.runtime.core_count()).map(|_| Filling::new()).collect();
        for (place, (stream, resolved)) in streams.iter().enumerate() {
            if let Some(refusal) = &resolved.refusal {
                let amount = amount_of(stream);
                if amount.entries > 0 {
                    passed.refusals.add(amount, refusal.reason, refusal.text.clone());
                }
                continue;
            }
            if verdict.refuses(place) {
                continue;
            }
            let mut entries = stream.entries();
            let mut next = entries.next_entry();
            if next.is_none() {
                continue;
            }
            check.begin_stream();
            let shard = resolved.shard;
            let target = &mut filling[shard.index()];
            target.note_stream(resolved);
            target.builder.begin(resolved.id);
            while let Some(entry) = next {
                let metadata_bytes = entry.metadata.len_bytes() as u64;
                let amount = Amount { entries: 1, bytes: entry.line.len() as u64 + metadata_bytes };
                match check.judge(resolved, entry) {
                    Ok(good) => {
                        passed.good.add(1, amount.bytes);
                        passed.metadata_bytes += metadata_bytes;
                        passed.newest_ns = passed.newest_ns.max(Some(good.timestamp_ns));
                        passed.lengths.count(amount.bytes - metadata_bytes);
                        good.write(&mut target.builder);
                    }
                    Err(refusal) => {
                        passed.refusals.add(amount, refusal.reason, refusal.text);
                    }
                }
                if target.builder.len_bytes() + target.definitions_len >= BATCH_TARGET_BYTES {
                    target.builder.end();
                    self.send(tenant, shard, target, sent)?;
                    self.runtime.yield_now().await;
                    target.note_stream(resolved);
                    target.builder.begin(resolved.id);
                }
                next = entries.next_entry();
            }
            target.builder.end();
        }
        passed.shortened = check.shortened;
        for (shard, target) in filling.iter_mut().enumerate() {
            self.send(tenant, CoreId(shard as u16), target, sent)?;
        }
        Ok(())
    }

    fn send(
        &self,
        tenant: &TenantId,
        shard: CoreId,
        target: &mut Filling,
        sent: &mut Vec<Sent>,
    ) -> Result<(), ApiError> {
        let filled = std::mem::replace(target, Filling::new());
        if filled.builder.is_empty() {
            return Ok(());
        }
        let new_streams = filled.streams.iter().filter(|stream| !stream.announced.get());
        let window_ns = self.config.out_of_order_window_ns;
        let append = AppendRequest {
            batch: filled.builder.finish(),
            definitions: new_streams.map(|stream| stream.definition(tenant)).collect(),
            out_of_order_window_ns: (window_ns > 0).then_some(window_ns),
        };
        let reply = self.ask(shard, ShardRequest::Append(append))?;
        sent.push(Sent { shard, reply, streams: filled.streams });
        Ok(())
    }

    async fn gather_appends(&self, tenant: &TenantId, sent: Vec<Sent>) -> Stored {
        let mut stored = Stored::default();
        for Sent { shard, reply, streams } in sent {
            let mut reply = reply.await;
            if let Ok(ShardReply::Unknown(mut append)) = reply {
                // It has forgotten streams of which nothing was left.
                append.definitions = streams.iter().map(|s| s.definition(tenant)).collect();
                reply = match self.ask(shard, ShardRequest::Append(*append)) {
                    Ok(reply) => reply.await,
                    Err(error) => {
                        stored.fail(error);
                        continue;
                    }
                };
            }
            match reply {
                Ok(ShardReply::Append(Ok(outcome))) => {
                    let refused = &outcome.refused_streams;
                    for stream in streams {
                        let is_known = refused.binary_search_by_key(&stream.id, |r| r.0).is_err();
                        stream.announced.set(is_known);
                    }
                    stored.refused_streams.streams += refused.len() as u64;
                    stored.refused_streams.entries += refused.iter().map(|r| r.1).sum::<u64>();
                    stored.accepted += outcome.accepted;
                    stored.too_far_behind.extend(outcome.too_far_behind);
                }
                Ok(ShardReply::Append(Err(error))) => stored.fail(append_error(error)),
                Ok(_) | Err(_) => stored.fail(shard_gone()),
            }
        }
        stored
    }
}

fn is_blocked(limits: &Limits, now_ns: i64) -> bool {
    limits.block_ingestion_until_ns.is_some_and(|until_ns| now_ns < until_ns)
}

/// The entries of a stream, and their bytes as sent.
fn amount_of<S: PushedStream>(stream: &S) -> Amount {
    let mut entries = stream.entries();
    let mut amount = Amount::default();
    while let Some(entry) = entries.next_entry() {
        amount.add(1, (entry.line.len() + entry.metadata.len_bytes()) as u64);
    }
    amount
}

impl Filling {
    /// Makes sure that the shard learns what the stream is.
    fn note_stream(&mut self, stream: &Rc<CachedStream>) {
        if !stream.announced.get() {
            self.definitions_len += stream.labels.as_bytes().len() + 64;
        }
        self.streams.push(Rc::clone(stream));
    }
}

/// What became of the entries of a push on the way to their shards.
#[derive(Default)]
struct Passed {
    refusals: Refusals,
    /// What went on its way, in bytes as sent.
    good: Amount,
    /// Bytes of the metadata in it.
    metadata_bytes: u64,
    /// Time of the newest entry of it.
    newest_ns: Option<i64>,
    /// Lengths of its lines as sent.
    lengths: LineCounts,
    /// Lines of it that were cut, and the bytes that they lost.
    shortened: Amount,
}

/// What the shards said of a push.
#[derive(Default)]
struct Stored {
    accepted: u64,
    too_far_behind: Vec<TooFarBehind>,
    refused_streams: RefusedStreams,
    failure: Option<ApiError>,
}

/// New streams of a push that there is no memory for.
#[derive(Default)]
struct RefusedStreams {
    streams: u64,
    entries: u64,
}

impl RefusedStreams {
    fn error(&self) -> ApiError {
        let text = format!(
            "there is no memory for more streams: {} new streams with {} entries were refused, \
             and the other entries were stored; no new stream is taken until others have expired \
             or memory.max_bytes is raised; use fewer labels whose values vary",
            self.streams, self.entries
        );
        ApiError::too_many_requests(text, TOO_MANY_STREAMS_RETRY_S).with_newline()
    }
}

impl Stored {
    /// Keeps the worst failure: the one that makes a client try again wins over
    /// none, and 429 over 5xx, since it names a time.
    fn fail(&mut self, error: ApiError) {
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
        AppendError::Log(WalUnavailable::Disk) | AppendError::Disk(_) => {
            ApiError::unavailable(error.to_string())
        }
        AppendError::Stopping => ApiError::internal("Ingester is shutting down"),
        AppendError::UnknownStream | AppendError::Malformed(_) => {
            ApiError::internal(error.to_string())
        }
    }
}
