//! `rate_counter`: the rate of a counter that may be reset, extrapolated to the
//! borders of the window.

use super::{Window, WindowSample, seconds};

/// A gap this many times the mean distance of samples ends the extrapolation.
const GAP_FACTOR: f64 = 1.1;

/// The rate per second; 0 for fewer than two samples, as in Loki.
pub(super) fn rate_counter(window: &Window, samples: &[WindowSample]) -> f64 {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return 0.0 };
    let mut increase = last.value - first.value;
    for pair in samples.windows(2) {
        if pair[1].value < pair[0].value {
            increase += pair[0].value;
        }
    }
    extrapolated(window, first, last, samples.len() as f64, increase)
}

/// The rate that follows from the increase between the first and the last of
/// `count` samples; 0 for fewer than two.
pub(super) fn extrapolated(
    window: &Window,
    first: &WindowSample,
    last: &WindowSample,
    count: f64,
    increase: f64,
) -> f64 {
    if count < 2.0 {
        return 0.0;
    }
    let (first_ns, last_ns) = (i128::from(first.timestamp_ns), i128::from(last.timestamp_ns));
    let mut to_start_s = seconds(first_ns - window.start_ns);
    let mut to_end_s = seconds(window.end_ns - last_ns);
    let sampled_s = seconds(last_ns - first_ns);
    let mean_distance_s = sampled_s / (count - 1.0);
    if to_start_s >= mean_distance_s * GAP_FACTOR {
        to_start_s = mean_distance_s / 2.0;
    }
    if increase > 0.0 && first.value >= 0.0 {
        // The counter cannot have been below zero.
        let to_zero_s = sampled_s * (first.value / increase);
        to_start_s = to_start_s.min(to_zero_s);
    }
    if to_end_s >= mean_distance_s * GAP_FACTOR {
        to_end_s = mean_distance_s / 2.0;
    }
    increase * ((sampled_s + to_start_s + to_end_s) / sampled_s) / window.range_s()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(window_s: (i64, i64), samples: &[(i64, f64)]) -> f64 {
        let ns = |s: i64| s * 1_000_000_000;
        let window = Window { start_ns: ns(window_s.0).into(), end_ns: ns(window_s.1).into() };
        let samples: Vec<WindowSample> =
            samples.iter().map(|&(s, value)| WindowSample { timestamp_ns: ns(s), value }).collect();
        rate_counter(&window, &samples)
    }

    #[test]
    fn resets_and_borders_count_as_in_the_reference() {
        let counter = [(10, 2.0), (20, 3.0), (30, 5.0), (40, 2.0), (50, 4.0), (60, 6.0)];
        assert!((rate((0, 60), &counter) - 0.18).abs() < 1e-12);
        assert!((rate((30, 65), &counter[3..]) - 0.2).abs() < 1e-12);
        assert_eq!(rate((50, 60), &counter[5..]), 0.0);
    }
}
