//! A leaf holds no more memory than it has asked for, whatever the query and the lines are.
//!
//! At every allocation an allocator compares the live bytes of the thread with the bytes that the
//! leaf has taken from its allowance: a tenth or a megabyte more is too much. The taken bytes must
//! not be out of proportion either. Where memory is short, leaves end with a clear stop.

#![expect(unsafe_code, reason = "counting allocations needs an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Read;

use logsvc_logql::engine::testing::{Columns, TestEntry};
use logsvc_logql::engine::{
    Allowance, Direction, LeafExecutor, LeafResult, Plan, PlanError, QueryParams, Stop,
};
use logsvc_logql::syntax;
use logsvc_logql::testing::{Generator, Rng};
use logsvc_proto::Labels;
use serde_json::Value;

const SECOND_NS: i64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

/// So much more may live than was taken, or a tenth.
const TOLERANCE_BYTES: u64 = MIB;

/// Counts of this thread, in bytes.
#[derive(Clone, Copy)]
struct Counts {
    live: u64,
    taken: u64,
    /// The most that lived, was taken, and lived without being taken or tolerated.
    most_live: u64,
    most_taken: u64,
    most_excess: u64,
}

const NONE: Counts = Counts { live: 0, taken: 0, most_live: 0, most_taken: 0, most_excess: 0 };

thread_local! {
    static COUNTS: Cell<Counts> = const { Cell::new(NONE) };
    /// The live bytes before the leaf began.
    static BASE: Cell<u64> = const { Cell::new(0) };
}

fn note(change: impl Fn(&mut Counts)) {
    let mut counts = COUNTS.get();
    change(&mut counts);
    let live = counts.live.saturating_sub(BASE.get());
    counts.most_live = counts.most_live.max(live);
    counts.most_taken = counts.most_taken.max(counts.taken);
    let allowed = counts.taken + (counts.taken / 10).max(TOLERANCE_BYTES);
    counts.most_excess = counts.most_excess.max(live.saturating_sub(allowed));
    COUNTS.set(counts);
}

struct Counting;

// SAFETY: every call is passed on to the system allocator unchanged; the counters are plain
// thread-local cells that neither allocate nor unwind.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(|counts| counts.live += layout.size() as u64);
        // SAFETY: the caller's guarantees are those of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(|counts| counts.live = counts.live.saturating_sub(layout.size() as u64));
        // SAFETY: the caller's guarantees are those of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts the taken bytes. All parts share a number of bytes and a number of checks.
#[derive(Debug)]
struct Recorded {
    max_bytes: u64,
    own_bytes: u64,
}

impl Recorded {
    fn new(max_bytes: u64) -> Box<Recorded> {
        Box::new(Recorded { max_bytes, own_bytes: 0 })
    }
}

impl Allowance for Recorded {
    fn take(&mut self, bytes: u64) -> Result<(), Stop> {
        if COUNTS.get().taken + bytes > self.max_bytes {
            return Err(Stop::TooLarge { max_bytes: self.max_bytes });
        }
        self.own_bytes += bytes;
        note(|counts| counts.taken += bytes);
        Ok(())
    }

    fn give_back(&mut self, bytes: u64) {
        assert!(bytes <= self.own_bytes, "more is given back than was taken");
        self.own_bytes -= bytes;
        note(|counts| counts.taken -= bytes);
    }

    fn check(&mut self) -> Result<(), Stop> {
        Ok(())
    }

    fn sibling(&self) -> Box<dyn Allowance> {
        Recorded::new(self.max_bytes)
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let own_bytes = self.own_bytes;
        note(|counts| counts.taken -= own_bytes);
    }
}

/// Streams in blocks, ready to be given to leaves.
struct Data(Vec<(Labels, Vec<Columns>)>);

impl Data {
    /// Streams of blocks of lines, one a second.
    fn new(streams: &[&[&[Vec<u8>]]]) -> Data {
        let mut second = 0;
        let mut entry = |line: &Vec<u8>| {
            second += 1;
            let metadata = match second % 3 {
                0 => vec![("trace".to_owned(), format!("{second}"))],
                _ => Vec::new(),
            };
            TestEntry { timestamp_ns: second * SECOND_NS, line: line.clone(), metadata }
        };
        let mut block = |lines: &&[Vec<u8>]| {
            Columns::new(&lines.iter().map(&mut entry).collect::<Vec<_>>(), true)
        };
        let streams = streams.iter().enumerate().map(|(number, blocks)| {
            let number = number.to_string();
            let pairs = [("app", "m"), ("env", "p"), ("job", "load"), ("s", number.as_str())];
            let labels = Labels::from_pairs(pairs).expect("valid names");
            (labels, blocks.iter().map(&mut block).collect())
        });
        Data(streams.collect())
    }

