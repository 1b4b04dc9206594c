//! Endpoints for operators, and endpoints that tell clients the abilities of the server.

use std::path::Path;

use serde_json::json;

use crate::support::{DataDir, SECOND_NS, Server, body, entry, now_ns, query, stream};

const FORM: [(&str, &str); 1] = [("Content-Type", "application/x-www-form-urlencoded")];

#[test]
fn the_log_level_changes_what_is_logged() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "1", "--log.level", "info"]);
    let mut client = server.client();
    let shown = |level: &str| json!({"message": format!("Current log level is {level}")});
    let set =
        |level: &str| json!({"status": "success", "message": format!("Log level set to {level}")});
    let first = client.get("/log_level");
    assert_eq!(first.header("content-type"), Some("application/json; charset=utf-8"));
    assert_eq!(first.json(), shown("info"));
    // The server logs the change of the level if the new level shows it.
    let mut post = |target: &str, body: &[u8]| client.request("POST", target, &FORM, Some(body));
    assert_eq!(post("/log_level?log_level=error", b"").json(), set("error"));
    assert_eq!(post("/log_level", b"log_level=warn").json(), set("warn"));
    assert_eq!(post("/log_level", b"log_level=debug").json(), set("debug"));
    for (target, word) in [("/log_level?log_level=loud", "loud"), ("/log_level", "")] {
        let refused: serde_json::Value =
            serde_json::from_str(&post(target, b"").expect(400)).expect("JSON");
        let message = format!("unrecognized log level {word:?}");
        assert_eq!(refused, json!({"status": "failed", "message": message}));
    }
    assert_eq!(server.get("/log_level").json(), shown("debug"));
    let lines = server.stop();
    let logged: Vec<&str> = lines.lines().filter(|line| line.contains("level was set")).collect();
    assert_eq!(logged.len(), 1, "{lines}");
    assert!(logged[0].contains("debug"), "{lines}");
}

#[test]
fn services_run_and_rings_have_members() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    let services = client.get("/services");
    assert_eq!(services.header("content-type"), Some("text/plain; charset=utf-8"));
    let text = services.expect(200);
    for name in [
        "server",
        "store",
        "ingester",
        "distributor",
        "querier",
        "query-frontend",
        "ruler",
        "runtime-config",
    ] {
        assert!(text.contains(&format!("{name} => Running\n")), "{text}");
    }
    for path in ["/ring", "/distributor/ring", "/ruler/ring", "/compactor/ring", "/scheduler/ring"]
    {
        let page = client.get(path);
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        assert!(page.expect(200).contains("<td>shard-1</td><td></td><td>ACTIVE</td>"));
        let ring = client.request("GET", path, &[("Accept", "application/json")], None).json();
        let members = ring["shards"].as_array().expect("members");
        let ids: Vec<_> = members.iter().map(|member| &member["id"]).collect();
        assert_eq!(ids, ["shard-0", "shard-1"]);
        assert_eq!(members[0]["state"], "ACTIVE");
    }
    let forget = client.request("POST", "/ring", &FORM, Some(b"forget=shard-0"));
    assert_eq!((forget.status, forget.header("location")), (302, Some("#")));
    assert_eq!(client.get("/memberlist").expect(200), "This instance doesn't use memberlist.");
    // All links of the first page work.
    let landing = client.get("/").expect(200);
    let links: Vec<&str> = landing.split("href=\"").skip(1).collect();
    assert!(links.len() > 5, "{landing}");
    for link in links {
        let path = link.split('"').next().expect("a path");
        client.get(path).expect(200);
    }
}

