//! Counts of values by size.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::add;

/// Upper bounds of latencies in microseconds.
pub(super) const LATENCY_BOUNDS_US: [u64; 12] = [
    100, 500, 1_000, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000,
    30_000_000,
];

/// Written by one core, read by all.
#[derive(Debug)]
pub(super) struct Histogram {
    bounds: &'static [u64],
    /// One longer than the bounds.
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// A histogram of durations.
#[derive(Debug)]
pub(crate) struct Latencies(Histogram);

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies(Histogram::new(&LATENCY_BOUNDS_US))
    }
}

impl Latencies {
    /// Counts a duration.
    pub(crate) fn record(&self, duration: Duration) {
        self.0.observe(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
    }

    /// The counts, in microseconds.
    pub(super) fn histogram(&self) -> &Histogram {
        &self.0
    }
}

/// Upper bounds of lengths of lines in bytes: powers of eight.
const LENGTH_BOUNDS: [u64; 8] = [1, 8, 64, 512, 4096, 32_768, 262_144, 2_097_152];

/// Lengths of some lines, counted without atomics.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineCounts {
    counts: [u64; LENGTH_BOUNDS.len() + 1],
    sum_bytes: u64,
}

impl LineCounts {
    /// Counts a line.
    #[inline]
    pub(crate) fn count(&mut self, len_bytes: u64) {
        // How many bits the largest index into the line has, by three.
        let bits = u64::BITS - len_bytes.saturating_sub(1).leading_zeros();
        let bucket = (bits.div_ceil(3) as usize).min(LENGTH_BOUNDS.len());
        self.counts[bucket] += 1;
        self.sum_bytes += len_bytes;
    }
}

/// A histogram of lengths of lines.
#[derive(Debug)]
pub(crate) struct LineLengths(Histogram);

impl Default for LineLengths {
    fn default() -> LineLengths {
        LineLengths(Histogram::new(&LENGTH_BOUNDS))
    }
}

impl LineLengths {
    /// Adds the lines of a push.
    pub(crate) fn add(&self, lines: &LineCounts) {
        for (bucket, &count) in self.0.buckets.iter().zip(&lines.counts) {
            if count > 0 {
                add(bucket, count);
            }
        }
        add(&self.0.sum, lines.sum_bytes);
    }

    /// The counts, in bytes.
    pub(super) fn histogram(&self) -> &Histogram {
        &self.0
    }
}

/// The sum of several histograms of the same bounds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Counted {
    /// Upper bounds, ascending.
    pub(super) bounds: &'static [u64],
    /// Not cumulative; one longer than the bounds.
    pub(super) counts: Vec<u64>,
    /// Sum of the values.
    pub(super) sum: u64,
}

impl Histogram {
    /// Nothing counted yet.
    pub(super) fn new(bounds: &'static [u64]) -> Histogram {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, buckets, sum: AtomicU64::new(0) }
    }

    /// Counts a value.
    pub(super) fn observe(&self, value: u64) {
        let bucket = self.bounds.partition_point(|&bound| bound < value);
        add(&self.buckets[bucket], 1);
        add(&self.sum, value);
    }

    /// The sum of histograms; `None` if there is none.
    pub(super) fn sum<'h>(histograms: impl Iterator<Item = &'h Histogram>) -> Option<Counted> {
        let mut sum: Option<Counted> = None;
        for histogram in histograms {
            let bounds = histogram.bounds;
            let whole = sum.get_or_insert_with(|| Counted {
                bounds,
                counts: vec![0; bounds.len() + 1],
                sum: 0,
            });
            for (count, bucket) in whole.counts.iter_mut().zip(&histogram.buckets) {
                *count += bucket.load(Ordering::Relaxed);
            }
            whole.sum = whole.sum.saturating_add(histogram.sum.load(Ordering::Relaxed));
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_where_their_bounds_say() {
        for len in (0..600).chain([4096, 4097, 262_144, 262_145, 2_097_152, 2_097_153, 1 << 40]) {
            let mut lines = LineCounts::default();
            lines.count(len);
            let found = lines.counts.iter().position(|&count| count == 1);
            let expected = LENGTH_BOUNDS.partition_point(|&bound| bound < len);
            assert_eq!(found, Some(expected), "{len}");
        }
    }
}
