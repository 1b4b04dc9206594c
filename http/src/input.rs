//! The bytes of a connection that were received and not yet consumed.

use logsvc_runtime::{Budget, Owner, Reservation};

use crate::config::IDLE_BUFFER_BYTES;
use crate::refusal::Refusal;

/// Received bytes in one buffer that travels into read operations and back.
#[derive(Default)]
pub struct InputBuffer {
    data: Vec<u8>,
    start: usize,
    /// Owners for capacity beyond the idle buffer.
    reservation: Option<Reservation>,
    owner: Owner,
}

impl InputBuffer {
    /// An empty buffer without memory of its own.
    pub fn new() -> InputBuffer {
        InputBuffer::default()
    }

    /// The same, which takes memory on this account.
    pub fn for_owner(owner: Owner) -> InputBuffer {
        InputBuffer { owner, ..InputBuffer::default() }
    }

    /// Bytes of the budget that the buffer holds.
    pub fn held_bytes(&self) -> u64 {
        self.reservation.as_ref().map_or(0, Reservation::bytes)
    }

    /// The bytes that wait to be consumed.
    pub fn unread(&self) -> &[u8] {
        &self.data[self.start..]
    }

    /// Drops the first `count` unread bytes.
    pub fn consume(&mut self, count: usize) {
        assert!(count <= self.unread().len(), "consumed more than was received");
        self.start += count;
        if self.start == self.data.len() {
            self.data.clear();
            self.start = 0;
        }
    }

    /// Adds received bytes that came by another way than a read into this
    /// buffer's own memory.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
    }

    /// Gives the memory to a read that appends to it. At least one byte is spare;
    /// `min_capacity_bytes` are allocated if the buffer is smaller. While it is
    /// away, nothing is unread. Growth beyond the idle size is taken from the
    /// budget.
    pub fn take_for_read(
        &mut self,
        min_capacity_bytes: usize,
        budget: &Budget,
    ) -> Result<Vec<u8>, Refusal> {
        if self.start > 0 {
            self.data.drain(..self.start);
            self.start = 0;
        }
        let len_bytes = self.data.len();
        let full = len_bytes == self.data.capacity();
        if full || self.data.capacity() < min_capacity_bytes {
            let wanted_bytes = if full { (len_bytes * 2).max(IDLE_BUFFER_BYTES) } else { 0 };
            let wanted_bytes = wanted_bytes.max(min_capacity_bytes);
            self.reserve(wanted_bytes, budget)?;
            self.data.reserve_exact(wanted_bytes - len_bytes);
        }
        Ok(std::mem::take(&mut self.data))
    }

    /// Memory for a read that may take long, while the unread bytes stay here to
    /// be consumed. `None` if as much is unread as an idle buffer holds.
    pub fn take_for_read_ahead(&mut self) -> Option<Vec<u8>> {
        let room_bytes = IDLE_BUFFER_BYTES.saturating_sub(self.unread().len());
        if self.unread().is_empty() && self.data.capacity() >= IDLE_BUFFER_BYTES {
            Some(std::mem::take(&mut self.data))
        } else if room_bytes > 0 {
            Some(Vec::with_capacity(room_bytes))
        } else {
            None
        }
    }

    /// Takes the memory back after a read; the bytes in it come after those that
    /// are unread.
    pub fn put_back(&mut self, data: Vec<u8>) {
        if self.unread().is_empty() {
            self.data = data;
            self.start = 0;
        } else {
            self.data.extend_from_slice(&data);
        }
    }

    /// Goes back to the idle size, if the unread bytes fit into it.
    pub fn shrink(&mut self) {
        if self.data.capacity() > IDLE_BUFFER_BYTES && self.unread().len() <= IDLE_BUFFER_BYTES {
            let mut small = Vec::with_capacity(IDLE_BUFFER_BYTES);
            small.extend_from_slice(self.unread());
            self.data = small;
            self.start = 0;
            self.reservation = None;
        }
    }

    fn reserve(&mut self, capacity_bytes: usize, budget: &Budget) -> Result<(), Refusal> {
        if capacity_bytes <= IDLE_BUFFER_BYTES {
            return Ok(());
        }
        match &mut self.reservation {
            Some(held) => {
                let more_bytes = (capacity_bytes as u64).saturating_sub(held.bytes());
                if !held.try_grow(more_bytes) {
                    return Err(Refusal::BudgetExhausted);
                }
            }
            None => {
                let taken = budget.try_reserve_for(self.owner, capacity_bytes as u64);
                self.reservation = Some(taken.ok_or(Refusal::BudgetExhausted)?);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_growth_and_shrinking() {
        let budget = Budget::new("test", 100_000);
        let mut input = InputBuffer::new();
        let mut sent = 0u32;
        let mut seen = 0u32;
        for round in 0..200usize {
            let mut buffer = input.take_for_read(0, &budget).expect("fits the budget");
            let spare = buffer.capacity() - buffer.len();
            assert!(spare > 0);
            for _ in 0..spare.min(round * 7) {
                buffer.push(sent as u8);
                sent += 1;
            }
            input.put_back(buffer);
            let count = input.unread().len() * 3 / 4;
            for byte in &input.unread()[..count] {
                assert_eq!(*byte, seen as u8);
                seen += 1;
            }
            input.consume(count);
            if round % 10 == 9 {
                input.shrink();
            }
        }
        assert!(seen > 50_000);
    }

    #[test]
    fn bytes_stay_in_order_while_a_read_is_away() {
        let mut input = InputBuffer::new();
        input.extend(b"one two ");
        let mut away = input.take_for_read_ahead().expect("there is room");
        assert_eq!(input.unread(), b"one two ");
        input.consume(4);
        away.extend_from_slice(b"three");
        input.put_back(away);
        assert_eq!(input.unread(), b"two three");
        input.extend(&[b'x'; IDLE_BUFFER_BYTES]);
        assert!(input.take_for_read_ahead().is_none());
        let unread_bytes = input.unread().len();
        input.consume(unread_bytes);
        assert!(input.take_for_read_ahead().expect("there is room").capacity() > 0);
    }

    #[test]
    fn growth_is_accounted_and_refused() {
        let budget = Budget::new("test", 10_000);
        let mut input = InputBuffer::new();
        for want_bytes in [4096, 8192] {
            let mut buffer = input.take_for_read(0, &budget).expect("fits the budget");
            assert_eq!(buffer.capacity(), want_bytes);
            buffer.resize(want_bytes, b'x');
            input.put_back(buffer);
        }
        assert_eq!(budget.used_bytes(), 8192);
        assert_eq!(input.take_for_read(0, &budget), Err(Refusal::BudgetExhausted));
        assert_eq!(input.unread().len(), 8192);
        input.consume(5000);
        input.shrink();
        assert_eq!((input.unread().len(), budget.used_bytes()), (3192, 0));
    }
}
