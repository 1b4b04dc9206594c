//! Notes what the front refuses, and tells what operators should hear of.

use std::net::SocketAddr;

use logsvc_http::RequestHead;
use logsvc_proto::TenantId;
use logsvc_proto::error::ApiError;
use logsvc_runtime::Runtime;

use super::Core;
use crate::metrics::RequestReason;
use crate::refusals::{Cause, Level, Line, Moment, Refused, Sender, Subject};

impl<R: Runtime> Core<R> {
    /// Counts a refusal, keeps it for the list of its tenant, and tells it in the log.
    pub(crate) fn note(&self, refused: &Refused<'_>) {
        let moment = Moment::of(&self.runtime);
        self.node.refusals.note(&self.counters().pushes, moment, refused);
    }

    /// [`Core::note`] of a push that was refused as a whole with this answer.
    pub(crate) fn note_refused_push(
        &self,
        tenant: Option<&TenantId>,
        sender: Sender<'_>,
        error: &ApiError,
    ) {
        let cause = match self.is_serving() {
            true => Cause::Push(error.status),
            false => Cause::NotServing(error.status),
        };
        let (stream, entry_ns, limit_ns) = (None, None, None);
        let text = &error.message;
        self.note(&Refused { tenant, cause, sender, stream, entry_ns, limit_ns, text });
    }

    /// Writes a line, unless enough like it were written lately.
    pub(crate) fn tell(&self, line: &Line<'_>) {
        self.node.refusals.tell(self.runtime.now(), line);
    }

    /// False while the node starts or stops.
    pub(crate) fn is_serving(&self) -> bool {
        self.node.recovered.is_complete() && !self.node.stop.is_triggered()
    }

    /// Tells of a request that was refused by its route, if an operator should know: a failure of
    /// the server, a client without a right, a node that is too busy.
    pub(crate) fn tell_refused(
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
    pub(crate) fn tell_turned_away(
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
    pub(crate) fn tell_connection(&self, reason: &'static str, peer: SocketAddr, why: &str) {
        let line = Line::new(Subject::Connection, Level::Warn, reason, "");
        self.tell(&Line { peer: Some(peer), error: why, ..line });
    }
}
