//! One connection: bytes become messages, messages become records, and records are stored before
//! more bytes are read.
//!
//! Guarantees: a message that is too long, badly formed or refused never closes the connection.

use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use logsvc_proto::syslog::{Framer, STEP_ROOM_BYTES};
use logsvc_runtime::{Monotonic, Reader, Runtime, Writer};

use super::pending::{BYTES_PER_ROOM, Came, Pending};
use super::{Intake, mapping};
use crate::metrics::Metric;

/// The room for bytes that were read, at first.
const ROOM_MIN_BYTES: usize = 4 << 10;

/// The room of a connection on which more comes than fits, if its messages are short.
const ROOM_BUSY_BYTES: usize = 64 << 10;

/// See the module.
pub(super) struct Connection<R: Runtime> {
    intake: Rc<Intake<R>>,
    peer: SocketAddr,
    framer: Framer,
    pending: Pending<R>,
    times: mapping::Times,
}

impl<R: Runtime> Connection<R> {
    pub(super) fn new(intake: Rc<Intake<R>>, peer: SocketAddr, counted: Metric) -> Connection<R> {
        let framer = Framer::new(intake.core.config().syslog.message_max_bytes);
        let pending = Pending::new(Rc::clone(&intake), counted);
        Connection { intake, peer, framer, pending, times: mapping::Times::default() }
    }

    /// Takes messages until the sender ends the stream, is silent for too long, or the node stops.
    pub(super) async fn run(mut self, reader: impl Reader, mut writer: impl Writer) {
        let intake = Rc::clone(&self.intake);
        let node = &intake.core.node;
        {
            let mut taking = pin!(self.take(reader));
            if let Either::Left(_) = select(taking.as_mut(), pin!(node.stop.wait())).await {
                writer.close().await;
                return;
            }
            // The reader goes on for a moment, and then reports the end of the stream.
            let runtime = &intake.core.runtime;
            let patience = intake.core.config().graceful_stop_timeout;
            let deadline = pin!(runtime.sleep_until(runtime.now().after(patience)));
            let ending = pin!(async {
                // Fails only if the sender has gone.
                let _ = writer.shutdown().await;
                taking.await;
            });
            if let Either::Left(_) = select(ending, deadline).await {
                return;
            }
        }
        self.pending.give_up(self.peer, "the node stops");
    }

    async fn take(&mut self, mut reader: impl Reader) {
        let intake = Rc::clone(&self.intake);
        let (core, runtime) = (&intake.core, &intake.core.runtime);
        let settings = &core.config().syslog;
        let room_max = settings.message_max_bytes + STEP_ROOM_BYTES;
        let mut buffer: Vec<u8> = Vec::new();
        let mut memory = intake.reserve(ROOM_MIN_BYTES).await;
        buffer.reserve_exact(ROOM_MIN_BYTES);
        loop {
            let deadline = match settings.idle_timeout {
                Duration::ZERO => Monotonic::NEVER,
                timeout => runtime.now().after(timeout),
            };
            let (outcome, returned) = reader.read(buffer, deadline).await;
            buffer = returned;
            let is_end = !matches!(outcome, Ok(count) if count > 0);
            let done = self.collect(&buffer, is_end);
            self.pending.store(self.peer).await;
            if is_end {
                return;
            }
            let capacity = buffer.capacity();
            let was_full = buffer.len() == capacity;
            buffer.drain(..done);
            let room = (capacity * 2).min(room_max);
            if buffer.len() == capacity {
                // Until there is memory for the whole message, the sender waits.
                memory = intake.reserve(room).await;
                buffer.reserve_exact(room - buffer.len());
            } else if was_full && room <= ROOM_BUSY_BYTES {
                if memory.try_grow(BYTES_PER_ROOM * (room - capacity) as u64) {
                    buffer.reserve_exact(room - buffer.len());
                }
            } else if buffer.is_empty() && !was_full && capacity > ROOM_MIN_BYTES {
                buffer = Vec::new();
                self.pending.release();
                buffer.reserve_exact(ROOM_MIN_BYTES);
                memory.shrink_to(BYTES_PER_ROOM * ROOM_MIN_BYTES as u64);
            }
        }
    }

    /// Makes records of all messages that are whole. Gives the number of bytes that are done.
    fn collect(&mut self, input: &[u8], is_end: bool) -> usize {
        let mut done = 0;
        loop {
            let (step, frame) = self.framer.step(&input[done..], is_end);
            done += step;
            if let Some(frame) = frame {
                let unix_ns = self.intake.core.runtime.unix_nanos();
                self.pending.add(&Came { frame, peer: self.peer, unix_ns }, &mut self.times);
            }
            if step == 0 {
                return done;
            }
        }
    }
}
