//! Durations as Prometheus writes them: `1d`, `1h30m`, `90s`, `500ms`.
//!
//! Units go from large to small, each at most once: `y` (365 days), `w`, `d`, `h`, `m`, `s`, `ms`.
//! A fraction, a sign, and a number without a unit are errors, but for `0`.

use std::time::Duration;

/// Units in ms, from large to small.
const UNITS: [(&str, u64); 7] = [
    ("y", 365 * 86_400_000),
    ("w", 7 * 86_400_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// The longest duration, in ms: what fits into 63 bits of ns.
const MAX_MS: u64 = i64::MAX as u64 / 1_000_000;

/// Reads a duration; `None` if the text is none, or too long.
pub fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut units = UNITS.iter();
    let mut sum_ms = 0_u64;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let letters = after.bytes().take_while(u8::is_ascii_lowercase).count();
        let (unit, after) = after.split_at(letters);
        // Only the units behind the last one are left.
        let (_, unit_ms) = units.find(|(known, _)| *known == unit)?;
        let part_ms = number.parse::<u64>().ok()?.checked_mul(*unit_ms)?;
        sum_ms = sum_ms.checked_add(part_ms).filter(|&sum_ms| sum_ms <= MAX_MS)?;
        rest = after;
    }
    (!text.is_empty()).then_some(Duration::from_millis(sum_ms))
}

/// Writes a duration in whole ms; what is shorter is cut off. Years and weeks are used if nothing
/// is left over: `90d` is easier to read than `12w6d`.
pub fn format(duration: Duration) -> String {
    let mut left_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if left_ms == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, unit_ms) in UNITS {
        let is_exact_only = matches!(unit, "y" | "w");
        if (is_exact_only && !left_ms.is_multiple_of(unit_ms)) || left_ms < unit_ms {
            continue;
        }
        text += &format!("{}{unit}", left_ms / unit_ms);
        left_ms %= unit_ms;
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn units_go_from_large_to_small() {
        let read = |text: &str| parse(text).map(|duration| duration.as_millis());
        for (text, ms) in [
            ("0", 0),
            ("0s", 0),
            ("1d", 86_400_000),
            ("1h30m", 5_400_000),
            ("1y2w3d4h5m6s7ms", 31_536_000_000 + 1_209_600_000 + 259_200_000 + 14_706_007),
            ("90s", 90_000),
            ("1500ms", 1500),
            ("007s", 7000),
        ] {
            assert_eq!(read(text), Some(ms), "{text}");
        }
        for text in [
            "",
            "90",
            "1.5h",
            "-1s",
            "+1s",
            "s",
            "1",
            "00",
            "1m1h",
            "1s1s",
            "1 s",
            " 1s",
            "1s ",
            "1S",
            "1us",
            "1ns",
            "abc",
            "300y",
            "9223372036855ms1s",
            "18446744073709551616s",
            "1m2",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn written_durations_are_those_of_prometheus() {
        for (ms, text) in [
            (0, "0s"),
            (10_000, "10s"),
            (86_400_000, "1d"),
            (90 * 86_400_000, "90d"),
            (14 * 86_400_000, "2w"),
            (365 * 86_400_000, "1y"),
            (372 * 86_400_000, "372d"),
            (5_400_000, "1h30m"),
            (1_001, "1s1ms"),
        ] {
            assert_eq!(format(Duration::from_millis(ms)), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(ms in 0..=MAX_MS) {
            let duration = Duration::from_millis(ms);
            prop_assert_eq!(parse(&format(duration)), Some(duration));
        }

        #[test]
        fn any_text_is_met_without_a_panic(text in "[0-9ywdhms. -]{0,30}") {
            let _ = parse(&text);
        }
    }
}
