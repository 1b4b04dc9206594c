//! The push endpoints: from the bytes of a request to its streams.
//!
//! Guarantees: a request whose body or labels do not parse stores nothing. [`super::outcome`] has
//! the outcomes of the others.

use std::rc::Rc;

use http::StatusCode;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use logsvc_http::{Request, RequestHead, Response};
use logsvc_proto::TenantId;
use logsvc_proto::body::{BodyBuffers, BodyError, Compression, MessageFormat, choose_decoder};
use logsvc_proto::error::ApiError;
use logsvc_proto::push::json::Dialect;
use logsvc_proto::push::{EntryList, Push, StreamRef};
use logsvc_runtime::{Reservation, Runtime};

use super::Ingest;
use super::batches::{Ages, Ingested, PushKind};
use super::outcome::PushOutcome;
use super::push_memory::{PushMemory, trimmed};
use super::stream_cache::CachedStream;
use crate::metrics::PushFormat;
use crate::refusals::Sender;

/// Buffers of pushes that are larger than this are not kept.
pub(super) const KEPT_BUFFER_MAX_BYTES: usize = 4 << 20;

/// Makes a push a part of a backfill.
const BACKFILL_SHARD_HEADER: &str = "x-loki-backfill-shard";

/// Longest value of that header, in bytes.
const BACKFILL_SHARD_MAX_LEN: usize = 128;

/// The memory in which a push is decoded.
#[derive(Debug, Default)]
pub(crate) struct PushBuffers {
    pub(super) body: BodyBuffers,
    entries: EntryList,
}

impl PushBuffers {
    fn capacity_bytes(&self) -> usize {
        self.body.capacity_bytes() + self.entries.capacity_bytes()
    }
}

impl<R: Runtime> Ingest<R> {
    pub(crate) async fn push(
        &self,
        request: Request,
        dialect: Dialect,
    ) -> Result<Response, ApiError> {
        let Request { head, mut body, peer, .. } = request;
        let sender = Sender { peer, user_agent: user_agent(&head), route: route_of(dialect) };
        let tenant = self.core.tenant(&head).map_err(ApiError::with_newline);
        let tenant = self.noted(None, sender, tenant)?;
        let mut headroom = body.take_headroom();
        let (body, held_bytes) = trimmed(body);
        let ingested = self
            .with_buffers(async |buffers| {
                let memory =
                    PushMemory::new(&self.core.budgets().bodies, held_bytes, headroom.take())?;
                let arrived = Arrived { head: &head, body: &body, sender };
                self.push_decoded(&tenant, arrived, dialect, memory, buffers).await
            })
            .await;
        let ingested = self.noted(Some(&tenant), sender, ingested.map_err(ApiError::with_newline));
        // The next push finds this memory in the caches of the CPU. From here on its reservation
        // stands for the batches.
        let _reserved = body.into_reservation();
        let pushed = match ingested {
            Ok((ingested, _reserved)) => self.outcome(&tenant, ingested).await,
            Err(error) => Err(error),
        };
        match pushed.map_err(ApiError::with_newline)? {
            PushOutcome::Answered(response) => Ok(response),
            PushOutcome::Stored => Ok(Response::new(StatusCode::NO_CONTENT)),
            PushOutcome::PartlyRefused(refused) => Err(refused.error.with_newline()),
        }
    }

    /// Lends a push the buffers to decode it in. They are free for the next one as soon as
    /// its batches are made.
    pub(super) async fn with_buffers<T>(
        &self,
        push: impl AsyncFnOnce(&mut PushBuffers) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        self.take_turn().await?;
        let mut buffers = self.spare_buffers.borrow_mut().pop().unwrap_or_default();
        let result = push(&mut buffers).await;
        if buffers.capacity_bytes() <= KEPT_BUFFER_MAX_BYTES {
            self.spare_buffers.borrow_mut().push(buffers);
        }
        result
    }

    /// Waits until the core may decode the next push.
    ///
    /// # Errors
    /// The node takes none.
    pub(super) async fn take_turn(&self) -> Result<(), ApiError> {
        self.check_running()?;
        self.take_last_turn().await
    }

    /// Refuses what comes when the node stops.
    ///
    /// # Errors
    /// It does.
    pub(super) fn check_running(&self) -> Result<(), ApiError> {
        match self.core.node.stop.is_triggered() {
            true => Err(ApiError::unavailable("Ingester is shutting down")),
            false => Ok(()),
        }
    }

    /// [`Ingest::take_turn`] for what was received before the node stopped.
    ///
    /// # Errors
    /// The node takes none.
    pub(super) async fn take_last_turn(&self) -> Result<(), ApiError> {
        if !self.core.takes_entries() {
            return Err(ApiError::unavailable("empty ring"));
        }
        // The writes of the last push go to the disk while this one is decoded.
        self.turns.next(&self.core.runtime).await;
        Ok(())
    }

