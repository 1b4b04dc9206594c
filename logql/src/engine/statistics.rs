//! Statistics that range functions and vector aggregations share.

/// The mean of `count` values, given the mean of all but the last. A mean that has
/// become infinite stays so unless NaN or the other infinity comes.
pub(crate) fn running_mean(mean: f64, count: u64, value: f64) -> f64 {
    if mean.is_infinite() {
        let same_sign = value.is_infinite() && (value > 0.0) == (mean > 0.0);
        if same_sign || value.is_finite() {
            return mean;
        }
    }
    let count = count as f64;
    mean + (value / count - mean / count)
}

/// The smaller value; a number wins over NaN.
pub(crate) fn smaller(kept: f64, value: f64) -> f64 {
    if value < kept || kept.is_nan() { value } else { kept }
}

/// The larger value; a number wins over NaN.
pub(crate) fn larger(kept: f64, value: f64) -> f64 {
    if value > kept || kept.is_nan() { value } else { kept }
}

/// Welford's running variance.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunningVariance {
    count: u64,
    mean: f64,
    squares: f64,
}

impl RunningVariance {
    pub(crate) fn add(&mut self, value: f64) {
        self.count += 1;
        let delta = value - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (value - self.mean);
    }

    /// The variance of the population.
    pub(crate) fn variance(&self) -> f64 {
        self.squares / self.count as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extrema_prefer_numbers_over_nan() {
        let nan = f64::NAN;
        assert_eq!([3.0, nan, 2.0, 5.0].into_iter().fold(nan, smaller), 2.0);
        assert_eq!([nan, 3.0].into_iter().fold(1.0, larger), 3.0);
        assert!(larger(nan, nan).is_nan());
    }

    #[test]
    fn the_mean_stays_infinite_with_finite_values() {
        let mean = |values: &[f64]| {
            (1..).zip(values).fold(0.0, |mean, (count, value)| running_mean(mean, count, *value))
        };
        let inf = f64::INFINITY;
        assert_eq!(mean(&[1.0, inf, 2.0, inf]), inf);
        assert!(mean(&[inf, -inf]).is_nan());
        assert_eq!(mean(&[1.0, 2.0, 3.0]), 2.0);
        // The running mean, not the quotient, decides the last digit.
        assert_eq!(mean(&[2.0, 3.0, 5.0, 2.0, 4.0, 6.0]), 3.666_666_666_666_667);
    }

    #[test]
    fn deviations_are_those_of_the_population() {
        let variance = |values: &[f64]| {
            let mut variance = RunningVariance::default();
            values.iter().for_each(|value| variance.add(*value));
            variance.variance()
        };
        assert_eq!(variance(&[3.0, 1.0]), 1.0);
        assert_eq!(variance(&[5.0]), 0.0);
        assert_eq!(variance(&[3.0, 1.0, 2.0, 2.0, 5.0]), 1.839_999_999_999_999_9);
    }
}
