//! Times of messages.
//!
//! What a stamp lacks has one rule. Without a year it is in the latest year in which it is at most a
//! day ahead of the arrival; a 29 February that no year within reach has is the arrival. Without a
//! zone it is in the zone of the listener. Without a fraction it is the beginning of its second.

use crate::go::calendar::{date_of_day, days_from_epoch, days_in};

const DAY_NS: i64 = 86_400_000_000_000;

/// A stamp without a year lies at most so many days before the arrival.
const YEARLESS_MAX_DAYS: i64 = 367;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// When and where a message arrived.
#[derive(Clone, Copy)]
pub struct Arrival<'z> {
    /// The clock, in ns since the Unix epoch.
    pub unix_ns: i64,
    /// The zone of stamps without one: from seconds of the calendar and the clock on the wall,
    /// counted as if they were UTC, to seconds since the Unix epoch.
    pub zone: &'z dyn Fn(i64) -> i64,
}

impl std::fmt::Debug for Arrival<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arrival").field("unix_ns", &self.unix_ns).finish_non_exhaustive()
    }
}

/// What a stamp was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamp {
    /// In ns since the Unix epoch.
    At(i64),
    /// It has the form of a stamp, but there is no such time.
    Impossible,
}

/// A reader of a text from its beginning.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    rest: &'a [u8],
}

impl Cursor<'_> {
    fn number(&mut self, digits: std::ops::RangeInclusive<usize>) -> Option<i64> {
        let count = self.rest.iter().take(*digits.end()).take_while(|b| b.is_ascii_digit()).count();
        if count < *digits.start() {
            return None;
        }
        let number = self.rest[..count].iter().fold(0, |n, b| n * 10 + i64::from(b - b'0'));
        self.rest = &self.rest[count..];
        Some(number)
    }

    fn any_of(&mut self, bytes: &[u8]) -> Option<u8> {
        let first = *self.rest.first().filter(|first| bytes.contains(first))?;
        self.rest = &self.rest[1..];
        Some(first)
    }

    /// A fraction of a second in ns; digits beyond the ninth count nothing.
    fn fraction_ns(&mut self) -> Option<i64> {
        let mut ahead = *self;
        if ahead.any_of(b".,").is_none() {
            return Some(0);
        }
        let count = ahead.rest.iter().take_while(|b| b.is_ascii_digit()).count();
        if count == 0 {
            return None;
        }
        let digits = ahead.rest[..count].iter().map(|b| i64::from(b - b'0'));
        let ns = digits.chain(std::iter::repeat(0)).take(9).fold(0, |n, digit| n * 10 + digit);
        self.rest = &ahead.rest[count..];
        Some(ns)
    }

    /// The time of a day in seconds and ns.
    fn time(&mut self) -> Option<Result<(i64, i64), ()>> {
        let hour = self.number(1..=2)?;
        self.any_of(b":")?;
        let minute = self.number(2..=2)?;
        self.any_of(b":")?;
        let second = self.number(2..=2)?;
        let ns = self.fraction_ns()?;
        // A leap second is the first of the next minute.
        let is_time = hour < 24 && minute < 60 && second <= 60;
        Some(if is_time { Ok((hour * 3600 + minute * 60 + second, ns)) } else { Err(()) })
    }
}

fn ns_of(seconds: i64, ns: i64) -> Stamp {
    let time = seconds.checked_mul(1_000_000_000).and_then(|time| time.checked_add(ns));
    time.map_or(Stamp::Impossible, Stamp::At)
}

fn day_of(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_day = (1..=12).contains(&month) && day >= 1 && day <= days_in(year, month);
    is_day.then(|| days_from_epoch(year, month, day))
}

