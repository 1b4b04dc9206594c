//! Memory of pieces and objects that serves again.
//!
//! An object of some megabytes is filled, sent and dropped several times a second. The allocator gives
//! such memory back to the system at once, which then has to clear it anew, page by page: that takes
//! longer than to copy the bytes.
//!
//! Guarantees: at most so many buffers wait, and none that is longer than the limit. Nobody waits for one.

use flume::{Receiver, Sender};

/// Buffers of one kind. Cheap to clone; for all cores.
#[derive(Clone, Debug)]
pub(super) struct Spares {
    buffers: (Sender<Vec<u8>>, Receiver<Vec<u8>>),
    max_bytes: usize,
}

impl Spares {
    /// None yet, and never more than `count`, each of at most `max_bytes`.
    pub(super) fn new(count: usize, max_bytes: usize) -> Spares {
        Spares { buffers: flume::bounded(count), max_bytes }
    }

    /// An empty buffer with room for `len_bytes`.
    pub(super) fn take(&self, len_bytes: usize) -> Vec<u8> {
        match self.buffers.1.try_recv() {
            Ok(buffer) if buffer.capacity() >= len_bytes => buffer,
            // Whoever asks next may need more than this one does, but not much more.
            _ => {
                Vec::with_capacity(len_bytes.max(len_bytes.next_power_of_two().min(self.max_bytes)))
            }
        }
    }

    /// Makes room in a buffer for further bytes, and for more behind them, up to the limit.
    pub(super) fn reserve(&self, buffer: &mut Vec<u8>, additional: usize) {
        let needed = buffer.len() + additional;
        if needed > buffer.capacity() {
            let capacity = needed.max((2 * buffer.capacity()).min(self.max_bytes));
            buffer.reserve_exact(capacity - buffer.len());
        }
    }

    /// Takes a buffer that has served.
    pub(super) fn give(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= self.max_bytes {
            buffer.clear();
            // There are enough.
            let _ = self.buffers.0.try_send(buffer);
        }
    }

    /// Frees all.
    pub(super) fn free(&self) {
        self.buffers.1.drain().for_each(drop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_serve_again_up_to_their_number_and_length() {
        let spares = Spares::new(2, 100);
        let buffer = |content: u8, capacity: usize| {
            let mut buffer = Vec::with_capacity(capacity);
            buffer.push(content);
            buffer
        };
        let first = buffer(1, 64);
        let place = first.as_ptr();
        spares.give(first);
        spares.give(buffer(2, 1000));
        let again = spares.take(64);
        assert!(again.is_empty() && again.as_ptr() == place);
        spares.give(again);
        assert!(spares.take(80).capacity() >= 80, "that one is too short, and is freed");
        assert!(spares.buffers.1.is_empty(), "the long one does not wait");
        for content in 0..3 {
            spares.give(buffer(content, 64));
        }
        assert_eq!(spares.buffers.1.len(), 2);
        let mut growing = spares.take(60);
        growing.resize(60, 0);
        spares.reserve(&mut growing, 20);
        assert_eq!(growing.capacity(), 100, "it may serve again");
        spares.reserve(&mut growing, 50);
        assert!(growing.capacity() >= 110);
        spares.free();
        assert!(spares.buffers.1.is_empty());
        assert!(spares.take(1000).capacity() >= 1000);
    }
}
