//! Filtering and parsing lines allocates nothing per line once the buffers have
//! grown.

#![expect(unsafe_code, reason = "counting allocations needs an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use logsvc_logql::engine::testing::{Columns, TestEntry};
use logsvc_logql::engine::{LeafExecutor, Plan, QueryParams};
use logsvc_logql::syntax;
use logsvc_proto::Labels;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed on to the system allocator unchanged; the counter is
// a plain thread-local cell that neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's guarantees are those of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's guarantees are those of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's guarantees are those of `realloc`.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn plain_line(i: i64) -> String {
    format!("level={} status={} took {i}ms", ["info", "error"][i as usize % 2], 200 + i % 3)
}

fn logfmt_line(i: i64) -> String {
    let level = ["info", "error"][i as usize % 2];
    format!(r#"ts={i} level={level} msg="said \"{i}\"" status={} d={i}.5ms sz={i}KB"#, 200 + i % 3)
}

fn json_line(i: i64) -> String {
    let level = ["info", "error"][i as usize % 2];
    format!(
        r#"{{"ts":{i},"level":"{level}","msg":"said \"{i}\"","http":{{"status":{},"x-y":[1,2]}},"ok":true}}"#,
        200 + i % 3
    )
}

fn packed_line(i: i64) -> String {
    format!(r#"{{"pod":"p{}","_entry":"status={} \u001b[1mred\u001b[0m"}}"#, i % 3, 200 + i % 3)
}

fn allocations_of_a_second_block(query: &str) -> u64 {
    allocations_over(query, plain_line)
}

/// Makes a line from its number.
type Line = fn(i64) -> String;

fn allocations_over(query: &str, line: Line) -> u64 {
    let entries: Vec<TestEntry> = (0..4000)
        .map(|i: i64| TestEntry {
            timestamp_ns: i * 1_000_000,
            line: line(i).into_bytes(),
            metadata: if i % 5 == 0 { vec![("trace".into(), (i % 4).to_string())] } else { vec![] },
        })
        .collect();
    let columns = Columns::new(&entries, true);
    let expr = syntax::parse(query).expect("valid query");
    let plan =
        Plan::new(&expr, &QueryParams::range(0, 4_000_000_000, 1_000_000_000)).expect("planned");
    let mut executor = LeafExecutor::new(&plan.leaves()[0]).expect("compiled");
    let mut stream = executor.stream(&Labels::from_pairs([("app", "m")]).expect("valid"));
    // The first passes grow the buffers and build the lazy automata of regexes.
    for arrival in 0..3 {
        executor.block(&mut stream, &columns.block(arrival));
    }
    let before = ALLOCATIONS.with(Cell::get);
    executor.block(&mut stream, &columns.block(3));
    let after = ALLOCATIONS.with(Cell::get);
    assert!(executor.stats().entries_kept > 0, "{query} keeps entries");
    assert!(!executor.is_done(), "{query} has not failed");
    after - before
}

#[test]
fn filtering_and_counting_lines_does_not_allocate() {
    for query in [
        r#"sum(count_over_time({app="m"} |= "error" [1s]))"#,
        r#"count_over_time({app="m"} |= "error" != "201" |~ "took [0-9]+5ms" [1s])"#,
        r#"bytes_over_time({app="m"} |~ "(?i)ERROR|status=200" [2s])"#,
        r#"rate({app="m"} !~ "^level=info" |> "<_>took <_>" [1s])"#,
        r#"count_over_time({app="m"}[1s])"#,
    ] {
        // The list of a series' runs of steps may grow once more.
        let allocations = allocations_of_a_second_block(query);
        assert!(allocations <= 1, "{query}: {allocations} allocations for 4000 lines");
    }
}

#[test]
fn a_log_query_allocates_for_the_entries_it_keeps_only() {
    // Newest first: the limit is reached within the first block, and later blocks
    // of the same times lose against it.
    let allocations = allocations_of_a_second_block(r#"{app="m"} |= "error""#);
    assert!(allocations <= 400, "{allocations} allocations for 4000 lines and a limit of 100");
}

#[test]
fn parsing_and_filtering_labels_does_not_allocate() {
    let cases: [(Line, &[&str]); 4] = [
        (
            json_line,
            &[
                r#"sum(count_over_time({app="m"} | json | level="error" [1s]))"#,
                r#"sum by (level)(count_over_time({app="m"} | json | http_status>=201 [1s]))"#,
                r#"sum by (s)(count_over_time({app="m"} | json s="http.status", l="http[\"x-y\"][1]" [1s]))"#,
                r#"count_over_time({app="m"} | json | drop msg, ts | level=~"err.*|x" [1s])"#,
                r#"sum by (l)(count_over_time({app="m"} | json | label_format l=level [1s]))"#,
            ],
        ),
        (
            logfmt_line,
            &[
                r#"sum(count_over_time({app="m"} | logfmt | status>200 and d<1h, sz>1MB [1s]))"#,
                r#"count_over_time({app="m"} | logfmt --strict | keep level, status [1s])"#,
                r#"sum by (m)(count_over_time({app="m"} | logfmt m="status" [1s]))"#,
            ],
        ),
        (
            plain_line,
            &[
                r#"sum by (s)(count_over_time({app="m"} | pattern "<_> status=<s> <_>" [1s]))"#,
                r#"sum by (s)(rate({app="m"} | regexp "status=(?P<s>[0-9]+)" | s != "200" [1s]))"#,
            ],
        ),
        (
            packed_line,
            &[r#"sum by (pod)(bytes_over_time({app="m"} | unpack | decolorize |= "red" [1s]))"#],
        ),
    ];
    for (line, queries) in cases {
        for query in queries {
            // The lists of runs of steps may grow once more, one per series.
            let allocations = allocations_over(query, line);
            assert!(allocations <= 6, "{query}: {allocations} allocations for 4000 lines");
        }
    }
}

#[test]
fn templates_of_plain_fields_do_not_allocate() {
    for query in [
        r#"bytes_over_time({app="m"} | logfmt | line_format "{{.level}}: {{.msg}} ({{.nope}})" | drop __error__, msg, ts, d, sz [1s])"#,
        r#"sum by (l)(count_over_time({app="m"} | logfmt | label_format l="{{.level}}-{{$.status}}" [1s]))"#,
        r#"sum(count_over_time({app="m"} | logfmt | line_format `{{if eq .level "info"}}{{.msg}}{{end}}` |= "said" [1s]))"#,
    ] {
        let allocations = allocations_over(query, logfmt_line);
        // Arguments of functions stand in one vector per execution.
        let most = if query.contains("eq") { 4001 } else { 1 };
        assert!(allocations <= most, "{query}: {allocations} allocations for 4000 lines");
    }
}
