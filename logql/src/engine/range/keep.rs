//! What functions over unwrapped values need of the samples of a cell.
//!
//! A *cell* holds the samples that the same windows see, so a window sees all of a cell or
//! nothing. A leaf keeps the least from which each function of its query follows. The result is
//! the same bit for bit, whatever is kept.

use crate::syntax::ast::RangeFunction;

/// What is kept of the samples of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keep {
    /// The samples with their places in the order of all.
    All,
    /// The values, without their times and order.
    Values,
    /// A state of constant size, however many samples there are.
    State(StateParts),
}

impl Keep {
    /// What a function needs.
    pub(crate) fn of(function: RangeFunction) -> Self {
        use StateParts as P;
        match function {
            RangeFunction::QuantileOverTime
            | RangeFunction::StddevOverTime
            | RangeFunction::StdvarOverTime => Self::Values,
            RangeFunction::MinOverTime => Self::State(P::LEAST),
            RangeFunction::MaxOverTime => Self::State(P::GREATEST),
            RangeFunction::FirstOverTime => Self::State(P::FIRST),
            RangeFunction::LastOverTime => Self::State(P::LAST),
            RangeFunction::SumOverTime | RangeFunction::Rate => Self::State(P::SUM),
            RangeFunction::AvgOverTime => Self::State(P::SUM.with(P::COUNT)),
            RangeFunction::AbsentOverTime => Self::State(P::NONE),
            RangeFunction::RateCounter => Self::All,
            // The checker refuses these over unwrapped values.
            RangeFunction::CountOverTime
            | RangeFunction::BytesRate
            | RangeFunction::BytesOverTime => Self::State(P::SUM.with(P::COUNT)),
        }
    }

    /// What two functions need that read the same entries.
    pub(crate) fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Values, Self::Values) => Self::Values,
            (Self::State(one), Self::State(other)) => Self::State(one.with(other)),
            (Self::State(parts), Self::Values) | (Self::Values, Self::State(parts))
                if !parts.has(StateParts::FIRST) && !parts.has(StateParts::LAST) =>
            {
                Self::Values
            }
            _ => Self::All,
        }
    }
}

/// The parts of a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StateParts(u8);

impl StateParts {
    /// That there are samples.
    pub(crate) const NONE: Self = Self(0);
    /// How many samples there are.
    pub(crate) const COUNT: Self = Self(1);
    /// The smallest value.
    pub(crate) const LEAST: Self = Self(2);
    /// The largest value.
    pub(crate) const GREATEST: Self = Self(4);
    /// The first sample.
    pub(crate) const FIRST: Self = Self(8);
    /// The last sample.
    pub(crate) const LAST: Self = Self(16);
    /// The sum of the values.
    pub(crate) const SUM: Self = Self(32);

    /// These parts and others.
    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The parts of these bits; `None` if a bit is that of no part.
    pub(crate) fn of_bits(bits: u8) -> Option<Self> {
        let all = [Self::COUNT, Self::LEAST, Self::GREATEST, Self::FIRST, Self::LAST, Self::SUM];
        let all = all.into_iter().fold(Self::NONE, Self::with);
        Some(Self(bits)).filter(|parts| all.has(*parts))
    }

    /// A bit for each part, as above.
    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    /// Whether a part is among these.
    pub(crate) fn has(self, part: Self) -> bool {
        self.0 & part.0 == part.0
    }
}
