//! Answers of the query family.
//!
//! Guarantees: a large answer counts against the memory for queries until the client has taken it
//! or is gone, so clients that do not read cannot use up the machine; and it goes out in pieces, so
//! a client that takes none of it for the write timeout is let go, however long the answer is.
//! Failure: there is no memory for the answer; then the query is refused instead.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use logsvc_http::{ChunkError, ChunkSource, Response};
use logsvc_logql::engine::Stop;
use logsvc_proto::error::ApiError;
use logsvc_runtime::{Budget, Reservation};
use logsvc_shards::types::Cancellation;

use super::errors::{stopped, too_large};
use crate::front::core::errors::too_busy;

/// Answers up to this size are not counted: a connection needs about as much for
/// its buffers.
const SMALL_MAX_BYTES: usize = 64 << 10;

/// Size of the pieces that larger answers go out in.
const PIECE_BYTES: usize = 64 << 10;

/// The answer with this body, whose memory is taken from `budget`.
///
/// # Errors
/// The budget has no room now (429), or never has room for so much (413).
pub(crate) fn json_response(body: Vec<u8>, budget: &Budget) -> Result<Response, ApiError> {
    Ok(shared_json_response(Arc::new(AnswerBody::new(body, budget)?)))
}

/// The answer with a body that several answers share.
pub(crate) fn shared_json_response(held: Arc<AnswerBody>) -> Response {
    let mut response = Response::new(StatusCode::OK).compressible();
    let media_type = HeaderValue::from_static("application/json; charset=UTF-8");
    response.headers.insert(CONTENT_TYPE, media_type);
    with_held(response, held)
}

/// A body and the memory that is reserved for it.
#[derive(Debug)]
pub(crate) struct AnswerBody {
    body: Vec<u8>,
    /// `None` for small ones.
    reservation: Option<Reservation>,
}

impl AnswerBody {
    /// Reserves memory for a body.
    ///
    /// # Errors
    /// See [`json_response`].
    pub(super) fn new(body: Vec<u8>, budget: &Budget) -> Result<AnswerBody, ApiError> {
        let is_small = body.len() <= SMALL_MAX_BYTES;
        let reservation = match is_small {
            true => None,
            false => Some(reserve_answer(body.capacity() as u64, budget)?),
        };
        Ok(AnswerBody { body, reservation })
    }

    /// A body for which more than enough is reserved.
    #[cfg(feature = "parquet")]
    pub(super) fn held(body: Vec<u8>, mut reservation: Reservation) -> AnswerBody {
        reservation.shrink_to(body.capacity() as u64);
        AnswerBody { body, reservation: Some(reservation) }
    }

    /// The body.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.body
    }
}

/// A response with a body that several answers may share.
pub(crate) fn with_held(response: Response, held: Arc<AnswerBody>) -> Response {
    match Arc::try_unwrap(held) {
        Ok(AnswerBody { body, reservation: None }) => response.with_body(body),
        Ok(held) => response.with_chunks(BodyChunks { held: Arc::new(held), sent_bytes: 0 }),
        Err(held) if held.reservation.is_none() => response.with_body(held.body.clone()),
        Err(held) => response.with_chunks(BodyChunks { held, sent_bytes: 0 }),
    }
}

/// Memory for an answer while it is written: reserved before it is allocated.
pub(crate) struct AnswerMemory {
    budget: Budget,
    /// Bytes of the budget that are held for the result itself.
    result_bytes: u64,
    reservation: Option<Reservation>,
    cancellation: Cancellation,
}

impl AnswerMemory {
    /// For the answer with a result for which so many bytes of the budget are held, which are
    /// released no earlier than the answer is written.
    pub(crate) fn new(budget: &Budget, result_bytes: u64) -> AnswerMemory {
        let (budget, cancellation) = (budget.clone(), Cancellation::default());
        AnswerMemory { budget, result_bytes, reservation: None, cancellation }
    }