    /// One stream with one block.
    fn of(lines: &[Vec<u8>]) -> Data {
        Data::new(&[&[lines]])
    }

    /// One line.
    fn line(line: &str) -> Data {
        Data::of(&[line.as_bytes().to_vec()])
    }
}

/// The outcome of the leaves of a query.
#[derive(Debug)]
struct Outcome {
    /// Why one of them had to end.
    stop: Option<Stop>,
    most_live: u64,
    most_taken: u64,
}

/// The result of a leaf over the data, unless it is stopped.
fn fed(mut executor: LeafExecutor, data: &Data) -> Result<(LeafResult, Box<dyn Allowance>), Stop> {
    for (labels, blocks) in &data.0 {
        if executor.is_done() {
            break;
        }
        let mut state = executor.stream(labels);
        for (arrival, columns) in (0..).zip(blocks) {
            executor.block(&mut state, &columns.block(arrival));
        }
    }
    executor.finish_counted()
}

/// Runs the leaves of a query within an allowance. `None` if it is none.
///
/// # Panics
/// If more lives than was taken.
fn run(query: &str, params: &QueryParams, data: &Data, max_bytes: u64) -> Option<Outcome> {
    let plan = Plan::new(&syntax::parse(query).ok()?, params).ok()?;
    let mut outcome = Outcome { stop: None, most_live: 0, most_taken: 0 };
    for leaf in plan.leaves() {
        BASE.set(COUNTS.get().live);
        COUNTS.set(Counts { live: COUNTS.get().live, ..NONE });
        let end = {
            match LeafExecutor::with_allowance(leaf, Recorded::new(max_bytes)) {
                Ok(executor) => fed(executor, data),
                Err(PlanError::Stopped(stop)) => Err(stop),
                Err(error) => panic!("{query}: {error}"),
            }
        };
        let shown: String = query.chars().take(300).collect();
        if let Ok((result, _memory)) = &end {
            let taken = COUNTS.get().taken;
            assert_eq!(taken, result.held_bytes() as u64, "{shown}: the result's alone is taken");
        }
        let counts = COUNTS.get();
        assert_eq!(
            counts.most_excess, 0,
            "{shown}: {} live, {} taken",
            counts.most_live, counts.most_taken
        );
        assert!(counts.most_taken <= max_bytes, "{shown}");
        assert!(
            counts.most_taken <= 4 * counts.most_live + 2 * MIB,
            "{shown}: {} taken for {}",
            counts.most_taken,
            counts.most_live
        );
        outcome.stop = outcome.stop.or(end.as_ref().err().copied());
        outcome.most_live = outcome.most_live.max(counts.most_live);
        outcome.most_taken = outcome.most_taken.max(counts.most_taken);
        drop(end);
        assert_eq!(COUNTS.get().taken, 0, "{shown}: all is given back");
    }
    Some(outcome)
}

fn params() -> [QueryParams; 2] {
    let mut forward = QueryParams::range(0, 4_000_000 * SECOND_NS, 1_000 * SECOND_NS);
    forward.direction = Direction::Forward;
    [QueryParams::instant(3_600 * SECOND_NS), forward]
}

/// With as much memory as the query takes: the taken memory is the used memory.
fn check(query: &str, data: &Data) -> bool {
    // A query for lines has no answer at an instant.
    params().iter().filter_map(|params| run(query, params, data, 1 << 40)).count() > 0
}

/// With little memory: the leaf ends, and holds no more than there is. The same for a query that
/// has a hundred times as much, which may end or not.
fn check_refused(query: &str, data: &Data, max_bytes: u64) {
    let shown: String = query.chars().take(200).collect();
    let stops: Vec<_> = params()
        .iter()
        .filter_map(|params| {
            run(query, params, data, 64 * max_bytes)?;
            let outcome = run(query, params, data, max_bytes)?;
            assert!(outcome.most_live <= max_bytes + TOLERANCE_BYTES, "{shown}: {outcome:?}");
            Some(outcome.stop)
        })
        .collect();
    let stop = Stop::TooLarge { max_bytes };
    assert!(stops.contains(&Some(stop)), "{shown}: {stops:?}");
    assert!(stops.iter().all(|own| own.is_none_or(|own| own == stop)), "{shown}: {stops:?}");
}

