//! Sealed lines with times in them, which take the timestamps to be put together: read as a
//! whole, and searched in parts for texts that lie within a time or across its ends.

use logsvc_logql::engine::QueryParams;
use logsvc_logql::engine::testing::TestEntry;
use logsvc_runtime::sim::Simulation;
use logsvc_shards::shard::SealPolicy;
use logsvc_shards::wal::writer::WalConfig;

use crate::cluster::{Cluster, Upkeep};
use crate::data::{SECOND_NS, time};
use crate::life::Life;
use crate::queries::{Query, Tally, compare};

const START_NS: i64 = 1_795_000_000_123_456_789;
const ENTRIES: i64 = 900;
const STEP_NS: i64 = 1_700_000_000;

/// Lines of which one in so many has a time; the others have a word in its place.
fn entries(timed_one_in: i64) -> Vec<(usize, TestEntry)> {
    let entry = |number: i64| {
        let timestamp_ns = START_NS + number * STEP_NS;
        let at = match number % timed_one_in {
            0 => time(timestamp_ns),
            _ => "unknown".to_owned(),
        };
        let line = format!("level=info at={at} took={} ms id={:016x}", number % 97, number * 7919);
        (0, TestEntry { timestamp_ns, line: line.into_bytes(), metadata: Vec::new() })
    };
    (0..ENTRIES).map(entry).collect()
}

#[test]
fn texts_within_and_across_times_are_found_in_sealed_blocks() {
    // Where one line in five has a time, only these lines are looked at; where all have, all are
    // read.
    for timed_one_in in [1, 5] {
        let simulation = Simulation::new(1);
        let mut life = Life::new(&simulation, 1);
        // Lines that are in the cache as a whole are not searched in parts.
        let upkeep = Upkeep { cache_max_bytes: 0, ..SealPolicy::ON_REQUEST.into() };
        let cluster = Cluster::start_sealing(&simulation, 1, WalConfig::default(), upkeep)
            .expect("a healthy disk");
        assert!(life.push_entries(&cluster, entries(timed_one_in)));
        assert!(life.flush(&cluster, true));
        let tenant = life.model.streams[0].definition.tenant.clone();
        let store = life.model.store(&tenant);
        let end_ns = START_NS + ENTRIES * STEP_NS;
        let mut tally = Tally::default();
        for text in [":0", "T1", "26-11-", "18:0", "8:05", "at=2026", "1.1", "3Z took=5", "=2026-1"]
        {
            for filters in [
                format!(r#"|= "{text}""#),
                format!(r#"!= "{text}""#),
                format!(r#"|= "{text}" |= "info""#),
                format!(r#"|~ "(?i){text}""#),
            ] {
                let count = format!("sum(count_over_time({{s=\"0\"}} {filters} [1h]))");
                let lines = format!("{{s=\"0\"}} {filters}");
                for (text, params) in [
                    (count, QueryParams::range(end_ns, end_ns, SECOND_NS)),
                    (lines, QueryParams::range(START_NS, end_ns, SECOND_NS)),
                ] {
                    compare(&cluster, &tenant, &store, &Query { text, params }, &mut tally);
                }
            }
        }
        assert_eq!(tally.holes, 0);
        assert!(tally.empty < tally.queries / 2, "{tally:?}");
        assert!(timed_one_in == 1 || tally.stats.blocks_searched > 0, "{tally:?}");
        cluster.stop().expect("a healthy disk");
    }
}
