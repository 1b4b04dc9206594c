//! Requests that one node answers for all: those about rules and about requests for deletion.
//!
//! The keeper of the common files answers them. Any node takes them from clients, and sends them on.
//!
//! Guarantees: a request is not sent again when the keeper may have done it, unless it asks alone.
//!
//! What can go wrong: there is no keeper for the moment. It is waited for [`PATIENCE`].

use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use logsvc_http::{Match, Request, Response, ResponseBody};
use logsvc_peers::client::Unanswered;
use logsvc_peers::forward::{Answer, Forwarded, for_request};
use logsvc_proto::error::ApiError;
use logsvc_runtime::{Account, Runtime};
use logsvc_shards::member::KEEPER_PARTITION;

use super::core::errors::{error_response, too_busy};
use super::routes::{self, Route};
use super::{Front, PathParams};

/// How long a request waits for a keeper. A takeover takes less.
const PATIENCE: Duration = Duration::from_secs(12);

/// How often it is looked whether there is one.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// How long the keeper may take. It waits for the bucket.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Where a request of the kind goes.
enum Keeper {
    /// To this node.
    Here,
    /// To the writer at an address.
    There(u32, String),
    /// Nowhere for now.
    Nobody,
}

impl<R: Runtime> Front<R> {
    fn keeper(&self) -> Keeper {
        let core = &self.core;
        let (Some(cluster), Some(routes)) = (core.cluster(), core.routes()) else {
            return Keeper::Nobody;
        };
        match routes.map.live_owner(KEEPER_PARTITION) {
            Some(owner) if owner != routes.me => match routes.map.members.get(&owner) {
                Some(info) => Keeper::There(owner.0, info.address.clone()),
                None => Keeper::Nobody,
            },
            Some(_) if routes.keeper_since.is_some_and(|it| cluster.common.get().keeps(it)) => {
                Keeper::Here
            }
            _ => Keeper::Nobody,
        }
    }

    /// Has a request answered by the node that answers it for all.
    pub(super) async fn at_keeper(
        &self,
        route: Route,
        path: &PathParams<'_, '_>,
        request: Request,
    ) -> Result<Response, ApiError> {
        let runtime = &self.core.runtime;
        let give_up = runtime.now().after(PATIENCE);
        loop {
            match self.keeper() {
                Keeper::Here => return routes::answer(route, self, request, path).await,
                Keeper::There(writer, address) => {
                    if let Some(answered) = self.send_on(writer, &address, &request).await {
                        return answered;
                    }
                }
                Keeper::Nobody => {}
            }
            if runtime.now() >= give_up {
                return Err(no_keeper());
            }
            runtime.sleep_until(runtime.now().after(LOOK_INTERVAL)).await;
        }
    }

    /// Sends a request to another node; `None` if it has certainly not done it.
    async fn send_on(
        &self,
        writer: u32,
        address: &str,
        request: &Request,
    ) -> Option<Result<Response, ApiError>> {
        let peers = self.core.peers.get()?;
        let queries = &self.core.budgets().queries;
        let Some(account) = Account::open(queries, 0, queries.max_bytes()) else {
            return Some(Err(too_busy()));
        };
        let head = &request.head;
        let query = head.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
        let sent = Forwarded {
            method: head.method.clone(),
            target: format!("{}{query}", head.raw_path),
            headers: for_request(&head.headers),
            body: Bytes::copy_from_slice(&request.body),
        };
        let mut memory = account.grant();
        match peers.forward(address, writer, sent, TIMEOUT, &mut memory).await {
            Ok(Answer { status: StatusCode::MISDIRECTED_REQUEST, .. }) => None,
            Ok(Answer { status, headers, body }) => {
                let mut response = Response::new(status);
                response.headers = headers;
                response.body = ResponseBody::Full(body);
                Some(Ok(response))
            }
            Err(Unanswered::Memory(_)) => Some(Err(too_busy())),
            Err(error) => {
                tracing::debug!(address, "the keeper does not answer: {error}");
                let is_harmless = head.method == Method::GET || error.was_not_sent();
                if is_harmless { None } else { Some(Err(unsure())) }
            }
        }
    }

    /// Answers a request that another node has sent on, if this node is that writer and the keeper.
    pub(super) async fn answer_for_all(&self, request: Request, writer: u32) -> Response {
        let is_me = self.core.routes().is_some_and(|routes| routes.me.0 == writer);
        let path = request.head.path.clone();
        let router = self.all_routes.as_ref().unwrap_or(&self.router);
        let Match::Found(&route, params) = router.find(&request.head.method, &path) else {
            return error_response(&ApiError::page_not_found());
        };
        let is_for_all = route.row().traits.is_kept_by_one;
        // Its ruler and its keeper of requests have ended. Another node has them soon.
        let is_leaving = self.core.cluster().is_some_and(|cluster| cluster.is_leaving());
        if !is_me || is_leaving || !is_for_all || !matches!(self.keeper(), Keeper::Here) {
            return Response::new(StatusCode::MISDIRECTED_REQUEST);
        }
        let answered = routes::answer(route, self, request, &params).await;
        answered.unwrap_or_else(|error| route.error_response(&error))
    }
}

fn no_keeper() -> ApiError {
    let text = "no node keeps the rules and requests for deletion of all nodes at the moment";
    ApiError { retry_after_s: Some(1), ..ApiError::unavailable(text).with_newline() }
}

fn unsure() -> ApiError {
    let text = "the node that keeps the rules and requests for deletion of all nodes has not \
                answered; it is not known whether it has done what was asked";
    ApiError::unavailable(text).with_newline()
}
