//! Sums of floating point numbers without rounding.
//!
//! A sum is an integer number of 2^-1074, the smallest step between two numbers, so every number
//! has its place in it. It is rounded once, when its value is asked for.
//!
//! Guarantees: the value depends on the numbers alone, not on their order, nor on how they were
//! split among sums that were joined. Numbers that cancel leave nothing behind: 1e308 + 1e308 -
//! 1e308 is 1e308. Infinities and NaN are noted apart. A sum without numbers is 0, and so is one
//! of zeros of any sign.
//!
//! [`Moments`] are sums of numbers and of their squares, from which deviations follow.
//!
//! What can go wrong: a finite sum beyond the largest number has an infinite value, as it must. A
//! mean of finite numbers is finite even then. Numbers more than about 2^70 times as large as
//! others in the same sum need [`ExactSum::WIDE_BYTES`] more; a caller that counts memory asks
//! with [`ExactSum::add_narrow`] first.

mod fixed;
mod moments;
mod raw;

use fixed::FixedPoint;
pub(crate) use moments::Moments;
pub(crate) use raw::{RawSum, SUM_WORDS};

/// Words of a sum: 2098 bits for the largest number, 64 for how many there are, one for the sign.
const WORDS: usize = 34;

/// The sum of any number of floating point numbers.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct ExactSum {
    /// The finite numbers, with marks for others.
    finite: FixedPoint<WORDS>,
}

const NAN: u8 = 1;
const INFINITY: u8 = 2;
const NEG_INFINITY: u8 = 4;

/// The exponent of the unit.
const UNIT: i32 = -1074;

/// By which power of two a sum is divided while its mean is computed, if it is too large.
const REDUCTION: i32 = 64;

impl ExactSum {
    /// Heap memory of a sum whose numbers differ a lot, in bytes.
    pub(crate) const WIDE_BYTES: usize = FixedPoint::<WORDS>::WIDE_BYTES;

    /// The sum of one number.
    pub(crate) fn of(value: f64) -> Self {
        let mut sum = Self::default();
        sum.add(value);
        sum
    }

    /// Adds a number.
    pub(crate) fn add(&mut self, value: f64) {
        match parts(value) {
            Parts::Finite { is_negative, bits, place } => {
                self.finite.add(is_negative, bits.into(), place);
            }
            Parts::Mark(mark) => self.finite.marks |= mark,
        }
    }

    /// Adds a number unless that takes heap memory. Says whether it did.
    #[inline]
    pub(crate) fn add_narrow(&mut self, value: f64) -> bool {
        match parts(value) {
            Parts::Finite { is_negative, bits, place } => {
                self.finite.add_narrow(is_negative, bits.into(), place)
            }
            Parts::Mark(mark) => {
                self.finite.marks |= mark;
                true
            }
        }
    }

    /// Adds the numbers of another sum.
    pub(crate) fn join(&mut self, other: &Self) {
        self.finite.join(&other.finite);
        self.finite.marks |= other.finite.marks;
    }

    /// The most heap memory that a sum has which is joined from some of these, in bytes.
    pub(crate) fn joined_heap_bytes<'s>(sums: impl Iterator<Item = &'s Self>) -> usize {
        FixedPoint::joined_heap_bytes(sums.map(|sum| &sum.finite))
    }

    /// Heap memory in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.finite.heap_bytes()
    }

    /// The sum, rounded half to even.
    pub(crate) fn value(&self) -> f64 {
        self.marked().unwrap_or_else(|| {
            let (number, place) = self.finite.rounded();
            times_power(number, place.cast_signed() + UNIT)
        })
    }

    /// The sum divided by `count`, which is how many numbers there are. Both the sum and the
    /// quotient are rounded.
    pub(crate) fn mean(&self, count: u64) -> f64 {
        let value = self.value();
        if value.is_finite() || self.finite.marks != 0 {
            return value / count as f64;
        }
        let (number, place) = self.finite.rounded();
        let reduced = times_power(number, place.cast_signed() + UNIT - REDUCTION) / count as f64;
        times_power(reduced, REDUCTION).clamp(f64::MIN, f64::MAX)
    }

    /// The value if numbers that are not finite decide it.
    fn marked(&self) -> Option<f64> {
        match self.finite.marks {
            0 => None,
            INFINITY => Some(f64::INFINITY),
            NEG_INFINITY => Some(f64::NEG_INFINITY),
            _ => Some(f64::NAN),
        }
    }
}

/// What a number is made of.
enum Parts {
    /// So many units, shifted left by `place`. The bits are odd, or 0.
    Finite {
        is_negative: bool,
        bits: u64,
        place: u32,
    },
    Mark(u8),
}

#[inline]
fn parts(value: f64) -> Parts {
    const FRACTION: u64 = (1 << 52) - 1;
    let all = value.to_bits();
    let (is_negative, exponent, fraction) =
        (all >> 63 != 0, (all >> 52) as u32 & 0x7ff, all & FRACTION);
    if exponent == 0x7ff {
        return Parts::Mark(match (fraction, is_negative) {
            (0, false) => INFINITY,
            (0, true) => NEG_INFINITY,
            _ => NAN,
        });
    }
    let bits = if exponent == 0 { fraction } else { fraction | (FRACTION + 1) };
    // Without its last zeros a number has room for smaller ones beside it.
    let zeros = if bits == 0 { 0 } else { bits.trailing_zeros() };
    Parts::Finite { is_negative, bits: bits >> zeros, place: exponent.max(1) - 1 + zeros }
}

/// `number * 2^exponent`. Of a result below the normal numbers the last bit may be wrong if the
/// number has more bits than it.
fn times_power(mut number: f64, mut exponent: i32) -> f64 {
    while exponent < UNIT {
        number *= power(UNIT);
        exponent -= UNIT;
    }
    while exponent > 1023 {
        number *= power(1023);
        exponent -= 1023;
    }
    number * power(exponent)
}

/// A power of two that is a number.
fn power(exponent: i32) -> f64 {
    f64::from_bits(match u64::try_from(exponent + 1023) {
        Ok(biased) if biased > 0 => biased << 52,
        _ => 1 << (exponent - UNIT),
    })
}

#[cfg(test)]
mod tests;
