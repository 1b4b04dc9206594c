//! Limits that hold for all nodes together.

use super::*;

/// Pushes a line of each of so many new streams to a node. The answer names those that are refused.
async fn push_streams(runtime: &SimRuntime, node: usize, numbers: std::ops::Range<u64>) -> usize {
    let now_ns = runtime.unix_nanos();
    let streams: Vec<Value> = numbers
        .map(|number| {
            let labels = json!({"app": "a", "n": number.to_string()});
            json!({"stream": labels, "values": [[now_ns.to_string(), "1"]]})
        })
        .collect();
    let body = json!({ "streams": streams }).to_string();
    let address = SocketAddr::new(ip(node), HTTP_PORT);
    let pushed = http(runtime, address, "POST", "/loki/api/v1/push", &body).await;
    let (status, text) = pushed.expect("an answer");
    if status == 204 {
        return 0;
    }
    assert_eq!(status, 429, "{text}");
    let begin =
        "maximum active stream limit exceeded when trying to create stream {app=\"a\", n=\"";
    for line in text.lines() {
        assert!(line.starts_with(begin) && line.ends_with("user: 't'"), "{line}");
    }
    text.lines().count()
}

async fn stored(runtime: &SimRuntime, node: usize) -> usize {
    let answer = get(runtime, node, "/loki/api/v1/series?match[]=%7Bapp%3D%22a%22%7D").await;
    answer["data"].as_array().map_or(0, Vec::len)
}

#[test]
fn nodes_share_the_limit_on_streams() {
    for seed in 41..43 {
        let _guard = SeedGuard(seed);
        let mut world = World::new(seed);
        world.limits = |limits| limits.max_global_streams_per_user = 300;
        for node in 0..3 {
            world.start(node, 1 + (node % 2) as u16);
        }
        world.run_for(Duration::from_secs(10));
        world.client(async |runtime| {
            let mut refused = 0;
            for push in 0..12 {
                let numbers = push * 50..(push + 1) * 50;
                refused += push_streams(&runtime, push as usize % 3, numbers).await;
            }
            let taken = stored(&runtime, 1).await;
            assert!((270..=330).contains(&taken), "{taken}");
            assert_eq!(taken + refused, 600, "who is refused is told so");
            // What was taken is taken again by any node, and what was refused is refused again.
            for node in 0..3 {
                let mut refused_again = 0;
                for push in 0..12 {
                    let numbers = push * 50..(push + 1) * 50;
                    refused_again += push_streams(&runtime, node, numbers).await;
                }
                assert_eq!(refused_again, refused);
            }
        });
        world.kill(2);
        world.run_for(Duration::from_secs(20));
        world.client(async |runtime| {
            let before = stored(&runtime, 0).await;
            for push in 20..32 {
                push_streams(&runtime, push as usize % 2, push * 50..(push + 1) * 50).await;
            }
            // The others take its share, of streams that they did not have.
            let more = stored(&runtime, 0).await - before;
            assert!((70..=130).contains(&more), "{more}");
        });
    }
}
