//! The `Date` header (RFC 9110, section 5.6.7), formatted once per second.

use std::cell::Cell;

/// Length of `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const DATE_LEN_BYTES: usize = 29;

const DAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// Formats a time in seconds since the Unix epoch. Times before it count as the
/// epoch, times past the year 9999 as its last second, because the format has no
/// room for others.
pub fn format_date(unix_s: i64) -> [u8; DATE_LEN_BYTES] {
    let unix_s = unix_s.clamp(0, 253_402_300_799);
    let days = unix_s / 86_400;
    let second_of_day = unix_s % 86_400;
    let (year, month, day) = civil_from_days(days);

    let mut out = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    out[..3].copy_from_slice(DAYS[(days % 7) as usize]);
    put_two(&mut out[5..7], day);
    out[8..11].copy_from_slice(MONTHS[(month - 1) as usize]);
    put_two(&mut out[12..14], year / 100);
    put_two(&mut out[14..16], year % 100);
    put_two(&mut out[17..19], second_of_day / 3600);
    put_two(&mut out[20..22], second_of_day / 60 % 60);
    put_two(&mut out[23..25], second_of_day % 60);
    out
}

fn put_two(out: &mut [u8], value: i64) {
    out[0] = b'0' + (value / 10) as u8;
    out[1] = b'0' + (value % 10) as u8;
}

/// Year, month and day of a day number since the epoch. Works in years that
/// start in March, so that the leap day is the last one of its year, and in the
/// 146,097 days after which the Gregorian calendar repeats.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468; // days since 0000-03-01
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

/// The formatted date of the current second.
pub(crate) struct DateCache {
    unix_s: Cell<i64>,
    text: Cell<[u8; DATE_LEN_BYTES]>,
}

impl DateCache {
    pub(crate) fn new() -> DateCache {
        DateCache { unix_s: Cell::new(0), text: Cell::new(format_date(0)) }
    }

    pub(crate) fn at(&self, unix_nanos: i64) -> [u8; DATE_LEN_BYTES] {
        let unix_s = unix_nanos.div_euclid(1_000_000_000);
        if unix_s != self.unix_s.get() {
            self.unix_s.set(unix_s);
            self.text.set(format_date(unix_s));
        }
        self.text.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        for (unix_s, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
            (1_795_222_080, "Sat, 21 Nov 2026 00:48:00 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
            (i64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
            (-5, "Thu, 01 Jan 1970 00:00:00 GMT"),
        ] {
            assert_eq!(std::str::from_utf8(&format_date(unix_s)), Ok(text));
        }
    }

    #[test]
    fn the_cache_follows_the_clock() {
        let cache = DateCache::new();
        assert_eq!(cache.at(784_111_777_999_999_999), format_date(784_111_777));
        assert_eq!(cache.at(784_111_778_000_000_000), format_date(784_111_778));
        assert_eq!(cache.at(784_111_777_000_000_000), format_date(784_111_777));
    }
}
