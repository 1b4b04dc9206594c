//! Random pushes, random faults, random deaths; acknowledged entries must be there afterwards,
//! exactly once and in order, and no refused entry.
//!
//! `LOGSVC_SEED` replays one seed, `LOGSVC_SEEDS` sets their number.

use std::time::Duration;

use logsvc_runtime::sim::{DiskOperation, FaultRates, Simulation};
use logsvc_shards::compact::{CompactionPolicy, DraftPolicy};
use logsvc_shards::shard::SealPolicy;
use logsvc_shards::wal::SyncPolicy;
use logsvc_shards::wal::writer::WalConfig;
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::cluster::{Cluster, DATA_DIR, SEGMENTS_DIR, Upkeep, WAL_DIR};
use crate::ledger::Ledger;
use crate::load::Load;

/// The fault of the disk while clients push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// The next so many operations of a kind.
    Next(DiskOperation, u64),
    /// Any write, sync or other operation, by chance.
    Rates,
    /// No space.
    Full,
}

/// How a start ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Stop,
    /// In order, and the power goes afterwards.
    StopAndPowerLoss,
    Kill,
    PowerLoss,
}

struct Life<'s> {
    rng: Rng,
    simulation: &'s Simulation,
    load: std::rc::Rc<Load>,
    /// Whether all starts so far ran with `wal.sync = always`.
    always_synced: bool,
    /// Whether the folder has been claimed once.
    is_set_up: bool,
}

const FULL: u64 = 1 << 40;

