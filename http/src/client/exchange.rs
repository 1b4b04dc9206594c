//! Sends requests: finds or opens a connection, writes, and waits for the head of the answer.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use http::{HeaderMap, Method};
use logsvc_runtime::{Dial, Monotonic, Runtime, Writer};

use super::config::ClientConfig;
use super::decode::{Piece, ResponseDecoder, ResponseHead};
use super::encode::{BodyMark, HeadParts, encode_head};
use super::fault::{ClientError, Fault};
use super::link::Link;
use super::pool::Pool;
use super::proxy::{Proxy, Route};
use super::request::{ClientRequest, RequestBody};
use super::response::{ClientResponse, Home};
use super::sending::{Failure, Sending, Stop, copied_bytes};
use super::target::Origin;

/// Room for a usual head.
const HEAD_BYTES: usize = 512;
/// How long the answer of a server is waited for that has stopped to read the request.
const LAST_WORDS: Duration = Duration::from_secs(2);
const CONNECTING: &str = "connecting";

/// Sends requests and keeps connections. Cheap to clone; clones share the connections. Stays on
/// its core.
pub struct Client<R, D: Dial> {
    inner: Rc<Inner<R, D>>,
}

struct Inner<R, D: Dial> {
    runtime: R,
    dialer: D,
    config: ClientConfig,
    pool: Rc<Pool<D::Reader, D::Writer>>,
    opened: Cell<u64>,
}

impl<R, D: Dial> Clone for Client<R, D> {
    fn clone(&self) -> Client<R, D> {
        Client { inner: Rc::clone(&self.inner) }
    }
}

type LinkOf<D> = Link<<D as Dial>::Reader, <D as Dial>::Writer>;

impl<R: Runtime, D: Dial> Client<R, D> {
    /// A client whose connections come from `dialer`.
    pub fn new(runtime: R, dialer: D, config: ClientConfig) -> Client<R, D> {
        let pool = Pool::new(config.max_idle_per_destination, config.max_idle, config.idle_timeout);
        let pool = Rc::new(pool);
        Client { inner: Rc::new(Inner { runtime, dialer, config, pool, opened: Cell::new(0) }) }
    }

    /// How many connections wait for their next request.
    pub fn idle_connections(&self) -> usize {
        self.inner.pool.count()
    }

    /// How many connections were opened so far.
    pub fn opened_connections(&self) -> u64 {
        self.inner.opened.get()
    }

    /// Sends a request and waits for the head of its answer; an answer with a bad status is an
    /// answer. Dropping the future closes the connection.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn send(&self, request: ClientRequest) -> Result<ClientResponse<R, D>, ClientError> {
        // Boxed, so that callers' futures stay small.
        Box::pin(self.inner.send(request)).await
    }
}

impl<R: Runtime, D: Dial> Inner<R, D> {
    async fn send(&self, mut request: ClientRequest) -> Result<ClientResponse<R, D>, ClientError> {
        let now = self.runtime.now();
        let deadline = request.timeout.map_or(Monotonic::NEVER, |timeout| now.after(timeout));
        let (route, proxy) = self.config.proxies.route(&request.target);
        let home = Home {
            runtime: self.runtime.clone(),
            pool: Rc::clone(&self.pool),
            route,
            destination: request.target.origin.to_string(),
            progress_timeout: self.config.progress_timeout,
            deadline,
        };
        let mut kept = self.pool.take(&home.route);
        loop {
            let mut link = match kept.take() {
                Some(link) => link,
                None => match self.connect(&home.route, proxy.as_deref(), deadline).await {
                    Ok(link) => link,
                    Err(fault) => return Err(home.error(fault)),
                },
            };
            let mut decoder = self.decoder(&request);
            let sent =
                self.exchange(&mut link, &mut decoder, &mut request, proxy.as_deref(), deadline);
            match sent.await {
                Ok((head, is_sent)) => {
                    return Ok(ClientResponse::new(head, home, link, decoder, is_sent));
                }
                // Another kept connection may be just as dead, so the next one is new.
                Err(failure) if failure.may_be_stale && link.is_reused && request.may_repeat() => {}
                Err(failure) => return Err(home.error(failure.fault)),
            }
        }
    }

    fn decoder(&self, request: &ClientRequest) -> ResponseDecoder {
        let mut limits = self.config.answer;
        if let Some(max_body_bytes) = request.max_body_bytes {
            limits.max_body_bytes = max_body_bytes;
        }
        ResponseDecoder::new(limits, request.method == Method::HEAD)
    }

