//! Request bodies in one contiguous buffer, under a memory budget.
//!
//! Guarantees: memory is taken from the budget before it is allocated, and for received bytes, not
//! for announced ones: a body begins with [`FIRST_BYTES`] and at most doubles with what has come.
//! Only while half of the budget is free, and its owner holds less than a quarter of it, a
//! `Content-Length` allocates as much as will probably come, [`FIRST_STEP_BYTES`] at most or the
//! memory of a body of usual size. That is kept for others on the core: memory that is touched for
//! the first time costs a page fault for every 4 KiB. After a refusal for lack of memory nothing is
//! lost, and the same call may be tried again. A body that the budget could not hold if it were
//! empty is refused for good.

use std::fmt;
use std::ops::{Range, RangeInclusive};

use logsvc_runtime::{Budget, BufferPool, Owner, Reservation};

use crate::chunked::{ChunkedDecoder, Decoded};
use crate::config::IDLE_BUFFER_BYTES;
use crate::framing::Framing;
use crate::input::InputBuffer;
use crate::refusal::Refusal;

/// Most that is allocated for bytes that have not come yet while there is much memory, as long
/// as few have.
pub const FIRST_STEP_BYTES: usize = 64 * 1024;
/// The same while there is little.
pub const FIRST_BYTES: usize = 16 * 1024;
/// First allocation for a body of unknown length.
const FIRST_CHUNKED_BYTES: usize = 4096;
/// Largest reads for bodies of unknown length, which pass through the input buffer.
const MAX_READ_BYTES: usize = 64 * 1024;
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
    /// Memory that was reserved for decoding the body, where there is little memory.
    headroom: Option<Reservation>,
}

impl Body {
    /// A body made elsewhere, for example in a service's tests.
    pub fn new(bytes: Vec<u8>, reservation: Option<Reservation>) -> Body {
        Body { bytes, reservation, pool: None, headroom: None }
    }

    /// The body's memory, and its reservation; keep the two together. There is no reservation if
    /// the request had no body.
    pub fn into_parts(mut self) -> (Vec<u8>, Option<Reservation>) {
        (std::mem::take(&mut self.bytes), self.reservation.take())
    }

    /// Gives up the body's memory, but not its share of the budget, which then stands for the
    /// decoded body.
    pub fn into_reservation(mut self) -> Option<Reservation> {
        self.reservation.take()
    }

    /// Keeps memory that was reserved for decoding the body.
    pub(crate) fn set_headroom(&mut self, headroom: Reservation) {
        self.headroom = Some(headroom);
    }

    /// Memory that was reserved for decoding the body, besides the body itself; it goes with the
    /// body otherwise. There is some only where memory is scarce.
    pub fn take_headroom(&mut self) -> Option<Reservation> {
        self.headroom.take()
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
    Chunked {
        decoder: ChunkedDecoder,
        /// What of the input is decoded and has no place yet: how many bytes it has there, and
        /// which of them are data.
        unplaced: Option<(usize, Range<usize>)>,
    },
}

/// Receives one body.
pub struct BodyReader {
    progress: Progress,
    data: Vec<u8>,
    reservation: Option<Reservation>,
    budget: Budget,
    owner: Owner,
    pool: BufferPool,
    max_bytes: u64,
}

impl BodyReader {
    /// Starts a body, whose memory comes from the pool if it can, and goes there. A declared length
    /// over `max_bytes`, or over the whole budget, is refused.
    pub fn new(
        framing: Framing,
        max_bytes: u64,
        budget: &Budget,
        pool: &BufferPool,
    ) -> Result<BodyReader, Refusal> {
        let max_bytes = max_bytes.min(budget.max_bytes());
        let progress = match framing {
            Framing::None => Progress::Length(0),
            Framing::Length(len_bytes) if len_bytes > max_bytes => {
                return Err(Refusal::BodyTooLarge { max_bytes });
            }
            Framing::Length(len_bytes) => Progress::Length(len_bytes),
            Framing::Chunked => {
                Progress::Chunked { decoder: ChunkedDecoder::new(max_bytes), unplaced: None }
            }
        };
        Ok(BodyReader {
            progress,
            data: Vec::new(),
            reservation: None,
            budget: budget.clone(),
            owner: Owner::default(),
            pool: pool.clone(),
            max_bytes,
        })
    }

