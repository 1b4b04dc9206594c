//! Tenants: which requests must name one, and which data a tenant sees.

use crate::support::{Client, DataDir, Reply, Server, body, entry, now_ns, query, stream};

fn push(client: &mut Client, tenant: Option<&str>, line: &str, now_ns: i64) -> Reply {
    let mut headers = vec![("Content-Type", "application/json")];
    headers.extend(tenant.map(|tenant| ("X-Scope-OrgID", tenant)));
    let body = body::json(&[stream(&[("app", "shared")], vec![entry(now_ns, line)])]);
    client.request("POST", "/loki/api/v1/push", &headers, Some(body.as_bytes()))
}

fn read(client: &mut Client, tenant: &str, now_ns: i64) -> Vec<String> {
    let end = (now_ns + 1).to_string();
    let params = [("query", r#"{app="shared"}"#), ("end", &end)];
    let target = query::target("/loki/api/v1/query_range", &params);
    let reply = client.request("GET", &target, &[("X-Scope-OrgID", tenant)], None);
    query::texts(&reply.json()["data"])
}

#[test]
fn tenants_see_their_own_lines_only() {
    let folder = DataDir::new();
    let args = ["--auth.enabled", "--cores", "2"];
    let server = Server::start(folder.path(), &args);
    let mut client = server.client();
    let now_ns = now_ns();
    push(&mut client, Some("team-a"), "line of a", now_ns).expect(204);
    push(&mut client, Some("team-b"), "line of b", now_ns).expect(204);
    let check = |client: &mut Client| {
        assert_eq!(read(client, "team-a", now_ns), ["line of a"]);
        assert_eq!(read(client, "team-b", now_ns), ["line of b"]);
        assert!(read(client, "fake", now_ns).is_empty());
        let other = [("X-Scope-OrgID", "team-c")];
        for path in ["/loki/api/v1/labels", "/loki/api/v1/label/app/values"] {
            let reply = client.request("GET", path, &other, None);
            let data = &reply.json()["data"];
            assert!(data.as_array().is_none_or(Vec::is_empty), "{path}: {data}");
        }
    };
    check(&mut client);
    server.stop();
    let server = Server::start(folder.path(), &args);
    check(&mut server.client());
}

#[test]
fn tenant_ids_are_checked() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--auth.enabled=true", "--cores", "1"]);
    let mut client = server.client();
    let long = "x".repeat(151);
    let cases = [
        (None, 401, "no org id\n"),
        (Some(""), 401, "no org id\n"),
        (Some("a|b"), 400, "multiple org IDs present\n"),
        (Some("a/b"), 400, "tenant ID 'a/b' contains unsupported character '/'\n"),
        (Some(".."), 400, "tenant ID is '.' or '..'\n"),
        (Some(long.as_str()), 400, "tenant ID is too long: max 150 characters\n"),
    ];
    for (tenant, status, text) in cases {
        assert_eq!(push(&mut client, tenant, "x", now_ns()).expect(status), text, "{tenant:?}");
        let headers: Vec<_> = tenant.map(|tenant| ("X-Scope-OrgID", tenant)).into_iter().collect();
        for path in [
            "/loki/api/v1/labels",
            "/logsvc/api/v1/series?match[]={a=%22b%22}",
            "/loki/api/v1/query_range?query={a=%22b%22}",
            "/api/prom/label/app/values",
        ] {
            let reply = client.request("GET", path, &headers, None);
            assert_eq!(reply.expect(status), text, "{tenant:?} {path}");
            assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        }
    }
    // Routing comes first, and some pages need no tenant.
    client.get("/nothing").expect(404);
    client.get("/loki/api/v1/push").expect(405);
    client.get("/ready").expect(200);
    client.get("/metrics").expect(200);
    client.get("/loki/api/v1/status/buildinfo").expect(200);
    assert_eq!(server.metric("loki_distributor_lines_received_total"), 0.0);
}