/// The metrics that dashboards and alerts for the reference use.
const METRICS: [(&str, &str); 89] = [
    ("logsvc_replay_total_bytes", "gauge"),
    ("logsvc_replay_done_bytes", "gauge"),
    ("logsvc_reloads_total", "counter"),
    ("logsvc_reload_last_successful", "gauge"),
    ("loki_request_duration_seconds", "histogram"),
    ("loki_inflight_requests", "gauge"),
    ("loki_tcp_connections", "gauge"),
    ("loki_build_info", "gauge"),
    ("loki_panic_total", "counter"),
    ("loki_internal_log_messages_total", "counter"),
    ("loki_distributor_bytes_received_total", "counter"),
    ("loki_distributor_lines_received_total", "counter"),
    ("loki_distributor_structured_metadata_bytes_received_total", "counter"),
    ("loki_distributor_lag_ms_total", "counter"),
    ("logsvc_syslog_connections", "gauge"),
    ("logsvc_syslog_tcp_messages_total", "counter"),
    ("logsvc_syslog_tls_messages_total", "counter"),
    ("logsvc_syslog_udp_dropped_total", "counter"),
    ("logsvc_syslog_udp_messages_total", "counter"),
    ("logsvc_syslog_parse_failures_total", "counter"),
    ("logsvc_syslog_invalid_utf8_total", "counter"),
    ("logsvc_syslog_messages_cut_total", "counter"),
    ("logsvc_syslog_retries_total", "counter"),
    ("logsvc_syslog_given_up_messages_total", "counter"),
    ("loki_discarded_samples_total", "counter"),
    ("loki_discarded_bytes_total", "counter"),
    ("loki_mutated_samples_total", "counter"),
    ("loki_bytes_per_line", "histogram"),
    ("loki_ingester_memory_streams", "gauge"),
    ("loki_ingester_memory_chunks", "gauge"),
    ("loki_ingester_streams_created_total", "counter"),
    ("loki_ingester_streams_removed_total", "counter"),
    ("loki_ingester_chunks_flushed_total", "counter"),
    ("loki_ingester_chunk_size_bytes", "histogram"),
    ("loki_ingester_chunk_utilization", "histogram"),
    ("loki_ingester_chunk_age_seconds", "histogram"),
    ("loki_ingester_chunk_entries", "histogram"),
    ("loki_ingester_flush_queue_length", "gauge"),
    ("loki_ingester_wal_disk_full_failures_total", "counter"),
    ("loki_ingester_wal_disk_usage_percent", "gauge"),
    ("loki_ingester_wal_bytes_in_use", "gauge"),
    ("loki_ingester_wal_replay_duration_seconds", "gauge"),
    ("loki_logql_querystats_latency_seconds", "histogram"),
    ("loki_logql_querystats_bytes_processed_per_seconds", "histogram"),
    ("loki_query_scheduler_queue_length", "gauge"),
    ("loki_query_scheduler_queue_duration_seconds", "histogram"),
    ("loki_querier_tail_active", "gauge"),
    ("loki_querier_tail_active_streams", "gauge"),
    ("loki_querier_tail_bytes_total", "counter"),
    ("loki_compactor_delete_requests_received_total", "counter"),
    ("loki_compactor_delete_requests_processed_total", "counter"),
    ("loki_compactor_deleted_lines", "counter"),
    ("loki_compactor_pending_delete_requests_count", "gauge"),
    ("loki_compactor_oldest_pending_delete_request_age_seconds", "gauge"),
    ("loki_compactor_apply_retention_last_successful_run_timestamp_seconds", "gauge"),
    ("loki_boltdb_shipper_compactor_running", "gauge"),
    ("loki_boltdb_shipper_compact_tables_operation_total", "counter"),
    ("loki_boltdb_shipper_compact_tables_operation_last_successful_run_timestamp_seconds", "gauge"),
    ("loki_boltdb_shipper_compact_tables_operation_duration_seconds", "gauge"),
    ("loki_compactor_apply_retention_operation_total", "counter"),
    ("loki_compactor_apply_retention_operation_duration_seconds", "gauge"),
    ("loki_distributor_ingester_append_failures_total", "counter"),
    ("logsvc_ready", "gauge"),
    ("logsvc_disk_size_bytes", "gauge"),
    ("logsvc_disk_free_bytes", "gauge"),
    ("loki_prometheus_rule_evaluations_total", "counter"),
    ("loki_prometheus_rule_evaluation_failures_total", "counter"),
    ("loki_prometheus_rule_group_iterations_missed_total", "counter"),
    ("loki_prometheus_notifications_sent_total", "counter"),
    ("loki_prometheus_notifications_dropped_total", "counter"),
    ("loki_ruler_clients", "gauge"),
    ("loki_ruler_ring_check_errors_total", "counter"),
    ("loki_ruler_sync_rules_total", "counter"),
    ("loki_runtime_config_last_reload_successful", "gauge"),
    ("loki_runtime_config_hash", "gauge"),
    ("loki_ring_members", "gauge"),
    ("loki_delete_cache_gen_load_failures_total", "counter"),
    ("process_start_time_seconds", "gauge"),
    ("process_resident_memory_bytes", "gauge"),
    ("process_virtual_memory_bytes", "gauge"),
    ("process_cpu_seconds_total", "counter"),
    ("process_open_fds", "gauge"),
    ("process_max_fds", "gauge"),
    ("logsvc_head_entries", "gauge"),
    ("logsvc_head_line_bytes", "gauge"),
    ("logsvc_seals_total", "counter"),
    ("logsvc_segments", "gauge"),
    ("logsvc_removed_segments_total", "counter"),
    ("logsvc_wal_failures_total", "counter"),
];

