//! Elasticsearch's bulk request: each document is an entry.
//!
//! Guarantees: the answer is 200 with the fate of each action, in order and under its own name, if
//! all action lines can be read; else nothing is stored. A body that is sent again gets the same
//! answer, and its entries are stored once if they tell their times. What is refused for now is
//! 429, for each action or for all of them.

use http::StatusCode;
use logsvc_http::{Request, RequestHead, Response};
use logsvc_proto::bulk::{self, Item, Reply};
use logsvc_proto::error::ApiError;
use logsvc_proto::fields::{Mapping, Origin};
use logsvc_runtime::Runtime;

use super::Ingest;
use super::elastic_pages::{answer, error_answer};
use super::record_batch::{Opened, RecordBatch, address_params, refined};
use super::records::Fate;
use crate::config::ElasticsearchSettings;
use crate::metrics::PushFormat;

/// What a request asks for.
struct Asked<'r> {
    mapping: Mapping,
    /// The label for the index.
    index_label: &'r str,
    /// The index of actions that name none.
    index: &'r str,
    filter: Option<String>,
}

/// An action of a part.
struct Taken<'b> {
    item: Item<'b>,
    /// Why it is no record.
    fault: Option<Fault>,
}

struct Fault {
    kind: &'static str,
    reason: String,
}

impl<R: Runtime> Ingest<R> {
    /// `index` is the one of the path, or empty.
    pub(crate) async fn push_bulk(
        &self,
        request: Request,
        index: &str,
    ) -> Result<Response, ApiError> {
        let begun = self.core.runtime.now();
        let route = match index {
            "" => "elasticsearch_bulk",
            _ => "elasticsearch_index_bulk",
        };
        self.with_text(request, route, async |opened: Opened<'_>| {
            let (tenant, sender, head) = (opened.tenant, opened.sender, opened.head);
            let asked = Asked::of(head, index, &self.core.config().elasticsearch);
            let asked = self.noted(Some(tenant), sender, asked)?;
            if let Err(error) = bulk::check(opened.text) {
                let noted = ApiError::bad_request(error.to_string());
                self.core.note_refused_push(Some(tenant), sender, &noted);
                let status = StatusCode::BAD_REQUEST;
                return Ok(error_answer(head, status, error.kind(), &noted.message));
            }
            let reply = self.take_bulk(opened, &asked).await?;
            let took = self.core.runtime.now().since(begun).as_millis();
            let body = reply.finish(u64::try_from(took).unwrap_or(u64::MAX));
            let body = match &asked.filter {
                None => body,
                Some(patterns) => bulk::filter(&body, patterns)
                    .map_err(|error| ApiError::internal(error.to_string()))?,
            };
            Ok(answer(head, StatusCode::OK, body))
        })
        .await
    }

    async fn take_bulk(&self, opened: Opened<'_>, asked: &Asked<'_>) -> Result<Reply, ApiError> {
        let Opened { tenant, sender, text, mut memory, .. } = opened;
        let mut arrival_ns = self.core.runtime.unix_nanos();
        let mut batch = RecordBatch::default();
        let mut reply = Reply::new();
        let mut reply_bytes = 0;
        let mut taken: Vec<Taken<'_>> = Vec::new();
        // All of them have been read before.
        let mut items = bulk::items(text).map_while(Result::ok);
        loop {
            let next = items.next();
            if next.is_none() || batch.is_full() || taken.len() >= ACTIONS_MAX {
                let mut reserved = batch.reserve(&mut memory);
                let grown = (reply.capacity_bytes() as u64).saturating_sub(reply_bytes);
                if reserved.is_ok() && grown > 0 {
                    reserved = memory.grow(grown);
                    reply_bytes += grown;
                }
                self.noted(Some(tenant), sender, reserved)?;
                let format = PushFormat::Elasticsearch;
                let fates = self.store_batch(tenant, sender, format, &mut batch).await?;
                let mut fates = fates.iter();
                for Taken { item, fault } in taken.drain(..) {
                    let index = item.index();
                    let index = index.as_deref().unwrap_or(asked.index);
                    match fault {
                        Some(fault) => reply.refused(&item, index, 400, fault.kind, &fault.reason),
                        None => tell(&item, index, fates.next(), &mut reply),
                    }
                }
            }
            let Some(item) = next else { return Ok(reply) };
            let fault = put(&item, asked, arrival_ns, &mut batch).err();
            taken.push(Taken { item, fault });
            // Equal documents without times are entries of their own.
            arrival_ns += 1;
        }
    }
}

