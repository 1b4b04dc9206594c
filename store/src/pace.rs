//! How long a request takes that is slow by the standard of others.

use std::time::Duration;

/// Times that are remembered.
const REMEMBERED: usize = 256;
/// Before so many are known, nothing is slow.
const KNOWN_MIN: usize = 64;
/// Nothing below this is slow.
const PATIENCE_MIN: Duration = Duration::from_millis(20);

/// The times of recent requests.
#[derive(Debug, Default)]
pub(crate) struct Slowest {
    /// In microseconds, the oldest at `next`.
    times_us: Vec<u32>,
    next: usize,
    patience: Option<Duration>,
}

impl Slowest {
    /// Notes how long a request took.
    pub(crate) fn note(&mut self, time: Duration) {
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

    /// After so long a request is slower than 99 of 100; `None`: too few are known.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_hundred_is_slow() {
        let mut slowest = Slowest::default();
        for number in 0..KNOWN_MIN {
            assert_eq!(slowest.patience(), None, "{number} are known");
            slowest.note(Duration::from_millis(30));
        }
        assert_eq!(slowest.patience(), Some(Duration::from_millis(30)));
        for number in 0..2 * REMEMBERED as u64 {
            slowest.note(Duration::from_millis(if number % 50 == 0 { 500 } else { 40 }));
        }
        assert_eq!(slowest.patience(), Some(Duration::from_millis(500)));
        for _ in 0..2 * REMEMBERED {
            slowest.note(Duration::from_micros(300));
        }
        assert_eq!(slowest.patience(), Some(PATIENCE_MIN));
    }
}
