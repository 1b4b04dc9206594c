//! Three nodes answer random queries as one node does, to the last bit.
//!
//! `LOGSVC_RANDOM_QUERIES` is how many, `LOGSVC_RANDOM_SEED` where they begin.

use std::thread;
use std::time::{Duration, Instant};

use logsvc_logql::testing::Writer;
use serde_json::Value;

use super::{Cluster, PATIENCE};
use crate::support::body::{Entry, Stream};
use crate::support::{Client, SECOND_NS, Server, body, entry, now_ns, query, stream};

const NODES: u8 = 3;

/// So many streams, which all partitions share.
const STREAMS: u64 = 96;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// A part of the data: entries from `from` to `to`, in quarters of a second behind `base_ns`. Each
/// stream has its own times, some of which are equal.
fn entries(writer: &mut Writer, base_ns: i64, (from, to): (i64, i64)) -> Vec<Stream> {
    let mut streams = Vec::new();
    for number in 0..STREAMS {
        let (name, env) = (number.to_string(), if number % 3 == 0 { "p" } else { "q" });
        let (mut quarter, mut entries) = (from + writer.rng.below(4) as i64, Vec::<Entry>::new());
        while quarter < to {
            let one = entry(base_ns + quarter * SECOND_NS / 4, writer.line());
            let trace = writer.rng.below(3).to_string();
            entries.push(match writer.rng.below(4) {
                0 => one.with_metadata(&[("trace", &trace)]),
                1 => one.with_metadata(&[("level", "meta")]),
                _ => one,
            });
            quarter += writer.rng.below(6) as i64;
        }
        streams.push(stream(&[("app", "m"), ("env", env), ("s", &name)], entries));
    }
    streams
}

/// Waits until each node has partitions.
fn await_shares(nodes: &[Server]) {
    let begun = Instant::now();
    let share = |node: &Server| node.metric("logsvc_cluster_partitions");
    while nodes.iter().any(|node| share(node) < 1.0) {
        assert!(begun.elapsed() < PATIENCE, "nodes have no partitions");
        thread::sleep(Duration::from_millis(50));
    }
}

/// The status and the content of an answer, without what it has cost. If entries have errors, it is left
/// open which series is named.
fn answer(client: &mut Client, target: &str) -> (u16, Value) {
    let reply = client.get(target);
    let mut content = match serde_json::from_slice(reply.text().as_bytes()) {
        Ok(json) => json,
        Err(_) if reply.text().starts_with("pipeline error: ") => Value::from("pipeline error"),
        Err(_) => Value::String(reply.text()),
    };
    if let Some(data) = content.get_mut("data").and_then(Value::as_object_mut) {
        data.remove("stats");
    }
    (reply.status, content)
}

/// The same, and the order of series says nothing.
fn list(client: &mut Client, target: &str) -> (u16, Value) {
    let (status, mut content) = answer(client, target);
    if let Some(list) = content.get_mut("data").and_then(Value::as_array_mut) {
        list.sort_by_key(Value::to_string);
    }
    (status, content)
}

/// A request for a query of a case.
fn target(writer: &mut Writer, text: &str, base_ns: i64) -> String {
    let start_ns = base_ns + SECOND_NS * writer.rng.below(10) as i64;
    let end_ns = start_ns + SECOND_NS * writer.rng.below(30) as i64;
    let (start, end) = (start_ns.to_string(), end_ns.to_string());
    // Nodes look for their share of many lines first.
    let most = if writer.rng.one_in(2) { 1_500 } else { 60 };
    let limit = (1 + writer.rng.below(most)).to_string();
    let direction = *writer.rng.pick(&["forward", "backward"]);
    let common = [("query", text), ("limit", &limit), ("direction", direction)];
    if writer.rng.one_in(4) {
        return query::target("/loki/api/v1/query", &[&common[..], &[("time", &end)]].concat());
    }
    let step = *writer.rng.pick(&["100ms", "700ms", "2500ms"]);
    let range = [("start", start.as_str()), ("end", end.as_str()), ("step", step)];
    query::target("/loki/api/v1/query_range", &[&common[..], &range].concat())
}

