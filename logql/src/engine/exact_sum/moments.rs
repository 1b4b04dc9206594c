//! How far numbers lie from their mean.
//!
//! For `n` numbers with the sum `s` and the sum of squares `q` the variance is `(n q - s s) / n^2`.
//! Both sums are exact here, and so is the numerator, which is rounded once. So nothing is lost
//! where the numbers are large and close to each other, and the order of numbers does not count.
//!
//! Squares of numbers with many digits differ by more bits than a sum holds by itself, so moments
//! of such numbers take [`Moments::heap_bytes`] more, some 800 bytes at most.

use super::fixed::{FixedPoint, add_words, negate, rounded};
use super::{Parts, UNIT, WORDS, parts, times_power};

/// Words of a sum of squares: 4196 bits for the largest one, 64 for how many there are, one for the
/// sign.
const SQUARE_WORDS: usize = 67;

/// Words of the numerator: 64 bits more.
const NUMERATOR_WORDS: usize = SQUARE_WORDS + 1;

/// The number of numbers, their sum, and the sum of their squares.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Moments {
    count: u64,
    /// The finite numbers, with a mark if there are others.
    sum: FixedPoint<WORDS>,
    squares: FixedPoint<SQUARE_WORDS>,
}

impl Moments {
    /// Adds a number.
    pub(crate) fn add(&mut self, value: f64) {
        self.count += 1;
        match parts(value) {
            Parts::Mark(mark) => self.sum.marks |= mark,
            Parts::Finite { is_negative, bits, place } => {
                let bits = u128::from(bits);
                self.sum.add(is_negative, bits, place);
                self.squares.add(false, bits * bits, 2 * place);
            }
        }
    }

    /// Adds the numbers of others.
    pub(crate) fn join(&mut self, other: &Self) {
        self.count += other.count;
        self.sum.join(&other.sum);
        self.squares.join(&other.squares);
        self.sum.marks |= other.sum.marks;
    }

    /// The variance of the numbers, all of them being the population. NaN if one is not finite.
    pub(crate) fn variance(&self) -> f64 {
        let Some((numerator, exponent)) = self.numerator() else { return f64::NAN };
        let count = self.count as f64;
        times_power(numerator / (count * count), exponent)
    }

    /// The square root of the variance. It is finite and not 0 where the variance is beyond all
    /// numbers, or too small.
    pub(crate) fn deviation(&self) -> f64 {
        let Some((numerator, exponent)) = self.numerator() else { return f64::NAN };
        let odd = exponent.rem_euclid(2);
        let root = times_power(numerator, odd).sqrt() / self.count as f64;
        times_power(root, (exponent - odd) / 2)
    }

    /// A number and an exponent, `number * 2^exponent` being the variance times the square of the
    /// count.
    fn numerator(&self) -> Option<(f64, i32)> {
        if self.sum.marks != 0 {
            return None;
        }
        let (_, sum) = self.sum.magnitude();
        let (_, squares) = self.squares.magnitude();
        let mut numerator = [0u64; NUMERATOR_WORDS];
        add_product(&mut numerator, &sum, &sum);
        negate(&mut numerator);
        let mut times_count = [0u64; NUMERATOR_WORDS];
        add_product(&mut times_count, &squares, &[self.count]);
        add_words(numerator.iter_mut(), times_count.into_iter());
        let (number, place) = rounded(&numerator);
        Some((number, place.cast_signed() + 2 * UNIT))
    }

    /// Heap memory in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.sum.heap_bytes() + self.squares.heap_bytes()
    }

    /// The most heap memory of moments that are joined from some of these, in bytes.
    pub(crate) fn joined_heap_bytes<'m>(all: impl Iterator<Item = &'m Self> + Clone) -> usize {
        FixedPoint::joined_heap_bytes(all.clone().map(|one| &one.sum))
            + FixedPoint::joined_heap_bytes(all.map(|one| &one.squares))
    }
}

