//! `POST /upload`: journals as `systemd-journal-upload` sends them.
//!
//! A host sends its whole journal in one request, which has no length and no end that is known.
//! After any answer but 2xx it begins again at the same entry, and so it would for ever if one
//! entry were the reason. Guarantees:
//!
//! - Each entry has its own fate. Refused entries are counted and listed, and the answer is 2xx.
//! - 429 and 503 are answered for what may pass, after a wait within the request.
//! - The answer comes after the last entry is durable. What was stored before a failure is dropped
//!   as duplicates when it is sent again.
//! - Memory is bounded: entries are stored in batches while the body comes, and the body is not
//!   read meanwhile. A tenant at its limit on rates is slowed down, and not refused.

use std::collections::BTreeMap;
use std::time::Duration;

use http::StatusCode;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use logsvc_http::{BodyStream, Disconnect, Request, RequestHead, Response};
use logsvc_proto::TenantId;
use logsvc_proto::error::ApiError;
use logsvc_proto::journal::{ENTRY_MAX_BYTES, End, Mapping, MappingLimits, Parser};
use logsvc_proto::labels::Labels;
use logsvc_proto::records::Records;
use logsvc_runtime::{Reservation, Runtime};

use super::Ingest;
use super::push::user_agent;
use super::records::{Fate, Fates};
use crate::config::{Config, Limits};
use crate::front::core::errors::too_many_bytes;
use crate::metrics::{Amount, Metric, PushFormat, Reason};
use crate::refusals::Sender;

const ROUTE: &str = "upload";
const MEDIA_TYPE: &str = "application/vnd.fdo.journal";
/// Entries are stored when there are so many bytes or entries.
const BATCH_BYTES: u64 = 1 << 20;
const BATCH_ENTRIES: usize = 4096;
/// Memory of records that is kept for the next batch.
const KEPT_BYTES: usize = 8 << 20;
/// How long a batch is tried again.
const PATIENCE: Duration = Duration::from_secs(30);
/// First and longest pause between two tries.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Memory that a byte of a body may take until it is in a batch.
const PARSED_FACTOR: u64 = 16;
/// Bytes that the limits on rates count for an entry besides those of its record.
const LEVEL_BYTES: u64 = 32;

/// A journal that is being received.
struct Upload<'u, R: Runtime> {
    ingest: &'u Ingest<R>,
    tenant: &'u TenantId,
    sender: Sender<'u>,
    disconnect: &'u Disconnect,
    mapping: Mapping,
    batch_bytes: u64,
    parser: Parser,
    records: Records,
    /// What could not be read as entries, by the reason.
    bad: BTreeMap<String, Amount>,
    left_out: u64,
    /// For parser and records.
    memory: Reservation,
}

impl<R: Runtime> Ingest<R> {
    /// See the module.
    pub(crate) async fn upload_journal(&self, request: Request) -> Result<Response, ApiError> {
        let Request { head, stream, peer, disconnect, .. } = request;
        let sender = Sender { peer, user_agent: user_agent(&head), route: ROUTE };
        let tenant = self.core.tenant(&head).map_err(ApiError::with_newline);
        let tenant = self.noted(None, sender, tenant)?;
        self.noted(Some(&tenant), sender, check_type(&head))?;
        let stream = stream.ok_or_else(|| ApiError::internal("the body was not streamed"))?;
        let limits = self.core.limits(&tenant);
        let memory = self.core.budgets().bodies.try_reserve(0).ok_or_else(too_many_bytes);
        let upload = Upload {
            ingest: self,
            tenant: &tenant,
            sender,
            disconnect: &disconnect,
            mapping: mapping(self.core.config(), &limits),
            batch_bytes: batch_bytes(&limits),
            parser: Parser::new(),
            records: Records::new(),
            bad: BTreeMap::new(),
            left_out: 0,
            memory: self.noted(Some(&tenant), sender, memory)?,
        };
        upload.run(stream).await.map_err(ApiError::with_newline)?;
        Ok(Response::text(StatusCode::ACCEPTED, "OK.\n"))
    }
}

