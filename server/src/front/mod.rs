//! The HTTP front of one core: admits requests and hands them to the rooms.
//!
//! Guarantees: a request is answered by this core alone, which asks the shards through the lanes;
//! nothing here holds a borrow across a wait. Failures are an [`ApiError`], whose text and status
//! go to the client.

mod access;
mod at_keeper;
mod core;
mod cors;
mod cross_site;
mod delete;
mod explore;
mod gate;
mod ingest;
mod operate;
mod peers;
mod query;
mod routes;
mod rules;
mod syslog;
mod tail;

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use http::header::{ALLOW, CONTENT_LENGTH, HeaderValue, TRANSFER_ENCODING};
use http::{Method, StatusCode};
use logsvc_http::{
    Admission, Match, Observation, PathParams, Refusal, Request, RequestHead, Response, Router,
    Service,
};
use logsvc_peers::client::Peers;
use logsvc_peers::service::PeerService;
use logsvc_proto::error::ApiError;
use logsvc_rules::lanes::RuleInbox;
use logsvc_runtime::{Latch, Runtime};

use crate::config::targets;
use crate::dialer::Dialer;
use crate::metrics::Metric;
use crate::node::NodeState;
use access::Access;
use core::Core;
pub(crate) use core::Lanes;
use core::errors::error_response;
use cors::Reader;
use delete::{Deleter, Generations};
use explore::Explorer;
use gate::{Gate, with_challenge};
use ingest::{Ingest, Rates};
use operate::Operator;
use operate::operations::not_ready;
pub(crate) use operate::shutdown::was_prepared;
use query::{Querier, Queries, parquet};
pub(crate) use routes::METRIC_NAMES;
use routes::{Class, Route};
use rules::Ruling;
use syslog::OpenConnections;
use tail::{TailCounts, Tails};

/// State that the rooms of all cores share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Shared {
    rates: Rates,
    queries: Queries,
    tail_counts: Arc<TailCounts>,
    generations: Generations,
    syslog_connections: OpenConnections,
}

impl Shared {
    /// No request has come.
    pub(crate) fn new(node: &NodeState) -> Shared {
        Shared {
            rates: Rates::new(),
            queries: Queries::new(node),
            tail_counts: Arc::new(TailCounts::new()),
            generations: Generations::new(),
            syslog_connections: OpenConnections::new(node.config.syslog.max_connections),
        }
    }
}

/// See the module.
pub(crate) struct Front<R: Runtime> {
    core: Rc<Core<R>>,
    gate: Gate,
    router: Router<Route>,
    /// Requests that other nodes have sent on may be for parts that this one shows no client.
    all_routes: Option<Router<Route>>,
    ingest: Rc<Ingest<R>>,
    querier: Rc<Querier<R>>,
    explorer: Explorer<R>,
    tails: Tails<R>,
    operator: Operator<R>,
    deleter: Deleter<R>,
    ruling: Ruling<R>,
    syslog_connections: OpenConnections,
}

impl<R: Runtime> Front<R> {
    /// The front of the core that `runtime` and `lanes` belong to.
    pub(crate) fn new(
        runtime: R,
        node: Arc<NodeState>,
        shared: Shared,
        lanes: Lanes,
    ) -> Rc<Front<R>> {
        let core = Rc::new(Core::new(runtime, node, lanes));
        let querier = Querier::new(Rc::clone(&core), shared.queries.clone());
        Rc::new(Front {
            gate: Gate::new(&core.runtime),
            router: routes::router(core.config().parts()),
            all_routes: core.cluster().map(|_| routes::router(targets::ALL)),
            ingest: Rc::new(Ingest::new(Rc::clone(&core), shared.rates)),
            syslog_connections: shared.syslog_connections,
            explorer: Explorer::new(Rc::clone(&querier)),
            tails: Tails::new(Rc::clone(&querier), shared.tail_counts),
            operator: Operator::new(Rc::clone(&core), shared.queries.clone()),
            deleter: Deleter::new(Rc::clone(&querier), shared.queries, shared.generations),
            ruling: Ruling::new(Rc::clone(&core)),
            querier,
            core,
        })
    }

    /// The longest body that is admitted: a body over the whole memory for bodies is refused for
    /// good.
    fn body_max_bytes(&self, max_bytes: u64) -> u64 {
        max_bytes.min(self.core.budgets().bodies.max_bytes())
    }

    /// Evaluates the queries of rules until the node stops. No shard is asked afterwards.
    pub(crate) fn serve_rules(
        &self,
        inbox: RuleInbox,
        stop: Latch,
    ) -> impl Future<Output = ()> + use<R> {
        rules::serve(Rc::clone(&self.querier), inbox, stop)
    }

    /// Takes syslog messages until the node stops and what was received is stored.
    pub(crate) fn serve_syslog(&self) -> impl Future<Output = ()> + use<R> {
        let ingest = Rc::clone(&self.ingest);
        syslog::serve(Rc::clone(&self.core), ingest, self.syslog_connections.clone())
    }

