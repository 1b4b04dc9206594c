//! The open-loop schedule of a fixed rate: every body has an intended send time
//! that does not depend on how fast the server answers. Latency is measured from
//! that time, so a server that stalls is charged for all the requests that had to
//! wait, not just for the one that it was working on.

use std::time::Duration;

/// Intended send times of a sequence of bodies.
pub(crate) struct Schedule {
    bytes_per_second: Option<f64>,
    sent_bytes: u64,
}

impl Schedule {
    /// A schedule of `megabytes_per_second` (10^6 raw bytes); at once if none.
    pub(crate) fn new(megabytes_per_second: Option<f64>) -> Schedule {
        Schedule { bytes_per_second: megabytes_per_second.map(|rate| rate * 1e6), sent_bytes: 0 }
    }

    /// When the next body, of `raw_bytes`, is due, counted from the start of the
    /// round. None when bodies go out as fast as the connections allow.
    pub(crate) fn next_due(&mut self, raw_bytes: u64) -> Option<Duration> {
        let due = Duration::from_secs_f64(self.sent_bytes as f64 / self.bytes_per_second?);
        self.sent_bytes += raw_bytes;
        Some(due)
    }
}

/// How long to wait before attempt number `attempt` (from 1) of a request that failed: the time
/// that the server asked for, else doubling from 50 ms to 5 s.
pub(crate) fn backoff(attempt: u32, retry_after_seconds: Option<u64>) -> Duration {
    match retry_after_seconds {
        Some(seconds) => Duration::from_secs(seconds.min(30)),
        None => Duration::from_millis(50 << attempt.clamp(1, 8).saturating_sub(1))
            .min(Duration::from_secs(5)),
    }
}

/// Reads a rate in MB/s, which must be positive.
pub(crate) fn parse_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err(format!("{text:?} is not a positive number of MB/s")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_due_when_the_rate_has_room_for_them() {
        let mut schedule = Schedule::new(Some(2.0));
        let due: Vec<u128> = [1_000_000, 500_000, 4_000_000, 1]
            .map(|b| schedule.next_due(b).unwrap().as_millis())
            .into();
        assert_eq!(due, [0, 500, 750, 2750]);
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        assert_eq!(Schedule::new(None).next_due(1_000_000), None);
    }

    #[test]
    fn backoff_doubles_up_to_a_cap_unless_the_server_says_otherwise() {
        let millis: Vec<u128> =
            [1, 2, 3, 7, 8, 9, 1000].map(|attempt| backoff(attempt, None).as_millis()).into();
        assert_eq!(millis, [50, 100, 200, 3200, 5000, 5000, 5000]);
        assert_eq!(backoff(1, Some(3)), Duration::from_secs(3));
        assert_eq!(backoff(1, Some(86_400)), Duration::from_secs(30));
    }

    #[test]
    fn rates() {
        assert_eq!(parse_rate("1.5"), Ok(1.5));
        for text in ["0", "-1", "fast", "inf", "NaN"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }
}
