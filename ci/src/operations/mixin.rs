//! The page about Loki's mixin: what it says to have data must be a metric of the server, and what it
//! says to be absent must not be one.

use super::names;
use anyhow::{Context, Result};
use std::collections::BTreeSet;

/// The page.
pub(super) const PAGE: &str = "docs/mixin.md";

/// Rows of its tables that are not true.
pub(super) fn faults(metrics: &BTreeSet<String>) -> Result<Vec<String>> {
    let page = std::fs::read_to_string(PAGE).with_context(|| format!("reading {PAGE}"))?;
    Ok(faults_of(&page, metrics))
}

fn faults_of(page: &str, metrics: &BTreeSet<String>) -> Vec<String> {
    let mut faults = Vec::new();
    for (line, text) in (1..).zip(page.lines()) {
        let cells: Vec<&str> = text.split('|').map(str::trim).collect();
        // Row, panels, metrics, data.
        let [_, _, _, named, data, _] = cells[..] else { continue };
        // A metric that has no data for a reason besides its name.
        let is_narrowed = named.contains(" of ");
        for metric in names::in_query(named) {
            let has = names::has(metrics, &metric);
            if data.starts_with("yes") && !has {
                faults.push(format!("{PAGE}:{line}: the server has not {metric}"));
            }
            if data.starts_with("no:") && has && !is_narrowed {
                faults.push(format!("{PAGE}:{line}: the server has {metric}"));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_must_be_true() {
        let faults = |row: &str| faults_of(row, &["loki_a".to_owned()].into());
        for good in [
            "| r | p | `loki_a` | yes: so |",
            "| r | p | `loki_b`, `loki_c` | no: not |",
            "| r | p | `loki_a` of routes | no: not |",
            "| r | p | `container_x` | Kubernetes |",
        ] {
            assert!(faults(good).is_empty(), "{good}");
        }
        let expected = ["docs/mixin.md:1: the server has not loki_b"];
        assert_eq!(faults("| r | p | `loki_a`, `loki_b` | yes |"), expected);
        assert_eq!(
            faults("| r | p | `loki_a` | no: not |"),
            ["docs/mixin.md:1: the server has loki_a"]
        );
    }
}
