//! Push: from the bytes of a request to one batch per shard, and from the shards'
//! answers to the client's.
//!
//! Guarantees: a request whose body or labels do not parse stores nothing. Of any
//! other request the good entries are stored, and the answer reports the worst
//! that happened. 204 means that every entry is committed.
//!
//! Each line is copied twice here: out of the compressed body into a buffer that
//! is reused, and from there into its shard's batch. Nothing is allocated per
//! line.

use std::rc::Rc;
use std::sync::Arc;

use http::StatusCode;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use logsvc_http::{Request, Response};
use logsvc_proto::body::{
    BodyBuffers, BodyError, Compression, Decoder, MessageFormat, choose_decoder,
};
use logsvc_proto::error::ApiError;
use logsvc_proto::labels::write_pairs_canonical;
use logsvc_proto::push::metadata::MetadataNormalizer;
use logsvc_proto::push::{EntryRef, LabelSource, Push, StreamRef};
use logsvc_proto::{LabelParseError, Labels, StreamId, TenantId};
use logsvc_runtime::mesh::PendingReply;
use logsvc_runtime::{CoreId, Reservation, Runtime};
use logsvc_shards::batch::BatchBuilder;
use logsvc_shards::messages::{
    AppendError, AppendRequest, ShardReply, ShardRequest, StreamDefinition, TooFarBehind,
};
use logsvc_shards::wal::writer::WalUnavailable;

use super::Front;
use super::refusals::{Refusals, rfc3339, too_far_behind};
use super::scatter::shard_gone;
use super::stream_cache::CachedStream;
use crate::config::Limits;
use crate::metrics::add;

/// A batch goes out when it has this many bytes, so that a huge push keeps neither
/// memory nor a core to itself.
const BATCH_TARGET_BYTES: usize = 4 << 20;

/// No line may be longer, whatever the limits say.
const LINE_HARD_MAX_BYTES: usize = 16 << 20;

/// Decompression buffers larger than this are not kept.
const KEPT_BUFFER_MAX_BYTES: usize = 4 << 20;

