//! `POST /loki/api/v1/import`: entries as an export writes them, of any age and any number.
//!
//! Guarantees:
//!
//! - Each line has its own fate. A line that cannot be read, or an entry that is over a limit, is
//!   counted and listed, and the others are stored.
//! - The answer comes when every entry that it calls taken is on stable storage. Entries that are
//!   stored already are taken, too, and dropped as duplicates: an import may be repeated.
//! - Neither the age of entries nor their order matters. All other limits hold. A tenant at its
//!   limit on rates is slowed down; if that takes too long, or memory is missing, the answer is 429
//!   or 503 and tells how many lines need not come again.
//! - Memory is bounded: the body is not read while a batch is stored.

use std::time::Duration;

use http::StatusCode;
use http::header::{CONTENT_ENCODING, HeaderValue, RETRY_AFTER};
use logsvc_http::{BodyStream, Request, Response, StreamFault};
use logsvc_proto::body::{BodyError, Flow, choose_text_decoder};
use logsvc_proto::encode::write_json_text;
use logsvc_proto::error::ApiError;
use logsvc_proto::records::Records;
use logsvc_proto::transfer::{LINE_MAX_BYTES, LineBuffer, TooLong, TransferLine, read_line};
use logsvc_runtime::{Reservation, Runtime};

use super::Ingest;
use super::push::user_agent;
use super::records::Fate;
use super::streamed::{BATCH_ENTRIES, Patience, Streamed, Tries, batch_bytes, forget, may_pass};
use crate::metrics::{Amount, PushFormat};
use crate::refusals::Sender;

/// The longest line is the memory for bodies divided by this.
const BODIES_SHARE: usize = 8;
const ROUTE: &str = "loki_api_v1_import";
/// Refusals that the answer lists.
const REFUSALS_TOLD: usize = 10;
const PATIENCE: Patience = Patience {
    whole: Duration::from_secs(10),
    pauses: (Duration::from_millis(50), Duration::from_secs(1)),
};

/// What became of the lines.
#[derive(Default)]
struct Outcome {
    taken: u64,
    refused: u64,
    first_refusals: Vec<(u64, String)>,
}

impl Outcome {
    fn refuse(&mut self, line: u64, text: &str) {
        self.refused += 1;
        if self.first_refusals.len() < REFUSALS_TOLD {
            self.first_refusals.push((line, text.trim_end().to_owned()));
        }
    }

    /// The answer; `error` says why the import ended early.
    fn answer(mut self, lines: u64, error: Option<&ApiError>) -> Response {
        self.first_refusals.sort_by_key(|(line, _)| *line);
        let Outcome { taken, refused, first_refusals } = self;
        let mut body = format!(
            "{{\"lines\":{lines},\"taken\":{taken},\"refused\":{refused},\"first_refusals\":["
        )
        .into_bytes();
        for (place, (line, reason)) in first_refusals.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            body.extend_from_slice(format!("{comma}{{\"line\":{line},\"reason\":").as_bytes());
            write_json_text(reason, &mut body);
            body.push(b'}');
        }
        body.push(b']');
        if let Some(error) = error {
            body.extend_from_slice(b",\"error\":");
            write_json_text(error.message.trim_end(), &mut body);
        }
        body.extend_from_slice(b"}\n");
        let status = error.map_or(StatusCode::OK, |error| error.status);
        let mut response =
            Response::new(status).with_content_type("application/json").with_body(body);
        if let Some(seconds) = error.and_then(|error| error.retry_after_s) {
            response.headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// An import that is being received.
struct Import<'u, R: Runtime> {
    from: Streamed<'u, R>,
    batch_bytes: u64,
    flow: Flow,
    lines: LineBuffer,
    records: Records,
    /// Numbers of the lines of the records.
    places: Vec<u64>,
    /// Lines of the batch that have their fate, with the reason of a refusal.
    settled: Vec<(u64, Option<String>)>,
    outcome: Outcome,
    /// Lines that cannot be read, and the first reason.
    unreadable: Amount,
    fault: String,
    /// For lines and records.
    memory: Reservation,
}

/// Why an import ends before the end of its body.
enum Ended {
    /// The client is gone, or the driver answers.
    Fault(StreamFault),
    /// This is the answer.
    Error(ApiError),
}

impl From<ApiError> for Ended {
    fn from(error: ApiError) -> Ended {
        Ended::Error(error)
    }
}

impl<R: Runtime> Ingest<R> {
    /// See the module.
    pub(crate) async fn import(&self, request: Request) -> Result<Response, ApiError> {
        let Request { head, stream, peer, disconnect, .. } = request;
        let sender = Sender { peer, user_agent: user_agent(&head), route: ROUTE };
        let tenant = self.core.tenant(&head).map_err(ApiError::with_newline);
        let tenant = self.noted(None, sender, tenant)?;
        let encoding = head.headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes);
        let flow = self.noted(Some(&tenant), sender, flow_of(encoding))?;
        let stream = stream.ok_or_else(|| ApiError::internal("the body was not streamed"))?;
        let bodies = &self.core.budgets().bodies;
        let bodies_max_bytes = usize::try_from(bodies.max_bytes()).unwrap_or(usize::MAX);
        let from = Streamed {
            ingest: self,
            tenant: &tenant,
            sender,
            disconnect: &disconnect,
            patience: PATIENCE,
        };
        let mut import = Import {
            memory: from.memory()?,
            from,
            batch_bytes: batch_bytes(&self.core.limits(&tenant)),
            flow,
            lines: LineBuffer::new(LINE_MAX_BYTES.min(bodies_max_bytes / BODIES_SHARE)),
            records: Records::new(),
            places: Vec::new(),
            settled: Vec::new(),
            outcome: Outcome::default(),
            unreadable: Amount::default(),
            fault: String::new(),
        };
        let ended = import.run(stream).await;
        import.tell();
        let whole_lines = import.lines.lines();
        match ended {
            Ok(()) => Ok(import.outcome.answer(whole_lines, None)),
            Err(Ended::Error(error)) => {
                let lines = import.settle_before_first_left(whole_lines);
                Ok(import.outcome.answer(lines, Some(&error)))
            }
            Err(Ended::Fault(fault)) => Err(ApiError::bad_request(fault.to_string())),
        }
    }
}

