//! Random queries, asked of a node and of the model.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use logsvc_logql::engine::testing::{QueryError, TestStore};
use logsvc_logql::engine::{
    CompiledMatcher, Direction, EvalError, MergeState, Plan, QueryParams, QueryResult,
};
use logsvc_logql::syntax;
use logsvc_proto::{Labels, TenantId};
use logsvc_runtime::{Account, CoreId};
use logsvc_shards::deletion::DeletionVersion;
use logsvc_shards::messages::{ShardReply, ShardRequest, StreamSelection};
use logsvc_shards::scan::LeafRequest;
use logsvc_shards::types::{Cancellation, ScanStats, TimeRange};
use logsvc_testkit::Rng;

use crate::cluster::Cluster;
use crate::data::{SECOND_NS, address, needle, trace};
use crate::naive::Model;

/// A query and when it is asked.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) text: String,
    pub(crate) params: QueryParams,
}

/// An answer with every bit of its numbers, or its error.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Result(String),
    Error(String),
    /// Entries with errors; which of their series is named is left open.
    EntryError,
}

impl Answer {
    pub(crate) fn of(result: Result<QueryResult, EvalError>) -> Answer {
        match result {
            // Numbers are printed so that they read back, and zeros with their sign.
            Ok(result) => Answer::Result(format!("{result:?}")),
            Err(EvalError::Pipeline { .. }) => Answer::EntryError,
            Err(error) => Answer::Error(error.to_string()),
        }
    }

    pub(crate) fn of_model(store: &TestStore, query: &Query) -> Answer {
        match store.query(&query.text, &query.params) {
            Ok(result) => Answer::of(Ok(result)),
            Err(QueryError::Eval(error)) => Answer::of(Err(error)),
            Err(error) => panic!("{query:?}: {error}"),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Answer::Result(text) if text.ends_with("([])"))
    }
}

/// The answer of a node from which nothing is hidden, and its cost.
pub(crate) fn ask(
    cluster: &Cluster<'_>,
    tenant: &TenantId,
    query: &Query,
) -> (Result<QueryResult, EvalError>, ScanStats) {
    ask_at(cluster, tenant, query, DeletionVersion::NONE)
}

/// The answer of a node from which the requests for deletion of a version hide entries, and its
/// cost.
pub(crate) fn ask_at(
    cluster: &Cluster<'_>,
    tenant: &TenantId,
    query: &Query,
    deletions: DeletionVersion,
) -> (Result<QueryResult, EvalError>, ScanStats) {
    let expr = syntax::parse(&query.text).unwrap_or_else(|error| panic!("{query:?}: {error}"));
    let plan = Plan::new(&expr, &query.params);
    let plan = plan.unwrap_or_else(|error| panic!("{query:?}: {error}"));
    ask_plan(cluster, tenant, &plan, deletions)
}

/// The same of a plan.
pub(crate) fn ask_plan(
    cluster: &Cluster<'_>,
    tenant: &TenantId,
    plan: &Plan,
    deletions: DeletionVersion,
) -> (Result<QueryResult, EvalError>, ScanStats) {
    let mut merge = MergeState::new(plan);
    let mut stats = ScanStats::default();
    for leaf in plan.leaves() {
        let leaf = LeafRequest {
            tenants: tenant.clone().into(),
            plan: Arc::new(leaf.clone()),
            deletions,
            cancellation: Cancellation::default(),
            account: Account::alone(1 << 30),
            entries_each: None,
        };
        let mut take = |reply| {
            let ShardReply::Leaf(Ok(reply)) = reply else { panic!("{plan:?}: {reply:?}") };
            stats.add(&reply.stats);
            merge.add(reply.result);
            reply.rest
        };
        let replies = ask_all(cluster, || ShardRequest::Leaf(leaf.clone()));
        let rests: Vec<_> = replies.into_iter().filter_map(&mut take).collect();
        for rest in rests {
            let mut jobs = rest.divide(cluster.shards).into_iter();
            let share = || ShardRequest::Share(Box::new(jobs.next().expect("one per shard")));
            for reply in ask_all(cluster, share) {
                assert!(take(reply).is_none(), "a share is not divided again");
            }
        }
    }
    (merge.finish(), stats)
}

pub(crate) fn ask_all(
    cluster: &Cluster<'_>,
    mut request: impl FnMut() -> ShardRequest,
) -> Vec<ShardReply> {
    let caller = cluster.caller(0);
    let send = |shard| caller.call(CoreId(shard), request()).expect("the lanes have room");
    let replies: Vec<_> = (0..cluster.shards).map(send).collect();
    cluster.run(async move {
        let mut answers = Vec::new();
        for reply in replies {
            answers.push(reply.await.expect("an answer"));
        }
        answers
    })
}

