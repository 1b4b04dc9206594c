//! A store whose manifest has lost its end, or files: every line is answered, and once.

use std::path::{Path, PathBuf};
use std::time::Duration;

use logsvc_logql::engine::{QueryParams, QueryTime};
use logsvc_runtime::sim::Simulation;
use logsvc_shards::check::check_store;
use logsvc_shards::compact::CompactionPolicy;
use logsvc_shards::retention::RetentionPolicy;
use logsvc_shards::wal::writer::WalConfig;
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::checkpoint::{Checkpoint, seal};
use crate::cluster::{Cluster, DATA_DIR, SEGMENTS_DIR};
use crate::ledger::Ledger;
use crate::upkeep::{NOON_NS, ask, eager, flush, push, upkeep, wait};

fn start<'s>(simulation: &'s Simulation, shards: u16, compaction: CompactionPolicy) -> Cluster<'s> {
    let upkeep = upkeep(compaction, RetentionPolicy::default());
    let started = Cluster::start_sealing(simulation, shards, WalConfig::default(), upkeep);
    started.expect("a healthy disk")
}

/// Files of the manifest.
fn manifest(simulation: &Simulation) -> Vec<PathBuf> {
    let files = simulation.disk().files(SEGMENTS_DIR).into_iter();
    files.filter(|path| path.parent() == Some(Path::new(SEGMENTS_DIR))).collect()
}

/// Cuts a file, zeroes a sector at its end, or removes it.
fn damage(simulation: &Simulation, rng: &mut Rng, path: &Path) {
    let disk = simulation.disk();
    let bytes = disk.read(path).expect("it is there");
    match rng.below(3) {
        0 => {
            let len = rng.below(bytes.len() as u64) as usize;
            disk.write(path, &bytes[..len]);
        }
        1 => {
            let sectors = bytes.len().div_ceil(512) as u64;
            let first = (sectors - 1 - rng.below(sectors.min(3))) as usize * 512;
            let zeroed = [&bytes[..first], &vec![0; bytes.len() - first]].concat();
            disk.write(path, &zeroed);
        }
        _ => assert!(disk.remove(path)),
    }
}

#[test]
fn a_manifest_that_has_lost_something_answers_every_line_once() {
    let (mut adopted, mut cases) = (0, 0);
    for seed in seeds(150) {
        let _guard = SeedGuard(seed);
        let simulation = Simulation::new(seed);
        let mut rng = Rng::new(seed);
        let ledger = Ledger::new(&["acme"], 5);
        let tenant = ledger.streams[0].tenant.clone();
        let mut lines = Vec::new();
        for round in 0..rng.between(1, 3) {
            let compaction = if rng.one_in(3) { CompactionPolicy::OFF } else { eager() };
            let cluster = start(&simulation, rng.between(1, 3) as u16, compaction);
            for push_number in 0..rng.between(2, 14) {
                let stream = rng.below(5) as usize;
                // Many of one time, late ones, and other days.
                let at_ns = NOON_NS
                    + rng.below(4) as i64 * 1_000
                    + rng.below(2) as i64 * 86_400_000_000_000;
                let line = format!("<{round} {push_number}>");
                push(&cluster, &ledger, stream, &[(at_ns, line.clone(), None)]);
                lines.push(line);
                if rng.one_in(2) {
                    flush(&cluster);
                }
                if rng.one_in(3) {
                    wait(&cluster, Duration::from_secs(rng.below(130)));
                }
            }
            if rng.one_in(4) {
                cluster.stop().expect("a healthy disk");
            } else if rng.one_in(2) {
                cluster.node.crash();
            } else {
                cluster.node.power_off();
            }
        }
        for path in manifest(&simulation) {
            if rng.one_in(2) {
                damage(&simulation, &mut rng, &path);
            }
        }
        let report = simulation.block_on(|runtime| async move {
            check_store(&runtime, Path::new(DATA_DIR)).await.expect("a store")
        });
        let shards = rng.between(1, 3) as u16;
        for round in 0..3 {
            let cluster = start(&simulation, shards, eager());
            if round > 0 {
                wait(&cluster, Duration::from_secs(200));
            }
            let found = cluster.plan().manifest;
            if round == 0 {
                adopted += found.adopted_segments;
                cases += 1;
                assert!(found.adopted_segments == 0 || report.damaged_places() > 0);
                assert_eq!(found.unreadable_segments, 0);
            } else {
                assert_eq!(found.adopted_segments, 0, "mended");
                assert_eq!(found.damage, [], "mended");
            }
            let time = QueryTime::Range { start_ns: i64::MIN, end_ns: i64::MAX, step_ns: 1 };
            let params = QueryParams { limit: 1 << 20, ..QueryParams::new(time) };
            let answer = ask(&cluster, &tenant, r#"{app="crash"}"#, &params);
            for line in &lines {
                assert_eq!(answer.matches(line.as_str()).count(), 1, "{line} in\n{answer}");
            }
            cluster.stop().expect("a healthy disk");
        }
        // Nothing that could be read is gone or out of reach.
        let kept = simulation.disk().files(Path::new(SEGMENTS_DIR).join("quarantine"));
        assert!(
            kept.iter().all(|path| path.extension().is_none_or(|end| end != "seg")),
            "{kept:?}"
        );
    }
    assert!(cases < 150 || adopted > 100, "{adopted} in {cases}");
}

#[test]
fn a_segment_of_a_newer_version_keeps_the_node_down_and_stays_as_it_is() {
    let simulation = Simulation::new(3);
    let ledger = Ledger::new(&["acme"], 2);
    let cluster = start(&simulation, 2, CompactionPolicy::OFF);
    for stream in 0..2 {
        push(&cluster, &ledger, stream, &[(NOON_NS, "text".to_owned(), None)]);
    }
    flush(&cluster);
    cluster.stop().expect("a healthy disk");
    // This one makes a checkpoint of what there is.
    start(&simulation, 2, CompactionPolicy::OFF).stop().expect("a healthy disk");
    let disk = simulation.disk();
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "seg");
    let path = disk.files(SEGMENTS_DIR).into_iter().find(is_segment).expect("a segment");
    let bytes = disk.read(&path).expect("it is there");
    let mut newer = bytes.clone();
    let footer = newer.len() - 160;
    newer[footer + 8] = u8::MAX;
    seal(&mut newer[footer..]);
    disk.write(&path, &newer);
    // The program that wrote the segment repeats its footer in the manifest.
    let mut checkpoint = Checkpoint::read(disk);
    let mut footers = checkpoint.footers().into_iter();
    let repeated = footers.find(|repeated| **repeated == bytes[footer..]).expect("a footer");
    repeated.copy_from_slice(&newer[footer..]);
    checkpoint.write(disk);
    let upkeep = upkeep(eager(), RetentionPolicy::default());
    let started = Cluster::start_sealing(&simulation, 2, WalConfig::default(), upkeep);
    let failure = started.err().expect("it cannot start");
    assert!(failure.contains("written by a newer version of logsvc"), "{failure}");
    assert!(failure.contains("storage.ignore_unknown_versions"), "{failure}");
    assert_eq!(disk.read(&path), Some(newer));
    // A start that can read it finds everything.
    disk.write(&path, &bytes);
    let cluster = start(&simulation, 2, eager());
    assert_eq!(cluster.plan().manifest.damage, []);
    cluster.stop().expect("a healthy disk");
}
