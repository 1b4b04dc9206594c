use http::Method;
use logsvc_runtime::Monotonic;

use super::*;

#[test]
fn the_exposition_adds_cores_up_and_histograms_are_cumulative() {
    let metrics = NodeMetrics::new(2, &["loki_api_v1_push", "loki_api_v1_tail", "ready"]);
    let push = "loki_api_v1_push";
    for (core, us) in [(0, 50), (1, 700)] {
        let requests = &metrics.core(CoreId(core)).requests;
        requests.finished(Some(&Method::POST), push, 204, Duration::from_micros(us));
    }
    let requests = &metrics.core(CoreId(1)).requests;
    let under_way = [requests.begin(&Method::GET, "ready"), requests.begin(&Method::GET, push)];
    drop(requests.begin(&Method::GET, push));
    let tails = Duration::from_secs(60);
    requests.finished(Some(&Method::GET), "loki_api_v1_tail", 101, tails);
    requests.finished(None, "no such route", 499, tails);
    let queries = &metrics.core(CoreId(0)).queries;
    queries.ended(QueryKind::Filter, true, 200, Duration::from_millis(10), 5_000_000);
    let tenant = logsvc_proto::TenantId::no_auth();
    let amount = Amount { entries: 3, bytes: 70 };
    metrics.core(CoreId(1)).pushes.of(&tenant).received(amount, 9);
    metrics.core(CoreId(0)).pushes.of(&tenant).discarded(Reason::StreamLimit, amount);
    metrics.core(CoreId(0)).pushes.of(&tenant).mutated(Mutation::LineTooLong, amount);
    let mut lengths = LineCounts::default();
    [64, 8, 65].into_iter().for_each(|len| lengths.count(len));
    metrics.core(CoreId(0)).line_lengths.add(&lengths);
    metrics.core(CoreId(0)).query_waits.record(Duration::from_millis(2));
    let mut failing = ShardStatus::default();
    failing.seal.maintenance.failing_since = Some(Monotonic(0).after(Duration::from_secs(98)));
    failing.seal.maintenance.last_job = Some(Duration::from_millis(500));
    failing.reads.tail.reads = 7;
    failing.reads.tail.bytes = 90;
    let budget = Budget::new("test\"quote", 10);
    let gauges = Gauges {
        budgets: &[&budget],
        queues: &[QueueStatus {
            work: "query",
            places: 8,
            running: 8,
            waiting: vec![("a|b".to_owned(), 3)],
        }],
        lane_depths: &[0, 4],
        shards: &[ShardStatus::default(), failing],
        deletions: None,
        ruler: None,
        group_labels: GroupLabels { rule_path: None },
        now_ns: 8_000_000_000,
        driver: "sim",
        reloads: &Reloads::default(),
        files_sha256: Some([0xab; 32]),
        replay_bytes: (3, 4),
        started_ns: 7_000_000_000,
        upkeep: Upkeep {
            compacts: true,
            expires: false,
            now: Monotonic(0).after(Duration::from_secs(100)),
        },
        append_failures: &[0, 3],
        replay: Duration::from_millis(1500),
        disk: Some(logsvc_runtime::DiskSpace { total_bytes: 400, available_bytes: 300 }),
        cluster: Some(ClusterNumbers { messages: 7, ..ClusterNumbers::default() }),
        bucket: Some(BucketNumbers {
            uploads: 2,
            upload_bytes: 30,
            failures: 4,
            backlog_segments: 5,
            backlog_bytes: 60,
            local_file_bytes: 800,
            absent_tails: 9,
            removed_objects: 7,
            failing_for: Some(Duration::from_millis(2500)),
            is_lost: false,
        }),
        is_ready: true,
    };
    let text = metrics.expose(&gauges, ExpositionFormat::Text);
    drop(under_way);
    let labels = r#"method="POST",route="loki_api_v1_push",status_code="204",ws="false""#;
    let tail = r#"method="GET",route="loki_api_v1_tail",status_code="101",ws="true""#;
    let other = r#"method="other",route="other",status_code="499",ws="false""#;
    let query = r#"{type="filter",range="range",status_code="200""#;
    for line in [
        format!("loki_request_duration_seconds_bucket{{{labels},le=\"0.0001\"}} 1"),
        format!("loki_request_duration_seconds_bucket{{{labels},le=\"0.001\"}} 2"),
        format!("loki_request_duration_seconds_bucket{{{labels},le=\"+Inf\"}} 2"),
        format!("loki_request_duration_seconds_sum{{{labels}}} 0.00075"),
        "loki_runtime_config_last_reload_successful{config=\"loki\"} 1".into(),
        "logsvc_replay_done_bytes 3".into(),
        "logsvc_replay_total_bytes 4".into(),
        "logsvc_reloads_total 0".into(),
        "logsvc_reload_last_successful 1".into(),
        format!("loki_runtime_config_hash{{sha256=\"{}\",config=\"loki\"}} 1", "ab".repeat(32)),
        "logsvc_queries_waiting{work=\"query\"} 3".into(),
        "loki_query_scheduler_queue_length{user=\"a|b\"} 3".into(),
        "loki_query_scheduler_queue_duration_seconds_count 1".into(),
        format!("loki_request_duration_seconds_count{{{tail}}} 1"),
        format!("loki_request_duration_seconds_count{{{other}}} 1"),
        r#"loki_inflight_requests{method="GET",route="ready"} 1"#.into(),
        r#"loki_inflight_requests{method="GET",route="loki_api_v1_push"} 1"#.into(),
        format!("loki_logql_querystats_latency_seconds_sum{query}}} 0.01"),
        format!(
            "loki_logql_querystats_bytes_processed_per_seconds_bucket{query},le=\"400000000\"}} 0"
        ),
        r#"loki_distributor_lines_received_total{tenant="fake"} 3"#.into(),
        r#"loki_distributor_bytes_received_total{tenant="fake"} 70"#.into(),
        r#"loki_discarded_samples_total{reason="stream_limit",tenant="fake"} 3"#.into(),
        "process_start_time_seconds 7".into(),
        "loki_ingester_wal_replay_duration_seconds 1.5".into(),
        "loki_ingester_wal_disk_usage_percent 0.25".into(),
        "logsvc_disk_size_bytes 400".into(),
        "logsvc_disk_free_bytes 300".into(),
        "logsvc_ready 1".into(),
        "logsvc_bucket_uploads_total 2".into(),
        "logsvc_bucket_upload_bytes_total 30".into(),
        "logsvc_bucket_failures_total 4".into(),
        "logsvc_bucket_backlog_segments 5".into(),
        "logsvc_bucket_backlog_bytes 60".into(),
        "logsvc_bucket_local_file_bytes 800".into(),
        "logsvc_bucket_absent_tails 9".into(),
        "logsvc_bucket_removed_objects_total 7".into(),
        "logsvc_bucket_failing_seconds 2.5".into(),
        "logsvc_bucket_requests_total{kind=\"create\"} 0".into(),
        "logsvc_bucket_request_duration_seconds_bucket{kind=\"read\",le=\"0.005\"} 0".into(),
        "logsvc_bucket_request_duration_seconds_bucket{kind=\"read\",le=\"30\"} 0".into(),
        "logsvc_segment_reads_total{from=\"tail\"} 7".into(),
        "logsvc_segment_read_bytes_total{from=\"tail\"} 90".into(),
        "loki_panic_total 0".into(),
        r#"loki_bytes_per_line_bucket{le="64"} 2"#.into(),
        r#"loki_mutated_samples_total{reason="line_too_long",tenant="fake"} 3"#.into(),
        r#"loki_mutated_bytes_total{reason="line_too_long",tenant="fake"} 70"#.into(),
        "loki_boltdb_shipper_compactor_running 1".into(),
        r#"loki_ring_members{name="ingester",state="ACTIVE"} 2"#.into(),
        "loki_boltdb_shipper_compact_tables_operation_last_successful_run_timestamp_seconds 6"
            .into(),
        "loki_boltdb_shipper_compact_tables_operation_duration_seconds 0.5".into(),
        r#"loki_distributor_ingester_append_failures_total{ingester="1"} 3"#.into(),
        "logsvc_lane_depth{shard=\"1\"} 4".into(),
        "logsvc_memory_max_bytes{budget=\"test\\\"quote\"} 10".into(),
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is missing in\n{text}");
    }
}
