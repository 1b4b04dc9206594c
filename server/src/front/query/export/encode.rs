//! The bytes of the pages of an export.
//!
//! Guarantees: the entries of a page come in the order of their times, whatever their streams.
//! Memory is reserved before it is allocated. Failure: there is none.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use logsvc_http::Response;
use logsvc_logql::engine::{QueryResult, ResultEntry, StreamResult};
use logsvc_proto::Labels;
use logsvc_proto::error::ApiError;
use logsvc_proto::transfer::{EntryLabels, TransferLine, write_control, write_entry};
use logsvc_runtime::Runtime;
use logsvc_shards::types::Cancellation;

use super::super::Querier;
use super::super::answer::{AnswerBody, AnswerMemory};
use super::super::encode::{escaped_bytes, labels_bytes};
use super::super::execute::CancelOnDrop;
use super::super::leaves::{inline_or_offloaded, merge_queue};
use super::pages::Page;

/// The most bytes of a line of JSON, without its texts.
const LINE_BYTES: usize = 160;

/// How an export is written.
pub(super) enum Form {
    /// Lines of JSON, perhaps with cursors.
    Lines { says_cursors: bool },
    /// A Parquet file.
    #[cfg(feature = "parquet")]
    File(Box<super::parquet::File>),
}

impl Form {
    /// The form of this name.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn new(format: &str, says_cursors: bool) -> Result<Form, ApiError> {
        match format {
            "ndjson" => Ok(Form::Lines { says_cursors }),
            "parquet" if says_cursors => {
                Err(ApiError::bad_request("cursors are for format=ndjson"))
            }
            #[cfg(feature = "parquet")]
            "parquet" => Ok(Form::File(Box::new(super::parquet::File::new()?))),
            #[cfg(not(feature = "parquet"))]
            "parquet" => Err(ApiError::bad_request("support for Parquet is not in this build")),
            other => Err(ApiError::bad_request(format!(
                "format {other:?} is neither ndjson nor parquet"
            ))),
        }
    }

    /// Whether there may be lines beside the entries.
    pub(super) fn has_lines(&self) -> bool {
        matches!(self, Form::Lines { .. })
    }

    /// The answer without its body.
    pub(super) fn response(&self) -> Response {
        let response = Response::new(StatusCode::OK);
        let (mut response, media_type) = match self {
            Form::Lines { .. } => (response.compressible(), "application/x-ndjson"),
            #[cfg(feature = "parquet")]
            Form::File(_) => (response, "application/vnd.apache.parquet"),
        };
        response.headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        response
    }

    /// The bytes of a page, with the cursor behind it.
    pub(super) async fn encode<R: Runtime>(
        &mut self,
        querier: &Querier<R>,
        page: Page,
        cursor: Option<String>,
    ) -> Result<AnswerBody, ApiError> {
        match self {
            Form::Lines { says_cursors } => {
                let cursor = cursor.filter(|_| *says_cursors);
                lines(querier, page, cursor).await
            }
            #[cfg(feature = "parquet")]
            Form::File(file) => file.page(querier, page).await,
        }
    }

    /// The bytes behind the last page. `rest` is the cursor of what is left out.
    #[cfg_attr(not(feature = "parquet"), expect(unused_variables, reason = "lines have no parts"))]
    pub(super) fn end(&mut self, entries: u64, rest: Option<String>) -> Result<Vec<u8>, ApiError> {
        match self {
            Form::Lines { .. } => {
                let mut line = Vec::new();
                write_control(&TransferLine::End { entries }, &mut line);
                Ok(line)
            }
            #[cfg(feature = "parquet")]
            Form::File(file) => file.end(rest),
        }
    }
}

async fn lines<R: Runtime>(
    querier: &Querier<R>,
    page: Page,
    cursor: Option<String>,
) -> Result<AnswerBody, ApiError> {
    let result_bytes = page.result.held_bytes();
    let cancellation = CancelOnDrop(Cancellation::default());
    let room = AnswerMemory::new(&querier.core.budgets().queries, result_bytes as u64)
        .until(cancellation.0.clone());
    let encode = move || write_lines(page, cursor, room);
    inline_or_offloaded(&querier.core.runtime, merge_queue(result_bytes), encode).await
}