    async fn push_decoded<'r>(
        &self,
        tenant: &TenantId,
        Arrived { head, body, sender }: Arrived<'r, '_>,
        dialect: Dialect,
        mut memory: PushMemory,
        buffers: &mut PushBuffers,
    ) -> Result<(Ingested<'r>, Reservation), ApiError> {
        let header = |name| head.headers.get(name).map(HeaderValue::as_bytes);
        let backfill_shard = backfill_shard(head)?;
        let decoder =
            choose_decoder(header(CONTENT_TYPE), header(CONTENT_ENCODING)).map_err(|error| {
                match error {
                    BodyError::MediaType(_) => misread_json(error.into(), body),
                    error => error.into(),
                }
            })?;
        let PushBuffers { body: body_buffers, entries } = buffers;
        let message = match self.decompress(decoder, body, &mut memory, body_buffers).await {
            Ok(message) => message,
            Err(error) if decoder.format == MessageFormat::Json => return Err(error),
            Err(error) if decoder.compression == Compression::None => {
                return Err(misread_json(error, body));
            }
            Err(error) => return Err(misread_json(error, &body_buffers.unwrapped)),
        };
        let push = match decoder.format {
            MessageFormat::SnappyProtobuf | MessageFormat::Protobuf => {
                Push::protobuf_listed(message, entries)?
            }
            MessageFormat::Json => Push::json_listed(message, dialect, entries)?,
        };
        let totals = push.totals();
        if totals.streams == 0 {
            return Err(ApiError::no_streams());
        }
        // One label set that does not parse refuses the whole request, so all are
        // resolved before anything is sent.
        self.reserve_streams::<StreamRef<'_>>(totals.streams, &mut memory)?;
        let limits = self.core.limits(tenant);
        let mut streams = Vec::new();
        for stream in push.streams() {
            let resolved = match backfill_shard {
                Some(shard) => self.resolve_backfill(tenant, &limits, &stream.labels, shard)?,
                None => self.resolve(tenant, &limits, &stream.labels)?,
            };
            streams.push((stream, resolved));
        }
        let bytes = totals.line_bytes + totals.metadata_bytes;
        let ages = if backfill_shard.is_some() { Ages::Old } else { Ages::Recent };
        let kind =
            PushKind { entries: totals.entries, bytes, ages, sender, format: PushFormat::Loki };
        let ingested = self.ingest(tenant, &limits, streams, kind).await;
        Ok((ingested, memory.into_reservation()))
    }

    /// Reserves memory for the list of the streams of a push: a stream can be much longer
    /// there than in the body.
    pub(super) fn reserve_streams<S>(
        &self,
        streams: u64,
        memory: &mut PushMemory,
    ) -> Result<(), ApiError> {
        let bytes = streams.saturating_mul(size_of::<(S, Rc<CachedStream>)>() as u64);
        if bytes > self.core.budgets().bodies.max_bytes() / 2 {
            let text = format!("{streams} streams are too many for one push");
            return Err(ApiError::bad_request(text));
        }
        memory.grow(bytes)
    }
}

/// A push as it came.
#[derive(Clone, Copy)]
struct Arrived<'r, 'b> {
    head: &'r RequestHead,
    body: &'b [u8],
    sender: Sender<'r>,
}

/// The name of the route of pushes in this dialect.
fn route_of(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::V1 => "loki_api_v1_push",
        Dialect::Legacy => "api_prom_push",
    }
}

/// The error for a body that was not read as JSON, telling what to do if it probably is JSON:
/// `curl --data` sends it as a form.
fn misread_json(mut error: ApiError, body: &[u8]) -> ApiError {
    if error.status == StatusCode::BAD_REQUEST && body.trim_ascii_start().starts_with(b"{") {
        error.message.push_str(
            ": the body looks like JSON, which needs the header Content-Type: application/json",
        );
    }
    error
}

/// The client's name for itself.
pub(super) fn user_agent(head: &RequestHead) -> &str {
    head.header("user-agent").unwrap_or_default()
}

/// The part of a backfill that a push belongs to, if its header says so.
fn backfill_shard(head: &RequestHead) -> Result<Option<&str>, ApiError> {
    let Some(value) = head.headers.get(BACKFILL_SHARD_HEADER) else { return Ok(None) };
    let shard = std::str::from_utf8(value.as_bytes()).ok();
    match shard.filter(|shard| shard.len() <= BACKFILL_SHARD_MAX_LEN) {
        Some("") => Ok(None),
        Some(shard) => Ok(Some(shard)),
        None => Err(ApiError::bad_request(format!(
            "{BACKFILL_SHARD_HEADER} must be UTF-8 and have at most {BACKFILL_SHARD_MAX_LEN} bytes"
        ))),
    }
}