impl<R: Runtime> Upload<'_, R> {
    async fn run(mut self, mut stream: BodyStream) -> Result<(), ApiError> {
        loop {
            match stream.next().await {
                Ok(Some(piece)) => self.take(&piece).await?,
                Ok(None) => break,
                // The driver answers. What has come whole need not come again.
                Err(fault) => {
                    self.store().await?;
                    return Err(ApiError::bad_request(fault.to_string()));
                }
            }
        }
        let end = self.parser.finish();
        self.note(end);
        self.store().await
    }

    /// Reads a piece of the body.
    async fn take(&mut self, piece: &[u8]) -> Result<(), ApiError> {
        self.reserve(piece.len() as u64).await?;
        let mut input = piece;
        while !input.is_empty() {
            let end = self.parser.read(&mut input, |name| self.mapping.wanted(name));
            self.note(end);
            if self.records.len_bytes() >= self.batch_bytes || self.records.len() >= BATCH_ENTRIES {
                self.store().await?;
            }
        }
        self.tell();
        Ok(())
    }

    /// Makes a record of an entry.
    fn note(&mut self, end: Option<End>) {
        let entry = self.parser.entry();
        let fault = match end {
            None => return,
            Some(End::Entry) => match self.mapping.write(entry, &mut self.records) {
                Ok(written) => {
                    self.left_out += written.left_out;
                    return;
                }
                Err(unmapped) => unmapped.to_string(),
            },
            Some(End::Unreadable(fault)) => fault.to_string(),
        };
        self.bad.entry(fault).or_default().add(1, entry.sent_bytes());
    }

    /// Counts and lists what could not be read, and counts fields that were left out.
    fn tell(&mut self) {
        for (text, amount) in std::mem::take(&mut self.bad) {
            let (reason, sender) = (Reason::Unreadable, self.sender);
            self.ingest.note_unreadable(self.tenant, sender, reason, amount, &text);
        }
        let numbers = &self.ingest.core.counters().numbers;
        numbers.add(Metric::JournalFieldsLeftOut, std::mem::take(&mut self.left_out));
    }

    /// Reserves memory for reading so many bytes: vectors double.
    async fn reserve(&mut self, piece_bytes: u64) -> Result<(), ApiError> {
        let held_bytes = self.parser.capacity_bytes() + self.records.capacity_bytes();
        let wanted_bytes = held_bytes as u64 * 2 + piece_bytes * PARSED_FACTOR;
        let mut tries = Tries::default();
        loop {
            let missing_bytes = wanted_bytes.saturating_sub(self.memory.bytes());
            if missing_bytes == 0 || self.memory.try_grow(missing_bytes) {
                self.memory.shrink_to(wanted_bytes);
                return Ok(());
            }
            let outcome = tries.pause(self, too_many_bytes()).await;
            self.ingest.noted(Some(self.tenant), self.sender, outcome)?;
        }
    }

    /// Stores the records. When this returns, each is stored or refused for good.
    async fn store(&mut self) -> Result<(), ApiError> {
        self.tell();
        let mut tries = Tries::default();
        while !self.records.is_empty() {
            self.wait_for_rate().await?;
            let (tenant, sender) = (self.tenant, self.sender);
            let format = PushFormat::Journald;
            let taken = self.ingest.take_records(tenant, sender, format, &self.records).await;
            let error = match taken {
                Ok(fates) => match keep_later(&mut self.records, &fates) {
                    Some(error) => error,
                    None => break,
                },
                Err(error) if may_pass(error.status) => error,
                // Refused for good, and noted.
                Err(_) => break,
            };
            tries.pause(self, error).await?;
        }
        if self.records.capacity_bytes() > KEPT_BYTES {
            self.records = Records::new();
        }
        self.records.clear();
        Ok(())
    }

    /// Waits until the tenant's limit on rates lets the records in.
    async fn wait_for_rate(&self) -> Result<(), ApiError> {
        let bytes = self.records.len_bytes() + self.records.len() as u64 * LEVEL_BYTES;
        while let Some(wait) = self.ingest.rate_wait(self.tenant, bytes) {
            if self.is_over() {
                return Err(ApiError::unavailable(
                    "the upload is slowed down, and the server stops",
                ));
            }
            self.sleep(wait.min(PAUSES.1)).await;
        }
        Ok(())
    }

    /// Whether nobody waits for the answer, or nothing will be stored any more.
    fn is_over(&self) -> bool {
        self.disconnect.is_gone() || self.ingest.core.node.stop.is_triggered()
    }

    async fn sleep(&self, pause: Duration) {
        let runtime = &self.ingest.core.runtime;
        runtime.sleep_until(runtime.now().after(pause)).await;
    }
}

