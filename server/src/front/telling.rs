//! Tells of requests: each one in the access log, if that is on, and those that an operator should
//! hear of in any case.
//!
//! Pushes and queries tell of themselves ([`crate::refusals`]); here are the others, and requests
//! that are refused before their handler is called. Nothing is copied of a request while the access
//! log is off.

use std::net::SocketAddr;
use std::time::Duration;

use http::StatusCode;
use logsvc_http::RequestHead;
use logsvc_proto::error::ApiError;
use logsvc_runtime::Runtime;

use super::core::Core;
use crate::metrics::RequestReason;
use crate::refusals::text::{QUERY_MAX_BYTES, TEXT_MAX_BYTES, shown};
use crate::refusals::{Level, Line, Sender, Subject};

/// A request for the access log.
pub(super) struct Access {
    is_info: bool,
    method: String,
    target: String,
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
        let target = match &head.query {
            Some(query) => shown(&format!("{}?{query}", head.raw_path), QUERY_MAX_BYTES),
            None => shown(&head.raw_path, QUERY_MAX_BYTES),
        };
        let user_agent = head.header("user-agent").unwrap_or_default();
        Some(Access {
            is_info,
            method: shown(head.method.as_str(), TEXT_MAX_BYTES),
            target,
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
                    target = self.target.as_str(),
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

impl<R: Runtime> Core<R> {
    /// Tells of a request that was refused by its route, if an operator should know: a failure of
    /// the server, a client without a right, a node that is too busy.
    pub(super) fn tell_refused(
        &self,
        route: &'static str,
        tenant: &str,
        peer: SocketAddr,
        error: &ApiError,
    ) {
        let status = error.status;
        let level = match status.as_u16() {
            // Probes ask before the node is ready, and while it stops.
            503 if !self.is_serving() => return,
            500.. => Level::Error,
            401 | 403 | 408 | 413 | 429 => Level::Warn,
            _ => return,
        };
        let reason = RequestReason::of(status).name();
        self.tell(&Line {
            route: Some(route),
            status: Some(status.as_u16()),
            peer: Some(peer),
            error: &error.message,
            ..Line::new(Subject::Request, level, reason, tenant)
        });
    }

    /// Tells of a request that did not come to its handler.
    pub(super) fn tell_turned_away(
        &self,
        route: Option<(&'static str, bool)>,
        head: Option<&RequestHead>,
        peer: SocketAddr,
        error: &ApiError,
    ) {
        match (route, head) {
            (Some((route, true)), Some(head)) => {
                let user_agent = head.header("user-agent").unwrap_or_default();
                let sender = Sender { peer, user_agent, route };
                // A tenant that is not good is nobody's refusal.
                let tenant = self.tenant(head).ok();
                self.note_refused_push(tenant.as_ref(), sender, error);
            }
            (Some((route, false)), _) => self.tell_refused(route, "", peer, error),
            _ => {
                let reason = RequestReason::of(error.status).name();
                self.tell_connection(reason, peer, &error.message);
            }
        }
    }

    /// Tells of a connection that was turned away.
    pub(super) fn tell_connection(&self, reason: &'static str, peer: SocketAddr, why: &str) {
        let line = Line::new(Subject::Connection, Level::Warn, reason, "");
        self.tell(&Line { peer: Some(peer), error: why, ..line });
    }
}
