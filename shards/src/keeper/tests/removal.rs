//! Entries are removed from the disk when their requests are due.

use std::time::Duration;

use logsvc_runtime::sim::Simulation;

use super::rig::{DATA_DIR, HOUR_NS, NOON_NS, World, tenant};
use crate::deletion::{DeleteState, DeletionReply};

const RANGE_NS: (i64, i64) = (NOON_NS - 4 * HOUR_NS, NOON_NS - 1);
const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_request_is_processed_when_its_lines_are_in_no_file() {
    let simulation = Simulation::new(1);
    let world = World::new(&simulation);
    let rig = world.start();
    world.push("t", NOON_NS - 5);
    world.push("t", NOON_NS - 6);
    world.push("t", NOON_NS + 5);
    rig.create("t", RANGE_NS, None).expect("healthy");
    rig.wait(MINUTE - Duration::from_secs(1));
    assert_eq!(world.stored("t").len(), 3, "within the cancel period");
    let mut pending = true;
    while pending {
        rig.wait(Duration::from_millis(3));
        pending = rig.list("t")[0].is_pending();
        assert!(pending || world.stored("t").len() == 1, "processed means gone");
    }
    assert!(simulation.now().0 < 62 * 1_000_000_000, "as soon as it is due");
    let request = rig.list("t").remove(0);
    assert_eq!((request.removed_entries, request.removed_line_bytes), (2, 20));
    assert_eq!(rig.filters(), 0);
    let status = rig.status();
    let numbers = status.tenants[&tenant("t")];
    assert_eq!((numbers.received, numbers.processed, numbers.removed_entries), (1, 1, 2));
    assert_eq!((status.pending, status.oldest_pending_ms, status.failures), (0, None, 0));
    // The same times hide nothing any more, before and after a start.
    world.push("t", NOON_NS - 5);
    assert_eq!(rig.visible("t").len(), 2);
    rig.node.power_off();
    let rig = world.start();
    rig.wait(10 * MINUTE);
    assert_eq!((rig.visible("t").len(), world.stored("t").len()), (2, 2));
}

#[test]
fn two_equal_requests_in_parts_progress_and_count_each_line_once() {
    let simulation = Simulation::new(2);
    let world = World::new(&simulation);
    world.play.purge_takes.set(Duration::from_secs(20));
    let rig = world.start();
    for hour in -4..=0 {
        world.push("t", NOON_NS + hour * HOUR_NS);
        world.push("t", NOON_NS + hour * HOUR_NS + 500_000);
    }
    let ids = [0, 1].map(|_| rig.create("t", RANGE_NS, Some(HOUR_NS)).expect("healthy"));
    assert_ne!(ids[0], ids[1]);
    let mut seen = vec![0; 2];
    while rig.list("t").iter().any(|request| request.is_pending()) {
        rig.wait(Duration::from_secs(1));
        let listed = rig.list("t");
        assert_eq!(listed.len(), 2, "one record each");
        for (request, seen) in listed.iter().zip(&mut seen) {
            let done = match request.state {
                DeleteState::Pending { parts_done } => parts_done,
                DeleteState::Processed { .. } => 4,
            };
            assert!(done == *seen || done == *seen + 1, "{done} behind {seen}");
            *seen = done;
        }
    }
    assert_eq!(seen, [4, 4]);
    assert_eq!(world.stored("t"), [NOON_NS, NOON_NS + 500_000]);
    let removed = rig.list("t").iter().map(|request| request.removed_entries).sum::<u64>();
    assert_eq!(removed, 8);
}

#[test]
fn many_short_parts_take_a_hundred_passes() {
    let simulation = Simulation::new(3);
    let world = World::new(&simulation);
    let rig = world.start();
    world.push("t", NOON_NS - 1);
    rig.create("t", RANGE_NS, Some(1_000_000_000)).expect("healthy");
    rig.wait(10 * MINUTE);
    assert!(!rig.list("t")[0].is_pending());
    assert_eq!((world.play.purges.get(), world.stored("t").len()), (100, 0));
}

