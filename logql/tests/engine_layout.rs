//! The answer to a query depends on the entries alone: not on how streams are
//! spread over shards, not on how they are cut into blocks, not on the order of
//! blocks, and not on the shortcuts the executor offers. Compared bit for bit.

use logsvc_logql::engine::testing::{
    LINE_PIPELINES, Layout, LineFeeder, QueryError, TestEntry, TestStore, check_lines, check_query,
};
use logsvc_logql::engine::{Direction, EvalError, QueryParams, QueryResult};
use logsvc_proto::Labels;

/// xorshift64*, so that a seed names a case.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }

    fn pick<'t>(&mut self, choices: &[&'t str]) -> &'t str {
        choices[usize::try_from(self.below(choices.len() as u64)).expect("small")]
    }
}

const BASE_NS: i64 = 1_700_000_000_000_000_000;
const SECOND_NS: i64 = 1_000_000_000;

fn generated(seed: u64) -> TestStore {
    let mut random = Random(seed | 1);
    let mut store = TestStore::new();
    for stream in 0..1 + random.below(7) {
        let stream = stream.to_string();
        let mut pairs = vec![("app", "m"), ("s", stream.as_str())];
        pairs.push(("env", random.pick(&["p", "q", ""])));
        let labels = Labels::from_pairs(pairs).expect("valid labels");
        let mut clock_ns = 0;
        for _ in 0..random.below(120) {
            // Small steps make ties; sometimes an entry is late.
            clock_ns += i64::try_from(random.below(4)).expect("small") * SECOND_NS / 4;
            let late = i64::try_from(random.below(5)).expect("small") * SECOND_NS;
            let is_late = random.below(6) == 0;
            let timestamp_ns = BASE_NS + clock_ns - if is_late { late } else { 0 };
            let plain = format!(
                "{} {} {}",
                random.pick(&["GET /cart", "POST", "error: timeout", "", "a\nb"]),
                random.pick(&["200", "500", "10.1.2.3", "Error"]),
                random.below(5)
            );
            let formatted = random.pick(&FORMATTED_LINES).to_owned();
            let line = if random.below(2) == 0 { plain } else { formatted };
            let metadata = match random.below(6) {
                0 => vec![("trace".to_owned(), random.below(3).to_string())],
                2 => vec![
                    ("d".to_owned(), format!("{}ms", random.below(5000))),
                    ("n".to_owned(), format!("0.{}", random.below(10_000))),
                ],
                3 => vec![("n".to_owned(), format!("{}e-3", random.below(100_000)))],
                1 => vec![
                    ("env".to_owned(), "collides".to_owned()),
                    ("trace".to_owned(), random.below(2).to_string()),
                ],
                _ => Vec::new(),
            };
            store.push(&labels, TestEntry { timestamp_ns, line: line.into(), metadata });
        }
    }
    store
}

const LOG_QUERIES: [&str; 14] = [
    r#"{app="m"} | json | a="x""#,
    r#"{app="m"} | json | c="2KiB" or a > 3"#,
    r#"{app="m"} | logfmt | n > 3 and b="4s""#,
    r#"{app="m"} | json | t=~".*q.*" | b >= 4s"#,
    r#"{app="m"} | logfmt | json | trace="1" | app_extracted=~"in.*""#,
    r#"{app="m"} | json | env="collides" | n != 0.5"#,
    r#"{app="m"} | regexp `(?P<k>[0-9]+)` | k="200" | line_format "{{.k}}" | logfmt"#,
    r#"{app="m"} | pattern "<verb> <path> <k>" | k=~"[0-3]" | a="" | __error__="""#,
    r#"{app="m"}"#,
    r#"{app="m", env!="p"} |= "cart" or "Error""#,
    r#"{app="m"} != "GET" |~ "[25]00""#,
    r#"{s=~"1|2|3"} !~ "(?i)error""#,
    r#"{app="m"} |> "<_> /cart <_>""#,
    r#"{app="m"} |= ip("10.0.0.0/8")"#,
];

