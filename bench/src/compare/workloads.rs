//! The read workloads: their queries, and the expected answers.

use super::answers::{Expected, Grid};
use super::data::{DataSet, RESETS};
use super::known::{
    JSON_STATUS, JSON_STATUS_FROM, Known, LIMIT, RATE_RANGE_NANOS, RATE_STEP_NANOS, RATE_TEXT,
    RETRIES, Share, TEXT, TEXT_NAMESPACES, THREE, middle,
};
use crate::http::encode_query;
use crate::kubernetes::namespaces_of;
use logsvc_proto::discover::DETECTED_LEVEL;
use logsvc_testkit::Style;
use std::collections::BTreeMap;

/// A query, or a question for labels.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    /// Stable name, for programs.
    pub(crate) name: &'static str,
    /// Its name for people.
    pub(crate) title: &'static str,
    /// The LogQL text, or the name of the label request.
    pub(crate) query: String,
    /// Path and parameters of the request.
    pub(crate) path_and_query: String,
    pub(crate) expected: Expected,
    /// Bytes of the lines in the streams and times that are asked for; none for
    /// questions about labels.
    pub(crate) line_bytes: Option<u64>,
    /// Whether it takes part in the mix of concurrent queries.
    pub(crate) in_mix: bool,
    /// Whether the answer may come from a cache of answers.
    pub(crate) may_be_known: bool,
}

impl Workload {
    /// Headers of the request.
    pub(crate) fn headers(&self) -> &'static str {
        // Otherwise a repetition would measure that nothing is done.
        if self.may_be_known { "" } else { "Cache-Control: no-cache\r\n" }
    }
}

/// Makes workloads for one data set.
struct Maker<'a> {
    prefix: &'a str,
    data: &'a DataSet,
    known: &'a Known,
    out: Vec<Workload>,
}

/// All workloads, in the order of the report. `prefix` is the path in front of the
/// API's endpoints; `alone` says that the server holds nothing else.
pub(crate) fn all(
    prefix: &str,
    job: &str,
    data: &DataSet,
    known: &Known,
    alone: bool,
) -> Vec<Workload> {
    let mut maker = Maker { prefix, data, known, out: Vec::new() };
    let selectors = Selectors::new(job);
    maker.lines(&selectors);
    maker.filtered_counts(&selectors);
    maker.parsed(&selectors);
    maker.over_time(&selectors);
    maker.labels(&selectors, alone);
    maker.out
}

struct Selectors {
    all: String,
    text: String,
    json: String,
    logfmt: String,
    access: String,
}

impl Selectors {
    fn new(job: &str) -> Selectors {
        let job = encode_job(job);
        let of =
            |namespaces: &[&str]| format!("{{job={job}, namespace=~\"{}\"}}", namespaces.join("|"));
        Selectors {
            all: format!("{{job={job}}}"),
            text: of(&TEXT_NAMESPACES),
            json: of(&namespaces_of(Style::Json)),
            logfmt: of(&namespaces_of(Style::Logfmt)),
            access: of(&namespaces_of(Style::Access)),
        }
    }
}

/// A label value in quotes.
fn encode_job(job: &str) -> String {
    format!("\"{}\"", job.replace('\\', "\\\\").replace('"', "\\\""))
}

fn numbers(counts: &BTreeMap<String, u64>) -> BTreeMap<String, f64> {
    counts.iter().map(|(label, count)| (label.clone(), *count as f64)).collect()
}

