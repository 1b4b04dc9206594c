//! Groups by the API: names, texts, limits, tenants, and starts.

use super::{PATH, SUCCESS, ask, ask_as, evaluated, set};
use crate::support::{DataDir, Server};

fn one_rule(name: &str, expr: &str) -> String {
    format!("name: {name}\nrules:\n  - alert: A\n    expr: {expr}\n")
}

#[test]
fn names_of_all_kinds_are_addressed_by_their_escapes() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    set(&mut client, "my%20ns", &one_rule("g %+ü", "vector(1)"));
    let one = format!("{PATH}/my%20ns/g%20%25%2B%C3%BC");
    assert!(ask(&mut client, "GET", &one, "").expect(200).starts_with("name: g %+ü\n"));
    let other = ask(&mut client, "GET", &format!("{PATH}/my+ns"), "");
    assert_eq!(other.expect(404), "no rule groups found\n");
    let slash = ask(&mut client, "GET", &format!("{PATH}/a%2Fb"), "");
    assert_eq!(slash.expect(404), "group does not exist\n");
    let dots = ask(&mut client, "GET", &format!("{PATH}/%2e%2e/x"), "");
    assert_eq!((dots.status, dots.header("location")), (301, Some("/loki/api/v1/x")));
    for (name, fault) in [
        ("a/b", "invalid group name \"a/b\": it must not contain a slash\n"),
        ("..", "invalid group name \"..\": no path can address it\n"),
    ] {
        let refused = ask(&mut client, "POST", &format!("{PATH}/ns"), &one_rule(name, "vector(1)"));
        assert_eq!(refused.expect(400), fault);
    }
    // Names never become names of files.
    let long = "n".repeat(2000);
    for namespace in ["%3F", "...", "%20", "%0A", "%E2%80%A8", "~", "%5C..%5C..", &long] {
        set(&mut client, namespace, &one_rule("'*'", "vector(1)"));
        let listed = ask(&mut client, "GET", &format!("{PATH}/{namespace}"), "");
        assert!(listed.expect(200).contains("- name: '*'\n"));
        let removed = ask(&mut client, "DELETE", &format!("{PATH}/{namespace}"), "");
        assert_eq!(removed.expect(202), SUCCESS);
        let again = ask(&mut client, "DELETE", &format!("{PATH}/{namespace}"), "");
        assert_eq!(again.expect(404), "group namespace does not exist\n");
    }
    assert_eq!(ask(&mut client, "DELETE", &one, "").expect(202), SUCCESS);
    assert_eq!(ask(&mut client, "GET", &one, "").expect(404), "group does not exist\n");
}

#[test]
fn clients_find_what_they_take_for_an_editor_of_rules() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    let answers = [
        (PATH, 404, "no rule groups found\n"),
        ("/loki/api/v1/rules/test/test", 404, "group does not exist\n"),
        (
            "/mtx/api/v1/rules",
            200,
            r#"{"status":"success","data":{"groups":[]},"errorType":"","error":""}"#,
        ),
        (
            "/prometheus/api/v1/alerts",
            200,
            r#"{"status":"success","data":{"alerts":[]},"errorType":"","error":""}"#,
        ),
    ];
    for (path, status, text) in answers {
        assert_eq!(ask(&mut client, "GET", path, "").expect(status), text, "{path}");
    }
    set(&mut client, "ns", &one_rule("g", "vector(1)"));
    assert_eq!(evaluated(&mut client, "t"), ["ns/g"]);
    // The media type of a form does not make a form of the body.
    let headers = [("Content-Type", "application/x-www-form-urlencoded")];
    let body = one_rule("a;b=%zz&c", "vector(1)");
    let form = client.request("POST", &format!("{PATH}/ns"), &headers, Some(body.as_bytes()));
    form.expect(202);
    assert_eq!(evaluated(&mut client, "t"), ["ns/a;b=%zz&c", "ns/g"]);
    let put = client.request("PUT", &format!("{PATH}/ns"), &[], Some(b"name: x"));
    assert_eq!(put.status, 405);
}

