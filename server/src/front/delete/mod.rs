//! Requests to delete entries: made, listed and cancelled by clients.
//!
//! Guarantees: a request is answered with success when it is on the disk and hides its entries on
//! all cores. A tenant sees and cancels its own requests alone. The keeper on core 0 does the work;
//! this room checks what clients send and words the answers.
//!
//! Failures: the tenant may not delete, a parameter is bad, the keeper has no room for the request,
//! or the disk fails.

mod gather;
mod generation;
mod list;
mod params;

use std::rc::Rc;

use http::header::{HeaderName, HeaderValue};
use http::{Method, StatusCode};
use logsvc_http::{Params, Request, Response};
use logsvc_logql::engine::depends_on_clock;
use logsvc_logql::syntax::ast::{Expr, LogExpr};
use logsvc_logql::syntax::{self};
use logsvc_proto::TenantId;
use logsvc_proto::error::ApiError;
use logsvc_proto::time::format_go_duration;
use logsvc_runtime::{Reservation, Runtime};
use logsvc_shards::deletion::{
    CancelError, CreateError, DeleteId, DeleteRequest, DeletionReply, DeletionRequest, NewDelete,
};
use logsvc_shards::keeper::LISTED_MAX_BYTES;

use super::core::Core;
use super::query::answer::reserve_answer;
use super::query::{Querier, Queries};
use crate::config::DeletionMode;
pub(super) use gather::gather;
pub(super) use generation::Generations;

/// The header that tells the id of a new request.
const ID_HEADER: HeaderName = HeaderName::from_static("x-delete-request-id");

/// Answers requests for deletion, for one core.
pub(super) struct Deleter<R: Runtime> {
    core: Rc<Core<R>>,
    querier: Rc<Querier<R>>,
    queries: Queries,
    generations: Generations,
    /// When the node started, in ns since the Unix epoch.
    started_ns: i64,
}

impl<R: Runtime> Deleter<R> {
    /// One that reads queries with the querier of its core.
    pub(super) fn new(
        querier: Rc<Querier<R>>,
        queries: Queries,
        generations: Generations,
    ) -> Deleter<R> {
        let core = Rc::clone(&querier.core);
        let started_ns = core.runtime.unix_nanos();
        Deleter { core, querier, queries, generations, started_ns }
    }

    /// `delete`: POST and PUT make a request, GET lists them, DELETE cancels one.
    pub(super) async fn delete(&self, request: Request) -> Result<Response, ApiError> {
        let answered = match request.head.method {
            Method::GET => self.list(&request).await,
            Method::DELETE => self.cancel(&request).await,
            _ => self.create(&request).await,
        };
        answered.map_err(ApiError::with_newline)
    }

    /// The tenant of a request, which may delete.
    fn tenant(&self, request: &Request) -> Result<TenantId, ApiError> {
        let tenant = self.allowed_tenant(request)?;
        if !self.core.config().retention_enabled {
            return Err(ApiError::bad_request("Retention is not enabled"));
        }
        Ok(tenant)
    }

    fn allowed_tenant(&self, request: &Request) -> Result<TenantId, ApiError> {
        let tenant = self.core.tenant(&request.head)?;
        if self.core.limits(&tenant).deletion_mode == DeletionMode::Disabled {
            return Err(ApiError::forbidden("deletion is not available for this tenant"));
        }
        Ok(tenant)
    }

    async fn create(&self, request: &Request) -> Result<Response, ApiError> {
        let tenant = self.tenant(request)?;
        let params = super::query::params::of(request)?;
        let (query, parsed) = self.query_of(&params).await?;
        let range = params::range(&params, self.core.runtime.unix_nanos())?;
        let max_ns = self.core.config().delete_max_interval_ns;
        let part_ns = match parsed.stages.is_empty() {
            true => None,
            false => params::part_ns(&params, range, max_ns)?,
        };
        let new = NewDelete {
            tenant: tenant.clone(),
            query,
            start_ns: range.start_ns,
            end_ns: range.end_ns,
            part_ns,
        };
        let reply = self.core.ask_keeper(DeletionRequest::Create(Box::new(new))).await?;
        // The request may be in force although the answer is no success.
        self.generations.changed(&tenant, self.core.runtime.unix_nanos());
        let DeletionReply::Created(created) = reply else { return Err(other_answer()) };
        let id = created.map_err(not_created)?;
        let value = HeaderValue::from_str(&id.to_string());
        let value = value.map_err(|error| ApiError::internal(error.to_string()))?;
        let mut response = Response::new(StatusCode::NO_CONTENT);
        response.headers.insert(ID_HEADER, value);
        Ok(response)
    }

    /// The query of a request, as it was sent and parsed.
    async fn query_of(
        &self,
        params: &Params,
    ) -> Result<(String, super::query::compile::Parsed<LogExpr>), ApiError> {
        let Some(text) = params.get_non_empty("query") else {
            return Err(ApiError::bad_request("query not set"));
        };
        let parsed = self.querier.parse(text, |text| deletable(text).ok_or_else(bad_query)).await?;
        Ok((text.to_owned(), parsed))
    }