impl Maker<'_> {
    /// The whole data set as a range in brackets.
    fn range(&self) -> String {
        let span_nanos = self.data.end_nanos - self.data.start_nanos;
        format!("[{}s]", span_nanos / 1_000_000_000)
    }

    fn add(
        &mut self,
        (name, title): (&'static str, &'static str),
        query: String,
        parameters: &str,
        expected: Expected,
        share: Share,
    ) -> &mut Workload {
        let path_and_query = format!("{}/{parameters}&query={}", self.prefix, encode_query(&query));
        let line_bytes = Some(self.known.line_bytes_of.get(&share).copied().unwrap_or(0));
        let workload = Workload {
            name,
            title,
            query,
            path_and_query,
            expected,
            line_bytes,
            in_mix: false,
            may_be_known: false,
        };
        self.out.push(workload);
        let last = self.out.len() - 1;
        &mut self.out[last]
    }

    /// The newest lines, over the whole time.
    fn newest(
        &mut self,
        names: (&'static str, &'static str),
        query: String,
        expected: Expected,
        share: Share,
    ) -> &mut Workload {
        let (start, end) = (self.data.start_nanos, self.data.end_nanos);
        let parameters =
            format!("query_range?start={start}&end={end}&limit={LIMIT}&direction=backward");
        self.add(names, query, &parameters, expected, share)
    }

    /// A metric at the end of the data set.
    fn instant(
        &mut self,
        names: (&'static str, &'static str),
        query: String,
        expected: Expected,
        share: Share,
    ) -> &mut Workload {
        let parameters = format!("query?time={}", self.data.end_nanos);
        self.add(names, query, &parameters, expected, share)
    }

    /// A metric over the last six hours.
    fn stepped(
        &mut self,
        names: (&'static str, &'static str),
        query: String,
        level: &'static str,
        rates: BTreeMap<String, BTreeMap<usize, f64>>,
    ) -> &mut Workload {
        let end_nanos = self.data.end_nanos;
        let start_nanos = end_nanos - RATE_RANGE_NANOS;
        let step_s = RATE_STEP_NANOS / 1_000_000_000;
        let parameters = format!("query_range?start={start_nanos}&end={end_nanos}&step={step_s}");
        let grid = Grid { start_nanos, step_nanos: RATE_STEP_NANOS };
        let expected = Expected::Steps(level, rates, grid);
        self.add(names, query, &parameters, expected, Share::SixHours)
    }

    fn lines(&mut self, selectors: &Selectors) {
        let known = self.known;
        let (all, everything) = (&selectors.all, Share::Everything);
        let lines = |newest: &super::known::Newest| Expected::Lines(newest.clone());
        let query = self.data.selector(self.data.typical_stream());
        let names = ("last-100", "last 100 lines of one stream");
        self.newest(names, query, lines(&known.of_stream), Share::Stream).in_mix = true;
        let query = format!("{} |= \"{TEXT}\"", selectors.text);
        let names = ("last-100-text", "last 100 lines with a common text, 3 of 8 namespaces");
        self.newest(names, query, lines(&known.with_text), Share::Text).in_mix = true;
        let id = self.data.id_needle();
        let query = format!("{all} |= \"{id}\"");
        let names = ("id", "an id with 10 hits, everywhere");
        self.newest(names, query, lines(&known.with_id), everything).in_mix = true;
        let query = format!("{all} |= \"{}\"", middle(&id));
        let names = ("mid-id", "12 characters from the middle of that id");
        self.newest(names, query, lines(&known.with_mid_id), everything).in_mix = true;
        let query = format!("{all} |= \"{}\"", self.data.absent_id());
        let names = ("absent-id", "an id that is nowhere");
        self.newest(names, query, lines(&known.with_absent), everything).in_mix = true;
    }

    fn filtered_counts(&mut self, selectors: &Selectors) {
        let (known, range) = (self.known, self.range());
        let (all, everything) = (&selectors.all, Share::Everything);
        let count = |pipeline: String| format!("sum(count_over_time({pipeline} {range}))");
        let number = |count: u64| Expected::Number(count as f64);
        let query = count(format!("{all} |~ \"(?i){}\"", RESETS[0]));
        let names = ("ignore-case", "count of a text without regard to case");
        self.instant(names, query, number(known.resets), everything);
        let pattern = "(POST|DELETE) /api/v[12]/(orders|carts)/";
        let query = count(format!("{} |~ \"{pattern}\"", selectors.access));
        let names = ("alternation", "count of a regex with alternation, access logs");
        self.instant(names, query, number(known.alternation), Share::Style(Style::Access));
        let [first, second, without] = THREE;
        let query = count(format!("{all} |= \"{first}\" |= \"{second}\" != \"{without}\""));
        let names = ("three-filters", "count behind three line filters");
        self.instant(names, query, number(known.three), everything).in_mix = true;
    }

    fn parsed(&mut self, selectors: &Selectors) {
        let (known, range) = (self.known, self.range());
        let (json, access) = (Share::Style(Style::Json), Share::Style(Style::Access));
        let query = format!("{} | json | status={JSON_STATUS}", selectors.json);
        let names = ("json-rows", "last 100 lines by a JSON field");
        self.newest(names, query, Expected::Lines(known.json_rows.clone()), json);
        let query = format!(
            "sum by (method) (count_over_time({} | json | status>={JSON_STATUS_FROM} {range}))",
            selectors.json
        );
        let names = ("json-count", "count by one JSON field, filtered by another");
        let expected = Expected::ByLabels(vec!["method"], numbers(&known.json_by_method));
        self.instant(names, query, expected, json);
        let query = format!(
            "sum(count_over_time({} | logfmt | retries>={RETRIES} {range}))",
            selectors.logfmt
        );
        let names = ("logfmt-count", "count by a number in logfmt");
        let expected = Expected::Number(known.logfmt_retries as f64);
        self.instant(names, query, expected, Share::Style(Style::Logfmt));
        let query = format!(
            "sum by (status) (count_over_time({} | pattern `<_>] \"<method> <_> <_>\" <status> <_>` {range}))",
            selectors.access
        );
        let names = ("pattern-count", "count by status, parsed by a pattern");
        let expected = Expected::ByLabels(vec!["status"], numbers(&known.by_status));
        self.instant(names, query, expected, access);
        let query = format!(
            "topk(10, sum by (version, path) (count_over_time({} | pattern `<_> /api/<version>/<path>/<_>` {range})))",
            selectors.access
        );
        let names = ("topk-path", "topk(10) of a sum by path, parsed by a pattern");
        let mut counts: Vec<f64> = known.by_route.values().map(|count| *count as f64).collect();
        counts.sort_by(|a, b| b.total_cmp(a));
        counts.truncate(10);
        self.instant(names, query, Expected::Top(counts), access);
        let query = format!(
            "quantile_over_time(0.99, {} | logfmt | unwrap duration(duration) {range}) by (namespace)",
            selectors.logfmt
        );
        let names = ("quantile", "quantile_over_time of a duration in logfmt");
        let expected = Expected::ByLabels(vec!["namespace"], known.duration_quantiles(0.99));
        self.instant(names, query, expected, Share::Style(Style::Logfmt));
    }

    fn over_time(&mut self, selectors: &Selectors) {
        let (known, range, all) = (self.known, self.range(), &selectors.all);
        let names = ("rate", "rate by level over six hours, window 5m, step 1m");
        let level = self.data.level_name();
        let query = format!("sum by ({level}) (rate({all} [5m]))");
        self.stepped(names, query, level, known.rates.rates()).in_mix = true;
        let query = format!("sum by ({level}) (rate({all} |= \"{RATE_TEXT}\" [5m]))");
        let names = ("rate-text", "the same with a line filter");
        self.stepped(names, query.clone(), level, known.filtered_rates.rates()).in_mix = true;
        let names = ("rate-text-again", "the same again, as a dashboard asks");
        self.stepped(names, query, level, known.filtered_rates.rates()).may_be_known = true;
        let query = format!("sum by ({DETECTED_LEVEL}) (rate({all} [5m]))");
        let names = ("rate-detected", "rate by detected level, as a histogram asks");
        self.stepped(names, query, DETECTED_LEVEL, known.rates.rates());
        let query = format!("sum(count_over_time({all} {range}))");
        let names = ("count-all", "count of everything");
        let expected = Expected::Number(known.lines as f64);
        self.instant(names, query, expected, Share::Everything).in_mix = true;
        let query = format!("sum by (namespace) (bytes_over_time({all} {range}))");
        let names = ("bytes", "bytes by namespace");
        let expected = Expected::ByLabels(vec!["namespace"], numbers(&known.bytes_by_namespace));
        self.instant(names, query, expected, Share::Everything).in_mix = true;
        if let Some(trace_id) = self.data.trace_needle() {
            let query = format!("{all} | trace_id=\"{trace_id}\"");
            let names = ("metadata", "structured metadata equal to a trace id");
            let expected = Expected::Lines(known.traced.clone());
            self.newest(names, query, expected, Share::Everything).in_mix = true;
        }
    }

    fn labels(&mut self, selectors: &Selectors, alone: bool) {
        let times = format!("start={}&end={}", self.data.start_nanos, self.data.end_nanos);
        self.out.push(Workload {
            name: "label-values",
            title: "values of a label",
            query: "values of pod".to_owned(),
            path_and_query: format!("{}/label/pod/values?{times}", self.prefix),
            expected: Expected::Texts(self.known.pods.clone(), alone),
            line_bytes: None,
            in_mix: true,
            may_be_known: false,
        });
        let matcher = encode_query(&selectors.all);
        self.out.push(Workload {
            name: "series",
            title: "series of all streams",
            query: format!("series of {}", selectors.all),
            path_and_query: format!("{}/series?{times}&match[]={matcher}", self.prefix),
            expected: Expected::Length(self.known.streams.len()),
            line_bytes: None,
            in_mix: false,
            may_be_known: false,
        });
    }
}
