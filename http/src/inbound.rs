//! The receiving half of a connection.
//!
//! While an answer is being made, the driver reads ahead, because that is the
//! only way to notice that the client went away. Such a read must never be
//! dropped on a connection that lives on: on both real backends the bytes that
//! it received would be lost. So the read-ahead owns the reader and the buffer
//! and stays here until it ends, and the next request's first read is that one.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use logsvc_runtime::{Budget, Monotonic, Reader, Runtime};

use crate::body::BodyReader;
use crate::config::IDLE_BUFFER_BYTES;
use crate::input::InputBuffer;
use crate::refusal::Refusal;
use crate::signal::{Disconnect, Signal};

/// Size of reads for bodies of unknown length, which pass through the input
/// buffer.
const CHUNKED_READ_BYTES: usize = 64 * 1024;

type ReadAhead<Rd> = Pin<Box<dyn Future<Output = (io::Result<usize>, Vec<u8>, Rd)>>>;

/// How waiting for bytes ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fill {
    /// Bytes came.
    Data,
    /// The client closed its side, or the connection failed.
    Ended,
    /// The deadline passed. The connection must be closed.
    TimedOut,
    /// The server stops. The connection must be closed.
    Stopped,
    /// There is no memory for more bytes.
    Refused(Refusal),
}

pub(crate) struct Inbound<Rd> {
    pub(crate) input: InputBuffer,
    /// `None` while a read-ahead has it.
    reader: Option<Rd>,
    ahead: Option<ReadAhead<Rd>>,
    ended: bool,
}

impl<Rd: Reader> Inbound<Rd> {
    pub(crate) fn new(reader: Rd) -> Inbound<Rd> {
        Inbound { input: InputBuffer::new(), reader: Some(reader), ahead: None, ended: false }
    }

    /// Waits for more bytes in the input buffer.
    pub(crate) async fn fill<R: Runtime>(
        &mut self,
        runtime: &R,
        budget: &Budget,
        min_capacity_bytes: usize,
        deadline: Monotonic,
        stop: Option<&Signal>,
    ) -> Fill {
        if self.ended {
            return Fill::Ended;
        }
        let mut stopped = stop.map(Signal::wait);
        let mut is_stopped = move |cx: &mut Context<'_>| match &mut stopped {
            Some(stopped) => Pin::new(stopped).poll(cx).is_ready(),
            None => false,
        };
        if let Some(ahead) = &mut self.ahead {
            // The deadline of this read was not known when it began.
            let mut passed = pin!(runtime.sleep_until(deadline));
            let done = poll_fn(|cx| {
                if let Poll::Ready(done) = ahead.as_mut().poll(cx) {
                    return Poll::Ready(Ok(done));
                }
                if passed.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Err(Fill::TimedOut));
                }
                if is_stopped(cx) { Poll::Ready(Err(Fill::Stopped)) } else { Poll::Pending }
            });
            return match done.await {
                Ok((result, buffer, reader)) => {
                    self.ahead = None;
                    self.reader = Some(reader);
                    self.input.put_back(buffer);
                    self.note(result)
                }
                Err(fill) => self.give_up(fill),
            };
        }
        let Some(reader) = &mut self.reader else { return Fill::Ended };
        let buffer = match self.input.take_for_read(min_capacity_bytes, budget) {
            Ok(buffer) => buffer,
            Err(refusal) => return Fill::Refused(refusal),
        };
        let done = {
            let mut read = pin!(reader.read(buffer, deadline));
            poll_fn(|cx| match read.as_mut().poll(cx) {
                Poll::Ready(done) => Poll::Ready(Some(done)),
                Poll::Pending if is_stopped(cx) => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            })
            .await
        };
        match done {
            Some((result, buffer)) => {
                self.input.put_back(buffer);
                self.note(result)
            }
            None => self.give_up(Fill::Stopped),
        }
    }

    /// Waits for more bytes of a body: straight into the body's own memory where
    /// that is possible, otherwise into the input buffer.
    pub(crate) async fn fill_body<R: Runtime>(
        &mut self,
        runtime: &R,
        budget: &Budget,
        body: &mut BodyReader,
        deadline: Monotonic,
    ) -> Fill {
        if self.ahead.is_none()
            && !self.ended
            && let Some(reader) = &mut self.reader
        {
            match body.take_for_read() {
                Ok(Some(buffer)) => {
                    let (result, buffer) = reader.read(buffer, deadline).await;
                    body.put_back(buffer, &mut self.input);
                    return self.note(result);
                }
                Ok(None) => {}
                Err(refusal) => return Fill::Refused(refusal),
            }
        }
        self.fill(runtime, budget, CHUNKED_READ_BYTES, deadline, None).await
    }

    /// Reads and drops up to `max_bytes`. True if the client ended the
    /// connection within that and the deadline.
    pub(crate) async fn drain<R: Runtime>(
        &mut self,
        runtime: &R,
        budget: &Budget,
        max_bytes: u64,
        deadline: Monotonic,
    ) -> bool {
        let mut dropped_bytes = 0;
        loop {
            let unread_bytes = self.input.unread().len();
            self.input.consume(unread_bytes);
            dropped_bytes += unread_bytes as u64;
            if dropped_bytes > max_bytes {
                return false;
            }
            match self.fill(runtime, budget, IDLE_BUFFER_BYTES, deadline, None).await {
                Fill::Data => {}
                Fill::Ended => return true,
                Fill::TimedOut | Fill::Stopped | Fill::Refused(_) => return false,
            }
        }
    }

    /// Reads ahead as far as the input buffer has room, without waiting. Says so
    /// if the client went away.
    pub(crate) fn poll_read_ahead(&mut self, cx: &mut Context<'_>, disconnect: &Disconnect) {
        while !self.ended {
            if self.ahead.is_none() {
                if self.reader.is_none() {
                    return;
                }
                let Some(buffer) = self.input.take_for_read_ahead() else { return };
                self.ahead = self.reader.take().map(|mut reader| {
                    Box::pin(async move {
                        let (result, buffer) = reader.read(buffer, Monotonic::NEVER).await;
                        (result, buffer, reader)
                    }) as ReadAhead<Rd>
                });
            }
            let Some(ahead) = &mut self.ahead else { return };
            let Poll::Ready((result, buffer, reader)) = ahead.as_mut().poll(cx) else { return };
            self.ahead = None;
            self.reader = Some(reader);
            self.input.put_back(buffer);
            self.note(result);
        }
        disconnect.set_gone();
    }

    /// Whether the client is known to have closed its side.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended && self.reader.is_some()
    }

    /// Whether a read was cut off, so that nothing can be read any more.
    pub(crate) fn was_cut_off(&self) -> bool {
        self.ended && self.reader.is_none()
    }

    fn note(&mut self, result: io::Result<usize>) -> Fill {
        match result {
            Ok(count) if count > 0 => Fill::Data,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => self.give_up(Fill::TimedOut),
            Ok(_) | Err(_) => {
                self.ended = true;
                Fill::Ended
            }
        }
    }

    /// Nothing may be read any more: a read was cut off.
    fn give_up(&mut self, fill: Fill) -> Fill {
        self.ended = true;
        self.ahead = None;
        self.reader = None;
        fill
    }
}
