//! The list of requests as clients read it.

use std::io::Write;

use http::StatusCode;
use logsvc_http::Response;
use logsvc_proto::encode::write_json_text;
use logsvc_proto::error::ApiError;
use logsvc_runtime::Budget;
use logsvc_shards::deletion::{DeleteRequest, DeleteState};

use crate::front::query::answer::{reserve_answer, with_held_body};

/// The most bytes of a request in the list besides its query.
const FIXED_MAX_BYTES: usize = 256;

/// The most bytes that JSON needs for a byte of text.
const ESCAPED_MAX_BYTES: usize = 6;

/// The answer with these requests, in their order. Its memory is taken from `budget`.
///
/// # Errors
/// The budget has no room now (429), or never has room for so much (413).
pub(super) fn response(requests: &[DeleteRequest], budget: &Budget) -> Result<Response, ApiError> {
    let sizes = requests.iter().map(|r| FIXED_MAX_BYTES + r.query.len() * ESCAPED_MAX_BYTES);
    let max_bytes = 3 + sizes.sum::<usize>();
    let mut memory = reserve_answer(max_bytes as u64, budget)?;
    let mut body = Vec::with_capacity(max_bytes);
    body.push(b'[');
    for (index, request) in requests.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        write_request(request, &mut body);
    }
    body.extend_from_slice(b"]\n");
    body.shrink_to_fit();
    memory.shrink_to(body.capacity() as u64);
    let response = Response::new(StatusCode::OK).with_content_type("application/json");
    Ok(with_held_body(response, body, memory))
}

/// Times are in seconds. Clients read the bounds as whole numbers.
fn write_request(request: &DeleteRequest, out: &mut Vec<u8>) {
    let seconds = |ns: i64| ns.div_euclid(1_000_000_000);
    let (start_s, end_s) = (seconds(request.start_ns), seconds(request.end_ns));
    // Writing to a vector cannot fail.
    let _ = write!(
        out,
        "{{\"request_id\":\"{}\",\"start_time\":{start_s},\"end_time\":{end_s},\"query\":",
        request.id
    );
    write_json_text(&request.query, out);
    let created = created_text(request.created_ms);
    let _ = write!(
        out,
        ",\"status\":\"{}\",\"created_at\":{created},\"user_id\":\"\"}}",
        status_text(request)
    );
}

fn created_text(created_ms: i64) -> String {
    let (seconds, ms) = (created_ms.div_euclid(1000), created_ms.rem_euclid(1000));
    let text = format!("{seconds}.{ms:03}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn status_text(request: &DeleteRequest) -> String {
    match request.state {
        DeleteState::Pending { parts_done: 0 } => "received".to_owned(),
        DeleteState::Pending { parts_done } => {
            let percent = u64::from(parts_done) * 100 / u64::from(request.parts());
            format!("{percent}% Complete")
        }
        DeleteState::Processed { .. } => "processed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use logsvc_http::ResponseBody;
    use logsvc_proto::TenantId;
    use logsvc_shards::deletion::DeleteId;

    use super::*;

    fn request(state: DeleteState) -> DeleteRequest {
        DeleteRequest {
            id: DeleteId(0x0ab8_b5d6),
            tenant: TenantId::new("a").expect("a tenant"),
            query: r#"{app="cart"} |= "warn""#.to_owned(),
            start_ns: 1_795_222_080_999_999_999,
            end_ns: 1_795_223_280_000_000_000,
            created_ms: 1_795_225_841_678,
            part_ns: Some(100_000_000_000),
            state,
            removed_entries: 0,
            removed_line_bytes: 0,
        }
    }

    #[test]
    fn lists_are_those_of_the_reference() {
        let budget = Budget::new("queries", 1 << 20);
        let text = |requests: &[DeleteRequest]| {
            let response = response(requests, &budget).expect("there is memory");
            match response.body {
                ResponseBody::Full(body) => String::from_utf8(body).expect("UTF-8"),
                _ => panic!("another kind of body"),
            }
        };
        assert_eq!(text(&[]), "[]\n");
        let one = r#"{"request_id":"0ab8b5d6","start_time":1795222080,"end_time":1795223280,"query":"{app=\"cart\"} |= \"warn\"","status":"received","created_at":1795225841.678,"user_id":""}"#;
        let received = request(DeleteState::Pending { parts_done: 0 });
        assert_eq!(text(std::slice::from_ref(&received)), format!("[{one}]\n"));
        assert_eq!(text(&[received.clone(), received]), format!("[{one},{one}]\n"));
    }

    #[test]
    fn long_lists_take_memory_until_they_are_sent() {
        let budget = Budget::new("queries", 1 << 20);
        let query = "\u{1}".repeat(100_000);
        let one = DeleteRequest { query, ..request(DeleteState::Pending { parts_done: 0 }) };
        let longest = DeleteRequest { start_ns: i64::MIN, end_ns: i64::MIN, ..one.clone() };
        let answer = response(std::slice::from_ref(&longest), &budget).expect("there is memory");
        assert!(matches!(answer.body, ResponseBody::Chunks(_)));
        assert!((600_000..610_000).contains(&budget.used_bytes()), "{}", budget.used_bytes());
        let busy = response(std::slice::from_ref(&one), &budget).map(drop);
        assert_eq!(busy.expect_err("no room").status, 429);
        drop(answer);
        assert_eq!(budget.used_bytes(), 0);
        let large = response(&[one.clone(), one], &budget).map(drop);
        assert_eq!(large.expect_err("never any room").status, 413);
    }

    #[test]
    fn progress_is_in_whole_percent() {
        let of = |state| status_text(&request(state));
        assert_eq!(request(DeleteState::Pending { parts_done: 0 }).parts(), 12);
        assert_eq!(of(DeleteState::Pending { parts_done: 1 }), "8% Complete");
        assert_eq!(of(DeleteState::Pending { parts_done: 11 }), "91% Complete");
        assert_eq!(of(DeleteState::Processed { at_ms: 1 }), "processed");
    }

    #[test]
    fn times_have_no_digits_in_vain() {
        for (ms, text) in [(1_000, "1"), (1_500, "1.5"), (1_020, "1.02"), (10_000, "10")] {
            assert_eq!(created_text(ms), text);
        }
    }
}
