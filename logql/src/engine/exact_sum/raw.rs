//! Exact sums in the form in which they lie in memory, for whoever sends them.

use super::fixed::FixedPoint;
use super::{ExactSum, INFINITY, NAN, NEG_INFINITY, WORDS};

/// Words of a wide sum.
pub(crate) const SUM_WORDS: usize = WORDS;

/// The place of the largest bit that a number has.
const PLACE_MAX: u16 = 2097;

/// The form of a sum. Marks are bits for numbers that are not finite.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum RawSum {
    /// `units * 2^place` units.
    Narrow { marks: u8, units: i128, place: u16 },
    /// All words in the complement of two, lowest word first.
    Wide { marks: u8, words: Box<[u64; SUM_WORDS]> },
}

impl ExactSum {
    /// The form of this sum.
    pub(crate) fn raw(&self) -> RawSum {
        let marks = self.finite.marks;
        match self.finite.form() {
            Ok((units, place)) => {
                // No number has a greater place, and sums have the least one of their numbers.
                RawSum::Narrow { marks, units, place: place as u16 }
            }
            Err(words) => RawSum::Wide { marks, words: Box::new(*words) },
        }
    }

    /// The sum of a form; `None` if no numbers have it.
    pub(crate) fn of_raw(raw: RawSum) -> Option<ExactSum> {
        let (marks, mut finite) = match raw {
            RawSum::Narrow { marks, units, place } if place <= PLACE_MAX => {
                (marks, FixedPoint::narrow(units, place.into()))
            }
            RawSum::Narrow { .. } => return None,
            RawSum::Wide { marks, words } => (marks, FixedPoint::wide(words)),
        };
        if marks & !(NAN | INFINITY | NEG_INFINITY) != 0 {
            return None;
        }
        finite.marks = marks;
        Some(ExactSum { finite })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;

    #[test]
    fn sums_of_any_numbers_come_back() {
        let mut wide = 0;
        for seed in 0..2000 {
            let mut rng = Rng::new(seed);
            let mut sum = ExactSum::default();
            let odd = [f64::MAX, f64::MIN, 5e-324, -0.0, f64::NAN, f64::NEG_INFINITY];
            for _ in 0..rng.below(5) {
                let any = f64::from_bits(rng.next_u64());
                sum.add(if rng.one_in(2) { *rng.pick(&odd) } else { any });
            }
            wide += u32::from(sum.heap_bytes() > 0);
            assert_eq!(ExactSum::of_raw(sum.raw()), Some(sum), "seed {seed}");
        }
        assert!(wide > 100, "{wide}");
    }

    #[test]
    fn forms_that_no_numbers_have_are_refused() {
        let narrow = |marks, units, place| ExactSum::of_raw(RawSum::Narrow { marks, units, place });
        assert!(narrow(0, 1, PLACE_MAX + 1).is_none() && narrow(8, 1, 0).is_none());
        // The widest ones can still be added to others.
        for units in [i128::MIN, i128::MAX] {
            let mut sum = narrow(0, units, PLACE_MAX).expect("a form of numbers");
            sum.join(&sum.clone());
            sum.add(5e-324);
            assert!(sum.heap_bytes() > 0 && !sum.value().is_nan());
        }
    }
}
