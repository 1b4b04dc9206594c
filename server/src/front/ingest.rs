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
use std::sync::Arc;

use http::StatusCode;
use logsvc_http::Response;
use logsvc_proto::TenantId;
use logsvc_proto::error::ApiError;
use logsvc_proto::push::{Entries, EntryRef, StreamRef};
use logsvc_proto::time::write_rfc3339_nano;
use logsvc_runtime::mesh::PendingReply;
use logsvc_runtime::{CoreId, Runtime};
use logsvc_shards::batch::BatchBuilder;
use logsvc_shards::messages::{
    AppendError, AppendRequest, ShardReply, ShardRequest, StreamDefinition, TooFarBehind,
};
use logsvc_shards::wal::writer::WalUnavailable;

use super::Front;
use super::admission::Verdict;
use super::entries::EntryCheck;
use super::refusals::{Refusals, too_far_behind};
use super::scatter::shard_gone;
use super::stream_cache::CachedStream;
use crate::config::Limits;
use crate::metrics::add;

/// A batch goes out when it has this many bytes, so that a huge push keeps neither
/// memory nor a core to itself.
const BATCH_TARGET_BYTES: usize = 4 << 20;

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
pub(super) struct PushKind {
    /// Entries as sent, for the metrics.
    pub(super) entries: u64,
    /// Bytes of lines and metadata as sent, for the metrics.
    pub(super) bytes: u64,
    /// Whether old entries are welcome.
    pub(super) is_backfill: bool,
}

/// A batch on its way to a shard.
struct Sent {
    reply: PendingReply<ShardReply>,
    /// Its streams that the shard had not been told of before.
    new_streams: Vec<Rc<CachedStream>>,
}

/// The batch being filled for one shard.
struct Filling {
    builder: BatchBuilder,
    new_streams: Vec<Rc<CachedStream>>,
    /// Bytes of the definitions that go along.
    definitions_len: usize,
}

impl Filling {
    fn new() -> Filling {
        Filling { builder: BatchBuilder::default(), new_streams: Vec::new(), definitions_len: 0 }
    }
}

impl<R: Runtime> Front<R> {
    /// Stores the streams of a push and gives the answer to it.
    pub(super) async fn ingest<S: PushedStream>(
        &self,
        tenant: &TenantId,
        limits: &Limits,
        streams: Vec<(S, Rc<CachedStream>)>,
        kind: PushKind,
    ) -> Result<Response, ApiError> {
        if is_blocked(limits, self.runtime.unix_nanos()) {
            return self.refuse_blocked(tenant, limits, &streams);
        }
        let verdict = match self.ask_limits(tenant, limits, &streams, kind) {
            Ok(verdict) => verdict,
            Err(error) => {
                add(&self.counters().discarded_lines, kind.entries);
                return Err(error);
            }
        };
        let mut refusals = Refusals::default();
        let mut sent = Vec::new();
        let check = EntryCheck::new(limits, self.runtime.unix_nanos(), kind.is_backfill);
        let outcome = self.store(tenant, streams, check, &verdict, &mut refusals, &mut sent).await;
        let stored = self.gather_appends(sent).await;
        let too_late: u64 = stored.too_far_behind.iter().map(|stream| stream.refused).sum();
        add(&self.counters().discarded_lines, refusals.entries + too_late + verdict.entries);
        add(&self.counters().received_lines, stored.accepted);
        if stored.accepted > 0 {
            let share = u128::from(kind.bytes) * u128::from(stored.accepted)
                / u128::from(kind.entries.max(1));
            add(&self.counters().received_bytes, share as u64);
        }
        outcome?;
        if let Some(error) = stored.failure {
            return Err(error);
        }
        // A client sends again what is refused with 429 and gives up what is refused
        // with 400; what was stored meanwhile is a duplicate then and dropped.
        if let Some(error) = verdict.into_error(tenant) {
            return Err(error);
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
        let mut discarded = 0;
        for (stream, resolved) in streams {
            let count = count_entries(stream);
            discarded += count;
            if let Some(refusal) = resolved.refusal.as_ref().filter(|_| count > 0) {
                refusals.add(count, || refusal.to_string());
            }
        }
        add(&self.counters().discarded_lines, discarded);
        if let Some(error) = refusals.into_error() {
            return Err(error);
        }
        let status = StatusCode::from_u16(limits.block_ingestion_status_code)
            .unwrap_or(StatusCode::TOO_MANY_REQUESTS);
        if discarded == 0 || status == StatusCode::OK {
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
        refusals: &mut Refusals,
        sent: &mut Vec<Sent>,
    ) -> Result<(), ApiError> {
        let mut filling: Vec<Filling> =
            (0..self.runtime.core_count()).map(|_| Filling::new()).collect();
        for (place, (stream, resolved)) in streams.iter().enumerate() {
            if let Some(refusal) = &resolved.refusal {
                let count = count_entries(stream);
                if count > 0 {
                    refusals.add(count, || refusal.to_string());
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
                match check.judge(resolved, entry) {
                    Ok(good) => good.write(&mut target.builder),
                    Err(refusal) => refusals.add(1, || refusal),
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
        let definition = |stream: &Rc<CachedStream>| StreamDefinition {
            id: stream.id,
            tenant: tenant.clone(),
            labels: Arc::clone(&stream.labels),
        };
        let window_ns = self.config.out_of_order_window_ns;
        let append = AppendRequest {
            batch: filled.builder.finish(),
            definitions: filled.new_streams.iter().map(definition).collect(),
            out_of_order_window_ns: (window_ns > 0).then_some(window_ns),
        };
        let reply = self.ask(shard, ShardRequest::Append(append))?;
        sent.push(Sent { reply, new_streams: filled.new_streams });
        Ok(())
    }

    async fn gather_appends(&self, sent: Vec<Sent>) -> Stored {
        let mut stored = Stored::default();
        for Sent { reply, new_streams } in sent {
            match reply.await {
                Ok(ShardReply::Append(Ok(outcome))) => {
                    for stream in new_streams {
                        stream.announced.set(true);
                    }
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

fn count_entries<S: PushedStream>(stream: &S) -> u64 {
    let mut entries = stream.entries();
    let mut count = 0;
    while entries.next_entry().is_some() {
        count += 1;
    }
    count
}

impl Filling {
    /// Makes sure that the shard learns what the stream is.
    fn note_stream(&mut self, stream: &Rc<CachedStream>) {
        if !stream.announced.get() {
            self.definitions_len += stream.labels.as_bytes().len() + 64;
            self.new_streams.push(Rc::clone(stream));
        }
    }
}

/// What the shards said of a push.
#[derive(Default)]
struct Stored {
    accepted: u64,
    too_far_behind: Vec<TooFarBehind>,
    failure: Option<ApiError>,
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
