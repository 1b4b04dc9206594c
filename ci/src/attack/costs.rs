//! The most that one query may cost other clients: every stage, function and aggregation, as
//! expensive as its limits allow, two at a time, beside `/ready` and pushes.
//!
//! Guarantee: the check ends within [`LIMIT`]. It fails if a query does not end within a second
//! of its time, if `/ready` is late, or if pushes take far longer than without queries.

use super::hostile;
use super::http::{Request, query_form, send};
use super::monitor::{Monitor, percentile};
use super::{Target, milliseconds};
use anyhow::Result;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Memory of the server.
const CEILING_MB: u64 = 512;

/// Lines that each query looks at.
const LINES: usize = 60_000;

/// The server ends queries after this time, and may take a second for that. The rest is for a
/// machine with other load.
const QUERY_TIMEOUT_ARGUMENT: &str = "--limits.query-timeout=1s";
const QUERY_LIMIT: Duration = Duration::from_millis(2500);

/// Queries under way at a time.
const AT_ONCE: usize = 2;

/// How long pushes and `/ready` are measured without queries.
const IDLE_FOR: Duration = Duration::from_secs(2);

/// Longest time of the check. It ends then, also with queries left.
const LIMIT: Duration = Duration::from_secs(60);

/// The most that `/ready` may take, but for a hundredth. A machine to itself has 20 ms.
const READY_P99_LIMIT: Duration = Duration::from_millis(60);

/// The longest time of a push, except for a hundredth of all pushes: so many times its time on an
/// idle server, and at least so long. A machine to itself has three times as long.
const PUSH_P99_FACTOR: u32 = 5;
const PUSH_P99_FLOOR: Duration = Duration::from_millis(60);

/// Sends all queries; returns the faults.
pub(super) fn check(binary: &Path) -> Result<Vec<String>> {
    let target = Target::start(binary, CEILING_MB, &[QUERY_TIMEOUT_ARGUMENT])?;
    let watched = target.watched(CEILING_MB, LIMIT + IDLE_FOR);
    hostile::load(target.port, LINES)?;
    let monitor = Monitor::start(watched);
    std::thread::sleep(IDLE_FOR);
    let idle = monitor.finish();
    let queries = queries();
    let (next, slow) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let end = Instant::now() + LIMIT;
    let monitor = Monitor::start(watched);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while Instant::now() < end
                    && let Some(query) = queries.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    if let Some(why) = ask(target.port, query, end) {
                        slow.lock().expect("nobody panics").push(why);
                    }
                }
            });
        }
    });
    let seen = monitor.finish();
    let asked = next.load(Ordering::Relaxed).min(queries.len());
    let (ready, idle_ready) = (percentile(&seen.ready, 0.99), percentile(&idle.ready, 0.99));
    let (push, idle_push) = (percentile(&seen.pushes, 0.99), percentile(&idle.pushes, 0.99));
    println!(
        "costs: {asked} of {} queries; p99 of /ready {} ms (idle {}), of pushes {} (idle {}); \
         peak {} MB",
        queries.len(),
        milliseconds(ready),
        milliseconds(idle_ready),
        milliseconds(push),
        milliseconds(idle_push),
        seen.peak_bytes / 1_000_000,
    );
    let mut failures = slow.into_inner().expect("nobody panics");
    if asked < queries.len() {
        failures.push(format!("costs: only {asked} of {} queries were asked", queries.len()));
    }
    if ready > READY_P99_LIMIT || seen.ready.is_empty() {
        failures.push(format!("costs: /ready has a p99 of {} ms", milliseconds(ready)));
    }
    if push > PUSH_P99_FLOOR.max(idle_push * PUSH_P99_FACTOR) || seen.pushes.is_empty() {
        failures.push(format!("costs: pushes have a p99 of {} ms", milliseconds(push)));
    }
    if let Some(first) = seen.first_refusal {
        failures.push(format!("costs: {} of /ready and of pushes failed: {first}", seen.refused));
    }
    failures.extend(seen.ended);
    Ok(failures)
}

