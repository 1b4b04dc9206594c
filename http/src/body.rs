//! Request bodies in one contiguous buffer, under a memory budget.
//!
//! Guarantees: memory is taken from the budget before it is allocated, and never
//! because of a claim alone. A `Content-Length` allocates [`FIRST_STEP_BYTES`] at
//! most; after that the buffer at most doubles with what has come.

use logsvc_runtime::{Budget, Reservation};

use crate::chunked::{ChunkedDecoder, Decoded};
use crate::framing::Framing;
use crate::input::InputBuffer;
use crate::refusal::Refusal;

/// Most that is allocated for bytes that have not come yet, as long as few have.
pub const FIRST_STEP_BYTES: usize = 256 * 1024;
/// First allocation for a body of unknown length.
const FIRST_CHUNKED_BYTES: usize = 4096;

/// A complete request body and the part of the budget that accounts for it.
#[derive(Debug, Default)]
pub struct Body {
    bytes: Vec<u8>,
    reservation: Option<Reservation>,
}

impl Body {
    /// A body made elsewhere, for example in a service's tests.
    pub fn new(bytes: Vec<u8>, reservation: Option<Reservation>) -> Body {
        Body { bytes, reservation }
    }

    /// The body's memory, and what accounts for it; keep the two together. There
    /// is no reservation if the request had no body.
    pub fn into_parts(self) -> (Vec<u8>, Option<Reservation>) {
        (self.bytes, self.reservation)
    }

    /// The body's memory; its share of the budget is returned at once.
    pub fn into_vec(self) -> Vec<u8> {
        self.bytes
    }
}

impl std::ops::Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

enum Progress {
    /// This many bytes in all.
    Length(u64),
    Chunked(ChunkedDecoder),
}

/// Receives one body.
pub struct BodyReader {
    progress: Progress,
    data: Vec<u8>,
    reservation: Option<Reservation>,
    budget: Budget,
    max_bytes: u64,
}

impl BodyReader {
    /// Starts a body. A declared length over `max_bytes` is refused.
    pub fn new(framing: Framing, max_bytes: u64, budget: &Budget) -> Result<BodyReader, Refusal> {
        let progress = match framing {
            Framing::None => Progress::Length(0),
            Framing::Length(len_bytes) if len_bytes > max_bytes => {
                return Err(Refusal::BodyTooLarge { max_bytes });
            }
            Framing::Length(len_bytes) => Progress::Length(len_bytes),
            Framing::Chunked => Progress::Chunked(ChunkedDecoder::new(max_bytes)),
        };
        Ok(BodyReader {
            progress,
            data: Vec::new(),
            reservation: None,
            budget: budget.clone(),
            max_bytes,
        })
    }

    /// Whether the whole body is here.
    pub fn is_done(&self) -> bool {
        match &self.progress {
            Progress::Length(len_bytes) => self.data.len() as u64 == *len_bytes,
            Progress::Chunked(decoder) => decoder.is_done(),
        }
    }

    /// Bytes of the body that are here.
    pub fn received_bytes(&self) -> u64 {
        self.data.len() as u64
    }

    /// Consumes what belongs to this body. True once the body is complete.
    pub fn decode(&mut self, input: &mut InputBuffer) -> Result<bool, Refusal> {
        while !input.unread().is_empty() && !self.is_done() {
            let unread = input.unread();
            let (consumed, piece) = match &mut self.progress {
                Progress::Length(len_bytes) => {
                    let left_bytes = *len_bytes - self.data.len() as u64;
                    let left_bytes = usize::try_from(left_bytes).unwrap_or(usize::MAX);
                    let piece = &unread[..unread.len().min(left_bytes)];
                    (piece.len(), piece)
                }
                Progress::Chunked(decoder) => match decoder.decode(unread)? {
                    (consumed, Decoded::Data(piece)) => (consumed, piece),
                    (consumed, Decoded::NeedMore | Decoded::Done) => (consumed, &[][..]),
                },
            };
            self.make_room(piece.len())?;
            self.data.extend_from_slice(piece);
            input.consume(consumed);
        }
        Ok(self.is_done())
    }

