//! Exact decimal arithmetic, as far as `addf` and its like need it.
//!
//! Operands come from floats, so they have at most 17 digits and exponents within
//! ±1100; a chain of operations grows by as much per operand, and its length is
//! bounded by that of the template.

use std::cmp::Ordering;

/// Decimal places of a quotient.
const DIVISION_PLACES: i32 = 16;
/// Base of the limbs: nine decimal digits each.
const BASE: u64 = 1_000_000_000;
const BASE_DIGITS: u32 = 9;

/// `±magnitude * 10^exponent`
#[derive(Clone, Debug)]
pub(super) struct Decimal {
    negative: bool,
    /// Limbs in [`BASE`], lowest first, the highest not zero.
    magnitude: Vec<u32>,
    exponent: i32,
}

impl Decimal {
    pub(super) fn zero() -> Self {
        Self { negative: false, magnitude: Vec::new(), exponent: 0 }
    }

    /// The shortest decimal that reads as the float; `None` for NaN and infinities.
    pub(super) fn from_float(value: f64) -> Option<Self> {
        if !value.is_finite() {
            return None;
        }
        let text = format!("{:e}", value.abs());
        let (mantissa, exponent) = text.split_once('e')?;
        let places = mantissa.split_once('.').map_or(0, |(_, places)| places.len());
        let digits: u64 = mantissa.replace('.', "").parse().ok()?;
        let exponent = exponent.parse::<i32>().ok()? - i32::try_from(places).ok()?;
        Some(Self { negative: value < 0.0, magnitude: limbs_of(digits), exponent })
    }

    /// The nearest float; infinite beyond the range.
    pub(super) fn to_float(&self) -> f64 {
        let mut text = String::from(if self.negative { "-" } else { "" });
        for (i, limb) in self.magnitude.iter().rev().enumerate() {
            text.push_str(&if i == 0 { limb.to_string() } else { format!("{limb:09}") });
        }
        if self.magnitude.is_empty() {
            return 0.0;
        }
        text.push_str(&format!("e{}", self.exponent));
        text.parse().expect("digits with an exponent are a number")
    }

    /// Size of the digits in memory.
    pub(super) fn len_bytes(&self) -> usize {
        self.magnitude.len() * size_of::<u32>()
    }

    pub(super) fn negated(&self) -> Self {
        Self { negative: !self.negative, ..self.clone() }
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        let exponent = self.exponent.min(other.exponent);
        let scaled = |number: &Self| {
            let mut magnitude = number.magnitude.clone();
            scale_up(&mut magnitude, number.exponent.abs_diff(exponent));
            magnitude
        };
        let (a, b) = (scaled(self), scaled(other));
        let (negative, magnitude) = if self.negative == other.negative {
            (self.negative, add(&a, &b))
        } else if compare(&a, &b) == Ordering::Less {
            (other.negative, subtract(&b, &a))
        } else {
            (self.negative, subtract(&a, &b))
        };
        Self { negative, magnitude, exponent }
    }

    pub(super) fn times(&self, other: &Self) -> Self {
        Self {
            negative: self.negative != other.negative,
            magnitude: multiply(&self.magnitude, &other.magnitude),
            exponent: self.exponent.saturating_add(other.exponent),
        }
    }

    /// The quotient with 16 places, rounded half away from zero; `None` for a
    /// division by zero. The divisor must come from a float.
    pub(super) fn divided_by(&self, divisor: &Self) -> Option<Self> {
        let small = divisor
            .magnitude
            .iter()
            .rev()
            .fold(0, |value, limb| value * u128::from(BASE) + u128::from(*limb));
        if small == 0 {
            return None;
        }
        let shift = self.exponent.saturating_sub(divisor.exponent).saturating_add(DIVISION_PLACES);
        let mut magnitude = self.magnitude.clone();
        let rounds_up = if shift >= 0 {
            scale_up(&mut magnitude, shift.unsigned_abs());
            let rest = divide_small(&mut magnitude, small);
            rest * 2 >= small
        } else {
            divide_small(&mut magnitude, small);
            // Half of a power of ten is an integer, so the first dropped digit decides.
            scale_down(&mut magnitude, shift.unsigned_abs()) >= 5
        };
        if rounds_up {
            magnitude = add(&magnitude, &[1]);
        }
        let negative = self.negative != divisor.negative;
        Some(Self { negative, magnitude, exponent: -DIVISION_PLACES })
    }
}

fn limbs_of(mut value: u64) -> Vec<u32> {
    let mut limbs = Vec::new();
    while value > 0 {
        limbs.push((value % BASE) as u32);
        value /= BASE;
    }
    limbs
}

fn trim(mut limbs: Vec<u32>) -> Vec<u32> {
    while limbs.last() == Some(&0) {
        limbs.pop();
    }
    limbs
}

fn compare(a: &[u32], b: &[u32]) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.iter().rev().cmp(b.iter().rev()))
}

fn limb(limbs: &[u32], index: usize) -> u64 {
    limbs.get(index).copied().map_or(0, u64::from)
}