#[test]
fn requests_are_served_while_entries_are_removed() {
    let simulation = Simulation::new(4);
    let world = World::new(&simulation);
    world.play.purge_takes.set(10 * MINUTE);
    let rig = world.start();
    world.push("t", NOON_NS - 5);
    rig.create("t", RANGE_NS, None).expect("healthy");
    rig.wait(2 * MINUTE);
    assert_eq!(world.play.purges.get(), 1);
    let begun = simulation.now();
    world.push("u", NOON_NS - 5);
    let id = rig.create("u", RANGE_NS, None).expect("healthy");
    assert_eq!((rig.visible("u").len(), rig.list("u").len()), (0, 1));
    rig.cancel("u", id, false).expect("within its period");
    assert_eq!(rig.visible("u").len(), 1);
    assert!(simulation.now().since(begun) < MINUTE);
    rig.wait(10 * MINUTE);
    assert!(!rig.list("t")[0].is_pending());
}

#[test]
fn a_file_that_a_query_reads_is_waited_for() {
    let simulation = Simulation::new(5);
    let world = World::new(&simulation);
    world.play.file_stays.set(5 * MINUTE);
    let rig = world.start();
    world.push("t", NOON_NS - 5);
    rig.create("t", RANGE_NS, None).expect("healthy");
    rig.wait(5 * MINUTE);
    assert!(rig.list("t")[0].is_pending() && world.stored("t").len() == 1);
    // A line that arrives meanwhile goes with it.
    world.push("t", NOON_NS - 6);
    assert_eq!(rig.visible("t").len(), 0);
    world.play.file_stays.set(Duration::ZERO);
    rig.wait(2 * MINUTE);
    assert!(!rig.list("t")[0].is_pending() && world.stored("t").is_empty());
}

#[test]
fn a_file_that_never_goes_fails_the_pass_and_not_the_keeper() {
    let simulation = Simulation::new(6);
    let world = World::new(&simulation);
    world.play.file_stays.set(20 * MINUTE);
    let rig = world.start();
    world.push("t", NOON_NS - 5);
    rig.create("t", RANGE_NS, None).expect("healthy");
    rig.wait(12 * MINUTE);
    assert_eq!(rig.status().failures, 1);
    assert!(rig.list("t")[0].is_pending());
    rig.wait(60 * MINUTE);
    assert!(!rig.list("t")[0].is_pending() && world.stored("t").is_empty());
}

#[test]
fn files_in_quarantine_keep_a_request_pending_and_others_go_on() {
    for folder in ["wal", "segments"] {
        let simulation = Simulation::new(7);
        let world = World::new(&simulation);
        let rig = world.start();
        world.push("t", NOON_NS - 5);
        let left_over = format!("{DATA_DIR}/{folder}/quarantine/x.bytes");
        simulation.disk().write(&left_over, b"bytes");
        rig.create("t", RANGE_NS, None).expect("healthy");
        rig.wait(2 * MINUTE);
        assert!(rig.list("t")[0].is_pending());
        assert_eq!(world.stored("t").len(), 0, "the lines are removed all the same");
        let purges = world.play.purges.get();
        world.push("u", NOON_NS - 5);
        rig.create("u", RANGE_NS, None).expect("healthy");
        rig.wait(10 * MINUTE);
        assert_eq!(world.stored("u").len(), 0);
        assert_eq!(world.play.purges.get(), purges + 1, "nothing is done in vain");
        assert!(simulation.disk().remove(&left_over));
        rig.wait(10 * MINUTE);
        assert!(!rig.list("t")[0].is_pending() && !rig.list("u")[0].is_pending());
    }
}

#[test]
fn torn_tails_and_old_manifests_in_quarantine_hold_up_nothing() {
    let simulation = Simulation::new(7);
    let world = World::new(&simulation);
    let rig = world.start();
    world.push("t", NOON_NS - 5);
    let torn = ["x.log-8192.torn", "x.log-4096.torn.1.tmp"]
        .map(|name| format!("{DATA_DIR}/wal/quarantine/{name}"));
    let manifest = format!("{DATA_DIR}/segments/quarantine/MANIFEST-00000003");
    for path in torn.iter().chain([&manifest]) {
        simulation.disk().write(path, b"bytes");
    }
    rig.create("t", RANGE_NS, None).expect("healthy");
    rig.wait(2 * MINUTE);
    assert!(!rig.list("t")[0].is_pending());
    // A torn tail may have the text of a line that was deleted.
    assert!(torn.iter().all(|path| simulation.disk().read(path).is_none()));
    assert!(simulation.disk().read(&manifest).is_some());
}

