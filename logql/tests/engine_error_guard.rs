//! A filter that admits only `__error__=""` guards the comparisons behind it: they drop an entry
//! whose value they cannot compare, as if the filter stood at the end of the pipeline.

use logsvc_logql::engine::testing::{Layout, TestEntry, TestStore};
use logsvc_logql::engine::{Direction, QueryParams, QueryResult};
use logsvc_logql::testing::Rng;
use logsvc_proto::Labels;

const SECOND_NS: i64 = 1_000_000_000;

/// A guard, however it is written.
const GUARDS: [&str; 7] = [
    r#"__error__="""#,
    r#"__error__=~"""#,
    r#"__error__=~"^$""#,
    r#"__error__!~".+""#,
    r#"__error__="", app="a""#,
    r#"app!="b" and __error__="""#,
    r#"(__error__="" or __error__=~"^$")"#,
];

const COMPARISONS: [&str; 16] = [
    "status >= 500",
    "status != 200",
    "status == 500",
    "size > 5KB",
    "size <= 1MiB",
    "took > 20ms",
    "took <= 3s",
    "took > 20ms and status >= 500",
    "status >= 500 and size > 5KB and took > 1ms",
    "status >= 500 or size > 5KB",
    r#"level="x" or took > 20ms"#,
    r#"size > 5KB or level="x""#,
    "status >= 500, took > 20ms",
    r#"(status >= 500 or took > 1s) and level!="y""#,
    r#"ip=ip("10.0.0.0/8") or status > 1"#,
    r#"level=~"x|y""#,
];

const PARSERS: [&str; 3] = ["| json", "| logfmt", "| json | logfmt"];

