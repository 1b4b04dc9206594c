//! What clients of Elasticsearch ask before they send, and the form of answers that they read.
//!
//! Guarantees: every answer carries the header of the product, since clients end without it, and is
//! of the media type that the client asks for. Templates, policies, indexes and the like are
//! acknowledged and have no effect: nothing here needs them. So every index is there, and lists of
//! such things are empty.

use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Method, StatusCode};
use logsvc_http::{Request, RequestHead, Response};
use logsvc_proto::bulk::write_error;
use logsvc_proto::encode::write_json_text;
use logsvc_proto::error::ApiError;
use logsvc_runtime::Runtime;

use super::Ingest;

const PRODUCT: (HeaderName, &str) = (HeaderName::from_static("x-elastic-product"), "Elasticsearch");

/// What a path asks for.
const PAGES: [(&str, &str); 8] = [
    (
        "_license",
        r#"{"license":{"status":"active","uid":"_na_","type":"basic","issued_to":"logsvc","issuer":"logsvc"}}"#,
    ),
    (
        "_xpack",
        r#"{"license":{"uid":"_na_","type":"basic","mode":"basic","status":"active"},"features":{}}"#,
    ),
    (
        "_nodes",
        r#"{"_nodes":{"total":0,"successful":0,"failed":0},"cluster_name":"logsvc","nodes":{}}"#,
    ),
    (
        "_cluster",
        r#"{"cluster_name":"logsvc","status":"green","timed_out":false,"number_of_nodes":1,"number_of_data_nodes":1}"#,
    ),
    ("_index_template", r#"{"index_templates":[]}"#),
    ("_component_template", r#"{"component_templates":[]}"#),
    ("_data_stream", r#"{"data_streams":[]}"#),
    ("", "{}"),
];

impl<R: Runtime> Ingest<R> {
    /// The answer to a question about the server or to a setting of an index.
    pub(crate) fn elastic_page(&self, request: &Request) -> Response {
        let head = &request.head;
        if head.method != Method::GET {
            return answer(head, StatusCode::OK, br#"{"acknowledged":true}"#.to_vec());
        }
        let path = head.path.trim_start_matches("/insert").trim_start_matches("/elasticsearch");
        let page = path.trim_start_matches('/').split('/').next().unwrap_or_default();
        let body = match page {
            "" => self.elastic_root(),
            page => {
                let known = PAGES.iter().find(|(name, _)| *name == page || name.is_empty());
                known.map_or("{}", |(_, body)| body).as_bytes().to_vec()
            }
        };
        answer(head, StatusCode::OK, body)
    }

    /// The answer to a question about an index, or to its creation. Names of indexes begin with
    /// other characters than those of everything else.
    pub(crate) fn elastic_index(&self, request: &Request, index: &str) -> Response {
        let head = &request.head;
        if index.starts_with('_') {
            let reason = format!("there is nothing at {}", head.path);
            let kind = "resource_not_found_exception";
            return error_answer(head, StatusCode::NOT_FOUND, kind, &reason);
        }
        let mut name = Vec::new();
        write_json_text(index, &mut name);
        let body = if head.method == Method::PUT {
            [br#"{"acknowledged":true,"shards_acknowledged":true,"index":"#, &name[..], b"}"]
                .concat()
        } else {
            let about = br#":{"aliases":{},"mappings":{},"settings":{}}}"#;
            [b"{", &name[..], about].concat()
        };
        answer(head, StatusCode::OK, body)
    }

    /// A table for people or programs. There is one node, and nothing else to list.
    pub(crate) fn elastic_table(&self, request: &Request, table: &str) -> Response {
        let head = &request.head;
        let is_health = table == "health";
        if is_json_table(head) {
            let body = if is_health {
                r#"[{"cluster":"logsvc","status":"green","node.total":"1","node.data":"1"}]"#
            } else {
                "[]"
            };
            return answer(head, StatusCode::OK, body.as_bytes().to_vec());
        }
        let body = if is_health { "logsvc green 1 1\n" } else { "" };
        answer(head, StatusCode::OK, body.as_bytes().to_vec())
            .with_content_type("text/plain; charset=UTF-8")
    }

    fn elastic_root(&self) -> Vec<u8> {
        let mut body =
            br#"{"name":"logsvc","cluster_name":"logsvc","cluster_uuid":"_na_","version":{"number":"#
                .to_vec();
        write_json_text(&self.core.config().elasticsearch.version, &mut body);
        body.extend_from_slice(br#","build_flavor":"default"},"tagline":"You Know, for Search"}"#);
        body
    }
}

/// An answer in the media type that the client asks for.
pub(super) fn answer(head: &RequestHead, status: StatusCode, body: Vec<u8>) -> Response {
    Response::new(status)
        .with_content_type(media_type(head))
        .with_header(PRODUCT.0, PRODUCT.1)
        .with_body(body)
}

/// An error in that type.
pub(super) fn error_answer(
    head: &RequestHead,
    status: StatusCode,
    kind: &str,
    reason: &str,
) -> Response {
    let mut body = Vec::new();
    write_error(status.as_u16(), kind, reason, &mut body);
    answer(head, status, body)
}

/// Whether a table is to be JSON: by the parameter, or else by the first type that is accepted.
fn is_json_table(head: &RequestHead) -> bool {
    let query = head.query.as_deref().unwrap_or_default();
    let format = query.split('&').find_map(|pair| pair.strip_prefix("format="));
    match format {
        Some(format) => format == "json",
        None => {
            let accepted = head.header(ACCEPT).unwrap_or_default();
            accepted.split(',').next().is_some_and(|first| first.contains("json"))
        }
    }
}

/// Clients name the major version that they speak, in what they accept or in what they send.
fn media_type(head: &RequestHead) -> &'static str {
    let names = [ACCEPT, CONTENT_TYPE].map(|name| head.header(name).unwrap_or_default());
    let Some(name) = names.into_iter().find(|name| name.contains("vnd.elasticsearch+")) else {
        return "application/json";
    };
    match name.split_once("compatible-with=").map(|(_, version)| version.trim()) {
        Some(version) if version.starts_with('9') => {
            "application/vnd.elasticsearch+json;compatible-with=9"
        }
        Some(version) if version.starts_with('7') => {
            "application/vnd.elasticsearch+json;compatible-with=7"
        }
        _ => "application/vnd.elasticsearch+json;compatible-with=8",
    }
}

/// An error as clients of Elasticsearch read it.
pub(crate) fn error_response(error: &ApiError) -> Response {
    let kind = match error.status.as_u16() {
        401 | 403 => "security_exception",
        404 => "resource_not_found_exception",
        413 => "content_too_long_exception",
        429 => "es_rejected_execution_exception",
        503 => "cluster_block_exception",
        500.. => "exception",
        _ => "illegal_argument_exception",
    };
    let mut body = Vec::new();
    write_error(error.status.as_u16(), kind, error.message.trim_end(), &mut body);
    let mut response = Response::new(error.status)
        .with_content_type("application/json")
        .with_header(PRODUCT.0, PRODUCT.1)
        .with_body(body);
    if let Some(seconds) = error.retry_after_s {
        response.headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
