//! Nodes that do not hear each other, and that reach the bucket: those that go on are as many as can.

use super::*;

/// Cuts the links between two groups of nodes in both directions.
fn cut(world: &World, some: &[usize], others: &[usize]) {
    for one in some {
        for other in others {
            let (one, other) = (&world.nodes[one].process, &world.nodes[other].process);
            world.simulation.cut(one, other);
            world.simulation.cut(other, one);
        }
    }
}

/// Those that are members.
fn members(world: &World) -> Vec<usize> {
    let lives = |node: &&usize| world.nodes[node].state.failure().is_none();
    world.nodes.keys().filter(lives).copied().collect()
}

/// Starts so many nodes, and waits until all have a share.
fn started(seed: u64, nodes: usize) -> World {
    let mut world = World::new(seed);
    for node in 0..nodes {
        world.start(node, 1);
    }
    world.run_for(Duration::from_secs(15));
    assert!(world.shares().iter().all(|share| *share > 0), "{:?}", world.shares());
    world
}

/// The isolated one ends soon, so that its clients go elsewhere, and it ends nobody else.
#[test]
fn who_is_cut_off_from_all_others_takes_nobody_with_it() {
    // In one of fifteen worlds it sees two of three for a while.
    for seed in seeds(30) {
        let _guard = SeedGuard(seed);
        let world = started(seed, 3);
        let alone = (seed % 3) as usize;
        let others: Vec<usize> = (0..3).filter(|node| *node != alone).collect();
        cut(&world, &[alone], &others);
        let cut_at = world.simulation.now();
        // It may keep what it takes for itself, or tell its clients to come again.
        let (at_alone, at_other) = (alone, others[0]);
        world.client(async move |runtime| {
            let there = async {
                let end = runtime.sleep_until(runtime.now().after(Duration::from_secs(20)));
                let pushing = push(&runtime, at_alone, 0..1);
                futures_util::future::select(std::pin::pin!(pushing), std::pin::pin!(end)).await;
            };
            futures_util::future::join(there, push(&runtime, at_other, 1..2)).await;
        });
        let took = world.simulation.now().since(cut_at);
        assert!(took < Duration::from_secs(25), "{took:?}");
        assert_eq!(members(&world), others, "20 s later");
        world.run_for(Duration::from_secs(30));
        assert_eq!(members(&world), others, "50 s later");
        let shares: Vec<usize> =
            others.iter().map(|node| owned(&world.nodes[node].state)).collect();
        assert_eq!(shares, [8, 8]);
    }
}

/// One of two goes on, whichever loses the other first.
#[test]
fn one_of_two_nodes_that_do_not_hear_each_other_goes_on() {
    for seed in seeds(6) {
        let _guard = SeedGuard(seed);
        let world = started(seed, 2);
        cut(&world, &[0], &[1]);
        world.run_for(Duration::from_secs(40));
        assert_eq!(members(&world), [0], "the older one");
        world.client(async |runtime| push(&runtime, 0, 0..5).await);
    }
}

/// Nobody has a majority.
#[test]
fn one_of_three_nodes_that_are_all_cut_off_goes_on() {
    for seed in seeds(3) {
        let _guard = SeedGuard(seed);
        let world = started(seed, 3);
        cut(&world, &[0], &[1, 2]);
        cut(&world, &[1], &[2]);
        world.run_for(Duration::from_secs(60));
        assert_eq!(members(&world), [0], "the oldest one");
        world.client(async |runtime| push(&runtime, 0, 0..5).await);
    }
}

/// The other one of two is dead, and nothing refuses a connection at its address.
#[test]
fn the_younger_of_two_nodes_takes_over_a_little_later() {
    for (seed, dies, usual_s) in [(1, 1, 5..10), (2, 0, 10..16)] {
        let _guard = SeedGuard(seed);
        let world = started(seed, 2);
        let left = 1 - dies;
        world.nodes[&dies].process.stop();
        let stopped = world.simulation.now();
        world.client(async move |runtime| push(&runtime, left, 0..5).await);
        let took = world.simulation.now().since(stopped).as_secs();
        assert!(usual_s.contains(&took), "node {dies}: {took} s");
    }
}
