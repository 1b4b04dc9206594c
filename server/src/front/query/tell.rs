//! Tells of queries that fail or are slow, or of all, as the settings say.
//!
//! The text of a query is cut ([`crate::refusals::text`]). Queries of rules are not told: the ruler
//! counts their failures, and a rule over the node's own log would fire on itself.

use http::StatusCode;
use logsvc_http::{Request, Response};
use logsvc_proto::error::ApiError;
use logsvc_runtime::{Monotonic, Runtime};

use super::{Querier, params};
use crate::metrics::RequestReason;
use crate::refusals::{Level, Line, Subject};

/// The status of a query whose client went away.
const CLIENT_GONE: u16 = 499;

impl<R: Runtime> Querier<R> {
    /// The answer to a query that came at `begun`, after what there is to tell of it. The number
    /// is the bytes that were read for it.
    pub(super) fn told(
        &self,
        route: &'static str,
        request: &Request,
        begun: Monotonic,
        answered: Result<(Response, u64), ApiError>,
    ) -> Result<Response, ApiError> {
        let took = self.core.runtime.now().since(begun);
        let log = &self.core.config().request_log;
        let is_slow = match log.queries_longer_than_ns {
            0 => false,
            limit_ns => i128::from(limit_ns) < took.as_nanos() as i128,
        };
        if answered.is_ok() && !is_slow && !log.query_stats {
            return answered.map(|(response, _)| response);
        }
        let params = params::of(request).ok();
        let query = params.as_ref().and_then(|params| params.get("query")).unwrap_or_default();
        let tenants = self.tenants(&request.head).map(|tenants| tenants.to_string());
        let tenant = tenants.as_deref().unwrap_or_default();
        let line = |subject, level, reason, status: StatusCode| Line {
            route: Some(route),
            status: Some(status.as_u16()),
            peer: Some(request.peer),
            user_agent: request.head.header("user-agent").unwrap_or_default(),
            query,
            took: Some(took),
            ..Line::new(subject, level, reason, tenant)
        };
        match &answered {
            Ok((response, read_bytes)) => {
                let read_bytes = Some(*read_bytes);
                let subject = if is_slow { Subject::SlowQuery } else { Subject::Query };
                let line =
                    Line { read_bytes, ..line(subject, Level::Info, "slow", response.status) };
                match log.query_stats {
                    true => line.write_statistics(),
                    false => self.core.tell(&line),
                }
            }
            Err(error) => {
                let level = match error.status.as_u16() {
                    CLIENT_GONE => Level::Info,
                    503 if !self.core.is_serving() => Level::Warn,
                    // The query is too much for the limits of its tenant.
                    504 => Level::Warn,
                    500.. => Level::Error,
                    401 | 403 | 413 | 429 => Level::Warn,
                    _ => Level::Info,
                };
                let reason = match error.status.as_u16() {
                    CLIENT_GONE => "client_gone",
                    _ => RequestReason::of(error.status).name(),
                };
                let line = line(Subject::Query, level, reason, error.status);
                self.core.tell(&Line { error: &error.message, ..line });
            }
        }
        answered.map(|(response, _)| response)
    }
}
