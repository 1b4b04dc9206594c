//! A part of a body that has one entry a line: it is stored before the next part is read.
//!
//! Guarantees: memory is reserved for what a part takes, also if its objects grow when they are
//! flattened. What cannot be read is counted and listed once for each part.

use http::header::{CONTENT_ENCODING, HeaderValue};
use logsvc_http::{Params, Request, RequestHead};
use logsvc_proto::TenantId;
use logsvc_proto::body::choose_text_decoder;
use logsvc_proto::error::ApiError;
use logsvc_proto::fields::{FieldsError, Flat, Mapping, Origin};
use logsvc_proto::push::json::Cursor;
use logsvc_proto::records::Records;
use logsvc_runtime::Runtime;

use super::Ingest;
use super::push::{PushBuffers, user_agent};
use super::push_memory::{PushMemory, trimmed};
use super::records::Fates;
use crate::metrics::{Amount, PushFormat, Reason};
use crate::refusals::Sender;

/// A part has no more records, and not many more bytes, than these.
const RECORDS_MAX: usize = 4096;
const RECORDS_MAX_BYTES: usize = 2 << 20;

/// A body whose packing is undone, and who sent it.
pub(super) struct Opened<'o> {
    pub(super) tenant: &'o TenantId,
    pub(super) sender: Sender<'o>,
    pub(super) head: &'o RequestHead,
    pub(super) text: &'o [u8],
    pub(super) memory: PushMemory,
}

/// See the module.
#[derive(Default)]
pub(super) struct RecordBatch {
    pub(super) records: Records,
    flat: Flat,
    unreadable: Amount,
    /// The first fault.
    fault: String,
    /// Memory that is reserved.
    held_bytes: u64,
}

impl RecordBatch {
    /// Whether it is time to store it.
    pub(super) fn is_full(&self) -> bool {
        self.records.len() >= RECORDS_MAX || self.records.text_bytes() >= RECORDS_MAX_BYTES
    }

    /// Whether there is nothing to store and nothing to note.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.unreadable.entries == 0
    }

    /// Makes a record of a text. All texts of a batch have the same labels.
    pub(super) fn put_text(&mut self, line: &[u8], origin: Origin<'_>) {
        self.records.begin(Some(origin.arrival_ns));
        if self.records.is_empty() {
            for (name, value) in origin.labels {
                self.records.label(name, value);
            }
        } else {
            self.records.repeat_labels();
        }
        self.records.line(line);
        self.records.end();
    }

    /// Makes a record of the only object of a text.
    pub(super) fn put(
        &mut self,
        mapping: &Mapping,
        text: &[u8],
        origin: Origin<'_>,
    ) -> Result<(), FieldsError> {
        let RecordBatch { records, flat, .. } = self;
        let put = match flat.read(text) {
            Ok(object) => mapping.put(flat, object, origin, records),
            Err(error) => Err(error),
        };
        put.inspect_err(|error| self.note_fault(text.len(), error))
    }

    /// Makes a record of the next object of a text.
    pub(super) fn put_next(
        &mut self,
        mapping: &Mapping,
        cursor: &mut Cursor<'_>,
        origin: Origin<'_>,
    ) -> Result<(), FieldsError> {
        let RecordBatch { records, flat, .. } = self;
        let (len_bytes, put) = match flat.read_next(cursor) {
            Ok(object) => (object.len(), mapping.put(flat, object, origin, records)),
            Err(error) => (0, Err(error)),
        };
        put.inspect_err(|error| self.note_fault(len_bytes, error))
    }

    /// Counts something that cannot be read.
    pub(super) fn note_fault(&mut self, len_bytes: usize, fault: &dyn std::fmt::Display) {
        if self.unreadable.entries == 0 {
            self.fault = fault.to_string();
        }
        self.unreadable.entries += 1;
        self.unreadable.bytes += len_bytes as u64;
    }

    /// Reserves the memory that it has taken.
    pub(super) fn reserve(&mut self, memory: &mut PushMemory) -> Result<(), ApiError> {
        let bytes = (self.records.capacity_bytes() + self.flat.capacity_bytes()) as u64;
        if bytes > self.held_bytes {
            memory.grow(bytes - self.held_bytes)?;
            self.held_bytes = bytes;
        }
        Ok(())
    }
}

impl<R: Runtime> Ingest<R> {
    /// Opens a body of text, and hands it on. An error of `take` has been noted there.
    pub(super) async fn with_text<T>(
        &self,
        request: Request,
        route: &'static str,
        take: impl AsyncFnOnce(Opened<'_>) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let Request { head, mut body, peer, .. } = request;
        let sender = Sender { peer, user_agent: user_agent(&head), route };
        let tenant = self.noted(None, sender, self.core.tenant(&head))?;
        let tenant = &tenant;
        let mut headroom = body.take_headroom();
        let (body, held_bytes) = trimmed(body);
        let encoding = head.headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes);
        let decoder = choose_text_decoder(encoding).map_err(ApiError::from);
        let decoder = self.noted(Some(tenant), sender, decoder)?;
        let taken = self
            .with_buffers(async |buffers| {
                let PushBuffers { body: body_buffers, .. } = buffers;
                let mut memory =
                    PushMemory::new(&self.core.budgets().bodies, held_bytes, headroom.take())?;
                let text = self.decompress(decoder, &body, &mut memory, body_buffers).await?;
                Ok(take(Opened { tenant, sender, head: &head, text, memory }).await)
            })
            .await;
        self.noted(Some(tenant), sender, taken)?
    }

    /// Stores a part, and makes it empty. The fates are those of its records.
    pub(super) async fn store_batch(
        &self,
        tenant: &TenantId,
        sender: Sender<'_>,
        format: PushFormat,
        batch: &mut RecordBatch,
    ) -> Result<Fates, ApiError> {
        let unreadable = std::mem::take(&mut batch.unreadable);
        if unreadable.entries > 0 {
            let fault = std::mem::take(&mut batch.fault);
            self.note_unreadable(tenant, sender, Reason::Unreadable, unreadable, &fault);
        }
        let fates = self.take_records(tenant, sender, format, &batch.records).await;
        batch.records.clear();
        fates
    }
}

/// The parameters of the address. The body is no form, whatever its type is said to be.
///
/// # Errors
/// They cannot be read.
pub(super) fn address_params(head: &RequestHead) -> Result<Params, ApiError> {
    Params::of_request(head.query.as_deref(), None)
        .map_err(|error| ApiError::bad_request(error.to_string()))
}

/// The mapping, changed as parameters and headers ask for.
pub(super) fn refined(
    mut mapping: Mapping,
    head: &RequestHead,
    params: &Params,
) -> Result<Mapping, ApiError> {
    mapping
        .refine(|param, header| params.get_non_empty(param).or_else(|| head.header(header)))
        .map_err(|error| ApiError::bad_request(error.to_string()))?;
    Ok(mapping)
}
