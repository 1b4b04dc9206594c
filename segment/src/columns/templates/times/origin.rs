//! The origin of the numbers of a column of times, and their conversion to times.
//!
//! Sums wrap: writing a time refuses a wrong one.

use super::{Basis, Clock, Layout};

/// The origin of a column of times.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Origin {
    pub(in super::super) layout: Layout,
    pub(in super::super) basis: Basis,
    /// The least difference, which the encoder subtracts from all numbers.
    pub(in super::super) least: i64,
    /// With [`Basis::Row`] the basis of the first time.
    pub(in super::super) first: i64,
}

/// Writes the times of a column.
pub(in super::super) struct ColumnClock {
    clock: Clock,
    origin: Origin,
}

impl Origin {
    /// Converts the numbers of a column to times, or to differences from the timestamps if they are
    /// relative to the entries.
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
    /// Writes the time of a number from [`Origin::resolve`] to the start of `out`, which has room
    /// for [`super::MOST_BYTES`]. Returns its length in bytes; `None` if no time with this number
    /// can be written.
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