    /// Takes the memory on this account.
    #[must_use]
    pub fn for_owner(mut self, owner: Owner) -> BodyReader {
        self.owner = owner;
        self
    }

    /// Whether the whole body is here.
    pub fn is_done(&self) -> bool {
        match &self.progress {
            Progress::Length(len_bytes) => self.data.len() as u64 == *len_bytes,
            Progress::Chunked { decoder, unplaced } => decoder.is_done() && unplaced.is_none(),
        }
    }

    /// Bytes of the body that are here.
    pub fn received_bytes(&self) -> u64 {
        self.data.len() as u64
    }

    /// Bytes of the budget that the body holds.
    pub fn held_bytes(&self) -> u64 {
        self.reservation.as_ref().map_or(0, Reservation::bytes)
    }

    /// Consumes the bytes that belong to this body. True once the body is complete.
    pub fn decode(&mut self, input: &mut InputBuffer) -> Result<bool, Refusal> {
        while !input.unread().is_empty() && !self.is_done() {
            let unread = input.unread();
            let (consumed, piece) = match &mut self.progress {
                Progress::Length(len_bytes) => {
                    let left_bytes = *len_bytes - self.data.len() as u64;
                    let left_bytes = usize::try_from(left_bytes).unwrap_or(usize::MAX);
                    let piece_bytes = unread.len().min(left_bytes);
                    (piece_bytes, 0..piece_bytes)
                }
                Progress::Chunked { decoder, unplaced } => match unplaced.take() {
                    Some(unplaced) => unplaced,
                    None => match decoder.decode(unread)? {
                        // Data is the end of the consumed bytes.
                        (consumed, Decoded::Data(piece)) => {
                            (consumed, consumed - piece.len()..consumed)
                        }
                        (consumed, Decoded::NeedMore | Decoded::Done) => (consumed, 0..0),
                    },
                },
            };
            if let Err(refusal) = self.make_room(piece.len()) {
                if let Progress::Chunked { unplaced, .. } = &mut self.progress {
                    *unplaced = Some((consumed, piece));
                }
                return Err(refusal);
            }
            self.data.extend_from_slice(&unread[piece]);
            input.consume(consumed);
        }
        Ok(self.is_done())
    }

    /// The body's own memory for a read that appends to it, if the body has a
    /// declared length: so that a large body is not copied through a small
    /// buffer. Give it back with [`BodyReader::put_back`]. `None` also if the memory is full
    /// and there is little: it is not known whether more comes, so the read has to begin
    /// elsewhere.
    pub fn take_for_read(&mut self) -> Option<Vec<u8>> {
        match self.progress {
            Progress::Length(len_bytes) if (self.data.len() as u64) < len_bytes => {
                let is_full = self.data.len() == self.data.capacity();
                if is_full && !(self.is_memory_free() && self.make_room(1).is_ok()) {
                    return None;
                }
                Some(std::mem::take(&mut self.data))
            }
            _ => None,
        }
    }

