//! Counts of segments whose blocks have streams of both kinds: some are answered from their totals,
//! others repeat entries of an earlier segment and are left to the block.

use logsvc_logql::engine::QueryParams;
use logsvc_logql::engine::testing::TestEntry;
use logsvc_proto::{Labels, TenantId};
use logsvc_runtime::sim::Simulation;
use logsvc_shards::shard::SealPolicy;
use logsvc_shards::wal::writer::WalConfig;

use crate::cluster::Cluster;
use crate::data::SECOND_NS;
use crate::life::Life;
use crate::naive::Model;
use crate::queries::{Query, Tally, compare};

const START_NS: i64 = 1_795_000_000_000_000_000;
const STREAMS: usize = 5;
const ENTRIES: i64 = 40;

fn model(tenant: &TenantId) -> Model {
    let mut model = Model::default();
    for number in 0..STREAMS {
        let number = number.to_string();
        let labels = Labels::from_pairs([("app", "m"), ("s", &number)]).expect("valid labels");
        model.add(tenant, labels);
    }
    model
}

/// An entry a second of each stream that `is_wanted`.
fn entries(seconds: std::ops::Range<i64>, is_wanted: fn(usize) -> bool) -> Vec<(usize, TestEntry)> {
    let entry = |second: i64, stream: usize| {
        let timestamp_ns = START_NS + second * SECOND_NS;
        let line = format!("line {second} of {stream}").into_bytes();
        (stream, TestEntry { timestamp_ns, line, metadata: Vec::new() })
    };
    let streams = || (0..STREAMS).filter(|stream| is_wanted(*stream));
    seconds.flat_map(|second| streams().map(move |stream| entry(second, stream))).collect()
}

#[test]
fn a_block_counts_only_the_streams_that_totals_leave() {
    let simulation = Simulation::new(1);
    let mut life = Life::new(&simulation, 1);
    let tenant = TenantId::new("one").expect("a tenant id");
    life.model = model(&tenant);
    let cluster =
        Cluster::start_sealing(&simulation, 1, WalConfig::default(), SealPolicy::ON_REQUEST)
            .expect("a healthy disk");
    assert!(life.push_entries(&cluster, entries(0..ENTRIES, |_| true)));
    assert!(life.flush(&cluster, true));
    // Two of the streams repeat entries, the others go on.
    assert!(
        life.push_entries(&cluster, entries(ENTRIES / 2..2 * ENTRIES, |stream| stream % 2 == 1))
    );
    assert!(life.push_entries(&cluster, entries(ENTRIES..2 * ENTRIES, |stream| stream % 2 == 0)));
    assert!(life.flush(&cluster, true));

    let store = life.model.store(&tenant);
    let end_ns = START_NS + 2 * ENTRIES * SECOND_NS;
    let mut tally = Tally::default();
    for function in ["count_over_time", "rate", "bytes_over_time", "bytes_rate"] {
        // Windows that see all of both segments, all of one of them, and less than one.
        for (range_seconds, step_seconds) in [(200, 200), (ENTRIES, ENTRIES), (15, 15), (15, 7)] {
            for selector in [r#"{app="m"}"#, r#"{s=~"1|2"}"#, r#"{s="4"}"#] {
                for grouping in ["s", "app"] {
                    let range = format!("{function}({selector} [{range_seconds}s])");
                    let text = format!("sum by ({grouping}) ({range})");
                    let step_ns = step_seconds * SECOND_NS;
                    let params = QueryParams::range(START_NS + step_ns, end_ns + step_ns, step_ns);
                    compare(&cluster, &tenant, &store, &Query { text, params }, &mut tally);
                }
            }
        }
    }
    assert_eq!((tally.holes, tally.empty), (0, 0));
    cluster.stop().expect("a healthy disk");
}