    /// Gathers what other nodes have removed for requests for deletion, until the latch is triggered.
    pub(crate) fn gather_removals(&self, stop: Latch) -> impl Future<Output = ()> + use<R> {
        delete::gather(Rc::clone(&self.core), stop)
    }

    /// Other nodes are reached by this dialer, whose connections are encrypted if `is_secure` says so.
    pub(crate) fn meet_peers(&self, dialer: Dialer<R>, is_secure: bool) {
        let Some(cluster) = self.core.cluster() else { return };
        let traffic = Arc::clone(&cluster.traffic);
        let peers = Peers::new(self.core.runtime.clone(), dialer, is_secure, traffic);
        // There is one dialer per core.
        drop(self.core.peers.set(peers));
    }

    /// What answers other nodes.
    pub(crate) fn peer_service(self: &Rc<Self>) -> PeerService<peers::PeerAnswers<R>> {
        let front = Rc::clone(self);
        let forwarded = move |request, writer| -> LocalBoxFuture<'static, Response> {
            let front = Rc::clone(&front);
            Box::pin(async move { front.answer_for_all(request, writer).await })
        };
        let (core, querier) = (Rc::clone(&self.core), Rc::clone(&self.querier));
        let (relays, owned) = (self.tails.relays(), self.ingest.owned_streams());
        let answers = peers::PeerAnswers::new(core, querier, relays, owned, Box::new(forwarded));
        PeerService::new(Rc::new(answers))
    }

    /// The answer to OPTIONS, or to a method that a known path does not have.
    fn other_method(&self, head: &RequestHead) -> Response {
        let mut methods = self.router.methods(&head.path);
        methods.push(&Method::OPTIONS);
        let names: Vec<&str> = methods.iter().map(|method| method.as_str()).collect();
        let status = match head.method {
            Method::OPTIONS => StatusCode::NO_CONTENT,
            _ => StatusCode::METHOD_NOT_ALLOWED,
        };
        let mut response = Response::new(status);
        let reader = self.reader(head);
        if let Ok(value) = HeaderValue::from_str(&names.join(", ")) {
            response.headers.insert(ALLOW, value);
        }
        if let Some(reader) = reader {
            reader.answer_preflight(head, &mut response);
        }
        response
    }

    /// The page that may read the answer to a request, if it comes from one.
    fn reader(&self, head: &RequestHead) -> Option<Reader> {
        cors::reader(&self.core.config().access.cors_allowed_origins, &head.headers)
    }

    async fn dispatch(
        &self,
        route: Route,
        path: &PathParams<'_, '_>,
        mut request: Request,
    ) -> Result<Response, ApiError> {
        let row = route.row();
        self.gate.pass(&self.core, &mut request.head, row.traits.right).await?;
        if !row.is_before_ready() && !self.core.node.recovered.is_complete() {
            let error = not_ready().with_newline();
            if row.is_push() {
                let route = Some((row.metric_name, true));
                self.core.tell_turned_away(route, Some(&request.head), request.peer, &error);
            }
            return Err(error);
        }
        if row.traits.class == Class::Lookup && parquet::accepted(&request.head).is_some() {
            self.querier.refuse_parquet(&request)?;
        }
        if row.traits.is_kept_by_one && self.core.cluster().is_some() {
            return self.at_keeper(route, path, request).await;
        }
        routes::answer(route, self, request, path).await
    }
}

impl<R: Runtime> Front<R> {
    /// Whether the body of a request is read.
    fn admission(&self, head: &RequestHead, peer: SocketAddr) -> Admission {
        let refuse = |route: Route, error: &ApiError| {
            let row = route.row();
            let of_push = Some((row.metric_name, row.is_push()));
            self.core.tell_turned_away(of_push, Some(head), peer, error);
            let response = with_challenge(route.error_response(error), error);
            Admission::Refuse(response.with_route(row.metric_name))
        };
        // Routing comes before everything else, so an unknown path is refused
        // without reading its body.
        match self.router.find(&head.method, &head.path) {
            Match::Found(route, _)
                if let Err(error) = cross_site::check(
                    route.row().traits.cross_site,
                    &head.method,
                    &head.headers,
                    &self.core.config().access.cors_allowed_origins,
                ) =>
            {
                refuse(*route, &error)
            }
            Match::Found(route, _)
                if let Err(error) = self.gate.admit(&self.core, head, route.row().traits.right) =>
            {
                refuse(*route, &error)
            }
            // `systemd-journal-upload` ends for good after 411.
            Match::Found(route, _) if route.row().traits.is_streamed => {
                Admission::Stream { account: self.core.account_of(head) }
            }
            // A push without a length has no body: its sender forgot it.
            Match::Found(route, _) if route.row().is_push() && !says_length(head) => {
                let error = ApiError::new(StatusCode::LENGTH_REQUIRED, "Length Required");
                refuse(*route, &error.with_newline())
            }
            Match::Found(route, _) if route.row().is_push() => Admission::Body {
                max_bytes: self.body_max_bytes(self.core.config().push_body_max_bytes),
                account: self.core.account_of(head),
            },
            Match::Found(..) => Admission::Body {
                max_bytes: self.body_max_bytes(self.core.config().form_body_max_bytes),
                account: self.core.account_of(head),
            },
            Match::MethodNotAllowed => Admission::Refuse(self.other_method(head)),
            Match::Redirect(path) => {
                let query = head.query.as_ref().map(|query| format!("?{query}"));
                Admission::Refuse(Response::redirect(&(path + &query.unwrap_or_default())))
            }
            Match::NotFound => Admission::Refuse(error_response(&ApiError::page_not_found())),
        }
    }

