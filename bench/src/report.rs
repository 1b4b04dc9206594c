//! The measurements of a push run, and their printed form.

use crate::http::Response;
use crate::latency::Latencies;
use crate::procfs::Usage;
use crate::source::SourceArgs;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;

/// Distinct error texts that are kept for the report.
const ERROR_TEXTS: usize = 8;

/// Counts of one connection, or of all.
pub(crate) struct Tally {
    /// From the intended (or, at full speed, the real) send time to the end of the
    /// acknowledgement, of acknowledged bodies.
    pub(crate) latencies: Latencies,
    pub(crate) acked_bodies: u64,
    pub(crate) acked_lines: u64,
    /// Line bytes and metadata bytes of acknowledged bodies.
    pub(crate) acked_raw_bytes: u64,
    /// Request bytes, repeats included.
    pub(crate) sent_bytes: u64,
    /// Bodies that were given up.
    pub(crate) failed_bodies: u64,
    pub(crate) retries: u64,
    /// Answers by status; `io` counts broken connections.
    pub(crate) outcomes: BTreeMap<String, u64>,
    /// Some of the error texts.
    pub(crate) error_texts: BTreeMap<String, u64>,
}

impl Tally {
    pub(crate) fn new() -> Tally {
        Tally {
            latencies: Latencies::new(),
            acked_bodies: 0,
            acked_lines: 0,
            acked_raw_bytes: 0,
            sent_bytes: 0,
            failed_bodies: 0,
            retries: 0,
            outcomes: BTreeMap::new(),
            error_texts: BTreeMap::new(),
        }
    }

    /// Counts an answer, or the lack of one.
    pub(crate) fn count_outcome(&mut self, outcome: &io::Result<Response>) {
        let (name, text) = match outcome {
            Ok(response) if response.is_success() => (response.status.to_string(), None),
            Ok(response) => (response.status.to_string(), Some(response.excerpt())),
            Err(error) => ("io".to_owned(), Some(error.to_string())),
        };
        if let Some(text) = text {
            self.count_error_text(format!("{name}: {text}"), 1);
        }
        *self.outcomes.entry(name).or_default() += 1;
    }

    fn count_error_text(&mut self, text: String, times: u64) {
        if self.error_texts.len() < ERROR_TEXTS || self.error_texts.contains_key(&text) {
            *self.error_texts.entry(text).or_default() += times;
        }
    }

    pub(crate) fn add(&mut self, other: &Tally) {
        self.latencies.add(&other.latencies);
        self.acked_bodies += other.acked_bodies;
        self.acked_lines += other.acked_lines;
        self.acked_raw_bytes += other.acked_raw_bytes;
        self.sent_bytes += other.sent_bytes;
        self.failed_bodies += other.failed_bodies;
        self.retries += other.retries;
        for (name, count) in &other.outcomes {
            *self.outcomes.entry(name.clone()).or_default() += count;
        }
        for (text, times) in &other.error_texts {
            self.count_error_text(text.clone(), *times);
        }
    }
}

/// The result of `bench push`.
pub(crate) struct PushReport {
    pub(crate) tally: Tally,
    /// Time during which bodies were being sent.
    pub(crate) seconds: f64,
    /// This process's CPU time while sending.
    pub(crate) own_cpu_seconds: Option<f64>,
    /// This process's CPU time while preparing bodies.
    pub(crate) prepare_cpu_seconds: Option<f64>,
    /// The server's counters before and after.
    pub(crate) server: Option<(Usage, Usage)>,
    start_nanos: Option<i64>,
    rate: Option<f64>,
}

impl PushReport {
    pub(crate) fn new(source: &SourceArgs, rate: Option<f64>) -> PushReport {
        PushReport {
            tally: Tally::new(),
            seconds: 0.0,
            own_cpu_seconds: None,
            prepare_cpu_seconds: None,
            server: None,
            start_nanos: source.start,
            rate,
        }
    }

    fn megabytes_per_second(&self) -> f64 {
        per(self.tally.acked_raw_bytes as f64 / 1e6, self.seconds)
    }

    /// Server CPU seconds per 10^9 raw bytes acknowledged.
    fn server_cpu_per_gb(&self) -> Option<f64> {
        let (before, after) = self.server.as_ref()?;
        let gigabytes = self.tally.acked_raw_bytes as f64 / 1e9;
        (gigabytes > 0.0).then_some(after.cpu_seconds_since(before)? / gigabytes)
    }

    /// The report for people.
    pub(crate) fn to_text(&self) -> String {
        let mut out = String::new();
        self.write_text(&mut out).expect("writing to a String cannot fail");
        out
    }

