//! A request whose handler takes the body while it arrives.
//!
//! Guarantees: the connection holds one piece and one input buffer, however long the body is. It
//! reads only while the handler waits for a piece. `100 Continue` goes out when the handler first
//! waits. Bodies have to come as fast as others, but time in which the handler does not read does
//! not count. The connection lives on after a complete body. When the server stops, the rest of
//! the body is refused, so that the client repeats it elsewhere.
//!
//! A handler that answers before the end of the body ends the connection, unless the rest of the
//! body has come already. Reads are never dropped with their bytes: they belong to the read-ahead.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use futures_util::future::{Either, select};
use logsvc_runtime::{Listener, Owner, Runtime, Writer};

use super::{After, Connection, Exchange};
use crate::body::Body;
use crate::framing::Framing;
use crate::head::RequestHead;
use crate::inbound::Fill;
use crate::pieces::BodyPieces;
use crate::refusal::Refusal;
use crate::service::{Request, Service};
use crate::stream::{PIECE_BYTES, StreamFault, StreamSource, body_stream};

impl<R: Runtime, L: Listener, S: Service> Connection<R, L, S> {
    /// Answers a request whose body is streamed to its handler.
    pub(super) async fn exchange_streamed(
        &mut self,
        mut exchange: Exchange,
        head: RequestHead,
        owner: Owner,
    ) -> After {
        let (source, stream) = body_stream();
        let mut pieces = BodyPieces::new(head.framing);
        let expects_continue = head.expects_continue && head.framing != Framing::None;
        // Refusals are made of the head.
        let Some(kept_head) = head.try_copy(&self.shared.config.body_budget, owner) else {
            exchange.keep_alive = false;
            let refusal = Refusal::BudgetExhausted;
            let refused = self.shared.service.refusal(Some(&head), refusal, self.peer);
            self.respond(&exchange, refused).await;
            return After::Linger;
        };
        let request = Request {
            head,
            body: Body::default(),
            stream: Some(stream),
            peer: self.peer,
            disconnect: self.disconnect.clone(),
        };
        let service = Rc::clone(&self.shared.service);
        let mut answer = Box::pin(service.call(request));
        let pumped = {
            let pump = Box::pin(self.pump_body(&mut pieces, &source, owner, expects_continue));
            match select(answer.as_mut(), pump).await {
                Either::Left((response, _)) => Either::Left(response),
                Either::Right((end, _)) => Either::Right(end),
            }
        };
        let (response, end) = match pumped {
            Either::Left(response) => (response, Ok(())),
            Either::Right(end) => {
                source.end(end);
                (self.watching(answer).await, end)
            }
        };
        exchange.received_bytes = pieces.received_bytes();
        match end {
            Ok(()) if self.has_whole_body(&mut pieces) => self.respond(&exchange, response).await,
            Ok(()) => {
                exchange.keep_alive = false;
                self.respond(&exchange, response).await;
                After::Linger
            }
            Err(StreamFault::Gone) => After::Close,
            Err(StreamFault::Refused(refusal)) => {
                exchange.keep_alive = false;
                let refused = self.shared.service.refusal(Some(&kept_head), refusal, self.peer);
                self.respond(&exchange, refused).await;
                After::Linger
            }
        }
    }

    /// Whether the body is complete, perhaps with bytes that have come and that nobody wanted.
    fn has_whole_body(&mut self, pieces: &mut BodyPieces) -> bool {
        let mut unwanted = Vec::new();
        pieces.decode(&mut self.inbound.input, &mut unwanted).is_ok() && pieces.is_done()
    }

    /// Hands the body over as its handler asks for it, until it ends.
    async fn pump_body(
        &mut self,
        pieces: &mut BodyPieces,
        source: &StreamSource,
        owner: Owner,
        mut expects_continue: bool,
    ) -> Result<(), StreamFault> {
        let shared = Rc::clone(&self.shared);
        let (config, runtime) = (&shared.config, &shared.runtime);
        let mut guard = None;
        let mut waits_since = None;
        // Stands for the piece that is on its way.
        let mut memory = None;
        let mut stopped = shared.stopping.wait();
        while !pieces.is_done() {
            let Connection { inbound, disconnect, .. } = &mut *self;
            poll_fn(|cx| {
                let wanted = source.poll_wanted(cx);
                if wanted.is_pending() {
                    inbound.poll_read_ahead(cx, disconnect);
                }
                wanted
            })
            .await;
            if shared.stopping.is_set() {
                return Err(StreamFault::Refused(Refusal::Stopping));
            }
            let guard = &*guard.get_or_insert_with(|| self.track(owner, true));
            if memory.is_none() {
                memory = config.body_budget.try_reserve_for(owner, PIECE_BYTES as u64);
                if memory.is_none() {
                    let room = Box::pin(guard.wait_for_room(&mut waits_since));
                    room.await.map_err(StreamFault::Refused)?;
                    continue;
                }
            }
            if expects_continue && self.inbound.input.unread().is_empty() {
                let deadline = runtime.now().after(config.write_timeout);
                let line = b"HTTP/1.1 100 Continue\r\n\r\n".to_vec();
                let (written, _) = self.writer.write_all(line, deadline).await;
                written.map_err(|_| StreamFault::Gone)?;
            }
            expects_continue = false;
            let mut piece = Vec::with_capacity(self.inbound.input.unread().len());
            let decoded = pieces.decode(&mut self.inbound.input, &mut piece);
            let is_given = !piece.is_empty();
            source.give(piece);
            decoded.map_err(StreamFault::Refused)?;
            let held_bytes = PIECE_BYTES as u64 + self.inbound.input.held_bytes();
            guard.note(pieces.received_bytes(), held_bytes);
            if is_given {
                guard.pause();
                continue;
            }
            if pieces.is_done() {
                return Ok(());
            }
            let interrupt = |cx: &mut Context<'_>| match Pin::new(&mut stopped).poll(cx) {
                Poll::Ready(()) => Some(Fill::Interrupted(Refusal::Stopping)),
                Poll::Pending => guard.poll_ended(cx).map(Fill::Interrupted),
            };
            let deadline = runtime.now().after(config.body_timeout);
            let budget = &config.body_budget;
            let filled =
                pin!(self.inbound.fill_ahead(runtime, budget, PIECE_BYTES, deadline, interrupt));
            match filled.await {
                Fill::Data => waits_since = None,
                Fill::Ended | Fill::Stopped => return Err(StreamFault::Gone),
                Fill::TimedOut => return Err(StreamFault::Refused(Refusal::BodyTimeout)),
                Fill::Interrupted(refusal) => return Err(StreamFault::Refused(refusal)),
                Fill::NoMemory => {
                    let room = Box::pin(guard.wait_for_room(&mut waits_since));
                    room.await.map_err(StreamFault::Refused)?;
                }
            }
        }
        Ok(())
    }
}
