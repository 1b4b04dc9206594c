//! `refusals`: what was refused of a tenant lately.

use logsvc_http::{Request, Response};
use logsvc_proto::encode::write_json_text;
use logsvc_proto::error::ApiError;
use logsvc_proto::time::write_rfc3339_nano;
use logsvc_runtime::Runtime;

use crate::front::core::JSON;
use crate::front::operate::Operator;
use crate::refusals::Record;

impl<R: Runtime> Operator<R> {
    pub(crate) fn refusals(&self, request: &Request) -> Result<Response, ApiError> {
        let tenant = self.core.tenant(&request.head)?;
        let mut body = b"{\"status\":\"success\",\"data\":[".to_vec();
        for (place, record) in self.core.node.refusals.of(&tenant).iter().enumerate() {
            if place > 0 {
                body.push(b',');
            }
            write_record(record, &mut body);
        }
        body.extend_from_slice(b"]}\n");
        Ok(Response::new(http::StatusCode::OK).with_content_type(JSON).with_body(body))
    }
}

/// Fields without a value are left out.
fn write_record(record: &Record, body: &mut Vec<u8>) {
    let time = |unix_ns: i64| {
        let mut text = Vec::new();
        write_rfc3339_nano(Some(unix_ns), &mut text);
        Some(String::from_utf8_lossy(&text).into_owned())
    };
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let texts = [
        ("first", time(record.first_ns)),
        ("last", time(record.last_ns)),
        ("reason", text(record.reason)),
        ("route", text(record.route)),
        ("peer", record.peer.map(|peer| peer.to_string())),
        ("user_agent", text(&record.user_agent)),
        ("stream", text(&record.stream)),
        ("entry_time", record.entry_ns.and_then(time)),
        ("limit_time", record.limit_ns.and_then(time)),
        ("error", text(&record.text)),
    ];
    let numbers = [
        ("status", record.status.map(u64::from)),
        ("pushes", Some(record.pushes)),
        ("entries", Some(record.amount.entries)),
        ("bytes", Some(record.amount.bytes)),
    ];
    let mut before = b'{';
    for (name, value) in texts {
        let Some(value) = value else { continue };
        body.push(before);
        before = b',';
        write_json_text(name, body);
        body.push(b':');
        write_json_text(&value, body);
    }
    for (name, value) in numbers {
        let Some(value) = value else { continue };
        body.push(before);
        before = b',';
        write_json_text(name, body);
        body.push(b':');
        body.extend_from_slice(value.to_string().as_bytes());
    }
    body.push(b'}');
}