const METRIC_QUERIES: [&str; 38] = [
    r#"sum by (a)(count_over_time({app="m"} | json [9s]))"#,
    r#"sum by (a, __error__)(count_over_time({app="m"} | json [9s]))"#,
    r#"sum(count_over_time({app="m"} | json | logfmt | unpack [9s]))"#,
    r#"sum by (b)(bytes_over_time({app="m"} | unpack | logfmt | __error__="" [9s]))"#,
    r#"count_over_time({app="m"} | logfmt | n > 3 | __error__="" [5s])"#,
    r#"sum by (app_extracted)(rate({app="m"} | json app="b", a | __error__="" [8s]))"#,
    r#"avg_over_time({app="m"} | logfmt | unwrap a | __error__="" [9s]) by (c)"#,
    r#"sum by (a)(sum_over_time({app="m"} | logfmt | unwrap n | __error__="", n > 2 [9s]))"#,
    r#"topk(2, sum by (verb)(count_over_time({app="m"} | pattern "<verb> <_> <n>" [9s])))"#,
    r#"max by (k)(count_over_time({app="m"} | regexp "(?P<k>[0-9]+)s?" | keep k, s [6s]))"#,
    r#"count_over_time({app="m"}[7s])"#,
    r#"rate({app="m"} |= "cart" [10s])"#,
    r#"bytes_over_time({app="m"}[3s] offset 2s)"#,
    r#"sum by (env)(bytes_rate({app="m"} != "500" [9s]))"#,
    r#"sum(count_over_time({app="m"}[1s]))"#,
    r#"sum without (trace, s)(count_over_time({app="m"}[20s]))"#,
    r#"avg by (trace)(count_over_time({app="m"}[6s]))"#,
    r#"stddev(rate({app="m"}[6s]))"#,
    r#"topk(2, count_over_time({app="m"}[5s]))"#,
    r#"bottomk by (env)(1, bytes_over_time({app="m"}[5s]))"#,
    r#"count(count_over_time({app="m"}[4s])) or vector(0)"#,
    r#"absent_over_time({app="m", s="1"}[2s])"#,
    r#"sum by (env)(rate({app="m"}[5s])) / on (env) group_right () sum by (env, s)(rate({app="m"}[5s]))"#,
    r#"sum(rate({app="m"} |= "200" [5s])) / sum(rate({app="m"}[5s])) > bool 0.3"#,
    r#"label_replace(max by (s)(count_over_time({app="m"}[8s])), "n", "x$1", "s", "(.*)")"#,
    r#"sum_over_time({app="m"} | unwrap n [9s])"#,
    r#"sum by (env)(rate({app="m"} | unwrap n [30s]))"#,
    r#"avg_over_time({app="m"} | unwrap n [7s]) by (env)"#,
    r#"stddev_over_time({app="m"} |= "200" | unwrap n [20s]) by ()"#,
    r#"quantile_over_time(0.9, {app="m"} | unwrap n [15s]) without (trace)"#,
    r#"rate_counter({app="m"} | unwrap n [15s])"#,
    r#"first_over_time({app="m"} | unwrap n [3s]) by (env)"#,
    r#"last_over_time({app="m"} | unwrap n [3s]) by (env)"#,
    r#"min_over_time({app="m"} | unwrap n [8s]) by (trace)"#,
    r#"stdvar_over_time({app="m"} | unwrap n [40s])"#,
    r#"absent_over_time({app="m", s="1"} | unwrap n [4s])"#,
    r#"max(max_over_time({app="m"} | unwrap duration(d) [8s]))"#,
    r#"count_over_time({app="m"}[500ms]) unless on (s) count_over_time({app="m", env="p"}[2s])"#,
];

fn layouts(random: &mut Random) -> Vec<Layout> {
    let mut layouts = Vec::new();
    for shards in [1, 2, 3, 7] {
        layouts.push(Layout {
            shards,
            block_entries: usize::try_from(1 + random.below(40)).expect("small"),
            sort_blocks: random.below(2) == 0,
            scatter_blocks: random.below(2) == 0,
            use_summaries: random.below(2) == 0,
            use_wants: random.below(2) == 0,
            use_shortcuts: random.below(2) == 0,
            repeat_sets: shards == 3,
        });
    }
    layouts
}

/// Lines of the formats that parsers read.
const FORMATTED_LINES: [&str; 10] = [
    r#"{"a":"x","b":3,"o":{"a":[1,{"b":"in"}],"x-y":true},"l":[null,"z"],"app":"inner"}"#,
    r#"{"a":12,"b":"4s","c":"2KiB","t":"tab\tq\"\u00fc\ud83d\ude80","bad":"\q"}"#,
    r#"{"b":"x","_entry":"a=7 b=\"y z\" app=n","a":"p"}"#,
    r#"a=1 b="two \"q\" x" c=10.1.2.3 app=inner n=5.5"#,
    "a=9 b=5s c=3KB level=info a=again d-e=f",
    "GET /cart a=\"7\" 200",
    "\u{1b}[1;31ma=red\u{1b}[0m b=plainx",
    r#"{"a":1"#,
    r#"b=x"y a=3"#,
    "a=10.0.0.1 b=::1 c",
];

