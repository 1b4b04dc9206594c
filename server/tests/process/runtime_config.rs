//! Limits of single tenants: their effect, changes while the server runs, and that a bad file
//! changes nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Client, DataDir, Reply, Server, body, entry, now_ns, query, stream};

/// Lets a file with limits appear as a whole.
fn write(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).expect("the folder can be written");
    std::fs::rename(&new, path).expect("it can be renamed");
}

fn file_of(folder: &DataDir, text: &str) -> PathBuf {
    let path = folder.path().join("overrides.yaml");
    write(&path, text);
    path
}

fn start(folder: &DataDir, file: &Path) -> Server {
    let file = file.display().to_string();
    let args = ["--auth.enabled", "--cores=2", "--runtime-config.reload-period=20ms"];
    Server::start(
        &folder.path().join("data"),
        &[&args[..], &["--runtime-config.file", &file]].concat(),
    )
}

/// A client that speaks for a tenant.
struct Tenant {
    client: Client,
    name: &'static str,
}

impl Tenant {
    fn new(server: &Server, name: &'static str) -> Tenant {
        Tenant { client: server.client(), name }
    }

    fn get(&mut self, path: &str, params: &[(&str, &str)]) -> Reply {
        let headers = [("X-Scope-OrgID", self.name)];
        self.client.request("GET", &query::target(path, params), &headers, None)
    }

    fn push(&mut self, line: &str, pod: &str, now_ns: i64) -> Reply {
        let headers = [("Content-Type", "application/json"), ("X-Scope-OrgID", self.name)];
        let labels = [("app", "web"), ("pod", pod)];
        let body = body::json(&[stream(&labels, vec![entry(now_ns, line)])]);
        self.client.request("POST", "/loki/api/v1/push", &headers, Some(body.as_bytes()))
    }
}

fn count_changes(server: &Server, count: usize) {
    let text = "the limits of tenants have changed";
    let found = server.await_log(|log| (log.matches(text).count() >= count).then_some(()));
    assert!(found.is_some(), "the server has ended");
}

