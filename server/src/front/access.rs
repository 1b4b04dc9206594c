//! The access log: a line for each request, if that is wanted.
//!
//! Nothing is copied of a request while the log is off. Texts of clients are cut, and their control
//! characters are escaped.

use std::net::SocketAddr;
use std::time::Duration;

use http::StatusCode;
use logsvc_http::RequestHead;
use logsvc_runtime::Runtime;

use super::core::Core;
use crate::refusals::text::{QUERY_MAX_BYTES, TEXT_MAX_BYTES, shown};

/// A request for the access log.
pub(super) struct Access {
    is_info: bool,
    method: String,
    uri: String,
    peer: SocketAddr,
    user_agent: String,
    body_bytes: u64,
}

impl Access {
    /// Keeps what is shown of a request; `None` if requests are not shown.
    pub(super) fn begin<R: Runtime>(
        core: &Core<R>,
        head: &RequestHead,
        peer: SocketAddr,
        body_bytes: usize,
    ) -> Option<Access> {
        let is_info = core.config().request_log.requests;
        if !is_info && !tracing::enabled!(tracing::Level::DEBUG) {
            return None;
        }
        let uri = match &head.query {
            Some(query) => shown(&format!("{}?{query}", head.raw_path), QUERY_MAX_BYTES),
            None => shown(&head.raw_path, QUERY_MAX_BYTES),
        };
        let user_agent = head.header("user-agent").unwrap_or_default();
        Some(Access {
            is_info,
            method: shown(head.method.as_str(), TEXT_MAX_BYTES),
            uri,
            peer,
            user_agent: shown(user_agent, TEXT_MAX_BYTES),
            body_bytes: body_bytes as u64,
        })
    }

    /// Shows the request.
    pub(super) fn end(self, status: StatusCode, took: Duration) {
        let peer = self.peer.to_string();
        macro_rules! event {
            ($level:ident) => {
                tracing::$level!(
                    method = self.method.as_str(),
                    uri = self.uri.as_str(),
                    status = status.as_u16(),
                    took_ms = took.as_secs_f64() * 1e3,
                    body_bytes = self.body_bytes,
                    peer = peer.as_str(),
                    user_agent = self.user_agent.as_str(),
                    "request"
                )
            };
        }
        if self.is_info { event!(info) } else { event!(debug) }
    }
}
