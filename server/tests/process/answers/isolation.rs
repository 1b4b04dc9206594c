//! No endpoint shows a tenant the data of another one.

use crate::support::websocket::{Frame, WebSocket};
use crate::support::{Client, DataDir, Server, body, entry, now_ns, query, stream};

const OWNER: (&str, &str) = ("X-Scope-OrgID", "owner");
const OTHER: (&str, &str) = ("X-Scope-OrgID", "other");

const SELECTOR: &str = r#"{markerlabel="marker-app"}"#;

/// A path, its parameters, and a text that the owner of the data sees.
type Read = (&'static str, &'static [(&'static str, &'static str)], &'static str);

/// Everything that reads data.
const READS: [Read; 25] = [
    ("/loki/api/v1/export", &[("query", SELECTOR)], "marker-line"),
    ("/loki/api/v1/query_range", &[("query", SELECTOR)], "marker-line"),
    (
        "/loki/api/v1/query",
        &[("query", r#"count_over_time({markerlabel=~".+"}[5m])"#)],
        "marker-app",
    ),
    ("/loki/api/v1/labels", &[], "markerlabel"),
    ("/loki/api/v1/label", &[], "markerlabel"),
    ("/loki/api/v1/label/{name}/values", &[], "marker-app"),
    ("/loki/api/v1/series", &[("match[]", SELECTOR)], "marker-app"),
    ("/loki/api/v1/index/stats", &[("query", SELECTOR)], r#""entries":40"#),
    ("/loki/api/v1/index/shards", &[("query", SELECTOR), ("targetBytesPerShard", "1KB")], "bytes"),
    ("/loki/api/v1/index/volume", &[("query", SELECTOR)], "marker-app"),
    ("/loki/api/v1/index/volume_range", &[("query", SELECTOR)], "marker-app"),
    ("/loki/api/v1/detected_fields", &[("query", SELECTOR)], "markerfield"),
    ("/loki/api/v1/detected_field/{name}/values", &[("query", SELECTOR)], "marker-value"),
    ("/loki/api/v1/detected_labels", &[("query", SELECTOR)], "markerlabel"),
    ("/loki/api/v1/patterns", &[("query", SELECTOR)], "marker-line"),
    ("/api/prom/query", &[("query", SELECTOR)], "marker-line"),
    ("/api/prom/label", &[], "markerlabel"),
    ("/api/prom/label/{name}/values", &[], "marker-app"),
    ("/api/prom/series", &[("match[]", SELECTOR)], "marker-app"),
    ("/config/tenant/v1/limits", &[], "max_line_size"),
    ("/loki/api/v1/drilldown-limits", &[], "limits"),
    ("/loki/api/v1/format_query", &[("query", SELECTOR)], "marker-app"),
    ("/loki/api/v1/refusals", &[], "marker-app"),
    ("/loki/api/v1/tail", &[("query", SELECTOR)], "marker-line"),
    ("/api/prom/tail", &[("query", SELECTOR)], "marker-line"),
];

/// Paths of the API reference that read no tenant's data.
const OTHERS: [&str; 16] = [
    // Backups are of the node, not of tenants: they tell names and sizes.
    "/loki/api/v1/backup",
    // Has a test of its own, since the place of a line is asked for first.
    "/loki/api/v1/context",
    "/loki/api/v1/import",
    "/loki/api/v1/lines",
    "/loki/api/v1/push",
    "/api/prom/push",
    "/loki/api/v1/status/buildinfo",
    // Requests of tenants, which have a test of their own.
    "/loki/api/v1/delete",
    "/loki/api/v1/cache/generation_numbers",
    "/loki/api/v1/cache/generation_numbers/increase",
    // Rules of tenants, which have a test of their own.
    "/loki/api/v1/rules",
    "/loki/api/v1/rules/{namespace}",
    "/loki/api/v1/rules/{namespace}/{group}",
    "/api/prom/rules",
    "/api/prom/rules/{namespace}",
    "/api/prom/rules/{namespace}/{group}",
];

fn ask(client: &mut Client, tenant: (&str, &str), path: &str, params: &[(&str, &str)]) -> String {
    let name = if path.contains("field") { "markerfield" } else { "markerlabel" };
    let target = query::target(&path.replace("{name}", name), params);
    client.request("GET", &target, &[tenant], None).expect(200)
}

/// The first frame of a tail.
fn tail(server: &Server, tenant: (&str, &str), path: &str, params: &[(&str, &str)]) -> String {
    let opened = WebSocket::open(server.address(), &query::target(path, params), &[tenant]);
    let mut socket = opened.unwrap_or_else(|reply| panic!("{path}: {}", reply.text()));
    match socket.next_told() {
        Frame::Json(frame) => frame.to_string(),
        frame => panic!("{path}: {frame:?}"),
    }
}

#[test]
fn no_endpoint_shows_what_belongs_to_another_tenant() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--auth.enabled", "--cores", "2"]);
    let mut client = server.client();
    let now_ns = now_ns();
    let entries = (0..40).map(|i| {
        let line =
            format!(r#"{{"markerfield":"marker-value","msg":"marker-line number {i} was read"}}"#);
        entry(now_ns - 1_000_000 * (40 - i), line).with_metadata(&[("markermeta", "marker-id")])
    });
    let body = body::json(&[stream(&[("markerlabel", "marker-app")], entries.collect())]);
    let headers = [("Content-Type", "application/json"), OWNER];
    client.request("POST", "/loki/api/v1/push", &headers, Some(body.as_bytes())).expect(204);
    let late = [stream(&[("markerlabel", "marker-app")], vec![entry(1, "of 1970")])];
    let refused = body::json(&late);
    client.request("POST", "/loki/api/v1/push", &headers, Some(refused.as_bytes())).expect(400);
    for is_sealed in [false, true] {
        for (path, params, proof) in READS {
            if path.ends_with("/tail") {
                continue;
            }
            let shown = ask(&mut client, OWNER, path, params);
            assert!(shown.contains(proof), "sealed {is_sealed}, {path}: {shown}");
            let leaked = ask(&mut client, OTHER, path, params);
            // A formatted query is the text of the request.
            let is_echo = path.ends_with("format_query");
            assert!(is_echo || !leaked.contains("marker"), "sealed {is_sealed}, {path}: {leaked}");
            let counts = leaked.contains(r#""entries":40"#) || leaked.contains(r#""streams":1"#);
            assert!(!counts, "sealed {is_sealed}, {path}: {leaked}");
        }
        client.request("POST", "/flush/tenant", &[OWNER], None).expect(204);
    }
    // An entry of its own, so that there is a frame to look at.
    let own = stream(&[("markerlabel", "marker-app")], vec![entry(now_ns, "mine")]);
    let own = body::json(&[own]);
    let headers = [("Content-Type", "application/json"), OTHER];
    client.request("POST", "/loki/api/v1/push", &headers, Some(own.as_bytes())).expect(204);
    for (path, params, proof) in READS.iter().filter(|(path, ..)| path.ends_with("/tail")) {
        let shown = tail(&server, OWNER, path, params);
        assert!(shown.contains(proof), "{path}: {shown}");
        let shown = tail(&server, OTHER, path, params);
        assert!(shown.contains("mine") && !shown.contains(proof), "{path}: {shown}");
    }
}

#[test]
fn every_endpoint_of_the_reference_is_tried_for_leaks() {
    let reference = include_str!("../../../../docs/api.md");
    let mut tried = 0;
    for heading in
        reference.lines().filter(|line| line.starts_with("`GET") || line.starts_with("`POST"))
    {
        for path in heading.split('`').flat_map(|part| part.split_whitespace()) {
            let path = path.trim_end_matches([',', '.', ';']);
            if !path.starts_with("/loki/api/") && !path.starts_with("/api/prom/") {
                continue;
            }
            let is_known = READS.iter().any(|(read, ..)| *read == path) || OTHERS.contains(&path);
            assert!(is_known, "{path} is neither tried nor known to read nothing");
            tried += 1;
        }
    }
    assert!(tried > 15, "only {tried} paths found in the reference");
}
