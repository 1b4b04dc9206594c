//! The line filter path allocates nothing per line once its buffers have grown.

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

fn allocations_of_a_second_block(query: &str) -> u64 {
    let entries: Vec<TestEntry> = (0..4000)
        .map(|i: i64| TestEntry {
            timestamp_ns: i * 1_000_000,
            line: format!(
                "level={} status={} took {i}ms",
                ["info", "error"][i as usize % 2],
                200 + i % 3
            )
            .into_bytes(),
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
