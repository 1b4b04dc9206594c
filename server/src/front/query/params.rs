//! Request parameters of the query family: where they stand, their defaults, and
//! the order in which they are checked.

use http::Method;
use logsvc_http::{Params, Request};
use logsvc_logql::engine::Direction;
use logsvc_proto::error::ApiError;
use logsvc_proto::time::{
    parse_byte_size, parse_limit, parse_since_param_ns, parse_step_ns, parse_time_ns,
    parse_time_param_ns,
};
use logsvc_shards::types::TimeRange;

/// The default of `since`.
const HOUR_NS: i64 = 3_600_000_000_000;

/// The default range of label endpoints.
pub(crate) const LABELS_RANGE_NS: i64 = 6 * HOUR_NS;

/// The default range of everything else.
pub(crate) const QUERY_RANGE_NS: i64 = HOUR_NS;

/// `limit` without a value.
const DEFAULT_LIMIT: u32 = 100;

/// `limit` of detected fields without a value.
const DEFAULT_FIELD_LIMIT: u32 = 1000;

/// Most points per series, and the number of points that the default step gives.
const MAX_POINTS: i64 = 11_000;
const DEFAULT_POINTS: i64 = 250;

const SECOND_NS: i64 = 1_000_000_000;

/// The parameters of a request: of the form body, if there is one, and of the URL. Only the body of
/// a POST is a form: the body of a GET is ignored.
pub(crate) fn of(request: &Request) -> Result<Params, ApiError> {
    let is_form = request.head.method == Method::POST && request.head.has_form_body();
    let form = is_form.then_some(&*request.body);
    Params::of_request(request.head.query.as_deref(), form)
        .map_err(|error| ApiError::bad_request(error.to_string()))
}

/// `since`, `end`, `start`, checked in this order.
pub(crate) fn time_range(
    params: &Params,
    now_ns: i64,
    default_ns: i64,
) -> Result<TimeRange, ApiError> {
    let range = any_time_range(params, now_ns, default_ns)?;
    if range.end_ns <= range.start_ns {
        return Err(ApiError::bad_request(
            "end timestamp must not be before or equal to start time",
        ));
    }
    Ok(range)
}

/// [`time_range`] of an endpoint that finds nothing in a range that ends before it
/// begins.
pub(crate) fn open_time_range(params: &Params, now_ns: i64) -> Result<TimeRange, ApiError> {
    any_time_range(params, now_ns, QUERY_RANGE_NS)
}

fn any_time_range(params: &Params, now_ns: i64, default_ns: i64) -> Result<TimeRange, ApiError> {
    let since_ns = match params.get_non_empty("since") {
        Some(text) => parse_since_param_ns(text)?,
        None => default_ns,
    };
    let end_ns = match params.get_non_empty("end") {
        Some(text) => parse_time_param_ns("end", text)?,
        None => now_ns,
    };
    let start_ns = match params.get_non_empty("start") {
        Some(text) => parse_time_param_ns("start", text)?,
        None => end_ns.min(now_ns).saturating_sub(since_ns),
    };
    Ok(TimeRange { start_ns, end_ns })
}

/// `time`, now by default.
pub(super) fn instant(params: &Params, now_ns: i64) -> Result<i64, ApiError> {
    match params.get_non_empty("time") {
        Some(text) => Ok(parse_time_ns(text)?),
        None => Ok(now_ns),
    }
}

/// `limit`, 100 by default.
pub(crate) fn limit(params: &Params) -> Result<u32, ApiError> {
    match params.get_non_empty("limit") {
        Some(text) => Ok(parse_limit(text)?),
        None => Ok(DEFAULT_LIMIT),
    }
}

/// `partial`: whether a part of the answer is better than none; `None` if the request does not say.
pub(super) fn partial(params: &Params) -> Result<Option<bool>, ApiError> {
    match params.get_non_empty("partial") {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(text) => {
            Err(ApiError::bad_request(format!("partial is true or false, and not {text}")))
        }
    }
}

/// `limit` of volumes: 100 by default, and 0 stands for that.
pub(crate) fn volume_limit(params: &Params) -> Result<u32, ApiError> {
    match params.get_non_empty("limit") {
        Some(text) if text.parse() == Ok(0i64) => Ok(DEFAULT_LIMIT),
        _ => limit(params),
    }
}

/// `limit` or `field_limit`: most fields, or values of a field.
pub(crate) fn field_limit(params: &Params) -> Result<u32, ApiError> {
    let text = params.get_non_empty("limit").or_else(|| params.get_non_empty("field_limit"));
    Ok(text.map_or(Ok(DEFAULT_FIELD_LIMIT), parse_limit)?)
}

/// `line_limit`: how many lines are looked at.
pub(crate) fn line_limit(params: &Params) -> Result<u32, ApiError> {
    Ok(params.get_non_empty("line_limit").map_or(Ok(DEFAULT_LIMIT), parse_limit)?)
}

