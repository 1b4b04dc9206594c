//! From checked streams to one batch per shard, and per other node. [`super::outcome`] waits for the
//! replies, [`super::delivery`] brings batches to other nodes.
//!
//! Each line is copied twice on its way: out of the compressed body into a buffer that
//! is reused, and from there into its shard's batch. Nothing is allocated per line.

use std::collections::VecDeque;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use http::StatusCode;
use logsvc_http::Response;
use logsvc_proto::TenantId;
use logsvc_proto::error::ApiError;
use logsvc_proto::push::{Entries, EntryRef, StreamRef};
use logsvc_proto::time::write_rfc3339_nano;
use logsvc_runtime::mesh::PendingReply;
use logsvc_runtime::{CoreId, Runtime};
use logsvc_segment::batch::BatchBuilder;
use logsvc_shards::messages::{AppendOutcome, AppendRequest, ShardReply, ShardRequest};

use super::Ingest;
use super::admission::LimitCheck;
use super::entries::{EntryCheck, entry_max_bytes};
use super::outcome::Stored;
use super::refusals::{Pieces, Refusal, Refusals};
use super::stream_cache::CachedStream;
use crate::config::Limits;
use crate::front::core::targets::{Target, Targets};
use crate::metrics::{Amount, LineCounts, PushFormat, Reason};
use crate::refusals::Sender;

/// A batch goes out when it has this many bytes, so that a huge push keeps neither
/// memory nor a core to itself.
const BATCH_TARGET_BYTES: usize = 4 << 20;

/// A push waits for the replies to its first batches once it has so many bytes on their way: less
/// than a log lets wait, so that a large push that comes alone is stored at the speed of the disk
/// and not refused.
const ON_THE_WAY_MAX_BYTES: u64 = 16 << 20;

/// The same as a part of the memory for recent entries: entries that are not in the log yet cannot
/// make room for later ones.
const ON_THE_WAY_SHARE: u64 = 4;

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
    /// The next entry, or why it cannot be one; `None` after the last.
    fn next_entry(&mut self) -> Option<Result<EntryRef<'_>, BadEntry>>;

    /// Hears that the last entry is refused.
    fn refused(&mut self, _refusal: &Refusal) {}
}

/// Something that was sent as an entry and cannot be stored as one.
#[derive(Debug)]
pub(super) struct BadEntry {
    /// Its bytes as sent.
    pub(super) len_bytes: u64,
    /// Why.
    pub(super) text: String,
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
    fn next_entry(&mut self) -> Option<Result<EntryRef<'_>, BadEntry>> {
        self.next().map(Ok)
    }
}

/// How old entries may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ages {
    /// As old as the limits of the tenant say, and within the window behind the newest of the
    /// stream.
    Recent,
    /// Of any age, within the window behind the newest of the stream.
    Old,
    /// Of any age and in any order.
    Any,
}

/// Properties of a push as a whole.
#[derive(Clone, Copy)]
pub(super) struct PushKind<'r> {
    /// Entries as sent, for the metrics.
    pub(super) entries: u64,
    /// Bytes of lines and metadata as sent, for the metrics.
    pub(super) bytes: u64,
    /// How old entries may be.
    pub(super) ages: Ages,
    /// Who sends it.
    pub(super) sender: Sender<'r>,
    /// The protocol, for the metrics.
    pub(super) format: PushFormat,
}

/// A push whose body may be dropped.
pub(super) enum Ingested<'r> {
    /// Nothing of it is stored, and this is the answer.
    Answered(Response),
    /// Nothing of it is stored, and this is the error. It has been noted.
    Refused(ApiError),
    /// The answer depends on the shards.
    Sent(Box<SentPush<'r>>),
}

/// A push whose entries are on their way to their shards.
pub(super) struct SentPush<'r> {
    pub(super) kind: PushKind<'r>,
    /// When it came.
    pub(super) now_ns: i64,
    pub(super) sent_entries: SentEntries,
    pub(super) limit_check: LimitCheck,
}

