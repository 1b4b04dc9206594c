//! The metrics that queries name, and those that the server has.

use crate::process;
use anyhow::{Context, Result};
use std::collections::BTreeSet;

/// Where the server's metrics have their names.
const METRICS: &str = "server/src/metrics";
/// Beginnings of metrics of the server. No label and no function begins so.
const BEGINNINGS: [&str; 3] = ["loki_", "logsvc_", "process_"];
/// What a scrape adds to the name of a histogram.
const ENDINGS: [&str; 3] = ["_bucket", "_sum", "_count"];

/// The metrics of a query. Texts in quotes name none.
pub(super) fn in_query(query: &str) -> BTreeSet<String> {
    let outside = query.split('"').step_by(2);
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = outside.flat_map(|text| text.split(move |c: char| !is_part(c)));
    let is_metric = |word: &&str| BEGINNINGS.iter().any(|beginning| word.starts_with(beginning));
    words.filter(is_metric).map(str::to_owned).collect()
}

/// The names in the server's source.
pub(super) fn of_server() -> Result<BTreeSet<String>> {
    let files = process::repository_files()?;
    let mut names = BTreeSet::new();
    for file in files.iter().filter(|file| file.starts_with(METRICS) && file.ends_with(".rs")) {
        let text = std::fs::read_to_string(file).with_context(|| format!("reading {file}"))?;
        names.extend(in_source(&text));
    }
    Ok(names)
}

/// The texts of a source that are names of metrics.
fn in_source(source: &str) -> impl Iterator<Item = String> {
    let is_name = |text: &&str| {
        BEGINNINGS.iter().any(|beginning| text.starts_with(beginning))
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    source.split('"').skip(1).step_by(2).filter(is_name).map(str::to_owned)
}

/// Whether the server has a metric, or a histogram that it is a part of.
pub(super) fn has(names: &BTreeSet<String>, metric: &str) -> bool {
    let is_part = |ending| metric.strip_suffix(ending).is_some_and(|name| names.contains(name));
    names.contains(metric) || ENDINGS.into_iter().any(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_name_metrics_and_the_source_has_them() {
        let query = r#"sum by (loki) (rate(loki_a_bucket{x="loki_no"}[5m])) / logsvc_b > time()"#;
        let metrics = in_query(query);
        assert_eq!(metrics.iter().collect::<Vec<_>>(), ["logsvc_b", "loki_a_bucket"]);
        let source = r#"("loki_a", "histogram", "Loki loki_text here."), out.single("logsvc_b")"#;
        let names: BTreeSet<String> = in_source(source).collect();
        assert_eq!(names.iter().collect::<Vec<_>>(), ["logsvc_b", "loki_a"]);
        assert!(metrics.iter().all(|metric| has(&names, metric)));
        assert!(!has(&names, "loki_a_total") && !has(&names, "logsvc_b_x"));
    }
}
