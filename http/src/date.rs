//! The `Date` header (RFC 9110, section 5.6.7), formatted once per second.

use std::cell::Cell;
use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

use httpdate::HttpDate;

/// Length of `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const DATE_LEN_BYTES: usize = 29;

/// The last second of the year 9999.
const LAST_UNIX_S: u64 = 253_402_300_799;

/// Formats a time in seconds since the Unix epoch. Times before it count as the
/// epoch, times past the year 9999 as its last second, because the format has no
/// room for others.
pub fn format_date(unix_s: i64) -> [u8; DATE_LEN_BYTES] {
    let unix_s = u64::try_from(unix_s).unwrap_or(0).min(LAST_UNIX_S);
    let date = HttpDate::from(UNIX_EPOCH + Duration::from_secs(unix_s));
    let mut out = [b' '; DATE_LEN_BYTES];
    let written = write!(out.as_mut_slice(), "{date}");
    debug_assert!(written.is_ok(), "a date is longer than {DATE_LEN_BYTES} bytes");
    out
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