/// A batch on its way.
pub(super) struct SentBatch {
    pub(super) reply: BatchReply,
    /// Its streams.
    pub(super) streams: Vec<Rc<CachedStream>>,
    /// Its size.
    len_bytes: usize,
}

/// Where the reply to a batch comes from.
pub(super) enum BatchReply {
    /// From a shard of this node.
    Shard(CoreId, PendingReply<ShardReply>),
    /// From whoever owns its streams, which may be several nodes.
    Owners(LocalBoxFuture<'static, Result<AppendOutcome, ApiError>>),
}

/// The batch being filled for one target.
struct OpenBatch {
    builder: BatchBuilder,
    /// How many bytes it will probably have.
    expected_bytes: usize,
    /// The streams in it, one for each section.
    streams: Vec<Rc<CachedStream>>,
    /// Bytes of the definitions that go along.
    definitions_len: usize,
}

impl OpenBatch {
    fn new(expected_bytes: usize) -> OpenBatch {
        let builder = BatchBuilder::expecting(expected_bytes);
        OpenBatch { builder, expected_bytes, streams: Vec::new(), definitions_len: 0 }
    }
}

/// Bytes of an entry in a batch besides its line and metadata, roughly.
const ENTRY_OVERHEAD_BYTES: u64 = 20;

/// How many bytes the batch of each target will probably have: streams are taken for equally
/// large, and a quarter is added because they are not.
fn expected_bytes<S>(
    streams: &[(S, Rc<CachedStream>)],
    kind: PushKind<'_>,
    targets: &Targets,
) -> Vec<usize> {
    let all = kind.bytes.saturating_add(kind.entries.saturating_mul(ENTRY_OVERHEAD_BYTES));
    let most = BATCH_TARGET_BYTES as u64;
    let mut of_targets = vec![0_u64; targets.list().len()];
    streams.iter().for_each(|(_, resolved)| of_targets[targets.place_of(resolved.id)] += 1);
    // A push may have no stream: entries without labels belong to none.
    let stream_count = streams.len().max(1) as u128;
    let share = |count| u128::from(all) * u128::from(count) * 5 / (4 * stream_count);
    let share = |count| share(count).min(u128::from(most)) as usize;
    of_targets.into_iter().map(share).collect()
}

impl<R: Runtime> Ingest<R> {
    /// Sends the streams of a push to their shards, unless there is an answer to it already.
    pub(super) async fn ingest<'r, S: PushedStream>(
        &self,
        tenant: &TenantId,
        limits: &Limits,
        streams: Vec<(S, Rc<CachedStream>)>,
        kind: PushKind<'r>,
    ) -> Ingested<'r> {
        if is_blocked(limits, self.core.runtime.unix_nanos()) {
            return match self.refuse_blocked(tenant, limits, &streams, kind) {
                Ok(response) => Ingested::Answered(response),
                Err(error) => Ingested::Refused(error),
            };
        }
        let limit_check = match self.check_rate_limits(tenant, limits, &streams, kind) {
            Ok(limit_check) => limit_check,
            Err(error) => {
                let amount = Amount { entries: kind.entries, bytes: kind.bytes };
                let mut pieces = Pieces::default();
                pieces.add(amount, Reason::RateLimited, None, &error.message, (None, None));
                self.note_pieces(tenant, kind.sender, &pieces);
                return Ingested::Refused(error);
            }
        };
        let now_ns = self.core.runtime.unix_nanos();
        let mut check = EntryCheck::new(limits, now_ns, kind.ages, self.entry_max_bytes());
        let mut sent_entries = self.store(tenant, streams, &mut check, &limit_check, kind).await;
        sent_entries.shortened = check.shortened;
        sent_entries.merged = check.merged;
        let sent = SentPush { kind, now_ns, sent_entries, limit_check };
        Ingested::Sent(Box::new(sent))
    }

    pub(super) fn entry_max_bytes(&self) -> usize {
        entry_max_bytes(self.core.budgets().heads.max_bytes())
    }

    /// Answers a push while ingestion is blocked. Labels are judged all the same.
    fn refuse_blocked<S: PushedStream>(
        &self,
        tenant: &TenantId,
        limits: &Limits,
        streams: &[(S, Rc<CachedStream>)],
        kind: PushKind<'_>,
    ) -> Result<Response, ApiError> {
        let mut refusals = Refusals::default();
        let mut blocked = Amount::default();
        for (stream, resolved) in streams {
            let amount = amount_of(stream);
            match resolved.refusal.as_ref().filter(|_| amount.entries > 0) {
                Some(refusal) => {
                    refusals.add(amount, &resolved.labels, Refusal::clone(refusal));
                }
                None => blocked.add(amount.entries, amount.bytes),
            }
        }
        if blocked.entries > 0 {
            let until = (None, limits.block_ingestion_until_ns);
            let text = "ingestion is blocked";
            refusals.pieces.add(blocked, Reason::BlockedIngestion, None, text, until);
        }
        self.note_pieces(tenant, kind.sender, &refusals.pieces);
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

    /// Sends the entries of all streams to their shards, until a shard cannot take a batch.
    async fn store<S: PushedStream>(
        &self,
        tenant: &TenantId,
        streams: Vec<(S, Rc<CachedStream>)>,
        check: &mut EntryCheck<'_>,
        limit_check: &LimitCheck,
        kind: PushKind<'_>,
    ) -> SentEntries {
        let mut sent_entries = SentEntries::default();
        let targets = self.core.targets();
        let expected = expected_bytes(&streams, kind, &targets);
        let mut open_batches: Vec<OpenBatch> = expected.into_iter().map(OpenBatch::new).collect();
        for (place, (stream, resolved)) in streams.iter().enumerate() {
            if let Some(refusal) = &resolved.refusal {
                let amount = amount_of(stream);
                if amount.entries > 0 {
                    let refusal = Refusal::clone(refusal);
                    sent_entries.refusals.add(amount, &resolved.labels, refusal);
                }
                continue;
            }
            if limit_check.refuses(place) {
                continue;
            }
            let mut entries = stream.entries();
            let mut next = entries.next_entry();
            if next.is_none() {
                continue;
            }
            check.begin_stream();
            let place = targets.place_of(resolved.id);
            let to = targets.list()[place];
            let target = &mut open_batches[place];
            target.note_stream(resolved);
            target.builder.begin(resolved.id);
            while let Some(sent) = next {
                let entry = match sent {
                    Ok(entry) => entry,
                    Err(BadEntry { len_bytes, text }) => {
                        let amount = Amount { entries: 1, bytes: len_bytes };
                        let refusal = Refusal::new(Reason::InvalidLabels, text);
                        sent_entries.refusals.add(amount, &resolved.labels, refusal);
                        next = entries.next_entry();
                        continue;
                    }
                };
                let metadata_bytes = entry.metadata.len_bytes() as u64;
                let amount = Amount { entries: 1, bytes: entry.line.len() as u64 + metadata_bytes };
                match check.judge(resolved, entry) {
                    Ok(good) => {
                        sent_entries.good.add(1, amount.bytes);
                        sent_entries.metadata_bytes += metadata_bytes;
                        sent_entries.newest_ns =
                            sent_entries.newest_ns.max(Some(good.timestamp_ns));
                        sent_entries.lengths.count(amount.bytes - metadata_bytes);
                        good.write(&mut target.builder);
                    }
                    Err(refusal) => {
                        entries.refused(&refusal);
                        sent_entries.refusals.add(amount, &resolved.labels, refusal);
                    }
                }
                if target.builder.len_bytes() + target.definitions_len >= BATCH_TARGET_BYTES {
                    target.builder.end();
                    self.send(tenant, to, target, kind.ages, &mut sent_entries).await;
                    if sent_entries.stored.has_failed() {
                        return sent_entries;
                    }
                    self.turns.next(&self.core.runtime).await;
                    self.turns.note(BATCH_TARGET_BYTES);
                    target.note_stream(resolved);
                    target.builder.begin(resolved.id);
                }
                next = entries.next_entry();
            }
            target.builder.end();
        }
        for (to, target) in targets.list().iter().zip(&mut open_batches) {
            self.send(tenant, *to, target, kind.ages, &mut sent_entries).await;
        }
        sent_entries
    }

    /// Sends a batch to its target, after a wait if much of the push is on its way.
    async fn send(
        &self,
        tenant: &TenantId,
        to: Target,
        target: &mut OpenBatch,
        ages: Ages,
        sent_entries: &mut SentEntries,
    ) {
        let filled = std::mem::replace(target, OpenBatch::new(target.expected_bytes));
        if filled.builder.is_empty() {
            return;
        }
        let len_bytes = filled.builder.len_bytes() + filled.definitions_len;
        let share_bytes = self.core.budgets().heads.max_bytes() / ON_THE_WAY_SHARE;
        let most_bytes = share_bytes.min(ON_THE_WAY_MAX_BYTES);
        while (sent_entries.on_the_way_bytes + len_bytes) as u64 > most_bytes
            && let Some(oldest) = sent_entries.sent.pop_front()
        {
            sent_entries.on_the_way_bytes -= oldest.len_bytes;
            self.take_reply(tenant, oldest, &mut sent_entries.stored).await;
        }
        if sent_entries.stored.has_failed() {
            return;
        }
        let new_streams = filled.streams.iter().filter(|stream| !stream.announced.get());
        let window_ns = self.core.config().out_of_order_window_ns;
        let append = AppendRequest {
            batch: filled.builder.finish(),
            definitions: new_streams.map(|stream| stream.definition(tenant)).collect(),
            out_of_order_window_ns: (window_ns > 0 && ages != Ages::Any).then_some(window_ns),
            is_replayed: false,
        };
        let streams = filled.streams;
        let reply = match to {
            Target::Shard(shard) => match self.core.ask(shard, ShardRequest::Append(append)) {
                Ok(reply) => BatchReply::Shard(shard, reply),
                Err(error) => return sent_entries.stored.fail(error),
            },
            Target::Node(_) | Target::Nobody => {
                BatchReply::Owners(self.deliver(tenant, append, &streams))
            }
        };
        sent_entries.on_the_way_bytes += len_bytes;
        sent_entries.sent.push_back(SentBatch { reply, streams, len_bytes });
    }
}

