//! `tail`: new entries of a query as they come, over a WebSocket.
//!
//! A client's connection ([`session`]) joins a group ([`group`]) of equal tails on its core. The
//! group subscribes to all shards through the hub of its core ([`hub`]), runs the query's pipeline
//! over new entries ([`evaluate`]), puts it in order of time ([`timeline`]) and encodes it
//! ([`frame`]) once for all of its clients. The history of a tail is an ordinary query
//! ([`history`]); each shard takes its snapshot and begins to follow in one step, so nothing is
//! missed or shown twice.
//!
//! A node that is one of many follows all of them ([`others`]), and each of them tells its new entries
//! ([`relay`]). The history is a query to all owners that begins when all are followed; entries of both
//! are shown once ([`seen`]). Whenever a node has come or gone, such a query finds what was missed.
//!
//! Guarantees: tails never hold pushes up. Entries on their way are bounded by the memory for
//! tails, the output of a core by [`hub::OUTPUT_MAX_BYTES_PER_S`], and the queue of one client by
//! [`outbox::OUTBOX_MAX_BYTES`]; entries over these bounds are dropped and listed in
//! `dropped_entries`. Entries that are dropped on their way from a shard are told although the
//! query's filters have not seen them.

mod counts;
mod evaluate;
mod frame;
mod group;
mod history;
mod hub;
mod missed;
mod others;
mod outbox;
mod relay;
mod seen;
mod session;
#[cfg(test)]
mod tests;
mod timeline;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::header::SEC_WEBSOCKET_VERSION;
use logsvc_http::websocket::{Handshake, WebSocketConfig, code};
use logsvc_http::{Params, Request, Response};
use logsvc_logql::engine::QueryTime;
use logsvc_logql::syntax;
use logsvc_logql::syntax::ast::{Expr, LogExpr};
use logsvc_proto::TenantId;
use logsvc_proto::error::ApiError;
use logsvc_proto::time::parse_time_param_ns;
use logsvc_runtime::Runtime;

use crate::front::core::errors::error_response;
use crate::front::query::Querier;
use crate::front::query::limits::{check_entries, check_query};
use crate::front::query::params;
pub(crate) use counts::TailCounts;
use evaluate::TailPipeline;
use frame::Form;
use hub::Hub;
pub(crate) use relay::{Refusal, Relay, Relays};

/// Longest `delay_for`, in seconds.
const DELAY_MAX_S: i64 = 5;

/// Which of the two interfaces a client speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dialect {
    /// `/loki/api/v1/tail`.
    V1,
    /// `/api/prom/tail`.
    Legacy,
}

/// Tails with equal keys show the same.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct GroupKey {
    tenant: TenantId,
    /// The query as it is printed.
    query: String,
    delay_s: u32,
    form: Form,
    /// If there are other nodes, each client has a group of its own: nobody joins one that runs.
    nonce: u64,
}

/// A tail that has been checked.
#[derive(Clone, Debug)]
struct TailRequest {
    key: GroupKey,
    log: Arc<LogExpr>,
    /// Where the history begins, in ns since the Unix epoch; an hour ago if absent.
    start_ns: Option<i64>,
    /// Most entries of the history.
    limit: u32,
    /// Most tails of the tenant; 0 is no limit.
    max_tails: usize,
}

/// The tails of one core.
pub(crate) struct Tails<R: Runtime> {
    hub: Rc<Hub<R>>,
    querier: Rc<Querier<R>>,
}

impl<R: Runtime> Tails<R> {
    /// No tail is open. `counts` covers all cores.
    pub(crate) fn new(querier: Rc<Querier<R>>, counts: Arc<TailCounts>) -> Tails<R> {
        Tails { hub: Rc::new(Hub::new(Rc::clone(&querier), counts)), querier }
    }

    /// What follows the shards of this node for others.
    pub(crate) fn relays(&self) -> Relays<R> {
        Relays(Rc::clone(&self.hub))
    }

