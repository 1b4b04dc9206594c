//! The proleptic Gregorian calendar, RFC 3339, and Go's two ways to print a time, all in UTC.

use std::io::Write;

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// A point in time, in the proleptic Gregorian calendar.
struct Civil {
    year: i64,
    month: u32,
    day: u32,
    second_of_day: u32,
    nanos: u32,
}

impl Civil {
    fn from_unix_ns(unix_ns: i64) -> Civil {
        let seconds = unix_ns.div_euclid(NANOS_PER_SECOND);
        let (year, month, day) = date_of_day(seconds.div_euclid(SECONDS_PER_DAY));
        Civil {
            year,
            month,
            day,
            second_of_day: seconds.rem_euclid(SECONDS_PER_DAY) as u32,
            nanos: unix_ns.rem_euclid(NANOS_PER_SECOND) as u32,
        }
    }

    /// `None` stands for Go's zero time.
    fn of(unix_ns: Option<i64>) -> Civil {
        match unix_ns {
            Some(unix_ns) => Civil::from_unix_ns(unix_ns),
            None => Civil { year: 1, month: 1, day: 1, second_of_day: 0, nanos: 0 },
        }
    }

    fn write(&self, out: &mut Vec<u8>, between: char, with_fraction: bool) {
        let (hour, minute) = (self.second_of_day / 3600, self.second_of_day / 60 % 60);
        let second = self.second_of_day % 60;
        let Civil { year, month, day, .. } = self;
        write!(out, "{year:04}-{month:02}-{day:02}{between}{hour:02}:{minute:02}:{second:02}")
            .expect("a Vec takes all");
        if with_fraction && self.nanos > 0 {
            write!(out, ".{:09}", self.nanos).expect("a Vec takes all");
            while out.last() == Some(&b'0') {
                out.pop();
            }
        }
    }
}

