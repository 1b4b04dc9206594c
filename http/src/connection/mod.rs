//! One connection: requests in order, one at a time, each answered before the
//! next is looked at. Pipelined requests wait in the input buffer.
//!
//! Memory of an idle connection: its task (about 2 KiB) and one input buffer of
//! [`crate::IDLE_BUFFER_BYTES`]. Everything else is there only during a request.

mod respond;
mod streamed;

use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use http::{Method, Version};
use logsvc_runtime::{Listener, Monotonic, Owner, Runtime, Writer};

use crate::accept::accepts_gzip;
use crate::body::{Body, BodyReader};
use crate::config::{IDLE_BUFFER_BYTES, ServerConfig};
use crate::date::DateCache;
use crate::framing::Framing;
use crate::gzip::Compressors;
use crate::head::{HeadDecoder, RequestHead};
use crate::inbound::{Fill, Inbound, uninterrupted, until};
use crate::input::InputBuffer;
use crate::receiving::{Receiving, ReceivingGuard};
use crate::refusal::Refusal;
use crate::response::Response;
use crate::service::{Admission, Request, Service};
use crate::signal::{Disconnect, Signal};
use crate::websocket::{self, Upgrade};

/// Upper bound for the size of an idle connection's task and state, checked by a test.
#[cfg(test)]
const MAX_TASK_BYTES: usize = 2560;

/// A body is expected to take so much more memory when it is unpacked and read.
const UNPACKED_FACTOR: u64 = 8;
/// And so much at least, however small it is: little may unpack to much.
const UNPACKED_MIN_BYTES: u64 = 256 << 10;
/// Of the memory for bodies, the part that is waited for at most.
const HEADROOM_PART: u64 = 16;

/// State that all connections of one server share.
pub(crate) struct Shared<R, S> {
    pub(crate) runtime: R,
    pub(crate) service: Rc<S>,
    pub(crate) config: Rc<ServerConfig>,
    /// Idle connections close, and others after their current request.
    pub(crate) stopping: Signal,
    pub(crate) date: DateCache,
    pub(crate) compressors: Compressors,
    pub(crate) receiving: Rc<Receiving<R>>,
}

/// A connection that was accepted from an `L`, which may be another listener than the
/// runtime's own.
pub(crate) struct Connection<R: Runtime, L: Listener, S> {
    pub(crate) shared: Rc<Shared<R, S>>,
    pub(crate) inbound: Inbound<L::Reader>,
    pub(crate) writer: L::Writer,
    peer: SocketAddr,
    /// The owner of the memory of heads.
    owner: Owner,
    pub(crate) disconnect: Disconnect,
    heads: HeadDecoder,
}

/// The parts of a request that are used after its head went to the service.
pub(crate) struct Exchange {
    /// `None` if no head could be parsed.
    pub(crate) method: Option<Method>,
    pub(crate) version: Version,
    pub(crate) keep_alive: bool,
    pub(crate) accepts_gzip: bool,
    pub(crate) started: Monotonic,
    pub(crate) received_bytes: u64,
}

/// The next step of the connection after a response.
pub(crate) enum After {
    NextRequest,
    Close,
    /// Bytes of the request may still be on their way: see that the client gets
    /// to read the answer.
    Linger,
    Upgrade(Upgrade),
}

#[expect(clippy::large_enum_variant, reason = "heads are common, and moved once")]
enum NextHead {
    Head(RequestHead),
    Refused(Refusal),
    Ended,
}

enum BodyEnd {
    Refused(Refusal),
    Gone,
}

impl<R: Runtime, L: Listener, S: Service> Connection<R, L, S> {
    pub(crate) fn new(
        shared: Rc<Shared<R, S>>,
        reader: L::Reader,
        writer: L::Writer,
        peer: SocketAddr,
    ) -> Connection<R, L, S> {
        let budget = &shared.config.body_budget;
        let owner = budget.owner([Some(address_key(peer.ip())), None]);
        let heads = HeadDecoder::new(shared.config.head, budget.clone()).for_owner(owner);
        let inbound = Inbound::new(reader, InputBuffer::for_owner(owner));
        Connection { shared, inbound, writer, peer, owner, disconnect: Disconnect::new(), heads }
    }

