//! `quantile_over_time`.

use std::cmp::Ordering;

/// The `q`-quantile of the values, interpolated between the two nearest ranks.
/// NaN values sort first. A `q` outside of 0 to 1 gives an infinity.
pub(super) fn quantile(q: f64, values: impl Iterator<Item = f64>) -> f64 {
    if q < 0.0 {
        return f64::NEG_INFINITY;
    }
    if q > 1.0 {
        return f64::INFINITY;
    }
    let mut values: Vec<f64> = values.collect();
    let Some(last) = values.len().checked_sub(1) else { return f64::NAN };
    if q.is_nan() {
        return f64::NAN;
    }
    let rank = q * last as f64;
    let index = (rank.floor() as usize).min(last);
    let weight = rank - rank.floor();
    let (_, lower, above) = values.select_nth_unstable_by(index, nan_first);
    let lower = *lower;
    let upper = above.iter().copied().min_by(nan_first).unwrap_or(lower);
    lower * (1.0 - weight) + upper * weight
}

fn nan_first(a: &f64, b: &f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_interpolated() {
        let of = |q| quantile(q, [6.0, 2.0, 3.0, 5.0, 2.0, 4.0].into_iter());
        for (q, value) in [(0.0, 2.0), (0.25, 2.25), (0.5, 3.5), (0.9, 5.5), (1.0, 6.0)] {
            assert_eq!(of(q), value, "{q}");
        }
        assert_eq!(of(1.5), f64::INFINITY);
        assert_eq!(of(-0.1), f64::NEG_INFINITY);
        assert!(of(f64::NAN).is_nan());
        assert_eq!(quantile(1.0, [f64::NAN, 1.0].into_iter()), 1.0);
    }
}