    /// Answers a request for a tail: with a WebSocket, or with an error.
    pub(crate) async fn tail(
        &self,
        request: &Request,
        dialect: Dialect,
    ) -> Result<Response, ApiError> {
        let core = &self.hub.core;
        let params = params::of(request);
        let named = params.as_ref().ok().and_then(|params| params.get_non_empty("tenant"));
        let tenant = core.tenant_or(&request.head, named)?;
        let params = params?;
        let limits = core.limits(&tenant);
        let bad_request = |error: String| ApiError::bad_request(error);
        let text = params.get("query").unwrap_or_default();
        let pattern = params.get_non_empty("regexp").filter(|_| dialect == Dialect::Legacy);
        let pattern = pattern.map(str::to_owned);
        let read = move |text: &str| {
            let mut expr = syntax::parse(text).map_err(|error| bad_request(error.to_string()))?;
            if let Some(pattern) = &pattern {
                expr = with_line_filter(&expr, pattern).map_err(bad_request)?;
            }
            syntax::check_executable(&expr).map_err(|error| bad_request(error.to_string()))?;
            Ok(Arc::new(expr))
        };
        let expr = self.querier.parse(text, read).await?;
        let form = form(request, &params, dialect)?;
        if let Expr::Log(log) = &**expr {
            // Patterns that do not compile are found here, as long as there is a status.
            let params = TailPipeline::params(log, form, core.runtime.unix_nanos());
            self.querier.plan(&expr, params).await?;
        }
        let limit = params::limit(&params)?;
        let start_ns = match params.get_non_empty("start") {
            Some(text) => Some(parse_time_param_ns("start", text)?),
            None => None,
        };
        let delay_s = delay_for(&params)?;
        check_entries(&limits, limit as usize)?;
        let Ok(handshake) = Handshake::of_request(&request.head) else {
            let error = ApiError::bad_request("Bad Request").with_newline();
            return Ok(error_response(&error).with_header(SEC_WEBSOCKET_VERSION, "13"));
        };
        // Errors from here on are told by the close frame.
        let config = WebSocketConfig {
            max_message_bytes: 4096,
            // Messages of clients are ignored.
            max_received: 0,
            // One frame at a time: waiting frames are shared with other clients.
            max_queued_bytes: 1,
            close_timeout: Duration::from_secs(5),
        };
        let refuse = |text: String| {
            Response::websocket(handshake.clone(), config, |socket| async move {
                socket.close(code::INTERNAL_ERROR, text);
            })
        };
        let log = match &**expr {
            Expr::Log(log) => Arc::new(log.clone()),
            Expr::Metric(_) => return Ok(refuse("only log selector is supported".to_owned())),
        };
        let end_ns = core.runtime.unix_nanos();
        let from_ns = start_ns.unwrap_or(end_ns.saturating_sub(params::QUERY_RANGE_NS));
        let time = QueryTime::Range { start_ns: from_ns, end_ns, step_ns: 1 };
        if let Err(error) = check_query(&limits, &expr, time, limit as usize) {
            return Ok(refuse(error.message));
        }
        let nonce = if core.cluster().is_some() { core.runtime.random_u64() } else { 0 };
        let key = GroupKey { tenant, query: expr.to_string(), delay_s, form, nonce };
        let max_tails = limits.max_concurrent_tail_requests;
        let tail = TailRequest { key, log, start_ns, limit, max_tails };
        let hub = Rc::clone(&self.hub);
        Ok(Response::websocket(handshake, config, move |socket| session::serve(hub, socket, tail)))
    }
}

/// How frames are written. A page cannot set headers of a WebSocket, so a parameter says the same.
fn form(request: &Request, params: &Params, dialect: Dialect) -> Result<Form, ApiError> {
    if dialect == Dialect::Legacy {
        return Ok(Form::Legacy);
    }
    let flags = request.head.header("x-loki-response-encoding-flags").unwrap_or_default();
    let is_asked = params::flag(params, "categorize")?;
    let is_categorized = is_asked || flags.split(',').any(|flag| flag == "categorize-labels");
    Ok(if is_categorized { Form::Categorized } else { Form::Plain })
}

/// The query with `|~ pattern` behind its other stages.
fn with_line_filter(expr: &Expr, pattern: &str) -> Result<Expr, String> {
    let quoted = serde_json::to_string(pattern).map_err(|error| error.to_string())?;
    // A line of its own: the query may end with a comment.
    let text = format!("{expr}\n|~ {quoted}");
    syntax::parse(&text).map_err(|error| error.to_string())
}

/// `delay_for` in seconds, 0 by default.
fn delay_for(params: &Params) -> Result<u32, ApiError> {
    let Some(text) = params.get_non_empty("delay_for") else { return Ok(0) };
    let delay_s: i64 = text.parse().map_err(|error: std::num::ParseIntError| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let problem = match error.kind() {
            NegOverflow | PosOverflow => "value out of range",
            _ => "invalid syntax",
        };
        ApiError::bad_request(format!("strconv.Atoi: parsing {text:?}: {problem}"))
    })?;
    match u32::try_from(delay_s) {
        Ok(seconds) if delay_s <= DELAY_MAX_S => Ok(seconds),
        Ok(_) => {
            Err(ApiError::bad_request(format!("delay_for can't be greater than {DELAY_MAX_S}")))
        }
        Err(_) => Err(ApiError::bad_request(format!(
            "delay_for value {delay_s} is out of range [0, 4294967295]"
        ))),
    }
}
