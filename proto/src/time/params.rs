//! Times, steps and limits in request parameters.

use crate::go::calendar::parse_rfc3339_ns;
use crate::go::duration::{DurationError, parse_model_duration_ns};
use crate::go::quote::quoted;

/// Why a parameter was refused. The texts equal Loki's texts, and Loki shows the
/// messages of Go's libraries.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TimeError {
    /// Neither a number nor an RFC 3339 time.
    #[error("strconv.{function}: parsing {}: {problem}", quoted(text))]
    Number {
        /// Name of Go's function.
        function: &'static str,
        /// The parameter.
        text: String,
        /// `invalid syntax` or `value out of range`.
        problem: &'static str,
    },
    /// Neither a number of seconds nor a duration.
    #[error("cannot parse {} to a valid duration", quoted(.0))]
    Duration(String),
    /// More than signed 64-bit nanoseconds hold.
    #[error("cannot parse {} to a valid duration. It overflows int64", quoted(.0))]
    DurationOverflow(String),
    /// A named parameter of a range.
    #[error("could not parse '{name}' parameter: {source}")]
    Parameter {
        /// Its name.
        name: &'static str,
        /// The fault.
        source: Box<TimeError>,
    },
    /// The `since` parameter.
    #[error("could not parse 'since' parameter: {0}")]
    Since(#[source] DurationError),
    /// A `limit` that is zero or negative.
    #[error("limit must be a positive value")]
    LimitNotPositive,
    /// A `limit` above 32 bits.
    #[error("limit value {0} is out of range [0, 4294967295]")]
    LimitOutOfRange(i64),
}

fn parse_int(function: &'static str, text: &str) -> Result<i64, TimeError> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    text.parse().map_err(|error: std::num::ParseIntError| {
        let problem = match error.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        TimeError::Number { function, text: text.to_owned(), problem }
    })
}

/// Reads a time, in nanoseconds since the Unix epoch, by these rules in order: a
/// number with a `.` is seconds, rounded to milliseconds; an integer of at most
/// ten characters is seconds; a longer one is nanoseconds; then RFC 3339.
pub fn parse_time_ns(text: &str) -> Result<i64, TimeError> {
    let out_of_range = || TimeError::Number {
        function: "ParseInt",
        text: text.to_owned(),
        problem: "value out of range",
    };
    if text.contains('.')
        && let Ok(seconds) = text.parse::<f64>()
    {
        let whole_ns = i128::from(seconds.trunc() as i64) * 1_000_000_000;
        let fraction_ms = (seconds.fract() * 1000.0).round() as i128;
        let in_range = seconds.is_finite() && seconds.abs() < 1e18;
        return i64::try_from(whole_ns + fraction_ms * 1_000_000)
            .ok()
            .filter(|_| in_range)
            .ok_or_else(out_of_range);
    }
    match parse_int("ParseInt", text) {
        // A ten-digit number of seconds may lie beyond the year 2262.
        Ok(seconds) if text.len() <= 10 => {
            seconds.checked_mul(1_000_000_000).ok_or_else(out_of_range)
        }
        Ok(unix_ns) => Ok(unix_ns),
        Err(error) => parse_rfc3339_ns(text).ok_or(error),
    }
}

/// Reads the parameter `start` or `end` of a range; errors name it.
pub fn parse_time_param_ns(name: &'static str, text: &str) -> Result<i64, TimeError> {
    parse_time_ns(text).map_err(|source| TimeError::Parameter { name, source: Box::new(source) })
}

/// Reads the parameter `since`: a model-style duration with units.
pub fn parse_since_param_ns(text: &str) -> Result<i64, TimeError> {
    parse_model_duration_ns(text).map_err(TimeError::Since)
}

/// Reads `step` or `interval`: a number of seconds or a model-style duration.
/// The result may be zero or negative, which is for the caller to refuse.
pub fn parse_step_ns(text: &str) -> Result<i64, TimeError> {
    if let Ok(seconds) = text.parse::<f64>()
        && !seconds.is_nan()
    {
        let step_ns = seconds * 1e9;
        // 2^63 as a float; every smaller float converts exactly enough.
        if !(-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&step_ns) {
            return Err(TimeError::DurationOverflow(text.to_owned()));
        }
        return Ok(step_ns as i64);
    }
    parse_model_duration_ns(text).map_err(|_| TimeError::Duration(text.to_owned()))
}

