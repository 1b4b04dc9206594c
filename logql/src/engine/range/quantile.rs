//! `quantile_over_time`.
//!
//! Values are ranked by keys: integers in the order of the values, with NaN first and -0 before 0.
//! Equal keys are equal bits, so the result depends on the values alone, not on their order.

/// The number whose order among numbers is that of the value among values.
pub(crate) fn key_of(value: f64) -> u64 {
    let bits = value.to_bits();
    let ordered = if bits >> 63 == 0 { bits | SIGN } else { !bits };
    ordered.wrapping_add(NANS)
}

/// The value of a key.
pub(crate) fn value_of(key: u64) -> f64 {
    let ordered = key.wrapping_sub(NANS);
    f64::from_bits(if ordered & SIGN != 0 { ordered & !SIGN } else { !ordered })
}

const SIGN: u64 = 1 << 63;

/// How many NaN have no sign; they would be the greatest, and are moved before all others.
const NANS: u64 = (1 << 52) - 1;

/// Where among its sorted values a quantile lies.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Rank {
    /// It does not depend on the values.
    Known(f64),
    /// Between the value of this index and the next one, if there is one.
    At { index: usize, weight: f64 },
}

impl Rank {
    /// The place of the `q`-quantile among `count` values. A `q` outside of 0 to 1 gives an
    /// infinity.
    pub(crate) fn of(q: f64, count: usize) -> Self {
        if q < 0.0 {
            return Self::Known(f64::NEG_INFINITY);
        }
        if q > 1.0 {
            return Self::Known(f64::INFINITY);
        }
        let Some(last) = count.checked_sub(1).filter(|_| !q.is_nan()) else {
            return Self::Known(f64::NAN);
        };
        let rank = q * last as f64;
        Self::At { index: (rank.floor() as usize).min(last), weight: rank - rank.floor() }
    }
}

/// The value between two neighbours, given by their keys.
pub(crate) fn interpolated(lower: u64, upper: u64, weight: f64) -> f64 {
    value_of(lower) * (1.0 - weight) + value_of(upper) * weight
}

/// The `q`-quantile of the values, interpolated between the two nearest ranks.
pub(super) fn quantile(q: f64, values: impl Iterator<Item = f64>) -> f64 {
    let mut keys: Vec<u64> = values.map(key_of).collect();
    match Rank::of(q, keys.len()) {
        Rank::Known(value) => value,
        Rank::At { index, weight } => {
            let (_, lower, above) = keys.select_nth_unstable(index);
            let lower = *lower;
            let upper = above.iter().copied().min().unwrap_or(lower);
            interpolated(lower, upper, weight)
        }
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

    #[test]
    fn keys_have_the_order_of_values() {
        let ascending = [
            f64::from_bits(0x7ff0_0000_0000_0001),
            f64::NAN,
            f64::from_bits(u64::MAX >> 1),
            -f64::NAN,
            f64::NEG_INFINITY,
            f64::MIN,
            -1.5,
            -f64::MIN_POSITIVE,
            -0.0,
            0.0,
            5e-324,
            1.0,
            f64::MAX,
            f64::INFINITY,
        ];
        assert!(ascending.is_sorted_by_key(|value| key_of(*value)));
        for value in ascending {
            assert_eq!(value_of(key_of(value)).to_bits(), value.to_bits(), "{value}");
        }
    }
}
