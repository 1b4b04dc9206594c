//! What the numbers of a column of times are counted from, and how they become times again.
//!
//! Sums wrap: what does not fit a line's entry is found out when the time is written.

use super::{Basis, Clock, Layout};

/// Where the times of a column begin to count.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Origin {
    pub(in super::super) layout: Layout,
    pub(in super::super) basis: Basis,
    /// What was taken off all numbers.
    pub(in super::super) least: i64,
    /// With [`Basis::Row`] the time before the first one.
    pub(in super::super) first: i64,
}

/// Writes the times of a column.
pub(in super::super) struct ColumnClock {
    clock: Clock,
    origin: Origin,
}

impl Origin {
    /// Makes the numbers of a column its times, or, if they are counted from their
    /// entries, the differences from those.
    pub(in super::super) fn resolve(&self, numbers: &mut [u64]) {
        let mut before = if self.basis == Basis::Row { self.first } else { 0 };
        for number in numbers {
            let units = (*number as i64).wrapping_add(self.least).wrapping_add(before);
            if self.basis == Basis::Row {
                before = units;
            }
            *number = units as u64;
        }
    }

    pub(in super::super) fn clock(self) -> ColumnClock {
        ColumnClock { clock: Clock::new(self.layout), origin: self }
    }
}

impl ColumnClock {
    /// Writes what [`Origin::resolve`] has made of a number to the start of `out`, which has
    /// room for [`super::MOST_BYTES`], and says how many bytes it has; `None` if that is no time
    /// that can be written.
    #[inline]
    pub(in super::super) fn write(
        &mut self,
        out: &mut [u8],
        resolved: u64,
        timestamp_ns: i64,
    ) -> Option<usize> {
        let units = match self.origin.basis {
            Basis::Row => resolved as i64,
            Basis::Entry => {
                (resolved as i64).wrapping_add(self.origin.layout.units_of(timestamp_ns))
            }
        };
        self.clock.write(out, units)
    }
}
