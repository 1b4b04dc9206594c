//! The queries that are measured, with the floors the project promises.

use crate::corpus::Style;

/// The least speed of a query.
pub(crate) enum Floor {
    /// Nothing is promised.
    None,
    /// A share of the speed of `memmem` in the same run.
    Ratio(f64),
    /// Gigabytes of raw lines per second on an idle core.
    GigabytesPerS(f64),
}

/// A query over the lines of one style.
pub(crate) struct Query {
    pub(crate) style: Style,
    pub(crate) text: &'static str,
    pub(crate) floor: Floor,
    /// Seconds between the points of a metric query.
    pub(crate) step_s: i64,
    /// Most entries of a log query.
    pub(crate) limit: usize,
}

const fn query(style: Style, floor: Floor, text: &'static str) -> Query {
    Query { style, text, floor, step_s: 60, limit: 1000 }
}

use Floor::{GigabytesPerS, None, Ratio};
use Style::{Access, Json, Logfmt};

/// All queries. Counting forces a look at every line where a log query would stop
/// at its limit.
pub(crate) const QUERIES: [Query; 29] = [
    query(Json, Ratio(0.5), r#"sum(count_over_time({app="shop"} |= "7f3a9c0e5b" [1m]))"#),
    query(Json, Ratio(0.5), r#"{app="shop"} |= "7f3a9c0e5b""#),
    query(
        Json,
        GigabytesPerS(1.0),
        r#"sum(count_over_time({app="shop"} |~ "(?i)timeout|refused" [1m]))"#,
    ),
    query(
        Json,
        GigabytesPerS(1.0),
        r#"sum(count_over_time({app="shop"} |= "POST" != "healthz" |~ "status\":5[0-9]{2}" [1m]))"#,
    ),
    query(Json, None, r#"sum(count_over_time({app="shop"} |~ "(?i)error.*refused" [1m]))"#),
    query(
        Json,
        None,
        r#"sum(count_over_time({app="shop"} |~ "level\":\"error.*status\":50[23]" [1m]))"#,
    ),
    // The first filter keeps every line.
    query(
        Json,
        GigabytesPerS(1.0),
        r#"sum(count_over_time({app="shop"} |= "caller" != "debug" |= "GET" [1m]))"#,
    ),
    query(
        Json,
        GigabytesPerS(0.4),
        r#"sum(count_over_time({app="shop"} | json | status >= 500 [1m]))"#,
    ),
    query(Json, None, r#"{app="shop"} | json | status >= 503"#),
    query(Json, None, r#"{app="shop"} | json | level="error" | path="/api/v1/orders""#),
    query(Json, GigabytesPerS(0.25), r#"sum by (path) (rate({app="shop"} | json [1m]))"#),
    query(Json, None, r#"sum by (level, status) (count_over_time({app="shop"} | json [5m]))"#),
    query(Json, None, r#"sum(count_over_time({app="shop"} | json | __error__="" [1m]))"#),
    // Half a million series.
    query(Json, None, r#"topk(10, sum by (peer) (count_over_time({app="shop"} | json [1h])))"#),
    query(
        Logfmt,
        GigabytesPerS(0.4),
        r#"sum(count_over_time({app="shop"} | logfmt | duration > 1s [1m]))"#,
    ),
    query(Logfmt, None, r#"{app="shop"} | logfmt | duration > 9s"#),
    query(
        Logfmt,
        None,
        r#"sum by (level) (count_over_time({app="shop"} | logfmt | level="error" [1m]))"#,
    ),
    query(
        Logfmt,
        None,
        r#"max_over_time({app="shop"} | logfmt | unwrap bytes [5m]) by (component)"#,
    ),
    query(
        Logfmt,
        None,
        r#"sum by (component) (sum_over_time({app="shop"} | logfmt | unwrap bytes [5m]))"#,
    ),
    query(
        Logfmt,
        None,
        r#"avg_over_time({app="shop"} | logfmt | unwrap duration(duration) [5m]) by (component)"#,
    ),
    query(
        Logfmt,
        None,
        r#"last_over_time({app="shop"} | logfmt | unwrap bytes [5m]) by (component)"#,
    ),
    query(
        Logfmt,
        None,
        r#"stddev_over_time({app="shop"} | logfmt | unwrap duration(duration) [5m]) by (component)"#,
    ),
    query(
        Access,
        GigabytesPerS(0.4),
        r#"sum(count_over_time({app="shop"} | pattern "<ip> - - <_> \"<method> <path> <_>\" <status> <_>" | status = "500" [1m]))"#,
    ),
    query(
        Access,
        None,
        r#"{app="shop"} | pattern "<ip> - - <_> \"<method> <path> <_>\" <status> <_>" | status = "500""#,
    ),
    query(
        Access,
        None,
        r#"sum by (status) (rate({app="shop"} | pattern "<_> - - <_> \"<_>\" <status> <_>" [1m]))"#,
    ),
    query(Access, None, r#"sum(count_over_time({app="shop"} |~ "\" 5[0-9]{2} [0-9]+ " [1m]))"#),
    query(
        Json,
        GigabytesPerS(0.25),
        r#"quantile_over_time(0.99, {app="shop"} | json | unwrap latency [5m]) by (path)"#,
    ),
    query(
        Json,
        GigabytesPerS(0.15),
        r#"sum(bytes_over_time({app="shop"} | json | line_format "{{.method}} {{.path}} {{.status}}" [1m]))"#,
    ),
    query(
        Logfmt,
        None,
        r#"sum(bytes_over_time({app="shop"} | logfmt | line_format "{{.level | ToUpper}} {{.component}} {{.msg}}" [1m]))"#,
    ),
];
