//! Dates with times of day in lines, as one number each.
//!
//! Most lines have the time of their entry as text. As single numbers it would be up to seven,
//! although the entry's timestamp has most of the information. So a time is one number, relative
//! to the timestamp of its entry or to the last time in its column. If the times are the
//! timestamps truncated to milliseconds, they take no bits.
//!
//! A [`Layout`] says how times are written. Only a text that a layout writes is a time: 30
//! February and second 60 stay text. The time zone is neither known nor needed: in another zone
//! than UTC all times differ from their timestamps by the same offset.

mod origin;
mod read;
mod write;

pub(super) use origin::{ColumnClock, Origin};
pub(super) use read::{DateCache, Seen, read, recognize};
pub(super) use write::Clock;

/// How the date is written, and the byte between it and the time of day.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Date {
    /// `2026-11-22T`
    DashesT,
    /// `2026-11-22 `
    DashesSpace,
    /// `2026/11/22 `
    SlashesSpace,
    /// `22/Nov/2026:`
    MonthName,
}

impl Date {
    /// Its length with the byte after it, in bytes.
    #[inline]
    fn len(self) -> usize {
        if self == Date::MonthName { 12 } else { 11 }
    }
}

/// How the times of a column are written: a date, hours, minutes and seconds with colons,
/// and perhaps a fraction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    date: Date,
    /// Digits of the fraction, at most [`MAX_FRACTION_DIGITS`]; 0 if there is none.
    fraction_digits: u8,
    /// Whether a comma is before the fraction; otherwise a point.
    has_comma: bool,
}

/// The basis to which the times of a column are relative.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Basis {
    /// The timestamp of their entry.
    Entry,
    /// The last time in the column.
    Row,
}

const MAX_FRACTION_DIGITS: u8 = 9;

/// Hours, minutes and seconds.
const TIME_OF_DAY_LEN: usize = 8;

/// Bytes of the shortest time.
pub(super) const LEAST_BYTES: usize = 11 + TIME_OF_DAY_LEN;

/// Bytes of the longest time.
pub(super) const MOST_BYTES: usize = 12 + TIME_OF_DAY_LEN + 1 + MAX_FRACTION_DIGITS as usize;

/// The first day of 1700, and the day after 2199: in between, nanoseconds fit an `i64`.
const FIRST_DAY: i64 = -98_615;
const DAYS_END: i64 = 84_006;

const SECONDS_PER_DAY: i64 = 86_400;

const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

impl Layout {
    /// Whether a space is between date and time of day.
    pub(super) fn has_space(self) -> bool {
        matches!(self.date, Date::DashesSpace | Date::SlashesSpace)
    }

    pub(super) fn to_byte(self) -> u8 {
        self.fraction_digits | (self.date as u8) << 4 | u8::from(self.has_comma) << 6
    }

    pub(super) fn from_byte(byte: u8) -> Option<Layout> {
        let date = match byte >> 4 & 3 {
            0 => Date::DashesT,
            1 => Date::DashesSpace,
            2 => Date::SlashesSpace,
            _ => Date::MonthName,
        };
        let layout = Layout { date, fraction_digits: byte & 15, has_comma: byte & 0x40 != 0 };
        let is_one = byte < 0x80
            && layout.fraction_digits <= MAX_FRACTION_DIGITS
            && !(layout.has_comma && layout.fraction_digits == 0);
        is_one.then_some(layout)
    }

    /// Bytes of a time.
    #[inline]
    pub(super) fn len(self) -> usize {
        let fraction = usize::from(self.fraction_digits);
        self.date.len() + TIME_OF_DAY_LEN + fraction + usize::from(fraction > 0)
    }

    /// Units per second, where a unit is the smallest step of the fraction.
    #[inline]
    fn units_per_second(self) -> i64 {
        static POWERS: [i64; MAX_FRACTION_DIGITS as usize + 1] =
            [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];
        POWERS[usize::from(self.fraction_digits)]
    }

    /// A timestamp in nanoseconds as units, rounded down.
    #[inline]
    pub(super) fn units_of(self, timestamp_ns: i64) -> i64 {
        // The compiler turns divisions by constants into multiplications.
        match self.fraction_digits {
            0 => timestamp_ns.div_euclid(1_000_000_000),
            3 => timestamp_ns.div_euclid(1_000_000),
            6 => timestamp_ns.div_euclid(1000),
            9 => timestamp_ns,
            digits => timestamp_ns.div_euclid(10i64.pow(u32::from(MAX_FRACTION_DIGITS - digits))),
        }
    }

    /// Whether `text` may be a time or a part of one.
    pub(super) fn may_hold(self, part: &[u8], ignore_case: bool) -> bool {
        let room = (self.len() + 1).saturating_sub(part.len());
        (0..room).any(|offset| self.may_have_at(offset, part, ignore_case))
    }

    /// Whether a time may have these bytes `offset` bytes after its beginning.
    pub(super) fn may_have_at(self, offset: usize, part: &[u8], ignore_case: bool) -> bool {
        let Some(shape) = self.shape().get(offset..offset + part.len()) else { return false };
        let fits = |(&shape, &byte): (&u8, &u8)| match shape {
            b'0'..=b'9' => (b'0'..=shape).contains(&byte),
            b'M' => byte.is_ascii_alphabetic(),
            mark => mark == byte || ignore_case && mark.eq_ignore_ascii_case(&byte),
        };
        shape.iter().zip(part).all(fits) && self.may_have_month_at(offset, part, ignore_case)
    }

    /// Whether the letters of `part` at the place of the month are letters of a month's name.
    fn may_have_month_at(self, offset: usize, part: &[u8], ignore_case: bool) -> bool {
        const NAME: std::ops::Range<usize> = 3..6;
        let (start, end) = (offset.max(NAME.start), (offset + part.len()).min(NAME.end));
        if self.date != Date::MonthName || start >= end {
            return true;
        }
        let letters = &part[start - offset..end - offset];
        let has = |name: &&[u8; 3]| {
            let name = &name[start - NAME.start..end - NAME.start];
            if ignore_case { name.eq_ignore_ascii_case(letters) } else { name == letters }
        };
        MONTHS.iter().any(has)
    }

    /// A pattern of times: the largest possible digit at each position, and `M` for each letter
    /// of a month.
    fn shape(self) -> &'static [u8] {
        let with_point: &[u8; 30] = match self.date {
            Date::DashesT => b"2999-19-39T29:59:59.999999999 ",
            Date::DashesSpace => b"2999-19-39 29:59:59.999999999 ",
            Date::SlashesSpace => b"2999/19/39 29:59:59.999999999 ",
            Date::MonthName => b"39/MMM/2999:29:59:59.999999999",
        };
        let with_comma: &[u8; 30] = match self.date {
            Date::DashesT => b"2999-19-39T29:59:59,999999999 ",
            Date::DashesSpace => b"2999-19-39 29:59:59,999999999 ",
            Date::SlashesSpace => b"2999/19/39 29:59:59,999999999 ",
            Date::MonthName => b"39/MMM/2999:29:59:59,999999999",
        };
        let shape = if self.has_comma { with_comma } else { with_point };
        &shape[..self.len()]
    }
}

#[cfg(test)]
mod tests;