impl Life<'_> {
    fn random_fault(&mut self) -> Fault {
        let operations = [
            DiskOperation::Sync,
            DiskOperation::Sync,
            DiskOperation::Write,
            DiskOperation::Write,
            DiskOperation::Open,
            DiskOperation::SyncDir,
            DiskOperation::Remove,
        ];
        match self.rng.below(8) {
            0..3 => Fault::None,
            3 => Fault::Rates,
            4 => Fault::Full,
            _ => Fault::Next(*self.rng.pick(&operations), self.rng.between(1, 4)),
        }
    }

    fn random_policy(&mut self) -> SyncPolicy {
        match self.rng.below(10) {
            0 => SyncPolicy::Never,
            1 => SyncPolicy::Interval(Duration::from_millis(self.rng.between(1, 20))),
            _ => SyncPolicy::Always,
        }
    }

    fn random_upkeep(&mut self) -> Upkeep {
        let upkeep = Upkeep::from(self.random_seal());
        let upkeep = upkeep.with_some_partitions(self.simulation);
        let rng = &mut self.rng;
        if rng.one_in(4) {
            return upkeep;
        }
        let compaction = CompactionPolicy {
            max_runs: 1 << 22,
            enabled: true,
            min_inputs: if rng.one_in(4) { 3 } else { 2 },
            min_last_inputs: 2,
            max_inputs: rng.between(4, 8) as usize,
            target_line_bytes: rng.between(1 << 13, 1 << 20),
            small_line_bytes: rng.between(100, 100_000),
            min_bundled: rng.between(1, 4) as usize,
            max_bundled: rng.between(2, 6) as usize,
            max_bundled_blocks: rng.between(1, 100),
            drafts: rng.one_in(2).then(|| DraftPolicy {
                fast: *rng.pick(&[Duration::ZERO, Duration::from_millis(1), Duration::MAX]),
                fill_max: Duration::MAX,
                max_line_bytes: *rng.pick(&[5_000, 1 << 40]),
                quiet: Duration::from_micros(rng.between(10, 20_000)),
            }),
            retry_pause: Duration::from_micros(rng.between(100, 5_000)),
            check_interval: Duration::from_secs(1),
        };
        Upkeep { compaction, ..upkeep }
    }

    fn random_seal(&mut self) -> SealPolicy {
        let rng = &mut self.rng;
        match rng.below(4) {
            0 => SealPolicy { on_stop: rng.one_in(2), ..SealPolicy::ON_REQUEST },
            1 => SealPolicy {
                max_age: Duration::from_micros(rng.between(200, 5_000)),
                on_stop: rng.one_in(2),
                ..SealPolicy::ON_REQUEST
            },
            _ => SealPolicy {
                head_max_bytes: rng.between(100, 4_000),
                wal_max_bytes: rng.between(1_000, 20_000),
                on_stop: rng.one_in(2),
                ..SealPolicy::ON_REQUEST
            },
        }
    }

    fn arm(&mut self, fault: Fault) {
        let disk = self.simulation.disk();
        match fault {
            Fault::None => {}
            Fault::Next(operation, count) => {
                let folder = *self.rng.pick(&[WAL_DIR, DATA_DIR, SEGMENTS_DIR]);
                disk.fail_next(operation, folder, count);
            }
            Fault::Rates => disk.set_fault_rates(FaultRates {
                reads_per_million: 0,
                writes_per_million: 100_000,
                syncs_per_million: 100_000,
                others_per_million: 100_000,
            }),
            Fault::Full => disk.set_capacity_bytes(disk.used_bytes() + self.rng.below(6_000)),
        }
    }

    fn disarm(&self) {
        self.simulation.disk().clear_faults();
        self.simulation.disk().set_capacity_bytes(FULL);
    }

    /// Lets recovery be interrupted or fail some times before it may succeed.
    fn stumble(&mut self, wal: WalConfig, upkeep: &Upkeep) {
        while self.rng.one_in(4) {
            let shards = self.rng.between(1, 4) as u16;
            if self.rng.one_in(2) {
                let cluster = Cluster::launch(self.simulation, shards, wal, upkeep.clone());
                for _ in 0..self.rng.below(400) {
                    self.simulation.step();
                }
                if self.rng.one_in(2) {
                    cluster.node.crash();
                } else {
                    cluster.node.power_off();
                    self.load.ledger.borrow_mut().node_ended(|_| true);
                }
                continue;
            }
            let operations = [
                DiskOperation::Read,
                DiskOperation::Sync,
                DiskOperation::Open,
                DiskOperation::Resize,
                DiskOperation::SyncDir,
                DiskOperation::ReadDir,
            ];
            let operation = *self.rng.pick(&operations);
            self.simulation.disk().fail_next(operation, DATA_DIR, self.rng.between(1, 3));
            let started = Cluster::start_sealing(self.simulation, shards, wal, upkeep.clone());
            self.disarm();
            if let Ok(cluster) = started {
                self.is_set_up = true;
                self.load.check(&cluster);
                cluster.node.crash();
            }
            if operation == DiskOperation::Sync {
                // A failed sync may lose bytes that only the page cache had.
                self.load.ledger.borrow_mut().node_ended(|_| true);
            }
        }
    }

    fn start(&mut self, wal: WalConfig, upkeep: &Upkeep) -> Cluster<'_> {
        self.stumble(wal, upkeep);
        let simulation = self.simulation;
        let is_full = self.is_set_up && self.rng.one_in(8);
        if is_full {
            // Reads must go on, so the node must come up.
            simulation.disk().set_capacity_bytes(simulation.disk().used_bytes());
        }
        let shards = *self.rng.pick(&[1, 2, 3, 4]);
        let cluster = Cluster::start_sealing(simulation, shards, wal, upkeep.clone())
            .unwrap_or_else(|failure| panic!("the node does not start: {failure}"));
        self.is_set_up = true;
        let found = cluster.recovery();
        if self.always_synced {
            assert_eq!(found.damaged_places, 0, "{found:?}");
            assert_eq!(found.unsynced_holes, 0, "{found:?}");
        }
        self.load.check(&cluster);
        if is_full {
            simulation.disk().set_capacity_bytes(FULL);
        }
        self.load.ledger.borrow_mut().all_durable();
        cluster
    }

    /// One start of the node, from recovery to its end.
    fn round(&mut self) {
        let policy = self.random_policy();
        let wal = WalConfig {
            sync: policy,
            file_max_bytes: self.rng.between(300, 40_000),
            waiting_max_bytes: self.rng.between(1_000, 1 << 20) as usize,
        };
        let upkeep = self.random_upkeep();
        let fault = self.random_fault();
        let end = match self.rng.below(8) {
            0 => End::Stop,
            1 => End::StopAndPowerLoss,
            2..5 => End::Kill,
            _ => End::PowerLoss,
        };
        let clients = self.rng.between(1, 6);
        let before = Duration::from_micros(self.rng.below(12_000));
        let during = Duration::from_micros(self.rng.between(500, 12_000));
        let is_repaired = self.rng.one_in(2);
        let load = std::rc::Rc::clone(&self.load);
        let simulation = self.simulation;
        let always_synced = self.always_synced && policy == SyncPolicy::Always;

        // The borrow of `self` ends with the cluster, so faults are drawn before.
        let mut rng = self.rng.clone();
        let cluster = self.start(wal, &upkeep);
        let mut side = Life {
            rng: rng.clone(),
            simulation,
            load: load.clone(),
            always_synced,
            is_set_up: true,
        };
        load.acknowledgement_is_durable.set(policy == SyncPolicy::Always);
        load.begin(&cluster, clients);
        simulation.run_for(before);
        side.arm(fault);
        simulation.run_for(during);
        if upkeep.compaction.enabled && rng.one_in(3) {
            // Merges take their time, and a merge that begins here may be cut short below.
            load.end(&cluster);
            simulation.run_for(Duration::from_micros(rng.below(150_000)));
        }
        let statuses = cluster.statuses();
        let merges = statuses.iter().map(|status| status.seal.maintenance.merges);
        load.merges.set(load.merges.get() + merges.sum::<u64>());
        if fault != Fault::None && is_repaired {
            side.disarm();
            if rng.one_in(2) {
                load.end(&cluster);
                load.prove_writable(&cluster);
                load.check(&cluster);
                load.begin(&cluster, clients);
                simulation.run_for(Duration::from_micros(rng.below(8_000)));
            } else {
                load.prove_writable(&cluster);
            }
        }
        let now_ns = simulation.now().0;
        let is_in_order = matches!(end, End::Stop | End::StopAndPowerLoss);
        let mut stopped_well = false;
        if is_in_order {
            load.end(&cluster);
            load.check(&cluster);
            let stopped = cluster.stop();
            stopped_well = stopped.is_ok();
            assert!(stopped_well || fault != Fault::None, "{stopped:?}");
        } else if end == End::Kill {
            cluster.node.crash();
        } else {
            cluster.node.power_off();
        }
        load.killed();
        side.disarm();
        let loses_power = matches!(end, End::PowerLoss | End::StopAndPowerLoss);
        if end == End::StopAndPowerLoss {
            simulation.disk().power_loss();
        }
        let mut ledger = load.ledger.borrow_mut();
        if policy != SyncPolicy::Always && stopped_well && fault == Fault::None {
            ledger.all_durable();
        }
        ledger.node_ended(|acknowledged_at_ns| {
            // Where syncs fail, not even the page cache keeps unsynced bytes.
            if fault != Fault::None {
                return true;
            }
            match policy {
                SyncPolicy::Always => unreachable!("an acknowledgement is durable"),
                SyncPolicy::Never => loses_power,
                SyncPolicy::Interval(interval) => {
                    // A sync may wait for a slow one before it, and for a stall.
                    let latest = interval + Duration::from_millis(200);
                    loses_power && acknowledged_at_ns + latest.as_nanos() as u64 > now_ns
                }
            }
        });
        drop(ledger);
        self.rng = Rng::new(rng.next_u64());
        self.always_synced = always_synced;
        self.is_set_up = true;
    }
}