/// Reads `limit`: at least 1, at most 2^32 - 1.
pub fn parse_limit(text: &str) -> Result<u32, TimeError> {
    let limit = parse_int("Atoi", text)?;
    if limit <= 0 {
        return Err(TimeError::LimitNotPositive);
    }
    u32::try_from(limit).map_err(|_| TimeError::LimitOutOfRange(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_follow_the_rules_in_order() {
        let cases = [
            ("1795222080.5", Ok(1_795_222_080_500_000_000)),
            ("1773104400.123456789", Ok(1_773_104_400_123_000_000)),
            ("1773104400.", Ok(1_773_104_400_000_000_000)),
            ("1.7731044e9", Ok(1_773_104_400_000_000_000)),
            ("-1.5", Ok(-1_500_000_000)),
            ("1773104400", Ok(1_773_104_400_000_000_000)),
            ("0", Ok(0)),
            ("-3600", Ok(-3_600_000_000_000)),
            ("1795222080000", Ok(1_795_222_080_000)),
            ("1773104400000000000", Ok(1_773_104_400_000_000_000)),
            ("2026-03-10T02:00:00+01:00", Ok(1_773_104_400_000_000_000)),
            ("2026-03-10T01:00:00.5Z", Ok(1_773_104_400_500_000_000)),
            ("abc", Err("strconv.ParseInt: parsing \"abc\": invalid syntax")),
            ("1e9", Err("strconv.ParseInt: parsing \"1e9\": invalid syntax")),
            ("2026-03-10", Err("strconv.ParseInt: parsing \"2026-03-10\": invalid syntax")),
            (
                "2026-03-10T01:00:00Z ",
                Err("strconv.ParseInt: parsing \"2026-03-10T01:00:00Z \": invalid syntax"),
            ),
            ("1773104400,5", Err("strconv.ParseInt: parsing \"1773104400,5\": invalid syntax")),
            (
                "99999999999999999999",
                Err("strconv.ParseInt: parsing \"99999999999999999999\": value out of range"),
            ),
            ("9999999999", Err("strconv.ParseInt: parsing \"9999999999\": value out of range")),
            ("1.0e300", Err("strconv.ParseInt: parsing \"1.0e300\": value out of range")),
        ];
        for (text, expected) in cases {
            let got = parse_time_ns(text).map_err(|error| error.to_string());
            assert_eq!(got, expected.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn range_parameters_are_named_in_errors() {
        let error = parse_time_param_ns("start", "abc").expect_err("not a time");
        assert_eq!(
            error.to_string(),
            "could not parse 'start' parameter: strconv.ParseInt: parsing \"abc\": invalid syntax"
        );
        let error = parse_since_param_ns("5").expect_err("no unit");
        assert_eq!(
            error.to_string(),
            "could not parse 'since' parameter: not a valid duration string: \"5\""
        );
        assert_eq!(parse_since_param_ns("1h30m"), Ok(5_400_000_000_000));
    }

    #[test]
    fn steps_are_seconds_or_durations() {
        let overflow = "cannot parse \"1e99\" to a valid duration. It overflows int64";
        let cases = [
            ("300", Ok(300_000_000_000)),
            ("0.5", Ok(500_000_000)),
            ("1e3", Ok(1_000_000_000_000)),
            ("3600000ms", Ok(3_600_000_000_000)),
            ("2w", Ok(1_209_600_000_000_000)),
            ("-1", Ok(-1_000_000_000)),
            ("0", Ok(0)),
            ("abc", Err("cannot parse \"abc\" to a valid duration")),
            ("0.5m", Err("cannot parse \"0.5m\" to a valid duration")),
            ("5M", Err("cannot parse \"5M\" to a valid duration")),
            ("nan", Err("cannot parse \"nan\" to a valid duration")),
            ("1e99", Err(overflow)),
        ];
        for (text, expected) in cases {
            let got = parse_step_ns(text).map_err(|error| error.to_string());
            assert_eq!(got, expected.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn limits_are_positive_and_fit() {
        let cases = [
            ("100", Ok(100)),
            ("4294967295", Ok(u32::MAX)),
            ("0", Err("limit must be a positive value")),
            ("-1", Err("limit must be a positive value")),
            ("abc", Err("strconv.Atoi: parsing \"abc\": invalid syntax")),
            (" 3", Err("strconv.Atoi: parsing \" 3\": invalid syntax")),
            ("99999999999", Err("limit value 99999999999 is out of range [0, 4294967295]")),
        ];
        for (text, expected) in cases {
            let got = parse_limit(text).map_err(|error| error.to_string());
            assert_eq!(got, expected.map_err(str::to_owned), "{text}");
        }
    }
}