/// Year, month and day of a day that is counted from 1970-01-01: Howard Hinnant's
/// `civil_from_days`. Years begin in March, so that the leap day is the last of its
/// year, and 400-year eras all have 146,097 days.
pub fn date_of_day(day: i64) -> (i64, u32, u32) {
    let days = day + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 } as u32;
    let day = (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u32;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Days from 1970-01-01 to a date of the proleptic Gregorian calendar, counted in eras
/// of 400 years that begin with March (Howard Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms", `days_from_civil`). A date that does not exist counts as one near it.
pub fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Whether a year has a 29th of February.
#[must_use]
pub fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days of a month, which is 1 to 12.
#[must_use]
pub fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Appends `2026-11-21T00:35:25Z`; fractions are cut off. `None` is year 1, the
/// time of an entry without a timestamp.
pub fn write_rfc3339(unix_ns: Option<i64>, out: &mut Vec<u8>) {
    Civil::of(unix_ns).write(out, 'T', false);
    out.push(b'Z');
}

/// Appends `2026-11-21T00:35:25.277398078Z`; trailing zeros are cut off.
pub fn write_rfc3339_nano(unix_ns: Option<i64>, out: &mut Vec<u8>) {
    Civil::of(unix_ns).write(out, 'T', true);
    out.push(b'Z');
}

/// Appends `2026-11-21 00:35:25.277398078 +0000 UTC`, as Go prints a time.
pub fn write_go_time(unix_ns: Option<i64>, out: &mut Vec<u8>) {
    Civil::of(unix_ns).write(out, ' ', true);
    out.extend_from_slice(b" +0000 UTC");
}

/// Reads an RFC 3339 time with or without a fraction, `Z` or a numeric offset.
/// `None` for anything else and for times that do not fit.
pub fn parse_rfc3339_ns(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let number = |from: usize, len: usize| -> Option<i64> {
        let digits = bytes.get(from..from + len)?;
        digits.iter().try_fold(0i64, |value, &digit| {
            digit.is_ascii_digit().then(|| value * 10 + i64::from(digit - b'0'))
        })
    };
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if separators.iter().any(|&(at, separator)| bytes.get(at) != Some(&separator)) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
    let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
    if !(1..=12).contains(&month)
        || !(1..=days_in(year, month)).contains(&day)
        || hour > 23
        || minute > 59
        || second > 59
    {
        return None;
    }
    let mut position = 19;
    let mut nanos = 0;
    if matches!(bytes.get(position), Some(b'.' | b',')) {
        let digits = bytes[position + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        // Digits beyond nanoseconds are cut off.
        let kept = digits.min(9);
        nanos = number(position + 1, kept)? * 10i64.pow(9 - kept as u32);
        position += 1 + digits;
    }
    let offset_seconds = match (bytes.get(position)?, bytes.len() - position) {
        (b'Z', 1) => 0,
        (sign @ (b'+' | b'-'), 6) if bytes[position + 3] == b':' => {
            let (hours, minutes) = (number(position + 1, 2)?, number(position + 4, 2)?);
            if hours > 24 || minutes > 60 {
                return None;
            }
            (hours * 3600 + minutes * 60) * if *sign == b'+' { 1 } else { -1 }
        }
        _ => return None,
    };
    let seconds =
        days_from_epoch(year, month, day) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second
            - offset_seconds;
    i64::try_from(i128::from(seconds) * i128::from(NANOS_PER_SECOND) + i128::from(nanos)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(write: fn(Option<i64>, &mut Vec<u8>), unix_ns: Option<i64>) -> String {
        let mut out = Vec::new();
        write(unix_ns, &mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn times_are_printed_like_go() {
        let unix_ns = Some(1_795_221_325_277_398_078);
        assert_eq!(printed(write_rfc3339, unix_ns), "2026-11-21T00:35:25Z");
        assert_eq!(printed(write_rfc3339_nano, unix_ns), "2026-11-21T00:35:25.277398078Z");
        assert_eq!(printed(write_go_time, unix_ns), "2026-11-21 00:35:25.277398078 +0000 UTC");
        assert_eq!(
            printed(write_rfc3339_nano, Some(1_795_221_325_500_000_000)),
            "2026-11-21T00:35:25.5Z"
        );
        assert_eq!(printed(write_go_time, None), "0001-01-01 00:00:00 +0000 UTC");
        assert_eq!(printed(write_rfc3339, Some(-1)), "1969-12-31T23:59:59Z");
        assert_eq!(printed(write_rfc3339_nano, Some(i64::MIN)), "1677-09-21T00:12:43.145224192Z");
        assert_eq!(printed(write_rfc3339_nano, Some(i64::MAX)), "2262-04-11T23:47:16.854775807Z");
    }

    #[test]
    fn rfc3339_is_read() {
        let cases = [
            ("2026-03-10T01:00:00Z", Some(1_773_104_400_000_000_000)),
            ("2026-03-10T02:10:00.5+01:00", Some(1_773_105_000_500_000_000)),
            ("2026-03-10T01:00:00.000000001Z", Some(1_773_104_400_000_000_001)),
            ("2026-03-10T01:00:00.1234567899Z", Some(1_773_104_400_123_456_789)),
            ("1969-12-31T23:59:59Z", Some(-1_000_000_000)),
            ("2024-02-29T00:00:00Z", Some(1_709_164_800_000_000_000)),
            ("2023-02-29T00:00:00Z", None),
            ("2026-03-10T01:00:00", None),
            ("2026-03-10T01:00:00.Z", None),
            ("2026-03-10 01:00:00Z", None),
            ("2026-03-10T01:00:00Z ", None),
            ("2026-03-10T24:00:00Z", None),
            ("2026-13-10T01:00:00Z", None),
            ("2026-03-10T01:00:00+0100", None),
            ("9999-01-01T00:00:00Z", None),
            ("2026-03-10", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_rfc3339_ns(text), expected, "{text}");
        }
    }

    #[test]
    fn printed_times_are_read_back() {
        let mut unix_ns = i64::MIN;
        for step in 0..10_000i64 {
            let text = printed(write_rfc3339_nano, Some(unix_ns));
            assert_eq!(parse_rfc3339_ns(&text), Some(unix_ns), "{text}");
            unix_ns = unix_ns.wrapping_add(1_844_674_407_370_955 + step);
        }
    }
}