#[test]
fn metrics_are_there_or_the_reference_says_why_not() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/api.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let table = page.split("| of Loki, not there | why |\n").nth(1).expect("the table");
    let absent: Vec<&str> = table
        .lines()
        .take_while(|line| line.starts_with('|'))
        .filter_map(|line| line.split(" | ").next())
        .flat_map(|names| names.split('`').skip(1).step_by(2))
        .collect();
    let folder = DataDir::new();
    let file = folder.path().join("overrides.yaml");
    std::fs::write(&file, "overrides: {}\n").expect("the folder can be written");
    let flag = format!("--runtime-config.file={}", file.display());
    let more = ["--limits.max-line-size=8", "--limits.max-line-size-truncate"];
    let args = [&["--cores", "2", &flag][..], &more].concat();
    let server = Server::start(&folder.path().join("data"), &args);
    let mut client = server.client();
    let headers = [("Content-Type", "application/json"), ("User-Agent", "agent/1")];
    let old_ns = now_ns() - 60 * SECOND_NS;
    let body = body::json(&[stream(&[("app", "a")], vec![entry(old_ns, "a line of 20 bytes.")])]);
    client.request("POST", "/loki/api/v1/push", &headers, Some(body.as_bytes())).expect(204);
    let text = client.get("/metrics").expect(200);
    for (name, kind) in METRICS {
        let is_there = text.contains(&format!("# TYPE {name} {kind}\n"));
        assert_ne!(is_there, absent.contains(&name), "{name} {kind}: {text}");
    }
    for name in absent {
        assert!(METRICS.iter().any(|(known, _)| *known == name), "{name}");
    }
    let lag =
        "loki_distributor_lag_ms_total{tenant=\"fake\",userAgent=\"agent/1\",format=\"loki\"}";
    let lag_ms = server.metric(lag);
    assert!((60_000.0..120_000.0).contains(&lag_ms), "{lag_ms}");
    assert_eq!(server.metric("loki_mutated_samples_total"), 1.0);
    assert_eq!(server.metric("loki_mutated_bytes_total"), 11.0);
    assert_eq!(server.metric("loki_bytes_per_line_bucket{le=\"64\"}"), 1.0);
    assert_eq!(server.metric("loki_bytes_per_line_sum"), 19.0);
    let used = server.metric("loki_ingester_wal_disk_usage_percent");
    assert!((0.0..=1.0).contains(&used), "{used}");
    assert!(server.metric("process_open_fds") > 3.0);
}

