//! Entries of live segments are not replayed; all other entries are, exactly once.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use logsvc_runtime::CoreId;
use logsvc_runtime::sim::Simulation;
use logsvc_segment::batch::BatchBuilder;
use logsvc_shards::manifest::{ManifestEdit, ManifestLog};
use logsvc_shards::messages::AppendRequest;
use logsvc_shards::node::open_node;
use logsvc_shards::types::Part;
use logsvc_shards::wal::covers::Cover;
use logsvc_shards::wal::format::{BLOCK_LEN, WalName};
use logsvc_shards::wal::writer::WalConfig;

use crate::cluster::{Cluster, DATA_DIR, WAL_DIR, append_outcome, send_append, sleep};
use crate::ledger::Ledger;

const STREAMS: usize = 12;
const LINES: usize = 60;

fn config() -> WalConfig {
    WalConfig { file_max_bytes: 5 * BLOCK_LEN, ..WalConfig::default() }
}

/// Writes a log of two shards with several files each, and leaves it without a stop.
fn write(simulation: &Simulation, ledger: &Ledger) {
    let cluster = Cluster::start(simulation, 2, config()).expect("a healthy disk");
    for number in 0..LINES {
        let stream = &ledger.streams[number % STREAMS];
        let mut builder = BatchBuilder::new(Vec::new());
        builder.begin(stream.id);
        let line = format!("line {number}");
        let none = std::iter::empty::<(&str, &str)>();
        builder.push(number as i64, line.as_bytes(), none);
        let request = AppendRequest {
            batch: builder.finish(),
            definitions: vec![stream.clone()],
            out_of_order_window_ns: None,
            is_replayed: false,
        };
        let reply = send_append(&cluster.caller(0), cluster.layout.core_of(stream.id), request);
        let outcome = cluster.run(append_outcome(reply.expect("the lanes have room")));
        assert!(matches!(outcome, Some(Ok(_))), "{outcome:?}");
        let runtime = cluster.node.runtime(CoreId(0)).clone();
        cluster.run(async move { sleep(&runtime, Duration::from_millis(1)).await });
    }
    cluster.node.crash();
}

/// Which file holds each line. The harness's streams each have lines in several.
fn file_of_lines(simulation: &Simulation) -> Vec<WalName> {
    let mut files = vec![None; LINES];
    for path in simulation.disk().files(WAL_DIR) {
        let name = path.file_name().and_then(|name| WalName::parse(name.to_str()?));
        let Some(name) = name else { continue };
        let bytes = simulation.disk().read(&path).expect("it is there");
        for (number, file) in files.iter_mut().enumerate() {
            // Lines stand in front of the first byte of their timestamp.
            let line = [format!("line {number}").as_bytes(), &[number as u8, 0]].concat();
            if bytes.windows(line.len()).any(|window| window == line) {
                assert_eq!(file.replace(name), None, "line {number} is in two files");
            }
        }
    }
    files.into_iter().map(|file| file.expect("every line is in a file")).collect()
}

#[test]
fn covered_entries_are_passed_over() {
    for (by_shards, by_shard, up_to_index) in [(2, 1, 1), (3, 0, 2), (1, 0, 0), (7, 3, 9)] {
        for shards in [1, 2, 3] {
            let simulation = Simulation::new(11);
            let ledger = Ledger::new(&["acme"], STREAMS);
            write(&simulation, &ledger);
            let files = file_of_lines(&simulation);
            let last = files.iter().map(|file| file.index).max();
            assert!(last > Some(2), "few files: {last:?}");
            let covers: Vec<Cover> = (0..2)
                .map(|wal_shard| Cover {
                    wal_epoch: 0,
                    wal_shards: 2,
                    wal_shard,
                    up_to_index,
                    part: Part::one(by_shards, by_shard),
                })
                .collect();
            simulation.block_on(move |runtime| async move {
                let node = open_node(&runtime, Path::new(DATA_DIR)).await.expect("a healthy disk");
                let plan = &node.plan;
                let log = ManifestLog::new(runtime.clone(), &plan.segments_dir, plan.epoch, 0);
                let edit = ManifestEdit { covers, ..ManifestEdit::default() };
                log.append(&edit).await.expect("a healthy disk");
            });
            let is_covered = |number: &usize| {
                let stream = ledger.streams[number % STREAMS].id;
                files[*number].index <= up_to_index && stream.shard(by_shards) == by_shard
            };
            let expected: BTreeSet<String> =
                (0..LINES).filter(|n| !is_covered(n)).map(|n| format!("line {n}")).collect();
            assert!(expected.len() < LINES, "nothing is covered");
            let cluster = Cluster::start(&simulation, shards, config()).expect("a healthy disk");
            let streams = cluster.everything(&ledger.streams[0].tenant);
            let lines: Vec<String> = streams
                .iter()
                .flat_map(|stream| &stream.entries)
                .map(|entry| String::from_utf8(entry.line.to_vec()).expect("text"))
                .collect();
            let what = format!("{by_shard} of {by_shards} up to {up_to_index}, {shards} shards");
            assert_eq!(lines.len(), expected.len(), "{what}");
            assert_eq!(lines.into_iter().collect::<BTreeSet<_>>(), expected, "{what}");
            // A file that is covered whole was not even read.
            for path in simulation.disk().files(WAL_DIR) {
                let name = path.file_name().and_then(|name| WalName::parse(name.to_str()?));
                if let Some(name) = name.filter(|name| name.epoch == 0) {
                    let is_whole = by_shards == 1 && name.index <= up_to_index;
                    let is_own = (by_shards, u32::from(by_shard)) == (2, name.shard);
                    assert!(!(is_whole || is_own && name.index <= up_to_index), "{what}");
                }
            }
            cluster.node.crash();
        }
    }
}