/// Which JSON form a push endpoint reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dialect {
    V1,
    Legacy,
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
    pub(super) async fn push(
        &self,
        request: Request,
        dialect: Dialect,
    ) -> Result<Response, ApiError> {
        let tenant = self.tenant(&request.head).map_err(ApiError::with_newline)?;
        if self.stopping.is_triggered() {
            return Err(ApiError::internal("Ingester is shutting down").with_newline());
        }
        let mut buffers = self.spare_buffers.borrow_mut().pop().unwrap_or_default();
        let result = self.push_decoded(&tenant, request, dialect, &mut buffers).await;
        if buffers.capacity_bytes() <= KEPT_BUFFER_MAX_BYTES {
            self.spare_buffers.borrow_mut().push(buffers);
        }
        result.map_err(ApiError::with_newline)
    }

    async fn push_decoded(
        &self,
        tenant: &TenantId,
        request: Request,
        dialect: Dialect,
        buffers: &mut BodyBuffers,
    ) -> Result<Response, ApiError> {
        let header = |name| request.head.headers.get(name).map(HeaderValue::as_bytes);
        let decoder = choose_decoder(header(CONTENT_TYPE), header(CONTENT_ENCODING))?;
        let (message, _reservation) = self.decompress(decoder, &request.body, buffers)?;
        let push = match (decoder.format, dialect) {
            (MessageFormat::SnappyProtobuf, _) => Push::protobuf(message)?,
            (MessageFormat::Json, Dialect::V1) => Push::json(message)?,
            (MessageFormat::Json, Dialect::Legacy) => Push::legacy_json(message)?,
        };
        let totals = push.totals();
        if totals.streams == 0 {
            return Err(ApiError::no_streams());
        }
        // One label set that does not parse refuses the whole request, so all are
        // resolved before anything is sent.
        let mut streams = Vec::new();
        let mut refusals = Refusals::default();
        for stream in push.streams() {
            let resolved = self.resolve(tenant, &stream.labels)?;
            streams.push((stream, resolved));
        }
        let mut sent = Vec::new();
        let outcome = self.store(tenant, streams, &mut refusals, &mut sent).await;
        let stored = self.gather_appends(sent).await;
        let discarded =
            refusals.entries + stored.too_far_behind.iter().map(|s| s.refused).sum::<u64>();
        add(&self.counters().discarded_lines, discarded);
        add(&self.counters().received_lines, stored.accepted);
        if stored.accepted > 0 {
            let bytes = totals.line_bytes + totals.metadata_bytes;
            let share =
                bytes as u128 * u128::from(stored.accepted) / u128::from(totals.entries.max(1));
            add(&self.counters().received_bytes, share as u64);
        }
        outcome?;
        if let Some(error) = stored.failure {
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

    /// Undoes the compression of a body. What comes out counts against the same
    /// budget as the body, and is reserved before it is made.
    fn decompress<'b>(
        &self,
        decoder: Decoder,
        body: &'b [u8],
        buffers: &'b mut BodyBuffers,
    ) -> Result<(&'b [u8], Reservation), ApiError> {
        // What can never fit beside its own body is refused for good: a client that
        // were told to come back would do so for ever.
        let room_bytes = self.bodies.max_bytes().saturating_sub(body.len() as u64);
        let limit_bytes = self.config.push_decompressed_max_bytes.min(room_bytes);
        let mut expected_bytes = decoder.expected_len(body).min(limit_bytes);
        let reservation = loop {
            let reservation = self.bodies.try_reserve(expected_bytes).ok_or_else(|| {
                ApiError::too_many_requests("too many bytes of requests in flight", 1)
            })?;
            // Without an outer compression the expectation is no guess: a message that
            // claims to be larger is malformed, or over the limit.
            let is_guess = decoder.compression != Compression::None;
            let max_bytes = if is_guess { expected_bytes } else { limit_bytes };
            let max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
            match buffers.decode(decoder, body, max_bytes) {
                Ok(()) => break reservation,
                Err(BodyError::TooLarge { .. }) if is_guess && expected_bytes < limit_bytes => {
                    expected_bytes = expected_bytes.saturating_mul(8).min(limit_bytes);
                }
                Err(error) => return Err(error.into()),
            }
        };
        Ok((buffers.decoded(decoder, body), reservation))
    }

    /// What the labels of a stream resolve to.
    fn resolve(
        &self,
        tenant: &TenantId,
        source: &LabelSource<'_>,
    ) -> Result<Rc<CachedStream>, LabelParseError> {
        let mut cache = self.streams.borrow_mut();
        if let Some(known) = cache.get(tenant, source) {
            return Ok(known);
        }
        add(&self.counters().stream_cache_misses, 1);
        let (labels, refusal) = match source.parse() {
            Ok(labels) => {
                let refusal = check_labels(&labels, &self.config.limits);
                (labels, refusal)
            }
            // A repeated name costs this stream only.
            Err(LabelParseError::Duplicate { name, pairs }) => {
                let mut printed = Vec::new();
                let pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
                write_pairs_canonical(pairs, &mut printed);
                let printed = String::from_utf8_lossy(&printed);
                let refusal = format!("stream '{printed}' has duplicate label name: '{name}'");
                (Labels::empty(), Some(refusal))
            }
            Err(error) => return Err(error),
        };
        let id = StreamId::new(tenant, &labels);
        let stream = Rc::new(CachedStream {
            id,
            shard: CoreId(id.shard(self.runtime.core_count())),
            refusal: refusal.map(Into::into),
            labels: Arc::new(labels),
            announced: std::cell::Cell::new(false),
        });
        cache.insert(tenant, source, Rc::clone(&stream));
        Ok(stream)
    }

    /// Sends the entries of all streams to their shards.
    async fn store(
        &self,
        tenant: &TenantId,
        streams: Vec<(StreamRef<'_>, Rc<CachedStream>)>,
        refusals: &mut Refusals,
        sent: &mut Vec<Sent>,
    ) -> Result<(), ApiError> {
        let mut check = EntryCheck::new(&self.config.limits, self.runtime.unix_nanos());
        let mut filling: Vec<Filling> =
            (0..self.runtime.core_count()).map(|_| Filling::new()).collect();
        for (stream, resolved) in streams {
            let mut entries = stream.entries();
            let mut next = entries.next();
            if next.is_none() {
                continue;
            }
            if let Some(refusal) = &resolved.refusal {
                let mut count = 0;
                while next.is_some() {
                    count += 1;
                    next = entries.next();
                }
                refusals.add(count, || refusal.to_string());
                continue;
            }
            let shard = resolved.shard;
            let target = &mut filling[shard.index()];
            target.note_stream(&resolved);
            target.builder.begin(resolved.id);
            while let Some(entry) = next {
                check.push(&resolved.labels, entry, &mut target.builder, refusals);
                if target.builder.len_bytes() + target.definitions_len >= BATCH_TARGET_BYTES {
                    target.builder.end();
                    self.send(tenant, shard, target, sent)?;
                    self.runtime.yield_now().await;
                    target.note_stream(&resolved);
                    target.builder.begin(resolved.id);
                }
                next = entries.next();
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

/// Why a label set breaks the limits, if it does.
fn check_labels(labels: &Labels, limits: &Limits) -> Option<String> {
    if labels.is_empty() {
        return Some("error at least one label pair is required per stream".into());
    }
    if limits.max_label_names_per_series > 0 && labels.len() > limits.max_label_names_per_series {
        return Some(format!(
            "entry for stream '{}' has {} label names; limit {}",
            labels.canonical(),
            labels.len(),
            limits.max_label_names_per_series
        ));
    }
    for (name, value) in labels.iter() {
        if limits.max_label_name_length > 0 && name.len() > limits.max_label_name_length {
            return Some(format!(
                "stream '{}' has label name too long: '{name}'",
                labels.canonical()
            ));
        }
        if limits.max_label_value_length > 0 && value.len() > limits.max_label_value_length {
            return Some(format!(
                "stream '{}' has label value too long: '{value}'",
                labels.canonical()
            ));
        }
    }
    None
}

/// Checks entries against the limits and writes the good ones into a batch.
struct EntryCheck<'c> {
    limits: &'c Limits,
    oldest_ns: Option<i64>,
    newest_ns: Option<i64>,
    line_max_bytes: usize,
    normalizer: MetadataNormalizer,
}

impl<'c> EntryCheck<'c> {
    fn new(limits: &'c Limits, now_ns: i64) -> EntryCheck<'c> {
        let line_max_bytes = match limits.max_line_size_bytes {
            0 => LINE_HARD_MAX_BYTES,
            limit => limit.min(LINE_HARD_MAX_BYTES),
        };
        EntryCheck {
            limits,
            oldest_ns: limits
                .reject_old_samples
                .then(|| now_ns.saturating_sub(limits.reject_old_samples_max_age_ns)),
            newest_ns: (limits.creation_grace_period_ns > 0)
                .then(|| now_ns.saturating_add(limits.creation_grace_period_ns)),
            line_max_bytes,
            normalizer: MetadataNormalizer::new(),
        }
    }

    fn push(
        &mut self,
        labels: &Labels,
        entry: EntryRef<'_>,
        builder: &mut BatchBuilder,
        refusals: &mut Refusals,
    ) {
        let stream = || labels.canonical();
        let time = entry.timestamp_ns;
        if self.oldest_ns.is_some_and(|oldest| time.is_none_or(|time| time < oldest)) {
            refusals.add(1, || {
                format!(
                    "entry for stream '{}' has timestamp too old: {}, oldest acceptable timestamp is: {}",
                    stream(), rfc3339(time), rfc3339(self.oldest_ns)
                )
            });
            return;
        }
        let Some(timestamp_ns) = time else {
            refusals.add(1, || format!("entry for stream '{}' has no timestamp", stream()));
            return;
        };
        if self.newest_ns.is_some_and(|newest| timestamp_ns > newest) {
            refusals.add(1, || {
                format!("entry for stream '{}' has timestamp too new: {}", stream(), rfc3339(time))
            });
            return;
        }
        let mut line = entry.line;
        if line.len() > self.line_max_bytes {
            if !self.limits.max_line_size_truncate {
                refusals.add(1, || {
                    format!(
                        "max entry size '{}' bytes exceeded for stream '{}' while adding an entry with length '{}' bytes",
                        self.line_max_bytes, stream(), line.len()
                    )
                });
                return;
            }
            line = &line[..self.line_max_bytes];
        }
        if entry.metadata.is_empty() {
            builder.push(timestamp_ns, line, std::iter::empty::<(&[u8], &[u8])>());
            return;
        }
        if let Some(refusal) = self.check_metadata(labels, &entry) {
            refusals.add(1, || refusal);
            return;
        }
        match self.normalizer.normalize(entry.metadata) {
            Ok(metadata) => builder.push(timestamp_ns, line, metadata.iter()),
            Err(error) => refusals.add(1, || error.to_string()),
        }
    }

    fn check_metadata(&self, labels: &Labels, entry: &EntryRef<'_>) -> Option<String> {
        let limits = self.limits;
        let (mut pairs, mut bytes) = (0, 0);
        for (name, value) in entry.metadata.iter() {
            pairs += 1;
            bytes += name.len() + value.len();
        }
        if pairs == 0 {
            return None;
        }
        let stream = || labels.canonical();
        if !limits.allow_structured_metadata {
            return Some(format!(
                "stream '{}' includes structured metadata, but this feature is disallowed. Please see \
                 `limits_config.allow_structured_metadata` or contact your administrator to enable it",
                stream()
            ));
        }
        let max_bytes = limits.max_structured_metadata_size_bytes;
        if max_bytes > 0 && bytes > max_bytes {
            return Some(format!(
                "stream '{}' has structured metadata too large: '{bytes}' bytes, limit: '{max_bytes}' bytes. \
                 Please see `limits_config.max_structured_metadata_size` or contact your administrator \
                 to increase it",
                stream()
            ));
        }
        let max_pairs = limits.max_structured_metadata_entries_count;
        if max_pairs > 0 && pairs > max_pairs {
            return Some(format!(
                "stream '{}' has too many structured metadata labels: '{pairs}', limit: '{max_pairs}'. \
                 Please see `limits_config.max_structured_metadata_entries_count` or contact your \
                 administrator to increase it",
                stream()
            ));
        }
        None
    }
}
