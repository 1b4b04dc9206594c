//! The error answers of the API.

use std::fmt;

use http::StatusCode;

use crate::body::BodyError;
use crate::labels::LabelParseError;
use crate::push::json::JsonError;
use crate::push::metadata::MetadataError;
use crate::push::protobuf::ProtobufError;
use crate::tenant::TenantError;
use crate::time::TimeError;

/// An error answer: plain text with `Content-Type: text/plain; charset=utf-8`
/// and `X-Content-Type-Options: nosniff`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct ApiError {
    /// The status.
    pub status: StatusCode,
    /// The body, without a line break at its end.
    pub message: String,
    /// Value of `Retry-After`, in seconds.
    pub retry_after_s: Option<u32>,
    /// Whether the body ends with a line break: yes for push, delete, rules, the
    /// tenant check and routing; no for the query family.
    pub newline: bool,
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl ApiError {
    /// An answer of the query family: no line break.
    pub fn new(status: StatusCode, message: impl Into<String>) -> ApiError {
        ApiError { status, message: message.into(), retry_after_s: None, newline: false }
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, message)
    }

    /// 422, for pushes that hold nothing.
    pub fn unprocessable(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, message)
    }

    /// 404.
    pub fn not_found(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, message)
    }

    /// 403.
    pub fn forbidden(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::FORBIDDEN, message)
    }

    /// 429, with the seconds to wait.
    pub fn too_many_requests(message: impl Into<String>, retry_after_s: u32) -> ApiError {
        let mut error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, message);
        error.retry_after_s = Some(retry_after_s);
        error
    }

    /// 500.
    pub fn internal(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// 503.
    pub fn unavailable(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    /// 504, a query that ran into its time limit.
    pub fn query_timeout() -> ApiError {
        ApiError::new(
            StatusCode::GATEWAY_TIMEOUT,
            "request timed out, decrease the duration of the request or add more label matchers \
             (prefer exact match over regex match) to reduce the amount of data processed",
        )
    }

    /// 404, an unknown path.
    pub fn page_not_found() -> ApiError {
        ApiError::not_found("404 page not found").with_newline()
    }

    /// 413, a push body that is too large before it is decompressed.
    pub fn body_too_large(size_bytes: u64, max_bytes: u64) -> ApiError {
        ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("message size too large than max ({size_bytes} vs {max_bytes})"),
        )
        .with_newline()
    }

    /// 413, a push for which there is not enough memory even if there is no other.
    pub fn push_too_large(max_bytes: u64) -> ApiError {
        ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!(
                "request body too large: packed and unpacked together it takes more than the \
                 {max_bytes} bytes that memory.max_bytes leaves for a push; send less at a time"
            ),
        )
    }

    /// 422, a push without streams.
    pub fn no_streams() -> ApiError {
        ApiError::unprocessable("error at least one valid stream is required for ingestion")
            .with_newline()
    }

    /// The same answer with a line break at the end of its body.
    pub fn with_newline(mut self) -> ApiError {
        self.newline = true;
        self
    }

    /// The body as it goes out.
    pub fn body(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.message.len() + 1);
        body.extend_from_slice(self.message.as_bytes());
        if self.newline {
            body.push(b'\n');
        }
        body
    }
}

/// 401 without a tenant, otherwise 400; the tenant check ends its texts with a
/// line break on every endpoint.
impl From<TenantError> for ApiError {
    fn from(error: TenantError) -> Self {
        let status = match error {
            TenantError::Missing => StatusCode::UNAUTHORIZED,
            _ => StatusCode::BAD_REQUEST,
        };
        ApiError::new(status, error.to_string()).with_newline()
    }
}

/// 400: also for a message that is too large once decompressed.
impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        ApiError::bad_request(error.to_string()).with_newline()
    }
}

impl From<ProtobufError> for ApiError {
    fn from(error: ProtobufError) -> Self {
        ApiError::bad_request(error.to_string()).with_newline()
    }
}

impl From<JsonError> for ApiError {
    fn from(error: JsonError) -> Self {
        ApiError::bad_request(error.to_string()).with_newline()
    }
}

/// For labels of a push. A duplicate name is reported with the set as sent; a
/// caller that adds labels to streams builds that text itself, from
/// [`LabelParseError::pairs`].
impl From<LabelParseError> for ApiError {
    fn from(error: LabelParseError) -> Self {
        match &error {
            LabelParseError::Syntax { .. } => {
                ApiError::bad_request(format!("couldn't parse labels: {error}"))
            }
            LabelParseError::Duplicate { pairs, .. } => {
                let mut set = Vec::new();
                let pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
                crate::labels::write_pairs_canonical(pairs, &mut set);
                let set = String::from_utf8_lossy(&set);
                ApiError::bad_request(format!("stream '{set}' {error}"))
            }
            LabelParseError::TooLarge { .. } => {
                ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, error.to_string())
            }
        }
        .with_newline()
    }
}

impl From<MetadataError> for ApiError {
    fn from(error: MetadataError) -> Self {
        ApiError::bad_request(error.to_string()).with_newline()
    }
}

/// For parameters of the query family.
impl From<TimeError> for ApiError {
    fn from(error: TimeError) -> Self {
        ApiError::bad_request(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::parse_labels;
    use crate::tenant::parse_tenant_header;

    fn answer(error: impl Into<ApiError>) -> (u16, String) {
        let error = error.into();
        (error.status.as_u16(), String::from_utf8(error.body()).expect("texts are UTF-8"))
    }

    fn refused(labels: &str) -> (u16, String) {
        answer(parse_labels(labels.as_bytes()).expect_err("a malformed label string"))
    }

    #[test]
    fn causes_become_the_measured_answers() {
        let cases = [
            (answer(TenantError::Missing), 401, "no org id\n"),
            (answer(TenantError::Multiple), 400, "multiple org IDs present\n"),
            (
                answer(parse_tenant_header(Some(b"a b")).expect_err("a space")),
                400,
                "tenant ID 'a b' contains unsupported character ' '\n",
            ),
            (
                refused("{app=\"x\""),
                400,
                "couldn't parse labels: 1:9: parse error: unexpected end of input inside braces\n",
            ),
            (
                refused("{app=\"x\",app=\"y\"}"),
                400,
                "stream '{app=\"x\", app=\"y\"}' has duplicate label name: 'app'\n",
            ),
            (answer(JsonError::Empty), 400, "EOF\n"),
            (answer(ProtobufError::UnexpectedEof), 400, "unexpected EOF\n"),
            (answer(BodyError::SnappyCorrupt), 400, "snappy: corrupt input\n"),
            (answer(MetadataError::EmptyName), 400, "label name is empty\n"),
            (answer(TimeError::LimitNotPositive), 400, "limit must be a positive value"),
            (answer(ApiError::page_not_found()), 404, "404 page not found\n"),
            (
                answer(ApiError::body_too_large(1001, 1000)),
                413,
                "message size too large than max (1001 vs 1000)\n",
            ),
            (
                answer(ApiError::no_streams()),
                422,
                "error at least one valid stream is required for ingestion\n",
            ),
            (
                answer(LabelParseError::TooLarge { len_bytes: 2, max_bytes: 1 }),
                413,
                "label string of 2 bytes exceeds the maximum of 1\n",
            ),
        ];
        for (got, status, body) in cases {
            assert_eq!(got, (status, body.to_owned()));
        }
        assert_eq!(ApiError::too_many_requests("slow down", 3).retry_after_s, Some(3));
        assert_eq!(ApiError::query_timeout().status.as_u16(), 504);
    }
}