/// Sums over all queries of a test, to tell that it is about something.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) queries: u64,
    pub(crate) empty: u64,
    pub(crate) holes: u64,
    pub(crate) stats: ScanStats,
}

/// Asks a node and the model, and compares. An answer may differ only if it says
/// that something could not be read.
pub(crate) fn compare(
    cluster: &Cluster<'_>,
    tenant: &TenantId,
    store: &TestStore,
    query: &Query,
    tally: &mut Tally,
) {
    let (result, stats) = ask(cluster, tenant, query);
    tally.queries += 1;
    tally.stats.add(&stats);
    if stats.unreadable_parts > 0 {
        tally.holes += 1;
        return;
    }
    let answer = Answer::of(result);
    let expected = Answer::of_model(store, query);
    tally.empty += u64::from(answer.is_empty());
    assert!(
        answer == expected,
        "{} shards, tenant {tenant}, {query:?}\n{stats:?}\nexpected {expected:?}\n   found {answer:?}",
        cluster.shards
    );
}

/// Makes random queries over entries between two times.
pub(crate) struct QueryWriter<'r> {
    pub(crate) rng: &'r mut Rng,
    pub(crate) bounds_ns: (i64, i64),
    /// How many numbers of [`needle`] are in use.
    pub(crate) numbers: u64,
}

const SELECTORS: [&str; 9] = [
    r#"{app="m"}"#,
    r#"{app="m"}"#,
    r#"{env="prod"}"#,
    r#"{env!="prod", app=~"m|n"}"#,
    r#"{s="0"}"#,
    r#"{s=~"1|2|4"}"#,
    r#"{app="m", s!~"1.*"}"#,
    r#"{app="m", nothing=""}"#,
    r#"{app="nobody"}"#,
];

const PARSED: [&str; 15] = [
    r#"| env = "prod""#,
    "| json",
    "| logfmt",
    "| json | status >= 404",
    r#"| logfmt | level="error""#,
    r#"| json | level="error""#,
    "| logfmt | took > 20ms",
    r#"| json status, id="id" | status = "500""#,
    r#"| regexp `(?P<verb>[A-Z]+) (?P<path>/\w+)`"#,
    r#"| pattern "<verb> <path> <code>" | code = "200""#,
    r#"| line_format "{{.level}} {{.trace_id}} {{__line__}}""#,
    r#"| label_format severity=level"#,
    r#"| json | drop level, __error__"#,
    r#"| logfmt | keep app, s, status"#,
    r#"| json | __error__ = """#,
];

