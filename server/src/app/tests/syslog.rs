//! Datagrams that come faster than the node takes them.

use logsvc_runtime::Datagrams;

use super::*;

/// Sum of a counter over the lines of `/metrics` that begin with its name.
async fn counter(node: &TestNode, name: &str) -> u64 {
    let (status, text) = node.http("GET", "/metrics", "").await;
    assert_eq!(status, 200);
    let line = text.lines().find(|line| line.starts_with(name)).expect("the metric");
    let (_, value) = line.rsplit_once(' ').expect("a value");
    value.parse::<f64>().expect("a number") as u64
}

#[test]
fn each_datagram_is_stored_or_counted_as_dropped() {
    const SENDERS: u64 = 8;
    for seed in seeds(3) {
        let to = SocketAddr::from(([127, 0, 0, 1], 5514));
        with_node(
            seed,
            move |config, _| {
                config.syslog.udp_address = to.to_string();
                config.syslog.tenant = "t".to_owned();
            },
            move |node| async move {
                let mut rng = Rng::new(seed);
                // The node listens a moment later: what comes before is nobody's.
                node.runtime.sleep_until(node.runtime.now().after(Duration::from_secs(1))).await;
                let mut sockets = Vec::new();
                for _ in 0..SENDERS {
                    let any = SocketAddr::from(([127, 0, 0, 1], 0));
                    sockets.push(node.runtime.bind_datagrams(any, 1 << 16).expect("a socket"));
                }
                let mut sent = 0;
                for round in 0..3 {
                    // The last round is more than the kernel holds.
                    let count = if round == 2 { 30_000 } else { rng.below(2000) };
                    for number in 0..count {
                        let text =
                            format!("<13>1 - h - - - - {round} {number} {}", "x".repeat(600));
                        let socket = rng.pick(&sockets);
                        socket.send(text.as_bytes(), to).expect("sent");
                        sent += 1;
                    }
                    node.runtime
                        .sleep_until(node.runtime.now().after(Duration::from_secs(5)))
                        .await;
                }
                let received = counter(&node, "logsvc_syslog_udp_messages_total").await;
                let dropped = counter(&node, "logsvc_syslog_udp_dropped_total").await;
                assert_eq!(received + dropped, sent, "dropped {dropped}, seed {seed}");
                assert!(dropped > 0 && received > dropped / 8, "{received} {dropped}");
                let query = "sum(count_over_time(%7Bfacility%3D%22user%22%7D%5B1h%5D))";
                let target =
                    format!("/loki/api/v1/query?query={query}&time={}", node.runtime.unix_nanos());
                let (status, text) = node.http("GET", &target, "").await;
                assert_eq!(status, 200, "{text}");
                let answer: Value = serde_json::from_str(&text).expect("JSON");
                let counted = answer["data"]["result"][0]["value"][1].as_str().expect("a count");
                assert_eq!(counted, received.to_string(), "seed {seed}");
            },
        );
    }
}