/// Sends one query; returns the fault of its answer.
fn ask(port: u16, query: &str, end: Instant) -> Option<String> {
    let form = query_form(&query.replace("SELECTOR", r#"{job="load"}"#));
    let within = end.saturating_duration_since(Instant::now()).max(QUERY_LIMIT);
    let answer = match send(port, &Request::query(&form), within) {
        Ok(answer) => answer,
        Err(error) => return Some(format!("costs: {}: {error:#}", short(query))),
    };
    // A query that does not parse costs nothing, so the check would prove nothing.
    let is_refused = answer.status == 400 && answer.text.starts_with("parse error");
    if is_refused || answer.took > QUERY_LIMIT {
        let took = milliseconds(answer.took);
        let text = format!("{} after {took} ms: {}", answer.status, answer.text.trim());
        return Some(format!("costs: {}: {}", short(query), short(&text)));
    }
    None
}

fn short(text: &str) -> String {
    text.chars().take(120).collect()
}

/// Everything that costs something, once.
fn queries() -> Vec<String> {
    let mut queries = Vec::new();
    let mut stage = |stage: &str| queries.push(format!("SELECTOR | {stage}"));
    // Templates: functions that make long texts, and that look at long ones.
    let long = "(repeat 100000 `ab`)";
    for text in [
        "repeat 1000000000 `a`".to_owned(),
        "alignLeft 1000000000 `a`".to_owned(),
        "alignRight 1000000000 `a`".to_owned(),
        "indent 1000000 __line__".to_owned(),
        "nindent 1000000 __line__".to_owned(),
        "printf `%1000000s` __line__".to_owned(),
        "printf `%.1000000f` 1.5".to_owned(),
        "urlencode (repeat 1000000 `%`)".to_owned(),
        "b64enc (repeat 1000000 `a`)".to_owned(),
        "replace `` `xxxxxxxxxxxxxxxx` (repeat 100000 `a`)".to_owned(),
        "regexReplaceAll `(.*)` __line__ `$1$1$1$1$1$1$1$1`".to_owned(),
        format!("regexReplaceAll `(a|ab)(c|bcd)*$` {long} `$1`"),
        format!("regexReplaceAllLiteral `a*b?a{{1,50}}c` {long} `x`"),
        format!("count `(a?){{30}}b` {long}"),
        format!("title {long}"),
        format!("ToUpper {long}"),
        format!("html {long}"),
        format!("js {long}"),
        format!("urlquery {long}"),
        format!("fromJson {long}"),
        "fromJson (repeat 60 `[`)".to_owned(),
        "addf 1e300 1e-300 1e300".to_owned(),
        "mulf 1e300 1e300 1e300 1e300".to_owned(),
        "divf 1 3e-300".to_owned(),
        "date `2006-01-02T15:04:05.000000000Z07:00` now".to_owned(),
        "toDateInZone `2006-01-02` `Europe/Berlin` `2024-01-02`".to_owned(),
        format!("substr 1 100000 {long}"),
        format!("trunc -100000 {long}"),
        format!("contains `{}b` {long}", "a".repeat(1000)),
    ] {
        stage(&format!("line_format \"{{{{ {} }}}}\"", text.replace('"', "\\\"")));
        stage(&format!("label_format x=\"{{{{ {} }}}}\"", text.replace('"', "\\\"")));
    }
    let range = "{{ range $i, $x := fromJson (printf `[%s1]` (repeat 100000 `1,`)) }}a{{ end }}";
    stage(&format!("line_format \"{range}\""));
    // Parsers, filters and other stages, also behind lines that were made long.
    let behind = |what: &str| format!("line_format `{{{{ repeat 3000 __line__ }}}}` | {what}");
    for what in [
        "json",
        "logfmt",
        "logfmt --strict",
        "unpack",
        "pattern `<a> <b> <c> <d>`",
        "regexp `(?P<a>(a|ab)*(c|bcd)*)x(?P<b>.*)`",
        "regexp `(?P<a>.*)(?P<b>.*)(?P<c>.*)$`",
        "decolorize",
        "logfmt | n > 5 or n < 3 or id=~`.*1.*2.*`",
        "logfmt | msg = ip(`10.0.0.0/7`)",
        "logfmt | drop a,b,c | keep id, n",
        "logfmt | label_format a=id, b=n, c=msg",
        "json a=`a.b.c[0].d`, b=`e[\"f\"]`",
    ] {
        stage(what);
        stage(&behind(what));
    }
    let doubled = " | line_format \"{{__line__}}{{__line__}}\"".repeat(30);
    for filter in [
        "|~ `(a?){30}b`",
        "|~ `(?i)w{1,100}x`",
        "!~ `.*a.*b.*c.*d.*e$`",
        "|> `<_>a<_>b<_>c<_>d`",
        "|= ip(`10.0.0.0/7`)",
    ] {
        queries.push(format!("SELECTOR {filter}"));
        queries.push(format!("SELECTOR | line_format `{{{{ repeat 3000 __line__ }}}}` {filter}"));
    }
    queries.push(format!("SELECTOR {}", " |~ \"a{9}b\"".repeat(9_000)));
    queries.push(format!("SELECTOR {doubled}"));
    // Range functions, with as many windows over each entry as there may be.
    for function in [
        "count_over_time(SELECTOR[1h])",
        "rate(SELECTOR | logfmt [1h])",
        "bytes_rate(SELECTOR[1h])",
        "absent_over_time(SELECTOR[1h])",
        "sum_over_time(SELECTOR | logfmt | unwrap n [1h])",
        "avg_over_time(SELECTOR | logfmt | unwrap n [1h]) by (id)",
        "stddev_over_time(SELECTOR | logfmt | unwrap n [1h]) by (job)",
        "stdvar_over_time(SELECTOR | logfmt | unwrap n [1h]) by (n)",
        "max_over_time(SELECTOR | logfmt | unwrap n [1h]) by (msg)",
        "min_over_time(SELECTOR | logfmt | unwrap n [1h])",
        "first_over_time(SELECTOR | logfmt | unwrap n [1h]) by (id)",
        "last_over_time(SELECTOR | logfmt | unwrap n [1h]) by (id)",
        "rate_counter(SELECTOR | logfmt | unwrap n [1h])",
        "quantile_over_time(0.5, SELECTOR | logfmt | unwrap n [1h]) by (job)",
        "quantile_over_time(0.99, SELECTOR | logfmt | unwrap n [1h]) by (id)",
    ] {
        queries.push(function.to_owned());
    }
    // Aggregations and operations over as many series as there are.
    let each = "count_over_time(SELECTOR | logfmt [1h])";
    for function in ["sum", "avg", "min", "max", "count", "stddev", "stdvar", "sort", "sort_desc"] {
        queries.push(format!("{function}({each})"));
    }
    for function in ["topk(10, ", "bottomk(10, "] {
        queries.push(format!("{function}{each})"));
    }
    queries.push(format!("topk by (n) (10, {each})"));
    queries.push(format!("sum by (id, n, msg) ({each})"));
    for operator in ["+", "/", "%", "^", "> bool", "and", "or", "unless"] {
        queries.push(format!("topk(10, {each}) {operator} on (id) group_left () {each}").replace(
            if matches!(operator, "and" | "or" | "unless") { " group_left ()" } else { "\0" },
            "",
        ));
    }
    let widened = "$1".repeat(20_000);
    queries.push(format!("label_replace(topk(10, {each}), `x`, `{widened}`, `msg`, `(.*)`)"));
    queries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_query_is_asked_once_and_about_the_lines() {
        let mut all = queries();
        assert!(all.iter().all(|query| query.contains("SELECTOR") && query.len() < 131_000));
        all.sort_unstable();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
