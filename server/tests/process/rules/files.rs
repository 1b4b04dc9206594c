//! Rule files that somebody else writes, and stored files that are damaged.

use std::path::Path;
use std::time::{Duration, Instant};

use super::{PATH, ask_as, evaluated, set};
use crate::support::{Client, DataDir, Server};

/// Longest time until something happens that the server does on its own.
const PATIENCE: Duration = Duration::from_secs(60);

fn write(folder: &Path, name: &str, content: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder can be made");
    std::fs::write(path, content).expect("the file can be written");
}

fn rule_file(name: &str) -> String {
    format!("groups:\n  - name: {name}\n    rules:\n      - {{alert: A, expr: vector(1)}}\n")
}

fn await_evaluated(client: &mut Client, tenant: &str, expected: &[&str]) {
    let begun = Instant::now();
    while evaluated(client, tenant) != expected {
        let found = evaluated(client, tenant);
        assert!(begun.elapsed() < PATIENCE, "{tenant} has {found:?}, not {expected:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_broken_rule_file_of_one_tenant_stops_nothing_else() {
    let (folder, files) = (DataDir::new(), DataDir::new());
    let files = files.path();
    write(files, "t1/bad.yaml", "groups: [{name: g, rules: [{alert: a, expr: '{'}]}]");
    write(files, "t1/ok.yaml", &rule_file("g"));
    write(files, "t2/ok.yaml", &rule_file("g"));
    let directory = format!("--ruler-storage.local.directory={}", files.display());
    let flags = ["--ruler-storage.backend=local", &directory, "--ruler.poll-interval=100ms"];
    let more = ["--auth.enabled", "--cores", "2"];
    let server = Server::start(folder.path(), &[&flags[..], &more].concat());
    let mut client = server.client();
    await_evaluated(&mut client, "t1", &["ok.yaml/g"]);
    assert_eq!(evaluated(&mut client, "t2"), ["ok.yaml/g"]);
    let listed = ask_as(&mut client, "t2", "GET", PATH, "");
    assert!(listed.expect(200).starts_with("ok.yaml:\n    - name: g\n"));
    let reason = server.await_log(|log| {
        let line = log.lines().find(|line| line.contains("a rule file is broken"))?;
        Some(line.to_owned())
    });
    let reason = reason.expect("the log names the file");
    assert!(reason.contains("t1/bad.yaml") && reason.contains("parse error at line 1"), "{reason}");

    // Nothing is changed by the API.
    for (method, target, status, text) in [
        ("POST", "/ns", 500, "SetRuleGroup unsupported in rule local store\n"),
        ("GET", "/ok.yaml/g", 400, "GetRuleGroup unsupported in rule local store\n"),
        (
            "DELETE",
            "/ok.yaml/g",
            500,
            r#"{"status":"error","data":null,"errorType":"server_error","error":"DeleteRuleGroup unsupported in rule local store"}"#,
        ),
        (
            "DELETE",
            "/ok.yaml",
            500,
            r#"{"status":"error","data":null,"errorType":"server_error","error":"DeleteNamespace unsupported in rule local store"}"#,
        ),
    ] {
        let body = "name: g\nrules: []\n";
        let reply = ask_as(&mut client, "t1", method, &format!("{PATH}{target}"), body);
        assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(reply.expect(status), text);
    }

    // A file that breaks keeps its groups, while another one is repaired.
    write(files, "t1/ok.yaml", "groups: {");
    write(files, "t1/bad.yaml", &rule_file("repaired"));
    await_evaluated(&mut client, "t1", &["bad.yaml/repaired", "ok.yaml/g"]);
    write(files, "t1/ok.yaml", &rule_file("new"));
    await_evaluated(&mut client, "t1", &["bad.yaml/repaired", "ok.yaml/new"]);
    std::fs::remove_dir_all(files.join("t1")).expect("the folder can be removed");
    await_evaluated(&mut client, "t1", &[]);
    assert_eq!(evaluated(&mut client, "t2"), ["ok.yaml/g"]);
}

#[test]
fn a_damaged_stored_group_is_kept_aside_and_named() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    set(&mut client, "ns", "name: a\nrules: [{record: r, expr: vector(1)}]\n");
    let groups = folder.path().join("rules/groups/fake");
    let names = |folder: &Path| {
        let entries = std::fs::read_dir(folder).expect("the folder is there");
        entries.map(|entry| entry.expect("an entry").path()).collect::<Vec<_>>()
    };
    let [damaged] = &names(&groups)[..] else { panic!("one file") };
    set(&mut client, "ns", "name: b\nrules: [{record: r, expr: vector(1)}]\n");
    server.stop();
    let mut bytes = std::fs::read(damaged).expect("the file is there");
    *bytes.last_mut().expect("bytes") ^= 1;
    std::fs::write(damaged, &bytes).expect("the file can be written");
    let server = Server::start(folder.path(), &["--cores", "2"]);
    assert_eq!(evaluated(&mut server.client(), "t"), ["ns/b"]);
    let [kept] = &names(&folder.path().join("rules/quarantine/fake"))[..] else {
        panic!("one file")
    };
    assert_eq!(std::fs::read(kept).expect("the file is there"), bytes);
    let log = server.log_text();
    assert!(log.contains("a rule group is lost"), "{log}");
}
