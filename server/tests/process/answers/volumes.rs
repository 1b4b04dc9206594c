//! Volumes, index statistics and shards.

use serde_json::{Value, json};

use crate::support::{Client, DataDir, SECOND_NS, Server, entry, query, stream};

/// Midnight of a day, in seconds.
const DAY_S: i64 = 1_773_100_800;

const ACCEPT_OLD: [&str; 4] =
    ["--limits.reject-old-samples=false", "--limits.discover-log-levels=false", "--cores", "3"];

/// A line of ten bytes every minute for an hour in `web`, half as many in `db`, whose entries have
/// twelve bytes of metadata with their env; `old` has no env at all.
fn fill(client: &mut Client) {
    let line = "0123456789";
    let at = |minute: i64| (DAY_S + 60 * minute) * SECOND_NS;
    let entries = |step| (0..60).step_by(step).map(|minute| entry(at(minute), line)).collect();
    let claims = (0..60)
        .step_by(2)
        .map(|minute| entry(at(minute), line).with_metadata(&[("env", "claimed"), ("x", "y")]));
    client.push(&[
        stream(&[("app", "web"), ("env", "prod"), ("service_name", "web")], entries(1)),
        stream(&[("app", "db"), ("env", "test"), ("service_name", "db")], claims.collect()),
        stream(&[("app", "old"), ("service_name", "old")], entries(20)),
    ]);
}

fn ask(client: &mut Client, path: &str, more: &[(&str, &str)]) -> Value {
    let (start, end) = (DAY_S.to_string(), (DAY_S + 3600).to_string());
    let params = [&[("start", start.as_str()), ("end", &end)], more].concat();
    client.get(&query::target(path, &params)).json()
}

fn setting() -> (DataDir, Server) {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &ACCEPT_OLD);
    fill(&mut server.client());
    (folder, server)
}

