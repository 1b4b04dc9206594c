//! Compares an answer with the documented one: exactly, except for times, which are shifted to the
//! times of the test, and for parts that the document leaves open with `…`.

use regex::{Captures, Regex};
use serde_json::Value;

use super::document::Request;

/// Stands for anything.
const ANYTHING: &str = "…";

/// The second with which the times of the reference begin: 2023-11-14T22:13:20Z.
const EXAMPLE_S: i64 = 1_700_000_000;
/// How many seconds of example times there are.
const SPAN_S: i64 = 1000;

/// Puts the documented times close to the times of the test.
pub(crate) struct Clock {
    /// The time that replaces [`EXAMPLE_S`].
    base_s: i64,
    epochs: Regex,
    texts: Regex,
}

impl Clock {
    /// All times of examples are in the past of `now_s`, and in the last half hour.
    pub(crate) fn at(now_s: i64) -> Clock {
        // Multiples of 100 s stay multiples of 100 s.
        let base_s = (now_s - SPAN_S) / 100 * 100 - 100;
        let regex = |text| Regex::new(text).expect("a correct expression");
        Clock {
            base_s,
            epochs: regex(r"\b1700000(\d{3})"),
            texts: regex(r"2023-11-14([T ])22:(\d\d):(\d\d)"),
        }
    }

    /// The text with its times shifted.
    pub(crate) fn shift(&self, text: &str) -> String {
        let number = |text: &str| text.parse::<i64>().expect("digits");
        let epochs = self
            .epochs
            .replace_all(text, |found: &Captures| (self.base_s + number(&found[1])).to_string());
        let shifted = self.texts.replace_all(&epochs, |found: &Captures| {
            let offset_s = number(&found[2]) * 60 + number(&found[3]) - (13 * 60 + 20);
            assert!((0..SPAN_S).contains(&offset_s), "{} is outside the examples", &found[0]);
            date_time(self.base_s + offset_s, &found[1])
        });
        shifted.into_owned()
    }

    /// The body of a request.
    pub(crate) fn body(&self, request: &Request) -> Option<String> {
        request.body.as_ref().map(|body| self.shift(body))
    }
}

/// `2023-11-14T22:13:20` for the seconds since 1970, by Howard Hinnant's
/// `civil_from_days`.
fn date_time(unix_s: i64, separator: &str) -> String {
    let (days, of_day) = (unix_s.div_euclid(86_400) + 719_468, unix_s.rem_euclid(86_400));
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}{separator}{hour:02}:{minute:02}:{second:02}")
}

/// The difference between the expected text and the received one.
pub(crate) fn differs(expected: &str, came: &str) -> Option<String> {
    match (serde_json::from_str(expected), serde_json::from_str(came)) {
        (Ok(expected), Ok(came)) => json_differs(&expected, &came, "the answer"),
        _ if lines_match(expected.trim_end_matches('\n'), came.trim_end_matches('\n')) => None,
        _ => Some(format!("the text is not\n{expected}\n")),
    }
}

/// `"…"` matches every value; an object with the name `"…"` may have more names.
fn json_differs(expected: &Value, came: &Value, place: &str) -> Option<String> {
    match (expected, came) {
        (Value::String(text), _) if text == ANYTHING => None,
        (Value::Object(expected), Value::Object(came)) => {
            let open = expected.contains_key(ANYTHING);
            let missing = expected.keys().filter(|name| *name != ANYTHING);
            let missing = missing.filter(|name| !came.contains_key(*name));
            if let Some(name) = missing.into_iter().next() {
                return Some(format!("{name} is missing in {place}"));
            }
            came.iter().find_map(|(name, value)| match expected.get(name) {
                Some(known) => json_differs(known, value, &format!("{place}.{name}")),
                None if open => None,
                None => Some(format!("{name} is not expected in {place}")),
            })
        }
        (Value::Array(expected), Value::Array(came)) if expected.len() == came.len() => {
            let pairs = expected.iter().zip(came).enumerate();
            pairs.into_iter().find_map(|(index, (expected, came))| {
                json_differs(expected, came, &format!("{place}[{index}]"))
            })
        }
        _ if expected == came => None,
        _ => Some(format!("{place} is not {expected}")),
    }
}

/// `…` matches any text within a line; a line of just `…` any number of lines.
fn lines_match(expected: &str, came: &str) -> bool {
    let pattern: Vec<String> = expected
        .split('\n')
        .map(|line| match line {
            ANYTHING => "(?s:.*)".to_owned(),
            line => line.split(ANYTHING).map(regex::escape).collect::<Vec<_>>().join(".*"),
        })
        .collect();
    let pattern =
        Regex::new(&format!(r"\A{}\z", pattern.join("\n"))).expect("a correct expression");
    pattern.is_match(came)
}

#[test]
fn times_are_shifted() {
    let clock = Clock::at(1_795_255_736);
    assert_eq!(clock.shift("1700000000 1700000012.5"), "1795254600 1795254612.5");
    assert_eq!(clock.shift(r#""1700000100000000001""#), r#""1795254700000000001""#);
    assert_eq!(clock.shift("2023-11-14T22:13:20Z"), "2026-11-21T09:50:00Z");
    assert_eq!(clock.shift("2023-11-14 22:15:01.5 +0000"), "2026-11-21 09:51:41.5 +0000");
    assert_eq!(clock.shift("11700000000 170000"), "11700000000 170000");
    assert_eq!(date_time(EXAMPLE_S, "T"), "2023-11-14T22:13:20");
    assert_eq!(date_time(951_782_400, " "), "2000-02-29 00:00:00");
}

#[test]
fn only_what_is_open_may_differ() {
    for (expected, came, same) in [
        (r#"{"a":[1,"…"]}"#, r#"{ "a": [1, {"b": 2}] }"#, true),
        (r#"{"a":[1,"…"]}"#, r#"{"a":[1]}"#, false),
        (r#"{"a":1}"#, r#"{"a":1,"b":2}"#, false),
        (r#"{"a":1,"…":"…"}"#, r#"{"a":1,"b":2}"#, true),
        (r#"{"a":1,"…":"…"}"#, r#"{"b":2}"#, false),
        (r#"[1,2]"#, r#"[2,1]"#, false),
        ("ready", "ready\n", true),
        ("a … c", "a b b c", true),
        ("a … c", "a b\nc", false),
        ("a\n…\nd", "a\nb\nc\nd", true),
        ("a.c", "abc", false),
        ("", "x", false),
    ] {
        assert_eq!(differs(expected, came).is_none(), same, "{expected} {came}");
    }
}
