//! Reads times in lines, eight bytes at a time.
//!
//! Guarantee: for each time that is read, [`super::Clock`] writes the same bytes.

use std::cell::Cell;

use logsvc_proto::time::{date_of_day, days_from_epoch};

use super::super::text::{ONES, decimal_eight, digits_at_start, word};
use super::{DAYS_END, Date, FIRST_DAY, Layout, MONTHS, SECONDS_PER_DAY, TIME_OF_DAY_LEN};

/// A time that was found in a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Seen {
    pub(in super::super) layout: Layout,
    /// Since 1970, in the units of the layout.
    pub(in super::super) units: i64,
}

/// The last date and its day: the next date is mostly the same.
#[derive(Debug)]
pub(in super::super) struct DateCache(Cell<([u64; 2], Date, i64)>);

impl Default for DateCache {
    fn default() -> DateCache {
        // No text has these words: the second one is never full.
        DateCache(Cell::new(([u64::MAX; 2], Date::DashesT, 0)))
    }
}

/// Bytes of the longest time and the bytes after it that decide where it ends.
type Window = [u8; 32];

/// The time of any layout that begins with the `digits` digits at `at`. No digit may be before
/// or after these. The line must be followed by a byte that is no part of a time. Finds nothing
/// if fewer than 32 bytes are left.
#[inline]
pub(in super::super) fn recognize(
    bytes: &[u8],
    at: usize,
    digits: usize,
    dates: &DateCache,
) -> Option<Seen> {
    if digits != 4 && digits != 2 {
        return None;
    }
    let bytes: &Window = bytes[at..].first_chunk()?;
    let date = match (digits, bytes[digits]) {
        (4, b'-') if bytes[10] == b'T' => Date::DashesT,
        (4, b'-') => Date::DashesSpace,
        (4, b'/') => Date::SlashesSpace,
        (2, b'/') => Date::MonthName,
        _ => return None,
    };
    let second = second(bytes, date, dates)?;
    let (mark, fraction_digits, fraction) = fraction(bytes, date.len() + TIME_OF_DAY_LEN)?;
    let layout = Layout { date, fraction_digits, has_comma: mark == b',' };
    Some(Seen { layout, units: second * layout.units_per_second() + fraction })
}

/// The time of this layout at `at`, in its units, as [`recognize`] finds it.
#[inline]
pub(in super::super) fn read(
    bytes: &[u8],
    at: usize,
    layout: Layout,
    dates: &DateCache,
) -> Option<i64> {
    let bytes: &Window = bytes[at..].first_chunk()?;
    let second = second(bytes, layout.date, dates)?;
    let (mark, digits, fraction) = fraction(bytes, layout.date.len() + TIME_OF_DAY_LEN)?;
    let is_of_layout = digits == layout.fraction_digits && (mark == b',') == layout.has_comma;
    is_of_layout.then(|| second * layout.units_per_second() + fraction)
}

/// The second since 1970 of a date and a time of day.
#[inline(always)]
fn second(bytes: &Window, date: Date, dates: &DateCache) -> Option<i64> {
    let rest = word(bytes, 8) & ((1 << (8 * (date.len() - 8))) - 1);
    let text = [word(bytes, 0), rest];
    let (last, last_date, mut day) = dates.0.get();
    if (text, date) != (last, last_date) {
        day = day_of(&bytes[..date.len()], date)?;
        dates.0.set((text, date, day));
    }
    Some(day * SECONDS_PER_DAY + second_of_day(word(bytes, date.len()))?)
}

/// The day of a date since 1970; `None` if the bytes are not a valid date of this layout.
#[cold]
fn day_of(text: &[u8], date: Date) -> Option<i64> {
    let number = |range: std::ops::Range<usize>| {
        let digits = &text[range];
        let add = |number: i64, digit: &u8| number * 10 + i64::from(digit - b'0');
        digits.iter().all(u8::is_ascii_digit).then(|| digits.iter().fold(0, add))
    };
    let marks = match date {
        Date::DashesT => [(4, b'-'), (7, b'-'), (10, b'T')],
        Date::DashesSpace => [(4, b'-'), (7, b'-'), (10, b' ')],
        Date::SlashesSpace => [(4, b'/'), (7, b'/'), (10, b' ')],
        Date::MonthName => [(2, b'/'), (6, b'/'), (11, b':')],
    };
    if marks.iter().any(|&(at, mark)| text[at] != mark) {
        return None;
    }
    let (year, month, day) = if date == Date::MonthName {
        let month = MONTHS.iter().position(|&name| name[..] == text[3..6])?;
        (number(7..11)?, month as i64 + 1, number(0..2)?)
    } else {
        (number(0..4)?, number(5..7)?, number(8..10)?)
    };
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let days = days_from_epoch(year, month, day);
    let exists = date_of_day(days) == (year, month as u32, day as u32);
    (exists && (FIRST_DAY..DAYS_END).contains(&days)).then_some(days)
}

/// The second of the day of the bytes `HH:MM:SS`.
#[inline(always)]
fn second_of_day(text: u64) -> Option<i64> {
    const ZERO: u64 = u64::from_le_bytes(*b"00:00:00");
    const COLONS: u64 = u64::from_le_bytes([0, 0, 0xff, 0, 0, 0xff, 0, 0]);
    let digits = text ^ ZERO;
    // No addition carries into the next byte if all bytes before are digits.
    let others = (digits | digits.wrapping_add(0x06 * ONES)) & (0xf0 * ONES) | digits & COLONS;
    if others != 0 {
        return None;
    }
    let numbers = digits * 10 + (digits >> 8);
    let [hour, minute, second] = [0, 24, 48].map(|shift| (numbers >> shift & 0xff) as i64);
    let exists = hour < 24 && minute < 60 && second < 60;
    exists.then_some(hour * 3600 + minute * 60 + second)
}

/// The mark of the fraction at `at`, its number of digits and its value. No digits if there is
/// no fraction, or one with more than nine. `None` if a digit follows the seconds.
#[inline(always)]
fn fraction(bytes: &Window, at: usize) -> Option<(u8, u8, i64)> {
    let mark = bytes[at];
    if !matches!(mark, b'.' | b',') {
        return (!mark.is_ascii_digit()).then_some((0, 0, 0));
    }
    let text = word(bytes, at + 1);
    match digits_at_start(text) {
        0 => Some((0, 0, 0)),
        8 => Some(long_fraction(bytes, at)),
        digits => {
            let value = decimal_eight((text & (0x0f * ONES)) << (64 - 8 * digits));
            Some((mark, digits as u8, value as i64))
        }
    }
}

/// Reads a fraction of at least eight digits.
fn long_fraction(bytes: &Window, at: usize) -> (u8, u8, i64) {
    let value = decimal_eight(word(bytes, at + 1) & (0x0f * ONES)) as i64;
    let [ninth, tenth] = [bytes[at + 9], bytes[at + 10]];
    match (ninth.is_ascii_digit(), tenth.is_ascii_digit()) {
        (false, _) => (bytes[at], 8, value),
        (true, false) => (bytes[at], 9, value * 10 + i64::from(ninth - b'0')),
        (true, true) => (0, 0, 0),
    }
}