#[test]
fn settings_are_shown() {
    let folder = DataDir::new();
    let more = ["--cores", "1", "--limits.max-query-series", "77", "--limits.volume-enabled=false"];
    let server = Server::start(folder.path(), &more);
    let mut client = server.client();
    let mut config = |mode: &str| {
        let reply = client.get(&format!("/config{mode}"));
        assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"));
        reply.expect(200)
    };
    let full = config("");
    assert!(full.starts_with("target: all\n"), "{full}");
    assert!(full.contains("\nlimits_config:\n    max_line_size: 256KB\n"), "{full}");
    assert!(full.contains("\n    max_query_series: 77\n"), "{full}");
    for mode in ["?mode=diff", "?mode=diffs"] {
        let changed = config(mode);
        assert!(changed.contains("\n    max_query_series: 77\n"), "{changed}");
        let keys: Vec<&str> =
            changed.lines().map(|line| line.trim().split_once(':').expect("a key").0).collect();
        let given = [
            "server",
            "http_listen_address",
            "http_listen_port",
            "log_format",
            "data_dir",
            "cores",
            "limits_config",
            "max_query_series",
            "volume_enabled",
        ];
        assert!(keys.iter().all(|key| given.contains(key)), "only what was given: {changed}");
    }
    let defaults = config("?mode=defaults");
    assert!(defaults.contains("\n    max_query_series: 500\n"), "{defaults}");
    assert_eq!(config("?mode=whatever"), full);

    let limits = client.get("/config/tenant/v1/limits").expect(200);
    assert!(limits.contains("\nmax_query_series: 77\n"), "{limits}");
    for prefix in ["/loki", "/logsvc"] {
        let limits = client.get(&format!("{prefix}/api/v1/drilldown-limits")).json();
        assert_eq!(limits["limits"]["max_query_series"], 77);
        assert_eq!(limits["limits"]["volume_enabled"], false);
        assert_eq!(limits["limits"]["max_query_length"], "30d1h");
        assert!(limits["pattern_ingester_enabled"].is_boolean());
    }
}

#[test]
fn only_endpoints_about_tenants_ask_for_one() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "1", "--auth.enabled=true"]);
    let mut client = server.client();
    for path in ["/config/tenant/v1/limits", "/loki/api/v1/drilldown-limits"] {
        assert_eq!(client.get(path).expect(401), "no org id\n");
        client.request("GET", path, &[("X-Scope-OrgID", "a")], None).expect(200);
    }
    for path in ["/", "/services", "/config", "/log_level", "/ring", "/ready", "/metrics"] {
        client.get(path).expect(200);
    }
}

