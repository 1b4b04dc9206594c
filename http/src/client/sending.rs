//! A request on its way: head and body go out, and the answer is read meanwhile.
//!
//! A server may answer before it has the whole request, most often to refuse it. Without reading,
//! the client would wait until the server takes the rest, which it never does, or would find a
//! broken connection and no reason.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use http::StatusCode;
use logsvc_runtime::{Monotonic, OwnedBytes, Reader, Runtime, Writer};

use super::config::ClientConfig;
use super::decode::{Piece, ResponseDecoder, ResponseHead};
use super::fault::{AnswerError, Fault};
use super::link::{Incoming, within};
use super::request::RequestBody;
use crate::encode::{LAST_CHUNK, encode_chunk_size};

/// Bodies and pieces up to this length are copied behind what goes before them, so that one write
/// sends both.
const MAX_COPIED_BYTES: usize = 16 << 10;
/// Shared bodies are sent in pieces of this many bytes.
const SHARED_PIECE_BYTES: usize = 256 << 10;
const SENDING: &str = "sending the request";
const WAITING: &str = "waiting for the answer";

/// A request that failed on a connection.
pub(super) struct Failure {
    pub(super) fault: Fault,
    /// Whether it may be that the server had closed the connection before it came.
    pub(super) may_be_stale: bool,
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Failure {
        Failure { fault, may_be_stale: false }
    }
}

/// How much of a body is copied behind the head.
pub(super) fn copied_bytes(body: &RequestBody) -> usize {
    match body {
        RequestBody::Full(bytes) if bytes.len() <= MAX_COPIED_BYTES => bytes.len(),
        RequestBody::Shared(bytes) if bytes.len() <= MAX_COPIED_BYTES => bytes.len(),
        _ => 0,
    }
}

/// Why no more of a request is sent.
pub(super) enum Stop {
    /// The server has answered, and does not want the rest.
    Answered,
    /// The server takes no more bytes.
    Unsent(io::Error),
    Failed(Failure),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Failed(fault.into())
    }
}

/// A request on its way. While it goes out, the answer is read.
pub(super) struct Sending<'a, R, Rd, W> {
    pub(super) runtime: &'a R,
    pub(super) config: &'a ClientConfig,
    /// Of the whole request.
    pub(super) deadline: Monotonic,
    pub(super) incoming: &'a mut Incoming<Rd>,
    pub(super) writer: &'a mut W,
    pub(super) decoder: &'a mut ResponseDecoder,
    /// The head of an answer that has come before the request was sent.
    pub(super) early: Option<ResponseHead>,
    /// Whether `100 Continue` has come.
    pub(super) may_go_on: bool,
}

