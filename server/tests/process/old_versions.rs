//! Data folders that released versions have written open in this one, and answer as they did.
//!
//! `fixtures/<version>/folder.json` holds such a folder as a killed server left it, each file in
//! Base64 under its path: segments of several days, write-ahead logs with entries in no segment, a
//! processed request for deletion, rule groups with their state. `answers.json` beside it has what
//! that version answered. docs/release.md says how the fixture of a new version is made.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::support::{Client, DataDir, Server, entry, logsvc, query, stream, text};

/// Names the version whose fixture is to be written, instead of reading those that are there.
const MAKE: &str = "LOGSVC_MAKE_FIXTURE";

const DAY_NS: i64 = 86_400_000_000_000;

/// 2026-01-05, midnight.
const FIRST_DAY_NS: i64 = 1_767_571_200_000_000_000;

const RULES: &str = "name: group\ninterval: 1m\nrules:\n  - alert: Always\n    expr: vector(1)\n    \
                     for: 87600h\n  - record: errors\n    expr: sum(rate({app=\"0\"} |= \"error\" \
                     [1m]))\n";

/// Requests deleted are applied at once; nothing is removed by its age.
const FLAGS: [&str; 5] = [
    "--limits.reject-old-samples=false",
    "--compactor.retention-enabled=true",
    "--compactor.delete-request-cancel-period=1ms",
    "--limits.deletion-mode=filter-and-delete",
    "--storage.head-max-bytes=64KB",
];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process/fixtures")
}

