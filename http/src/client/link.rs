//! A connection to a server.
//!
//! The client reads while it sends, because a server may answer before it has the whole request,
//! and it reads while a connection is idle, because that is the only way to notice that the
//! server has closed it. A read of the runtime must not be dropped on a connection that lives on:
//! its bytes would be lost. So a read that has begun owns the reader and stays here until it ends,
//! and whoever wants bytes next waits for that read.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use logsvc_runtime::{Monotonic, Reader, Runtime};

/// Bytes of the first reads of a connection, and of an idle one.
const FIRST_READ_BYTES: usize = 4096;
/// Bytes of reads of a connection that has much to say.
const MOST_READ_BYTES: usize = 128 << 10;

type Read<Rd> = Pin<Box<dyn Future<Output = (io::Result<usize>, Vec<u8>, Rd)>>>;

/// A connection, with what was received and not consumed.
pub(super) struct Link<Rd, W> {
    pub(super) incoming: Incoming<Rd>,
    pub(super) writer: W,
    /// Whether the connection has served a request before.
    pub(super) is_reused: bool,
}

impl<Rd: Reader, W> Link<Rd, W> {
    pub(super) fn new(reader: Rd, writer: W) -> Link<Rd, W> {
        Link { incoming: Incoming::new(reader), writer, is_reused: false }
    }

    /// Both halves, if no read is under way and nothing waits to be consumed.
    pub(super) fn into_halves(self) -> Option<(Rd, W)> {
        if !self.incoming.unread.is_empty() {
            return None;
        }
        Some((self.incoming.reader?, self.writer))
    }
}

/// The receiving half.
pub(super) struct Incoming<Rd> {
    /// `None` while a read has it.
    reader: Option<Rd>,
    read: Option<Read<Rd>>,
    pub(super) unread: Bytes,
    read_bytes: usize,
    has_ended: bool,
}

impl<Rd: Reader> Incoming<Rd> {
    fn new(reader: Rd) -> Incoming<Rd> {
        Incoming {
            reader: Some(reader),
            read: None,
            unread: Bytes::new(),
            read_bytes: FIRST_READ_BYTES,
            has_ended: false,
        }
    }

    /// Begins a read that appends to `buffer`, unless one is under way.
    fn begin(&mut self, buffer: impl FnOnce() -> Vec<u8>) {
        if let Some(mut reader) = self.reader.take() {
            let buffer = buffer();
            // Deadlines are for those who wait: the next one may have another deadline.
            self.read = Some(Box::pin(async move {
                let (result, buffer) = reader.read(buffer, Monotonic::NEVER).await;
                (result, buffer, reader)
            }));
        }
    }

    /// Drives the read that is under way. Gives its buffer and how many bytes came, zero at the
    /// end of the connection.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(usize, Vec<u8>)>> {
        let Some(read) = &mut self.read else { return Poll::Ready(Ok((0, Vec::new()))) };
        let Poll::Ready((result, buffer, reader)) = read.as_mut().poll(cx) else {
            return Poll::Pending;
        };
        self.read = None;
        match result {
            Ok(count) if count > 0 => {
                self.reader = Some(reader);
                Poll::Ready(Ok((count, buffer)))
            }
            // The reader is dropped: nothing comes from it any more.
            Ok(_) => {
                self.has_ended = true;
                Poll::Ready(Ok((0, buffer)))
            }
            Err(error) => {
                self.has_ended = true;
                Poll::Ready(Err(error))
            }
        }
    }

    /// Ready once bytes are unread (true), or none come any more (false).
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if !self.unread.is_empty() {
            return Poll::Ready(Ok(true));
        }
        if self.has_ended {
            return Poll::Ready(Ok(false));
        }
        let read_bytes = self.read_bytes;
        self.begin(|| Vec::with_capacity(read_bytes));
        let Poll::Ready(read) = self.poll_read(cx) else { return Poll::Pending };
        let (count, buffer) = read?;
        if count >= read_bytes {
            self.read_bytes = (read_bytes * 2).min(MOST_READ_BYTES);
        }
        self.unread = Bytes::from(buffer);
        Poll::Ready(Ok(count > 0))
    }

    /// Waits for bytes; false at the end of the connection.
    pub(super) async fn fill<R: Runtime>(
        &mut self,
        runtime: &R,
        deadline: Monotonic,
    ) -> io::Result<bool> {
        within(runtime, deadline, poll_fn(|cx| self.poll_fill(cx))).await?
    }

    /// Waits for bytes in the spare capacity of `buffer`, and for no more than fit. Gives how many
    /// came, zero at the end of the connection. Nothing may be unread.
    pub(super) async fn fill_into<R: Runtime>(
        &mut self,
        buffer: &mut Vec<u8>,
        runtime: &R,
        deadline: Monotonic,
    ) -> io::Result<usize> {
        if self.has_ended {
            return Ok(0);
        }
        if self.read.is_some() {
            // It began with a buffer of its own.
            return match self.fill(runtime, deadline).await? {
                false => Ok(0),
                true => {
                    let room = buffer.capacity() - buffer.len();
                    let part = self.unread.split_to(room.min(self.unread.len()));
                    buffer.extend_from_slice(&part);
                    Ok(part.len())
                }
            };
        }
        self.begin(|| std::mem::take(buffer));
        let done = within(runtime, deadline, poll_fn(|cx| self.poll_read(cx))).await??;
        *buffer = done.1;
        Ok(done.0)
    }

    /// Whether the connection is silent and open, as an idle one has to be.
    pub(super) fn is_silent(&mut self, cx: &mut Context<'_>) -> bool {
        self.read_bytes = FIRST_READ_BYTES;
        self.poll_fill(cx).is_pending()
    }

    /// The same, for the moment.
    pub(super) fn is_silent_now(&mut self) -> bool {
        self.is_silent(&mut Context::from_waker(Waker::noop()))
    }
}

/// Drives an operation until it is done, or until the deadline:
/// [`io::ErrorKind::TimedOut`]. The timer comes into being only when the operation has to wait.
pub(super) async fn within<R: Runtime, F: Future>(
    runtime: &R,
    deadline: Monotonic,
    operation: F,
) -> io::Result<F::Output> {
    let mut operation = pin!(operation);
    let first = poll_fn(|cx| Poll::Ready(operation.as_mut().poll(cx))).await;
    if let Poll::Ready(output) = first {
        return Ok(output);
    }
    let mut passed = pin!(runtime.sleep_until(deadline));
    poll_fn(|cx| {
        if let Poll::Ready(output) = operation.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        passed.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    })
    .await
}