#[test]
fn a_tenant_has_limits_of_its_own() {
    let folder = DataDir::new();
    let text = "
overrides:
  small:
    max_line_size: 20B
    max_query_series: 2
    max_entries_limit_per_query: 5
    max_query_length: 7h
    volume_enabled: false
    max_label_names_per_series: 2
    discover_service_name: []
  hurried:
    query_timeout: 1ns
";
    let server = start(&folder, &file_of(&folder, text));
    let now_ns = now_ns();
    let end = (now_ns + 1).to_string();
    let start = (now_ns - 8 * 3_600_000_000_000).to_string();
    for (name, is_small) in [("small", true), ("large", false)] {
        let mut tenant = Tenant::new(&server, name);
        for pod in ["a", "b", "c"] {
            tenant.push("a short line", pod, now_ns).expect(204);
        }
        let long = "a line of more than 20 bytes";
        let refused = tenant.push(long, "a", now_ns).expect(if is_small { 400 } else { 204 });
        assert_eq!(refused.contains("max entry size '20' bytes"), is_small, "{refused}");
        let status = |good: u16, refused: u16| if is_small { refused } else { good };
        let instant = [("query", r#"rate({app="web"}[1h])"#), ("time", end.as_str())];
        tenant.get("/loki/api/v1/query", &instant).expect(status(200, 400));
        let lines = [("query", r#"{app="web"}"#), ("limit", "6"), ("end", &end)];
        tenant.get("/loki/api/v1/query_range", &lines).expect(status(200, 400));
        let hours = [("query", r#"{app="web"}"#), ("start", &start), ("end", &end)];
        tenant.get("/loki/api/v1/query_range", &hours).expect(status(200, 400));
        let volume = [("query", r#"{app="web"}"#)];
        tenant.get("/loki/api/v1/index/volume", &volume).expect(status(200, 404));
        let labels = tenant.get("/loki/api/v1/labels", &[]).expect(200);
        assert_eq!(labels.contains("service_name"), !is_small, "{labels}");
        let limits = tenant.get("/config/tenant/v1/limits", &[]).expect(200);
        let expected = if is_small { "max_query_series: 2" } else { "max_query_series: 500" };
        assert!(limits.lines().any(|line| line == expected), "{limits}");
        let published = tenant.get("/loki/api/v1/drilldown-limits", &[]).json();
        assert_eq!(published["limits"]["volume_enabled"], !is_small, "{published}");
    }
    let mut hurried = Tenant::new(&server, "hurried");
    hurried.push("a line", "a", now_ns).expect(204);
    let lines = [("query", r#"{app="web"}"#), ("end", end.as_str())];
    hurried.get("/loki/api/v1/query_range", &lines).expect(504);
}

#[test]
fn limits_change_while_the_server_runs() {
    let folder = DataDir::new();
    let good = "overrides: {a: {max_label_names_per_series: 1, enforced_labels: [team]}}";
    let file = file_of(&folder, good);
    let server = start(&folder, &file);
    let mut tenant = Tenant::new(&server, "a");
    let now_ns = now_ns();
    let metrics = |name: &str| server.get("/metrics").expect(200).lines().any(|line| line == name);
    let successful = "loki_runtime_config_last_reload_successful{config=\"loki\"}";
    assert!(metrics(&format!("{successful} 1")));
    // The resolved streams that a core remembers follow the limits.
    let refused = tenant.push("a line", "a", now_ns).expect(400);
    assert!(refused.contains("has 2 label names; limit 1"), "{refused}");
    write(&file, "overrides: {a: {max_line_size: 5}}");
    count_changes(&server, 1);
    let refused = tenant.push("a line", "a", now_ns).expect(400);
    assert!(refused.contains("max entry size '5' bytes"), "{refused}");
    tenant.push("line", "a", now_ns).expect(204);

    // A bad file changes nothing, not even by its good parts.
    write(&file, "overrides: {b: {max_query_series: 1}, a: {max_lnie_size: 1}}");
    let told = server.await_log(|log| {
        let line = log.lines().find(|line| line.contains("failed to load runtime config"))?;
        Some(line.to_owned())
    });
    let told = told.expect("the server runs");
    let expected = "invalid override for tenant a: max_lnie_size: unknown key in line 1; did you \
                    mean max_line_size?";
    assert!(told.contains(expected), "{told}");
    assert!(metrics(&format!("{successful} 0")));
    tenant.push("a line", "a", now_ns).expect(400);
    std::fs::remove_file(&file).expect("it is there");
    let missing = format!("cannot read {}", file.display());
    assert!(server.await_log(|log| log.contains(&missing).then_some(())).is_some());
    tenant.push("a line", "a", now_ns).expect(400);

    write(&file, "");
    count_changes(&server, 2);
    assert!(metrics(&format!("{successful} 1")));
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let hash = format!("loki_runtime_config_hash{{sha256=\"{empty}\",config=\"loki\"}} 1");
    assert!(metrics(&hash), "the hash of an empty file");
    tenant.push("a line", "a", now_ns).expect(204);
}

#[test]
fn files_that_a_tenant_needs_are_read_when_the_limits_change() {
    let folder = DataDir::new();
    let file = file_of(&folder, "");
    let server = start(&folder, &file);
    let token = folder.path().join("token");
    let client = format!("{{credentials_file: {}}}", token.display());
    write(
        &file,
        &format!(
            "overrides: {{a: {{ruler_alertmanager_config: {{alertmanager_client: {client}}}}}}}"
        ),
    );
    let expected = format!(
        "failed to load runtime config: invalid override for tenant a: error loading credentials \
         file: {}: ",
        token.display()
    );
    assert!(server.await_log(|log| log.contains(&expected).then_some(())).is_some());
    // The same limits are good when that file is there.
    std::fs::write(&token, "a token").expect("the folder can be written");
    count_changes(&server, 1);
}

#[test]
fn a_bad_file_stops_the_start() {
    let folder = DataDir::new();
    let text = "overrides: {a: {max_line_size: 5}, b: {retention_period: 1h}, c: {x: 1}}";
    let file = file_of(&folder, text);
    for more in [&[][..], &["--verify-config"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_logsvc"))
            .arg("--runtime-config.file")
            .arg(&file)
            .arg("--data-dir")
            .arg(folder.path().join("data"))
            .args(more)
            .output()
            .expect("the binary starts");
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8(output.stderr).expect("text");
        let expected = "\
MULTIPLE CONFIG ERRORS FOUND, PLEASE READ CAREFULLY
invalid override for tenant b: retention_period: retention period must be >= 24h was 1h
invalid override for tenant c: x: unknown key in line 1
";
        assert_eq!(said, expected);
    }
}