    async fn connect(
        &self,
        route: &Route,
        proxy: Option<&Proxy>,
        deadline: Monotonic,
    ) -> Result<LinkOf<D>, Fault> {
        let until = self.runtime.now().after(self.config.connect_timeout).min(deadline);
        let dial = |origin: &Origin, is_secure| {
            let (host, port) = (origin.host.clone(), origin.port);
            async move { self.dialer.dial(&host, port, is_secure, until).await }
        };
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::TimedOut => Fault::TimedOut(CONNECTING),
            _ => Fault::Connect(error),
        };
        let failed_proxy = |origin: &Origin, error: io::Error| match error.kind() {
            io::ErrorKind::TimedOut => Fault::TimedOut(CONNECTING),
            _ => Fault::Proxy { proxy: origin.to_string(), reason: error.to_string() },
        };
        let (reader, writer) = match route {
            Route::Direct(origin) => dial(origin, origin.is_secure).await.map_err(failed)?,
            Route::Forward { proxy, .. } => {
                let dialed = dial(proxy, proxy.is_secure).await;
                dialed.map_err(|error| failed_proxy(proxy, error))?
            }
            Route::Tunnel { proxy: origin, host, .. } => {
                if origin.is_secure {
                    let reason = "TLS within TLS is not supported".to_owned();
                    return Err(Fault::Proxy { proxy: origin.to_string(), reason });
                }
                let dialed = dial(origin, false).await;
                let (reader, writer) = dialed.map_err(|error| failed_proxy(origin, error))?;
                let link = Link::new(reader, writer);
                let (reader, writer) = self.open_tunnel(link, origin, proxy, host, until).await?;
                let secured = self.dialer.secure(reader, writer, &host.host, until).await;
                secured.map_err(failed)?
            }
        };
        self.opened.set(self.opened.get() + 1);
        Ok(Link::new(reader, writer))
    }

    /// Has a proxy pass bytes on to the host.
    async fn open_tunnel(
        &self,
        mut link: LinkOf<D>,
        origin: &Origin,
        proxy: Option<&Proxy>,
        host: &Origin,
        deadline: Monotonic,
    ) -> Result<(D::Reader, D::Writer), Fault> {
        let refused = |reason: String| Fault::Proxy { proxy: origin.to_string(), reason };
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::TimedOut => Fault::TimedOut(CONNECTING),
            _ => refused(error.to_string()),
        };
        let mut out = Vec::with_capacity(HEAD_BYTES);
        let host = host.to_string();
        encode_head(
            &mut out,
            &HeadParts {
                method: &Method::CONNECT,
                target: &host,
                host: &host,
                headers: &HeaderMap::new(),
                user_agent: &self.config.user_agent,
                authorization: None,
                proxy_authorization: proxy.and_then(|proxy| proxy.authorization.as_ref()),
                mark: BodyMark::None,
                expects_continue: false,
            },
        );
        link.writer.write_all(out, deadline).await.0.map_err(failed)?;
        let mut decoder = ResponseDecoder::for_tunnel(self.config.answer);
        loop {
            match decoder.decode(&mut link.incoming.unread) {
                Err(error) => return Err(refused(error.to_string())),
                Ok(Some(Piece::Head(head))) if head.status.is_success() => break,
                Ok(Some(Piece::Head(head))) => {
                    return Err(refused(format!("no tunnel: {}", head.status)));
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    if !link.incoming.fill(&self.runtime, deadline).await.map_err(failed)? {
                        return Err(refused("it closed the connection".to_owned()));
                    }
                }
            }
        }
        // The host speaks only when it was spoken to.
        let halves = link.into_halves();
        halves.ok_or_else(|| refused("there are bytes behind its answer".to_owned()))
    }

    /// Sends a request on a connection. Gives the head of the answer, and whether the server has
    /// taken the whole request.
    async fn exchange(
        &self,
        link: &mut LinkOf<D>,
        decoder: &mut ResponseDecoder,
        request: &mut ClientRequest,
        proxy: Option<&Proxy>,
        deadline: Monotonic,
    ) -> Result<(ResponseHead, bool), Failure> {
        let config = &self.config;
        let len_bytes = request.body.len_bytes();
        let expects_continue = config
            .expect_continue_min_bytes
            .is_some_and(|least| len_bytes.is_none_or(|len_bytes| len_bytes >= least.max(1)));
        let mut out = Vec::with_capacity(HEAD_BYTES + copied_bytes(&request.body));
        self.put_head(&mut out, request, proxy, expects_continue);
        let mut sending = Sending {
            runtime: &self.runtime,
            config,
            deadline,
            incoming: &mut link.incoming,
            writer: &mut link.writer,
            decoder,
            early: None,
            may_go_on: false,
        };
        match sending.send(out, &mut request.body, expects_continue).await {
            Ok(()) => Ok((sending.await_head(config.head_timeout).await?, true)),
            Err(Stop::Answered) => Ok((sending.await_head(Duration::ZERO).await?, false)),
            // The server may have said why before it stopped to read.
            Err(Stop::Unsent(error)) => match sending.await_head(LAST_WORDS).await {
                Ok(head) => Ok((head, false)),
                Err(_) => {
                    let may_be_stale = !sending.decoder.has_begun();
                    Err(Failure { fault: Fault::Connection(error), may_be_stale })
                }
            },
            Err(Stop::Failed(failure)) => Err(failure),
        }
    }

    fn put_head(
        &self,
        out: &mut Vec<u8>,
        request: &ClientRequest,
        proxy: Option<&Proxy>,
        expects_continue: bool,
    ) {
        let target = &request.target;
        let forward = proxy.filter(|_| !target.is_secure());
        let absolute = forward.map(|_| target.absolute());
        let mark = match &request.body {
            RequestBody::Stream { len_bytes: None, .. } => BodyMark::Chunked,
            RequestBody::Stream { len_bytes: Some(len_bytes), .. } => BodyMark::Length(*len_bytes),
            RequestBody::Full(bytes) => BodyMark::Length(bytes.len() as u64),
            RequestBody::Shared(bytes) => BodyMark::Length(bytes.len() as u64),
            // Without a length, servers may wait for a body of these methods.
            RequestBody::Empty
                if [Method::POST, Method::PUT, Method::PATCH].contains(&request.method) =>
            {
                BodyMark::Length(0)
            }
            RequestBody::Empty => BodyMark::None,
        };
        encode_head(
            out,
            &HeadParts {
                method: &request.method,
                target: absolute.as_deref().unwrap_or(target.path_and_query()),
                host: &target.host_header,
                headers: &request.headers,
                user_agent: &self.config.user_agent,
                authorization: target.authorization.as_ref(),
                proxy_authorization: forward.and_then(|proxy| proxy.authorization.as_ref()),
                mark,
                expects_continue,
            },
        );
    }
}
