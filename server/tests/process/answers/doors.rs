//! Requests that web pages of other origins may not send, and headers that contradict each other.

use crate::support::{Client, DataDir, Server, body, entry, now_ns, query, stream};

const EVIL: (&str, &str) = ("Origin", "http://evil.example");
const CROSS_SITE: (&str, &str) = ("Sec-Fetch-Site", "cross-site");

fn status(client: &mut Client, method: &str, target: &str, headers: &[(&str, &str)]) -> u16 {
    let has_body = method != "GET";
    client.request(method, target, headers, has_body.then_some(b"")).status
}

#[test]
fn pages_of_other_origins_change_nothing() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    // The host that the client names.
    let own = ("Origin", "http://test");
    for header in [EVIL, CROSS_SITE, ("Origin", "null"), ("Sec-Fetch-Site", "same-site")] {
        for (method, target) in [
            ("GET", "/ingester/shutdown"),
            ("POST", "/ingester/shutdown"),
            ("POST", "/ingester/flush_shutdown"),
            ("GET", "/flush"),
            ("POST", "/flush"),
            ("POST", "/flush/tenant"),
            ("POST", "/log_level?log_level=debug"),
            ("POST", "/ingester/prepare_shutdown"),
            ("DELETE", "/ingester/prepare_shutdown"),
            ("POST", "/loki/api/v1/cache/generation_numbers/increase"),
            ("POST", "/loki/api/v1/backup"),
            ("DELETE", "/loki/api/v1/backup?name=x"),
            ("POST", "/loki/api/v1/delete?query=%7Ba%3D%22b%22%7D&start=1700000000"),
            ("PUT", "/loki/api/v1/delete?query=%7Ba%3D%22b%22%7D&start=1700000000"),
            ("DELETE", "/loki/api/v1/delete?request_id=00000000"),
            ("POST", "/loki/api/v1/rules/ns"),
            ("DELETE", "/loki/api/v1/rules/ns"),
            ("DELETE", "/api/prom/rules/ns/g"),
            ("GET", "/loki/api/v1/tail?query=%7Ba%3D%22b%22%7D"),
        ] {
            let reply = client.request(method, target, &[header], None);
            assert_eq!(reply.status, 403, "{method} {target} {header:?}");
            assert!(reply.text().contains("another origin"), "{}", reply.text());
        }
    }
    // They may look, as far as the browser lets them.
    for target in ["/ready", "/log_level", "/ingester/prepare_shutdown", "/loki/api/v1/labels"] {
        assert_eq!(status(&mut client, "GET", target, &[EVIL, CROSS_SITE]), 200, "{target}");
    }
    assert_eq!(client.get("/ingester/prepare_shutdown").text(), "unset");
    assert!(client.get("/log_level").text().contains("info"));
    // Pushes change something, too.
    let json = body::json(&[stream(&[("a", "b")], vec![entry(now_ns(), "x")])]);
    let push = |client: &mut Client, header: (&str, &str)| {
        let headers = [("Content-Type", "application/json"), header];
        client.request("POST", "/loki/api/v1/push", &headers, Some(json.as_bytes())).status
    };
    assert_eq!((push(&mut client, EVIL), push(&mut client, CROSS_SITE)), (403, 403));
    assert!(query::texts(&query::range(&mut client, "{a=\"b\"}", &[])).is_empty());
    let otlp = client.request(
        "POST",
        "/otlp/v1/logs",
        &[("Content-Type", "application/json"), EVIL],
        Some(b"{}"),
    );
    assert_eq!((otlp.status, otlp.body.first()), (403, Some(&0x12)));
    // The server's own pages, programs, and the address bar.
    let allowed: [&[(&str, &str)]; 4] =
        [&[own], &[("Sec-Fetch-Site", "same-origin")], &[("Sec-Fetch-Site", "none")], &[]];
    for headers in allowed {
        assert_eq!(status(&mut client, "POST", "/flush", headers), 204, "{headers:?}");
    }
    assert_eq!(push(&mut client, own), 204);
}

#[test]
fn tenants_that_contradict_each_other_are_refused() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--auth.enabled=true"]);
    let mut client = server.client();
    let tenant = |id| ("X-Scope-OrgID", id);
    let json = body::json(&[stream(&[("a", "b")], vec![entry(now_ns(), "x")])]);
    let push = |client: &mut Client, first, second| {
        let headers = [("Content-Type", "application/json"), tenant(first), tenant(second)];
        client.request("POST", "/loki/api/v1/push", &headers, Some(json.as_bytes()))
    };
    let refused = push(&mut client, "a", "b");
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("several times"), "{}", refused.text());
    assert_eq!(push(&mut client, "a", "a").status, 204);
    for target in ["/loki/api/v1/labels", "/loki/api/v1/series?match[]=%7B%7D"] {
        let both = |client: &mut Client, first, second| {
            client.request("GET", target, &[tenant(first), tenant(second)], None)
        };
        assert_eq!(both(&mut client, "a", "b").status, 400);
        assert_eq!(both(&mut client, "a", "").status, 400);
        assert!(both(&mut client, "a", "a").expect(200).contains('a'));
    }
    // A server without tenants ignores the header.
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &[]);
    assert_eq!(push(&mut server.client(), "a", "b").status, 204);
}