/// Bit patterns of all values, so that comparing tells NaNs and zeros apart.
fn bits(result: &QueryResult) -> Vec<u64> {
    match result {
        QueryResult::Streams(_) => Vec::new(),
        QueryResult::Matrix(matrix) => {
            matrix.iter().flat_map(|series| &series.points).map(|p| p.value.to_bits()).collect()
        }
        QueryResult::Vector(samples) => samples.iter().map(|s| s.point.value.to_bits()).collect(),
        QueryResult::Scalar { value, .. } => vec![value.to_bits()],
    }
}

fn check(
    store: &TestStore,
    query: &str,
    params: &QueryParams,
    layouts: &[Layout],
    seed: u64,
) -> usize {
    let case = format!("seed {seed}: {query} {params:?}");
    // Which of several erroneous series is named is left open.
    let answer = |layout: &Layout| match store.query_with(query, params, layout) {
        Ok(result) => Some(result),
        Err(QueryError::Eval(EvalError::Pipeline { .. })) => None,
        Err(error) => panic!("{case}: {error}"),
    };
    let plain = answer(&Layout::PLAIN);
    for layout in layouts {
        let (Some(plain), Some(other)) = (&plain, answer(layout)) else {
            assert_eq!(plain.is_none(), answer(layout).is_none(), "{case}\n{layout:?}");
            continue;
        };
        let same = format!("{other:?}") == format!("{plain:?}") && bits(&other) == bits(plain);
        assert!(same, "{case}\n{layout:?}\nplain: {plain:#?}\nother: {other:#?}");
    }
    match plain {
        Some(QueryResult::Streams(streams)) => streams.len(),
        Some(QueryResult::Matrix(matrix)) => matrix.len(),
        Some(QueryResult::Vector(samples)) => samples.len(),
        Some(QueryResult::Scalar { .. }) => 1,
        None => 0,
    }
}

#[test]
fn log_answers_do_not_depend_on_the_layout() {
    let mut found = 0;
    for seed in 0..30 {
        let store = generated(seed * 7919 + 1);
        let mut random = Random(seed + 0x1000);
        let layouts = layouts(&mut random);
        let parsing = LINE_PIPELINES.map(|pipeline| format!("{{app=\"m\"}} {pipeline}"));
        for query in LOG_QUERIES.into_iter().chain(parsing.iter().map(String::as_str)) {
            let start_ns = BASE_NS + i64::try_from(random.below(10)).expect("small") * SECOND_NS;
            let end_ns = start_ns + i64::try_from(random.below(60)).expect("small") * SECOND_NS;
            let mut params = QueryParams::range(start_ns, end_ns, SECOND_NS);
            params.limit = usize::try_from(1 + random.below(30)).expect("small");
            if random.below(2) == 0 {
                params.direction = Direction::Forward;
            }
            if random.below(3) == 0 {
                params.interval_ns = i64::try_from(random.below(5)).expect("small") * SECOND_NS;
            }
            params.categorize_labels = random.below(2) == 0;
            found += check(&store, query, &params, &layouts, seed);
        }
    }
    assert!(found > 500, "the cases are not empty: {found}");
}

#[test]
fn metric_answers_do_not_depend_on_the_layout() {
    let mut found = 0;
    for seed in 0..25 {
        let store = generated(seed * 104_729 + 5);
        let mut random = Random(seed + 0x2000);
        let layouts = layouts(&mut random);
        for query in METRIC_QUERIES {
            let start_ns = BASE_NS + i64::try_from(random.below(10)).expect("small") * SECOND_NS;
            let end_ns = start_ns + i64::try_from(random.below(60)).expect("small") * SECOND_NS;
            let step_ns = i64::try_from(1 + random.below(80)).expect("small") * SECOND_NS / 10;
            let mut range = QueryParams::range(start_ns, end_ns, step_ns);
            range.align_to_step = random.below(2) == 0;
            found += check(&store, query, &range, &layouts, seed);
            found += check(&store, query, &QueryParams::instant(end_ns), &layouts, seed);
        }
    }
    assert!(found > 1000, "the cases are not empty: {found}");
}

