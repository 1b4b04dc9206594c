//! Sums against a reference that adds bit by bit.

use super::*;
use crate::testing::Rng;

/// The sum, bit by bit, rounded half to even.
fn reference(values: &[f64]) -> f64 {
    let has = |value: f64| values.contains(&value);
    let infinities = (has(f64::INFINITY), has(f64::NEG_INFINITY));
    if values.iter().any(|value| value.is_nan()) || infinities == (true, true) {
        return f64::NAN;
    }
    if infinities != (false, false) {
        return if infinities.0 { f64::INFINITY } else { f64::NEG_INFINITY };
    }
    // Digits of the binary number, in units of the smallest number.
    let mut digits = vec![0i64; 2200];
    for value in values {
        let (all, sign) = (value.to_bits(), if value.is_sign_negative() { -1 } else { 1 });
        let exponent = (all >> 52 & 0x7ff) as usize;
        let bits = all & ((1 << 52) - 1) | if exponent == 0 { 0 } else { 1 << 52 };
        for bit in 0..53 {
            digits[exponent.max(1) - 1 + bit] += sign * (bits >> bit & 1) as i64;
        }
    }
    carried(&mut digits);
    let is_negative = digits[digits.len() - 1] < 0;
    if is_negative {
        digits.iter_mut().for_each(|digit| *digit = -*digit);
        carried(&mut digits);
    }
    let Some(top) = digits.iter().rposition(|digit| *digit != 0) else { return 0.0 };
    let low = top.saturating_sub(52);
    let mut number = (low..=top).rev().fold(0u64, |number, i| number * 2 + digits[i] as u64);
    let below = &digits[..low];
    let half = below.last() == Some(&1);
    let is_more = half && below[..low - 1].contains(&1);
    if half && (is_more || number % 2 == 1) {
        number += 1;
    }
    let mut rounded = number as f64;
    // One by one, so that nothing is rounded on the way.
    for _ in 0..1074 - low.min(1074) {
        rounded /= 2.0;
    }
    for _ in 1074..low {
        rounded *= 2.0;
    }
    if is_negative { -rounded } else { rounded }
}

/// Makes all digits 0 or 1 but the last, which has the sign.
fn carried(digits: &mut [i64]) {
    for i in 0..digits.len() - 1 {
        let carry = digits[i].div_euclid(2);
        digits[i] -= 2 * carry;
        digits[i + 1] += carry;
    }
}

fn sum(values: &[f64]) -> ExactSum {
    let mut sum = ExactSum::default();
    values.iter().for_each(|value| sum.add(*value));
    sum
}

#[track_caller]
fn check(values: &[f64], expected: f64) {
    let found = sum(values).value();
    assert!(same(found, expected), "{values:?}: {found:e}, not {expected:e}");
    assert!(same(reference(values), expected), "the reference has {}", reference(values));
}

/// Equal bits, or NaN both.
fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

#[test]
fn known_sums_are_right() {
    let (max, tiny, inf) = (f64::MAX, f64::from_bits(1), f64::INFINITY);
    check(&[], 0.0);
    check(&[0.1, 0.2], 0.300_000_000_000_000_04);
    check(&[0.1; 10], 1.0);
    check(&[1e308, 1e308, -1e308], 1e308);
    check(&[max, max, -max, -max, tiny], tiny);
    check(&[max, -max], 0.0);
    check(&[max, max], inf);
    check(&[-max, -max], -inf);
    check(&[1e100, 1.0, -1e100], 1.0);
    check(&[tiny, tiny, -tiny], tiny);
    check(&[f64::MIN_POSITIVE, -tiny], f64::from_bits((1 << 52) - 1));
    check(&[-0.0], 0.0);
    check(&[-0.0, 0.0], 0.0);
    check(&[inf, 1.0, inf], inf);
    check(&[inf, -inf], f64::NAN);
    check(&[f64::NAN, 1.0], f64::NAN);
    check(&[-inf, max], -inf);
    // Half a step above an even number, and a little more.
    let half = 2f64.powi(-53);
    check(&[1.0, half], 1.0);
    check(&[1.0, half, tiny], 1.0 + f64::EPSILON);
    check(&[1.0, half, -tiny], 1.0);
    check(&[-1.0, -half, -tiny], -1.0 - f64::EPSILON);
    check(&[1.0 + f64::EPSILON, half], 1.0 + 2.0 * f64::EPSILON);
    // The last number before infinity, and the first sum that is nearer to it.
    check(&[max, 2f64.powi(969)], max);
    check(&[max, 2f64.powi(970)], inf);
    check(&[max, 2f64.powi(970), -tiny], max);
}