/// What is asked; the answers must not change from version to version.
fn questions() -> Vec<String> {
    let (start, end) = (FIRST_DAY_NS.to_string(), (FIRST_DAY_NS + 4 * DAY_NS).to_string());
    let range = [("start", start.as_str()), ("end", end.as_str())];
    let mut questions = Vec::new();
    for (path, text) in [
        ("query_range", r#"{app=~".+"} |= "entry 7""#),
        ("query_range", r#"{app="1"} | trace_id="0000000000000011" | level="error""#),
        ("query_range", r#"{app="2"} | json | n > 40 | line_format "{{.n}}""#),
        ("query_range", r#"sum by (app) (count_over_time({app=~".+"}[1d]))"#),
        ("query_range", r#"sum(bytes_over_time({app="3"}[12h]))"#),
        ("query_range", r#"{app="gone"}"#),
        ("index/stats", r#"{app=~".+"}"#),
    ] {
        let more = [("query", text), ("limit", "200"), ("step", "86400")];
        let params = [&range[..], &more[..]].concat();
        questions.push(query::target(&format!("/loki/api/v1/{path}"), &params));
    }
    let selector = [&range[..], &[("match[]", r#"{app=~".+"}"#)]].concat();
    questions.push(query::target("/loki/api/v1/series", &selector));
    questions.push(query::target("/loki/api/v1/labels", &range));
    questions.push(query::target("/loki/api/v1/label/app/values", &range));
    questions.push("/loki/api/v1/rules/team".to_owned());
    questions.push("/loki/api/v1/delete".to_owned());
    questions
}

/// The answers, without what differs from run to run.
fn answers(server: &Server) -> Map<String, Value> {
    let mut answers = Map::new();
    for question in questions() {
        let reply = server.get(&question);
        let text = reply.expect(200);
        let mut answer = serde_json::from_str(&text).unwrap_or(Value::String(text));
        if let Some(data) = answer.get_mut("data").and_then(Value::as_object_mut) {
            data.remove("stats");
        }
        // Merges change it.
        answer.as_object_mut().map(|fields| fields.remove("chunks"));
        for list in ["/data", "/data/result"] {
            if let Some(Value::Array(items)) = answer.pointer_mut(list) {
                items.sort_by_key(Value::to_string);
            }
        }
        answers.insert(question, answer);
    }
    answers
}

fn fill(data: &Path) -> Map<String, Value> {
    let server = Server::start(data, &[&FLAGS[..], &["--cores", "2"]].concat());
    let mut client = server.client();
    let push_day = |client: &mut Client, day: i64| {
        let mut streams = Vec::new();
        for app in 0..6 {
            let name = if app == 5 { "gone".to_owned() } else { app.to_string() };
            let mut entries = Vec::new();
            for number in 0..50 {
                let time_ns = FIRST_DAY_NS + day * DAY_NS + number * 1_000_000_007 + app;
                let level = if number % 7 == 3 { "error" } else { "info" };
                let line = match app {
                    2 => format!(
                        "{{\"n\":{number},\"level\":\"{level}\",\"text\":\"entry {number}\"}}"
                    ),
                    _ => {
                        format!("level={level} entry {number} of day {day} took {}ms", number * 13)
                    }
                };
                let trace = format!("{number:016}");
                entries.push(entry(time_ns, line).with_metadata(&[("trace_id", trace.as_str())]));
            }
            streams.push(stream(&[("app", &name), ("env", "prod")], entries));
        }
        client.push(&streams);
    };
    for day in 0..3 {
        push_day(&mut client, day);
        client.request("POST", "/flush", &[], Some(b"")).expect(204);
    }
    let gone = [
        ("query", r#"{app="gone"}"#),
        ("start", &(FIRST_DAY_NS / 1_000_000_000).to_string()),
        ("end", &((FIRST_DAY_NS + 4 * DAY_NS) / 1_000_000_000).to_string()),
    ];
    let target = query::target("/loki/api/v1/delete", &gone);
    client.request("POST", &target, &[], Some(b"")).expect(204);
    let yaml = [("content-type", "application/yaml")];
    client.request("POST", "/loki/api/v1/rules/team", &yaml, Some(RULES.as_bytes())).expect(202);
    let deadline = Instant::now() + Duration::from_secs(60);
    while !server.get("/loki/api/v1/delete").expect(200).contains("\"processed\"") {
        assert!(Instant::now() < deadline, "the request is not processed\n{}", server.log_text());
        std::thread::sleep(Duration::from_millis(100));
    }
    // The rest is in the logs only. The request for deletion came before.
    push_day(&mut client, 3);
    let answers = answers(&server);
    server.kill();
    answers
}

/// The files below a folder by their path within it, in Base64.
fn packed(folder: &Path) -> BTreeMap<String, String> {
    let (mut files, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for item in fs::read_dir(next).expect("a folder") {
            let path = item.expect("an item").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).expect("it is below").to_str().expect("text");
            files.insert(name.to_owned(), STANDARD.encode(fs::read(&path).expect("a file")));
        }
    }
    files
}

/// Writes such files to a folder.
fn unpack(files: &BTreeMap<String, String>, folder: &Path) {
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("it is below")).expect("a folder");
        fs::write(path, STANDARD.decode(text).expect("Base64")).expect("written");
    }
}

fn write_json(path: &Path, value: &impl Serialize) {
    let text = serde_json::to_string_pretty(value).expect("JSON");
    fs::write(path, text + "\n").expect("written");
}

fn read_json<T: DeserializeOwned>(path: &Path) -> T {
    let text = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn folders_of_released_versions_open_and_answer_as_they_did() {
    if let Ok(version) = std::env::var(MAKE) {
        let (data, target) = (DataDir::new(), fixtures().join(version));
        let answers = fill(data.path());
        fs::create_dir_all(&target).expect("a folder");
        write_json(&target.join("folder.json"), &packed(data.path()));
        write_json(&target.join("answers.json"), &answers);
        return;
    }
    let mut versions = 0;
    for fixture in fs::read_dir(fixtures()).expect("the folder of the fixtures") {
        let fixture = fixture.expect("an item").path();
        let expected: Map<String, Value> = read_json(&fixture.join("answers.json"));
        let asked: Vec<&String> = expected.keys().collect();
        let mut questions = questions();
        questions.sort();
        assert_eq!(asked, questions.iter().collect::<Vec<_>>(), "{}", fixture.display());
        let data = DataDir::new();
        unpack(&read_json(&fixture.join("folder.json")), data.path());
        // As it was left, after a start that has rewritten the logs, and with another number of cores.
        for cores in ["2", "2", "1", "3"] {
            let server = Server::start(data.path(), &[&FLAGS[..], &["--cores", cores]].concat());
            let found = answers(&server);
            for (question, answer) in &expected {
                let told = format!("{}, {cores} cores: {question}", fixture.display());
                assert_eq!(&found[question], answer, "{told}");
            }
            server.stop();
        }
        let (code, said) = logsvc(&["check", "--data-dir", text(data.path())]);
        assert_eq!(code, 0, "{said}");
        versions += 1;
    }
    assert!(versions > 0, "there are fixtures");
}