/// Windows, counted entry by entry: a window holds the entries with `T - range < t <= T`.
#[test]
fn counts_agree_with_the_definition_of_a_window() {
    for seed in 0..20 {
        let mut random = Random(seed + 0x3000);
        let mut store = TestStore::new();
        let labels = Labels::from_pairs([("app", "m")]).expect("valid labels");
        let mut times = Vec::new();
        for number in 0..200u64 {
            let t = BASE_NS + i64::try_from(random.below(60_000)).expect("small") * 1_000_000;
            store.push_line(&labels, t, &number.to_string());
            times.push(t);
        }
        let range_ms = i64::try_from(1 + random.below(20_000)).expect("small");
        let step_ms = i64::try_from(1 + random.below(9000)).expect("small");
        let start_ns = BASE_NS - 5 * SECOND_NS;
        let end_ns = BASE_NS + 70 * SECOND_NS;
        let query = format!("count_over_time({{app=\"m\"}}[{range_ms}ms] offset 1s)");
        let params = QueryParams::range(start_ns, end_ns, step_ms * 1_000_000);
        let result = store.query(&query, &params).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let QueryResult::Matrix(matrix) = result else { panic!("not a matrix") };
        let points = matrix.first().map(|series| series.points.clone()).unwrap_or_default();
        let mut wanted = Vec::new();
        let mut at = start_ns;
        while at <= end_ns {
            let last = at - SECOND_NS;
            let first = last - range_ms * 1_000_000;
            let count = times.iter().filter(|&&t| t > first && t <= last).count();
            if count > 0 {
                wanted.push((at.div_euclid(1_000_000), count as f64));
            }
            at += step_ms * 1_000_000;
        }
        let points: Vec<(i64, f64)> = points.iter().map(|p| (p.timestamp_ms, p.value)).collect();
        assert_eq!(points, wanted, "seed {seed}: {query}");
    }
}

/// The fuzz target `logql_evaluate`, over the queries of this file and over
/// texts made from pieces of them.
#[test]
fn texts_made_from_pieces_of_queries_never_break_the_engine() {
    let queries: Vec<&str> = LOG_QUERIES.iter().chain(&METRIC_QUERIES).copied().collect();
    let pieces: Vec<&str> = queries.iter().flat_map(|query| query.split_inclusive(' ')).collect();
    let mut random = Random(0x00f0_22ed);
    let mut answered = 0;
    for query in &queries {
        answered += usize::from(check_query(query.as_bytes()));
        for _ in 0..40 {
            let mut mixed: Vec<&str> = query.split_inclusive(' ').collect();
            for _ in 0..1 + random.below(2) {
                let at = usize::try_from(random.below(mixed.len() as u64)).expect("small");
                mixed[at] = random.pick(&pieces);
            }
            answered += usize::from(check_query(mixed.concat().as_bytes()));
        }
    }
    assert!(answered > queries.len(), "{answered} texts were queries");
}

/// The fuzz target `logql_lines` and more, over lines of every format, whole, cut
/// and with single bytes changed.
#[test]
fn lines_of_any_kind_never_break_the_parsers() {
    let mut random = Random(0x11e5);
    let (mut labels, mut kept) = (0, 0);
    let mut feeder = LineFeeder::default();
    for round in 0..60 {
        let mut data = Vec::new();
        for _ in 0..1 + random.below(8) {
            let mut line = random.pick(&FORMATTED_LINES).as_bytes().to_vec();
            if round % 4 > 0 {
                for _ in 0..random.below(4) {
                    let at = usize::try_from(random.below(line.len() as u64)).expect("small");
                    line[at] = b"\"\\{}[]:,=<> \n\x1b\xff0au"[random.below(18) as usize];
                }
                let len = usize::try_from(random.below(line.len() as u64 * 2)).expect("small");
                line.truncate(len.max(1));
            }
            data.extend(line);
            data.push(b'\n');
        }
        labels += check_lines(&data);
        let noise: Vec<u8> = (0..random.below(60)).map(|_| random.below(256) as u8).collect();
        labels += check_lines(&noise);
        kept += feeder.feed(&data) + feeder.feed(&noise);
    }
    assert!(labels > 5_000, "the lines hold labels: {labels}");
    assert!(kept > 50, "some lines pass: {kept}");
}

/// Lines that would take minutes if any parser were quadratic in their length.
#[test]
fn hostile_lines_take_linear_time() {
    let long = 60_000;
    let wide: String = (0..long / 12).map(|n| format!(r#""k{n}":{n},"#)).collect();
    let pairs: String = (0..long / 8).map(|n| format!("k{n}=\"\\n\" ")).collect();
    for line in [
        r#"{"a":"#.repeat(long / 5),
        format!("{}1{}", r#"{"a":"#.repeat(long / 6), "}".repeat(long / 6)),
        format!(r#"{{"l":{}"#, "[".repeat(long)),
        format!(r#"{{"l":{}"#, "[x".repeat(long / 2)),
        format!(r#"{{"l":{}"#, r#"[","#.repeat(long / 3)),
        r#"{"a":"\"#.repeat(long / 7),
        format!("{{{wide}}}"),
        pairs,
        "\u{1b}[1;".repeat(long / 4),
        "=\"".repeat(long / 2),
        " 1.1.1.1=<".repeat(long / 10),
    ] {
        let _ = check_lines(line.as_bytes());
    }
}
