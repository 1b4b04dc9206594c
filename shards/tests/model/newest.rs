//! The newest or the oldest lines of many streams: once as many are found as are asked for, few
//! lines of a sealed block count, and only these lines are put together.

use logsvc_logql::engine::testing::TestEntry;
use logsvc_logql::engine::{Direction, QueryParams};
use logsvc_runtime::sim::Simulation;
use logsvc_shards::shard::SealPolicy;
use logsvc_shards::wal::writer::WalConfig;

use crate::cluster::{Cluster, Upkeep};
use crate::data::{SECOND_NS, time};
use crate::life::Life;
use crate::queries::{Query, Tally, compare};

const START_NS: i64 = 1_795_000_000_123_456_789;
const STREAMS: usize = 8;
const ENTRIES: i64 = 400;
const STEP_NS: i64 = 1_700_000_000;

/// Lines with times and numbers, of which some say that something is slow.
fn entries() -> Vec<(usize, TestEntry)> {
    let entry = |number: i64| {
        let stream = (number * 31 % 97) as usize % STREAMS;
        // Some have equal times.
        let timestamp_ns = START_NS + number / 3 * STEP_NS;
        let what = if number % 5 == 0 { "slow" } else { "done" };
        let at = time(timestamp_ns);
        let (took, id, path) = (number % 89, number * 77, "/way".repeat(140));
        let line = format!("at={at} request {what} in {took} ms id={id:016x} path={path}");
        let metadata = match number % 4 {
            0 => vec![("trace".to_owned(), format!("{:08x}", number / 8))],
            _ => Vec::new(),
        };
        (stream, TestEntry { timestamp_ns, line: line.into_bytes(), metadata })
    };
    (0..ENTRIES * STREAMS as i64).map(entry).collect()
}

#[test]
fn the_newest_lines_of_many_streams_are_found_in_sealed_blocks() {
    let simulation = Simulation::new(1);
    let mut life = Life::new(&simulation, 1);
    let upkeep = Upkeep { cache_max_bytes: 0, ..SealPolicy::ON_REQUEST.into() };
    let cluster = Cluster::start_sealing(&simulation, 1, WalConfig::default(), upkeep)
        .expect("a healthy disk");
    // Blocks for each two of them, of the same times: more than are looked at together.
    for pair in 0..STREAMS / 2 {
        let of_pair = entries().into_iter().filter(|(stream, _)| stream / 2 == pair);
        assert!(life.push_entries(&cluster, of_pair.collect()));
        assert!(life.flush(&cluster, true));
    }
    let tenant = life.model.streams[0].definition.tenant.clone();
    let store = life.model.store(&tenant);
    let end_ns = START_NS + ENTRIES * STREAMS as i64 / 3 * STEP_NS;
    let third_ns = (end_ns - START_NS) / 3;
    let (mut filtered, mut unfiltered) = (Tally::default(), Tally::default());
    for filters in
        ["", "|= \"slow\"", "!= \"slow\"", "|= \"in 7 ms\"", "|= \"slow\" | trace != \"\""]
    {
        let tally = if filters.is_empty() { &mut unfiltered } else { &mut filtered };
        for limit in [1, 3, 10, 60, 1000] {
            for direction in [Direction::Backward, Direction::Forward] {
                for (from_ns, to_ns) in
                    [(START_NS, end_ns), (START_NS + third_ns + 1, end_ns - third_ns)]
                {
                    let range = QueryParams::range(from_ns, to_ns, SECOND_NS);
                    let params = QueryParams { limit, direction, ..range };
                    let text = format!("{{s=~\".+\"}} {filters}");
                    compare(&cluster, &tenant, &store, &Query { text, params }, tally);
                }
            }
        }
    }
    for tally in [filtered, unfiltered] {
        assert_eq!(tally.holes, 0);
        assert_eq!(tally.empty, 0);
        assert!(tally.stats.blocks_searched > 0, "{tally:?}");
    }
    cluster.stop().expect("a healthy disk");
}