    async fn list(&self, request: &Request) -> Result<Response, ApiError> {
        let tenant = self.tenant(request)?;
        let params = super::query::params::of(request)?;
        let bounds_ns = params::bounds_ns(&params)?;
        let (requests, _memory) = self.listed(tenant, bounds_ns).await?;
        list::response(&requests, &self.core.budgets().queries)
    }

    /// The requests of a tenant, with the memory that they take.
    async fn listed(
        &self,
        tenant: TenantId,
        bounds_ns: Option<(i64, i64)>,
    ) -> Result<(Vec<DeleteRequest>, Reservation), ApiError> {
        let memory = reserve_answer(LISTED_MAX_BYTES, &self.core.budgets().queries)?;
        let reply = self.core.ask_keeper(DeletionRequest::List { tenant, bounds_ns }).await?;
        let DeletionReply::Listed(requests) = reply else { return Err(other_answer()) };
        Ok((requests, memory))
    }

    async fn cancel(&self, request: &Request) -> Result<Response, ApiError> {
        let tenant = self.tenant(request)?;
        let params = super::query::params::of(request)?;
        let id = params.get("request_id").and_then(DeleteId::parse);
        let id = id.ok_or_else(|| self.not_cancelled(CancelError::Unknown))?;
        let is_forced = params.get("force") == Some("true");
        let cancel = DeletionRequest::Cancel { tenant: tenant.clone(), id, is_forced };
        let reply = self.core.ask_keeper(cancel).await?;
        let DeletionReply::Cancelled(cancelled) = reply else { return Err(other_answer()) };
        if !matches!(
            cancelled,
            Err(CancelError::Unknown | CancelError::Processed | CancelError::TooLate)
        ) {
            self.generations.changed(&tenant, self.core.runtime.unix_nanos());
        }
        cancelled.map_err(|error| self.not_cancelled(error))?;
        Ok(Response::new(StatusCode::NO_CONTENT))
    }

    fn not_cancelled(&self, error: CancelError) -> ApiError {
        match error {
            CancelError::Unknown => ApiError::not_found(error.to_string()),
            CancelError::Processed => ApiError::bad_request(error.to_string()),
            CancelError::TooLate => {
                let period = self.core.config().delete_cancel_period.as_nanos();
                let period = format_go_duration(i64::try_from(period).unwrap_or(i64::MAX));
                ApiError::bad_request(format!(
                    "Cancellation of partially completed delete request or delete request past \
                     the deadline of {period} since its creation is not allowed. To force, use \
                     the ?force query parameter"
                ))
            }
            CancelError::Disk(_)
            | CancelError::Bucket
            | CancelError::Elsewhere
            | CancelError::Unsure(_)
            | CancelError::Stopping => ApiError::unavailable(error.to_string()),
        }
    }
}

/// A log query that says which entries are to go: it selects streams, and means the same whenever
/// it is asked.
fn deletable(text: &str) -> Option<LogExpr> {
    let expr = syntax::parse(text).ok()?;
    syntax::check_executable(&expr).ok()?;
    match expr {
        Expr::Log(log) if !depends_on_clock(&log) => Some(log),
        Expr::Log(_) | Expr::Metric(_) => None,
    }
}

fn bad_query() -> ApiError {
    ApiError::bad_request("invalid query expression")
}

fn not_created(error: CreateError) -> ApiError {
    match error {
        CreateError::Query(_) => bad_query(),
        CreateError::TooMany { .. } | CreateError::TooComplex => {
            ApiError::bad_request(error.to_string())
        }
        CreateError::Disk(_)
        | CreateError::Bucket
        | CreateError::NoMemory
        | CreateError::Elsewhere
        | CreateError::Unsure(_)
        | CreateError::Stopping => ApiError::unavailable(error.to_string()),
    }
}

fn other_answer() -> ApiError {
    ApiError::internal("the keeper of delete requests gave the answer of another request")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_say_for_good_which_entries_go() {
        for text in [
            r#"{app="a"}"#,
            r#"{app="a", host=""} |= "x" | json | level="warn" | user="u""#,
            r#"{app=~".+"} | line_format "{{.a}}" |= "b""#,
        ] {
            assert!(deletable(text).is_some(), "{text}");
        }
        for text in [
            "",
            "{",
            r#"app="a""#,
            "{}",
            r#"{host=""}"#,
            r#"{app=~".*"}"#,
            r#"rate({app="x"}[1m])"#,
            "vector(1)",
            r#"{app="a"} | line_format "{{ now }}""#,
            r#"{app="a"} | label_format day="{{ date \"2006\" now }}""#,
        ] {
            assert!(deletable(text).is_none(), "{text}");
        }
    }
}
