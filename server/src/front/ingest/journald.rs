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
use logsvc_http::{BodyStream, Request, RequestHead, Response};
use logsvc_proto::error::ApiError;
use logsvc_proto::journal::{ENTRY_MAX_BYTES, End, Mapping, MappingLimits, Parser};
use logsvc_proto::records::Records;
use logsvc_runtime::{Reservation, Runtime};

use super::Ingest;
use super::push::user_agent;
use super::records::{Fate, Fates};
use super::streamed::{BATCH_ENTRIES, Patience, Streamed, Tries, batch_bytes, forget, may_pass};
use crate::config::{Config, Limits};
use crate::metrics::{Amount, Metric, PushFormat};
use crate::refusals::Sender;

const ROUTE: &str = "upload";
const MEDIA_TYPE: &str = "application/vnd.fdo.journal";
const PATIENCE: Patience = Patience {
    whole: Duration::from_secs(30),
    pauses: (Duration::from_millis(100), Duration::from_secs(2)),
};
/// Memory that a byte of a body may take until it is in a batch.
const PARSED_FACTOR: u64 = 16;

/// A journal that is being received.
struct Upload<'u, R: Runtime> {
    from: Streamed<'u, R>,
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
        let from = Streamed {
            ingest: self,
            tenant: &tenant,
            sender,
            disconnect: &disconnect,
            patience: PATIENCE,
        };
        let upload = Upload {
            memory: from.memory()?,
            from,
            mapping: mapping(self.core.config(), &limits),
            batch_bytes: batch_bytes(&limits),
            parser: Parser::new(),
            records: Records::new(),
            bad: BTreeMap::new(),
            left_out: 0,
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
            self.from.note_unreadable(amount, &text);
        }
        let numbers = &self.from.ingest.core.counters().numbers;
        numbers.add(Metric::JournalFieldsLeftOut, std::mem::take(&mut self.left_out));
    }

    /// Reserves memory for reading so many bytes: vectors double.
    async fn reserve(&mut self, piece_bytes: u64) -> Result<(), ApiError> {
        let held_bytes = self.parser.capacity_bytes() + self.records.capacity_bytes();
        let wanted_bytes = held_bytes as u64 * 2 + piece_bytes * PARSED_FACTOR;
        self.from.reserve(&mut self.memory, wanted_bytes).await
    }

    /// Stores the records. When this returns, each is stored or refused for good.
    async fn store(&mut self) -> Result<(), ApiError> {
        self.tell();
        let mut tries = Tries::default();
        while !self.records.is_empty() {
            self.wait_for_rate().await?;
            let Streamed { ingest, tenant, sender, .. } = self.from;
            let format = PushFormat::Journald;
            let taken = ingest.take_records(tenant, sender, format, &self.records).await;
            let error = match taken {
                Ok(fates) => match keep_later(&mut self.records, &fates) {
                    Some(error) => error,
                    None => break,
                },
                Err(error) if may_pass(error.status) => error,
                // Refused for good, and noted.
                Err(_) => break,
            };
            tries.pause(&self.from, error).await?;
        }
        forget(&mut self.records);
        Ok(())
    }

    /// Waits until the tenant's limit on rates lets the records in.
    async fn wait_for_rate(&self) -> Result<(), ApiError> {
        while let Some(wait) = self.from.rate_wait(&self.records) {
            if self.from.is_over() {
                return Err(ApiError::unavailable(
                    "the upload is slowed down, and the server stops",
                ));
            }
            self.from.sleep(wait.min(PATIENCE.pauses.1)).await;
        }
        Ok(())
    }
}

/// Keeps the records that may be stored later, if there are any, and tells why they are not yet.
fn keep_later(records: &mut Records, fates: &Fates) -> Option<ApiError> {
    let later = |place| match fates.get(place) {
        Fate::Later(error) => Some(ApiError::clone(error)),
        Fate::Stored | Fate::Refused { .. } => None,
    };
    let reason = (0..records.len()).rev().find_map(later);
    records.retain(|place| later(place).is_some());
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
