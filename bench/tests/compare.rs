//! The whole comparison against the real server, with a small data set: every row is
//! there, every answer is right, and nothing is lost in the crash.
#![allow(clippy::disallowed_methods, reason = "a test of processes")]

mod built;

use serde_json::Value;
use std::process::Command;

/// The read workloads, in the order of the report.
const WORKLOADS: [&str; 23] = [
    "last-100",
    "last-100-text",
    "id",
    "mid-id",
    "absent-id",
    "ignore-case",
    "alternation",
    "three-filters",
    "json-rows",
    "json-count",
    "logfmt-count",
    "pattern-count",
    "topk-path",
    "quantile",
    "rate",
    "rate-text",
    "rate-text-again",
    "rate-detected",
    "count-all",
    "bytes",
    "metadata",
    "label-values",
    "series",
];

#[test]
fn a_small_comparison_has_all_rows_and_right_answers() {
    let folder = std::env::temp_dir().join(format!("logsvc-compare-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let (json, markdown) = (folder.join("report.json"), folder.join("report.md"));
    let server = format!(
        "'{}' --data-dir={{data}} --server.http-listen-address=127.0.0.1 \
         --server.http-listen-port={{port}} --cores=2 --storage.head-max-bytes=2MB",
        built::server_binary().display()
    );
    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(["compare", "--name", "small", "--raw-mb", "20", "--streams", "100", "--seed", "7"])
        .args(["--repeats", "2", "--quiet", "1s", "--half-rate-time", "2s", "--disk-time", "100ms"])
        .args(["--server", &server])
        .arg("--data-dir")
        .arg(folder.join("run"))
        .arg("--json")
        .arg(&json)
        .arg("--markdown")
        .arg(&markdown)
        .output()
        .expect("bench runs");
    let log = String::from_utf8_lossy(&output.stderr);
    let text = std::fs::read_to_string(&json).unwrap_or_else(|error| panic!("{error}: {log}"));
    let report: Value = serde_json::from_str(&text).expect("the report is JSON");
    assert_eq!(report["faults"], serde_json::json!([]), "{log}");
    assert!(output.status.success(), "{log}");

    let rows = report["read"].as_array().expect("rows");
    let names: Vec<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names, WORKLOADS);
    for row in rows {
        assert_eq!((&row["right"], &row["runs"]), (&Value::Bool(true), &Value::from(2)), "{row}");
        for figure in ["first_seconds", "median_seconds", "p95_seconds"] {
            assert!(row[figure].as_f64() > Some(0.0), "{figure} in {row}");
        }
    }
    // Workloads that find nothing would be right with any server.
    for (name, expected) in [
        ("last-100", "100 lines"),
        ("id", "10 lines"),
        ("absent-id", "0 lines"),
        ("topk-path", "10 series"),
    ] {
        let row = rows.iter().find(|row| row["name"] == name);
        assert_eq!(row.and_then(|row| row["expected"].as_str()), Some(expected), "{name}");
    }
    for path in [
        "/write/mb_per_second",
        "/write/cpu_seconds_per_gb_until_last_answer",
        "/write/cpu_seconds_per_gb_until_settled",
        "/write/peak_rss_bytes",
        "/write/written_bytes_per_raw_byte",
        "/write/disk_bytes_per_raw_byte",
        "/write/half_rate/latency/p99_ms",
        "/isolation/push_latency/p99_ms",
        "/isolation/heavy_queries/p50_ms",
        "/isolation/cheap_query_latency/p99_ms",
        "/crash/acknowledged_lines",
        "/crash/ready_seconds",
        "/concurrent/seconds_until_last_answer",
        "/machine/memcpy_gb_per_cpu_second",
        "/machine/memmem_gb_per_cpu_second",
        "/machine/zstd_1/compress_gb_per_cpu_second",
        "/machine/lz4/decompress_gb_per_cpu_second",
        "/disk/latency/p99_ms",
    ] {
        assert!(report.pointer(path).and_then(Value::as_f64) > Some(0.0), "{path} in {text}");
    }
    assert_eq!(report.pointer("/write/settled"), Some(&Value::Bool(true)));
    assert_eq!(report.pointer("/crash/lost_lines"), Some(&Value::from(0)));
    assert_eq!(report.pointer("/concurrent/queries"), Some(&Value::from(50)));
    let table = std::fs::read_to_string(&markdown).expect("the table was written");
    assert!(table.starts_with("# small\n") && !table.contains("WRONG"), "{table}");
    assert_eq!(table, String::from_utf8_lossy(&output.stdout));
    assert!(!folder.join("run").exists(), "the data folder is removed");
    _ = std::fs::remove_dir_all(&folder);
}
