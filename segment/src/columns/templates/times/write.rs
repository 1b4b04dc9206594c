//! Writes times as text.

use logsvc_proto::time::date_of_day;

use super::super::decode::{decimal_digits, write_decimal};
use super::{DAYS_END, Date, FIRST_DAY, Layout, MONTHS, SECONDS_PER_DAY, TIME_OF_DAY_LEN};

/// Writes the times of a column. Keeps the last date, since the next one is mostly the same.
#[derive(Debug)]
pub(in super::super) struct Clock {
    layout: Layout,
    units_per_day: i64,
    /// The beginning of the day of `date`, in units since 1970.
    day_start: i64,
    /// The date and the byte after it.
    date: [u8; DATE_BYTES],
}

/// Length of the longest date and the byte after it.
const DATE_BYTES: usize = 12;

impl Clock {
    pub(in super::super) fn new(layout: Layout) -> Clock {
        let units_per_day = SECONDS_PER_DAY * layout.units_per_second();
        let mut clock = Clock { layout, units_per_day, day_start: 0, date: [0; DATE_BYTES] };
        clock.begin_day(0);
        clock
    }

    /// Writes a time, in units since 1970, to the start of `out`, which has room for
    /// [`super::MOST_BYTES`]. Returns its length in bytes; bytes of `out` after it change too.
    /// `None` if its year is not from 1700 to 2199.
    #[inline]
    pub(in super::super) fn write(&mut self, out: &mut [u8], units: i64) -> Option<usize> {
        let mut of_day = units.wrapping_sub(self.day_start);
        if !(0..self.units_per_day).contains(&of_day) {
            of_day = self.begin_day(units)?;
        }
        let (second, fraction) = match self.layout.fraction_digits {
            0 => (of_day, 0),
            // The compiler turns divisions by constants into multiplications.
            3 => (of_day / 1000, of_day % 1000),
            6 => (of_day / 1_000_000, of_day % 1_000_000),
            9 => (of_day / 1_000_000_000, of_day % 1_000_000_000),
            _ => {
                let units_per_second = self.layout.units_per_second();
                (of_day / units_per_second, of_day % units_per_second)
            }
        };
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        // The zeros between the numbers of `HH0MM0SS` become colons.
        let digits = decimal_digits((hour * 1_000_000 + minute * 1000 + second) as u64);
        let time_of_day = digits + u64::from_le_bytes([0, 0, 10, 0, 0, 10, 0, 0]);
        let date_len = self.layout.date.len();
        out[..DATE_BYTES].copy_from_slice(&self.date);
        out[date_len..date_len + TIME_OF_DAY_LEN].copy_from_slice(&time_of_day.to_le_bytes());
        let digits = usize::from(self.layout.fraction_digits);
        if digits > 0 {
            let at = date_len + TIME_OF_DAY_LEN;
            out[at] = if self.layout.has_comma { b',' } else { b'.' };
            write_decimal(&mut out[at + 1..], fraction as u64, digits);
        }
        Some(self.layout.len())
    }

    /// Makes the day of a time the last day, and returns the offset of the time in the day.
    #[cold]
    fn begin_day(&mut self, units: i64) -> Option<i64> {
        let day = units.div_euclid(self.units_per_day);
        if !(FIRST_DAY..DAYS_END).contains(&day) {
            return None;
        }
        let (year, month, of_month) = date_of_day(day);
        let text = match self.layout.date {
            Date::DashesT => format!("{year:04}-{month:02}-{of_month:02}T "),
            Date::DashesSpace => format!("{year:04}-{month:02}-{of_month:02}  "),
            Date::SlashesSpace => format!("{year:04}/{month:02}/{of_month:02}  "),
            Date::MonthName => {
                let name = String::from_utf8_lossy(MONTHS[month as usize - 1]);
                format!("{of_month:02}/{name}/{year:04}:")
            }
        };
        self.date.copy_from_slice(text.as_bytes());
        self.day_start = day * self.units_per_day;
        Some(units - self.day_start)
    }
}