    /// How much to read into the input buffer at a time where a read does not go straight to the
    /// body: in proportion to the received bytes.
    pub fn read_bytes(&self) -> usize {
        match self.progress {
            Progress::Length(_) => IDLE_BUFFER_BYTES,
            Progress::Chunked { .. } => self.data.len().clamp(IDLE_BUFFER_BYTES, MAX_READ_BYTES),
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
        let pool = Some(self.pool);
        Body { bytes: self.data, reservation: self.reservation, pool, headroom: None }
    }

    /// Whether there is so much memory that some may be taken for bytes that are still to come.
    fn is_memory_free(&self) -> bool {
        let max_bytes = self.budget.max_bytes();
        self.budget.used_bytes() < max_bytes / 2
            && self.budget.held_bytes(self.owner) < max_bytes / 4
    }

    /// Makes room for `count` more bytes, and for some that will come after them.
    fn make_room(&mut self, count: usize) -> Result<(), Refusal> {
        let needed_bytes = self.data.len() + count;
        let capacity_bytes = self.data.capacity();
        if needed_bytes <= capacity_bytes {
            return Ok(());
        }
        let is_memory_free = self.is_memory_free();
        let (first_bytes, most_bytes) = match self.progress {
            Progress::Length(len_bytes) if is_memory_free => (FIRST_STEP_BYTES, len_bytes),
            Progress::Length(len_bytes) => (FIRST_BYTES, len_bytes),
            Progress::Chunked { .. } => (FIRST_CHUNKED_BYTES, self.max_bytes),
        };
        let most_bytes = usize::try_from(most_bytes).unwrap_or(usize::MAX);
        let whole_bytes = most_bytes.max(needed_bytes);
        if capacity_bytes == 0
            && is_memory_free
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
        let wanted_bytes = wanted_bytes.min(whole_bytes);
        // Memory of a size that is kept if there is so much, and just enough if there is little.
        let rounded_bytes = wanted_bytes.next_power_of_two();
        let rounded_bytes =
            if KEPT_BYTES.contains(&rounded_bytes) { rounded_bytes } else { wanted_bytes };
        let least_bytes = needed_bytes.max(capacity_bytes + FIRST_CHUNKED_BYTES).min(whole_bytes);
        let sizes = [rounded_bytes, wanted_bytes, least_bytes];
        let granted = sizes.into_iter().find(|&size_bytes| self.reserve(size_bytes).is_ok());
        let granted_bytes = granted.ok_or(Refusal::BudgetExhausted)?;
        self.data.reserve_exact(granted_bytes - self.data.len());
        Ok(())
    }

    /// Takes the missing part of `bytes` from the budget.
    fn reserve(&mut self, bytes: usize) -> Result<(), Refusal> {
        let bytes = bytes as u64;
        let granted = match &mut self.reservation {
            Some(held) => held.try_grow(bytes.saturating_sub(held.bytes())),
            None => {
                self.reservation = self.budget.try_reserve_for(self.owner, bytes);
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
        let data = reader.take_for_read().expect("there is room");
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
        let mut data = reader.take_for_read().expect("there is room");
        data.extend_from_slice(b"cdNEXT");
        reader.put_back(data, &mut input);
        assert!(reader.is_done());
        assert!(reader.take_for_read().is_none());
        assert_eq!(input.unread(), b"NEXT");
        let (bytes, reservation) = reader.finish().into_parts();
        assert_eq!(bytes, b"abcd");
        assert_eq!(reservation.map(|held| held.bytes()), Some(4));
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn the_budget_refuses_growth() {
        let budget = Budget::new("test", 20_000);
        let others = budget.try_reserve(10_000).expect("it is empty");
        let pool = BufferPool::new(1 << 20);
        let mut reader =
            BodyReader::new(Framing::Chunked, 1 << 20, &budget, &pool).expect("within the limit");
        let mut input = InputBuffer::new();
        input.extend(b"4000\r\n");
        input.extend(&[b'x'; 8000]);
        assert_eq!(reader.decode(&mut input), Ok(false));
        assert!(reader.held_bytes() >= 8000);
        input.extend(&[b'y'; 4000]);
        for _ in 0..3 {
            assert_eq!(reader.decode(&mut input), Err(Refusal::BudgetExhausted));
        }
        // Nothing is lost if there is memory later.
        drop(others);
        assert_eq!(reader.decode(&mut input), Ok(false));
        input.extend(&[b'z'; 0x4000 - 12_000]);
        assert_eq!(reader.decode(&mut input), Ok(false));
        input.extend(b"\r\n0\r\n\r\n");
        assert_eq!(reader.decode(&mut input), Ok(true));
        let body = reader.finish();
        let text = [&[b'x'; 8000][..], &[b'y'; 4000], &[b'z'; 0x4000 - 12_000]].concat();
        assert_eq!(*body, text);
        drop(body);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn what_can_never_fit_is_refused_for_good() {
        let budget = Budget::new("test", 1000);
        let pool = BufferPool::new(1 << 20);
        let reader = |framing| BodyReader::new(framing, 1 << 20, &budget, &pool);
        let too_large = Refusal::BodyTooLarge { max_bytes: 1000 };
        assert_eq!(reader(Framing::Length(1001)).err(), Some(too_large));
        let mut chunked = reader(Framing::Chunked).expect("it may be short");
        let mut input = InputBuffer::new();
        input.extend(b"3e9\r\nx");
        assert_eq!(chunked.decode(&mut input), Err(too_large));
        let mut fitting = reader(Framing::Length(1000)).expect("within the budget");
        input = InputBuffer::new();
        input.extend(&[b'x'; 1000]);
        assert_eq!(fitting.decode(&mut input), Ok(true));
    }

    /// Bodies that are announced to be large take memory for their received bytes.
    #[test]
    fn little_memory_is_taken_for_what_has_yet_to_come() {
        let budget = Budget::with_owners("test", 64 << 20);
        let owner = budget.owner([Some(1), None]);
        let pool = BufferPool::new(4 << 20);
        for (sent_bytes, most_bytes) in [(1000, 16 << 10), (65_536, 256 << 10), (300_000, 1 << 20)]
        {
            let mut readers = Vec::new();
            for _ in 0..400 {
                let framing = Framing::Length(if sent_bytes == 1000 { 1 << 20 } else { 60 << 20 });
                let reader = BodyReader::new(framing, 64 << 20, &budget, &pool);
                let mut reader = reader.expect("within the limit").for_owner(owner);
                let mut input = InputBuffer::new();
                while reader.received_bytes() < sent_bytes {
                    let left = sent_bytes as usize - reader.received_bytes() as usize;
                    if let Some(mut data) = reader.take_for_read() {
                        data.resize(data.len() + left.min(data.capacity() - data.len()), b'x');
                        reader.put_back(data, &mut input);
                    } else {
                        input.extend(&vec![b'x'; left.min(reader.read_bytes())]);
                        assert_eq!(reader.decode(&mut input), Ok(false));
                    }
                }
                readers.push(reader);
                if budget.used_bytes() > budget.max_bytes() / 4 * 3 {
                    break;
                }
            }
            let last_bytes = readers.last().expect("there are some").held_bytes();
            assert!(last_bytes <= most_bytes, "{last_bytes} bytes for {sent_bytes}");
            // The memory taken at once, as long as there is much, is bounded.
            let all_bytes = readers.len() as u64 * most_bytes + budget.max_bytes() / 4 + (1 << 20);
            assert!(budget.used_bytes() <= all_bytes, "{} bytes", budget.used_bytes());
        }
    }

    #[test]
    fn memory_of_bodies_is_used_again() {
        let budget = Budget::new("test", 16 << 20);
        let pool = BufferPool::new(4 << 20);
        let receive = |len_bytes: usize| {
            let framing = Framing::Length(len_bytes as u64);
            let mut reader =
                BodyReader::new(framing, 8 << 20, &budget, &pool).expect("within the limit");
            let mut input = InputBuffer::new();
            while !reader.is_done() {
                let mut data = reader.take_for_read().expect("there is room");
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
        // Another body finds the memory, and its reservation outlives it.
        let second = receive(700_000);
        assert_eq!((second.len(), second.as_ptr().addr()), (700_000, address));
        let reserved = second.into_reservation();
        assert_eq!(reserved.map(|held| held.bytes()), Some(reserved_bytes));
        assert_eq!(pool.kept_bytes() as u64, reserved_bytes);
        // Small and large ones leave it alone.
        drop((receive(1000), receive(3_000_000)));
        assert_eq!(pool.kept_bytes() as u64, reserved_bytes);
        // Removed memory does not come back.
        drop(receive(500_000).into_vec());
        assert_eq!((pool.kept_bytes(), budget.used_bytes()), (0, 0));
    }
}
