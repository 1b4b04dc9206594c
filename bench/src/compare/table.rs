//! The report of a comparison as Markdown, made from the same figures as the JSON.

use serde_json::Value;

/// The report. A dash stands for a figure that was not measured.
pub(crate) fn markdown(report: &Value) -> String {
    let mut out = format!("# {}\n\n", text(&report["server"]));
    let data = &report["data"];
    line(
        &mut out,
        &format!(
            "{} raw in {} lines and {} streams, {} h of log time, seed {}, metadata: {}.",
            megabytes(&report["write"]["raw_bytes"]),
            text(&data["lines"]),
            text(&data["streams_with_lines"]),
            fixed(&data["span_hours"], 1.0, 1),
            text(&data["seed"]),
            text(&data["metadata"]),
        ),
    );
    write_table(&mut out, report);
    query_table(&mut out, report);
    machine_table(&mut out, &report["machine"], &report["disk"]);
    faults(&mut out, report);
    out
}

fn write_table(out: &mut String, report: &Value) {
    let (write, crash) = (&report["write"], &report["crash"]);
    let (latency, half) = (&write["latency"], &write["half_rate"]);
    let isolation = &report["isolation"];
    let until_settled =
        format!("settled{}", if write["settled"] == false { " (never)" } else { "" });
    line(out, "\n| Writing | |\n|---|---:|");
    for (title, figure) in [
        ("push, MB/s of raw log", fixed(&write["mb_per_second"], 1.0, 1)),
        (
            "CPU-seconds per raw GB until the last answer",
            fixed(&write["cpu_seconds_per_gb_until_last_answer"], 1.0, 2),
        ),
        (
            "CPU-seconds per raw GB until settled",
            fixed(&write["cpu_seconds_per_gb_until_settled"], 1.0, 2),
        ),
        ("seconds from the last answer until settled", fixed(&write["settle_seconds"], 1.0, 1)),
        ("full speed: p50 / p95 / p99 / p99.9 / max, ms", quantiles(latency)),
        ("half speed, MB/s", fixed(&half["mb_per_second"], 1.0, 1)),
        ("half speed: p50 / p95 / p99 / p99.9 / max, ms", quantiles(&half["latency"])),
        ("the same, while a heavy query runs all the time", quantiles(&isolation["push_latency"])),
        (
            "a cheap query while pushes run at full speed: p50 / p95 / p99 / p99.9 / max, ms",
            quantiles(&isolation["cheap_query_latency"]),
        ),
        (
            "memory peak until the last answer",
            megabytes(&write["peak_rss_bytes_until_last_answer"]),
        ),
        ("memory peak until settled", megabytes(&write["peak_rss_bytes_until_settled"])),
        ("memory peak of the whole run", megabytes(&write["peak_rss_bytes"])),
        ("bytes written per raw byte", fixed(&write["written_bytes_per_raw_byte"], 1.0, 3)),
        ("bytes on disk per raw byte", fixed(&write["disk_bytes_per_raw_byte"], 1.0, 3)),
        ("seconds until ready after kill -9", fixed(&crash["ready_seconds"], 1.0, 3)),
        ("seconds until the first answer", fixed(&crash["first_answer_seconds"], 1.0, 3)),
        (
            "acknowledged lines lost",
            match crash["acknowledged_lines"].is_null() {
                true => "-".to_owned(),
                false => format!(
                    "{} of {}",
                    text(&crash["lost_lines"]),
                    text(&crash["acknowledged_lines"])
                ),
            },
        ),
    ] {
        line(out, &format!("| {} | {figure} |", title.replace("settled", &until_settled)));
    }
}

fn query_table(out: &mut String, report: &Value) {
    line(
        out,
        "\n| Reading | first s | median s | p95 s | first CPU-s | CPU-s | from disk | compressed | GB/s | × memmem | answer | |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---|",
    );
    for query in report["read"].as_array().into_iter().flatten() {
        let right = if query["right"] == true { "right" } else { "WRONG" };
        line(
            out,
            &format!(
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {right} |",
                text(&query["title"]),
                fixed(&query["first_seconds"], 1.0, 4),
                fixed(&query["median_seconds"], 1.0, 4),
                fixed(&query["p95_seconds"], 1.0, 4),
                fixed(&query["cpu_seconds_first"], 1.0, 4),
                fixed(&query["cpu_seconds"], 1.0, 4),
                megabytes(&query["read_bytes_first"]),
                megabytes(&query["statistics_compressed_bytes"]),
                fixed(&query["gb_per_second"], 1.0, 2),
                fixed(&query["memmem_ratio"], 1.0, 2),
                text(&query["expected"]),
            ),
        );
    }
    let concurrent = &report["concurrent"];
    let right =
        if concurrent["faults"].as_array().is_some_and(Vec::is_empty) { "right" } else { "WRONG" };
    line(
        out,
        &format!(
            "| {} at once, until the last answer ({} refused at first) | {} | | | | {} | | | | | | {right} |",
            text(&concurrent["queries"]),
            text(&concurrent["refusals"]),
            fixed(&concurrent["seconds_until_last_answer"], 1.0, 3),
            fixed(&concurrent["cpu_seconds"], 1.0, 2),
        ),
    );
}

