//! For fuzzing: every parser over arbitrary lines.

use logsvc_proto::Labels;

use super::{Columns, Layout, QueryError, SECOND_NS, TestEntry, TestStore};
use crate::engine::{EvalError, LeafExecutor, Plan, QueryParams, QueryResult, StreamState};
use crate::syntax;

/// Pipelines that read lines in every way the language has.
pub const LINE_PIPELINES: [&str; 14] = [
    "| json",
    r#"| json a, b="o.a[1].b", c="l[0]", o, a="b""#,
    "| logfmt",
    "| logfmt --strict --keep-empty",
    r#"| logfmt --strict a, b="c", app"#,
    "| pattern `<a> <_>=<b>\"<c>`",
    r#"| regexp `(?P<a>\w+)[=:](?P<b>"?[^" ]*)(?P<app>!)?`"#,
    r#"| unpack |= "a" | json"#,
    r#"| unpack | logfmt | label_format b=a, n=app_extracted | keep b, n, app=~"m|n""#,
    r#"| decolorize | logfmt | drop a, b=~".*x", app"#,
    r#"| json | logfmt | a > 5 or b >= 3s and c < 10KB or a =~ "x.*" | __error__!="LogfmtParserErr""#,
    r#"| json a="o" | logfmt | a = ip("10.0.0.0/8") or b != ip("::1")"#,
    r#"| logfmt | json | drop __error__, __error_details__"#,
    r#"| json | label_format app=a | logfmt | keep app, a, b"#,
];

/// Reads lines, separated by line feeds, with every pipeline. The answers of one
/// shard and of several must agree. So must the answers with a few extracted labels
/// and with all labels. Returns the number of labels of all log entries.
///
/// # Panics
/// When answers disagree.
#[must_use]
pub fn check_lines(data: &[u8]) -> usize {
    let store = store_of(data);
    LINE_PIPELINES.iter().map(|pipeline| check_pipeline(&store, pipeline)).sum()
}

/// Feeds lines, separated by line feeds, to an executor that lives as long as the
/// value does, so that a fuzzer spends its time on lines and not on compiling
/// queries. The first byte chooses the pipeline.
#[derive(Debug)]
pub struct LineFeeder {
    /// A log query and a metric query per pipeline.
    executors: Vec<(LeafExecutor, StreamState)>,
    fed: u64,
}

/// Executors drop the label sets that they keep after so many inputs.
const FEEDER_INPUTS_MAX: u64 = 2_000;

impl Default for LineFeeder {
    fn default() -> Self {
        let labels = Labels::from_pairs([("app", "m"), ("b_extracted", "s")]).expect("valid names");
        let mut executors = Vec::new();
        for pipeline in LINE_PIPELINES {
            let log = format!("{{app=\"m\"}} {pipeline}");
            let metric = format!("sum by (a)(rate({log} [60s]))");
            let range = QueryParams::range(0, 60 * SECOND_NS, SECOND_NS);
            let instant = QueryParams::instant(60 * SECOND_NS);
            for (query, params) in [(log, range), (metric, instant)] {
                let expr = syntax::parse(&query).expect("the pipelines parse");
                let plan = Plan::new(&expr, &params).expect("and have plans");
                let mut executor = LeafExecutor::new(&plan.leaves()[0]).expect("and compile");
                let state = executor.stream(&labels);
                executors.push((executor, state));
            }
        }
        Self { executors, fed: 0 }
    }
}

impl LineFeeder {
    /// Feeds some lines. Returns how many entries the pipeline has kept.
    pub fn feed(&mut self, data: &[u8]) -> u64 {
        let Some((choice, lines)) = data.split_first() else { return 0 };
        if self.fed >= FEEDER_INPUTS_MAX {
            *self = Self::default();
        }
        self.fed += 1;
        let entry = |(second, line): (i64, &[u8])| {
            let metadata = match second % 3 {
                0 => vec![("c".to_owned(), "7".to_owned())],
                _ => Vec::new(),
            };
            TestEntry { timestamp_ns: second * SECOND_NS, line: line.into(), metadata }
        };
        let entries: Vec<_> = (1..).zip(lines.split(|b| *b == b'\n').take(50)).map(entry).collect();
        let columns = Columns::new(&entries, false);
        let at = usize::from(*choice) % self.executors.len();
        let (executor, state) = &mut self.executors[at];
        let before = executor.stats().entries_kept;
        executor.block(state, &columns.block(self.fed));
        let kept = executor.stats().entries_kept - before;
        if executor.is_done() {
            // A series of a metric query had an error, which ends it.
            self.fed = FEEDER_INPUTS_MAX;
        }
        kept
    }
}

fn store_of(data: &[u8]) -> TestStore {
    let labels = Labels::from_pairs([("app", "m"), ("b_extracted", "s")]).expect("valid names");
    let mut store = TestStore::new();
    let whole = [data].into_iter();
    for (second, line) in (0..).zip(whole.chain(data.split(|b| *b == b'\n')).take(40)) {
        let metadata = match second % 3 {
            0 => vec![("c".to_owned(), "7".to_owned())],
            _ => Vec::new(),
        };
        let timestamp_ns = second / 2 * SECOND_NS;
        store.push(&labels, TestEntry { timestamp_ns, line: line.into(), metadata });
    }
    store
}

fn check_pipeline(store: &TestStore, pipeline: &str) -> usize {
    let spread = Layout {
        shards: 3,
        block_entries: 2,
        scatter_blocks: true,
        use_shortcuts: false,
        ..Layout::default()
    };
    let range = QueryParams::range(0, 60 * SECOND_NS, SECOND_NS);
    let answer = |query: &str, params: &QueryParams, layout: &Layout| {
        match store.query_with(query, params, layout) {
            Ok(result) => Some(result),
            // Which of several erroneous series is named is left open.
            Err(QueryError::Eval(EvalError::Pipeline { .. })) => None,
            Err(error) => panic!("{query}: {error}"),
        }
    };
    let both = |query: &str, params: &QueryParams| {
        let one = answer(query, params, &Layout::default());
        let several = answer(query, params, &spread);
        assert_eq!(format!("{one:?}"), format!("{several:?}"), "{query}");
        one
    };
    let entries = both(&format!("{{app=\"m\"}} {pipeline}"), &range);
    let instant = QueryParams::instant(30 * SECOND_NS);
    let _ = both(&format!("count_over_time({{app=\"m\"}} {pipeline} [60s])"), &instant);
    let _ = both(&format!("sum by (b)(bytes_over_time({{app=\"m\"}} {pipeline} [60s]))"), &instant);
    // Looking at errors, parsers read every line to its end in both.
    let counts = format!("count_over_time({{app=\"m\"}} {pipeline} | __error__=\"\" [60s])");
    let few = both(&format!("sum by (a, b, app_extracted)({counts})"), &instant);
    let all = format!("sum by (a, b, app_extracted)(sum without ()({counts}))");
    let all = answer(&all, &instant, &Layout::default());
    assert_eq!(format!("{few:?}"), format!("{all:?}"), "{pipeline}");
    match entries {
        Some(QueryResult::Streams(streams)) => streams.iter().map(|s| s.labels.len()).sum(),
        _ => panic!("{pipeline}: a log query has streams"),
    }
}
