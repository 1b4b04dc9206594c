//! Rule groups, over real sockets: what clients send and are answered, and what is stored.

mod files;
mod groups;
mod lokitool;

use crate::support::{Client, Reply};

const PATH: &str = "/loki/api/v1/rules";

/// The answer to a change.
const SUCCESS: &str = r#"{"status":"success","data":null,"errorType":"","error":""}"#;

fn ask_as(client: &mut Client, tenant: &str, method: &str, target: &str, body: &str) -> Reply {
    let headers = [("X-Scope-OrgID", tenant), ("Content-Type", "application/yaml")];
    let body = (method == "POST").then_some(body.as_bytes());
    client.request(method, target, &headers, body)
}

fn ask(client: &mut Client, method: &str, target: &str, body: &str) -> Reply {
    ask_as(client, "t", method, target, body)
}

/// Stores a group in a namespace, as it stands in a path.
#[track_caller]
fn set(client: &mut Client, namespace: &str, group: &str) {
    let reply = ask(client, "POST", &format!("{PATH}/{namespace}"), group);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.expect(202), SUCCESS);
}

/// The names of the groups that are evaluated, each with its file.
fn evaluated(client: &mut Client, tenant: &str) -> Vec<String> {
    let listed = ask_as(client, tenant, "GET", "/prometheus/api/v1/rules", "").json();
    let groups = listed["data"]["groups"].as_array().expect("groups").clone();
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    groups
        .iter()
        .map(|group| format!("{}/{}", text(&group["file"]), text(&group["name"])))
        .collect()
}
