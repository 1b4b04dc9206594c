//! Latencies in a histogram with three significant digits, from one microsecond
//! to ten minutes; longer ones count as ten minutes.

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::time::Duration;

const LONGEST_MICROS: u64 = 600_000_000;

/// A histogram of durations.
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(crate) fn new() -> Latencies {
        let histogram = Histogram::new_with_bounds(1, LONGEST_MICROS, 3);
        Latencies(histogram.expect("these bounds are valid"))
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.0.saturating_record(micros.clamp(1, LONGEST_MICROS));
    }

    pub(crate) fn add(&mut self, other: &Latencies) {
        self.0.add(&other.0).expect("all histograms have the same bounds");
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency at a quantile between 0 and 1, in milliseconds.
    pub(crate) fn quantile_ms(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1e3
    }

    /// The smallest latency in milliseconds.
    pub(crate) fn min_ms(&self) -> f64 {
        if self.0.is_empty() { 0.0 } else { self.0.min() as f64 / 1e3 }
    }

    /// The largest latency in milliseconds.
    pub(crate) fn max_ms(&self) -> f64 {
        self.0.max() as f64 / 1e3
    }

    /// Count and quantiles for a report, times in milliseconds.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "count": self.count(),
            "min_ms": self.min_ms(),
            "p50_ms": self.quantile_ms(0.5),
            "p95_ms": self.quantile_ms(0.95),
            "p99_ms": self.quantile_ms(0.99),
            "p999_ms": self.quantile_ms(0.999),
            "max_ms": self.max_ms(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_known_set() {
        let mut low = Latencies::new();
        let mut high = Latencies::new();
        (1..=990).for_each(|_| low.record(Duration::from_millis(2)));
        (1..=10).for_each(|_| high.record(Duration::from_secs(1)));
        low.add(&high);
        assert_eq!(low.count(), 1000);
        assert!((low.quantile_ms(0.5) - 2.0).abs() < 0.01);
        assert!((low.quantile_ms(0.999) - 1000.0).abs() < 2.0);
        assert!((low.max_ms() - 1000.0).abs() < 2.0);
        low.record(Duration::from_secs(100_000));
        assert!((low.max_ms() - 600_000.0).abs() < 600.0);
    }
}
