//! Runs a WebSocket over a connection: the handler, a loop that reads and one
//! that writes, all on the connection's task.

use std::future::poll_fn;
use std::pin::pin;

use futures_util::future::{Either, join, select};
use logsvc_runtime::{Monotonic, Reader, Runtime, Writer};

use super::frame::Opcode;
use super::message::{Event, MessageDecoder};
use super::socket::{State, Upgrade, WebSocket};
use super::{CloseReason, code};
use crate::config::{IDLE_BUFFER_BYTES, ServerConfig};
use crate::inbound::{Fill, Inbound, uninterrupted};
use crate::signal::Signal;

/// Write buffers up to this size are used again.
const MAX_KEPT_BYTES: usize = 64 * 1024;

/// Runs until the handler has ended and the closing handshake is done, or failed.
pub(crate) async fn drive<R: Runtime, Rd: Reader, W: Writer>(
    runtime: &R,
    config: &ServerConfig,
    mut inbound: Inbound<Rd>,
    mut writer: W,
    upgrade: Upgrade,
    stopping: &Signal,
) {
    let Upgrade { config: limits, handler } = upgrade;
    let state = State::new(limits);
    let mut handler = handler(WebSocket { state: state.clone() });
    let session = async {
        if let Either::Right(_) = select(&mut handler, stopping.wait()).await {
            state.close(CloseReason::new(code::GOING_AWAY, "the server stops"));
            handler.await;
        }
        state.close(CloseReason::new(code::NORMAL, ""));
    };
    {
        let decoder = MessageDecoder::new(limits.max_message_bytes);
        let read = pin!(read_loop(runtime, config, &mut inbound, decoder, &state));
        let work = pin!(join(session, write_loop(runtime, config, &mut writer, &state)));
        match select(work, read).await {
            Either::Left((_, read)) => {
                let deadline = runtime.now().after(limits.close_timeout);
                // Whether the client answered in time makes no difference.
                let _ = select(read, pin!(runtime.sleep_until(deadline))).await;
            }
            Either::Right((_, work)) => {
                work.await;
            }
        }
    }
    // A failure means that the client was faster to close.
    let _ = writer.shutdown().await;
}

/// Reads until the client closes or the connection ends. After a breach of the protocol it reads on
/// and drops the bytes, so that the client gets to see the close frame.
async fn read_loop<R: Runtime, Rd: Reader>(
    runtime: &R,
    config: &ServerConfig,
    inbound: &mut Inbound<Rd>,
    mut decoder: MessageDecoder,
    state: &State,
) {
    let budget = &config.body_budget;
    loop {
        while !inbound.input.unread().is_empty() {
            poll_fn(|cx| state.poll_may_receive(cx)).await;
            match decoder.decode(inbound.input.unread()) {
                Ok((consumed, event)) => {
                    inbound.input.consume(consumed);
                    match event {
                        Some(Event::Message(message)) => {
                            if !state.is_closed() {
                                state.receive(message);
                            }
                        }
                        Some(Event::Ping(payload)) => state.queue_control(Opcode::Pong, &payload),
                        Some(Event::Close(reason)) => return state.close(reason),
                        Some(Event::Pong(_)) | None => {}
                    }
                }
                Err(reason) => {
                    state.close(reason);
                    let max_bytes = config.linger_max_bytes;
                    inbound.drain(runtime, budget, max_bytes, Monotonic::NEVER).await;
                    return;
                }
            }
        }
        let filled =
            inbound.fill(runtime, budget, IDLE_BUFFER_BYTES, Monotonic::NEVER, uninterrupted);
        if filled.await != Fill::Data {
            return state.fail();
        }
    }
}

/// Writes until all is written and no more can come.
async fn write_loop<R: Runtime, W: Writer>(
    runtime: &R,
    config: &ServerConfig,
    writer: &mut W,
    state: &State,
) {
    let mut spare = Vec::new();
    while let Some(out) = poll_fn(|cx| state.poll_output(cx, &mut spare)).await {
        let timeout = config.with_rate(config.write_timeout, out.len() as u64);
        let deadline = runtime.now().after(timeout);
        let (written, mut buffer) = writer.write_all(out, deadline).await;
        if written.is_err() {
            return state.fail();
        }
        buffer.clear();
        if buffer.capacity() <= MAX_KEPT_BYTES {
            spare = buffer;
        }
        state.written();
    }
}