/// Most actions of a part.
const ACTIONS_MAX: usize = 4096;

fn tell(item: &Item<'_>, index: &str, fate: Option<&Fate>, reply: &mut Reply) {
    match fate {
        Some(Fate::Stored) => reply.stored(item, index),
        Some(Fate::Refused { text }) => {
            reply.refused(item, index, 400, "illegal_argument_exception", text);
        }
        Some(Fate::Later(error)) => {
            let kind = "es_rejected_execution_exception";
            reply.refused(item, index, 429, kind, &error.message);
        }
        // Every record has its fate.
        None => reply.refused(item, index, 500, "internal_error", "its fate is not known"),
    }
}

/// Makes a record of a document.
fn put(
    item: &Item<'_>,
    asked: &Asked<'_>,
    arrival_ns: i64,
    batch: &mut RecordBatch,
) -> Result<(), Fault> {
    let kind = "illegal_argument_exception";
    if !item.action.is_stored() {
        let reason = format!("[{}] is not supported: entries do not change", item.action.name());
        batch.note_fault(item.document.map_or(0, <[u8]>::len), &reason);
        return Err(Fault { kind, reason });
    }
    let Some(document) = item.document else {
        let reason = "the action has no document".to_owned();
        batch.note_fault(0, &reason);
        return Err(Fault { kind, reason });
    };
    let index = item.index();
    let index = without_date(index.as_deref().unwrap_or(asked.index));
    let label = [(asked.index_label, index)];
    let labels = if asked.index_label.is_empty() { &[][..] } else { &label[..] };
    let kind = "document_parsing_exception";
    batch
        .put(&asked.mapping, document, Origin { arrival_ns, labels })
        .map_err(|error| Fault { kind, reason: error.to_string() })
}

impl<'r> Asked<'r> {
    fn of(
        head: &RequestHead,
        index: &'r str,
        settings: &'r ElasticsearchSettings,
    ) -> Result<Asked<'r>, ApiError> {
        let params = address_params(head)?;
        let mapping = Mapping {
            labels: settings.label_fields.to_pairs(),
            messages: settings.message_fields.clone(),
            times: settings.time_fields.clone(),
            ignored: settings.ignored_fields.clone(),
            extra: Vec::new(),
        };
        let filter = params.get_non_empty("filter_path").map(str::to_owned);
        let mapping = refined(mapping, head, &params)?;
        Ok(Asked { mapping, index_label: &settings.index_label, index, filter })
    }
}

/// The name of an index without a day at its end, such as `-2026.11.25`: a label with a day in it
/// would begin new streams every day.
fn without_date(index: &str) -> &str {
    const DAY: &[u8] = b"-0000.00.00";
    let Some(at) = index.len().checked_sub(DAY.len()).filter(|&at| at > 0) else { return index };
    let is_day = index.as_bytes()[at..].iter().zip(DAY).all(|(byte, form)| match form {
        b'0' => byte.is_ascii_digit(),
        _ => matches!(byte, b'-' | b'.' | b'_'),
    });
    if is_day { &index[..at] } else { index }
}

#[cfg(test)]
mod tests {
    use super::without_date;

    #[test]
    fn days_are_no_part_of_the_label() {
        for (index, label) in [
            ("logstash-2026.11.25", "logstash"),
            ("app_2026-11-25", "app"),
            ("filebeat-8.17.0", "filebeat-8.17.0"),
            ("-2026.11.25", "-2026.11.25"),
            ("logs\u{e9}-2026.11.2", "logs\u{e9}-2026.11.2"),
            ("", ""),
        ] {
            assert_eq!(without_date(index), label);
        }
    }
}
