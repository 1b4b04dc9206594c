//! The alert rules: each alert has a severity, a text, a runbook and a test, and names only metrics
//! that the server has. Each runbook belongs to an alert and names only settings that there are.

use super::names;
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeSet;

/// The rules, their tests, and the settings.
pub(super) const RULES: &str = "deploy/prometheus/alerts.yaml";
pub(super) const TESTS: &str = "deploy/prometheus/alerts_test.yaml";
const RUNBOOKS: &str = "docs/runbooks.md";
const SCHEMA: &str = "deploy/config/logsvc.schema.json";
/// With this the names of alerts begin.
const BEGINNING: &str = "Logsvc";
/// What follows in a runbook.
const PARTS: [&str; 3] = ["**Meaning.**", "**Look at.**", "**Do.**"];

/// The texts that belong together.
struct Texts<'t> {
    rules: &'t str,
    tests: &'t str,
    runbooks: &'t str,
    schema: &'t str,
}

/// Faults of the files in the repository.
pub(super) fn faults(metrics: &BTreeSet<String>) -> Result<Vec<String>> {
    let read = |name| std::fs::read_to_string(name).with_context(|| format!("reading {name}"));
    let (rules, tests) = (read(RULES)?, read(TESTS)?);
    let (runbooks, schema) = (read(RUNBOOKS)?, read(SCHEMA)?);
    let texts = Texts { rules: &rules, tests: &tests, runbooks: &runbooks, schema: &schema };
    faults_of(&texts, metrics)
}

fn faults_of(texts: &Texts<'_>, metrics: &BTreeSet<String>) -> Result<Vec<String>> {
    let rules: Value = serde_saphyr::from_str(texts.rules).context("the rules are no YAML")?;
    let groups = rules["groups"].as_array().context("no groups")?;
    let rules = groups.iter().flat_map(|group| group["rules"].as_array()).flatten();
    let books = books(texts.runbooks);
    let mut faults = Vec::new();
    let mut alerts = BTreeSet::new();
    for rule in rules {
        let alert = rule["alert"].as_str().context("a rule that is no alert")?;
        if !alerts.insert(alert) {
            faults.push(format!("{alert} is there twice"));
        }
        if !["critical", "warning"].iter().any(|known| rule["labels"]["severity"] == *known) {
            faults.push(format!("{alert} has no severity"));
        }
        let annotations = &rule["annotations"];
        if !["summary", "description"].iter().all(|name| annotations[name].is_string()) {
            faults.push(format!("{alert} has no summary or no description"));
        }
        let book = format!("{RUNBOOKS}#{}", alert.to_lowercase());
        if annotations["runbook_url"] != book {
            faults.push(format!("the runbook of {alert} is not {book}"));
        }
        if !books.iter().any(|(name, _)| *name == alert) {
            faults.push(format!("{alert} has no place in {RUNBOOKS}"));
        }
        // Tests that expect no alert name it, too, but with less.
        if !texts.tests.contains(&format!("runbook_url: {book}\n")) {
            faults.push(format!("no test in {TESTS} sees {alert} fire"));
        }
        for metric in names::in_query(rule["expr"].as_str().context("no expression")?) {
            if !names::has(metrics, &metric) {
                faults.push(format!("{alert} asks for {metric}, which the server has not"));
            }
        }
    }
    let schema: Value = serde_json::from_str(texts.schema).context("the schema is no JSON")?;
    for (name, text) in &books {
        if !alerts.contains(name) {
            faults.push(format!("{RUNBOOKS} is about {name}, which is no alert"));
        }
        if !PARTS.iter().all(|part| text.contains(part)) {
            faults.push(format!("the runbook of {name} lacks one of {}", PARTS.join(" ")));
        }
        for setting in settings(text) {
            let pointer = setting.replace('.', "/properties/");
            if schema.pointer(&format!("/properties/{pointer}")).is_none() {
                faults.push(format!("the runbook of {name} names {setting}, which is no setting"));
            }
        }
    }
    Ok(faults)
}

/// The runbooks: names and texts.
fn books(document: &str) -> Vec<(&str, &str)> {
    let sections = document.split("\n### ").skip(1);
    let named = sections.filter_map(|section| section.split_once('\n'));
    named.filter(|(name, _)| name.starts_with(BEGINNING)).collect()
}

/// Words in backticks that look like settings.
fn settings(text: &str) -> impl Iterator<Item = &str> {
    let is_setting = |word: &&str| {
        word.contains('.')
            && word.split('.').all(|part| {
                !part.is_empty()
                    && part.chars().all(|c| c.is_ascii_lowercase() || "_0123456789".contains(c))
            })
    };
    text.split('`').skip(1).step_by(2).filter(is_setting)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [&str; 4] = [
        "groups: [{name: g, rules: [{alert: LogsvcA, expr: logsvc_a > 0, labels: {severity: warning}, \
         annotations: {summary: s, description: d, runbook_url: 'docs/runbooks.md#logsvca'}}]}]",
        "runbook_url: docs/runbooks.md#logsvca\n",
        "# R\n\n### LogsvcA\n\n**Meaning.** M. **Look at.** `x{a.b}` **Do.** Set `s.t`.\n",
        r#"{"properties": {"s": {"properties": {"t": {}}}}}"#,
    ];

    fn faults(place: usize, from: &str, to: &str) -> String {
        let mut texts = GOOD.map(str::to_owned);
        assert!(texts[place].contains(from), "{from}");
        texts[place] = texts[place].replace(from, to);
        let [rules, tests, runbooks, schema] = &texts;
        let texts = Texts { rules, tests, runbooks, schema };
        faults_of(&texts, &["logsvc_a".to_owned()].into()).unwrap().join("; ")
    }

    #[test]
    fn an_alert_lacks_nothing() {
        assert_eq!(faults(0, "", ""), "");
        for (place, from, to, fault) in [
            (0, "severity: warning", "severity: odd", "has no severity"),
            (0, "summary: s, ", "", "no summary"),
            (0, "#logsvca", "#logsvcb", "the runbook of LogsvcA is not"),
            (0, "logsvc_a > 0", "logsvc_b > 0", "asks for logsvc_b"),
            (1, "#logsvca", "#logsvcb", "no test in"),
            (2, "### LogsvcA", "### LogsvcB", "LogsvcA has no place"),
            (2, "### LogsvcA", "### LogsvcB", "about LogsvcB, which is no alert"),
            (2, "**Do.**", "", "lacks one of"),
            (2, "`s.t`", "`s.u`", "names s.u, which is no setting"),
        ] {
            let found = faults(place, from, to);
            assert!(found.contains(fault), "{fault}: {found}");
        }
    }
}