#[test]
fn volumes_follow_the_labels_of_streams() {
    let (_folder, server) = setting();
    let mut client = server.client();
    let end = DAY_S + 3600;
    let mut volumes = |more: &[(&str, &str)]| -> Value {
        let answer = ask(&mut client, "/loki/api/v1/index/volume", more);
        assert_eq!(answer["status"], "success");
        assert_eq!(answer["data"]["resultType"], "vector");
        assert!(answer["data"]["stats"]["summary"]["execTime"].is_number());
        answer["data"]["result"].clone()
    };
    let series = |metric: Value, bytes: &str| json!({"metric": metric, "value": [end, bytes]});
    let (web, db, old) = ("600", "660", "30");
    let any = ("query", r#"{app=~".+"}"#);
    let by_app = json!([
        series(json!({"app": "db"}), db),
        series(json!({"app": "web"}), web),
        series(json!({"app": "old"}), old),
    ]);
    assert_eq!(volumes(&[any]), by_app);
    let by_env = json!([series(json!({"env": "test"}), db), series(json!({"env": "prod"}), web)]);
    assert_eq!(volumes(&[any, ("targetLabels", "env")]), by_env);
    let first = json!([series(json!({"env": "test"}), db)]);
    assert_eq!(volumes(&[any, ("targetLabels", "env"), ("limit", "1")]), first);
    let both = json!([
        series(json!({"app": "db", "env": "test"}), db),
        series(json!({"app": "web", "env": "prod"}), web),
    ]);
    assert_eq!(volumes(&[any, ("targetLabels", "env,app")]), both);
    let by_name = json!([
        series(json!({"app": ""}), "1290"),
        series(json!({"service_name": ""}), "1290"),
        series(json!({"env": ""}), "1260"),
    ]);
    assert_eq!(volumes(&[any, ("aggregateBy", "labels")]), by_name);
    let named = json!([series(json!({"env": ""}), "1260")]);
    assert_eq!(volumes(&[any, ("aggregateBy", "labels"), ("targetLabels", "env")]), named);
    let everything = volumes(&[("query", "{}")]);
    assert_eq!(everything[0]["metric"], json!({"app": "db", "env": "test", "service_name": "db"}));
    assert_eq!(everything.as_array().map(Vec::len), Some(3));
    assert_eq!(volumes(&[("query", r#"{app="none"}"#)]), json!([]));
}

#[test]
fn volumes_over_time_come_in_aligned_buckets() {
    let (_folder, server) = setting();
    let mut client = server.client();
    let mut ask = |start: i64, end: i64, step: &str| -> Value {
        let (start, end) = (start.to_string(), end.to_string());
        let params =
            [("query", r#"{app="web"}"#), ("start", &start), ("end", &end), ("step", step)];
        let target = query::target("/logsvc/api/v1/index/volume_range", &params);
        client.get(&target).json()["data"].clone()
    };
    // From minute 10 to minute 50; the first and the last quarter are cut.
    let found = ask(DAY_S + 600, DAY_S + 3000, "15m");
    assert_eq!(found["resultType"], "matrix");
    let end_of = |minute: i64| (DAY_S + 60 * minute) as f64 - 0.001;
    let values =
        json!(
            [[end_of(15), "50"], [end_of(30), "150"], [end_of(45), "150"], [DAY_S + 3000, "50"],]
        );
    assert_eq!(found["result"], json!([{"metric": {"app": "web"}, "values": values}]));
    // One sample is a vector.
    let found = ask(DAY_S, DAY_S + 3600, "1h");
    assert_eq!(found["resultType"], "vector");
    assert_eq!(found["result"][0]["value"], json!([DAY_S + 3600, "600"]));
    let found = ask(DAY_S - 7200, DAY_S - 3600, "60");
    assert_eq!((&found["resultType"], &found["result"]), (&json!("vector"), &json!([])));
}

#[test]
fn index_statistics_count_what_is_there() {
    let (_folder, server) = setting();
    let mut client = server.client();
    let stats = "/loki/api/v1/index/stats";
    let found = ask(&mut client, stats, &[("query", r#"{app=~"web|db"}"#)]);
    let chunks = found["chunks"].as_u64().expect("a number");
    assert!(chunks >= 2, "{found}");
    assert_eq!(found, json!({"streams": 2, "chunks": chunks, "bytes": 1260, "entries": 90}));
    let none = json!({"streams": 0, "chunks": 0, "bytes": 0, "entries": 0});
    assert_eq!(ask(&mut client, stats, &[("query", r#"{app="none"}"#)]), none);
    // A form says the same as a URL.
    let form = query::form(&[
        ("query", r#"{app="web"}"#),
        ("start", &DAY_S.to_string()),
        ("end", &(DAY_S + 600).to_string()),
    ]);
    let headers = [("Content-Type", "application/x-www-form-urlencoded")];
    let posted = client.request("POST", stats, &headers, Some(form.as_bytes()));
    assert_eq!(posted.header("content-type"), Some("application/json; charset=UTF-8"));
    assert_eq!(posted.json()["entries"], 10);

    let shards = "/loki/api/v1/index/shards";
    let selector = ("query", r#"{app=~"web|db"}"#);
    let found = ask(&mut client, shards, &[selector, ("targetBytesPerShard", "400")]);
    let bounds: Vec<_> = found["shards"].as_array().expect("a list").iter().collect();
    assert_eq!(bounds.len(), 4, "{found}");
    assert_eq!(bounds[0]["bounds"]["min"], 0);
    assert_eq!(bounds[3]["bounds"]["max"], u64::MAX);
    assert_eq!(bounds[0]["stats"]["bytes"], 315);
    let refused = client.get(&query::target(shards, &[selector])).expect(400);
    assert_eq!(refused, "targetBytesPerShard must be a positive value");
}

#[test]
fn volumes_can_be_switched_off_and_bounded() {
    let folder = DataDir::new();
    let more = ["--limits.volume-max-series", "2"];
    let server = Server::start(folder.path(), &[&ACCEPT_OLD[..], &more].concat());
    let mut client = server.client();
    fill(&mut client);
    let bounds = [("start", "1773100800"), ("end", "1773104400"), ("query", r#"{app=~".+"}"#)];
    let target = query::target("/loki/api/v1/index/volume", &bounds);
    let text = "the query hit the max number of series limit (limit: 2 series)";
    assert_eq!(client.get(&target).expect(400), text);
    server.stop();
    let server = Server::start(folder.path(), &["--limits.volume-enabled=false"]);
    for path in ["index/volume", "index/volume_range"] {
        let target = query::target(&format!("/loki/api/v1/{path}"), &bounds);
        assert_eq!(server.get(&target).expect(404), "not found");
    }
}
