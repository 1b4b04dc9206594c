//! Kills and failing disks at any moment, against the promises of the answers.

use std::collections::BTreeMap;
use std::time::Duration;

use logsvc_runtime::sim::{FaultRates, Simulation};
use logsvc_testkit::{Rng, SeedGuard, seeds};

use super::rig::{HOUR_NS, NOON_NS, Rig, World, tenant};
use crate::deletion::{DeleteId, DeleteState, DeletionReply, DeletionRequest};

const TENANTS: [&str; 3] = ["t", "tenant-1", "tenant-12"];

/// The promises that the node has made about a request.
#[derive(Debug)]
struct Promise {
    tenant: &'static str,
    range_ns: (i64, i64),
    parts_done: u32,
    is_processed: bool,
    /// A cancel was sent, and maybe its answer did not come.
    may_be_gone: bool,
    is_gone: bool,
}

/// Compares the list with the promises.
fn check(rig: &Rig<'_>, world: &World<'_>, promises: &mut BTreeMap<DeleteId, Promise>) {
    let listed: BTreeMap<_, _> =
        TENANTS.iter().flat_map(|name| rig.list(name)).map(|r| (r.id, r)).collect();
    for (id, promise) in promises.iter_mut() {
        let Some(request) = listed.get(id) else {
            assert!(promise.may_be_gone || promise.is_gone, "{id} is lost: {promise:?}");
            promise.is_gone = true;
            continue;
        };
        assert!(!promise.is_gone, "{id} is back: {promise:?}");
        assert_eq!(request.tenant, tenant(promise.tenant));
        let inside =
            |&&time_ns: &&i64| (promise.range_ns.0..=promise.range_ns.1).contains(&time_ns);
        match request.state {
            DeleteState::Pending { parts_done } => {
                assert!(!promise.is_processed, "{id} is pending again: {promise:?}");
                assert!(parts_done >= promise.parts_done, "progress falls");
                promise.parts_done = parts_done;
                let visible = rig.visible(promise.tenant);
                assert_eq!(visible.iter().filter(inside).count(), 0, "hidden: {promise:?}");
            }
            DeleteState::Processed { .. } => {
                let stored = world.stored(promise.tenant);
                let left = stored.iter().filter(inside).count();
                let is_first = !promise.is_processed;
                assert!(!is_first || promise.may_be_gone || left == 0, "gone: {promise:?}");
                promise.is_processed = true;
            }
        }
    }
}

#[test]
fn promises_hold_through_kills_and_failing_disks() {
    for seed in seeds(300) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let simulation = Simulation::new(seed);
        let world = World::new(&simulation);
        world.play.purge_takes.set(Duration::from_millis(rng.below(20_000)));
        world.play.file_stays.set(Duration::from_millis(rng.below(20_000)));
        world.play.batch_size.set(1 + rng.below(4) as usize);
        let mut rig = world.start();
        for name in TENANTS {
            (0..6).for_each(|_| world.push(name, NOON_NS - rng.below(4 * HOUR_NS as u64) as i64));
        }
        let mut promises: BTreeMap<DeleteId, Promise> = BTreeMap::new();
        let has_faults = rng.one_in(3);
        for _ in 0..12 {
            let fault = if has_faults { rng.below(100_000) as u32 } else { 0 };
            simulation.disk().set_fault_rates(FaultRates {
                writes_per_million: fault,
                syncs_per_million: fault,
                others_per_million: fault,
                ..FaultRates::default()
            });
            let name = *rng.pick(&TENANTS);
            let start_ns = NOON_NS - rng.below(4 * HOUR_NS as u64) as i64;
            let range_ns = (start_ns, start_ns + rng.below(2 * HOUR_NS as u64) as i64);
            let part_ns = rng.one_in(2).then_some(HOUR_NS / 3);
            let known: Vec<DeleteId> = promises.keys().copied().collect();
            let cancelled =
                if rng.one_in(3) && !known.is_empty() { Some(*rng.pick(&known)) } else { None };
            let request = match cancelled {
                Some(id) => {
                    let promise = promises.get_mut(&id).expect("known");
                    promise.may_be_gone = true;
                    let is_forced = rng.one_in(2);
                    DeletionRequest::Cancel { tenant: tenant(promise.tenant), id, is_forced }
                }
                None => Rig::new_delete(name, r#"{app="a"}"#, range_ns, part_ns),
            };
            let reply = rig.send(request);
            let steps = rng.below(400);
            if rng.one_in(2) {
                let _ = (0..steps).all(|_| simulation.step());
            } else {
                simulation.run_until(|| reply.borrow().is_some()).expect("an answer");
                rig.wait(Duration::from_millis(rng.below(60_000)));
            }
            let reply = reply.borrow_mut().take();
            match (reply, cancelled) {
                (Some(DeletionReply::Created(Ok(id))), _) => {
                    let promise = Promise {
                        tenant: name,
                        range_ns,
                        parts_done: 0,
                        is_processed: false,
                        may_be_gone: false,
                        is_gone: false,
                    };
                    assert!(promises.insert(id, promise).is_none(), "an id of its own");
                }
                (Some(DeletionReply::Cancelled(Ok(()))), Some(id)) => {
                    let promise = promises.get_mut(&id).expect("known");
                    let listed = rig.list(promise.tenant);
                    let is_pending = listed.iter().any(|r| r.id == id && r.is_pending());
                    assert!(!is_pending, "cancelled");
                }
                (Some(DeletionReply::Cancelled(Err(_))), Some(_)) => {}
                (Some(DeletionReply::Created(Err(_))) | None, _) => {}
                (other, _) => panic!("{other:?}"),
            }
            check(&rig, &world, &mut promises);
            if rng.one_in(2) {
                let _ = (0..rng.below(300)).all(|_| simulation.step());
                if rng.one_in(2) {
                    rig.node.power_off()
                } else {
                    rig.node.crash()
                };
                simulation.disk().clear_faults();
                rig = world.start();
                check(&rig, &world, &mut promises);
            }
        }
        simulation.disk().clear_faults();
        // A start that could not read the last time waits for an hour before it trusts the clock.
        rig.wait(Duration::from_secs(3 * 3600));
        check(&rig, &world, &mut promises);
        assert_eq!(rig.status().pending, 0, "all of them are processed in the end");
        assert_eq!(rig.filters(), 0);
    }
}
