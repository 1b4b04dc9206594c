//! Request bodies in one contiguous buffer, under a memory budget.
//!
//! Guarantees: memory is taken from the budget before it is allocated, and never
//! because of a claim alone. A `Content-Length` allocates [`FIRST_STEP_BYTES`] at
//! most; after that the buffer at most doubles with what has come. Memory of bodies of usual
//! size is kept for others on the core: memory that is touched for the first time costs a
//! page fault for every 4 KiB.

use std::fmt;
use std::ops::RangeInclusive;

use logsvc_runtime::{Budget, BufferPool, Reservation};

use crate::chunked::{ChunkedDecoder, Decoded};
use crate::framing::Framing;
use crate::input::InputBuffer;
use crate::refusal::Refusal;

/// Most that is allocated for bytes that have not come yet, as long as few have.
pub const FIRST_STEP_BYTES: usize = 256 * 1024;
/// First allocation for a body of unknown length.
const FIRST_CHUNKED_BYTES: usize = 4096;
/// Capacity of the memory that is kept: powers of two, as the pool wants them. The allocator
/// is good at smaller ones, and larger ones would not leave room in the pool for others.
const KEPT_BYTES: RangeInclusive<usize> = 64 << 10..=1 << 20;

/// A complete request body and the part of the budget that accounts for it.
#[derive(Default)]
pub struct Body {
    bytes: Vec<u8>,
    reservation: Option<Reservation>,
    /// Where the memory goes.
    pool: Option<BufferPool>,
}

impl Body {
    /// A body made elsewhere, for example in a service's tests.
    pub fn new(bytes: Vec<u8>, reservation: Option<Reservation>) -> Body {
        Body { bytes, reservation, pool: None }
    }

    /// The body's memory, and what accounts for it; keep the two together. There
    /// is no reservation if the request had no body.
    pub fn into_parts(mut self) -> (Vec<u8>, Option<Reservation>) {
        (std::mem::take(&mut self.bytes), self.reservation.take())
    }

    /// Gives up the body's memory, but not its share of the budget: for what is made of it.
    pub fn into_reservation(mut self) -> Option<Reservation> {
        self.reservation.take()
    }

    /// The body's memory; its share of the budget is returned at once.
    pub fn into_vec(mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool
            && KEPT_BYTES.contains(&self.bytes.capacity())
        {
            pool.give(std::mem::take(&mut self.bytes));
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("len_bytes", &self.bytes.len())
            .field("reservation", &self.reservation)
            .finish_non_exhaustive()
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
    pool: BufferPool,
    max_bytes: u64,
}

impl BodyReader {
    /// Starts a body, whose memory comes from the pool if it can, and goes there. A declared
    /// length over `max_bytes` is refused.
    pub fn new(
        framing: Framing,
        max_bytes: u64,
        budget: &Budget,
        pool: &BufferPool,
    ) -> Result<BodyReader, Refusal> {
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
            pool: pool.clone(),
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
        Body { bytes: self.data, reservation: self.reservation, pool: Some(self.pool) }
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
        let whole_bytes = most_bytes.max(needed_bytes);
        if capacity_bytes == 0
            && matches!(self.progress, Progress::Length(_))
            && KEPT_BYTES.contains(&whole_bytes)
            && let Some(kept) = self.pool.take_kept(whole_bytes)
        {
            if self.reserve(kept.capacity()).is_ok() {
                self.data = kept;
                return Ok(());
            }
            self.pool.give(kept);
        }
        let wanted_bytes = needed_bytes.max(capacity_bytes.saturating_mul(2)).max(first_bytes);
        let mut wanted_bytes = wanted_bytes.min(whole_bytes);
        let rounded_bytes = wanted_bytes.next_power_of_two();
        if KEPT_BYTES.contains(&rounded_bytes) && self.reserve(rounded_bytes).is_ok() {
            wanted_bytes = rounded_bytes;
        } else {
            self.reserve(wanted_bytes)?;
        }
        self.data.reserve_exact(wanted_bytes - self.data.len());
        Ok(())
    }

    /// Takes what is missing of `bytes` from the budget.
    fn reserve(&mut self, bytes: usize) -> Result<(), Refusal> {
        let bytes = bytes as u64;
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
        let pool = BufferPool::new(1 << 20);
        let mut reader = BodyReader::new(Framing::Length(1 << 40), 1 << 40, &budget, &pool)
            .expect("within the limit");
        let data = reader.take_for_read().expect("fits").expect("has a length");
        assert_eq!(data.capacity(), FIRST_STEP_BYTES);
        assert_eq!(budget.used_bytes(), FIRST_STEP_BYTES as u64);
    }

    #[test]
    fn direct_reads_stop_at_the_end_of_the_body() {
        let budget = Budget::new("test", 1000);
        let pool = BufferPool::new(1 << 20);
        let mut input = InputBuffer::new();
        input.extend(b"ab");
        let mut reader =
            BodyReader::new(Framing::Length(4), 4, &budget, &pool).expect("within the limit");
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
        let pool = BufferPool::new(1 << 20);
        let mut reader =
            BodyReader::new(Framing::Chunked, 1 << 20, &budget, &pool).expect("within the limit");
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

    #[test]
    fn memory_of_bodies_is_used_again() {
        let budget = Budget::new("test", 4 << 20);
        let pool = BufferPool::new(4 << 20);
        let receive = |len_bytes: usize| {
            let framing = Framing::Length(len_bytes as u64);
            let mut reader =
                BodyReader::new(framing, 8 << 20, &budget, &pool).expect("within the limit");
            let mut input = InputBuffer::new();
            while !reader.is_done() {
                let mut data = reader.take_for_read().expect("fits").expect("has a length");
                let read_bytes = (data.capacity() - data.len()).min(len_bytes - data.len());
                data.extend((0..read_bytes).map(|n| n as u8));
                reader.put_back(data, &mut input);
            }
            reader.finish()
        };
        let first = receive(600_000);
        let (address, reserved_bytes) = (first.as_ptr().addr(), budget.used_bytes());
        assert!((600_000..=1 << 20).contains(&reserved_bytes), "{reserved_bytes} bytes");
        drop(first);
        assert_eq!(budget.used_bytes(), 0);
        assert_eq!(pool.kept_bytes() as u64, reserved_bytes);
        // Another one finds it, and what stands for it outlives it.
        let second = receive(700_000);
        assert_eq!((second.len(), second.as_ptr().addr()), (700_000, address));
        let reserved = second.into_reservation();
        assert_eq!(reserved.map(|held| held.bytes()), Some(reserved_bytes));
        assert_eq!(pool.kept_bytes() as u64, reserved_bytes);
        // Small and large ones leave it alone.
        drop((receive(1000), receive(3_000_000)));
        assert_eq!(pool.kept_bytes() as u64, reserved_bytes);
        // What is taken away does not come back.
        drop(receive(500_000).into_vec());
        assert_eq!((pool.kept_bytes(), budget.used_bytes()), (0, 0));
    }
}
