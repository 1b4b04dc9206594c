//! Answers as callers read them.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, Version};
use logsvc_runtime::{Dial, Monotonic, Runtime};

use super::decode::{Piece, ResponseDecoder, ResponseHead};
use super::fault::{AnswerError, ClientError, Fault};
use super::link::Link;
use super::pool::Pool;
use super::proxy::Route;

/// Least and most memory that a whole body grows by at once.
const GROWTH_BYTES: std::ops::RangeInclusive<usize> = 256 << 10..=16 << 20;
/// Bytes of a body that nobody wants which are read so that the connection can be kept.
const SKIP_BYTES: usize = 64 << 10;
const READING: &str = "reading the body of the answer";

/// What a link goes back to.
pub(super) struct Home<R, D: Dial> {
    pub(super) runtime: R,
    pub(super) pool: Rc<Pool<D::Reader, D::Writer>>,
    pub(super) route: Route,
    pub(super) destination: String,
    pub(super) progress_timeout: Duration,
    /// Of the whole request.
    pub(super) deadline: Monotonic,
}

/// An answer, whatever its status, with a body that is still to be read. Dropping it before the
/// end closes the connection.
pub struct ClientResponse<R, D: Dial> {
    /// The status.
    pub status: StatusCode,
    /// HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// The headers, in the order of their arrival.
    pub headers: HeaderMap,
    home: Home<R, D>,
    /// `None` after the end of the answer, and after an error.
    link: Option<Link<D::Reader, D::Writer>>,
    decoder: ResponseDecoder,
    /// Whether the server has taken the whole request.
    is_sent: bool,
}

impl<R: Runtime, D: Dial> ClientResponse<R, D> {
    pub(super) fn new(
        head: ResponseHead,
        home: Home<R, D>,
        link: Link<D::Reader, D::Writer>,
        decoder: ResponseDecoder,
        is_sent: bool,
    ) -> ClientResponse<R, D> {
        let ResponseHead { status, version, headers } = head;
        let link = Some(link);
        let mut response =
            ClientResponse { status, version, headers, home, link, decoder, is_sent };
        response.release_if_complete();
        response
    }

    /// The number of bytes of the body that are still to be read, if the server has said it.
    pub fn left_bytes(&self) -> Option<u64> {
        self.decoder.left_bytes()
    }