#[test]
fn texts_of_several_lines_come_back_byte_for_byte() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    let block = "name: g\nrules:\n  - alert: A\n    for: 1d\n    labels: &l {severity: page}\n    \
                 expr: |2+\n\n        sum(\n          count_over_time({app=\"a\"}[1m])) > 0\n\n\n  - \
                 alert: B\n    expr: vector(1)\n    for: 1h30m\n    labels: *l\n";
    set(&mut client, "ns", block);
    let written = ask(&mut client, "GET", &format!("{PATH}/ns/g"), "").expect(200);
    assert_eq!(
        written,
        "name: g\nrules:\n    - alert: A\n      expr: |2+\n\n          sum(\n            \
         count_over_time({app=\"a\"}[1m])) > 0\n\n\n      for: 1d\n      labels:\n        \
         severity: page\n    - alert: B\n      expr: vector(1)\n      for: 1h30m\n      \
         labels:\n        severity: page\n"
    );
    // What is written is taken again, and stays the same.
    set(&mut client, "ns", &written);
    assert_eq!(ask(&mut client, "GET", &format!("{PATH}/ns/g"), "").expect(200), written);
    let listed = ask(&mut client, "GET", "/prometheus/api/v1/rules", "").json();
    let rules = &listed["data"]["groups"][0]["rules"];
    assert_eq!((&rules[0]["duration"], &rules[1]["duration"]), (&86_400.into(), &5400.into()));
    for text in ["for: 90", "for: 1.5h", "for: xyz", "labels: [a]"] {
        let group = format!("name: g\nrules: [{{alert: A, expr: vector(1), {text}}}]");
        let refused = ask(&mut client, "POST", &format!("{PATH}/ns"), &group);
        assert_eq!(refused.expect(400), "unable to decoded rule group\n", "{text}");
    }
    for text in ["{{{", "- a", "\u{0}", &"[".repeat(100_000)] {
        let refused = ask(&mut client, "POST", &format!("{PATH}/ns"), text);
        assert_eq!(refused.expect(400), "unable to decoded rule group\n");
    }
    let headers = [("Content-Type", "application/yaml")];
    let bytes = client.request("POST", &format!("{PATH}/ns"), &headers, Some(b"name: \xff"));
    assert_eq!(bytes.expect(400), "unable to decoded rule group\n");
}

#[test]
fn limits_of_tenants_are_kept() {
    let folder = DataDir::new();
    let flags = [
        "--limits.ruler-max-rules-per-rule-group=1",
        "--limits.ruler-max-rule-groups-per-tenant=1",
    ];
    let server = Server::start(folder.path(), &[&["--cores", "2"], &flags[..]].concat());
    let mut client = server.client();
    let rule = "{record: a, expr: vector(1)}";
    let two = format!("name: g\nrules: [{rule}, {rule}]");
    let refused = ask(&mut client, "POST", &format!("{PATH}/ns"), &two);
    let text = "per-user rules per rule group limit (limit: 1 actual: 2) exceeded\n";
    assert_eq!(refused.expect(400), text);
    set(&mut client, "ns", &one_rule("g", "vector(1)"));
    for namespace in ["ns", "other"] {
        let refused =
            ask(&mut client, "POST", &format!("{PATH}/{namespace}"), &one_rule("g", "vector(1)"));
        let text = "per-user rule groups limit (limit: 1 actual: 2) exceeded\n";
        assert_eq!(refused.expect(400), text);
    }
    assert_eq!(evaluated(&mut client, "t"), ["ns/g"]);
}

