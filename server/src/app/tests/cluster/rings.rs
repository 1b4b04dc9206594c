//! Ring pages of nodes that have others.

use super::*;

async fn ring(runtime: &SimRuntime, node: usize, path: &str) -> std::io::Result<(u16, String)> {
    let address = SocketAddr::new(ip(node), HTTP_PORT);
    http_with(runtime, address, "GET", path, ("Accept: application/json", "")).await
}

/// The members of a ring: the name, state and number of tokens of each.
async fn members(runtime: &SimRuntime, node: usize, path: &str) -> Vec<(String, String, usize)> {
    let (status, text) = ring(runtime, node, path).await.expect("an answer");
    assert_eq!(status, 200, "{text}");
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    let shards = answer["shards"].as_array().expect("members").iter();
    let word = |shard: &Value, key: &str| shard[key].as_str().expect("a text").to_owned();
    let tokens = |shard: &Value| shard["tokens"].as_array().expect("tokens").len();
    shards.map(|shard| (word(shard, "id"), word(shard, "state"), tokens(shard))).collect()
}

async fn forget(runtime: &SimRuntime, node: usize, instance: &str) -> (u16, String) {
    let address = SocketAddr::new(ip(node), HTTP_PORT);
    let target = format!("/ring?forget={instance}");
    http(runtime, address, "POST", &target, "").await.expect("an answer")
}

fn expected(list: &[(&str, &str, usize)]) -> Vec<(String, String, usize)> {
    let owned = |(name, state, tokens): &(&str, &str, usize)| {
        ((*name).to_owned(), (*state).to_owned(), *tokens)
    };
    list.iter().map(owned).collect()
}

#[test]
fn rings_of_any_node_show_all_nodes() {
    let _guard = SeedGuard(21);
    let mut world = World::new(21);
    world.start(0, 1);
    world.start(1, 2);
    world.parts = roles::READ;
    world.start_at_last(2, 1);
    world.run_for(Duration::from_secs(10));
    let shares = world.shares();
    assert_eq!(shares, [8, 8, 0]);
    let keeper = keeper(&world);
    world.client(async move |runtime| {
        for node in 0..3 {
            let owners = expected(&[("node-0", "ACTIVE", 8), ("node-1", "ACTIVE", 8)]);
            assert_eq!(members(&runtime, node, "/ring").await, owners);
            assert_eq!(members(&runtime, node, "/pattern/ring").await, owners);
            let any = expected(&[("node-0", "ACTIVE", 0), ("node-1", "ACTIVE", 0)]);
            assert_eq!(members(&runtime, node, "/distributor/ring").await, any);
            for path in ["/compactor/ring", "/ruler/ring"] {
                let work = |node| usize::from(node == keeper);
                let all = [("node-0", "ACTIVE", work(0)), ("node-1", "ACTIVE", work(1))];
                assert_eq!(members(&runtime, node, path).await, expected(&all));
            }
        }
        let (status, text) = forget(&runtime, 2, "node-1").await;
        assert_eq!((status, &*text), (409, "cannot forget node-1: the member is alive\n"));
        let (status, text) = forget(&runtime, 2, "nobody").await;
        assert_eq!((status, &*text), (503, "instance nobody not found in the ring\n"));
    });
    world.kill(1);
    world.run_for(Duration::from_secs(20));
    world.client(async |runtime| {
        let all = expected(&[("node-0", "ACTIVE", 16), ("node-1", "UNHEALTHY", 0)]);
        assert_eq!(members(&runtime, 2, "/ring").await, all);
        assert_eq!(forget(&runtime, 2, "node-1").await.0, 302);
        runtime.sleep_until(runtime.now().after(Duration::from_secs(3))).await;
        for node in [0, 2] {
            assert_eq!(
                members(&runtime, node, "/ring").await,
                expected(&[("node-0", "ACTIVE", 16)])
            );
        }
    });
}

#[test]
fn a_node_that_knows_no_map_has_no_ring() {
    let _guard = SeedGuard(22);
    let mut world = World::new(22);
    world.begin(0, 1);
    let answers = world.client(async |runtime| {
        let mut answers = Vec::new();
        while !matches!(answers.last(), Some((200, _))) {
            answers.extend(ring(&runtime, 0, "/ring").await);
            runtime.sleep_until(runtime.now().after(Duration::from_micros(500))).await;
        }
        answers
    });
    let no_ring = (503, "no ring returned from the KV store\n".to_owned());
    assert_eq!(answers.first(), Some(&no_ring), "{answers:?}");
    let others = answers[..answers.len() - 1].iter().filter(|answer| **answer != no_ring);
    assert_eq!(others.count(), 0, "{answers:?}");
    world.run_for(Duration::from_secs(10));
    assert_eq!(world.nodes[&0].state.failure(), None);
}