fn flow_of(encoding: Option<&[u8]>) -> Result<Flow, ApiError> {
    let decoder = choose_text_decoder(encoding)?;
    Flow::new(decoder.compression)?.ok_or_else(|| {
        let text = "an import may be compressed with gzip or zstd";
        ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text).with_newline()
    })
}

impl<R: Runtime> Import<'_, R> {
    async fn run(&mut self, mut stream: BodyStream) -> Result<(), Ended> {
        loop {
            match stream.next().await {
                Ok(Some(piece)) => self.take(&piece).await?,
                Ok(None) => break,
                Err(fault) => {
                    // What has come whole need not come again.
                    self.store().await?;
                    return Err(Ended::Fault(fault));
                }
            }
        }
        let flow = std::mem::replace(&mut self.flow, Flow::plain());
        if let Err(error) = flow.finish(self.lines.input()) {
            return Err(self.unpacked_badly(error).await);
        }
        self.read_lines().await?;
        if let Some((number, line)) = self.lines.last_line() {
            let (len_bytes, read) = read_of(line, &mut self.records);
            self.note(number, len_bytes, read);
        }
        self.store().await?;
        Ok(())
    }

    /// The error of a body that cannot be unpacked. The lines before are stored.
    async fn unpacked_badly(&mut self, error: BodyError) -> Ended {
        if let Err(ended) = self.read_lines().await {
            return ended;
        }
        match self.store().await {
            Ok(()) => {
                let error = Err::<(), _>(ApiError::from(error));
                let Streamed { ingest, tenant, sender, .. } = self.from;
                let noted = ingest.noted(Some(tenant), sender, error);
                noted.map_or_else(Ended::Error, |()| unreachable!("it is an error"))
            }
            Err(error) => Ended::Error(error),
        }
    }

    /// Reads a piece of the body.
    async fn take(&mut self, piece: &[u8]) -> Result<(), Ended> {
        let mut input = piece;
        loop {
            self.reserve().await?;
            let goes_on = match self.flow.read(&mut input, self.lines.input()) {
                Ok(goes_on) => goes_on,
                Err(error) => return Err(self.unpacked_badly(error).await),
            };
            self.read_lines().await?;
            if !goes_on {
                self.tell();
                return Ok(());
            }
        }
    }

    /// Makes records of the lines that have come whole.
    async fn read_lines(&mut self) -> Result<(), Ended> {
        loop {
            let Import { lines, records, .. } = self;
            let Some((number, line)) = lines.next_line() else { return Ok(()) };
            let (len_bytes, read) = read_of(line, records);
            self.note(number, len_bytes, read);
            let is_full = self.records.len_bytes() >= self.batch_bytes;
            let lines = self.records.len().max(self.settled.len());
            if is_full || lines >= BATCH_ENTRIES {
                self.store().await?;
            }
        }
    }

    fn note(&mut self, number: u64, len_bytes: usize, read: Result<TransferLine, String>) {
        let fault = match read {
            Ok(TransferLine::Entry) => {
                self.places.push(number);
                return;
            }
            Ok(TransferLine::Cursor(_) | TransferLine::Warning(_) | TransferLine::End { .. }) => {
                return;
            }
            Ok(TransferLine::Failed(text)) => format!("the export was cut off: {text}"),
            Err(text) => text,
        };
        if self.unreadable.entries == 0 {
            self.fault.clone_from(&fault);
        }
        self.unreadable.add(1, len_bytes as u64);
        self.settled.push((number, Some(fault)));
    }

    /// Counts and lists what could not be read.
    fn tell(&mut self) {
        let amount = std::mem::take(&mut self.unreadable);
        if amount.entries > 0 {
            self.from.note_unreadable(amount, &self.fault);
        }
    }

    /// Reserves memory for the next part of the body: vectors double.
    async fn reserve(&mut self) -> Result<(), ApiError> {
        let held_bytes = self.lines.capacity_bytes() + self.records.capacity_bytes();
        let wanted_bytes = held_bytes as u64 * 2 + (1 << 20);
        self.from.reserve(&mut self.memory, wanted_bytes).await
    }

    /// Stores the records. When this returns, each line has its fate.
    async fn store(&mut self) -> Result<(), ApiError> {
        self.tell();
        let mut tries = Tries::default();
        while !self.records.is_empty() {
            self.wait_for_rate(&mut tries).await?;
            let Streamed { ingest, tenant, sender, .. } = self.from;
            let taken = ingest.take_old_records(tenant, sender, PushFormat::Import, &self.records);
            let error = match taken.await {
                Ok(fates) => {
                    let mut later = None;
                    let mut left = Vec::new();
                    for (&line, fate) in self.places.iter().zip(fates.iter()) {
                        match fate {
                            Fate::Stored => self.settled.push((line, None)),
                            Fate::Refused { text } => {
                                self.settled.push((line, Some(text.to_string())));
                            }
                            Fate::Later(error) => {
                                left.push(line);
                                later.get_or_insert_with(|| ApiError::clone(error));
                            }
                        }
                    }
                    self.records.retain(|place| matches!(fates.get(place), Fate::Later(_)));
                    self.places = left;
                    match later {
                        Some(error) => error,
                        None => break,
                    }
                }
                Err(error) if may_pass(error.status) => error,
                // Refused for good, and noted.
                Err(error) => {
                    let refused = self.places.drain(..);
                    self.settled.extend(refused.map(|line| (line, Some(error.message.clone()))));
                    break;
                }
            };
            tries.pause(&self.from, error).await?;
        }
        forget(&mut self.records);
        self.places.clear();
        self.settle(u64::MAX);
        Ok(())
    }

    /// Counts the lines up to this one that have their fate.
    fn settle(&mut self, last_line: u64) {
        let Import { settled, outcome, .. } = self;
        settled.sort_by_key(|(line, _)| *line);
        for (line, refusal) in settled.drain(..).filter(|(line, _)| *line <= last_line) {
            debug_assert!(line > 0, "lines count from 1");
            match refusal {
                None => outcome.taken += 1,
                Some(text) => outcome.refuse(line, &text),
            }
        }
    }

    /// Counts the lines before the first that has no fate, or all. Gives how many there are.
    fn settle_before_first_left(&mut self, lines: u64) -> u64 {
        let last_line = self.places.iter().min().map_or(lines, |line| line - 1);
        self.settle(last_line);
        last_line
    }

    /// Waits until the tenant's limit on rates lets the records in.
    async fn wait_for_rate(&self, tries: &mut Tries) -> Result<(), ApiError> {
        while let Some(wait) = self.from.rate_wait(&self.records) {
            let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
            let error = ApiError::too_many_requests("ingestion rate limit exceeded", seconds);
            tries.pause_for(&self.from, wait, error).await?;
        }
        Ok(())
    }
}

/// The bytes of a line, and what it is or why it cannot be read.
fn read_of(
    line: Result<&[u8], TooLong>,
    records: &mut Records,
) -> (usize, Result<TransferLine, String>) {
    match line {
        Ok(line) => (line.len(), read_line(line, records).map_err(|error| error.to_string())),
        Err(error) => (0, Err(error.to_string())),
    }
}