#[test]
fn tenants_see_and_change_their_own_groups_alone() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--auth.enabled", "--cores", "2"]);
    let mut client = server.client();
    let one = format!("{PATH}/ns/marker");
    set(&mut client, "ns", &one_rule("marker", "vector(1)"));
    for prefix in [PATH, "/api/prom/rules", "/api/mtx/rules"] {
        for below in ["", "/ns", "/ns/marker"] {
            let target = format!("{prefix}{below}");
            let own = ask(&mut client, "GET", &target, "").expect(200);
            assert!(own.contains("marker"), "{target}");
            let other = ask_as(&mut client, "other", "GET", &target, "");
            assert!(!other.expect(404).contains("marker"), "{target}");
            let nobody = client.request("GET", &target, &[], None);
            assert_eq!(nobody.expect(401), "no org id\n");
            let both = ask_as(&mut client, "t|other", "GET", &target, "");
            assert_eq!(both.expect(400), "multiple org IDs present\n");
        }
    }
    assert_eq!(evaluated(&mut client, "t"), ["ns/marker"]);
    assert_eq!(evaluated(&mut client, "other"), [""; 0]);
    assert_eq!(ask_as(&mut client, "other", "DELETE", &one, "").expect(202), SUCCESS);
    ask_as(&mut client, "other", "DELETE", &format!("{PATH}/ns"), "").expect(404);
    ask(&mut client, "GET", &one, "").expect(200);
}

#[test]
fn groups_are_there_after_a_kill_and_after_a_stop() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    for name in ["a", "b", "c"] {
        set(&mut client, "ns", &one_rule(name, "vector(1)"));
    }
    ask(&mut client, "DELETE", &format!("{PATH}/ns/b"), "").expect(202);
    let before = ask(&mut client, "GET", PATH, "").expect(200);
    server.kill();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    assert_eq!(ask(&mut client, "GET", PATH, "").expect(200), before);
    assert_eq!(evaluated(&mut client, "t"), ["ns/a", "ns/c"]);
    server.stop();
    let server = Server::start(folder.path(), &["--cores", "1"]);
    assert_eq!(ask(&mut server.client(), "GET", PATH, "").expect(200), before);
}

#[test]
fn the_operations_can_be_switched_off() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2", "--ruler.enable-api=false"]);
    let mut client = server.client();
    let group = one_rule("g", "vector(1)");
    for (method, below) in [
        ("GET", ""),
        ("GET", "/ns"),
        ("GET", "/ns/g"),
        ("POST", "/ns"),
        ("DELETE", "/ns"),
        ("DELETE", "/ns/g"),
    ] {
        for prefix in [PATH, "/api/prom/rules", "/api/mtx/rules"] {
            let reply = ask(&mut client, method, &format!("{prefix}{below}"), &group);
            assert_eq!(reply.expect(404), "404 page not found\n");
        }
    }
    assert_eq!(evaluated(&mut client, "t"), [""; 0]);
}

#[test]
fn rules_are_listed_by_their_labels() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    let group = "name: g\nrules: [{record: a, expr: vector(1), labels: {team: x}}, {record: b, \
                 expr: vector(1)}]";
    set(&mut client, "ns", group);
    let listed = ask(&mut client, "GET", &format!("{PATH}?labels=team:x,team:y"), "");
    assert_eq!(
        listed.expect(200),
        "ns:\n    - name: g\n      rules:\n        - record: a\n          expr: vector(1)\n          \
         labels:\n            team: x\n"
    );
    let none = ask(&mut client, "GET", &format!("{PATH}?labels=team:z"), "");
    assert_eq!(none.expect(404), "no rule groups found\n");
}

#[test]
fn large_groups_are_taken_and_listed() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    let rule = |n: usize| {
        format!(
            "  - alert: A{n}\n    expr: sum by (app) (count_over_time({{app=\"a{n}\"}} |= \"x\" [5m])) > \
             {n}\n    annotations: {{summary: 'number {n}'}}\n"
        )
    };
    let rules: String = (0..3000).map(rule).collect();
    set(&mut client, "ns", &format!("name: g\nrules:\n{rules}"));
    let listed = ask(&mut client, "GET", PATH, "").expect(200);
    assert!(listed.len() > 300_000, "{}", listed.len());
    assert_eq!(listed.matches("- alert: A").count(), 3000);
    let alone = ask(&mut client, "GET", &format!("{PATH}/ns/g"), "").expect(200);
    set(&mut client, "other", &alone);
    assert_eq!(ask(&mut client, "GET", &format!("{PATH}/other/g"), "").expect(200), alone);
}
