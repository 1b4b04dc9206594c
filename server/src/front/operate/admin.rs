//! `log_level`, `services`, `config`, and the limits of a tenant.

use http::{Method, StatusCode};
use logsvc_http::{Request, Response};
use logsvc_proto::encode::write_json_text;
use logsvc_proto::error::ApiError;
use logsvc_runtime::Runtime;

use super::operations::API_VERSION;
use crate::config::print::{self, Mode};
use crate::config::{Choice, LogLevel};
use crate::front::core::JSON;
use crate::front::operate::Operator;
use crate::front::query::params;
use crate::logging;

impl<R: Runtime> Operator<R> {
    /// One line for each component of the node.
    pub(crate) fn services_page(&self) -> Response {
        let lines = self
            .core
            .node
            .services
            .all()
            .map(|(name, state)| format!("{name} => {}\n", state.name()));
        Response::text(StatusCode::OK, lines.collect::<String>())
    }

    pub(crate) fn config_page(&self, request: &Request) -> Result<Response, ApiError> {
        let params = params::of(request)?;
        let mode = match params.get_non_empty("mode") {
            Some("diff" | "diffs") => Mode::Differences(&self.core.node.surroundings.origin.given),
            Some("defaults") => Mode::Defaults,
            _ => Mode::Full,
        };
        Ok(Response::text(StatusCode::OK, print::yaml(self.core.config(), mode)))
    }

    pub(crate) fn tenant_limits(&self, request: &Request) -> Result<Response, ApiError> {
        let tenant = self.core.tenant(&request.head)?;
        Ok(Response::text(StatusCode::OK, print::limits_yaml(&self.core.limits(&tenant))))
    }

    /// The limits and features that Grafana Logs Drilldown reads at its start.
    pub(crate) fn drilldown_limits(&self, request: &Request) -> Result<Response, ApiError> {
        let tenant = self.core.tenant(&request.head)?;
        let mut body = b"{\"limits\":{".to_vec();
        print::limits_json(&self.core.limits(&tenant), &mut body);
        let enabled = if self.core.config().patterns_enabled { "true" } else { "false" };
        body.extend_from_slice(b"},\"pattern_ingester_enabled\":");
        body.extend_from_slice(enabled.as_bytes());
        body.extend_from_slice(b",\"version\":");
        write_json_text(API_VERSION, &mut body);
        body.extend_from_slice(b"}\n");
        Ok(Response::new(StatusCode::OK).with_content_type(JSON).with_body(body))
    }
}

/// Shows the log level, or sets it on POST.
pub(crate) fn log_level(request: &Request) -> Result<Response, ApiError> {
    if request.head.method != Method::POST {
        let message = format!("Current log level is {}", logging::level().word());
        return Ok(message_response(StatusCode::OK, None, &message));
    }
    let params = params::of(request)?;
    let word = params.get("log_level").unwrap_or_default();
    let mut level = LogLevel::Info;
    if !level.choose(word) {
        let message = format!("unrecognized log level {word:?}");
        return Ok(message_response(StatusCode::BAD_REQUEST, Some("failed"), &message));
    }
    logging::set_level(level).map_err(ApiError::internal)?;
    tracing::info!(level = word, "the log level was set");
    let message = format!("Log level set to {word}");
    Ok(message_response(StatusCode::OK, Some("success"), &message))
}

fn message_response(code: StatusCode, status: Option<&str>, message: &str) -> Response {
    let mut body = b"{".to_vec();
    if let Some(status) = status {
        body.extend_from_slice(b"\"status\":");
        write_json_text(status, &mut body);
        body.push(b',');
    }
    body.extend_from_slice(b"\"message\":");
    write_json_text(message, &mut body);
    body.extend_from_slice(b"}\n");
    Response::new(code).with_content_type(JSON).with_body(body)
}