#[test]
fn means_of_finite_numbers_are_finite() {
    let mean = |values: &[f64]| sum(values).mean(values.len() as u64);
    assert_eq!(mean(&[1.0, 2.0, 6.0]), 3.0);
    assert_eq!(mean(&[f64::MAX; 3]), f64::MAX);
    assert_eq!(mean(&[f64::MIN; 7]), f64::MIN);
    assert_eq!(mean(&[f64::MAX, f64::MAX, 0.0, 0.0]), f64::MAX / 2.0);
    assert_eq!(mean(&[f64::MAX, f64::MAX, f64::MAX, f64::from_bits(1)]), f64::MAX * 0.75);
    assert_eq!(mean(&[f64::INFINITY, 1.0]), f64::INFINITY);
    assert!(mean(&[f64::INFINITY, f64::NEG_INFINITY]).is_nan());
}

fn random_value(rng: &mut Rng, kind: usize) -> f64 {
    let sign = if rng.one_in(2) { -1.0 } else { 1.0 };
    sign * match kind {
        // Any number at all, such as NaN.
        0 => f64::from_bits(rng.next_u64()),
        // Any that is finite.
        1 | 2 => f64::from_bits(rng.next_u64() % (0x7ff << 52)),
        // Smaller than all that are normal.
        3 => f64::from_bits(rng.next_u64() % (1 << 53)),
        // Ordinary ones.
        4 => rng.below(10_000) as f64 / 1000.0,
        5 => rng.below(1 << 40) as f64,
        // Close to the largest.
        _ => f64::from_bits((0x7fd << 52) + rng.next_u64() % (2 << 52)),
    }
}

#[test]
fn sums_are_those_of_the_reference_in_any_order_and_grouping() {
    for seed in 0..3000 {
        let mut rng = Rng::new(seed);
        let kinds: Vec<usize> = (0..1 + rng.below(3)).map(|_| rng.below(7)).collect();
        let mut values: Vec<f64> = Vec::new();
        for _ in 0..rng.below(40) {
            let kind = *rng.pick(&kinds);
            // Some cancel what is there.
            let value = match values.len() {
                len if len > 0 && rng.one_in(3) => -values[rng.below(len)],
                _ => random_value(&mut rng, kind),
            };
            values.push(value);
        }
        let expected = reference(&values);
        for _ in 0..4 {
            for i in (1..values.len()).rev() {
                values.swap(i, rng.below(i + 1));
            }
            let found = sum(&values).value();
            assert!(same(found, expected), "seed {seed}: {found:e}, not {expected:e}, {values:?}");
            // Joined as a random tree.
            let mut parts: Vec<ExactSum> = vec![ExactSum::default()];
            parts.extend(values.iter().map(|value| ExactSum::of(*value)));
            while parts.len() > 1 {
                let part = parts.swap_remove(rng.below(parts.len()));
                let other = rng.below(parts.len());
                parts[other].join(&part);
            }
            let found = parts[0].value();
            assert!(same(found, expected), "seed {seed}: {found:e}, not {expected:e}, {values:?}");
        }
    }
}

#[test]
fn ordinary_sums_take_no_heap_memory() {
    let mut rng = Rng::new(3);
    let mut sum = ExactSum::default();
    for _ in 0..100_000 {
        assert!(sum.add_narrow(rng.below(1 << 30) as f64 / 1000.0));
        assert!(sum.add_narrow(rng.below(1 << 20) as f64));
    }
    assert_eq!(sum.heap_bytes(), 0);
    assert!(sum.add_narrow(f64::NAN) && sum.value().is_nan());
    assert!(!sum.add_narrow(1e300));
    assert_eq!(sum.heap_bytes(), 0);
    sum.add(1e300);
    assert_eq!(sum.heap_bytes(), ExactSum::WIDE_BYTES);
    assert!(size_of::<ExactSum>() <= 32, "{} bytes", size_of::<ExactSum>());
}