fn store(rng: &mut Rng) -> TestStore {
    let mut store = TestStore::new();
    for second in 0..40 {
        let s = *rng.pick(&["1", "2", "3"]);
        let labels = Labels::from_pairs([("app", "a"), ("s", s)]).expect("labels");
        let fields = [
            ("status", ["500", "-", "", "200"]),
            ("size", ["6KB", "x", "1e3", "4KB"]),
            ("took", ["25ms", "5", "1.5s", "soon"]),
            ("level", ["x", "y", "", "-"]),
            ("ip", ["10.1.2.3", "none", "", "11.0.0.1"]),
        ];
        let mut texts = Vec::new();
        let mut metadata = Vec::new();
        let is_json = rng.one_in(2);
        for (name, values) in fields {
            let value = *rng.pick(&values);
            match rng.below(8) {
                0 => {}
                1 if !value.is_empty() => metadata.push((name.to_owned(), value.to_owned())),
                _ if is_json => texts.push(format!(r#""{name}":"{value}""#)),
                _ => texts.push(format!(r#"{name}="{value}""#)),
            }
        }
        let line = match (is_json, rng.below(10)) {
            (true, 0) => format!("{{{},oops", texts.join(",")),
            (true, _) => format!("{{{}}}", texts.join(",")),
            (false, _) => texts.join(" "),
        };
        metadata.sort_unstable();
        let timestamp_ns = (second + 1) * SECOND_NS;
        store.push(&labels, TestEntry { timestamp_ns, line: line.into_bytes(), metadata });
    }
    store
}

/// The answer, or the kind of the failure: which series an error is told of is open.
fn answer(store: &TestStore, query: &str, params: &QueryParams, layout: &Layout) -> String {
    match store.query_with(query, params, layout) {
        Ok(result) => format!("{result:?}"),
        Err(error) => error.to_string().split(" for series").next().unwrap_or("").to_owned(),
    }
}

#[test]
fn a_guard_in_front_of_comparisons_is_as_good_as_one_behind() {
    let mut kept = 0;
    for seed in 0..600 {
        let mut rng = Rng::new(seed);
        let store = store(&mut rng);
        let (guard, parser) = (*rng.pick(&GUARDS), *rng.pick(&PARSERS));
        let between = *rng.pick(&["", "", "| drop __error__ ", "| label_format z=\"1\" "]);
        let filters: Vec<&str> = (0..1 + rng.below(3)).map(|_| *rng.pick(&COMPARISONS)).collect();
        let filters = filters.join(" | ");
        let front = format!(r#"{{app="a"}} {parser} | {guard} {between}| {filters}"#);
        let same = format!(r#"{{app="a"}} {parser} | {guard} and ({filters})"#);
        let both = format!(r#"{{app="a"}} {parser} | {guard} {between}| {filters} | __error__="""#);
        let mut log = QueryParams::range(0, 100 * SECOND_NS, SECOND_NS);
        log.direction = Direction::Forward;
        let instant = QueryParams::instant(50 * SECOND_NS);
        let layouts = [1, 3].map(|shards| Layout { shards, ..Layout::default() });
        for layout in [Layout::PLAIN].into_iter().chain(layouts) {
            let wanted = answer(&store, &both, &log, &layout);
            assert_eq!(answer(&store, &front, &log, &layout), wanted, "seed {seed}: {front}");
            if between.is_empty() && !filters.contains(" | ") {
                let found = answer(&store, &same, &log, &layout);
                assert_eq!(found, wanted, "seed {seed}: {same}");
            }
            kept += usize::from(wanted.contains("ResultEntry"));
            for (start, end) in [
                ("count_over_time(", "[1m])"),
                ("sum(count_over_time(", "[1m]))"),
                ("sum by (level) (rate(", "[1m]))"),
                ("sum without (s) (bytes_over_time(", "[1m]))"),
                ("absent_over_time(", "[1m])"),
            ] {
                let of = |log: &str| format!("{start}{log} {end}");
                let wanted = answer(&store, &of(&both), &instant, &layout);
                let found = answer(&store, &of(&front), &instant, &layout);
                assert_eq!(found, wanted, "seed {seed}: {}", of(&front));
            }
        }
    }
    assert!(kept > 600, "{kept}");
}

/// The lines that a log query keeps, in order, or the first line of the error.
fn kept(lines: &[&str], query: &str) -> Result<Vec<String>, String> {
    let mut store = TestStore::new();
    let labels = Labels::from_pairs([("app", "a")]).expect("labels");
    for (second, line) in (1..).zip(lines) {
        store.push_line(&labels, second * SECOND_NS, line);
    }
    let is_log = query.starts_with('{');
    let time = if is_log {
        QueryParams::range(0, 100 * SECOND_NS, SECOND_NS)
    } else {
        QueryParams::instant(50 * SECOND_NS)
    };
    let result = store.query(query, &time);
    let result = result.map_err(|error| {
        error.to_string().split(" for series").next().unwrap_or_default().to_owned()
    })?;
    Ok(match result {
        QueryResult::Streams(streams) => {
            let mut entries: Vec<_> = streams.into_iter().flat_map(|one| one.entries).collect();
            entries.sort_by_key(|entry| entry.timestamp_ns);
            let text = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
            entries.iter().map(|entry| text(&entry.line)).collect()
        }
        QueryResult::Vector(samples) => {
            samples.iter().map(|one| format!("{} {}", one.labels, one.point.value)).collect()
        }
        other => panic!("{query}: {other:?}"),
    })
}

#[test]
fn only_comparisons_behind_a_guard_are_guarded() {
    const LINES: [&str; 3] = ["status=500 n=1", "status=- n=x", "status=200 n=y"];
    let all = || Ok(LINES.map(str::to_owned).to_vec());
    let first = || Ok(vec![LINES[0].to_owned()]);
    let first_two = || Ok(LINES[..2].iter().map(|&line| line.to_owned()).collect());
    let counted = |count: u32| Ok(vec![format!("{{}} {count}")]);
    let extraction = || Err("pipeline error: 'SampleExtractionErr'".to_owned());
    for (query, wanted) in [
        (r#"{app="a"} | logfmt | __error__="" | status >= 500"#, first()),
        (r#"{app="a"} | logfmt | status >= 500 | __error__="""#, first()),
        (r#"{app="a"} | logfmt | __error__="" and status >= 500"#, first()),
        // The filter is evaluated from the left, and a comparison that is not made cannot fail.
        (r#"{app="a"} | logfmt | __error__="" | n="x" or status >= 500"#, first_two()),
        (r#"{app="a"} | logfmt | __error__="" | status >= 500 or n="x""#, first()),
        // No guards.
        (r#"{app="a"} | logfmt | status >= 500"#, first_two()),
        (r#"{app="a"} | logfmt | __error__="" or n="z" | status >= 500"#, first_two()),
        (r#"{app="a"} | logfmt | __error__!="JSONParserErr" | status >= 500"#, first_two()),
        (r#"{app="a"} | logfmt | __error_details__="" | status >= 500"#, first_two()),
        // Entries on which other stages fail stay.
        (r#"{app="a"} | logfmt | __error__="" | line_format "{{.status.x}}""#, all()),
        (r#"{app="a"} | logfmt | __error__="" | json | status >= 500"#, first()),
        (r#"sum(sum_over_time({app="a"} | logfmt | __error__="" | unwrap n [1m]))"#, extraction()),
        (
            r#"sum(count_over_time({app="a"} | logfmt | __error__="" | status >= 500 [1m]))"#,
            counted(1),
        ),
        (
            r#"sum by (none) (sum_over_time({app="a"} | logfmt | __error__="" | unwrap status | status >= 500 [1m]))"#,
            Ok(vec!["{} 500".to_owned()]),
        ),
        (
            r#"sum(sum_over_time({app="a"} | logfmt | unwrap status | __error__="" | n >= 1 [1m]))"#,
            Ok(vec!["{} 500".to_owned()]),
        ),
        (
            r#"max_over_time({app="a"} | logfmt | __error__!~".+" | unwrap status | n >= 1 [1m]) by (n)"#,
            Ok(vec![r#"{n="1"} 500"#.to_owned()]),
        ),
        (
            r#"sum(sum_over_time({app="a"} | logfmt | unwrap status | n >= 1 | __error__="" [1m]))"#,
            Ok(vec!["{} 500".to_owned()]),
        ),
        (r#"sum(sum_over_time({app="a"} | logfmt | unwrap status | n >= 1 [1m]))"#, extraction()),
    ] {
        assert_eq!(kept(&LINES, query), wanted, "{query}");
    }
}
