//! What senders of single messages are told agrees with what is stored.

use super::*;

/// The statuses of documents in the answer to a bulk request, and the messages that are found.
async fn fates(node: &TestNode, documents: &[Value]) -> Vec<u64> {
    let body: String =
        documents.iter().map(|document| format!("{{\"create\":{{}}}}\n{document}\n")).collect();
    let target = "/elasticsearch/_bulk?_stream_fields=app";
    let (status, text) = node.http("POST", target, &body).await;
    assert_eq!(status, 200, "{text}");
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    let items = answer["items"].as_array().expect("items");
    items.iter().map(|item| item["create"]["status"].as_u64().expect("a status")).collect()
}

async fn found(node: &TestNode, app: &str) -> Vec<String> {
    let now_ns = node.runtime.unix_nanos();
    let (start_ns, end_ns) = (now_ns - 86_400 * SECOND_NS, now_ns + 60 * SECOND_NS);
    let query = format!("%7Bapp%3D%22{app}%22%7D");
    let target =
        format!("/loki/api/v1/query_range?query={query}&start={start_ns}&end={end_ns}&limit=5000");
    let (status, text) = node.http("GET", &target, "").await;
    assert_eq!(status, 200, "{text}");
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    let streams = answer["data"]["result"].as_array().expect("streams");
    let values = streams.iter().flat_map(|stream| stream["values"].as_array().expect("values"));
    let mut lines: Vec<String> =
        values.map(|value| value[1].as_str().expect("a line").to_owned()).collect();
    lines.sort();
    lines
}

#[test]
fn the_fate_that_is_told_of_a_record_is_its_fate() {
    for seed in seeds(5) {
        with_node(
            seed,
            |_, limits| {
                limits.max_line_size_bytes = 300;
                limits.per_stream_rate_limit_bytes = 100_000;
                limits.per_stream_rate_limit_burst_bytes = 100_000;
            },
            move |node| async move {
                let mut rng = Rng::new(seed);
                let mut stored: BTreeMap<&str, Vec<String>> = BTreeMap::new();
                let mut seen: BTreeMap<u64, usize> = BTreeMap::new();
                for round in 0..6 {
                    let now_ns = node.runtime.unix_nanos();
                    let mut documents = Vec::new();
                    for number in 0..rng.below(300) {
                        // Streams take turns; a few entries are far behind, ahead, or too long.
                        let app = *rng.pick(&["a", "b", "c"]);
                        let back_s = match rng.below(10) {
                            0 => 4000 + rng.below(7000) as i64,
                            1 => 40 * 86_400,
                            2 => -3600,
                            _ => rng.below(1000) as i64,
                        };
                        let long = if rng.below(10) == 0 { 400 } else { 20 };
                        let message = format!("{round} {number} {}", "x".repeat(long));
                        documents.push(json!({
                            "app": app, "message": message,
                            "@timestamp": now_ns - back_s * SECOND_NS + number as i64,
                        }));
                    }
                    // More than a stream may have at once: all of it comes again, or none.
                    if round % 2 == 1 {
                        for number in 0..600 {
                            let message = format!("{round} {number} {}", "y".repeat(200));
                            documents.push(json!({"app": "much", "message": message,
                                "@timestamp": now_ns + number}));
                        }
                    }
                    if documents.is_empty() {
                        continue;
                    }
                    let statuses = fates(&node, &documents).await;
                    assert_eq!(statuses.len(), documents.len());
                    for (document, status) in documents.iter().zip(statuses) {
                        *seen.entry(status).or_default() += 1;
                        if status == 201 {
                            let app = ["a", "b", "c", "much"]
                                .into_iter()
                                .find(|app| document["app"] == **app)
                                .expect("one of them");
                            let line = document["message"].as_str().expect("a text").to_owned();
                            stored.entry(app).or_default().push(line);
                        }
                    }
                }
                for app in ["a", "b", "c", "much"] {
                    let mut told = stored.remove(app).unwrap_or_default();
                    told.sort();
                    let found = found(&node, app).await;
                    assert_eq!(told, found, "of {app}, seed {seed}");
                }
                for status in [201, 400, 429] {
                    assert!(seen.contains_key(&status), "{seen:?}");
                }
            },
        );
    }
}
