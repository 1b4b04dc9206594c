//! OpenTelemetry logs over HTTP: from the bytes of a request to its streams, and the
//! form in which the SDKs expect errors.
//!
//! Guarantees: a request that does not decode stores nothing. Of a request that decodes, records
//! with bad content are refused; the others are stored, and the answer is a partial success. An
//! error means that nothing was stored, or that it may be sent again.
//!
//! All records of a resource belong to one stream, unless rules make labels of attributes of single
//! records; then every run of records with the same labels is a stream.

use std::rc::Rc;
use std::sync::Arc;

use http::StatusCode;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use logsvc_http::{Request, Response};
use logsvc_proto::TenantId;
use logsvc_proto::body::{Decoder, MessageFormat, choose_otlp_decoder};
use logsvc_proto::error::ApiError;
use logsvc_proto::otlp::{
    Assembler, LogsRequest, PartialSuccess, Records, ResourceLogs, ResponseFormat,
    STATUS_CONTENT_TYPE, ScopeLogs, Scopes, encode_status, record_labels, resource_labels,
    transcode_json,
};
use logsvc_proto::push::{EntryRef, LabelSource};
use logsvc_runtime::{Reservation, Runtime};

use super::Ingest;
use super::batches::{Ages, BadEntry, EntryCursor, Ingested, PushKind, PushedStream};
use super::outcome::{PartlyRefused, PushOutcome};
use super::push::{PushBuffers, user_agent};
use super::push_memory::{PushMemory, trimmed};
use super::stream_cache::CachedStream;
use crate::config::{Limits, OtlpRules};
use crate::metrics::PushFormat;
use crate::refusals::Sender;

/// The most bytes of a protobuf message for each byte of the JSON text that it is made of.
const TRANSCODED_FACTOR: u64 = 2;
const TRANSCODED_ALLOWANCE_BYTES: u64 = 64;

type Resolved<'r, 'a> = Vec<(OtlpStream<'r, 'a>, Rc<CachedStream>)>;

impl<R: Runtime> Ingest<R> {
    pub(crate) async fn push_otlp(&self, request: Request) -> Result<Response, ApiError> {
        let Request { head, mut body, peer, .. } = request;
        let sender = Sender { peer, user_agent: user_agent(&head), route: "otlp_v1_logs" };
        let tenant = self.noted(None, sender, self.core.tenant(&head))?;
        let mut headroom = body.take_headroom();
        let (body, held_bytes) = trimmed(body);
        let header = |name| head.headers.get(name).map(HeaderValue::as_bytes);
        let decoder = choose_otlp_decoder(header(CONTENT_TYPE), header(CONTENT_ENCODING));
        let decoder = self.noted(Some(&tenant), sender, decoder.map_err(ApiError::from))?;
        let ingested = self
            .with_buffers(async |buffers| {
                let memory =
                    PushMemory::new(&self.core.budgets().bodies, held_bytes, headroom.take())?;
                self.push_otlp_decoded(&tenant, sender, decoder, &body, memory, buffers).await
            })
            .await;
        let (ingested, _more_reserved) = self.noted(Some(&tenant), sender, ingested)?;
        let _reserved = body.into_reservation();
        match self.outcome(&tenant, ingested).await? {
            PushOutcome::Answered(response) => Ok(response),
            PushOutcome::Stored => Ok(Response::new(StatusCode::NO_CONTENT)),
            PushOutcome::PartlyRefused(refused) if refused.stored_entries > 0 => {
                Ok(partial_success(refused, decoder.format))
            }
            PushOutcome::PartlyRefused(refused) => Err(refused.error),
        }
    }

