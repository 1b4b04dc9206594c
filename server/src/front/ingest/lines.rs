//! Plain lines and newline-delimited JSON, for `curl` and jobs.
//!
//! Guarantees: 204 is said only if all entries are stored. Any other answer tells how many are
//! stored, how many are not, and where the first of these are. A line of JSON that cannot be read
//! refuses nothing else.

use http::StatusCode;
use http::header::CONTENT_TYPE;
use logsvc_http::{Params, Request, RequestHead, Response};
use logsvc_proto::error::ApiError;
use logsvc_proto::fields::{
    Mapping, NAMED_FIELDS_MAX, NAMED_FIELDS_MAX_BYTES, Origin, read_time_ns,
};
use logsvc_proto::lines::{Lines, count_objects};
use logsvc_proto::push::json::Cursor;
use logsvc_proto::push::metadata::is_normal_name;
use logsvc_runtime::Runtime;

use super::Ingest;
use super::record_batch::{Opened, RecordBatch, address_params, refined};
use super::records::Fate;
use crate::config::LinesSettings;
use crate::metrics::PushFormat;

/// Faults that an answer tells.
const FAULTS_TOLD: usize = 10;

/// Parameters of the address that are no labels.
const PARAMS: [&str; 7] = [
    "format",
    "time",
    "_stream_fields",
    "_msg_field",
    "_time_field",
    "ignore_fields",
    "extra_fields",
];

/// Most labels of an address, and their bytes. They are those of every line.
const LABELS_MAX: usize = NAMED_FIELDS_MAX;
const LABELS_MAX_BYTES: usize = NAMED_FIELDS_MAX_BYTES;

/// Which endpoint of lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LinesDialect {
    /// The own one: text or JSON, with labels in the address.
    Own,
    /// VictoriaLogs' one: JSON.
    JsonLine,
}

/// What became of the lines so far.
#[derive(Default)]
struct Outcome {
    stored: u64,
    refused: u64,
    later: u64,
    /// Why entries may be sent again.
    error: Option<ApiError>,
    /// Numbers of lines that cannot be read, with the reasons.
    unreadable: Faults,
    /// Numbers of lines whose entries are not stored, with the reasons.
    not_stored: Faults,
}

/// The first faults of a kind, in the order of the lines.
#[derive(Default)]
struct Faults(Vec<(u64, String)>);

impl Faults {
    fn note(&mut self, line: u64, text: &str) {
        if self.0.len() < FAULTS_TOLD {
            self.0.push((line, text.trim_end().to_owned()));
        }
    }
}

impl Outcome {
    fn answer(self) -> Result<Response, ApiError> {
        if self.refused + self.later == 0 {
            return Ok(Response::new(StatusCode::NO_CONTENT));
        }
        let mut text = format!("stored {} entries, refused {}", self.stored, self.refused);
        if self.later > 0 {
            text.push_str(&format!(", send {} again", self.later));
        }
        let mut faults = [self.unreadable.0, self.not_stored.0].concat();
        faults.sort_by_key(|(line, _)| *line);
        for (line, fault) in faults.into_iter().take(FAULTS_TOLD) {
            text.push_str(&format!("\nline {line}: {fault}"));
        }
        let mut error = match self.error {
            Some(error) => ApiError { message: text, ..error },
            None => ApiError::bad_request(text),
        };
        error.newline = true;
        Err(error)
    }
}