    /// The same until nobody waits for the answer.
    pub(crate) fn until(self, cancellation: Cancellation) -> AnswerMemory {
        AnswerMemory { cancellation, ..self }
    }

    /// Makes room in `out` for so many bytes more. Bytes beyond those that were written
    /// in spite of that are reserved by the next call.
    ///
    /// # Errors
    /// See [`json_response`], and nobody waits for the answer.
    pub(crate) fn reserve_for(
        &mut self,
        out: &mut Vec<u8>,
        more_bytes: usize,
    ) -> Result<(), ApiError> {
        if self.cancellation.is_cancelled() {
            return Err(stopped(Stop::Ended));
        }
        let wanted = out.len() + more_bytes;
        if wanted <= out.capacity() {
            return self.reserve(out.capacity());
        }
        // Both are there while one is copied to the other.
        let doubled = wanted.max(out.capacity() * 2);
        let capacity = match self.reserve(doubled + out.capacity()) {
            Ok(()) => doubled,
            Err(_) => {
                self.reserve(wanted + out.capacity())?;
                wanted
            }
        };
        out.reserve_exact(capacity - out.len());
        if let Some(reservation) = &mut self.reservation {
            reservation.shrink_to(out.capacity() as u64);
        }
        Ok(())
    }

    /// Reserves so many bytes in all, unless they are few.
    fn reserve(&mut self, bytes: usize) -> Result<(), ApiError> {
        let held_bytes = self.reservation.as_ref().map_or(0, Reservation::bytes);
        let missing_bytes = (bytes as u64).saturating_sub(held_bytes);
        if bytes <= SMALL_MAX_BYTES || missing_bytes == 0 {
            return Ok(());
        }
        check_size(bytes as u64 + self.result_bytes, &self.budget)?;
        let more = reserve_answer(missing_bytes, &self.budget)?;
        match &mut self.reservation {
            Some(reservation) => reservation.merge(more),
            none => *none = Some(more),
        }
        Ok(())
    }

    /// The whole answer.
    ///
    /// # Errors
    /// See [`json_response`].
    pub(crate) fn finish(mut self, body: Vec<u8>) -> Result<AnswerBody, ApiError> {
        if body.capacity() <= SMALL_MAX_BYTES {
            self.reservation = None;
        }
        self.reserve(body.capacity())?;
        Ok(AnswerBody { body, reservation: self.reservation })
    }
}

/// Refuses an answer that takes so many bytes if there can never be as many.
///
/// # Errors
/// See [`json_response`].
pub(super) fn check_size(len_bytes: u64, budget: &Budget) -> Result<(), ApiError> {
    let max_bytes = budget.max_bytes();
    if len_bytes <= max_bytes { Ok(()) } else { Err(too_large(len_bytes, max_bytes)) }
}

/// Memory for an answer of this size.
///
/// # Errors
/// See [`json_response`].
pub(crate) fn reserve_answer(len_bytes: u64, budget: &Budget) -> Result<Reservation, ApiError> {
    check_size(len_bytes, budget)?;
    let reservation = budget.try_reserve(len_bytes);
    reservation.ok_or_else(too_busy)
}

/// The answer with a body whose memory is reserved.
pub(crate) fn with_held_body(
    response: Response,
    body: Vec<u8>,
    reservation: Reservation,
) -> Response {
    let is_small = body.len() <= SMALL_MAX_BYTES;
    let reservation = (!is_small).then_some(reservation);
    with_held(response, Arc::new(AnswerBody { body, reservation }))
}

/// A body that is on its way to the client.
struct BodyChunks {
    held: Arc<AnswerBody>,
    sent_bytes: usize,
}

impl ChunkSource for BodyChunks {
    fn next(&mut self) -> LocalBoxFuture<'_, Option<Result<Vec<u8>, ChunkError>>> {
        let rest = &self.held.body[self.sent_bytes..];
        let piece = &rest[..rest.len().min(PIECE_BYTES)];
        self.sent_bytes += piece.len();
        let item = (!piece.is_empty()).then(|| Ok(piece.to_vec()));
        std::future::ready(item).boxed_local()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_http::ResponseBody;