    fn write_text(&self, out: &mut String) -> std::fmt::Result {
        let tally = &self.tally;
        writeln!(
            out,
            "pushed    {:.1} MB raw, {} lines, {} bodies in {:.2} s ({:.1} MB on the wire)",
            tally.acked_raw_bytes as f64 / 1e6,
            tally.acked_lines,
            tally.acked_bodies,
            self.seconds,
            tally.sent_bytes as f64 / 1e6,
        )?;
        writeln!(
            out,
            "rate      {:.1} MB/s raw, {:.0} lines/s{}",
            self.megabytes_per_second(),
            per(tally.acked_lines as f64, self.seconds),
            self.rate.map(|rate| format!(" (asked for {rate} MB/s)")).unwrap_or_default(),
        )?;
        let latencies = &tally.latencies;
        writeln!(
            out,
            "latency   p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms, max {:.2} ms",
            latencies.quantile_ms(0.5),
            latencies.quantile_ms(0.99),
            latencies.quantile_ms(0.999),
            latencies.max_ms(),
        )?;
        let outcomes: Vec<String> =
            tally.outcomes.iter().map(|(name, count)| format!("{count} x {name}")).collect();
        writeln!(
            out,
            "answers   {}; {} retries, {} bodies failed",
            outcomes.join(", "),
            tally.retries,
            tally.failed_bodies,
        )?;
        for (text, times) in &tally.error_texts {
            writeln!(out, "          {times} x {text}")?;
        }
        writeln!(
            out,
            "own CPU   {} sending, {} preparing",
            or_unknown(self.own_cpu_seconds, |s| format!("{s:.2} s")),
            or_unknown(self.prepare_cpu_seconds, |s| format!("{s:.2} s")),
        )?;
        if let Some((before, after)) = &self.server {
            let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
            writeln!(
                out,
                "server    CPU {} ({} per raw GB), memory {} (peak {}), written {}",
                or_unknown(after.cpu_seconds_since(before), |s| format!("{s:.2} s")),
                or_unknown(self.server_cpu_per_gb(), |s| format!("{s:.2} s")),
                or_unknown(after.rss_bytes, megabytes),
                or_unknown(after.peak_rss_bytes, megabytes),
                or_unknown(after.written_bytes_since(before), megabytes),
            )?;
        }
        writeln!(
            out,
            "start     {} (pass as --start to verify)",
            or_unknown(self.start_nanos, |nanos| nanos.to_string()),
        )
    }

    /// The report for programs.
    pub(crate) fn to_json(&self) -> Value {
        let tally = &self.tally;
        let server = self.server.as_ref().map(|(before, after)| {
            json!({
                "cpu_seconds": after.cpu_seconds_since(before),
                "cpu_seconds_per_raw_gb": self.server_cpu_per_gb(),
                "rss_bytes": after.rss_bytes,
                "peak_rss_bytes": after.peak_rss_bytes,
                "written_bytes": after.written_bytes_since(before),
            })
        });
        json!({
            "raw_bytes": tally.acked_raw_bytes,
            "lines": tally.acked_lines,
            "bodies": tally.acked_bodies,
            "failed_bodies": tally.failed_bodies,
            "sent_bytes": tally.sent_bytes,
            "seconds": self.seconds,
            "raw_mb_per_second": self.megabytes_per_second(),
            "lines_per_second": per(tally.acked_lines as f64, self.seconds),
            "rate_mb_per_second": self.rate,
            "latency": tally.latencies.to_json(),
            "answers": tally.outcomes,
            "retries": tally.retries,
            "own_cpu_seconds": self.own_cpu_seconds,
            "prepare_cpu_seconds": self.prepare_cpu_seconds,
            "server": server,
            "start": self.start_nanos.map(|nanos| nanos.to_string()),
        })
    }
}

/// A quotient for a report; zero over no time at all.
pub(crate) fn per(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}

/// The formatted figure, or a word that says it could not be read.
pub(crate) fn or_unknown<T>(figure: Option<T>, format: impl Fn(T) -> String) -> String {
    figure.map_or_else(|| "unknown".to_owned(), format)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::source_args;

    #[test]
    fn figures_are_those_of_the_counts() {
        let mut report = PushReport::new(&source_args(&["--start", "1700000000"]), Some(50.0));
        report.seconds = 4.0;
        report.tally.acked_raw_bytes = 200_000_000;
        report.tally.acked_lines = 1_000_000;
        let usage = |cpu_seconds, written_bytes| Usage {
            cpu_seconds: Some(cpu_seconds),
            written_bytes: Some(written_bytes),
            peak_rss_bytes: Some(70_000_000),
            ..Usage::default()
        };
        report.server = Some((usage(1.0, 5), usage(2.5, 80_000_005)));
        let json = report.to_json();
        assert_eq!(json["raw_mb_per_second"], 50.0);
        assert_eq!(json["lines_per_second"], 250_000.0);
        assert_eq!(json["server"]["cpu_seconds_per_raw_gb"], 7.5);
        assert_eq!(json["server"]["written_bytes"], 80_000_000);
        assert_eq!(json["server"]["rss_bytes"], Value::Null);
        let text = report.to_text();
        for part in
            ["50.0 MB/s raw, 250000 lines/s", "7.50 s per raw GB", "memory unknown (peak 70.0 MB)"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn error_texts_are_counted_but_bounded() {
        let mut tally = Tally::new();
        for i in 0..20 {
            let text = if i % 2 == 0 { "same".to_owned() } else { format!("text {i}") };
            tally.count_outcome(&Err(io::Error::other(text)));
        }
        assert_eq!(tally.outcomes["io"], 20);
        assert_eq!(tally.error_texts["io: same"], 10);
        assert_eq!(tally.error_texts.len(), ERROR_TEXTS);
    }
}