/// Requests that list what there is.
fn lists(base_ns: i64) -> Vec<String> {
    let (start, end) = (base_ns.to_string(), (base_ns + 60 * SECOND_NS).to_string());
    let range = [("start", start.as_str()), ("end", end.as_str())];
    let selectors = [r#"{app="m"}"#, r#"{env="p"}"#, r#"{s=~"1.*"}"#, r#"{app="nobody"}"#];
    let mut targets = vec![query::target("/loki/api/v1/labels", &range)];
    for name in ["app", "env", "s"] {
        targets.push(query::target(&format!("/loki/api/v1/label/{name}/values"), &range));
    }
    for selector in selectors {
        let with = |name| [&[(name, selector)], &range[..]].concat();
        targets.push(query::target("/loki/api/v1/series", &with("match[]")));
        for path in ["index/volume", "index/volume_range", "detected_labels", "detected_fields"] {
            targets.push(query::target(&format!("/loki/api/v1/{path}"), &with("query")));
        }
    }
    targets
}

#[test]
fn nodes_answer_random_queries_as_one_does() {
    let cluster = Cluster::new();
    let mut nodes: Vec<Server> = (1..=NODES).map(|node| cluster.start(node)).collect();
    await_shares(&nodes);
    let alone = Server::start(&cluster.folder.path().join("alone"), &["--cores=1"]);
    let seed = number("LOGSVC_RANDOM_SEED", 1);
    let (mut writer, base_ns) = (Writer::new(seed), now_ns() - 600 * SECOND_NS);
    // In segments of a node that has left; in segments of those that own them; and in memory.
    for (round, part) in [(0, 30), (20, 60), (50, 160)].into_iter().enumerate() {
        let streams = entries(&mut writer, base_ns, part);
        for (turn, some) in streams.chunks(7).enumerate() {
            let place = (turn + round) % nodes.len();
            for server in [&nodes[place], &alone] {
                let headers = [("Content-Type", "application/json")];
                let json = body::json(some);
                let path = "/loki/api/v1/push";
                let reply = server.client().request("POST", path, &headers, Some(json.as_bytes()));
                assert_eq!(reply.status, 204, "{}", reply.text());
            }
        }
        match round {
            0 => {
                let last = nodes.pop().expect("there are three");
                last.stop();
                nodes.push(cluster.start(NODES));
                await_shares(&nodes);
            }
            1 => {
                for server in nodes.iter().chain([&alone]) {
                    let reply = server.client().request("POST", "/flush", &[], None);
                    assert_eq!(reply.status, 204, "{}", reply.text());
                }
            }
            _ => {}
        }
    }
    let mut clients: Vec<Client> = nodes.iter().map(|node| node.client()).collect();
    let mut of_one = alone.client();
    for (place, target) in lists(base_ns).iter().enumerate() {
        let client = &mut clients[place % usize::from(NODES)];
        assert_eq!(list(client, target), list(&mut of_one, target), "{target}");
    }
    let (mut found, mut refused, mut texts) = (0, 0, Vec::<String>::new());
    let count = number("LOGSVC_RANDOM_QUERIES", 300);
    for case in 0..count {
        let mut writer = Writer::new(seed.wrapping_mul(1_000_003) + case);
        let text = match case % 4 {
            3 => {
                let text: &String = &texts[writer.rng.below(texts.len())];
                writer.mutation(&text.clone(), &texts)
            }
            _ => writer.query(),
        };
        let target = target(&mut writer, &text, base_ns);
        let wanted = answer(&mut of_one, &target);
        let client = &mut clients[case as usize % usize::from(NODES)];
        let got = answer(client, &target);
        assert_eq!(got, wanted, "seed {seed}, case {case}: {text}\n{target}");
        let result = wanted.1["data"]["result"].as_array();
        found += u64::from(result.is_some_and(|result| !result.is_empty()));
        refused += u64::from(wanted.0 == 400);
        if texts.len() < 1000 && case % 4 != 3 {
            texts.push(text);
        }
    }
    assert!(
        found > count / 4 && refused > count / 20,
        "{found} found something, {refused} refused"
    );
}
