//! Retention and a wall clock that is wrong for a while, or when the node starts.

use std::time::Duration;

use logsvc_proto::TenantId;
use logsvc_runtime::sim::Simulation;
use logsvc_shards::compact::CompactionPolicy;
use logsvc_shards::retention::{RetentionPolicy, TenantPeriods};
use logsvc_shards::wal::writer::WalConfig;

use crate::cluster::{Cluster, DATA_DIR};
use crate::ledger::Ledger;
use crate::upkeep::{NOON_NS, answers, eager, flush, push, segment_count, upkeep, wait};

const HOUR_NS: i64 = 3_600_000_000_000;
const DAY_NS: i64 = 24 * HOUR_NS;
/// Many looks at the clock.
const SOME_TIME: Duration = Duration::from_secs(400);

struct Store {
    simulation: Simulation,
    ledger: Ledger,
    compaction: CompactionPolicy,
}

impl Store {
    fn new(compaction: CompactionPolicy) -> Store {
        let simulation = Simulation::new(11);
        simulation.set_unix_nanos(NOON_NS);
        Store { simulation, ledger: Ledger::new(&["acme"], 2), compaction }
    }

    fn tenant(&self) -> &TenantId {
        &self.ledger.streams[0].tenant
    }

    fn start(&self) -> Cluster<'_> {
        let periods = TenantPeriods { period_ns: Some(7 * DAY_NS), streams: Vec::new() };
        let retention = RetentionPolicy { periods: Some(periods), ..RetentionPolicy::default() };
        let upkeep = upkeep(self.compaction, retention);
        let started = Cluster::start_sealing(&self.simulation, 2, WalConfig::default(), upkeep);
        started.expect("a healthy disk")
    }

    /// Eleven entries of eleven hours, in segments of two days.
    fn fill(&self, cluster: &Cluster<'_>) -> Vec<String> {
        for hour in 0..11_i64 {
            let line = (NOON_NS - hour * 2 * HOUR_NS, format!("hour {hour}"), None);
            push(cluster, &self.ledger, hour as usize % 2, &[line]);
        }
        flush(cluster);
        answers(cluster, self.tenant())
    }

    /// Sets the clock, which began at noon, to the right time plus `by_ns`.
    fn set(&self, by_ns: i64) {
        let now_ns = self.simulation.now().0 as i64;
        self.simulation.set_unix_nanos(NOON_NS + now_ns + by_ns);
    }
}

#[test]
fn a_clock_that_jumps_for_a_while_removes_nothing() {
    for compaction in [CompactionPolicy::OFF, eager()] {
        for by_ns in [400 * DAY_NS, 8 * DAY_NS, -400 * DAY_NS] {
            let store = Store::new(compaction);
            let cluster = store.start();
            let before = store.fill(&cluster);
            for ahead in [Duration::from_millis(300), SOME_TIME, Duration::from_secs(3000)] {
                store.set(by_ns);
                // Merges drop expired entries, too.
                let line = (NOON_NS - 1, format!("while it is wrong, {ahead:?}"), None);
                push(&cluster, &store.ledger, 0, &[line]);
                flush(&cluster);
                wait(&cluster, ahead);
                store.set(0);
                wait(&cluster, SOME_TIME);
            }
            let after = answers(&cluster, store.tenant()).concat();
            for hour in 0..11 {
                let line = format!("hour {hour}");
                assert!(before.concat().contains(&line) && after.contains(&line), "{line}");
            }
            assert!(after.contains("while it is wrong, 300ms"), "{after}");
            cluster.stop().expect("a healthy disk");
        }
    }
}

#[test]
fn a_clock_that_stays_removes_in_the_end() {
    let store = Store::new(eager());
    let cluster = store.start();
    store.fill(&cluster);
    store.set(400 * DAY_NS);
    wait(&cluster, Duration::from_secs(3500));
    assert!(segment_count(&cluster) > 0);
    wait(&cluster, Duration::from_secs(300));
    assert_eq!(segment_count(&cluster), 0);
    cluster.stop().expect("a healthy disk");
}

#[test]
fn a_start_with_a_wrong_clock_removes_nothing() {
    let store = Store::new(eager());
    let cluster = store.start();
    let before = store.fill(&cluster);
    cluster.stop().expect("a healthy disk");
    // However often it starts with it.
    for _ in 0..3 {
        store.set(400 * DAY_NS);
        let cluster = store.start();
        wait(&cluster, SOME_TIME);
        assert_eq!(answers(&cluster, store.tenant()), before);
        cluster.stop().expect("a healthy disk");
    }
    // Without the looks of earlier starts, nothing is known of the time.
    assert!(store.simulation.disk().remove(format!("{DATA_DIR}/CLOCK")));
    let cluster = store.start();
    wait(&cluster, SOME_TIME);
    assert_eq!(answers(&cluster, store.tenant()), before);
    cluster.stop().expect("a healthy disk");
    // With the right one, retention goes on at once.
    let disk = store.simulation.disk();
    disk.write(
        format!("{DATA_DIR}/CLOCK"),
        format!("logsvc clock 1\n{}\n", NOON_NS + 8 * DAY_NS).as_bytes(),
    );
    store.simulation.set_unix_nanos(NOON_NS + 8 * DAY_NS);
    let cluster = store.start();
    wait(&cluster, SOME_TIME);
    assert_eq!(segment_count(&cluster), 0);
    cluster.stop().expect("a healthy disk");
}