fn add(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut carry = 0;
    let mut sum = Vec::with_capacity(a.len().max(b.len()) + 1);
    for i in 0..=a.len().max(b.len()) {
        let value = limb(a, i) + limb(b, i) + carry;
        sum.push((value % BASE) as u32);
        carry = value / BASE;
    }
    trim(sum)
}

/// `a - b`, where `a >= b`.
fn subtract(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut borrow = 0;
    let mut difference = Vec::with_capacity(a.len());
    for i in 0..a.len() {
        let value = BASE + limb(a, i) - limb(b, i) - borrow;
        difference.push((value % BASE) as u32);
        borrow = 1 - value / BASE;
    }
    trim(difference)
}

fn multiply(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut product = vec![0u32; a.len() + b.len() + 1];
    for (i, x) in a.iter().enumerate() {
        let mut carry = 0;
        for j in 0..=b.len() {
            let value = u64::from(product[i + j]) + u64::from(*x) * limb(b, j) + carry;
            product[i + j] = (value % BASE) as u32;
            carry = value / BASE;
        }
    }
    trim(product)
}

/// Multiplies by a power of ten.
fn scale_up(limbs: &mut Vec<u32>, digits: u32) {
    if limbs.is_empty() {
        return;
    }
    let small = 10u32.pow(digits % BASE_DIGITS);
    *limbs = multiply(limbs, &[small]);
    limbs.splice(0..0, std::iter::repeat_n(0, (digits / BASE_DIGITS) as usize));
}

/// Divides by a power of ten, not 1, and gives the first digit that was dropped.
fn scale_down(limbs: &mut Vec<u32>, digits: u32) -> u32 {
    let dropped = ((digits - 1) / BASE_DIGITS) as usize;
    limbs.drain(..dropped.min(limbs.len()));
    let rest = (digits - 1) % BASE_DIGITS;
    divide_small(limbs, u128::from(10u32.pow(rest)));
    u32::try_from(divide_small(limbs, 10)).expect("less than ten")
}

/// Divides in place and gives the rest. The divisor is at most 10^27.
fn divide_small(limbs: &mut Vec<u32>, divisor: u128) -> u128 {
    let mut rest = 0;
    for limb in limbs.iter_mut().rev() {
        let value = rest * u128::from(BASE) + u128::from(*limb);
        *limb = u32::try_from(value / divisor).expect("the rest is less than the divisor");
        rest = value % divisor;
    }
    *limbs = trim(std::mem::take(limbs));
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: f64) -> Decimal {
        Decimal::from_float(value).expect("finite")
    }

    fn quotient(a: f64, b: f64) -> f64 {
        of(a).divided_by(&of(b)).expect("not by zero").to_float()
    }

    #[test]
    fn sums_are_exact() {
        assert_eq!(of(0.1).plus(&of(0.2)).to_float(), 0.3);
        assert_eq!(of(5.5).plus(&of(2.0).negated()).to_float(), 3.5);
        assert_eq!(of(2.0).plus(&of(5.5).negated()).to_float(), -3.5);
        assert_eq!(of(1.5).plus(&of(1.5).negated()).to_float(), 0.0);
        assert_eq!(of(1e300).plus(&of(1e-300)).plus(&of(-1e300)).to_float(), 1e-300);
        assert_eq!(of(f64::MAX).plus(&of(f64::MAX)).to_float(), f64::INFINITY);
        assert_eq!(of(5e-324).to_float(), 5e-324);
        assert_eq!(of(-1.25).to_float(), -1.25);
    }

    #[test]
    fn products_are_exact() {
        assert_eq!(of(1.15).times(&of(100.0)).to_float(), 115.0);
        assert_eq!(of(0.3333333333333333).times(&of(100.0)).to_float(), 33.33333333333333);
        assert_eq!(of(1e300).times(&of(1e10)).to_float(), f64::INFINITY);
        assert_eq!(
            of(123_456_789.0).times(&of(-987_654_321.0)).to_float(),
            -121_932_631_112_635_269.0
        );
        assert_eq!(of(0.0).times(&of(-5.0)).to_float(), 0.0);
    }

    #[test]
    fn quotients_have_sixteen_places() {
        assert_eq!(quotient(10.0, 4.0), 2.5);
        assert_eq!(quotient(1.0, 3.0), 0.3333333333333333);
        assert_eq!(quotient(2.0, 3.0), 0.6666666666666667);
        assert_eq!(quotient(-2.0, 3.0), -0.6666666666666667);
        assert_eq!(quotient(1e-17, 2.0), 0.0);
        assert_eq!(quotient(1e-16, 2.0), 1e-16);
        assert_eq!(quotient(1e-300, 1e300), 0.0);
        assert_eq!(quotient(1e300, 1e-300), f64::INFINITY);
        assert_eq!(quotient(5.0, 1e17), 1e-16);
        assert_eq!(quotient(4.9, 1e17), 0.0);
        assert_eq!(quotient(5.0, 3e30), 0.0);
        assert!(of(1.0).divided_by(&of(0.0)).is_none());
        assert!(Decimal::from_float(f64::NAN).is_none());
    }
}
