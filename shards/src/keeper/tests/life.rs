//! Requests come into force, are listed, and are cancelled.

use std::time::Duration;

use logsvc_runtime::sim::Simulation;

use super::rig::{HOUR_NS, NOON_NS, REQUESTS, Rig, World, tenant};
use crate::deletion::{CancelError, CreateError, DeletionReply};
use crate::types::TimeRange;

const RANGE_NS: (i64, i64) = (NOON_NS - HOUR_NS, NOON_NS);

fn has_text(world: &World<'_>, text: &str) -> bool {
    let bytes = world.simulation.disk().read(REQUESTS).expect("a file");
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_request_hides_at_once_and_after_a_kill_until_it_is_cancelled() {
    let simulation = Simulation::new(1);
    let world = World::new(&simulation);
    let rig = world.start();
    world.push("t", NOON_NS - 5);
    world.push("t", NOON_NS + 5);
    let range = TimeRange { start_ns: NOON_NS - 10, end_ns: NOON_NS };
    let stamp = rig.changes().stamp(&[tenant("t")], range).expect("short");
    let id = rig.create("t", RANGE_NS, None).expect("healthy");
    assert_eq!(rig.visible("t"), [NOON_NS + 5]);
    assert_ne!(rig.changes().since(&stamp), []);
    assert!(has_text(&world, r#"{app="a"}"#));
    rig.node.power_off();
    let rig = world.start();
    assert_eq!(rig.visible("t"), [NOON_NS + 5]);
    let listed = rig.list("t");
    assert_eq!(listed.iter().map(|request| request.id).collect::<Vec<_>>(), [id]);
    let stamp = rig.changes().stamp(&[tenant("t")], range).expect("short");
    rig.cancel("t", id, false).expect("within the period");
    assert_eq!(rig.visible("t"), [NOON_NS - 5, NOON_NS + 5]);
    assert_ne!(rig.changes().since(&stamp), []);
    assert_eq!((rig.list("t").len(), rig.filters()), (0, 0));
    assert!(!has_text(&world, r#"{app="a"}"#), "the text has gone with the request");
    rig.wait(Duration::from_secs(600));
    assert_eq!(rig.cancel("t", id, false), Err(CancelError::Unknown));
    rig.node.power_off();
    let rig = world.start();
    assert_eq!((rig.list("t").len(), rig.visible("t").len()), (0, 2));
    rig.stop();
}

#[test]
fn tenants_have_nothing_to_do_with_each_other() {
    let simulation = Simulation::new(2);
    let world = World::new(&simulation);
    let rig = world.start();
    let names = ["t", "tenant-1", "tenant-12"];
    names.iter().for_each(|name| world.push(name, NOON_NS - 5));
    let id = rig.create("tenant-12", RANGE_NS, None).expect("healthy");
    assert_eq!(names.map(|name| rig.visible(name).len()), [1, 1, 0]);
    assert_eq!(names.map(|name| rig.list(name).len()), [0, 0, 1]);
    for name in ["t", "tenant-1"] {
        assert_eq!(rig.cancel(name, id, true), Err(CancelError::Unknown));
    }
    rig.wait(Duration::from_secs(120));
    assert_eq!(names.map(|name| world.stored(name).len()), [1, 1, 0]);
}

#[test]
fn cancelling_follows_the_progress() {
    let simulation = Simulation::new(3);
    let world = World::new(&simulation);
    world.play.purge_takes.set(Duration::from_secs(100));
    let rig = world.start();
    world.push("t", NOON_NS - 5);
    // Past the period but not begun, because of the mode.
    *world.play.kept.borrow_mut() = Some(tenant("t"));
    let id = rig.create("t", RANGE_NS, None).expect("healthy");
    rig.wait(Duration::from_secs(70));
    assert_eq!(rig.cancel("t", id, false), Err(CancelError::TooLate));
    rig.cancel("t", id, true).expect("forced");
    assert_eq!((rig.list("t").len(), rig.visible("t").len()), (0, 1));
    // Under way.
    *world.play.kept.borrow_mut() = None;
    let id = rig.create("t", RANGE_NS, Some(HOUR_NS / 4)).expect("healthy");
    rig.wait(Duration::from_secs(70));
    assert_eq!(rig.cancel("t", id, false), Err(CancelError::TooLate));
    rig.cancel("t", id, true).expect("forced");
    let listed = rig.list("t");
    assert!(listed.len() == 1 && !listed[0].is_pending(), "listed as processed");
    assert_eq!(rig.filters(), 0);
    for is_forced in [false, true] {
        assert_eq!(rig.cancel("t", id, is_forced), Err(CancelError::Processed));
    }
    // One of four parts is done, and the mode keeps the next one from being begun.
    rig.wait(Duration::from_secs(200));
    let id = rig.create("t", RANGE_NS, Some(HOUR_NS / 4)).expect("healthy");
    rig.wait(Duration::from_secs(80));
    *world.play.kept.borrow_mut() = Some(tenant("t"));
    rig.wait(Duration::from_secs(200));
    assert_eq!(rig.cancel("t", id, false), Err(CancelError::TooLate));
    rig.cancel("t", id, true).expect("forced");
    assert!(rig.list("t").iter().all(|request| !request.is_pending()));
    assert_eq!(rig.visible("t").len(), 1, "the line is in the last part");
}

#[test]
fn what_cannot_be_evaluated_by_the_next_start_is_not_recorded() {
    let simulation = Simulation::new(4);
    let world = World::new(&simulation);
    let rig = world.start();
    for query in ["{app=\"a\"} |= ", "{}", "count_over_time({app=\"a\"}[1m])"] {
        let reply = rig.send(Rig::new_delete("t", query, RANGE_NS, None));
        simulation.run_until(|| reply.borrow().is_some()).expect("an answer");
        let reply = reply.borrow_mut().take();
        let is_refused = matches!(reply, Some(DeletionReply::Created(Err(CreateError::Query(_)))));
        assert!(is_refused, "{query}: {reply:?}");
    }
    assert_eq!(rig.list("t").len(), 0);
}

#[test]
fn requests_that_wait_together_are_written_together() {
    let simulation = Simulation::new(5);
    let world = World::new(&simulation);
    simulation.disk().set_latency_nanos(5_000_000..=5_000_000, 1_000..=1_000);
    let rig = world.start();
    rig.create("t", RANGE_NS, None).expect("healthy");
    let begun = simulation.now();
    let create = || rig.send(Rig::new_delete("t", r#"{app="a"}"#, RANGE_NS, None));
    let replies: Vec<_> = (0..50).map(|_| create()).collect();
    let all = || replies.iter().all(|reply| reply.borrow().is_some());
    simulation.run_until(all).expect("answers");
    assert!(simulation.now().since(begun) < Duration::from_millis(50), "not 50 times 10 ms");
    let ids: std::collections::BTreeSet<_> = rig.list("t").iter().map(|r| r.id).collect();
    assert_eq!(ids.len(), 51, "equal requests have ids of their own");
}

#[test]
fn processed_requests_leave_the_record_after_thirty_days() {
    let simulation = Simulation::new(6);
    let world = World::new(&simulation);
    let rig = world.start();
    rig.create("t", RANGE_NS, None).expect("healthy");
    rig.wait(Duration::from_secs(80));
    assert!(rig.list("t").iter().all(|request| !request.is_pending()));
    rig.wait(Duration::from_secs(29 * 86_400));
    assert_eq!(rig.list("t").len(), 1);
    rig.wait(Duration::from_secs(2 * 86_400));
    assert_eq!(rig.list("t").len(), 0);
    assert!(!has_text(&world, r#"{app="a"}"#));
}