    fn pieces(response: Response) -> Vec<u8> {
        let ResponseBody::Chunks(mut source) = response.body else { panic!("not in pieces") };
        let mut whole = Vec::new();
        while let Some(piece) = source.next().now_or_never().expect("ready at once") {
            let piece = piece.expect("a piece of what is there");
            assert!(!piece.is_empty() && piece.len() <= PIECE_BYTES);
            whole.extend_from_slice(&piece);
        }
        whole
    }

    #[test]
    fn memory_of_an_answer_is_reserved_before_it_grows() {
        let budget = Budget::new("queries", 1 << 20);
        let (mut room, mut out) = (AnswerMemory::new(&budget, 0), Vec::new());
        while room.reserve_for(&mut out, 1000).is_ok() {
            assert!(out.capacity() - out.len() >= 1000);
            assert!(
                out.capacity() <= SMALL_MAX_BYTES || budget.used_bytes() >= out.capacity() as u64
            );
            out.resize(out.len() + 1000, b'x');
        }
        assert!(out.len() > 1 << 18 && out.capacity() <= 1 << 20);
        let held = room.finish(out).expect("what is there is reserved");
        assert!(budget.used_bytes() > 1 << 18);
        // Held memory is not there for others.
        let (mut room, mut out) = (AnswerMemory::new(&budget, 0), Vec::new());
        let refused = room.reserve_for(&mut out, 900_000).expect_err("no room now");
        assert_eq!((refused.status, out.capacity()), (StatusCode::TOO_MANY_REQUESTS, 0));
        let never = room.reserve_for(&mut out, 2 << 20).expect_err("no room ever");
        assert_eq!((never.status, out.capacity()), (StatusCode::PAYLOAD_TOO_LARGE, 0));
        drop(held);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn an_answer_that_would_not_fit_alone_is_too_large() {
        let budget = Budget::new("queries", 1 << 20);
        let _result = budget.try_reserve(900_000).expect("there is room");
        let (mut room, mut out) = (AnswerMemory::new(&budget, 900_000), Vec::new());
        let never = room.reserve_for(&mut out, 200_000).expect_err("no room beside the result");
        assert_eq!(never.status, StatusCode::PAYLOAD_TOO_LARGE);
        let _other = budget.try_reserve(100_000).expect("there is room");
        let refused = room.reserve_for(&mut out, 100_000).expect_err("no room beside the other");
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    }

    #[test]
    fn an_answer_that_nobody_waits_for_is_not_written() {
        let (budget, cancellation) = (Budget::new("queries", 1 << 20), Cancellation::default());
        let (mut room, mut out) =
            (AnswerMemory::new(&budget, 0).until(cancellation.clone()), Vec::new());
        room.reserve_for(&mut out, 10).expect("somebody waits");
        cancellation.cancel();
        let ended = room.reserve_for(&mut out, 10).expect_err("nobody does");
        assert_eq!(ended.status, StatusCode::SERVICE_UNAVAILABLE);
    }

    #[test]
    fn large_answers_are_counted_until_they_are_gone() {
        let budget = Budget::new("queries", 1 << 20);
        let body: Vec<u8> = (0..700_000u32).map(|n| n as u8).collect();
        let first = json_response(body.clone(), &budget).expect("there is room");
        assert_eq!(budget.used_bytes(), 700_000);
        let refused = json_response(body.clone(), &budget).expect_err("the rest is too small");
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
        let small = json_response(vec![b'x'; SMALL_MAX_BYTES], &budget).expect("not counted");
        assert!(matches!(small.body, ResponseBody::Full(_)));
        assert_eq!(pieces(first), body);
        assert_eq!(budget.used_bytes(), 0);
        let never = json_response(vec![0; 2 << 20], &budget).expect_err("too large");
        assert_eq!(never.status, StatusCode::PAYLOAD_TOO_LARGE);
    }
}