fn is_blocked(limits: &Limits, now_ns: i64) -> bool {
    limits.block_ingestion_until_ns.is_some_and(|until_ns| now_ns < until_ns)
}

/// The entries of a stream, and their bytes as sent.
fn amount_of<S: PushedStream>(stream: &S) -> Amount {
    let mut entries = stream.entries();
    let mut amount = Amount::default();
    while let Some(sent) = entries.next_entry() {
        let len_bytes = match sent {
            Ok(entry) => (entry.line.len() + entry.metadata.len_bytes()) as u64,
            Err(bad) => bad.len_bytes,
        };
        amount.add(1, len_bytes);
    }
    amount
}

impl OpenBatch {
    /// Makes sure that the shard gets the definition of the stream.
    fn note_stream(&mut self, stream: &Rc<CachedStream>) {
        if !stream.announced.get() {
            self.definitions_len += stream.labels.as_bytes().len() + 64;
        }
        self.streams.push(Rc::clone(stream));
    }
}

/// The entries of a push on the way to their shards.
#[derive(Default)]
pub(super) struct SentEntries {
    /// The batches that are on their way, the oldest first.
    pub(super) sent: VecDeque<SentBatch>,
    on_the_way_bytes: usize,
    /// Replies to the batches before them.
    pub(super) stored: Stored,
    pub(super) refusals: Refusals,
    /// Entries that were sent to shards, in bytes as the client sent them.
    pub(super) good: Amount,
    /// Bytes of the metadata in it.
    pub(super) metadata_bytes: u64,
    /// Time of the newest entry of it.
    pub(super) newest_ns: Option<i64>,
    /// Lengths of its lines as sent.
    pub(super) lengths: LineCounts,
    /// Lines of it that were cut, and the bytes that they lost.
    pub(super) shortened: Amount,
    /// Entries of which names of metadata became one, and the bytes that they lost.
    pub(super) merged: Amount,
}