    /// Tells of a connection whose encryption failed.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "there is none"))]
    pub(crate) fn encryption_failed(&self, peer: SocketAddr, why: &str) {
        self.core.tell_connection("tls_failed", peer, why);
    }
}

impl<R: Runtime> Service for Front<R> {
    fn admit(&self, head: &RequestHead, peer: SocketAddr) -> Admission {
        let mut admission = self.admission(head, peer);
        if let Admission::Refuse(response) = &mut admission
            && let Some(reader) = self.reader(head)
        {
            reader.admit(response);
        }
        if let Admission::Refuse(response) = &admission
            && let Some(access) = Access::begin(&self.core, head, peer, 0)
        {
            access.end(response.status, Duration::ZERO);
        }
        admission
    }

    async fn call(&self, mut request: Request) -> Response {
        let path = request.head.path.clone();
        let Match::Found(&route, params) = self.router.find(&request.head.method, &path) else {
            return error_response(&ApiError::page_not_found());
        };
        let _under_way =
            self.core.counters().requests.begin(&request.head.method, route.row().metric_name);
        let (begun, peer) = (self.core.runtime.now(), request.peer);
        let access = Access::begin(&self.core, &request.head, peer, request.body.len());
        // Handlers know GET; the connection leaves the body out.
        if request.head.method == Method::HEAD {
            request.head.method = Method::GET;
        }
        let reader = self.reader(&request.head);
        let answered = self.dispatch(route, &params, request).await;
        let row = route.row();
        if let Err(error) = &answered
            && !row.tells_itself()
        {
            self.core.tell_refused(row.metric_name, "", peer, error);
        }
        let mut response = answered
            .unwrap_or_else(|error| with_challenge(route.error_response(&error), &error))
            .with_route(row.metric_name);
        if let Some(reader) = reader {
            reader.admit(&mut response);
        }
        if let Some(access) = access {
            access.end(response.status, self.core.runtime.now().since(begun));
        }
        response
    }

    fn refusal(&self, head: Option<&RequestHead>, refusal: Refusal, peer: SocketAddr) -> Response {
        let error = match refusal {
            Refusal::BodyTooLarge { max_bytes } => {
                let claimed = head.and_then(|head| head.header("content-length"));
                let claimed = claimed.and_then(|text| text.parse().ok());
                ApiError::body_too_large(claimed.unwrap_or(max_bytes + 1), max_bytes)
            }
            Refusal::BudgetExhausted => {
                ApiError::too_many_requests("too many bytes of requests in flight", 1)
                    .with_newline()
            }
            Refusal::GaveWay | Refusal::Stopping => ApiError {
                retry_after_s: Some(1),
                ..ApiError::unavailable(refusal.to_string()).with_newline()
            },
            other => ApiError::new(other.status(), other.to_string()).with_newline(),
        };
        let route = head.and_then(|head| match self.router.find(&head.method, &head.path) {
            Match::Found(&route, _) => Some(route),
            _ => None,
        });
        let of_push = route.map(|route| (route.row().metric_name, route.row().is_push()));
        self.core.tell_turned_away(of_push, head, peer, &error);
        if let Some(head) = head
            && let Some(access) = Access::begin(&self.core, head, peer, 0)
        {
            access.end(error.status, Duration::ZERO);
        }
        let mut response = match route {
            Some(route) => route.error_response(&error).with_route(route.row().metric_name),
            None => error_response(&error).with_route("other"),
        };
        if let Some(reader) = head.and_then(|head| self.reader(head)) {
            reader.admit(&mut response);
        }
        response
    }

    fn observe(&self, observation: &Observation<'_>) {
        let status = observation.status.as_u16();
        let (method, route) = (observation.method, observation.route);
        self.core.counters().requests.finished(method, route, status, observation.duration);
    }

    fn connections_changed(&self, open: usize) {
        self.core.counters().numbers.set(Metric::Connections, open as u64);
    }

    fn connection_refused(&self, peer: SocketAddr) {
        let why = "as many connections are open as may be";
        self.core.tell_connection("too_many_connections", peer, why);
        self.core.counters().numbers.add(Metric::ConnectionsRefused, 1);
    }
}

fn says_length(head: &RequestHead) -> bool {
    head.headers.contains_key(CONTENT_LENGTH) || head.headers.contains_key(TRANSFER_ENCODING)
}
