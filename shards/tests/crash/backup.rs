//! Backups beside pushes, merges, faults and deaths: one that says it is complete has every entry
//! that was acknowledged before, once, and nothing that was never sent; one that was cut short is
//! never taken for a backup.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use logsvc_runtime::sim::{DiskOperation, Simulation};
use logsvc_runtime::{CoreId, Runtime};
use logsvc_shards::backup::{self, Backup, BackupError};
use logsvc_shards::compact::CompactionPolicy;
use logsvc_shards::messages::{ShardReply, ShardRequest};
use logsvc_shards::shard::SealPolicy;
use logsvc_shards::wal::writer::WalConfig;
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::cluster::{Cluster, DATA_DIR, Upkeep, call};
use crate::ledger::Ledger;
use crate::load::Load;

const RESTORED_DIR: &str = "/srv/restored";

/// How the backup ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Nobody disturbs it.
    Quiet,
    /// An operation of the disk fails.
    Fault(DiskOperation),
    /// The process, or the machine, dies during or after it.
    Kill,
    PowerLoss,
}

/// Segments are small, and merged at once.
fn upkeep(rng: &mut Rng) -> Upkeep {
    let seal = SealPolicy {
        head_max_bytes: rng.between(200, 4_000),
        wal_max_bytes: rng.between(2_000, 20_000),
        ..SealPolicy::ON_REQUEST
    };
    let compaction = CompactionPolicy {
        enabled: true,
        min_inputs: 2,
        min_last_inputs: 2,
        max_inputs: 4,
        target_line_bytes: 1 << 20,
        small_line_bytes: 100_000,
        retry_pause: Duration::from_micros(500),
        ..CompactionPolicy::OFF
    };
    Upkeep { compaction, ..Upkeep::from(seal) }
}

/// What a backup has come to; `None` while it is under way.
type Outcome = Rc<RefCell<Option<Result<Backup, BackupError>>>>;

/// Writes memory to segments and makes a backup, as the server does it.
fn begin(cluster: &Cluster<'_>, name: &'static str) -> Outcome {
    let (outcome, caller, shards) = (Outcome::default(), cluster.caller(0), cluster.shards);
    let runtime = cluster.node.runtime(CoreId(0)).clone();
    let slot = Rc::clone(&outcome);
    drop(cluster.node.runtime(CoreId(0)).spawn(async move {
        let data_dir = Path::new(DATA_DIR);
        let mut made = backup::remove_incomplete(&runtime, data_dir).await;
        for shard in (0..shards).map(CoreId) {
            let reply = call(&caller, shard, ShardRequest::Flush).await;
            if let Some(ShardReply::Flushed(Err(cause))) = reply {
                made = made.and(Err(BackupError::Manifest(cause.to_string())));
            }
        }
        let made = match made {
            Ok(()) => backup::take(&runtime, data_dir, name).await,
            Err(error) => Err(error),
        };
        *slot.borrow_mut() = Some(made);
    }));
    outcome
}

fn folder(name: &str) -> PathBuf {
    Path::new(DATA_DIR).join(backup::BACKUPS).join(name)
}

fn listed(cluster: &Cluster<'_>) -> Vec<String> {
    let runtime = cluster.node.runtime(CoreId(0)).clone();
    let found = cluster.run(async move { backup::list(&runtime, Path::new(DATA_DIR)).await });
    found.expect("the folders can be listed").into_iter().map(|backup| backup.name).collect()
}

/// Restores a backup, with any number of cores, and compares what is shown with what is owed.
fn check_restored(cluster: &Cluster<'_>, name: &str, owed: &Ledger, shards: u16) {
    let runtime = cluster.node.runtime(CoreId(0)).clone();
    let from = folder(name);
    let restored =
        cluster.run(async move { backup::restore(&runtime, &from, Path::new(RESTORED_DIR)).await });
    restored.expect("a complete backup can be restored");
    let upkeep = Upkeep::from(SealPolicy::ON_REQUEST);
    let simulation = cluster.simulation;
    let other = Cluster::launch_at(RESTORED_DIR, simulation, shards, WalConfig::default(), upkeep);
    other.await_start().expect("the restored folder opens");
    let found = other.recovery();
    assert_eq!(found.damaged_places, 0, "{found:?}");
    for tenant in owed.tenants() {
        owed.check(&tenant, &other.everything(&tenant));
    }
    other.node.crash();
}