/// Adds a product of integers, lowest words first, to another one that has room for it.
fn add_product(total: &mut [u64], a: &[u64], b: &[u64]) {
    for (i, a) in a.iter().enumerate().filter(|(_, word)| **word != 0) {
        let mut carry = 0u64;
        let last = b.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        let first = b.iter().position(|word| *word != 0).unwrap_or(0);
        let mut place = i + first;
        for b in &b[first..last] {
            // At most 2^128 - 1.
            let sum =
                u128::from(*a) * u128::from(*b) + u128::from(total[place]) + u128::from(carry);
            (total[place], carry) = (sum as u64, (sum >> u64::BITS) as u64);
            place += 1;
        }
        while carry > 0 {
            let sum = u128::from(total[place]) + u128::from(carry);
            (total[place], carry) = (sum as u64, (sum >> u64::BITS) as u64);
            place += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;

    fn of(values: &[f64]) -> Moments {
        let mut moments = Moments::default();
        values.iter().for_each(|value| moments.add(*value));
        moments
    }

    #[test]
    fn variances_are_those_of_the_population() {
        for (values, variance) in [
            (&[3.0, 1.0][..], 1.0),
            (&[5.0], 0.0),
            (&[3.0, 1.0, 2.0, 2.0, 5.0], 1.84),
            (&[0.1; 7], 0.0),
            (&[-0.0, 0.0], 0.0),
            // Close to each other, far from 0.
            (&[1e15, 1e15 + 1.0], 0.25),
            (&[1e300, 1e300], 0.0),
            (&[1e150, 3e150], 1e300),
            (&[1e-150, 3e-150], 1e-300),
            (&[f64::MAX, f64::MIN], f64::INFINITY),
        ] {
            let found = of(values).variance();
            let near = found == variance || (found - variance).abs() <= 1e-15 * variance;
            assert!(near, "{values:?}: {found:e}");
        }
        for values in [[f64::NAN, 1.0], [f64::INFINITY, 1.0], [f64::NEG_INFINITY, f64::INFINITY]] {
            assert!(of(&values).variance().is_nan() && of(&values).deviation().is_nan());
        }
    }

    #[test]
    fn deviations_are_numbers_where_variances_are_not() {
        assert_eq!(of(&[f64::MAX, f64::MIN]).deviation(), f64::MAX);
        assert_eq!(of(&[1e200, 3e200]).deviation(), 1e200);
        assert_eq!(of(&[1e-200, 3e-200]).deviation(), 1e-200);
        let tiny = f64::from_bits(1);
        assert_eq!(of(&[tiny, 3.0 * tiny]).deviation(), tiny);
        assert_eq!(of(&[3.0, 1.0]).deviation(), 1.0);
        assert_eq!(of(&[2.0, 2.0]).deviation(), 0.0);
    }

    /// Integers, whose variance is a fraction of integers.
    #[test]
    fn variances_are_exact_in_any_order_and_grouping() {
        for seed in 0..2000 {
            let mut rng = Rng::new(seed);
            // The same integers, far from 0 or close to it, and shifted by any power of two.
            let (base, shift) = (rng.below(1 << 52) as u64 >> rng.below(52), rng.below(400) as i32);
            let shift = if rng.one_in(2) { shift } else { -shift };
            let near: Vec<i64> = (0..1 + rng.below(30)).map(|_| rng.below(1000) as i64).collect();
            let mut values: Vec<f64> =
                near.iter().map(|near| (base as i64 + near) as f64 * 2f64.powi(shift)).collect();
            let count = near.len() as i64;
            let sum: i64 = near.iter().sum();
            let squares: i64 = near.iter().map(|near| near * near).sum();
            let exact = (count * squares - sum * sum) as f64 / (count * count) as f64;
            let exact = exact * 2f64.powi(shift).powi(2);
            let found = of(&values).variance();
            assert!((found - exact).abs() <= exact * 1e-15, "seed {seed}: {found:e}, {exact:e}");
            let root = of(&values).deviation();
            assert!((root - exact.sqrt()).abs() <= root * 1e-15, "seed {seed}: {root:e}");
            for _ in 0..3 {
                for i in (1..values.len()).rev() {
                    values.swap(i, rng.below(i + 1));
                }
                let mut joined = Moments::default();
                values.chunks(1 + rng.below(9)).for_each(|chunk| joined.join(&of(chunk)));
                assert_eq!(joined.variance().to_bits(), found.to_bits(), "seed {seed}");
                assert_eq!(joined.deviation().to_bits(), root.to_bits(), "seed {seed}");
            }
        }
    }
}
