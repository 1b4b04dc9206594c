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
    /// The request was ended while it came. The connection must be closed.
    Interrupted(Refusal),
    /// Bytes have come for which there is no memory. Nothing is lost if this is tried again.
    NoMemory,
}

/// An event that ends waiting for bytes besides the deadline; otherwise it has the task woken.
pub(crate) trait Interrupt: FnMut(&mut Context<'_>) -> Option<Fill> {}

impl<F: FnMut(&mut Context<'_>) -> Option<Fill>> Interrupt for F {}

/// Nothing ends the wait but the deadline.
pub(crate) fn uninterrupted(_: &mut Context<'_>) -> Option<Fill> {
    None
}

/// The signal ends the wait.
pub(crate) fn until(stop: &Signal) -> impl Interrupt {
    let mut stopped = stop.wait();
    move |cx: &mut Context<'_>| Pin::new(&mut stopped).poll(cx).is_ready().then_some(Fill::Stopped)
}

pub(crate) struct Inbound<Rd> {
    pub(crate) input: InputBuffer,
    /// `None` while a read-ahead has it.
    reader: Option<Rd>,
    ahead: Option<ReadAhead<Rd>>,
    ended: bool,
    /// Bytes for which there was no room in the input buffer; no more than an idle one holds.
    spilled: Vec<u8>,
}

impl<Rd: Reader> Inbound<Rd> {
    pub(crate) fn new(reader: Rd, input: InputBuffer) -> Inbound<Rd> {
        Inbound { input, reader: Some(reader), ahead: None, ended: false, spilled: Vec::new() }
    }

    /// Waits for more bytes in the input buffer.
    pub(crate) async fn fill<R: Runtime>(
        &mut self,
        runtime: &R,
        budget: &Budget,
        min_capacity_bytes: usize,
        deadline: Monotonic,
        mut interrupt: impl Interrupt,
    ) -> Fill {
        if self.ended {
            return Fill::Ended;
        }
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
                interrupt(cx).map_or(Poll::Pending, |fill| Poll::Ready(Err(fill)))
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
        if !self.spilled.is_empty() {
            return self.take_spilled(budget);
        }
        let Some(reader) = &mut self.reader else { return Fill::Ended };
        let buffer = self.input.take_for_read(min_capacity_bytes, budget);
        let is_input = buffer.is_ok();
        // Whether there is more to read has to be known before memory is waited for.
        let buffer = buffer.unwrap_or_else(|_| Vec::with_capacity(IDLE_BUFFER_BYTES));
        match read(reader, buffer, deadline, interrupt).await {
            Ok((result, buffer)) if is_input => {
                self.input.put_back(buffer);
                self.note(result)
            }
            Ok((result, buffer)) => {
                self.spilled = buffer;
                match self.note(result) {
                    Fill::Data => self.take_spilled(budget),
                    other => other,
                }
            }
            Err(fill) => self.give_up(fill),
        }
    }

    fn take_spilled(&mut self, budget: &Budget) -> Fill {
        let wanted_bytes = self.input.unread().len() + self.spilled.len();
        match self.input.take_for_read(wanted_bytes, budget) {
            Ok(mut buffer) => {
                buffer.append(&mut self.spilled);
                self.spilled = Vec::new();
                self.input.put_back(buffer);
                Fill::Data
            }
            Err(_) => Fill::NoMemory,
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
        interrupt: impl Interrupt,
    ) -> Fill {
        if self.ahead.is_none()
            && !self.ended
            && let Some(reader) = &mut self.reader
            && let Some(buffer) = body.take_for_read()
        {
            return match read(reader, buffer, deadline, interrupt).await {
                Ok((result, buffer)) => {
                    body.put_back(buffer, &mut self.input);
                    self.note(result)
                }
                Err(fill) => self.give_up(fill),
            };
        }
        self.fill(runtime, budget, body.read_bytes(), deadline, interrupt).await
    }

    /// The same as [`Inbound::fill`] for a wait that may be dropped without loss, on a connection
    /// that lives on: the read goes on as a read-ahead. Nothing may be unread. Reads up to
    /// `most_bytes` at once, or as much as an idle buffer holds if there is little memory.
    pub(crate) async fn fill_ahead<R: Runtime>(
        &mut self,
        runtime: &R,
        budget: &Budget,
        most_bytes: usize,
        deadline: Monotonic,
        interrupt: impl Interrupt,
    ) -> Fill {
        if !self.ended && self.ahead.is_none() && self.spilled.is_empty() {
            let buffer = self.input.take_for_read(most_bytes, budget).ok();
            if let Some(buffer) = buffer.or_else(|| self.input.take_for_read_ahead()) {
                self.begin_ahead(buffer);
            }
        }
        self.fill(runtime, budget, IDLE_BUFFER_BYTES, deadline, interrupt).await
    }

    /// Begins a read that is not dropped. The reader is here.
    fn begin_ahead(&mut self, buffer: Vec<u8>) {
        self.ahead = self.reader.take().map(|mut reader| {
            Box::pin(async move {
                let (result, buffer) = reader.read(buffer, Monotonic::NEVER).await;
                (result, buffer, reader)
            }) as ReadAhead<Rd>
        });
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
            self.input.shrink();
            dropped_bytes += unread_bytes as u64;
            if dropped_bytes > max_bytes {
                return false;
            }
            let fill = self.fill(runtime, budget, IDLE_BUFFER_BYTES, deadline, uninterrupted);
            match fill.await {
                Fill::Data => {}
                Fill::Ended => return true,
                _ => return false,
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
                self.begin_ahead(buffer);
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

    /// Whether a read was cut off, so that nothing can be read.
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

    /// Nothing may be read: a read was cut off. Others get the memory at once, however long the
    /// client takes to read why.
    fn give_up(&mut self, fill: Fill) -> Fill {
        self.ended = true;
        self.input = InputBuffer::new();
        self.spilled = Vec::new();
        self.ahead = None;
        self.reader = None;
        fill
    }
}

/// Reads until bytes come or the wait is interrupted, after which nothing may be read.
async fn read<Rd: Reader>(
    reader: &mut Rd,
    buffer: Vec<u8>,
    deadline: Monotonic,
    mut interrupt: impl Interrupt,
) -> Result<(io::Result<usize>, Vec<u8>), Fill> {
    let mut read = pin!(reader.read(buffer, deadline));
    poll_fn(|cx| match read.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Ok(done)),
        Poll::Pending => interrupt(cx).map_or(Poll::Pending, |fill| Poll::Ready(Err(fill))),
    })
    .await
}
