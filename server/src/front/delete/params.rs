//! Parameters of requests for deletion.

use logsvc_http::Params;
use logsvc_proto::error::ApiError;
use logsvc_proto::time::{format_go_duration, parse_go_duration_ns, parse_rfc3339_ns};

const SECOND_NS: i64 = 1_000_000_000;

/// The times of entries that go, both included, in ns since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bounds {
    pub(super) start_ns: i64,
    pub(super) end_ns: i64,
}

/// Reads `start` and `end`. `end` is now if it is not there.
pub(super) fn range(params: &Params, now_ns: i64) -> Result<Bounds, ApiError> {
    let Some(start) = params.get_non_empty("start") else {
        return Err(ApiError::bad_request("start time not set"));
    };
    let start_ns = time_of("start", start)?;
    let end_ns = params.get_non_empty("end").map(|text| time_of("end", text)).transpose()?;
    let end_ns = end_ns.unwrap_or(now_ns);
    if end_ns > now_ns {
        return Err(ApiError::bad_request("deletes in the future are not allowed"));
    }
    if start_ns >= end_ns {
        let text = "start time can't be greater than or equal to end time";
        return Err(ApiError::bad_request(text));
    }
    Ok(Bounds { start_ns, end_ns })
}

/// Reads `start` and `end` of a list. One alone counts as none.
pub(super) fn bounds_ns(params: &Params) -> Result<Option<(i64, i64)>, ApiError> {
    let both = (params.get_non_empty("start"), params.get_non_empty("end"));
    let (Some(start), Some(end)) = both else { return Ok(None) };
    let (start_ns, end_ns) = (time_of("start", start)?, time_of("end", end)?);
    if start_ns > end_ns {
        let text = "start time can't be greater than or equal to end time";
        return Err(ApiError::bad_request(text));
    }
    Ok(Some((start_ns, end_ns)))
}

/// A time: seconds since the Unix epoch with ten digits, or RFC 3339. Numbers of other lengths are
/// most likely in other units, and would delete other entries than were meant.
fn time_of(name: &str, text: &str) -> Result<i64, ApiError> {
    let is_seconds = text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit());
    let time_ns = match is_seconds {
        // Ten digits go beyond the year 2262.
        true => text.parse::<i64>().ok().map(|seconds| seconds.saturating_mul(SECOND_NS)),
        false => parse_rfc3339_ns(text),
    };
    time_ns.ok_or_else(|| {
        let text = format!("invalid {name} time: require unix seconds or RFC3339 format");
        ApiError::bad_request(text)
    })
}