fn machine_table(out: &mut String, machine: &Value, disk: &Value) {
    line(out, "\n| This machine, GB per CPU-second | |\n|---|---:|");
    let (zstd, lz4) = (&machine["zstd_1"], &machine["lz4"]);
    for (title, figure) in [
        ("memcpy", fixed(&machine["memcpy_gb_per_cpu_second"], 1.0, 2)),
        ("memmem", fixed(&machine["memmem_gb_per_cpu_second"], 1.0, 2)),
        ("zstd level 1, compress", fixed(&zstd["compress_gb_per_cpu_second"], 1.0, 2)),
        ("zstd level 1, decompress", fixed(&zstd["decompress_gb_per_cpu_second"], 1.0, 2)),
        ("zstd level 1, compressed per raw byte", fixed(&zstd["ratio"], 1.0, 3)),
        ("lz4, compress", fixed(&lz4["compress_gb_per_cpu_second"], 1.0, 2)),
        ("lz4, decompress", fixed(&lz4["decompress_gb_per_cpu_second"], 1.0, 2)),
        ("lz4, compressed per raw byte", fixed(&lz4["ratio"], 1.0, 3)),
        ("write and fdatasync of 512 KiB, ms", fixed(&machine["sync_512_kib_seconds"], 1e3, 2)),
        (
            "write and fdatasync of 128 KiB every 10 ms: p50 / p95 / p99 / p99.9 / max, ms",
            quantiles(&disk["latency"]),
        ),
        ("CPUs", text(&machine["cpus"])),
    ] {
        line(out, &format!("| {title} | {figure} |"));
    }
}

/// Quantiles of latencies.
fn quantiles(latency: &Value) -> String {
    ["p50_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms"]
        .map(|name| fixed(&latency[name], 1.0, 1))
        .join(" / ")
}

fn faults(out: &mut String, report: &Value) {
    let faults = report["faults"].as_array().map_or(&[][..], Vec::as_slice);
    if !faults.is_empty() {
        line(out, "\n## Faults\n");
        faults.iter().for_each(|fault| line(out, &format!("- {}", text(fault))));
    }
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

/// A text or number; a dash for null.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.replace('|', "\\|"),
        other => other.to_string(),
    }
}

fn fixed(value: &Value, factor: f64, digits: usize) -> String {
    value.as_f64().map_or_else(|| "-".to_owned(), |number| format!("{:.digits$}", number * factor))
}

fn megabytes(bytes: &Value) -> String {
    value_mb(bytes).map_or_else(|| "-".to_owned(), |mb| format!("{mb:.1} MB"))
}

fn value_mb(bytes: &Value) -> Option<f64> {
    Some(bytes.as_f64()? / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_stand_in_rows_and_what_is_missing_is_a_dash() {
        let report = json!({
            "server": "a server",
            "data": {"lines": 5000, "seed": 1},
            "write": {"raw_bytes": 1_500_000, "mb_per_second": 12.345, "settled": false},
            "crash": null,
            "read": [
                {"title": "an id", "median_seconds": 0.25, "expected": "10 lines", "right": true},
                {"title": "a | b", "right": false},
            ],
            "concurrent": {"queries": 50, "refusals": 3, "seconds_until_last_answer": 1.5, "faults": []},
            "machine": {"memmem_gb_per_cpu_second": 9.5},
            "faults": ["a | b: no answer"],
        });
        let text = markdown(&report);
        for row in [
            "# a server\n",
            "1.5 MB raw in 5000 lines",
            "| push, MB/s of raw log | 12.3 |",
            "| CPU-seconds per raw GB until settled (never) | - |",
            "| acknowledged lines lost | - |",
            "| an id | - | 0.2500 | - | - | - | - | - | - | - | 10 lines | right |",
            "| a \\| b | - | - | - | - | - | - | - | - | - | - | WRONG |",
            "| 50 at once, until the last answer (3 refused at first) | 1.500 |",
            "| memmem | 9.50 |",
            "- a \\| b: no answer",
        ] {
            assert!(text.contains(row), "{row} in\n{text}");
        }
    }
}