/// Acknowledged pushes, others, segments at the end, and merges.
fn live(seed: u64) -> [u64; 4] {
    let _guard = SeedGuard(seed);
    let simulation = Simulation::new(seed);
    let mut rng = Rng::new(seed);
    let ledger = Ledger::new(&["one", "two"][..rng.between(1, 2) as usize], 5);
    let load = Load::new(ledger, rng.next_u64());
    let rounds = rng.between(1, 4);
    let mut life = Life {
        rng,
        simulation: &simulation,
        load: load.clone(),
        always_synced: true,
        is_set_up: false,
    };
    for _ in 0..rounds {
        life.round();
    }
    let cluster = life.start(WalConfig::default(), &SealPolicy::default().into());
    load.prove_writable(&cluster);
    load.check(&cluster);
    let segments = cluster.statuses().iter().map(|status| status.seal.segments).sum();
    cluster.stop().unwrap_or_else(|failure| panic!("{failure}"));
    [load.acknowledged_pushes.get(), load.failed_pushes.get(), segments, load.merges.get()]
}

#[test]
fn what_was_acknowledged_survives_everything() {
    let seeds = seeds(2_000);
    let mut sums = [0; 4];
    for seed in seeds.clone() {
        for (sum, count) in sums.iter_mut().zip(live(seed)) {
            *sum += count;
        }
    }
    let [acknowledged, failed, sealed, merged] = sums;
    println!(
        "{seeds:?}: {acknowledged} pushes acknowledged, {failed} not, {sealed} segments, \
         {merged} merges"
    );
    // The test would prove nothing if nothing got through, or nothing failed.
    if seeds.end - seeds.start >= 100 {
        let seeds = seeds.end - seeds.start;
        assert!(acknowledged > 20 * seeds && failed > 0 && sealed > seeds / 2);
        assert!(merged > seeds / 4);
    }
}