    /// The body's own memory for a read that appends to it, if the body has a
    /// declared length: so that a large body is not copied through a small
    /// buffer. Give it back with [`BodyReader::put_back`].
    pub fn take_for_read(&mut self) -> Result<Option<Vec<u8>>, Refusal> {
        match self.progress {
            Progress::Length(len_bytes) if (self.data.len() as u64) < len_bytes => {
                self.make_room(1)?;
                Ok(Some(std::mem::take(&mut self.data)))
            }
            _ => Ok(None),
        }
    }

    /// Takes the memory back after a read. Bytes past the body's end, which
    /// belong to the next request, go to `input`.
    pub fn put_back(&mut self, mut data: Vec<u8>, input: &mut InputBuffer) {
        if let Progress::Length(len_bytes) = self.progress
            && let Ok(len_bytes) = usize::try_from(len_bytes)
            && data.len() > len_bytes
        {
            input.extend(&data[len_bytes..]);
            data.truncate(len_bytes);
        }
        self.data = data;
    }

    /// The complete body.
    pub fn finish(self) -> Body {
        debug_assert!(self.is_done(), "an incomplete body was taken");
        Body { bytes: self.data, reservation: self.reservation }
    }

    /// Makes room for `count` more bytes, and for some that will come after them.
    fn make_room(&mut self, count: usize) -> Result<(), Refusal> {
        let needed_bytes = self.data.len() + count;
        let capacity_bytes = self.data.capacity();
        if needed_bytes <= capacity_bytes {
            return Ok(());
        }
        let (first_bytes, most_bytes) = match self.progress {
            Progress::Length(len_bytes) => (FIRST_STEP_BYTES, len_bytes),
            Progress::Chunked(_) => (FIRST_CHUNKED_BYTES, self.max_bytes),
        };
        let most_bytes = usize::try_from(most_bytes).unwrap_or(usize::MAX);
        let wanted_bytes = needed_bytes.max(capacity_bytes.saturating_mul(2)).max(first_bytes);
        let wanted_bytes = wanted_bytes.min(most_bytes).max(needed_bytes);
        self.reserve(wanted_bytes as u64)?;
        self.data.reserve_exact(wanted_bytes - self.data.len());
        Ok(())
    }

    fn reserve(&mut self, bytes: u64) -> Result<(), Refusal> {
        let granted = match &mut self.reservation {
            Some(held) => held.try_grow(bytes.saturating_sub(held.bytes())),
            None => {
                self.reservation = self.budget.try_reserve(bytes);
                self.reservation.is_some()
            }
        };
        if granted { Ok(()) } else { Err(Refusal::BudgetExhausted) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_alone_takes_little_memory() {
        let budget = Budget::new("test", u64::MAX);
        let mut reader =
            BodyReader::new(Framing::Length(1 << 40), 1 << 40, &budget).expect("within the limit");
        let data = reader.take_for_read().expect("fits").expect("has a length");
        assert_eq!(data.capacity(), FIRST_STEP_BYTES);
        assert_eq!(budget.used_bytes(), FIRST_STEP_BYTES as u64);
    }

    #[test]
    fn direct_reads_stop_at_the_end_of_the_body() {
        let budget = Budget::new("test", 1000);
        let mut input = InputBuffer::new();
        input.extend(b"ab");
        let mut reader = BodyReader::new(Framing::Length(4), 4, &budget).expect("within the limit");
        assert_eq!(reader.decode(&mut input), Ok(false));
        let mut data = reader.take_for_read().expect("fits").expect("has a length");
        data.extend_from_slice(b"cdNEXT");
        reader.put_back(data, &mut input);
        assert!(reader.is_done());
        assert!(reader.take_for_read().expect("no need").is_none());
        assert_eq!(input.unread(), b"NEXT");
        let (bytes, reservation) = reader.finish().into_parts();
        assert_eq!(bytes, b"abcd");
        assert_eq!(reservation.map(|held| held.bytes()), Some(4));
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn the_budget_refuses_growth() {
        let budget = Budget::new("test", 10_000);
        let mut reader =
            BodyReader::new(Framing::Chunked, 1 << 20, &budget).expect("within the limit");
        let mut input = InputBuffer::new();
        input.extend(b"4000\r\n");
        input.extend(&[b'x'; 8000]);
        assert_eq!(reader.decode(&mut input), Ok(false));
        assert!(budget.used_bytes() >= 8000);
        input.extend(&[b'x'; 4000]);
        assert_eq!(reader.decode(&mut input), Err(Refusal::BudgetExhausted));
        drop(reader);
        assert_eq!(budget.used_bytes(), 0);
    }
}