/// How often something was tried, and since when.
#[derive(Default)]
struct Tries {
    waited: Duration,
    pause: Duration,
}

impl Tries {
    /// Waits before the next try.
    ///
    /// # Errors
    /// There is none; the upload ends with `error`.
    async fn pause<R: Runtime>(
        &mut self,
        upload: &Upload<'_, R>,
        error: ApiError,
    ) -> Result<(), ApiError> {
        if self.waited >= PATIENCE || upload.is_over() {
            let status = match error.status {
                StatusCode::TOO_MANY_REQUESTS => StatusCode::TOO_MANY_REQUESTS,
                _ => StatusCode::SERVICE_UNAVAILABLE,
            };
            let retry_after_s = error.retry_after_s.or(Some(1));
            return Err(ApiError { status, retry_after_s, ..error });
        }
        self.pause = (self.pause * 2).clamp(PAUSES.0, PAUSES.1);
        upload.sleep(self.pause).await;
        self.waited += self.pause;
        Ok(())
    }
}

/// Whether a refusal with this status may be gone when the same is sent again.
pub(super) fn may_pass(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()
}

/// Keeps the records that may be stored later, if there are any, and tells why they are not yet.
fn keep_later(records: &mut Records, fates: &Fates) -> Option<ApiError> {
    let mut kept = Records::new();
    let mut reason = None;
    for (place, fate) in fates.iter().enumerate() {
        let Fate::Later(error) = fate else { continue };
        reason = Some(ApiError::clone(error));
        let mut pairs = Vec::new();
        let entry = records.entry(place, &mut pairs);
        kept.begin(entry.timestamp_ns);
        let labels: Labels = records.labels(place).parse().expect("labels of a record are a set");
        labels.iter().for_each(|(name, value)| kept.label(name, value));
        entry.metadata.iter().for_each(|(name, value)| kept.metadata(name, value));
        kept.line(entry.line);
        kept.end();
    }
    if reason.is_some() {
        *records = kept;
    }
    reason
}

fn check_type(head: &RequestHead) -> Result<(), ApiError> {
    let media_type = head.header(CONTENT_TYPE).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    let encoding = head.header(CONTENT_ENCODING).unwrap_or("identity");
    let text = if !media_type.eq_ignore_ascii_case(MEDIA_TYPE) {
        "Content-Type: application/vnd.fdo.journal is required."
    } else if !encoding.eq_ignore_ascii_case("identity") {
        "Content-Encoding is not supported for journals."
    } else {
        return Ok(());
    };
    Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text).with_newline())
}

fn mapping(config: &Config, limits: &Limits) -> Mapping {
    let settings = &config.journald;
    // One byte more than permitted tells that a line is too long.
    let line_max_bytes = match limits.max_line_size_bytes {
        0 => ENTRY_MAX_BYTES,
        limit => limit.saturating_add(1).min(ENTRY_MAX_BYTES),
    };
    let metadata_max_fields = match limits.allow_structured_metadata {
        true => limits.max_structured_metadata_entries_count,
        false => 0,
    };
    let labels = settings.labels.iter().map(|(label, field)| (label.to_owned(), field.to_owned()));
    Mapping::new(
        labels,
        settings.dropped_fields.iter().cloned(),
        settings.prefers_source_time,
        MappingLimits {
            line_max_bytes,
            field_max_bytes: settings.field_max_bytes,
            metadata_max_bytes: limits.max_structured_metadata_size_bytes,
            metadata_max_fields,
        },
    )
}

/// A batch has to fit into the bursts that the limits on rates allow, or it never gets in.
pub(super) fn batch_bytes(limits: &Limits) -> u64 {
    let mut bytes = BATCH_BYTES;
    if limits.ingestion_rate_mb > 0.0 {
        bytes = bytes.min((limits.ingestion_burst_size_mb * (1 << 20) as f64 / 2.0) as u64);
    }
    if limits.per_stream_rate_limit_bytes > 0 {
        bytes = bytes.min(limits.per_stream_rate_limit_burst_bytes / 2);
    }
    bytes.max(1)
}