#[test]
fn a_failure_is_repeated_after_a_pause_and_loses_no_count() {
    let simulation = Simulation::new(8);
    let world = World::new(&simulation);
    world.play.failures.set(4);
    let rig = world.start();
    world.push("t", NOON_NS - 5);
    world.push("t", NOON_NS - 6);
    rig.create("t", RANGE_NS, None).expect("healthy");
    rig.wait(MINUTE + Duration::from_secs(8));
    assert!(rig.list("t")[0].is_pending());
    assert_eq!(world.play.purges.get(), 4, "at 0, 1, 3 and 7 s");
    rig.wait(MINUTE);
    let request = rig.list("t").remove(0);
    assert!(!request.is_pending());
    assert_eq!((request.removed_entries, rig.status().failures), (2, 4));
}

#[test]
fn modes_may_change_while_the_node_runs() {
    let simulation = Simulation::new(9);
    let world = World::new(&simulation);
    *world.play.kept.borrow_mut() = Some(tenant("t"));
    let rig = world.start();
    world.push("t", NOON_NS - 5);
    world.push("u", NOON_NS - 5);
    rig.create("t", RANGE_NS, None).expect("healthy");
    rig.create("u", RANGE_NS, None).expect("healthy");
    rig.wait(10 * MINUTE);
    assert!(rig.list("t")[0].is_pending() && !rig.list("u")[0].is_pending());
    assert_eq!((rig.visible("t").len(), world.stored("t").len()), (0, 1));
    *world.play.kept.borrow_mut() = None;
    rig.wait(Duration::from_secs(15));
    assert!(!rig.list("t")[0].is_pending() && world.stored("t").is_empty());
}

#[test]
fn a_long_request_does_not_keep_others_waiting() {
    let simulation = Simulation::new(10);
    let world = World::new(&simulation);
    world.play.batch_size.set(1);
    world.play.purge_takes.set(MINUTE);
    let rig = world.start();
    rig.create("t", RANGE_NS, Some(HOUR_NS / 100)).expect("healthy");
    for name in ["u", "v", "w"] {
        rig.create(name, RANGE_NS, None).expect("healthy");
    }
    rig.wait(6 * MINUTE);
    for name in ["u", "v", "w"] {
        assert!(!rig.list(name)[0].is_pending());
    }
    assert!(rig.list("t")[0].is_pending());
}

#[test]
fn a_clock_that_is_ahead_for_a_while_ends_no_cancel_period() {
    for starts_anew in [false, true] {
        let simulation = Simulation::new(11);
        let world = World::new(&simulation);
        world.play.cancel_period.set(Duration::from_secs(24 * 3600));
        let mut rig = world.start();
        world.push("t", NOON_NS - 5);
        let id = rig.create("t", RANGE_NS, None).expect("healthy");
        rig.wait(15 * MINUTE);
        let right = |simulation: &Simulation| NOON_NS + simulation.now().0 as i64;
        simulation.set_unix_nanos(right(&simulation) + 400 * 24 * HOUR_NS);
        if starts_anew {
            rig.node.power_off();
            rig = world.start();
        }
        rig.wait(30 * MINUTE);
        assert_eq!(world.stored("t").len(), 1);
        simulation.set_unix_nanos(right(&simulation));
        rig.wait(2 * MINUTE);
        assert_eq!(rig.visible("t").len(), 0);
        rig.wait(22 * 60 * MINUTE);
        assert!(rig.list("t")[0].is_pending());
        rig.cancel("t", id, false).expect("still within the period");
        rig.create("t", RANGE_NS, None).expect("healthy");
        rig.wait(24 * 60 * MINUTE + MINUTE);
        assert!(world.stored("t").is_empty());
    }
}

#[test]
fn answers_of_a_keeper_that_has_stopped_do_not_come() {
    let simulation = Simulation::new(12);
    let world = World::new(&simulation);
    let rig = world.start();
    world.play.purge_takes.set(60 * MINUTE);
    rig.create("t", RANGE_NS, None).expect("healthy");
    rig.wait(2 * MINUTE);
    let reply = rig.send(crate::deletion::DeletionRequest::Status);
    simulation.run_until(|| reply.borrow().is_some()).expect("an answer");
    assert!(matches!(*reply.borrow(), Some(DeletionReply::Status(_))));
    let begun = simulation.now();
    // A purge is under way.
    rig.stop();
    assert!(simulation.now().since(begun) < MINUTE);
}
