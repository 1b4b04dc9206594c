//! Promises that random faults rarely put to the test.

use std::time::Duration;

use logsvc_runtime::sim::{DiskOperation, Simulation};
use logsvc_segment::batch::BatchBuilder;
use logsvc_shards::messages::{AppendError, AppendOutcome, AppendRequest};
use logsvc_shards::wal::SyncPolicy;
use logsvc_shards::wal::writer::WalConfig;
use logsvc_testkit::seeds;

use crate::cluster::{Cluster, WAL_DIR, append_outcome, send_append};
use crate::ledger::Ledger;

fn push(cluster: &Cluster<'_>, ledger: &Ledger, line: &str) -> Result<AppendOutcome, AppendError> {
    let stream = &ledger.streams[0];
    let mut builder = BatchBuilder::new(Vec::new());
    builder.begin(stream.id);
    builder.push(1, line.as_bytes(), std::iter::empty::<(&str, &str)>());
    let request = AppendRequest {
        batch: builder.finish(),
        definitions: vec![stream.clone()],
        out_of_order_window_ns: None,
        is_replayed: false,
    };
    let shard = cluster.layout.core_of(stream.id);
    let reply = send_append(&cluster.caller(0), shard, request).expect("the lanes have room");
    cluster.run(append_outcome(reply)).expect("an answer")
}

fn lines(cluster: &Cluster<'_>, ledger: &Ledger) -> Vec<String> {
    let streams = cluster.everything(&ledger.streams[0].tenant);
    let entries = streams.iter().flat_map(|stream| &stream.entries);
    entries.map(|entry| String::from_utf8_lossy(&entry.line).into_owned()).collect()
}

fn unsynced() -> WalConfig {
    WalConfig { sync: SyncPolicy::Interval(Duration::from_secs(3600)), ..WalConfig::default() }
}

#[test]
fn a_file_given_up_after_a_failed_write_is_synced() {
    for seed in seeds(30) {
        let simulation = Simulation::new(seed);
        let ledger = Ledger::new(&["acme"], 1);
        let cluster = Cluster::start(&simulation, 2, unsynced()).expect("a healthy disk");
        assert!(push(&cluster, &ledger, "acknowledged").is_ok());
        simulation.disk().fail_next(DiskOperation::Write, WAL_DIR, 1);
        assert!(matches!(push(&cluster, &ledger, "failed"), Err(AppendError::Disk(_))));
        cluster.node.power_off();
        let cluster = Cluster::start(&simulation, 2, unsynced()).expect("a healthy disk");
        assert_eq!(lines(&cluster, &ledger)[..1], ["acknowledged"], "seed {seed}");
    }
}

#[test]
fn what_a_start_has_replayed_is_durable() {
    for seed in seeds(30) {
        let simulation = Simulation::new(seed);
        let ledger = Ledger::new(&["acme"], 1);
        let cluster = Cluster::start(&simulation, 2, unsynced()).expect("a healthy disk");
        assert!(push(&cluster, &ledger, "acknowledged").is_ok());
        cluster.node.crash();
        let cluster = Cluster::start(&simulation, 1, unsynced()).expect("a healthy disk");
        assert_eq!(lines(&cluster, &ledger), ["acknowledged"]);
        cluster.node.power_off();
        let cluster = Cluster::start(&simulation, 3, unsynced()).expect("a healthy disk");
        assert_eq!(lines(&cluster, &ledger), ["acknowledged"], "seed {seed}");
    }
}

#[test]
fn what_a_start_has_replayed_of_a_failed_commit_is_durable() {
    let mut shown = 0;
    for seed in seeds(30) {
        let simulation = Simulation::new(seed);
        let ledger = Ledger::new(&["acme"], 1);
        let cluster = Cluster::start(&simulation, 2, WalConfig::default()).expect("a healthy disk");
        assert!(push(&cluster, &ledger, "acknowledged").is_ok());
        // The bytes are in the page cache but not on the disk, and no later sync of
        // theirs brings them there.
        simulation.disk().fail_next(DiskOperation::Sync, WAL_DIR, 1);
        assert!(matches!(push(&cluster, &ledger, "doubtful"), Err(AppendError::Disk(_))));
        cluster.node.crash();
        let cluster = Cluster::start(&simulation, 1, WalConfig::default()).expect("a healthy disk");
        let first = lines(&cluster, &ledger);
        shown += usize::from(first.len() == 2);
        cluster.node.power_off();
        let cluster = Cluster::start(&simulation, 3, WalConfig::default()).expect("a healthy disk");
        assert_eq!(lines(&cluster, &ledger), first, "seed {seed}");
    }
    assert!(shown > 0, "no start has shown the entry whose commit failed");
}

#[test]
fn a_second_process_is_kept_out_and_another_format_refused() {
    let simulation = Simulation::new(1);
    let first = Cluster::start(&simulation, 1, unsynced()).expect("a healthy disk");
    let second = Cluster::start(&simulation, 1, unsynced()).err().expect("one at a time");
    assert!(second.contains("in use"), "{second}");
    first.stop().expect("a healthy disk");
    simulation.disk().write("/srv/data/FORMAT", b"logsvc 2\n");
    let other = Cluster::start(&simulation, 1, unsynced()).err().expect("another format");
    assert!(other.contains("\"logsvc 2\""), "{other}");
    simulation.disk().write("/srv/data/FORMAT", b"logsvc 1\n");
    Cluster::start(&simulation, 1, unsynced()).expect("ours again").stop().expect("in order");
}
