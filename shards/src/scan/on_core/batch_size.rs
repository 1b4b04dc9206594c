//! Adapts the size of batches to the time that they take.

use std::time::Duration;

use crate::scan::aside::Batch;

/// How many bytes of columns are computed aside at once: as many as take [`BATCH_TIME`]. Less
/// would cost more wake-ups, more would let other queries wait.
#[derive(Debug)]
pub(super) struct BatchSize {
    bytes: usize,
}

const BATCH_TIME: Duration = Duration::from_millis(2);

/// At least so many, which take one to three milliseconds if they have to be decoded.
const BATCH_BYTES_MIN: usize = 1 << 20;

/// At most so many: decoded lines are searched in a twentieth of the time.
const BATCH_BYTES_MAX: usize = 16 << 20;

/// Items of a batch at most, however small they are.
const BATCH_ITEMS: usize = 256;

impl Default for BatchSize {
    fn default() -> BatchSize {
        BatchSize { bytes: BATCH_BYTES_MIN }
    }
}

impl BatchSize {
    /// Whether a batch is large enough.
    pub(super) fn is_reached_by(&self, batch: &Batch) -> bool {
        batch.bytes >= self.bytes || batch.items.len() >= BATCH_ITEMS
    }

    /// Notes how long a batch of so many bytes has taken, waits included. Sizes grow slowly,
    /// as the next columns may not be decoded.
    pub(super) fn note(&mut self, bytes: usize, elapsed: Duration) {
        let in_time = bytes as u128 * BATCH_TIME.as_nanos() / elapsed.as_nanos().max(1);
        let most = (2 * bytes).min(BATCH_BYTES_MAX);
        self.bytes = usize::try_from(in_time).map_or(most, |bytes| bytes.min(most));
        self.bytes = self.bytes.max(BATCH_BYTES_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_grow_slowly_and_shrink_at_once() {
        let mut size = BatchSize::default();
        let full = |bytes| Batch { bytes, ..Batch::default() };
        for _ in 0..3 {
            assert!(
                !size.is_reached_by(&full(size.bytes - 1)) && size.is_reached_by(&full(size.bytes))
            );
            size.note(size.bytes, BATCH_TIME / 20);
        }
        assert_eq!(size.bytes, 8 * BATCH_BYTES_MIN);
        size.note(size.bytes, BATCH_TIME * 2);
        assert_eq!(size.bytes, 4 * BATCH_BYTES_MIN);
        for _ in 0..9 {
            size.note(size.bytes, Duration::ZERO);
        }
        assert_eq!(size.bytes, BATCH_BYTES_MAX);
        size.note(size.bytes, Duration::from_secs(1));
        assert_eq!(size.bytes, BATCH_BYTES_MIN);
        // The last batch of a scan is small.
        size.note(0, Duration::ZERO);
        assert_eq!(size.bytes, BATCH_BYTES_MIN);
    }
}
