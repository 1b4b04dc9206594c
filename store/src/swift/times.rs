//! Times as Swift and Keystone write them.

/// Nanoseconds of a second.
pub(super) const NS_PER_S: i64 = 1_000_000_000;

/// `2026-11-28T17:06:34.377620` in UTC, with or without a fraction and a `Z`, in ns since the Unix
/// epoch. `None`: it is no such time, or one before 1970 or after 2261.
pub(super) fn of_iso(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let (day, time) = whole.split_once('T')?;
    let [year, month, day] = numbers(day, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    let is_day =
        (1970..2262).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_day || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Years begin in March, so that the leap day is the last of its year (H. Hinnant,
    // "chrono-Compatible Low-Level Date Algorithms").
    let from_march = if month > 2 { year } else { year - 1 };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let leap_days = from_march / 4 - from_march / 100 + from_march / 400;
    let days = from_march * 365 + leap_days + day_of_year - 719_468;
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second;
    seconds.checked_mul(NS_PER_S)?.checked_add(fraction_ns(fraction)?)
}

/// `1795885594.18997`: seconds since the Unix epoch, in ns.
pub(super) fn of_seconds(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    number(whole)?.checked_mul(NS_PER_S)?.checked_add(fraction_ns(fraction)?)
}

fn fraction_ns(digits: &str) -> Option<i64> {
    let digits = digits.get(..9).unwrap_or(digits);
    if digits.is_empty() {
        return Some(0);
    }
    Some(number(digits)? * 10_i64.pow(9_u32.checked_sub(digits.len() as u32)?))
}

fn numbers(text: &str, between: char) -> Option<[i64; 3]> {
    let mut parts = text.split(between).map(number);
    let found = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(found)
}

fn number(text: &str) -> Option<i64> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        for (text, expected) in [
            ("1970-01-01T00:00:00", Some(0)),
            ("2000-02-29T12:00:00Z", Some(951_825_600 * NS_PER_S)),
            ("2026-11-28T17:06:34.377620", Some(1_795_885_594 * NS_PER_S + 377_620_000)),
            ("2026-11-28T17:06:34.3776201239", Some(1_795_885_594 * NS_PER_S + 377_620_123)),
            ("2026-11-28", None),
            ("2026-11-28T17:06", None),
            ("2026-11-28T17:06:34.x", None),
            ("9999-11-28T17:06:34", None),
            ("2026-13-28T17:06:34", None),
            ("-1-1-1T1:1:1", None),
            ("ä", None),
        ] {
            assert_eq!(of_iso(text), expected, "{text}");
        }
        assert_eq!(of_seconds("1795885594.18997"), Some(1_795_885_594_189_970_000));
        assert_eq!(of_seconds("7"), Some(7 * NS_PER_S));
        for bad in ["", ".5", "-1", "9223372036854775807", "1.ä", "1e9"] {
            assert_eq!(of_seconds(bad), None, "{bad}");
        }
    }
}