/// A stamp of ISO 8601 at the beginning of a text, and how long it is. A blank, or the end of the
/// text, follows.
pub(super) fn iso(text: &str, arrival: Arrival<'_>, between: &[u8]) -> Option<(Stamp, usize)> {
    let mut cursor = Cursor { rest: text.as_bytes() };
    let year = cursor.number(4..=4)?;
    cursor.any_of(b"-")?;
    let month = cursor.number(2..=2)?;
    cursor.any_of(b"-")?;
    let day = cursor.number(2..=2)?;
    cursor.any_of(between)?;
    let time = cursor.time()?;
    let offset = match cursor.any_of(b"Zz+-") {
        None => None,
        Some(b'Z' | b'z') => Some(0),
        Some(sign) => {
            let hours = cursor.number(2..=2)?;
            let _ = cursor.any_of(b":");
            let minutes = cursor.number(2..=2)?;
            let offset = hours * 3600 + minutes * 60;
            Some(if sign == b'-' { -offset } else { offset })
        }
    };
    if !matches!(cursor.rest.first(), None | Some(b' ' | b':')) {
        return None;
    }
    let len = text.len() - cursor.rest.len();
    let (Some(day), Ok((seconds, ns))) = (day_of(year, month, day), time) else {
        return Some((Stamp::Impossible, len));
    };
    let local = day * 86_400 + seconds;
    let seconds = offset.map_or_else(|| (arrival.zone)(local), |offset| local - offset);
    Some((ns_of(seconds, ns), len))
}

/// Seconds since the Unix epoch, with a fraction.
pub(super) fn epoch(text: &str) -> Option<(Stamp, usize)> {
    let mut cursor = Cursor { rest: text.as_bytes() };
    let seconds = cursor.number(10..=10)?;
    let ns = cursor.fraction_ns()?;
    matches!(cursor.rest.first(), Some(b' '))
        .then(|| (ns_of(seconds, ns), text.len() - cursor.rest.len()))
}

/// A stamp of RFC 3164 at the beginning of a text, and how long it is: `Nov 25 03:00:00`, with a
/// fraction, with a year before or after the time, with a mark that the clock is not set in front.
pub(super) fn legacy(text: &str, arrival: Arrival<'_>) -> Option<(Stamp, usize)> {
    let mut cursor = Cursor { rest: text.as_bytes() };
    let _ = cursor.any_of(b"*.");
    let name = cursor.rest.get(..3)?;
    let month = MONTHS.iter().position(|month| month.as_bytes().eq_ignore_ascii_case(name))?;
    cursor.rest = &cursor.rest[3..];
    cursor.any_of(b" ")?;
    while cursor.any_of(b" ").is_some() {}
    let day = cursor.number(1..=2)?;
    cursor.any_of(b" ")?;
    let mut ahead = cursor;
    let mut year = ahead.number(4..=4).filter(|_| ahead.any_of(b" ").is_some());
    if year.is_some() {
        cursor = ahead;
    }
    let time = cursor.time()?;
    if year.is_none() {
        let mut ahead = cursor;
        let follows = ahead.any_of(b" ").and_then(|_| ahead.number(4..=4));
        let ends = ahead.rest.starts_with(b" ") || ahead.rest.starts_with(b": ");
        // A number that is no year of today may be a host's name.
        year = follows.filter(|year| ends && (1990..2100).contains(year));
        if year.is_some() {
            cursor = ahead;
        }
    }
    if !matches!(cursor.rest.first(), None | Some(b' ' | b':')) {
        return None;
    }
    let len = text.len() - cursor.rest.len();
    let Ok((seconds, ns)) = time else { return Some((Stamp::Impossible, len)) };
    let in_year = |year| {
        let day = day_of(year, month as i64 + 1, day)?;
        match ns_of((arrival.zone)(day * 86_400 + seconds), ns) {
            Stamp::At(time) => Some(time),
            Stamp::Impossible => None,
        }
    };
    let found = match year {
        Some(year) => in_year(year),
        None => {
            let (this_year, _, _) = date_of_day(arrival.unix_ns.div_euclid(DAY_NS));
            let latest = arrival.unix_ns.saturating_add(DAY_NS);
            let earliest = arrival.unix_ns.saturating_sub(YEARLESS_MAX_DAYS * DAY_NS);
            let years = [this_year + 1, this_year, this_year - 1];
            let mut times = years.into_iter().filter_map(in_year);
            times.find(|time| (earliest..=latest).contains(time))
        }
    };
    Some((found.map_or(Stamp::Impossible, Stamp::At), len))
}
