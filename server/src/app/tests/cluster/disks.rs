//! Nodes whose disks fail or are full.

use logsvc_runtime::sim::DiskOperation;
use logsvc_shards::member::CUT_OFF_AFTER;

use super::*;

/// Nobody has to make room on a full disk, as long as others have some.
#[test]
fn who_cannot_write_its_log_is_taken_over_by_those_who_can() {
    let _guard = SeedGuard(9);
    let mut world = World::new(9);
    for node in 0..3 {
        world.start(node, 1);
    }
    world.run_for(Duration::from_secs(15));
    world.client(async |runtime| push(&runtime, 0, 0..10).await);
    let disk = world.disk.clone();
    let fill = move |node: usize| {
        for operation in [DiskOperation::Write, DiskOperation::Open] {
            disk.fail_next(operation, format!("/srv/{node}/wal"), u64::MAX);
        }
    };
    fill(1);
    let filled = world.simulation.now();
    let attempts = world.client(async |runtime| push(&runtime, 0, 10..20).await);
    let took = world.simulation.now().since(filled);
    let usual = CUT_OFF_AFTER..CUT_OFF_AFTER + Duration::from_secs(5);
    assert!(attempts > 0 && usual.contains(&took), "{attempts}, {took:?}");
    world.client(async |runtime| all_are_there(runtime, vec![0, 2], 20).await);
    world.run_for(Duration::from_secs(5));
    let failure = world.nodes[&1].state.failure();
    assert!(failure.is_some_and(|text| text.contains("has taken over")), "it has ended");
    world.kill(1);

    // Where nobody can, nobody is worse than others.
    fill(0);
    fill(2);
    let disk = world.disk.clone();
    world.client(async move |runtime| {
        let room = async {
            runtime.sleep_until(runtime.now().after(Duration::from_secs(15))).await;
            disk.clear_faults();
        };
        let pushing = push(&runtime, 0, 20..30);
        futures_util::future::join(pushing, room).await;
        all_are_there(runtime.clone(), vec![0, 2], 30).await;
    });
    assert!(world.nodes.values().all(|node| node.state.failure().is_none()));
}
