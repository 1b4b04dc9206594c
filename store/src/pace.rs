//! How long a read takes that is slow by the standard of others, and how many may be asked twice.
//!
//! Guarantees: besides a few in a row, no more than one read in [`READS_PER_SECOND_READ`] is asked for
//! twice. When all become slow because the store or this machine is busy, more requests would make it
//! worse.

use std::time::Duration;

/// Times that are remembered.
const REMEMBERED: usize = 256;
/// Before so many are known, nothing is slow.
const KNOWN_MIN: usize = 64;
/// Nothing below this is slow.
const PATIENCE_MIN: Duration = Duration::from_millis(20);
/// Bytes that come in a second at least if nothing is wrong. A long range is given its time for them.
const BYTES_PER_SECOND: u64 = 32 << 20;
/// One read in so many may be asked for twice.
const READS_PER_SECOND_READ: u32 = 32;
/// So many in a row may be, if few were before.
const IN_A_ROW: u32 = 8;

/// The times of recent requests.
#[derive(Debug, Default)]
pub(crate) struct Slowest {
    /// In microseconds, the oldest at `next`.
    times_us: Vec<u32>,
    next: usize,
    patience: Option<Duration>,
    /// Reads that have earned no second one yet.
    earned: u32,
}

/// How long the bytes of a range may take.
fn transfer(len_bytes: u64) -> Duration {
    Duration::from_micros(len_bytes.saturating_mul(1_000_000) / BYTES_PER_SECOND)
}

impl Slowest {
    /// Notes how long a read of so many bytes took.
    pub(crate) fn note(&mut self, time: Duration, len_bytes: u64) {
        self.earned = (self.earned + 1).min(IN_A_ROW * READS_PER_SECOND_READ);
        let time = time.saturating_sub(transfer(len_bytes));
        let time_us = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        if self.times_us.len() < REMEMBERED {
            self.times_us.push(time_us);
        } else {
            self.times_us[self.next] = time_us;
            self.next = (self.next + 1) % REMEMBERED;
        }
        // A look at all of them for every eighth costs next to nothing beside a request.
        if self.times_us.len() >= KNOWN_MIN
            && (self.next.is_multiple_of(8) || self.patience.is_none())
        {
            let mut times_us = self.times_us.clone();
            let at = times_us.len() * 99 / 100;
            let (_, &mut slow_us, _) = times_us.select_nth_unstable(at);
            self.patience = Some(Duration::from_micros(slow_us.into()).max(PATIENCE_MIN));
        }
    }

    /// After so long a read of so many bytes is slower than 99 of 100; `None`: too few are known.
    pub(crate) fn patience(&self, len_bytes: u64) -> Option<Duration> {
        Some(self.patience? + transfer(len_bytes))
    }

    /// Whether a slow read may be asked for once more; counts it.
    pub(crate) fn take_second(&mut self) -> bool {
        let left = self.earned.checked_sub(READS_PER_SECOND_READ);
        self.earned = left.unwrap_or(self.earned);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_hundred_is_slow() {
        let mut slowest = Slowest::default();
        for number in 0..KNOWN_MIN {
            assert_eq!(slowest.patience(0), None, "{number} are known");
            slowest.note(Duration::from_millis(30), 0);
        }
        assert_eq!(slowest.patience(0), Some(Duration::from_millis(30)));
        for number in 0..2 * REMEMBERED as u64 {
            slowest.note(Duration::from_millis(if number % 50 == 0 { 500 } else { 40 }), 0);
        }
        assert_eq!(slowest.patience(0), Some(Duration::from_millis(500)));
        for _ in 0..2 * REMEMBERED {
            slowest.note(Duration::from_micros(300), 0);
        }
        assert_eq!(slowest.patience(0), Some(PATIENCE_MIN));
    }

    #[test]
    fn long_ranges_have_time_for_their_bytes() {
        let mut slowest = Slowest::default();
        for number in 0..2 * REMEMBERED as u64 {
            let (time_ms, len_bytes) = if number % 2 == 0 { (30, 0) } else { (280, 8 << 20) };
            slowest.note(Duration::from_millis(time_ms), len_bytes);
        }
        assert_eq!(slowest.patience(0), Some(Duration::from_millis(30)));
        assert_eq!(slowest.patience(8 << 20), Some(Duration::from_millis(280)));
    }

    #[test]
    fn few_are_asked_for_twice_even_if_all_are_slow() {
        let mut slowest = Slowest::default();
        assert!(!slowest.take_second(), "nothing was read");
        let seconds = (0..3_200).filter(|_| {
            slowest.note(Duration::from_secs(1), 0);
            slowest.take_second()
        });
        assert_eq!(seconds.count(), 100);
        (0..3_200).for_each(|_| slowest.note(Duration::from_secs(1), 0));
        assert_eq!((0..100).filter(|_| slowest.take_second()).count(), IN_A_ROW as usize);
    }
}
