//! A node that starts with another number of shards takes the entries that it finds into segments
//! of its own, and no answer changes on the way.

use std::path::Path;
use std::time::Duration;

use logsvc_proto::TenantId;
use logsvc_runtime::sim::Simulation;
use logsvc_shards::check::check_store;
use logsvc_shards::compact::CompactionPolicy;
use logsvc_shards::manifest::SegmentName;
use logsvc_shards::retention::RetentionPolicy;
use logsvc_shards::wal::writer::WalConfig;
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::cluster::{Cluster, DATA_DIR, SEGMENTS_DIR, Upkeep};
use crate::ledger::Ledger;
use crate::upkeep::{
    Line, NOON_NS, answers, check_answers, eager, file_count, flush, maintenance, push, upkeep,
    wait,
};

const STREAMS: usize = 10;

/// So few at once that merged segments stand beside old ones for a while.
fn merging(rng: &mut Rng) -> Upkeep {
    let compaction = CompactionPolicy { max_inputs: rng.between(2, 6) as usize, ..eager() };
    upkeep(compaction, RetentionPolicy::default())
}

fn keeping() -> Upkeep {
    upkeep(CompactionPolicy::OFF, RetentionPolicy::default())
}

fn start<'s>(simulation: &'s Simulation, shards: u16, upkeep: Upkeep) -> Cluster<'s> {
    let started = Cluster::start_sealing(simulation, shards, WalConfig::default(), upkeep);
    started.expect("a healthy disk")
}

/// Entries for all streams, with ties, late ones and repetitions, in segments of each shard
/// that has streams.
fn fill(cluster: &Cluster<'_>, ledger: &Ledger, rng: &mut Rng, segments: u64) {
    for _ in 0..segments {
        for stream in 0..STREAMS {
            let count = 1 + rng.below(12);
            let line = |_| {
                let timestamp_ns = NOON_NS + rng.below(20) as i64;
                let line = format!("line {}", rng.below(12));
                (timestamp_ns, line, rng.one_in(3).then(|| rng.below(4)))
            };
            let lines: Vec<Line> = (0..count).map(line).collect();
            push(cluster, ledger, stream, &lines);
        }
        flush(cluster);
    }
}

/// Segment files that were written with another number of shards.
fn foreign_files(simulation: &Simulation, shards: u16) -> Vec<SegmentName> {
    let files = simulation.disk().files(SEGMENTS_DIR);
    let names = files.iter().filter_map(|path| path.file_name()?.to_str());
    let names = names.filter_map(SegmentName::parse);
    names.filter(|name| name.shards != u32::from(shards)).collect()
}

/// Merging that is interrupted, with some number of shards. Gives how many segments a check
/// has found that some of their streams have left.
fn stumble(simulation: &Simulation, rng: &mut Rng) -> u64 {
    let mut left_segments = 0;
    while rng.one_in(2) {
        let shards = rng.between(1, 4) as u16;
        let upkeep = merging(rng);
        let cluster = Cluster::launch(simulation, shards, WalConfig::default(), upkeep);
        for _ in 0..rng.below(3_000) {
            simulation.step();
        }
        if rng.one_in(2) {
            cluster.node.crash();
        } else {
            cluster.node.power_off();
        }
        let report = simulation.block_on(|runtime| async move {
            check_store(&runtime, Path::new(DATA_DIR)).await.expect("a store")
        });
        assert_eq!(report.damaged_places(), 0, "{:#?}", report.findings);
        assert!(report.left_entries <= report.segment_entries);
        left_segments += report.left_segments;
    }
    left_segments
}

fn check(cluster: &Cluster<'_>, tenant: &TenantId, before: &[String]) {
    check_answers(&answers(cluster, tenant), before);
}

#[test]
fn segments_of_another_number_of_shards_are_merged_and_no_answer_changes() {
    let (mut dropped_entries, mut left_segments) = (0, 0);
    for seed in seeds(12) {
        let _guard = SeedGuard(seed);
        let simulation = Simulation::new(seed);
        let mut rng = Rng::new(seed);
        let ledger = Ledger::new(&["acme"], STREAMS);
        let tenant = ledger.streams[0].tenant.clone();
        let path = match rng.below(3) {
            0 => vec![1, 2, 4, 2],
            1 => vec![4, 1, 3],
            _ => (0..3).map(|_| rng.between(1, 4) as u16).collect(),
        };
        let mut before: Option<Vec<String>> = None;
        for shards in path {
            if before.is_some() {
                left_segments += stumble(&simulation, &mut rng);
            }
            // Whatever of them was interrupted, or goes on meanwhile.
            if rng.one_in(2) {
                let cluster = start(&simulation, rng.between(1, 4) as u16, keeping());
                before.iter().for_each(|before| check(&cluster, &tenant, before));
                cluster.stop().expect("a healthy disk");
            }
            let cluster = start(&simulation, shards, merging(&mut rng));
            before.iter().for_each(|before| check(&cluster, &tenant, before));
            fill(&cluster, &ledger, &mut rng, 1 + u64::from(before.is_none()));
            let full = answers(&cluster, &tenant);
            wait(&cluster, Duration::from_secs(2));
            check(&cluster, &tenant, &full);
            assert_eq!(foreign_files(&simulation, shards), []);
            assert!(file_count(&simulation) <= usize::from(shards));
            let done = maintenance(&cluster);
            assert_eq!((done.failures, done.retired_segments), (0, 0), "{done:?}");
            dropped_entries += done.dropped_entries;
            if rng.one_in(2) {
                // Some that are not merged yet.
                cluster.stop().expect("a healthy disk");
                let cluster = start(&simulation, shards, keeping());
                let segments = rng.between(2, 5);
                fill(&cluster, &ledger, &mut rng, segments);
                before = Some(answers(&cluster, &tenant));
                cluster.stop().expect("a healthy disk");
            } else {
                before = Some(full);
                cluster.stop().expect("a healthy disk");
            }
        }
    }
    assert!(left_segments > 0, "merging was interrupted when some shards had not begun");
    assert!(dropped_entries > 0, "entries were pushed again after they were sealed");
}
