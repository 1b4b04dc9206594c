//! Requests for deletion, over real sockets: what clients send and are answered, the entries that
//! are hidden, and those that are gone.

mod hiding;
mod kills;
mod removal;
mod requests;
mod steadiness;

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Client, Reply, SECOND_NS, Server, now_ns, query};

const PATH: &str = "/loki/api/v1/delete";

/// Longest time until something happens that the server does on its own.
const PATIENCE: Duration = Duration::from_secs(120);

/// Deletion is on.
const ON: [&str; 2] =
    ["--compactor.retention-enabled=true", "--limits.deletion-mode=filter-and-delete"];

fn start(data_dir: &Path, more: &[&str]) -> Server {
    start_with_cores(data_dir, "2", more)
}

fn start_with_cores(data_dir: &Path, cores: &str, more: &[&str]) -> Server {
    Server::start(data_dir, &[&ON[..], &["--cores", cores], more].concat())
}

/// So many seconds ago, in whole seconds since the Unix epoch.
fn seconds_ago(seconds: i64) -> i64 {
    now_ns() / SECOND_NS - seconds
}

fn create_as(client: &mut Client, tenant: &str, params: &[(&str, &str)]) -> Reply {
    let headers = [("X-Scope-OrgID", tenant)];
    client.request("POST", &query::target(PATH, params), &headers, Some(b""))
}

/// Makes a request and returns its id.
#[track_caller]
fn create(client: &mut Client, tenant: &str, params: &[(&str, &str)]) -> String {
    let reply = create_as(client, tenant, params);
    assert_eq!((reply.status, reply.text().as_str()), (204, ""));
    let id = reply.header("x-delete-request-id").expect("an id").to_owned();
    assert!(id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    id
}

/// Deletes everything of a query between two seconds.
#[track_caller]
fn delete(client: &mut Client, tenant: &str, query: &str, start_s: i64, end_s: i64) -> String {
    let (start, end) = (start_s.to_string(), end_s.to_string());
    create(client, tenant, &[("query", query), ("start", &start), ("end", &end)])
}

fn cancel(client: &mut Client, tenant: &str, params: &[(&str, &str)]) -> (u16, String) {
    let headers = [("X-Scope-OrgID", tenant)];
    let reply = client.request("DELETE", &query::target(PATH, params), &headers, None);
    (reply.status, reply.text())
}

fn list(client: &mut Client, tenant: &str) -> Vec<Value> {
    let reply = client.request("GET", PATH, &[("X-Scope-OrgID", tenant)], None);
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json().as_array().expect("a list").clone()
}

fn status_of(client: &mut Client, tenant: &str, id: &str) -> Option<String> {
    let requests = list(client, tenant);
    let request = requests.iter().find(|request| request["request_id"] == id)?;
    Some(request["status"].as_str().expect("a text").to_owned())
}

/// Waits until a request is processed. Returns the other states that it had.
#[track_caller]
fn await_processed(client: &mut Client, tenant: &str, id: &str) -> Vec<String> {
    let deadline = Instant::now() + PATIENCE;
    let mut seen: Vec<String> = Vec::new();
    loop {
        let status = status_of(client, tenant, id).expect("the request is listed");
        if status == "processed" {
            return seen;
        }
        assert!(Instant::now() < deadline, "{status} for too long, after {seen:?}");
        if seen.last() != Some(&status) {
            seen.push(status);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The files under a folder that hold a text in their bytes as they are.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else {
            let bytes = std::fs::read(&path).unwrap_or_default();
            if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}