impl<R: Runtime, Rd: Reader, W: Writer> Sending<'_, R, Rd, W> {
    /// Sends the head in `out`, and the body behind it.
    pub(super) async fn send(
        &mut self,
        mut out: Vec<u8>,
        body: &mut RequestBody,
        expects_continue: bool,
    ) -> Result<(), Stop> {
        if expects_continue {
            out = self.write(out).await?;
            self.await_continue().await?;
        }
        self.send_body(out, body).await
    }

    /// Sends the body behind `out`.
    async fn send_body(&mut self, mut out: Vec<u8>, body: &mut RequestBody) -> Result<(), Stop> {
        match body {
            RequestBody::Empty => self.write(out).await.map(drop),
            RequestBody::Full(bytes) => {
                if bytes.len() <= MAX_COPIED_BYTES {
                    out.extend_from_slice(bytes);
                    return self.write(out).await.map(drop);
                }
                if !out.is_empty() {
                    self.write(out).await?;
                }
                // The body comes back with the write, in case that it has to be sent again.
                let (result, returned) = self.write_buffer(std::mem::take(bytes)).await;
                if let Some(returned) = returned {
                    *bytes = returned;
                }
                result
            }
            RequestBody::Shared(bytes) => {
                if bytes.len() <= MAX_COPIED_BYTES {
                    out.extend_from_slice(bytes);
                    return self.write(out).await.map(drop);
                }
                if !out.is_empty() {
                    self.write(out).await?;
                }
                let mut rest = bytes.clone();
                while !rest.is_empty() {
                    let piece = rest.split_to(rest.len().min(SHARED_PIECE_BYTES));
                    self.write_buffer(piece).await.0?;
                }
                Ok(())
            }
            RequestBody::Stream { source, len_bytes } => {
                let is_chunked = len_bytes.is_none();
                let mut left_bytes = *len_bytes;
                loop {
                    let mut next = source.next();
                    let at_hand = poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await;
                    let item = match at_hand {
                        Poll::Ready(item) => item,
                        Poll::Pending => {
                            // The server gets all that there is before the source is waited for.
                            if !out.is_empty() {
                                out = self.write(out).await?;
                            }
                            self.watch(next).await?
                        }
                    };
                    let piece = match item {
                        Some(Ok(piece)) if piece.is_empty() => continue,
                        Some(Ok(piece)) => piece,
                        Some(Err(error)) => return Err(Fault::Body(error.0).into()),
                        None => break,
                    };
                    if let Some(left_bytes) = &mut left_bytes {
                        let rest = left_bytes.checked_sub(piece.len() as u64);
                        *left_bytes = rest.ok_or_else(|| wrong_length("longer"))?;
                    }
                    if is_chunked {
                        encode_chunk_size(&mut out, piece.len());
                    }
                    out = self.write_piece(out, piece).await?;
                    if is_chunked {
                        out.extend_from_slice(b"\r\n");
                    }
                }
                if left_bytes.is_some_and(|left_bytes| left_bytes > 0) {
                    return Err(wrong_length("shorter").into());
                }
                if is_chunked {
                    out.extend_from_slice(LAST_CHUNK);
                }
                if out.is_empty() { Ok(()) } else { self.write(out).await.map(drop) }
            }
        }
    }

    /// Writes what goes before a piece, and the piece, if they are long; gives what has not been
    /// written.
    async fn write_piece(&mut self, mut out: Vec<u8>, piece: Vec<u8>) -> Result<Vec<u8>, Stop> {
        if piece.len() <= MAX_COPIED_BYTES {
            out.extend_from_slice(&piece);
            return if out.len() > MAX_COPIED_BYTES { self.write(out).await } else { Ok(out) };
        }
        if !out.is_empty() {
            out = self.write(out).await?;
        }
        self.write(piece).await?;
        Ok(out)
    }

    /// Writes a buffer and gives it back empty.
    async fn write(&mut self, buffer: Vec<u8>) -> Result<Vec<u8>, Stop> {
        let (result, returned) = self.write_buffer(buffer).await;
        result?;
        let mut buffer = returned.unwrap_or_default();
        buffer.clear();
        Ok(buffer)
    }

    /// Writes a buffer and gives it back, unless the server has answered meanwhile.
    async fn write_buffer<B: OwnedBytes>(&mut self, buffer: B) -> (Result<(), Stop>, Option<B>) {
        let rate = self.config.min_rate_bytes_per_s.max(1);
        let by_rate = Duration::from_secs(buffer.as_ref().len() as u64 / rate);
        let deadline = self.runtime.now().after(self.config.progress_timeout + by_rate);
        let deadline = deadline.min(self.deadline);
        let watched = watch(
            self.incoming,
            self.decoder,
            &mut self.early,
            &mut self.may_go_on,
            false,
            self.writer.write_all(buffer, deadline),
        );
        match watched.await {
            Ok((Ok(()), buffer)) => (Ok(()), Some(buffer)),
            Ok((Err(error), buffer)) => {
                let stop = match error.kind() {
                    io::ErrorKind::TimedOut => Fault::TimedOut(SENDING).into(),
                    _ => Stop::Unsent(error),
                };
                (Err(stop), Some(buffer))
            }
            Err(stop) => (Err(stop), None),
        }
    }

    /// Waits for a future of the caller while the answer may come.
    async fn watch<F: Future>(&mut self, operation: F) -> Result<F::Output, Stop> {
        let watched = watch(
            self.incoming,
            self.decoder,
            &mut self.early,
            &mut self.may_go_on,
            true,
            operation,
        );
        match within(self.runtime, self.deadline, watched).await {
            Ok(done) => done,
            Err(_) => Err(Fault::TimedOut(SENDING).into()),
        }
    }

    /// Waits until the body may be sent. Servers that do not know the question answer nothing, so
    /// the wait is short.
    async fn await_continue(&mut self) -> Result<(), Stop> {
        let until = self.runtime.now().after(self.config.continue_timeout).min(self.deadline);
        while !self.may_go_on && self.early.is_none() {
            match self.incoming.fill(self.runtime, until).await {
                Ok(true) => {
                    take_head(self.incoming, self.decoder, &mut self.early, &mut self.may_go_on)
                        .map_err(Fault::from)?
                }
                Ok(false) => return Err(Stop::Failed(closed(self.decoder, None))),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(()),
                Err(error) => return Err(Stop::Failed(closed(self.decoder, Some(error)))),
            }
        }
        // A final answer stands for the rest of the request.
        if self.early.is_some() { Err(Stop::Answered) } else { Ok(()) }
    }

    /// Waits for the head of the answer.
    pub(super) async fn await_head(&mut self, timeout: Duration) -> Result<ResponseHead, Failure> {
        let until = self.runtime.now().after(timeout).min(self.deadline);
        loop {
            if let Some(head) = self.early.take() {
                return Ok(head);
            }
            take_head(self.incoming, self.decoder, &mut self.early, &mut self.may_go_on)
                .map_err(Fault::from)?;
            if self.early.is_some() {
                continue;
            }
            return Err(match self.incoming.fill(self.runtime, until).await {
                Ok(true) => continue,
                Ok(false) => closed(self.decoder, None),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    Fault::TimedOut(WAITING).into()
                }
                Err(error) => closed(self.decoder, Some(error)),
            });
        }
    }
}