/// The length of the parts in ns, of a query with stages; `None`: one part. `max_ns` is the longest
/// part, and its default; 0: any.
pub(super) fn part_ns(
    params: &Params,
    range: Bounds,
    max_ns: i64,
) -> Result<Option<i64>, ApiError> {
    let length_ns = range.end_ns.saturating_sub(range.start_ns);
    let Some(text) = params.get_non_empty("max_interval") else {
        return Ok((0 < max_ns && max_ns < length_ns).then_some(max_ns));
    };
    // Go has units below a second, too.
    let has_units = !text.contains("ms")
        && text.bytes().all(|byte| b"hms.+".contains(&byte) || byte.is_ascii_digit());
    let interval_ns = parse_go_duration_ns(text).ok().filter(|&ns| has_units && ns >= SECOND_NS);
    let Some(interval_ns) = interval_ns else {
        let text = "invalid max_interval: valid time units are 's', 'm', 'h'";
        return Err(ApiError::bad_request(text));
    };
    if max_ns > 0 && interval_ns > max_ns {
        let max = format_go_duration(max_ns);
        return Err(ApiError::bad_request(format!("max_interval can't be greater than {max}")));
    }
    if interval_ns > length_ns {
        let length = format_go_duration(length_ns);
        return Err(ApiError::bad_request(format!(
            "max_interval can't be greater than the interval to be deleted ({length})"
        )));
    }
    Ok((interval_ns < length_ns).then_some(interval_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_NS: i64 = 1_795_225_841_678_000_000;
    const HOUR_NS: i64 = 3600 * SECOND_NS;

    fn params(pairs: &[(&str, &str)]) -> Params {
        let pairs =
            pairs.iter().map(|(name, value)| format!("{name}={}", logsvc_http::escape(value)));
        let text = pairs.collect::<Vec<_>>().join("&");
        Params::of_request(Some(&text), None).expect("good parameters")
    }

    fn message<T: std::fmt::Debug>(outcome: Result<T, ApiError>) -> String {
        let error = outcome.expect_err("refused");
        assert_eq!(error.status, 400);
        error.message
    }

    #[test]
    fn times_are_seconds_or_dates() {
        for (text, time_ns) in [
            ("1795222080", 1_795_222_080 * SECOND_NS),
            ("0000000001", SECOND_NS),
            ("9999999999", i64::MAX),
            ("2026-11-21T12:00:00+02:00", 1_795_255_200 * SECOND_NS),
            ("2026-11-21T10:00:00Z", 1_795_255_200 * SECOND_NS),
            ("2026-11-21T10:00:00.000000001Z", 1_795_255_200 * SECOND_NS + 1),
            ("1969-12-31T23:59:59Z", -SECOND_NS),
        ] {
            assert_eq!(time_of("start", text), Ok(time_ns), "{text}");
        }
        for text in [
            "abc",
            "1795222080000",
            "1795222080000000000",
            "1795222080.5",
            "179522208",
            "-179522208",
            "+179522208",
            " 179522208",
            "2026-11-21T10:00:00",
            "2026-11-21 10:00:00Z",
            "2026-11-21",
            "1e9",
        ] {
            let refused = message(time_of("end", text));
            let expected = "invalid end time: require unix seconds or RFC3339 format";
            assert_eq!(refused, expected, "{text}");
        }
    }

    #[test]
    fn ranges_lie_in_the_past_and_have_a_length() {
        let of = |pairs: &[(&str, &str)]| range(&params(pairs), NOW_NS);
        let (start, end) = (("start", "1795222080"), ("end", "1795223280"));
        let bounds =
            Bounds { start_ns: 1_795_222_080 * SECOND_NS, end_ns: 1_795_223_280 * SECOND_NS };
        assert_eq!(of(&[start, end]), Ok(bounds));
        assert_eq!(of(&[start]), Ok(Bounds { end_ns: NOW_NS, ..bounds }));
        assert_eq!(of(&[start, ("end", "")]), Ok(Bounds { end_ns: NOW_NS, ..bounds }));
        assert_eq!(message(of(&[end])), "start time not set");
        assert_eq!(message(of(&[("start", ""), end])), "start time not set");
        let future = message(of(&[start, ("end", "1795225842")]));
        assert_eq!(future, "deletes in the future are not allowed");
        for end in ["1795222080", "1795222079"] {
            let empty = message(of(&[start, ("end", end)]));
            assert_eq!(empty, "start time can't be greater than or equal to end time");
        }
    }

    #[test]
    fn lists_are_bounded_by_two_times() {
        let of = |pairs: &[(&str, &str)]| bounds_ns(&params(pairs));
        let (start, end) = (("start", "1795222080"), ("end", "1795223280"));
        let both = (1_795_222_080 * SECOND_NS, 1_795_223_280 * SECOND_NS);
        assert_eq!(of(&[start, end]), Ok(Some(both)));
        for one in [&[][..], &[start], &[end], &[("start", "abc")], &[start, ("end", "")]] {
            assert_eq!(of(one), Ok(None));
        }
        assert!(of(&[start, ("end", "abc")]).is_err());
        assert!(of(&[("start", "1795223280"), ("end", "1795222080")]).is_err());
    }

    #[test]
    fn parts_are_bounded() {
        let range = Bounds { start_ns: 0, end_ns: 48 * HOUR_NS };
        let of = |text: &str, max_ns| part_ns(&params(&[("max_interval", text)]), range, max_ns);
        let day_ns = 24 * HOUR_NS;
        for (text, max_ns, part_ns) in [
            ("", day_ns, Some(day_ns)),
            ("", 0, None),
            ("", 48 * HOUR_NS, None),
            ("1h", day_ns, Some(HOUR_NS)),
            ("1h30m1s", day_ns, Some(HOUR_NS + 1801 * SECOND_NS)),
            ("1.5h", day_ns, Some(HOUR_NS / 2 * 3)),
            ("1s", day_ns, Some(SECOND_NS)),
            ("24h", day_ns, Some(day_ns)),
            ("30h", 0, Some(30 * HOUR_NS)),
            ("48h", 0, None),
        ] {
            assert_eq!(of(text, max_ns), Ok(part_ns), "{text}");
        }
        for text in ["1d", "xx", "1", "-1h", "999ms", "1500ms", "0.9s", "0", "9s1us", "1 h"] {
            let expected = "invalid max_interval: valid time units are 's', 'm', 'h'";
            assert_eq!(message(of(text, day_ns)), expected, "{text}");
        }
        let above = message(of("25h", day_ns));
        assert_eq!(above, "max_interval can't be greater than 24h0m0s");
        let longer = "max_interval can't be greater than the interval to be deleted (48h0m0s)";
        assert_eq!(message(of("49h", 0)), longer);
    }
}
