//! `format_query`: a query in the form in which it is printed.

use http::StatusCode;
use logsvc_http::{Request, Response};
use logsvc_logql::syntax;
use logsvc_proto::encode::write_json_text;
use logsvc_proto::error::ApiError;
use logsvc_runtime::Runtime;

use super::{Querier, params};
use crate::front::core::JSON;

impl<R: Runtime> Querier<R> {
    pub(crate) async fn format_query(&self, request: &Request) -> Result<Response, ApiError> {
        let params = params::of(request)?;
        let text = params.get("query").unwrap_or_default();
        let formatted = self.parse(text, |text| Ok(formatted(text))).await?;
        let (status, fields) = &*formatted;
        let mut body = Vec::new();
        for (index, (name, value)) in fields.iter().enumerate() {
            body.push(if index == 0 { b'{' } else { b',' });
            write_json_text(name, &mut body);
            body.push(b':');
            write_json_text(value, &mut body);
        }
        body.extend_from_slice(b"}\n");
        Ok(Response::new(*status).with_content_type(JSON).with_body(body))
    }
}

/// The answer to the text of a query: its status and its fields.
fn formatted(text: &str) -> (StatusCode, [(&'static str, String); 2]) {
    match syntax::parse(text) {
        Ok(expr) => {
            (StatusCode::OK, [("status", "success".into()), ("data", syntax::format(&expr))])
        }
        Err(error) => (
            StatusCode::BAD_REQUEST,
            [("status", "invalid-query".to_owned()), ("error", error.to_string())],
        ),
    }
}