impl<R: Runtime> Ingest<R> {
    pub(crate) async fn push_lines(
        &self,
        request: Request,
        dialect: LinesDialect,
    ) -> Result<Response, ApiError> {
        let route = match dialect {
            LinesDialect::Own => "loki_api_v1_lines",
            LinesDialect::JsonLine => "insert_jsonline",
        };
        let answered = self
            .with_text(request, route, async |opened: Opened<'_>| {
                let asked = Asked::of(opened.head, dialect, &self.core.config().lines);
                let asked = self.noted(Some(opened.tenant), opened.sender, asked)?;
                self.take_lines(opened, &asked).await?.answer()
            })
            .await;
        answered.map_err(ApiError::with_newline)
    }

    async fn take_lines(&self, opened: Opened<'_>, asked: &Asked) -> Result<Outcome, ApiError> {
        let Opened { tenant, sender, text, mut memory, .. } = opened;
        let labels: Vec<(&str, &str)> =
            asked.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        // Equal lines that come together are entries of their own, so each has a time of its own.
        let mut arrival_ns = asked.time_ns.unwrap_or_else(|| self.core.runtime.unix_nanos());
        let mut batch = RecordBatch::default();
        let mut places = Vec::new();
        let mut outcome = Outcome::default();
        let mut lines = Lines::new(text);
        loop {
            let next = lines.next();
            if (next.is_none() && !batch.is_empty()) || batch.is_full() {
                let reserved = batch.reserve(&mut memory);
                self.noted(Some(tenant), sender, reserved)?;
                let fates = self.store_batch(tenant, sender, PushFormat::Lines, &mut batch).await?;
                for (line, fate) in places.drain(..).zip(fates.iter()) {
                    match fate {
                        Fate::Stored => outcome.stored += 1,
                        Fate::Refused { text } => {
                            outcome.refused += 1;
                            outcome.not_stored.note(line, text);
                        }
                        Fate::Later(error) => {
                            outcome.later += 1;
                            outcome.not_stored.note(line, &error.message);
                            outcome.error.get_or_insert_with(|| ApiError::clone(error));
                        }
                    }
                }
            }
            let Some((number, line)) = next else { return Ok(outcome) };
            let origin = |arrival_ns| Origin { arrival_ns, labels: &labels };
            let Some(mapping) = &asked.mapping else {
                batch.put_text(line, origin(arrival_ns));
                places.push(number);
                arrival_ns += 1;
                continue;
            };
            if let Err(error) = count_objects(line) {
                batch.note_fault(line.len(), &error);
                outcome.refused += 1;
                outcome.unreadable.note(number, &error.to_string());
                continue;
            }
            let mut cursor = Cursor::new(line);
            while cursor.peek().is_some() {
                let start = cursor;
                match batch.put_next(mapping, &mut cursor, origin(arrival_ns)) {
                    Ok(()) => places.push(number),
                    Err(error) => {
                        outcome.refused += 1;
                        outcome.unreadable.note(number, &error.to_string());
                        // Go on behind the object, whatever is wrong with it.
                        cursor = start;
                        if cursor.skip_value().is_err() {
                            break;
                        }
                    }
                }
                arrival_ns += 1;
            }
        }
    }
}

/// What a request asks for.
struct Asked {
    /// Labels of all entries.
    labels: Vec<(String, String)>,
    /// The time of the first entry without a time of its own.
    time_ns: Option<i64>,
    /// `None`: the lines are text.
    mapping: Option<Mapping>,
}

impl Asked {
    fn of(
        head: &RequestHead,
        dialect: LinesDialect,
        settings: &LinesSettings,
    ) -> Result<Asked, ApiError> {
        let params = address_params(head)?;
        if dialect == LinesDialect::JsonLine {
            let mapping = Some(refined(mapping(settings), head, &params)?);
            return Ok(Asked { labels: Vec::new(), time_ns: None, mapping });
        }
        let mut labels = Vec::new();
        let mut labels_bytes = 0;
        for (name, value) in params.iter().filter(|(name, _)| !PARAMS.contains(name)) {
            if !is_normal_name(name.as_bytes()) {
                let text = format!(
                    "{name:?} is neither a label name nor one of the parameters {}",
                    PARAMS.join(", ")
                );
                return Err(ApiError::bad_request(text));
            }
            labels_bytes += name.len() + value.len();
            if labels.len() == LABELS_MAX || labels_bytes > LABELS_MAX_BYTES {
                let text = format!(
                    "the address has more than {LABELS_MAX} labels, or {LABELS_MAX_BYTES} bytes of \
                     labels"
                );
                return Err(ApiError::bad_request(text));
            }
            labels.push((name.to_owned(), value.to_owned()));
        }
        let time_ns = params.get_non_empty("time").map(time_ns).transpose()?;
        let is_json = is_json(head, &params)?;
        let mapping = is_json.then(|| refined(mapping(settings), head, &params)).transpose()?;
        Ok(Asked { labels, time_ns, mapping })
    }
}

fn time_ns(text: &str) -> Result<i64, ApiError> {
    read_time_ns(text.as_bytes()).ok_or_else(|| {
        let shown: String = text.chars().take(64).collect();
        ApiError::bad_request(format!("time {shown:?} is neither RFC 3339 nor a number since 1970"))
    })
}

/// Whether the lines are objects: by the parameter, or else by the type of the body.
fn is_json(head: &RequestHead, params: &Params) -> Result<bool, ApiError> {
    match params.get_non_empty("format") {
        Some("json") => Ok(true),
        Some("text") => Ok(false),
        Some(other) => {
            Err(ApiError::bad_request(format!("format {other:?} is neither json nor text")))
        }
        None => {
            let media_type = head.header(CONTENT_TYPE).unwrap_or_default();
            Ok(media_type.to_ascii_lowercase().contains("json"))
        }
    }
}

fn mapping(settings: &LinesSettings) -> Mapping {
    Mapping {
        labels: settings.label_fields.to_pairs(),
        messages: settings.message_fields.clone(),
        times: settings.time_fields.clone(),
        ignored: settings.ignored_fields.clone(),
        extra: Vec::new(),
    }
}