    async fn push_otlp_decoded<'r>(
        &self,
        tenant: &TenantId,
        sender: Sender<'r>,
        decoder: Decoder,
        body: &[u8],
        mut memory: PushMemory,
        buffers: &mut PushBuffers,
    ) -> Result<(Ingested<'r>, Reservation), ApiError> {
        let message = self.decompress(decoder, body, &mut memory, &mut buffers.body).await?;
        let mut transcoded = Vec::new();
        let message = if decoder.format == MessageFormat::Json {
            let more = message.len() as u64 * TRANSCODED_FACTOR + TRANSCODED_ALLOWANCE_BYTES;
            memory.grow(more)?;
            transcode_json(message, &mut transcoded)?;
            &transcoded
        } else {
            message
        };
        let logs = LogsRequest::protobuf(message)
            .map_err(|error| ApiError::bad_request(error.to_string()))?;
        if logs.record_count() == 0 {
            return Err(ApiError::no_streams());
        }
        let limits = self.core.limits(tenant);
        let rules = limits.otlp.with_defaults(&self.core.config().otlp_index_labels);
        let mut most_streams = logs.resource_count();
        if rules.records_have_labels() {
            most_streams += logs.record_count();
        }
        self.reserve_streams::<OtlpStream<'_, '_>>(most_streams, &mut memory)?;
        let streams = self.resolve_otlp(tenant, &limits, &logs, rules)?;
        let kind = PushKind {
            entries: logs.record_count(),
            bytes: logs.text_len_bytes(),
            ages: Ages::Recent,
            sender,
            format: PushFormat::Otlp,
        };
        let ingested = self.ingest(tenant, &limits, streams, kind).await;
        Ok((ingested, memory.into_reservation()))
    }

    /// The streams of a request.
    fn resolve_otlp<'r, 'a>(
        &self,
        tenant: &TenantId,
        limits: &Arc<Limits>,
        logs: &LogsRequest<'a>,
        rules: OtlpRules<'r>,
    ) -> Result<Resolved<'r, 'a>, ApiError> {
        let now_ns = self.core.runtime.unix_nanos();
        let mut streams = Vec::new();
        for resource in logs.resources() {
            let labels = resource_labels(&resource, &rules);
            let whole = self.resolve(tenant, limits, &LabelSource::labels(&labels))?;
            let begin = |scopes, scope, records| OtlpStream {
                resource,
                scopes,
                scope,
                records,
                record_count: u64::MAX,
                rules,
                now_ns,
            };
            if !rules.records_have_labels() {
                streams.push((begin(resource.scopes(), None, None), whole));
                continue;
            }
            let mut run: Option<(OtlpStream<'r, 'a>, Rc<CachedStream>)> = None;
            let mut scopes = resource.scopes();
            while let Some(scope) = scopes.next() {
                let mut records = scope.records();
                loop {
                    let here = records;
                    let Some(record) = records.next() else { break };
                    let stream = match record_labels(&labels, &record, &rules) {
                        Some(labels) => {
                            self.resolve(tenant, limits, &LabelSource::labels(&labels))?
                        }
                        None => Rc::clone(&whole),
                    };
                    match &mut run {
                        Some((run, of)) if Rc::ptr_eq(of, &stream) => run.record_count += 1,
                        _ => {
                            let mut next = begin(scopes, Some(scope), Some(here));
                            next.record_count = 1;
                            streams.extend(run.replace((next, stream)));
                        }
                    }
                }
            }
            streams.extend(run);
        }
        Ok(streams)
    }
}

/// Records of one resource that belong to one stream, from a place on.
struct OtlpStream<'r, 'a> {
    resource: ResourceLogs<'a>,
    /// The scopes behind `scope`.
    scopes: Scopes<'a>,
    scope: Option<ScopeLogs<'a>>,
    /// The rest of the records of `scope`.
    records: Option<Records<'a>>,
    /// How many records, if the resource has so many.
    record_count: u64,
    rules: OtlpRules<'r>,
    /// The time of records that do not tell theirs.
    now_ns: i64,
}

/// A cursor over them.
struct OtlpEntries<'s, 'a> {
    assembler: Assembler<'a>,
    scopes: Scopes<'a>,
    records: Option<Records<'a>>,
    left: u64,
    rules: &'s OtlpRules<'s>,
    now_ns: i64,
}

impl<'r, 'a> PushedStream for OtlpStream<'r, 'a> {
    type Entries<'s>
        = OtlpEntries<'s, 'a>
    where
        Self: 's;

    fn entries(&self) -> OtlpEntries<'_, 'a> {
        let mut assembler = Assembler::new(&self.resource, &self.rules);
        if let Some(scope) = &self.scope {
            assembler.begin_scope(scope, &self.rules);
        }
        OtlpEntries {
            assembler,
            scopes: self.scopes,
            records: self.records,
            left: self.record_count,
            rules: &self.rules,
            now_ns: self.now_ns,
        }
    }
}

impl EntryCursor for OtlpEntries<'_, '_> {
    fn next_entry(&mut self) -> Option<Result<EntryRef<'_>, BadEntry>> {
        self.left = self.left.checked_sub(1)?;
        let record = loop {
            if let Some(record) = self.records.as_mut().and_then(Iterator::next) {
                break record;
            }
            let scope = self.scopes.next()?;
            self.assembler.begin_scope(&scope, self.rules);
            self.records = Some(scope.records());
        };
        let entry = self.assembler.entry(&record, self.rules, self.now_ns);
        Some(entry.map_err(|error| BadEntry {
            len_bytes: record.len_bytes() as u64,
            text: error.to_string(),
        }))
    }
}

/// The answer to an export of which some records were refused for good. Clients must not send
/// it again.
fn partial_success(refused: PartlyRefused, format: MessageFormat) -> Response {
    let format = match format {
        MessageFormat::Json => ResponseFormat::Json,
        MessageFormat::Protobuf | MessageFormat::SnappyProtobuf => ResponseFormat::Protobuf,
    };
    let partial = PartialSuccess {
        rejected_log_records: refused.refused_entries,
        error_message: refused.error.message,
    };
    Response::new(StatusCode::OK)
        .with_content_type(format.content_type())
        .with_body(partial.encode(format))
}

/// An error as OpenTelemetry SDKs and collectors decode it: a `google.rpc.Status`. They
/// give up on 500 and try again on 503, so the one becomes the other.
pub(crate) fn error_response(error: &ApiError) -> Response {
    let status = match error.status {
        StatusCode::INTERNAL_SERVER_ERROR => StatusCode::SERVICE_UNAVAILABLE,
        status => status,
    };
    let mut response = Response::new(status).with_body(encode_status(&error.message));
    response.headers.insert(CONTENT_TYPE, HeaderValue::from_static(STATUS_CONTENT_TYPE));
    if let Some(seconds) = error.retry_after_s {
        response.headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