fn write_lines(
    page: Page,
    cursor: Option<String>,
    mut room: AnswerMemory,
) -> Result<AnswerBody, ApiError> {
    let Page { result, warnings, memory: _memory, .. } = page;
    let QueryResult::Streams(streams) = result else {
        return Err(ApiError::internal("a log query has no streams"));
    };
    let mut out = Vec::with_capacity(4096);
    let none = Labels::empty();
    for (labels, entry) in by_time(&streams) {
        let (metadata, parsed) = match &entry.categories {
            Some(categories) => (&categories.structured_metadata, &categories.parsed),
            None => (&none, &none),
        };
        let labels_len = labels_bytes(labels) + labels_bytes(metadata) + labels_bytes(parsed);
        // The line may be there twice: as text, and in Base64.
        let line_len = escaped_bytes(entry.line.len()) + 2 * entry.line.len();
        room.reserve_for(&mut out, LINE_BYTES + labels_len + line_len)?;
        let of =
            EntryLabels { labels: labels.iter(), metadata: metadata.iter(), parsed: parsed.iter() };
        write_entry(entry.timestamp_ns, of, &entry.line, &mut out);
    }
    let warnings = warnings.into_iter().map(TransferLine::Warning);
    for line in warnings.chain(cursor.map(TransferLine::Cursor)) {
        room.reserve_for(&mut out, 4096)?;
        write_control(&line, &mut out);
    }
    room.finish(out)
}

/// The entries of all streams by their time; each stream has its own in this order.
pub(super) fn by_time(streams: &[StreamResult]) -> impl Iterator<Item = (&Labels, &ResultEntry)> {
    let mut next: BinaryHeap<Reverse<(i64, usize, usize)>> = BinaryHeap::new();
    for (place, stream) in streams.iter().enumerate() {
        next.extend(stream.entries.first().map(|entry| Reverse((entry.timestamp_ns, place, 0))));
    }
    std::iter::from_fn(move || {
        let Reverse((_, place, at)) = next.pop()?;
        let stream = &streams[place];
        if let Some(later) = stream.entries.get(at + 1) {
            next.push(Reverse((later.timestamp_ns, place, at + 1)));
        }
        Some((&stream.labels, &stream.entries[at]))
    })
}

#[cfg(test)]
mod tests {
    use logsvc_runtime::Budget;

    use super::*;

    fn stream(app: &str, times: &[i64]) -> StreamResult {
        let entry = |&timestamp_ns: &i64| ResultEntry {
            timestamp_ns,
            line: format!("{app} {timestamp_ns}").into_bytes().into(),
            categories: None,
        };
        let labels = Labels::from_pairs([("app", app)]).expect("labels");
        StreamResult::new(labels, times.iter().map(entry).collect())
    }

    #[test]
    fn entries_of_all_streams_come_in_the_order_of_their_times() {
        let streams = [stream("a", &[1, 4, 4, 9]), stream("b", &[0, 4, 5]), stream("c", &[])];
        let found: Vec<String> = by_time(&streams)
            .map(|(_, entry)| String::from_utf8_lossy(&entry.line).into_owned())
            .collect();
        assert_eq!(found, ["b 0", "a 1", "a 4", "a 4", "b 4", "b 5", "a 9"]);
    }

    #[test]
    fn the_text_of_a_page_is_reserved_and_refused_if_there_is_no_room() {
        let times: Vec<i64> = (0..5000).collect();
        for (max_bytes, fits) in [(8 << 20, true), (200_000, false)] {
            let budget = Budget::new("queries", max_bytes);
            let page = Page {
                result: QueryResult::Streams(vec![stream("a", &times)]),
                entries: 5000,
                read_bytes: 0,
                warnings: vec!["a part is missing".to_owned()],
                memory: None,
            };
            let cursor = Some("1-00".to_owned());
            let body = write_lines(page, cursor, AnswerMemory::new(&budget, 0));
            assert_eq!(body.is_ok(), fits);
            if let Ok(body) = &body {
                let text = String::from_utf8_lossy(body.bytes());
                assert_eq!(text.lines().count(), 5002);
                let end = "{\"warning\":\"a part is missing\"}\n{\"cursor\":\"1-00\"}\n";
                assert!(text.ends_with(end), "{text}");
                assert!(budget.used_bytes() >= text.len() as u64);
            }
            drop(body);
            assert_eq!(budget.used_bytes(), 0);
        }
    }
}