impl QueryWriter<'_> {
    fn pick(&mut self, pieces: &[&'static str]) -> &'static str {
        self.rng.pick::<&str>(pieces)
    }

    /// A text to look for: in lines or not, whole words or not.
    fn text(&mut self) -> String {
        let known = needle(self.rng.below(self.numbers.max(1)));
        match self.rng.below(10) {
            0 => "error".to_owned(),
            1 => "ERROR".to_owned(),
            2 => self.pick(&["rder", "shipped", "imeout", "GET /c", "\":", "00"]).to_owned(),
            // Of times in lines, within them and beyond.
            9 => self.pick(&["T22:0", ":0", "at=2026-0", "2-", "1.5", "5Z msg"]).to_owned(),
            3 => needle(self.numbers + self.rng.below(1000)),
            4 => known[3..12].to_owned(),
            5 => format!("id={known}"),
            6 => format!("{} Shipped", self.rng.below(self.numbers.max(1))),
            _ => known,
        }
    }

    fn line_filter(&mut self) -> String {
        let text = self.text().replace('"', "\\\"");
        match self.rng.below(10) {
            0 | 1 => format!(r#"!= "{text}""#),
            7 => format!(r#"|~ "(?i){text}""#),
            2 => format!(r#"|~ "{text}.*o""#),
            3 => format!(r#"!~ "{text}|info""#),
            4 => format!(r#"|= "{text}" or "{}""#, needle(self.rng.below(self.numbers + 1))),
            8 => {
                let address = address(self.rng.below(self.numbers.max(1)));
                let prefix = self.pick(&["", "/31", "/24", "/16", "/3"]);
                format!(r#"|= ip("{address}{prefix}")"#)
            }
            _ => format!(r#"|= "{text}""#),
        }
    }

    fn metadata_filter(&mut self) -> String {
        let value = match self.rng.below(4) {
            0 => "absent".to_owned(),
            _ => trace(self.rng.below(40)),
        };
        match self.rng.below(7) {
            0 => format!(r#"| trace_id != "{value}""#),
            1 => format!(r#"| trace_id =~ "{}.*""#, &value[..4]),
            2 => r#"| level = "error""#.to_owned(),
            3 => format!(r#"| trace_id = "{value}" or level = "warn""#),
            4 => r#"| trace_id = """#.to_owned(),
            _ => format!(r#"| trace_id = "{value}""#),
        }
    }

    pub(crate) fn log(&mut self) -> String {
        let mut query = self.pick(&SELECTORS).to_owned();
        for _ in 0..self.rng.below(3) {
            let stage = match self.rng.below(6) {
                0 => self.metadata_filter(),
                1 | 2 => self.pick(&PARSED).to_owned(),
                _ => self.line_filter(),
            };
            query += " ";
            query += &stage;
        }
        query
    }

    fn range_text(&mut self) -> String {
        let span_s = ((self.bounds_ns.1 - self.bounds_ns.0) / SECOND_NS).max(1) as u64;
        match self.rng.below(4) {
            0 => "[1s]".to_owned(),
            1 => "[5m]".to_owned(),
            2 => format!("[{span_s}s]"),
            _ => format!("[{}s]", self.rng.between(1, span_s)),
        }
    }

    pub(crate) fn metric(&mut self) -> String {
        let range = self.range_text();
        let offset = if self.rng.one_in(5) { " offset 1m" } else { "" };
        let grouping =
            self.pick(&["by (env)", "by (trace_id)", "by (level)", "by ()", "without (s)"]);
        if self.rng.one_in(4) {
            let function = self.pick(&[
                "sum_over_time",
                "max_over_time",
                "first_over_time",
                "avg_over_time",
                "last_over_time",
                "stddev_over_time",
            ]);
            let unwrap = self.pick(&[
                r#"| json | unwrap took | __error__="""#,
                r#"| logfmt | unwrap duration(took) | __error__="""#,
                r#"| json | unwrap status | __error__="""#,
            ]);
            let log = self.pick(&SELECTORS);
            return format!("sum by (env, level) ({function}({log} {unwrap}{range}{offset}))");
        }
        let function = self.pick(&[
            "count_over_time",
            "count_over_time",
            "bytes_over_time",
            "rate",
            "bytes_rate",
            "absent_over_time",
        ]);
        // Half of them can be answered by directories alone.
        let log = if self.rng.one_in(2) { self.pick(&SELECTORS).to_owned() } else { self.log() };
        let inner = format!("{function}({log}{range}{offset})");
        match self.rng.below(5) {
            0 => inner,
            1 => format!("topk(2, {inner})"),
            _ => format!("sum {grouping} ({inner})"),
        }
    }

    /// A range of time, in which there mostly are entries.
    pub(crate) fn times_ns(&mut self) -> (i64, i64) {
        let (first, last) = self.bounds_ns;
        let span = (last - first).max(1) as u64;
        let mut times = [0; 2].map(|_: i64| first + self.rng.below(span + 1) as i64);
        times.sort_unstable();
        match self.rng.below(6) {
            0..3 => (first, last + 1),
            3 => (first - 1, times[1]),
            4 => (times[0], last + SECOND_NS),
            _ => (times[0], times[1]),
        }
    }

    pub(crate) fn query(&mut self) -> Query {
        let (start_ns, end_ns) = self.times_ns();
        let is_log = self.rng.one_in(2);
        let text = if is_log { self.log() } else { self.metric() };
        let mut params = if !is_log && self.rng.one_in(2) {
            QueryParams::instant(end_ns)
        } else {
            let steps = self.rng.between(1, 12) as i64;
            QueryParams::range(start_ns, end_ns, ((end_ns - start_ns) / steps).max(1))
        };
        params.limit = *self.rng.pick(&[1, 3, 20, 100, 5_000]);
        params.limits.max_series = 5_000;
        if self.rng.one_in(2) {
            params.direction = Direction::Forward;
        }
        params.categorize_labels = self.rng.one_in(2);
        Query { text, params }
    }
}

/// The selection of a selector and a range of time.
fn selection(writer: &mut QueryWriter<'_>, tenant: &TenantId) -> StreamSelection {
    let group = |text: &str| -> Vec<CompiledMatcher> {
        let selector = syntax::parse_selector(text).expect("a selector");
        selector.matchers.iter().map(|m| CompiledMatcher::new(m).expect("a matcher")).collect()
    };
    let groups = (0..writer.rng.below(3)).map(|_| group(writer.pick(&SELECTORS))).collect();
    let (start_ns, end_ns) = writer.times_ns();
    let range = TimeRange { start_ns, end_ns };
    StreamSelection {
        tenants: tenant.clone().into(),
        matcher_groups: groups,
        range,
        account: Account::alone(1 << 30),
        cancellation: Cancellation::default(),
    }
}

fn matches(selection: &StreamSelection, labels: &Labels) -> bool {
    let groups = &selection.matcher_groups;
    let holds = |m: &CompiledMatcher| m.matches(labels.get(m.name()).unwrap_or(""));
    groups.is_empty() || groups.iter().any(|group| group.iter().all(holds))
}

/// Compares names and values of labels, and series. Streams with entries in the range
/// must be there, streams whose first and last entry lie on one side of it must not.
pub(crate) fn compare_labels(
    cluster: &Cluster<'_>,
    tenant: &TenantId,
    model: &Model,
    writer: &mut QueryWriter<'_>,
) {
    compare_some_labels(cluster, tenant, model, writer, true);
}

/// The same. If the times of streams need not be exact, any stream may be there.
pub(crate) fn compare_some_labels(
    cluster: &Cluster<'_>,
    tenant: &TenantId,
    model: &Model,
    writer: &mut QueryWriter<'_>,
    are_exact: bool,
) {
    let selection = selection(writer, tenant);
    let range = selection.range;
    let (mut must, mut may) = (BTreeSet::new(), BTreeSet::new());
    for stream in model.of(tenant).filter(|s| matches(&selection, &s.definition.labels)) {
        let text = stream.definition.labels.canonical();
        let times = || stream.entries().map(|entry| entry.timestamp_ns);
        if times().any(|ts| range.start_ns <= ts && ts < range.end_ns) {
            must.insert(text.clone());
        }
        if !are_exact || stream.bounds_ns().is_some_and(|bounds| range.overlaps(bounds)) {
            may.insert(text);
        }
    }
    let unreadable = Cell::new(0);
    let series = || -> BTreeMap<String, Arc<Labels>> {
        let mut series = Vec::new();
        for reply in ask_all(cluster, || ShardRequest::Series(selection.clone())) {
            let ShardReply::Series(labels, parts) = reply else { panic!("{reply:?}") };
            series.extend(labels);
            unreadable.set(unreadable.get() + parts);
        }
        let count = series.len();
        let by_text: BTreeMap<_, _> =
            series.into_iter().map(|labels| (labels.canonical(), labels)).collect();
        assert_eq!(by_text.len(), count, "a series is shown twice");
        by_text
    };
    let before = series();
    let shown: BTreeSet<String> = before.keys().cloned().collect();
    let lacks_some = unreadable.get() > 0;
    assert!(lacks_some || must.is_subset(&shown), "{selection:?}: {shown:?} lacks of {must:?}");
    assert!(shown.is_subset(&may), "{selection:?}: {shown:?} is more than {may:?}");
    // The rest follows from the same streams.
    let texts = |request: &dyn Fn() -> ShardRequest| -> BTreeSet<String> {
        let replies = ask_all(cluster, request).into_iter();
        let texts = replies.flat_map(|reply| match reply {
            ShardReply::Texts(texts, parts) => {
                unreadable.set(unreadable.get() + parts);
                texts
            }
            other => panic!("{other:?}"),
        });
        texts.map(String::from).collect()
    };
    let names = texts(&|| ShardRequest::LabelNames(selection.clone()));
    let asked = ["s", "env", "nothing"];
    let values =
        asked.map(|name| texts(&|| ShardRequest::LabelValues(selection.clone(), name.into())));
    // Two segments of a stream may have been merged meanwhile, and a range between them
    // then lies within one.
    let after = series();
    if unreadable.get() > 0 {
        return;
    }
    let check = |answer: BTreeSet<String>, what: &str, of: &dyn Fn(&Labels) -> Vec<String>| {
        let all = |series: &BTreeMap<String, Arc<Labels>>| -> BTreeSet<String> {
            series.values().flat_map(|labels| of(labels)).collect()
        };
        let (before, after) = (all(&before), all(&after));
        let least: BTreeSet<String> = before.intersection(&after).cloned().collect();
        let most: BTreeSet<String> = before.union(&after).cloned().collect();
        assert!(least.is_subset(&answer), "{what} of {selection:?}: {answer:?} lacks of {least:?}");
        assert!(answer.is_subset(&most), "{what} of {selection:?}: {answer:?} exceeds {most:?}");
    };
    check(names, "names", &|labels| labels.iter().map(|(name, _)| name.to_owned()).collect());
    for (name, values) in asked.into_iter().zip(values) {
        check(values, name, &|labels| labels.get(name).map(str::to_owned).into_iter().collect());
    }
}