#[test]
fn queries_are_formatted_without_running() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "1", "--auth.enabled=true"]);
    let mut client = server.client();
    for prefix in ["/loki", "/logsvc"] {
        let path = format!("{prefix}/api/v1/format_query");
        let good = query::target(&path, &[("query", r#"{ app = "x" }"#)]);
        assert_eq!(client.get(&good).json(), json!({"status": "success", "data": r#"{app="x"}"#}));
        let body = query::form(&[("query", r#"{app="x"}|="y""#)]);
        let posted = client.request("POST", &path, &FORM, Some(body.as_bytes()));
        assert_eq!(posted.json()["data"], r#"{app="x"} |= "y""#);
        let bad = client.get(&query::target(&path, &[("query", "{app")])).expect(400);
        let bad: serde_json::Value = serde_json::from_str(&bad).expect("JSON");
        assert_eq!(bad["status"], "invalid-query");
        let error = bad["error"].as_str().expect("a text");
        assert!(error.starts_with("parse error at line 1, col 5: syntax error"), "{error}");
    }
}

#[test]
fn a_look_back_bounds_labels_and_volumes_too() {
    let folder = DataDir::new();
    let more = ["--cores", "1", "--limits.max-query-lookback", "1h"];
    let server = Server::start(folder.path(), &more);
    let mut client = server.client();
    let now_ns = now_ns();
    let old_ns = now_ns - 2 * 3_600_000_000_000;
    client.push(&[
        stream(&[("app", "old"), ("service_name", "old")], vec![entry(old_ns, "line")]),
        stream(&[("app", "new"), ("service_name", "new")], vec![entry(now_ns, "line")]),
    ]);
    let bounds = [("start", (old_ns - 1).to_string()), ("end", (now_ns + 1).to_string())];
    let bounds = bounds.each_ref().map(|(name, value)| (*name, value.as_str()));
    let values = query::list(&mut client, "/loki/api/v1/label/app/values", &bounds);
    assert_eq!(values, ["new"]);
    let params = [&bounds[..], &[("query", r#"{app=~".+"}"#)]].concat();
    let stats = client.get(&query::target("/loki/api/v1/index/stats", &params)).json();
    assert_eq!(stats["entries"], 1);
    // Metric queries are evaluated at the requested points, the last one included.
    let (start, end) = ((now_ns - 7_200 * SECOND_NS + 1).to_string(), (now_ns + 1).to_string());
    let query = r#"sum(count_over_time({app=~".+"}[2h]))"#;
    let params = [("query", query), ("step", "30m"), ("start", &start), ("end", &end)];
    let answer = client.get(&query::target("/loki/api/v1/query_range", &params)).json();
    let values = answer["data"]["result"][0]["values"].as_array().expect("values");
    let last_s = ((now_ns + 1) / 1_000_000) as f64 / 1e3;
    let at = |index: usize| values[index][0].as_f64().expect("a time");
    assert_eq!(values.len(), 2, "{answer}");
    assert!((at(1) - last_s).abs() < 0.002 && (at(1) - at(0) - 1800.0).abs() < 0.002, "{answer}");
    // A range that lies wholly before is no error.
    let early = [("start", bounds[0].1), ("end", &(old_ns + 1).to_string())];
    assert!(query::list(&mut client, "/loki/api/v1/labels", &early).is_empty());
    let params = [&early[..], &[("query", r#"{app=~".+"}"#)]].concat();
    let volume = client.get(&query::target("/loki/api/v1/index/volume", &params)).json();
    assert_eq!(volume["data"]["result"], json!([]));
}

#[test]
fn patterns_can_be_switched_off() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores=1", "--pattern-ingester.enabled=false"]);
    let target = query::target("/loki/api/v1/patterns", &[("query", r#"{app="x"}"#)]);
    let refused = server.get(&target);
    assert_eq!((refused.status, refused.text()), (404, String::new()));
    let limits = server.get("/loki/api/v1/drilldown-limits").json();
    assert_eq!(limits["pattern_ingester_enabled"], false);
}

#[test]
fn the_generation_of_caches_only_grows() {
    let folder = DataDir::new();
    let args = ["--cores=1", "--auth.enabled=true", "--limits.deletion-mode=filter-only"];
    let server = Server::start(folder.path(), &args);
    let mut client = server.client();
    let path = "/loki/api/v1/cache/generation_numbers";
    let tenant = [("X-Scope-OrgID", "a")];
    assert_eq!(client.get(path).expect(401), "no org id\n");
    let none = client.request("GET", path, &tenant, None);
    assert_eq!(none.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(none.expect(200), "\"\"\n");
    let increase = format!("{path}/increase");
    let mut last = 0;
    for _ in 0..3 {
        client.request("POST", &increase, &tenant, Some(b"")).expect(204);
        let number: String =
            client.request("GET", path, &tenant, None).json().as_str().unwrap().into();
        let number: i64 = number.parse().expect("a number");
        assert!(number > last, "{number} after {last}");
        last = number;
    }
}