/// Backups made, refused and cut short.
fn live(seed: u64) -> [u64; 3] {
    let _guard = SeedGuard(seed);
    let simulation = Simulation::new(seed);
    let mut rng = Rng::new(seed);
    let load = Load::new(Ledger::new(&["one", "two"], 3), rng.next_u64());
    let wal = WalConfig { file_max_bytes: rng.between(1_000, 40_000), ..WalConfig::default() };
    let upkeep = upkeep(&mut rng);
    let shards = rng.between(1, 3) as u16;
    let cluster = Cluster::start_sealing(&simulation, shards, wal, upkeep.clone())
        .unwrap_or_else(|failure| panic!("the node does not start: {failure}"));
    load.begin(&cluster, rng.between(1, 4));
    simulation.run_for(Duration::from_micros(rng.below(20_000)));

    let operations = [
        DiskOperation::Write,
        DiskOperation::Sync,
        DiskOperation::SyncDir,
        DiskOperation::Open,
        DiskOperation::Read,
        DiskOperation::ReadDir,
    ];
    let end = match rng.below(8) {
        0..2 => End::Quiet,
        2..4 => End::Fault(*rng.pick(&operations)),
        4..6 => End::Kill,
        _ => End::PowerLoss,
    };
    let owed = load.ledger.borrow().clone();
    let outcome = begin(&cluster, "first");
    let is_over = || outcome.borrow().is_some();
    match end {
        End::Quiet => {}
        End::Fault(operation) => {
            simulation.run_for(Duration::from_micros(rng.below(3_000)));
            simulation.disk().fail_next(operation, backup_dir(), rng.between(1, 3));
        }
        End::Kill | End::PowerLoss => {
            // Sometimes it comes to its end before.
            let steps = Cell::new(if rng.one_in(4) { u64::MAX } else { rng.below(1_500) });
            let is_due = || {
                steps.set(steps.get().saturating_sub(1));
                is_over() || steps.get() == 0
            };
            simulation.run_until(is_due).unwrap_or_else(|stuck| panic!("{stuck}"));
        }
    }
    let dies = matches!(end, End::Kill | End::PowerLoss);
    if !dies {
        simulation.run_until(is_over).unwrap_or_else(|stuck| panic!("{stuck}"));
        simulation.disk().clear_faults();
        load.end(&cluster);
    }
    let made = outcome.borrow().as_ref().map(Result::is_ok);
    assert!(end != End::Quiet || made == Some(true), "{:?}", outcome.borrow());
    let cluster = if dies {
        match end {
            End::Kill => cluster.node.crash(),
            _ => cluster.node.power_off(),
        }
        load.killed();
        load.ledger.borrow_mut().node_ended(|_| unreachable!("an acknowledgement is durable"));
        let cores = rng.between(1, 3) as u16;
        Cluster::start_sealing(&simulation, cores, wal, upkeep)
            .unwrap_or_else(|failure| panic!("the node does not start again: {failure}"))
    } else {
        cluster
    };
    // The node itself has suffered nothing.
    load.check(&cluster);
    let listed_now = listed(&cluster);
    if made == Some(true) {
        assert_eq!(listed_now, ["first"], "a backup that was made is there");
    }
    if made == Some(false) {
        assert!(listed_now.is_empty(), "a backup that failed is none: {:?}", outcome.borrow());
    }
    let owed = load.ledger.borrow().owing(&owed);
    if listed_now.is_empty() {
        // What was cut short is no backup, and is gone with the next one.
        let (runtime, from) = (cluster.node.runtime(CoreId(0)).clone(), folder("first"));
        let restored = cluster
            .run(async move { backup::restore(&runtime, &from, Path::new(RESTORED_DIR)).await });
        assert!(restored.is_err(), "{restored:?}");
        let owed = load.ledger.borrow().clone();
        let outcome = begin(&cluster, "second");
        let ended = simulation.run_until(|| outcome.borrow().is_some());
        ended.unwrap_or_else(|stuck| panic!("{stuck}"));
        assert!(matches!(*outcome.borrow(), Some(Ok(_))), "{:?}", outcome.borrow());
        assert_eq!(listed(&cluster), ["second"]);
        let left = simulation.disk().files(DATA_DIR);
        assert!(!left.iter().any(|path| path.starts_with(folder("first"))), "{left:?}");
        check_restored(&cluster, "second", &owed, rng.between(1, 3) as u16);
    } else {
        // Merges after the backup take nothing from it.
        load.begin(&cluster, 2);
        simulation.run_for(Duration::from_micros(rng.below(20_000)));
        load.end(&cluster);
        let owed = load.ledger.borrow().owing(&owed);
        check_restored(&cluster, "first", &owed, rng.between(1, 3) as u16);
    }
    cluster.stop().unwrap_or_else(|failure| panic!("{failure}"));
    match made {
        Some(true) => [1, 0, 0],
        Some(false) => [0, 1, 0],
        None => [0, 0, 1],
    }
}

fn backup_dir() -> String {
    format!("{DATA_DIR}/{}", backup::BACKUPS)
}

#[test]
fn a_complete_backup_has_what_was_acknowledged_and_an_incomplete_one_is_none() {
    let seeds = seeds(200);
    let mut sums = [0; 3];
    for seed in seeds.clone() {
        for (sum, count) in sums.iter_mut().zip(live(seed)) {
            *sum += count;
        }
    }
    let [made, failed, cut] = sums;
    println!("{seeds:?}: {made} backups made, {failed} failed, {cut} cut short");
    let count = seeds.end - seeds.start;
    if count >= 100 {
        let least = count / 20;
        assert!(made > least && failed > least && cut > least, "{made} {failed} {cut}");
    }
}
