//! What functions over unwrapped values need of the samples of a cell.
//!
//! A *cell* holds the samples that the same windows see, so a window sees all of a cell or
//! nothing. Where the values without their times decide, as with quantiles, a leaf keeps no more.
//! The result is the same bit for bit.

use crate::syntax::ast::RangeFunction;

/// What is kept of the samples of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keep {
    /// The samples with their places in the order of all.
    All,
    /// The values, without their times and order.
    Values,
}

impl Keep {
    /// What a function needs. Sums, means and deviations depend on the order of additions.
    pub(crate) fn of(function: RangeFunction) -> Self {
        match function {
            RangeFunction::QuantileOverTime => Self::Values,
            _ => Self::All,
        }
    }

    /// What two functions need that read the same entries.
    pub(crate) fn with(self, other: Self) -> Self {
        if self == other { self } else { Self::All }
    }
}
