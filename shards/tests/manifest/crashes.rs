//! Random work, crashes and failing disks: the live set is always the acknowledged one, with or
//! without an edit that was under way, and no token is lost.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use logsvc_runtime::sim::{FaultRates, SimRuntime, Simulation};
use logsvc_runtime::{CoreId, Runtime};
use logsvc_shards::node::{NodePlan, open_node};
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::store::{DATA_DIR, Known, SharedModel, Writer, live};

/// The counts of events over all seeds, so that the test can tell whether it has seen enough.
#[derive(Default)]
struct Seen {
    starts: Cell<u64>,
    in_doubt: Cell<u64>,
    doubts_in_force: Cell<u64>,
    left: Cell<u64>,
    torn: Cell<u64>,
    no_checkpoint: Cell<u64>,
    refused_starts: Cell<u64>,
    removed_wal_files: Cell<u64>,
    failed_edits: Cell<u64>,
    damage: Cell<u64>,
}

fn count(cell: &Cell<u64>, number: u64) {
    cell.set(cell.get() + number);
}

/// Compares the findings of a start with the model, and goes on from them.
fn check(model: &SharedModel, plan: &NodePlan, seen: &Seen) {
    let mut model = model.borrow_mut();
    let live = live(plan);
    let report = &plan.manifest;
    count(&seen.starts, 1);
    count(&seen.in_doubt, u64::from(!model.in_doubt.is_empty()));
    count(&seen.doubts_in_force, u64::from(live != model.known.live()));
    count(&seen.left, live.values().filter(|left| !left.is_empty()).count() as u64);
    count(&seen.torn, report.torn_edits);
    count(&seen.no_checkpoint, u64::from(report.checkpoint_error.is_some()));
    count(&seen.removed_wal_files, report.removed_wal_files);
    if !model.had_no_checkpoint {
        assert_eq!(report.damage, [], "a crash was taken for damage");
    }
    count(&seen.damage, report.damage.len() as u64);
    assert_eq!(plan.unusable_segments.len(), 0, "{:?}", plan.unusable_segments);
    assert!(
        model.allows(&live) || !report.damage.is_empty(),
        "{live:?}\nis neither what was acknowledged,\n{:?}\nnor with one of\n{:#?}",
        model.known.live(),
        model.in_doubt
    );
    assert!(plan.segments.is_sorted_by_key(|segment| segment.order));
    let lost = model.lost(plan);
    assert!(lost.is_empty(), "lost: {lost:?}");
    model.had_no_checkpoint |= report.checkpoint_error.is_some();
    if report.checkpoint_error.is_none() {
        model.known = Known::of(&live);
        model.in_doubt.clear();
    }
}

async fn work(runtime: SimRuntime, model: SharedModel, shards: u16, seed: u64, seen: Rc<Seen>) {
    if runtime.core() != CoreId(0) {
        return;
    }
    let Ok(node) = open_node(&runtime, Path::new(DATA_DIR)).await else {
        count(&seen.refused_starts, 1);
        return;
    };
    check(&model, &node.plan, &seen);
    let mut rng = Rng::new(seed);
    let writer = |shard| Writer::new(&runtime, &model, &node.plan, shards, shard);
    let mut writers: Vec<Writer> = (0..shards).map(writer).collect();
    let mut live = node.plan.segments.to_vec();
    for _ in 0..rng.between(1, 60) {
        let writer = &mut writers[rng.below(u64::from(shards)) as usize];
        let done = match rng.below(8) {
            0..=2 => writer.push(&mut rng).await,
            3 | 4 => writer.seal(&mut rng, &mut live).await,
            5 | 6 => writer.leave(&mut live).await,
            _ => writer.compact(&mut live).await,
        };
        count(&seen.failed_edits, u64::from(done.is_err()));
    }
}

#[test]
fn a_crash_leaves_the_old_or_the_new_live_set_and_loses_nothing() {
    let seen = Rc::new(Seen::default());
    for seed in seeds(400) {
        let _guard = SeedGuard(seed);
        let simulation = Simulation::new(seed);
        let model = SharedModel::default();
        let mut rng = Rng::new(seed);
        let disk = simulation.disk();
        // The folder above the node's is not the node's.
        disk.write("/srv/other", b"");
        for start in 0..rng.between(2, 8) {
            let per_million = *rng.pick(&[0, 0, 2_000, 30_000]);
            disk.set_fault_rates(FaultRates {
                reads_per_million: 0,
                writes_per_million: per_million,
                syncs_per_million: per_million,
                others_per_million: per_million,
            });
            let room = if rng.one_in(4) { rng.below(4_000) } else { 1 << 40 };
            disk.set_capacity_bytes(disk.used_bytes() + room);
            let shards = rng.between(1, 3) as u16;
            let (model, seen) = (Rc::clone(&model), Rc::clone(&seen));
            let node = simulation.start_node(shards, move |runtime| {
                let (model, seen) = (Rc::clone(&model), Rc::clone(&seen));
                work(runtime, model, shards, seed * 100 + start, seen)
            });
            simulation.run_for(Duration::from_micros(rng.below(60_000)));
            match rng.below(3) {
                0 => node.crash(),
                _ => node.power_off(),
            }
        }
        // A healthy disk: everything is there.
        disk.clear_faults();
        disk.set_capacity_bytes(1 << 40);
        let end = (Rc::clone(&model), Rc::clone(&seen));
        simulation.block_on(move |runtime| async move {
            let node = open_node(&runtime, Path::new(DATA_DIR)).await.expect("a healthy disk");
            check(&end.0, &node.plan, &end.1);
            assert_eq!(node.plan.manifest.checkpoint_error, None);
        });
    }
    let runs = seeds(400).count() as u64;
    if runs < 400 {
        return;
    }
    let (damage, most) = (seen.damage.get(), runs / 40);
    assert!(damage < most, "{damage} crashes were taken for damage");
    for (what, number, least) in [
        ("starts", &seen.starts, 1_000),
        ("edits in doubt", &seen.in_doubt, 100),
        ("edits in doubt in force", &seen.doubts_in_force, 30),
        ("segments that streams have left", &seen.left, 100),
        ("torn edits", &seen.torn, 5),
        ("starts without a checkpoint", &seen.no_checkpoint, 10),
        ("refused starts", &seen.refused_starts, 10),
        ("log files removed at start", &seen.removed_wal_files, 50),
        ("failures", &seen.failed_edits, 500),
    ] {
        assert!(number.get() >= least, "only {} {what}", number.get());
    }
}
