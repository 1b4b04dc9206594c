//! How fast one core evaluates LogQL over logs held in memory.
//!
//! `cargo bench -p logsvc-bench --bench logql [-- WORDS]` prints one row per query (with WORDS,
//! only queries whose text contains one of the words): gigabytes of raw log lines per second, the
//! ratio to a plain `memmem` pass over the same bytes in the same run, and the floor that the
//! project promises. The corpus follows from a seed, so two runs measure the same work.
//!
//! The engine is driven as a shard drives it: block by block in time order, asking
//! first whether a block is wanted, then whether its directory entry is enough; and
//! the partial result is merged into the answer. Passes of `memmem` and of the query
//! alternate, and both figures are medians, so that a busy machine disturbs the
//! ratio less than the figures.
#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark on its own thread: it is never simulated and reads its clock"
)]

mod corpus;
mod queries;

use std::hint::black_box;
use std::time::Duration;

use corpus::{Corpus, Style};
use logsvc_logql::engine::{
    LeafExecutor, LeafPlan, LeafResult, MergeState, MetadataColumn, Plan, QueryParams, StreamState,
};
use logsvc_logql::syntax;
use memchr::memmem::Finder;
use queries::{Floor, QUERIES, Query};

/// Passes of each kind per query.
const PASSES: usize = 7;
/// Occurs nowhere in the corpus, like most needles in most blocks.
const ABSENT: &[u8] = b"connection reset by peer";

fn main() {
    // Cargo adds `--bench`.
    let words: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    println!(
        "{:<8} {:>7} {:>8} {:>7} {:>6}  {:<11} query",
        "lines", "GB/s", "memmem", "ratio", "kept", "floor"
    );
    for style in Style::ALL {
        let queries: Vec<&Query> = QUERIES
            .iter()
            .filter(|query| query.style == style)
            .filter(|query| words.is_empty() || words.iter().any(|w| query.text.contains(w)))
            .collect();
        if queries.is_empty() {
            continue;
        }
        let corpus = Corpus::new(style);
        for query in queries {
            measure(&corpus, query);
        }
    }
}

fn measure(corpus: &Corpus, query: &Query) {
    let expr = syntax::parse(query.text).unwrap_or_else(|error| panic!("{}: {error}", query.text));
    let (start_ns, end_ns) = corpus.bounds_ns();
    let step_ns = query.step_s * 1_000_000_000;
    let mut params = QueryParams::range(start_ns, end_ns, step_ns);
    params.limit = query.limit;
    let plan = Plan::new(&expr, &params).unwrap_or_else(|error| panic!("{}: {error}", query.text));
    let finder = Finder::new(ABSENT);
    let mut memmem = Vec::with_capacity(PASSES);
    let mut engine = Vec::with_capacity(PASSES);
    let mut kept = 0;
    for _ in 0..PASSES {
        memmem.push(timed(|| {
            for block in corpus.blocks() {
                assert_eq!(finder.find(black_box(block.lines())), None);
            }
        }));
        engine.push(timed(|| kept = evaluate(corpus, &plan)));
    }
    let bytes = corpus.line_bytes() as f64;
    let gigabytes_per_s = |passes: &mut Vec<Duration>| {
        passes.sort_unstable();
        bytes / passes[passes.len() / 2].as_secs_f64() / 1e9
    };
    let (engine, memmem) = (gigabytes_per_s(&mut engine), gigabytes_per_s(&mut memmem));
    let (floor, holds) = match query.floor {
        Floor::None => (String::new(), true),
        Floor::Ratio(ratio) => (format!("{ratio} memmem"), engine / memmem >= ratio),
        Floor::GigabytesPerS(floor) => (format!("{floor} GB/s"), engine >= floor),
    };
    println!(
        "{:<8} {engine:>7.3} {memmem:>8.2} {:>7.3} {:>5.1}%  {:<11} {}",
        format!("{:?}", query.style).to_lowercase(),
        engine / memmem,
        kept as f64 / corpus.entries() as f64 * 100.0,
        if holds { floor } else { floor + " !" },
        query.text,
    );
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = cpu_time();
    work();
    cpu_time() - start
}

/// Time that this thread has been running.
fn cpu_time() -> Duration {
    // The kernel brings the figure up to date when the thread is scheduled.
    std::thread::yield_now();
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let ns = stat.split(' ').next().and_then(|ns| ns.parse().ok()).expect("starts with a number");
    Duration::from_nanos(ns)
}

/// Evaluates a query from its plan to its answer. Returns the number of entries
/// that passed the pipelines.
fn evaluate(corpus: &Corpus, plan: &Plan) -> u64 {
    let mut merge = MergeState::new(plan);
    let mut kept = 0;
    for leaf in plan.leaves() {
        let result = scan(corpus, leaf);
        kept += result.stats().entries_kept;
        merge.add(result);
    }
    black_box(merge.finish()).expect("the queries fail on no line");
    kept
}

/// One shard's part, see `shards/src/scan.rs`.
fn scan(corpus: &Corpus, leaf: &LeafPlan) -> LeafResult {
    let mut executor = LeafExecutor::new(leaf).expect("planned");
    let mut states: Vec<Option<StreamState>> = corpus.streams().iter().map(|_| None).collect();
    let backward = leaf.direction() == logsvc_logql::engine::Direction::Backward;
    let blocks: Box<dyn Iterator<Item = &corpus::Block>> =
        if backward { Box::new(corpus.blocks().rev()) } else { Box::new(corpus.blocks()) };
    for block in blocks {
        let summary = block.summary();
        if executor.is_done() || !executor.wants(summary.min_timestamp_ns, summary.max_timestamp_ns)
        {
            continue;
        }
        let state = states[block.stream]
            .get_or_insert_with(|| executor.stream(&corpus.streams()[block.stream]));
        if !block.has_metadata() && executor.summary(state, &summary) {
            continue;
        }
        let mut columns = block.columns();
        if !state.needs().metadata {
            columns.metadata = MetadataColumn::None;
        }
        executor.block(state, &columns);
    }
    executor.finish()
}