/// The failure of a request whose connection has ended.
fn closed(decoder: &ResponseDecoder, error: Option<io::Error>) -> Failure {
    let may_be_stale = !decoder.has_begun();
    let fault = match error {
        _ if !may_be_stale => AnswerError::CutOff.into(),
        Some(error) => Fault::Connection(error),
        None => Fault::Closed,
    };
    Failure { fault, may_be_stale }
}

fn wrong_length(how: &str) -> Fault {
    Fault::Body(format!("it is {how} than it said"))
}

/// Reads interim answers and the head of the answer out of what was received.
fn take_head<Rd: Reader>(
    incoming: &mut Incoming<Rd>,
    decoder: &mut ResponseDecoder,
    head: &mut Option<ResponseHead>,
    may_go_on: &mut bool,
) -> Result<(), AnswerError> {
    while head.is_none() {
        match decoder.decode(&mut incoming.unread)? {
            Some(Piece::Head(found)) => *head = Some(found),
            Some(Piece::Interim(StatusCode::CONTINUE)) => *may_go_on = true,
            Some(_) => {}
            None => break,
        }
    }
    Ok(())
}

/// Drives an operation while the answer may come. An answer that refuses the request ends the
/// operation; with another one it goes on, and nothing more is read. The end of the connection
/// ends the operation if `ends_with_link`. A write ends by itself then, and gives its buffer back,
/// which may be needed for another connection.
async fn watch<Rd: Reader, F: Future>(
    incoming: &mut Incoming<Rd>,
    decoder: &mut ResponseDecoder,
    early: &mut Option<ResponseHead>,
    may_go_on: &mut bool,
    ends_with_link: bool,
    operation: F,
) -> Result<F::Output, Stop> {
    let mut operation = pin!(operation);
    poll_fn(|cx| {
        if let Poll::Ready(output) = operation.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        while early.is_none() {
            let failure = match incoming.poll_fill(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(true)) => match take_head(incoming, decoder, early, may_go_on) {
                    Ok(()) => continue,
                    Err(error) => Fault::from(error).into(),
                },
                Poll::Ready(_) if !ends_with_link => return Poll::Pending,
                Poll::Ready(Ok(false)) => closed(decoder, None),
                Poll::Ready(Err(error)) => closed(decoder, Some(error)),
            };
            return Poll::Ready(Err(Stop::Failed(failure)));
        }
        match early {
            Some(head) if !head.status.is_success() => Poll::Ready(Err(Stop::Answered)),
            _ => Poll::Pending,
        }
    })
    .await
}