    pub(crate) async fn run(mut self: Box<Self>) {
        let mut first = true;
        loop {
            let after = match self.next_head(first).await {
                // Boxed, so that an idle connection holds no memory for a request.
                NextHead::Head(head) => Box::pin(self.exchange(head)).await,
                NextHead::Refused(refusal) => Box::pin(self.refuse(refusal)).await,
                NextHead::Ended => return self.writer.close().await,
            };
            match after {
                After::NextRequest => first = false,
                After::Close if self.inbound.input.unread().is_empty() => {
                    return self.writer.close().await;
                }
                After::Close | After::Linger => return Box::pin(self.linger()).await,
                After::Upgrade(upgrade) => return Box::pin(self.upgrade(upgrade)).await,
            }
        }
    }

    async fn upgrade(self, upgrade: Upgrade) {
        let Connection { shared, inbound, writer, .. } = self;
        let (runtime, config) = (&shared.runtime, &shared.config);
        websocket::drive(runtime, config, inbound, writer, upgrade, &shared.stopping).await;
    }

    async fn next_head(&mut self, first: bool) -> NextHead {
        let shared = Rc::clone(&self.shared);
        let config = &shared.config;
        let mut deadline = None;
        let mut begun = false;
        let mut guard = None;
        let mut waits_since = None;
        loop {
            match self.heads.decode(&mut self.inbound.input) {
                Ok(Some(head)) => return NextHead::Head(head),
                Ok(None) => {}
                Err(Refusal::BudgetExhausted) => {
                    let guard = &*guard.get_or_insert_with(|| self.track(self.owner, false));
                    match Box::pin(guard.wait_for_room(&mut waits_since)).await {
                        Ok(()) => continue,
                        Err(refusal) => return NextHead::Refused(refusal),
                    }
                }
                Err(refusal) => return NextHead::Refused(refusal),
            }
            if !begun && self.heads.has_begun() {
                begun = true;
                if !first {
                    deadline = None;
                }
            }
            let deadline = *deadline.get_or_insert_with(|| {
                let timeout =
                    if first || begun { config.head_timeout } else { config.idle_timeout };
                shared.runtime.now().after(timeout)
            });
            if !begun {
                self.inbound.input.shrink();
            } else {
                let guard = guard.get_or_insert_with(|| self.track(self.owner, false));
                let input = &self.inbound.input;
                guard.note(input.unread().len() as u64, input.held_bytes());
            }
            let mut stop = (!begun).then(|| until(&shared.stopping));
            let interrupt = |cx: &mut Context<'_>| match (&mut stop, &guard) {
                (Some(stop), _) => stop(cx),
                (None, Some(guard)) => guard.poll_ended(cx).map(Fill::Interrupted),
                (None, None) => None,
            };
            let filled = self.inbound.fill(
                &shared.runtime,
                &config.body_budget,
                IDLE_BUFFER_BYTES,
                deadline,
                interrupt,
            );
            match filled.await {
                Fill::Data => waits_since = None,
                Fill::TimedOut if begun => return NextHead::Refused(Refusal::HeadTimeout),
                Fill::Interrupted(refusal) => return NextHead::Refused(refusal),
                Fill::NoMemory => {
                    let guard = &*guard.get_or_insert_with(|| self.track(self.owner, false));
                    if let Err(refusal) = Box::pin(guard.wait_for_room(&mut waits_since)).await {
                        return NextHead::Refused(refusal);
                    }
                }
                Fill::TimedOut | Fill::Ended | Fill::Stopped => return NextHead::Ended,
            }
        }
    }

    /// Whose memory a body takes.
    fn body_owner(&self, account: Option<u64>) -> Owner {
        self.shared.config.body_budget.owner([Some(address_key(self.peer.ip())), account])
    }

    /// Begins to watch the receiving of a head or body.
    fn track(&self, owner: Owner, is_body: bool) -> ReceivingGuard<R> {
        self.shared.receiving.begin(owner, is_body)
    }

    /// Answers a request that has no usable head.
    async fn refuse(&mut self, refusal: Refusal) -> After {
        let exchange = Exchange {
            method: None,
            version: Version::HTTP_11,
            keep_alive: false,
            accepts_gzip: false,
            started: self.shared.runtime.now(),
            received_bytes: 0,
        };
        let response = self.shared.service.refusal(None, refusal, self.peer);
        self.respond(&exchange, response).await;
        After::Linger
    }

    async fn exchange(&mut self, head: RequestHead) -> After {
        let mut exchange = Exchange {
            method: Some(head.method.clone()),
            version: head.version,
            keep_alive: head.keep_alive,
            accepts_gzip: accepts_gzip(&head.headers),
            started: self.shared.runtime.now(),
            received_bytes: 0,
        };
        let (max_bytes, account) = match self.shared.service.admit(&head, self.peer) {
            Admission::Body { max_bytes, account } => (max_bytes, account),
            Admission::Stream { account } => {
                let owner = self.body_owner(account);
                return Box::pin(self.exchange_streamed(exchange, head, owner)).await;
            }
            Admission::Refuse(response) => {
                return Box::pin(self.refuse_admission(exchange, &head, response)).await;
            }
        };
        let body = if head.framing == Framing::None {
            Body::default()
        } else {
            let owner = self.body_owner(account);
            match self.read_body(&head, max_bytes, owner, exchange.started).await {
                Ok(body) => body,
                Err(BodyEnd::Gone) => return After::Close,
                Err(BodyEnd::Refused(refusal)) => {
                    exchange.keep_alive = false;
                    let response = self.shared.service.refusal(Some(&head), refusal, self.peer);
                    Box::pin(self.respond(&exchange, response)).await;
                    return After::Linger;
                }
            }
        };
        exchange.received_bytes = body.len() as u64;
        let disconnect = self.disconnect.clone();
        let request = Request { head, body, stream: None, peer: self.peer, disconnect };
        let service = Rc::clone(&self.shared.service);
        // Boxed, so that an upload does not hold the memory of the largest route's
        // state.
        let response = self.watching(Box::pin(service.call(request))).await;
        self.respond(&exchange, response).await
    }

    /// Answers a request whose body is not wanted.
    async fn refuse_admission(
        &mut self,
        mut exchange: Exchange,
        head: &RequestHead,
        response: Response,
    ) -> After {
        let unread_bytes = match head.framing {
            Framing::None => return self.respond(&exchange, response).await,
            Framing::Length(len_bytes)
                if len_bytes <= self.shared.config.linger_max_bytes && !head.expects_continue =>
            {
                len_bytes
            }
            Framing::Length(_) | Framing::Chunked => {
                exchange.keep_alive = false;
                self.respond(&exchange, response).await;
                return After::Linger;
            }
        };
        match self.respond(&exchange, response).await {
            After::NextRequest => {}
            After::Close => return After::Linger,
            other => return other,
        }
        self.skip_body(unread_bytes, exchange.started).await
    }

    async fn skip_body(&mut self, mut left_bytes: u64, started: Monotonic) -> After {
        let shared = Rc::clone(&self.shared);
        let config = &shared.config;
        let deadline = started.after(config.with_rate(config.body_timeout, left_bytes));
        loop {
            let unread_bytes = self.inbound.input.unread().len();
            let skip_bytes = usize::try_from(left_bytes).unwrap_or(usize::MAX).min(unread_bytes);
            self.inbound.input.consume(skip_bytes);
            left_bytes -= skip_bytes as u64;
            if left_bytes == 0 {
                return After::NextRequest;
            }
            let filled = self.inbound.fill(
                &shared.runtime,
                &config.body_budget,
                IDLE_BUFFER_BYTES,
                deadline,
                uninterrupted,
            );
            if filled.await != Fill::Data {
                return After::Close;
            }
        }
    }

    async fn read_body(
        &mut self,
        head: &RequestHead,
        max_bytes: u64,
        owner: Owner,
        started: Monotonic,
    ) -> Result<Body, BodyEnd> {
        let shared = Rc::clone(&self.shared);
        let config = &shared.config;
        let mut body = BodyReader::new(head.framing, max_bytes, &config.body_budget, &config.pool)
            .map_err(BodyEnd::Refused)?
            .for_owner(owner);
        if head.expects_continue && self.inbound.input.unread().is_empty() {
            let deadline = shared.runtime.now().after(config.write_timeout);
            let line = b"HTTP/1.1 100 Continue\r\n\r\n".to_vec();
            let (written, _) = self.writer.write_all(line, deadline).await;
            written.map_err(|_| BodyEnd::Gone)?;
        }
        // Most bodies are there when they are first looked at, and are not watched.
        let mut guard = None;
        let mut waits_since = None;
        loop {
            let has_memory = match body.decode(&mut self.inbound.input) {
                Ok(true) => {
                    let mut body = body.finish();
                    self.make_headroom(&mut body, owner, guard).await;
                    return Ok(body);
                }
                Ok(false) => true,
                Err(Refusal::BudgetExhausted) => false,
                Err(refusal) => return Err(BodyEnd::Refused(refusal)),
            };
            let guard = &*guard.get_or_insert_with(|| self.track(owner, true));
            let filled = if has_memory {
                let held_bytes = body.held_bytes() + self.inbound.input.held_bytes();
                guard.note(body.received_bytes(), held_bytes);
                let timeout = config.with_rate(config.body_timeout, body.received_bytes());
                let interrupt = |cx: &mut Context<'_>| guard.poll_ended(cx).map(Fill::Interrupted);
                let filled = self.inbound.fill_body(
                    &shared.runtime,
                    &config.body_budget,
                    &mut body,
                    started.after(timeout),
                    interrupt,
                );
                filled.await
            } else {
                Fill::NoMemory
            };
            match filled {
                Fill::Data => waits_since = None,
                Fill::Ended | Fill::Stopped => return Err(BodyEnd::Gone),
                Fill::TimedOut => return Err(BodyEnd::Refused(Refusal::BodyTimeout)),
                Fill::Interrupted(refusal) => return Err(BodyEnd::Refused(refusal)),
                Fill::NoMemory => {
                    let room = Box::pin(guard.wait_for_room(&mut waits_since));
                    room.await.map_err(BodyEnd::Refused)?;
                }
            }
        }
    }

    /// Reserves memory for the decoding of a complete body by the service, as far as the driver can
    /// know, and waits for it if there is none. It is the service that refuses the request if there
    /// is none in the end. While half of the memory is free the service finds some itself.
    async fn make_headroom(&self, body: &mut Body, owner: Owner, guard: Option<ReceivingGuard<R>>) {
        let budget = &self.shared.config.body_budget;
        let wanted_bytes = (body.len() as u64).saturating_mul(UNPACKED_FACTOR);
        let wanted_bytes = wanted_bytes.max(UNPACKED_MIN_BYTES);
        let wanted_bytes = wanted_bytes.min(budget.max_bytes() / HEADROOM_PART);
        if body.is_empty() || budget.used_bytes() < budget.max_bytes() / 2 {
            return;
        }
        let mut guard = guard;
        let mut waits_since = None;
        loop {
            if let Some(headroom) = budget.try_reserve_for(owner, wanted_bytes) {
                body.set_headroom(headroom);
                return;
            }
            let guard = guard.get_or_insert_with(|| self.track(owner, true));
            if Box::pin(guard.wait_for_room(&mut waits_since)).await.is_err() {
                return;
            }
        }
    }

    /// Waits for `future` and watches meanwhile whether the client goes away.
    /// Nothing is read if the future is ready at once.
    pub(crate) async fn watching<F: Future + ?Sized>(
        &mut self,
        mut future: Pin<Box<F>>,
    ) -> F::Output {
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(output),
            Poll::Pending => {
                self.inbound.poll_read_ahead(cx, &self.disconnect);
                Poll::Pending
            }
        })
        .await
    }

    /// Closes so that the client reads the answer: closing a socket that has
    /// unread bytes resets the connection, and the reset may overtake the answer.
    async fn linger(mut self) {
        let shared = Rc::clone(&self.shared);
        let config = &shared.config;
        if self.writer.shutdown().await.is_err() || self.inbound.has_ended() {
            return;
        }
        let deadline = shared.runtime.now().after(config.linger_timeout);
        if self.inbound.was_cut_off() {
            // The reset has to wait until the client has had time to read.
            return shared.runtime.sleep_until(deadline).await;
        }
        let max_bytes = config.linger_max_bytes;
        self.inbound.drain(&shared.runtime, &config.body_budget, max_bytes, deadline).await;
    }
}

/// The key of a client by its address. For IPv6 it is the network, since one client has as many
/// addresses of it as it likes.
fn address_key(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_runtime::monoio_backend::{MonoioListener, MonoioRuntime};

    struct NoService;

    impl Service for NoService {
        fn admit(&self, _head: &RequestHead, _peer: SocketAddr) -> Admission {
            Admission::Body { max_bytes: 0, account: None }
        }

        async fn call(&self, request: Request) -> Response {
            // A large state of a route must not be part of an idle connection.
            let state = [request.body.len() as u8; 20_000];
            request.disconnect.wait().await;
            Response::text(http::StatusCode::OK, String::from_utf8_lossy(&state).into_owned())
        }
    }

    fn output_size_bytes<A, F>(_: impl FnOnce(A) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn an_idle_connection_s_task_is_small() {
        let task_bytes =
            output_size_bytes(Connection::<MonoioRuntime, MonoioListener, NoService>::run)
                + size_of::<Connection<MonoioRuntime, MonoioListener, NoService>>();
        assert!(task_bytes <= MAX_TASK_BYTES, "{task_bytes} bytes");
    }
}
