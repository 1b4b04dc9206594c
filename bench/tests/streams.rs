//! `bench streams` against the real server, with few streams: all figures are there, nothing is
//! refused, and every answer is right.
#![allow(clippy::disallowed_methods, reason = "a test of processes")]

mod built;

use serde_json::{Value, json};
use std::process::Command;

#[test]
fn a_few_short_days_have_all_figures_and_right_answers() {
    let folder = std::env::temp_dir().join(format!("logsvc-streams-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let file = folder.join("report.json");
    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(["streams", "--days", "3", "--streams-a-day", "2000", "--lines", "5"])
        .args(["--quiet", "1s", "--seed", "7", "--server-arg=--cores=2"])
        .arg("--binary")
        .arg(built::server_binary())
        .arg("--data-dir")
        .arg(folder.join("run"))
        .arg("--json")
        .arg(&file)
        .output()
        .expect("bench runs");
    let log = format!(
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{error}: {log}"));
    let report: Value = serde_json::from_str(&text).expect("the report is JSON");
    assert_eq!(report["faults"], json!([]), "{log}");
    assert!(output.status.success(), "{log}");

    let days = report["days"].as_array().expect("days");
    let lines: Vec<&Value> = days.iter().map(|day| &day["lines"]).collect();
    assert_eq!(lines, [10_000; 3]);
    for (path, expected) in [("/total/streams", 6000), ("/total/refused", 0), ("/total/failed", 0)]
    {
        assert_eq!(report.pointer(path), Some(&Value::from(expected)), "{path}");
    }
    for path in [
        "/days/0/rss_bytes",
        "/total/raw_bytes",
        "/total/peak_rss_bytes",
        "/total/disk_bytes_per_stream",
        "/total/disk_bytes_per_raw_byte",
        "/restart/ready_seconds",
        "/restart/rss_bytes",
        "/probes/0/first/p50_ms",
        "/probes/0/again/max_ms",
    ] {
        assert!(report.pointer(path).and_then(Value::as_f64) > Some(0.0), "{path} in {text}");
    }
    for (index, (name, asked)) in
        [("last-100", 20), ("pod-values", 5), ("series", 5)].into_iter().enumerate()
    {
        let probe = &report["probes"][index];
        assert_eq!((&probe["name"], &probe["wrong"]), (&json!(name), &json!(0)), "{log}");
        assert_eq!(probe["first"]["count"], asked, "{probe}");
        assert!(probe["expected"].as_u64() > Some(asked), "{probe}");
    }
    assert!(!folder.join("run").exists(), "the data folder is removed");
    _ = std::fs::remove_dir_all(&folder);
}