fn lines_of(count: usize, line: impl Fn(usize) -> String) -> Vec<Vec<u8>> {
    (0..count).map(|i| line(i).into_bytes()).collect()
}

/// Lines of all shapes, some of them large.
fn mixed_lines(rng: &mut Rng, count: usize) -> Vec<Vec<u8>> {
    lines_of(count, |_| String::new())
        .into_iter()
        .map(|_| {
            let n = rng.below(1000);
            let text = match rng.below(8) {
                0 => format!(
                    "level=info status={n} took={n}ms size={n}KB ip=10.0.0.{} k{n}=v",
                    n % 256
                ),
                1 => format!(
                    r#"{{"status":{n},"level":"warn","o":{{"v":"x","w":[1,{n}]}},"k{n}":"a\"b"}}"#
                ),
                2 => format!(r#"{{"_entry":"status={n} \u001b[1mred\u001b[0m","pod":"p{n}"}}"#),
                3 => format!("GET /cart {n} 10.1.2.3 said \u{1b}[31mred\u{1b}[0m"),
                4 => format!("level=error msg=\"{}\"", "word ".repeat(n)),
                5 => format!(r#"{{"a":{{"b":{{"c":"{}"}}}}}}"#, "x".repeat(n * 4)),
                6 => "a=b ".repeat(n),
                _ => String::from_utf8_lossy(&[b'x', 0xff, b'=', 0xfe]).repeat(n / 10),
            };
            text.into_bytes()
        })
        .collect()
}

const STAGES: [&str; 40] = [
    r#"|= "a" or "b" or "GET""#,
    r#"|~ "(?i)ERROR|time.*out|level""#,
    r#"|~ "\\w+=\\d+""#,
    r#"!> "<_>cart<_>""#,
    r#"|= ip("10.0.0.0/8")"#,
    "| json",
    r#"| json v="o.v", w="o.w[1]", o, o2="o""#,
    "| logfmt",
    "| logfmt --strict --keep-empty",
    r#"| logfmt level, d="took", e="took""#,
    r#"| pattern "<verb> <path> <status> <_>""#,
    r#"| regexp `(?P<verb>[A-Z]+) (?P<path>/\w+)`"#,
    "| unpack",
    "| decolorize",
    "| status >= 500 or took > 1ms or size < 1MB",
    r#"| level =~ "err.*|warn" or status > 200"#,
    r#"| ip = ip("10.0.0.0/8") or level!="x""#,
    r#"| __error__ = """#,
    r#"| line_format "{{.level}} {{.status | ToUpper}} {{__line__}}""#,
    r#"| line_format "{{__line__}}{{__line__}}""#,
    r#"| line_format `{{range $k, $v := .}}{{$k}}={{$v | printf "%q"}} {{end}}`"#,
    r#"| line_format `{{with fromJson __line__}}{{.}}{{len .}}{{end}}`"#,
    r#"| line_format `{{regexReplaceAll "(\\w)(\\d)?" __line__ "<$1$2>"}}`"#,
    r#"| line_format `{{$x := repeat 1000 __line__}}{{len $x}}{{trunc 100 $x | b64enc | b64dec}}`"#,
    r#"| line_format `{{$x := repeat 100 __line__}}{{$y := upper $x | title | replace "A" "bb"}}{{$y}}`"#,
    r#"| line_format `{{range 300}}{{$x := printf "%8d%s" . (repeat 10 "x")}}{{$x | trim | html | js}}{{end}}`"#,
    r#"| line_format `{{printf "%.1000f %100000d" 1.5 3 | alignLeft 2000 | indent 3}}`"#,
    r#"| line_format `{{count (trunc 20 __line__) __line__}}{{trimAll __line__ __line__}}`"#,
    r#"| line_format `{{urlencode __line__ | urldecode}}{{now | date __line__}}`"#,
    r#"| line_format `{{unixToTime __line__}}`"#,
    r#"| line_format `{{bytes __line__}}{{duration __line__}}`"#,
    r#"| label_format lvl=level, x="{{.status}}0", y="{{__line__}}{{.x}}""#,
    r#"| label_format x="{{.x}}{{.x}}a""#,
    "| drop level, __error__",
    r#"| drop status=~"5.*""#,
    r#"| keep app, level, status=~"5.*", x, y"#,
    r#"| y > 5 or x > 5KB or y > 1s"#,
    r#"| json | status >= 500"#,
    r#"| logfmt | level="error""#,
    r#"| label_format a="{{.a}}{{.a}}""#,
];

const WRAPPERS: [&str; 11] = [
    "@",
    "@",
    "count_over_time(@ [1h])",
    "sum by (level, status) (rate(@ [1h]))",
    "topk(3, bytes_over_time(@ [2h]))",
    "max_over_time(@ | unwrap status [1h]) by (level)",
    r#"quantile_over_time(0.9, @ | unwrap duration(took) | __error__="" [1h])"#,
    "max without (s) (sum_over_time(@ | unwrap bytes(size) [100h]))",
    r#"sum_over_time(@ | unwrap y | __error__="" [1h])"#,
    "first_over_time(@ | unwrap status [1h])",
    r#"avg_over_time(@ | label_format y="{{.y}}e{{.y}}" | unwrap y | __error__="" [1h]) by (level)"#,
];

#[test]
fn random_queries_hold_what_they_have_taken() {
    let seed = 7;
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let lines: Vec<_> = (0..4).map(|_| mixed_lines(&mut rng, 40)).collect();
    let data = Data::new(&[&[&lines[0], &lines[1]], &[&lines[2], &lines[3]]]);
    let mut ran = 0;
    for _ in 0..200 {
        let mut query = String::from(r#"{app="m"}"#);
        for _ in 0..1 + rng.below(5) {
            query += " ";
            query += STAGES[rng.below(STAGES.len())];
        }
        let query = rng.pick(&WRAPPERS).replace('@', &query);
        ran += u32::from(check(&query, &data));
    }
    assert!(ran > 190, "{ran} queries");
    for seed in 0..100 {
        let stages: String = Generator::new(seed)
            .log_expr()
            .stages
            .iter()
            .map(|stage| format!(" {stage}"))
            .collect();
        ran += u32::from(check(&format!(r#"{{app="m"}}{stages}"#), &data));
        check(&Generator::new(seed).expr().to_string(), &data);
    }
    assert!(ran > 250, "{ran} queries");
}

#[test]
fn the_queries_of_the_examples_hold_what_they_have_taken() {
    let mut ran = 0;
    for row in include_str!("engine/pipelines.jsonl").lines() {
        let row: Value = serde_json::from_str(row).expect("JSON");
        let one = [row["line"].clone()];
        let lines = row["lines"].as_array().map_or(&one[..], Vec::as_slice);
        let text = |line: &Value| line.as_str().expect("a string").as_bytes().to_vec();
        let data = Data::of(&lines.iter().map(text).collect::<Vec<_>>());
        let query = format!("{{app=\"t\"}} {}", row["q"].as_str().expect("a query"));
        ran += u32::from(check(&query, &data));
        ran += u32::from(check(&format!("count_over_time({query} [1m])"), &data));
    }
    assert!(ran > 300, "{ran} queries");
    let data = Data::of(&mixed_lines(&mut Rng::new(3), 30));
    let golden = include_str!("golden/queries.txt").lines();
    let ran = golden.filter(|query| check(query, &data)).count();
    assert!(ran > 20, "{ran} queries");
}

/// The inputs that fuzzing has kept of a target.
fn fuzzed(archive: &[u8]) -> Vec<Vec<u8>> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(archive));
    let mut inputs = Vec::new();
    for entry in archive.entries().expect("an archive") {
        let mut input = Vec::new();
        entry.expect("a file").read_to_end(&mut input).expect("its bytes");
        inputs.push(input);
    }
    inputs
}

#[test]
fn fuzzed_queries_hold_what_they_have_taken() {
    let data = Data::of(&mixed_lines(&mut Rng::new(5), 12));
    let evaluated = fuzzed(include_bytes!("../../fuzz/corpus/logql_evaluate.tar.gz"));
    let parsed = fuzzed(include_bytes!("../../fuzz/corpus/logql_parse.tar.gz"));
    for inputs in [evaluated, parsed] {
        let queries = inputs.iter().filter_map(|input| std::str::from_utf8(input).ok());
        let ran = queries.filter(|query| check(query, &data)).count();
        assert!(ran > 100, "{ran} queries of {} inputs", inputs.len());
    }
}

#[test]
fn stages_over_fuzzed_lines_hold_what_they_have_taken() {
    let data = Data::of(&fuzzed(include_bytes!("../../fuzz/corpus/logql_lines.tar.gz")));
    for stage in STAGES {
        assert!(check(&format!("{{app=\"m\"}} {stage}"), &data), "{stage}");
    }
}

/// A chain of a stage.
fn chain(stage: &str, count: usize) -> String {
    format!(r#"{{app="m"}} {}"#, vec![stage; count].join(" "))
}

#[test]
fn chains_that_double_end_at_the_ceiling() {
    let line = Data::line("GET /cart 200 from 10.0.0.1");
    let doubling = [
        r#"| line_format "{{__line__}}{{__line__}}""#,
        r#"| label_format a="{{.a}}{{.a}}{{__line__}}""#,
        r#"| line_format "{{__line__}}{{__line__}}" | label_format a="{{__line__}}{{.a}}""#,
        r#"| line_format `{{replace "" "0123456789" __line__}}`"#,
        r#"| line_format `{{regexReplaceAll "(.)" __line__ "$1$1$1"}}`"#,
        r#"| line_format `{{__line__ | b64enc | urlencode}}`"#,
        r#"| line_format `{{printf "%q%q" __line__ __line__}}`"#,
        r#"| line_format `{{$x := print __line__ __line__}}{{$y := print $x $x}}{{$y}}`"#,
        r#"| line_format `{{html __line__ "<<<<<<<<<<<<"}}{{js __line__}}`"#,
    ];
    for stage in doubling {
        check_refused(&chain(stage, 30), &line, MIB);
        check(&chain(stage, 12), &line);
    }
}

#[test]
fn what_a_template_makes_is_asked_for() {
    let line = Data::line(&"a\"b1 ".repeat(20_000));
    for template in [
        r#"{{ repeat 4000000 "a" }}"#,
        "{{range 100000}}{{repeat 1000 \"x\"}}{{end}}",
        "{{$x := repeat 1000000 \"x\"}}{{$y := print $x $x}}{{len $y}}",
        r#"{{$x := repeat 1000000 "Ab"}}{{$y := lower $x}}{{$z := upper $x}}{{len $y}}"#,
        r#"{{$x := repeat 1000000 "Ab"}}{{$y := trunc 1999999 $x}}{{$z := substr 1 1999999 $x}}x"#,
        r#"{{$x := repeat 1000000 "Ab"}}{{trimAll $x "c"}}"#,
        r#"{{$x := repeat 1000000 "Ab"}}{{b64dec $x | len}}"#,
        r#"{{printf "%1000000d%1000000d" 1 2}}"#,
        r#"{{printf "%.1000000d" 1}}"#,
        r#"{{printf "%.1000000f" 1.5}}"#,
        r#"{{printf "%q" (repeat 300000 "\"é")}}"#,
        r#"{{$x := printf "%+q" __line__}}{{printf "%+q" $x}}"#,
        r#"{{$x := printf "[%s1]" (repeat 200000 "1,")}}{{len (fromJson $x)}}"#,
        r#"{{$x := printf "[%s1]" (repeat 100000 "[\"a\"],")}}{{len (fromJson $x)}}"#,
        r#"{{$x := printf "{%s\"b\":1}" (repeat 100000 "\"a\":1,")}}{{len (fromJson $x)}}"#,
        r#"{{$x := fromJson (printf "[%s1]" (repeat 200000 "1,"))}}{{len (slice $x 1)}}"#,
        r#"{{date (repeat 200000 "Monday ") now}}"#,
        r#"{{indent 1000000 "a\nb"}}"#,
        r#"{{alignLeft 2000000 "a"}}"#,
        r#"{{bytes (repeat 1000000 "x")}}"#,
        r#"{{duration (repeat 1000000 "x")}}"#,
        r#"{{unixToTime (repeat 1000000 "x")}}"#,
        r#"{{urldecode (repeat 1000000 "%41")}}"#,
    ] {
        let query = format!("{{app=\"m\"}} | line_format `{template}`");
        check_refused(&query, &line, MIB);
        check(&query, &line);
        check(&format!("{{app=\"m\"}} | label_format a=`{template}`, b=`{template}`"), &line);
    }
    // Patterns that come from lines are compiled for each.
    let lines = lines_of(100, |i| format!("((a{{50}}b{{50}}){{10}})|{}", "x".repeat(100 + i)));
    let query = r#"{app="m"} | line_format `{{count __line__ "x"}}`"#;
    check(query, &Data::of(&lines));
    check_refused(query, &Data::of(&lines), 300 << 10);
}

#[test]
fn what_parsers_make_is_asked_for() {
    let nested = |depth: usize| {
        let key = "k".repeat(2_000);
        let open = format!(r#"{{"{key}":"#).repeat(depth);
        let fields: String = (0..500).map(|i| format!(r#""f{i}":{i},"#)).collect();
        format!(r#"{open}{{{fields}"z":1}}{}"#, "}".repeat(depth))
    };
    let nested = Data::line(&nested(30));
    let wide = Data::line(&(0..40_000).map(|i| format!("key{i}=value{i} ")).collect::<String>());
    let escaped =
        Data::line(&format!(r#"a="{}" b="\"{}""#, r"\n".repeat(200_000), "x".repeat(900_000)));
    let json = Data::line(&format!(
        r#"{{"o":{{"{0}":"{0}"}},"_entry":"{0}","{0}":"{0}"}}"#,
        r"a\n".repeat(100_000)
    ));
    let many = (0..40).map(|i| format!("a{i}=\"o\"")).collect::<Vec<_>>().join(", ");
    let listed = (0..40).map(|i| format!("a{i}=\"b\"")).collect::<Vec<_>>().join(", ");
    let coloured = Data::line(&"\u{1b}[31mred\u{1b}[0m text ".repeat(60_000));
    let long = Data::line(&"word ".repeat(400_000));
    for (query, data) in [
        ("| json".to_owned(), &nested),
        ("| json | json".to_owned(), &json),
        (format!("| json {many}"), &json),
        ("| unpack".to_owned(), &json),
        ("| logfmt".to_owned(), &wide),
        ("| logfmt | logfmt".to_owned(), &wide),
        ("| logfmt --strict".to_owned(), &escaped),
        (format!("| logfmt {listed}"), &escaped),
        ("| decolorize".to_owned(), &coloured),
        ("| pattern \"<a> <b> <c>\"".to_owned(), &long),
        ("| regexp \"(?P<a>.*) (?P<b>.*)\"".to_owned(), &long),
        ("".to_owned(), &long),
        ("| label_format b=app".to_owned(), &long),
        ("| pattern \"<a>\" | a > 5".to_owned(), &long),
        ("| pattern \"<a>\" | a > 5s or a > 5KB".to_owned(), &long),
        ("| pattern \"<a>\" | keep a=~\".*x\"".to_owned(), &long),
    ] {
        let query = format!("{{app=\"m\"}} {query}");
        check_refused(&query, data, MIB);
        check(&query, data);
        check(&format!("sum by (a) (count_over_time({query} [100h]))"), data);
    }
}

#[test]
fn what_a_leaf_collects_is_asked_for() {
    let unique = lines_of(30_000, |i| format!("id=u{i} k{i}=v took={i}ms status={i}"));
    let blocks: Vec<_> = unique.chunks(3_000).collect();
    let unique = Data::new(&[&blocks]);
    let streams: Vec<Vec<Vec<u8>>> =
        (0..2_000).map(|i| lines_of(2, |_| format!("id=s{i}"))).collect();
    let blocks: Vec<[&[Vec<u8>]; 1]> = streams.iter().map(|lines| [&lines[..]]).collect();
    let streams = Data::new(&blocks.iter().map(|blocks| &blocks[..]).collect::<Vec<_>>());
    for (query, data, max_bytes) in [
        (r#"topk(10, count_over_time({job="load"} | logfmt [1h]))"#, &unique, MIB),
        (r#"{job="load"} | logfmt"#, &unique, MIB),
        (r#"sum by (id) (count_over_time({job="load"} | logfmt [1h]))"#, &unique, MIB / 2),
        (
            r#"rate_counter({job="load"} | logfmt | keep status | unwrap status [1h])"#,
            &unique,
            128 << 10,
        ),
        (r#"max_over_time({job="load"} | logfmt | unwrap status [1h])"#, &unique, MIB),
        (r#"avg_over_time({job="load"} | logfmt | unwrap status [1h])"#, &unique, MIB),
        (r#"count_over_time({job="load"} | logfmt [1000h])"#, &unique, MIB),
        (r#"count_over_time({job="load"}[1h])"#, &streams, 256 << 10),
        (r#"sum by (s) (count_over_time({job="load"}[1h]))"#, &streams, 256 << 10),
        (
            r#"first_over_time({job="load"} | label_format n="1" | unwrap n [1h])"#,
            &streams,
            256 << 10,
        ),
        (r#"{job="load"}"#, &streams, 128 << 10),
        (r#"rate({job="load"} | label_format x="{{.trace}}" [1h])"#, &streams, 256 << 10),
    ] {
        let mut large = params();
        large.iter_mut().for_each(|params| {
            params.limit = 100_000;
            params.limits.max_series = 0;
        });
        let mut stops = Vec::new();
        for params in &large {
            run(query, params, data, 1 << 40);
            let Some(outcome) = run(query, params, data, max_bytes) else { continue };
            let few = outcome.most_live <= max_bytes + TOLERANCE_BYTES;
            assert!(few, "{query}: {outcome:?}");
            stops.push(outcome.stop);
        }
        assert!(stops.contains(&Some(Stop::TooLarge { max_bytes })), "{query}: {stops:?}");
    }
}

/// Wherever memory ends, the leaf ends there.
#[test]
fn leaves_end_wherever_there_is_no_more() {
    let lines = mixed_lines(&mut Rng::new(11), 40);
    let data = Data::new(&[&[&lines[..20]], &[&lines[20..]]]);
    let stages =
        [STAGES.to_vec(), vec!["| unpack | json", "| logfmt | json | drop level"]].concat();
    for (i, stage) in stages.iter().enumerate() {
        let query = WRAPPERS[i % WRAPPERS.len()].replace('@', &format!(r#"{{app="m"}} {stage}"#));
        for params in &params() {
            let Some(whole) = run(&query, params, &data, 1 << 40) else { continue };
            for part in 0..40 {
                // More of the small limits, since most buffers are made while little is taken.
                let max_bytes = whole.most_taken * part * part / 1600;
                let outcome = run(&query, params, &data, max_bytes).expect("a query");
                let few = outcome.most_live <= max_bytes + TOLERANCE_BYTES;
                assert!(few, "{query}: {outcome:?}");
            }
            let outcome = run(&query, params, &data, 0).expect("a query");
            assert_eq!(outcome.stop, Some(Stop::TooLarge { max_bytes: 0 }), "{query}");
        }
    }
}

#[test]
fn a_result_that_is_larger_than_what_it_is_made_of_is_asked_for() {
    // Each entry is seen by ten thousand steps.
    let lines = lines_of(200, |i| format!("id=u{i}"));
    let data = Data::of(&lines);
    let params = QueryParams::range(0, 10_000 * SECOND_NS, SECOND_NS);
    let query = r#"sum by (id) (count_over_time({app="m"} | logfmt [10000s]))"#;
    let outcome = run(query, &params, &data, 1 << 40).expect("a query");
    assert!(outcome.most_live > 16 * MIB, "{outcome:?}");
    let outcome = run(query, &params, &data, 4 * MIB).expect("a query");
    assert_eq!(outcome.stop, Some(Stop::TooLarge { max_bytes: 4 * MIB }));
}

#[test]
fn compiled_stages_are_asked_for() {
    let data = Data::of(&lines_of(20, |i| format!("a=b{i} GET /cart 200 took={i}ms")));
    for stage in [
        "| json",
        "| logfmt",
        r#"| line_format "{{.a}} {{.b | upper}}""#,
        r#"| label_format a="{{.a}}-{{.b}}""#,
        r#"|= "a" or "b" |= "took""#,
        r#"| a=~"b.*1|x" or a!="x""#,
        r#"| decolorize"#,
        r#"| pattern "<a> <b>""#,
        r#"| regexp "(?P<a>\\w+)=(?P<b>\\w+)""#,
        r#"| drop a, b=~"x.*y""#,
        "| unpack",
    ] {
        for count in [3, 300] {
            assert!(check(&chain(stage, count), &data), "{stage}");
        }
        check_refused(&chain(stage, 3_000), &data, 128 << 10);
    }
}