    /// The next piece of the body, not empty; `None` after the last one. May be dropped at any
    /// moment without loss.
    ///
    /// # Errors
    /// The body is cut off, too long, or comes too slowly. There is nothing more to read then.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        match self.next_piece().await {
            Ok(piece) => Ok(piece),
            Err(fault) => Err(self.fail(fault)),
        }
    }

    async fn next_piece(&mut self) -> Result<Option<Bytes>, Fault> {
        loop {
            let Some(link) = &mut self.link else {
                return if self.decoder.is_complete() {
                    Ok(None)
                } else {
                    Err(AnswerError::CutOff.into())
                };
            };
            match self.decoder.decode(&mut link.incoming.unread)? {
                Some(Piece::Data(data)) => {
                    self.release_if_complete();
                    return Ok(Some(data));
                }
                Some(Piece::End) => {
                    self.release_if_complete();
                    return Ok(None);
                }
                Some(Piece::Interim(_) | Piece::Head(_)) => {}
                None => {
                    let deadline = self.home.read_deadline();
                    let filled = link.incoming.fill(&self.home.runtime, deadline).await;
                    if !filled.map_err(|error| Fault::of_io(error, READING))? {
                        self.decoder.finish()?;
                        self.link = None;
                    }
                }
            }
        }
    }

    /// The whole body, read into one buffer without a copy where its length is known.
    ///
    /// # Errors
    /// As for [`ClientResponse::next`]; [`AnswerError::BodyTooLarge`] if it has more than
    /// `max_bytes`.
    pub async fn collect(mut self, max_bytes: usize) -> Result<Vec<u8>, ClientError> {
        match self.collect_bytes(max_bytes).await {
            Ok(body) => Ok(body),
            Err(fault) => Err(self.fail(fault)),
        }
    }

    async fn collect_bytes(&mut self, max_bytes: usize) -> Result<Vec<u8>, Fault> {
        let over = AnswerError::BodyTooLarge { max_bytes: max_bytes as u64 };
        let mut body = Vec::new();
        loop {
            match self.decoder.left_bytes() {
                Some(left_bytes) if left_bytes > (max_bytes - body.len()) as u64 => {
                    return Err(over.into());
                }
                Some(left_bytes)
                    if left_bytes > 0
                        && self.link.as_ref().is_some_and(|l| l.incoming.unread.is_empty()) =>
                {
                    // The limit is a number of bytes in memory, so this one is, too.
                    self.collect_known(&mut body, left_bytes as usize).await?;
                }
                _ => match self.next_piece().await? {
                    Some(piece) if piece.len() > max_bytes - body.len() => return Err(over.into()),
                    Some(piece) => body.extend_from_slice(&piece),
                    None => return Ok(body),
                },
            }
        }
    }

    /// Reads into the body's own memory. What the server claims does not count before it comes, so
    /// memory grows with what has come.
    async fn collect_known(&mut self, body: &mut Vec<u8>, left_bytes: usize) -> Result<(), Fault> {
        let Some(link) = &mut self.link else { return Err(AnswerError::CutOff.into()) };
        if body.len() == body.capacity() {
            let step = body.len().clamp(*GROWTH_BYTES.start(), *GROWTH_BYTES.end());
            body.reserve_exact(step.min(left_bytes));
        }
        let start = body.len();
        let deadline = self.home.read_deadline();
        let came = link.incoming.fill_into(body, &self.home.runtime, deadline).await;
        let came = came.map_err(|error| Fault::of_io(error, READING))?;
        if came == 0 {
            return Err(AnswerError::CutOff.into());
        }
        if came > left_bytes {
            // The vector had more room than was asked for, and the server sent more than it said.
            body.truncate(start + left_bytes);
            self.is_sent = false;
        }
        self.decoder.note_body(came.min(left_bytes) as u64);
        self.release_if_complete();
        Ok(())
    }

    /// The first bytes of the body, at most `max_bytes`. A short rest is read and dropped, so that
    /// the connection can be kept; a long one ends it.
    ///
    /// # Errors
    /// As for [`ClientResponse::next`], for the bytes that are kept.
    pub async fn first_bytes(mut self, max_bytes: usize) -> Result<Vec<u8>, ClientError> {
        let mut first = Vec::new();
        while first.len() < max_bytes {
            match self.next().await? {
                Some(piece) => {
                    first.extend_from_slice(&piece[..piece.len().min(max_bytes - first.len())]);
                }
                None => return Ok(first),
            }
        }
        let mut skipped = 0;
        while skipped <= SKIP_BYTES {
            match self.next_piece().await {
                Ok(Some(piece)) => skipped += piece.len(),
                Ok(None) | Err(_) => break,
            }
        }
        Ok(first)
    }

    /// Gives the connection back once the answer is complete, if it can serve another request.
    fn release_if_complete(&mut self) {
        if !self.decoder.is_complete() {
            return;
        }
        let Some(link) = self.link.take() else { return };
        if self.is_sent && self.decoder.keep_alive() && link.incoming.unread.is_empty() {
            self.home.pool.put(&self.home.runtime, &self.home.route, link);
        }
    }

    fn fail(&mut self, fault: Fault) -> ClientError {
        self.link = None;
        self.home.error(fault)
    }
}

impl<R: Runtime, D: Dial> Home<R, D> {
    pub(super) fn error(&self, fault: Fault) -> ClientError {
        ClientError { destination: self.destination.clone(), fault }
    }

    /// Until when bytes of a body have to come.
    fn read_deadline(&self) -> Monotonic {
        self.runtime.now().after(self.progress_timeout).min(self.deadline)
    }
}
