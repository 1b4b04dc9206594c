//! A disk that fails, is full, or has damaged the record.

use std::path::Path;
use std::time::Duration;

use logsvc_runtime::sim::{DiskOperation, Simulation};

use super::rig::{DATA_DIR, HOUR_NS, NOON_NS, REQUESTS, World};
use crate::deletion::{CancelError, CreateError};

const RANGE_NS: (i64, i64) = (NOON_NS - HOUR_NS, NOON_NS);
const FOLDER: &str = "/srv/data/deletes";

const WRITING: [DiskOperation; 5] = [
    DiskOperation::Open,
    DiskOperation::Write,
    DiskOperation::Sync,
    DiskOperation::Rename,
    DiskOperation::SyncDir,
];

#[test]
fn a_request_that_cannot_be_recorded_hides_nothing() {
    for operation in WRITING.into_iter().chain([DiskOperation::CreateDir]) {
        let simulation = Simulation::new(1);
        let world = World::new(&simulation);
        let rig = world.start();
        world.push("t", NOON_NS - 5);
        simulation.disk().fail_next(operation, FOLDER, 1);
        let refused = rig.create("t", RANGE_NS, None);
        assert!(matches!(refused, Err(CreateError::Disk(_))), "{operation:?}: {refused:?}");
        assert_eq!((rig.list("t").len(), rig.visible("t").len()), (0, 1));
        // The file is put right without another request.
        rig.wait(Duration::from_secs(15));
        rig.node.power_off();
        let rig = world.start();
        assert_eq!((rig.list("t").len(), rig.visible("t").len()), (0, 1), "{operation:?}");
        let temporary = format!("{REQUESTS}.tmp");
        assert_eq!(simulation.disk().read(temporary), None, "{operation:?}");
        rig.create("t", RANGE_NS, None).expect("healthy");
        assert_eq!(rig.visible("t").len(), 0);
    }
}

#[test]
fn a_cancellation_that_cannot_be_recorded_changes_nothing() {
    for operation in WRITING {
        let simulation = Simulation::new(2);
        let world = World::new(&simulation);
        let rig = world.start();
        world.push("t", NOON_NS - 5);
        let id = rig.create("t", RANGE_NS, None).expect("healthy");
        simulation.disk().fail_next(operation, FOLDER, 1);
        let refused = rig.cancel("t", id, false);
        assert!(matches!(refused, Err(CancelError::Disk(_))), "{operation:?}: {refused:?}");
        assert_eq!((rig.list("t").len(), rig.visible("t").len()), (1, 0));
        rig.wait(Duration::from_secs(15));
        rig.node.power_off();
        let rig = world.start();
        assert_eq!((rig.list("t").len(), rig.visible("t").len()), (1, 0), "{operation:?}");
        rig.cancel("t", id, false).expect("healthy");
        assert_eq!(rig.visible("t").len(), 1);
    }
}

#[test]
fn progress_that_cannot_be_recorded_is_made_again() {
    let looks = [DiskOperation::ReadDir, DiskOperation::SyncDir];
    for operation in WRITING.into_iter().chain(looks) {
        let simulation = Simulation::new(3);
        let world = World::new(&simulation);
        let rig = world.start();
        world.push("t", NOON_NS - 5);
        rig.create("t", RANGE_NS, None).expect("healthy");
        let below = if looks.contains(&operation) { DATA_DIR } else { FOLDER };
        simulation.disk().fail_next(operation, below, 3);
        rig.wait(Duration::from_secs(90));
        let request = rig.list("t").remove(0);
        assert!(!request.is_pending() && world.stored("t").is_empty(), "{operation:?}");
        assert_eq!(request.removed_entries, 1, "{operation:?}");
        assert_eq!(rig.filters(), 0);
    }
}

#[test]
fn a_full_disk_refuses_requests_and_lets_cancelled_ones_stay() {
    let simulation = Simulation::new(4);
    let world = World::new(&simulation);
    let rig = world.start();
    world.push("t", NOON_NS - 5);
    let id = rig.create("t", RANGE_NS, None).expect("room");
    simulation.disk().set_capacity_bytes(simulation.disk().used_bytes());
    assert!(matches!(rig.create("t", RANGE_NS, None), Err(CreateError::Disk(_))));
    assert!(matches!(rig.cancel("t", id, false), Err(CancelError::Disk(_))));
    assert_eq!((rig.list("t").len(), rig.visible("t").len()), (1, 0));
    simulation.disk().set_capacity_bytes(1 << 40);
    rig.cancel("t", id, false).expect("room");
    assert_eq!(rig.visible("t").len(), 1);
}

#[test]
fn a_record_that_cannot_be_used_refuses_the_start() {
    let simulation = Simulation::new(5);
    let world = World::new(&simulation);
    let rig = world.start();
    rig.create("t", RANGE_NS, None).expect("healthy");
    rig.stop();
    let good = simulation.disk().read(REQUESTS).expect("a file");
    for at in [0, 8, 12, 16, 24, 28, 64, 70, 100, good.len() - 1] {
        let mut bad = good.clone();
        bad[at] ^= 4;
        simulation.disk().write(REQUESTS, &bad);
        let refusal = world.try_start().err().expect("a refusal");
        assert!(refusal.contains(REQUESTS) && refusal.contains("move the file away"), "{refusal}");
        assert!(!refusal.contains("app="), "{refusal}");
    }
    simulation.disk().write(REQUESTS, &good[..40]);
    assert!(world.try_start().is_err());
    // The left-over of a write that did not end goes.
    simulation.disk().write(REQUESTS, &good);
    let temporary = format!("{REQUESTS}.tmp");
    simulation.disk().write(&temporary, &good);
    let rig = world.start();
    assert_eq!(rig.list("t").len(), 1);
    assert_eq!(simulation.disk().read(Path::new(&temporary)), None);
}