/// `targetBytesPerShard`, which has no default.
pub(crate) fn target_bytes_per_shard(params: &Params) -> Result<u64, ApiError> {
    let text = params.get_non_empty("targetBytesPerShard").unwrap_or("0");
    let bytes = parse_byte_size(text).filter(|&bytes| bytes > 0);
    bytes.ok_or_else(|| ApiError::bad_request("targetBytesPerShard must be a positive value"))
}

/// `direction`, backward by default.
pub(crate) fn direction(params: &Params) -> Result<Direction, ApiError> {
    match params.get_non_empty("direction") {
        None => Ok(Direction::Backward),
        Some(text) if text.eq_ignore_ascii_case("backward") => Ok(Direction::Backward),
        Some(text) if text.eq_ignore_ascii_case("forward") => Ok(Direction::Forward),
        Some(text) => Err(ApiError::bad_request(format!("invalid direction '{text}'"))),
    }
}

/// `step`, by default a 250th of the range but at least a second. Checked for log
/// queries too.
pub(crate) fn step(params: &Params, range: TimeRange) -> Result<i64, ApiError> {
    let length_ns = range.end_ns.saturating_sub(range.start_ns);
    let step_ns = match params.get_non_empty("step") {
        Some(text) => parse_step_ns(text)?,
        None => (length_ns / SECOND_NS / DEFAULT_POINTS).max(1) * SECOND_NS,
    };
    if step_ns <= 0 {
        return Err(ApiError::bad_request(
            "zero or negative query resolution step widths are not accepted. Try a positive integer",
        ));
    }
    if length_ns / step_ns > MAX_POINTS {
        return Err(ApiError::bad_request(
            "exceeded maximum resolution of 11,000 points per time series. Try increasing the value \
             of the step parameter",
        ));
    }
    Ok(step_ns)
}

/// `interval`, 0 by default.
pub(crate) fn interval(params: &Params) -> Result<i64, ApiError> {
    let interval_ns = match params.get_non_empty("interval") {
        Some(text) => parse_step_ns(text)?,
        None => 0,
    };
    if interval_ns < 0 {
        return Err(ApiError::bad_request("interval must be >= 0"));
    }
    Ok(interval_ns)
}

/// A parameter that is true or false, false by default.
pub(crate) fn flag(params: &Params, name: &str) -> Result<bool, ApiError> {
    match params.get_non_empty(name) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => {
            Err(ApiError::bad_request(format!("{name} is true or false, and not {other:?}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_NS: i64 = 1_795_222_085_000_000_000;

    fn range_of(text: &str) -> Result<(i64, i64), String> {
        let params = Params::parse(text.as_bytes()).unwrap();
        let range = time_range(&params, NOW_NS, QUERY_RANGE_NS).map_err(|e| e.to_string())?;
        Ok((range.start_ns - NOW_NS, range.end_ns - NOW_NS))
    }

    #[test]
    fn ranges_follow_since_end_and_start() {
        assert_eq!(range_of(""), Ok((-HOUR_NS, 0)));
        assert_eq!(range_of("since=5m"), Ok((-300 * SECOND_NS, 0)));
        let future = format!("since=5m&end={}", NOW_NS + HOUR_NS);
        assert_eq!(range_of(&future), Ok((-300 * SECOND_NS, HOUR_NS)), "since counts from now");
        let start = format!("since=5m&start={}", (NOW_NS - HOUR_NS) / SECOND_NS);
        assert_eq!(range_of(&start), Ok((-HOUR_NS, 0)), "start wins, in seconds here");
        let equal = format!("start={NOW_NS}&end={NOW_NS}");
        let text = "end timestamp must not be before or equal to start time";
        assert_eq!(range_of(&equal), Err(text.into()));
        assert!(range_of("since=5").unwrap_err().starts_with("could not parse 'since'"));
    }

    #[test]
    fn flags_are_true_or_false() {
        let flag_of = |text: &str| {
            flag(&Params::parse(text.as_bytes()).unwrap(), "f").map_err(|e| e.to_string())
        };
        for (text, value) in [("", false), ("f=", false), ("f=false", false), ("f=true", true)] {
            assert_eq!(flag_of(text), Ok(value), "{text}");
        }
        for text in ["1", "True", "yes", "true%20"] {
            let error = flag_of(&format!("f={text}")).expect_err("no flag");
            assert!(error.starts_with("f is true or false, and not \""), "{error}");
        }
        assert!(!flag_of("f=a%0Ab").expect_err("no flag").contains('\n'), "in one line");
    }

    #[test]
    fn the_default_step_gives_about_250_points() {
        let range = TimeRange { start_ns: 0, end_ns: HOUR_NS };
        let step_of = |text: &str| {
            step(&Params::parse(text.as_bytes()).unwrap(), range).map_err(|e| e.to_string())
        };
        assert_eq!(step_of(""), Ok(14 * SECOND_NS));
        assert_eq!(step_of("step=0.5"), Ok(SECOND_NS / 2));
        assert!(step_of("step=0").is_err());
        assert!(step_of("step=0.1").unwrap_err().starts_with("exceeded maximum resolution"));
    }
}
