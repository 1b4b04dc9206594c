//! Routes of pushes: the dashboards and the alerts about pushes name all that the server has.

use super::{alerts, dashboards};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeSet;

/// The table of routes.
const ROUTES: &str = "server/src/front/routes.rs";
/// An upload of a journal lasts as long as the journal grows, and an import as long as its file.
const LONG: [&str; 2] = ["loki_api_v1_import", "upload"];
/// Alerts about pushes, alerts about everything else, and whether they are about durations.
const ALERTS: [(&str, bool); 3] =
    [("LogsvcPushesFail", false), ("LogsvcRequestsFail", false), ("LogsvcPushesSlow", true)];

/// Expressions that lack a route, or have one that is no push.
pub(super) fn faults() -> Result<Vec<String>> {
    let read = |name| std::fs::read_to_string(name).with_context(|| format!("reading {name}"));
    let routes = routes(&read(ROUTES)?)?;
    let source: Value = serde_saphyr::from_str(&read(dashboards::SOURCE)?)?;
    let selector = source["selectors"]["pushes"].as_str().context("no selector of pushes")?;
    let mut faults = faults_of("selectors.pushes", selector, &routes);
    let rules: Value = serde_saphyr::from_str(&read(alerts::RULES)?)?;
    let groups = rules["groups"].as_array().context("no groups")?;
    let rules: Vec<&Value> =
        groups.iter().filter_map(|group| group["rules"].as_array()).flatten().collect();
    for (alert, is_slow) in ALERTS {
        let rule = rules.iter().find(|rule| rule["alert"] == alert).context(alert)?;
        let mut expected = routes.clone();
        if is_slow {
            expected.retain(|route| !LONG.contains(&route.as_str()));
        }
        faults.extend(faults_of(alert, rule["expr"].as_str().context(alert)?, &expected));
    }
    Ok(faults)
}

/// The names that routes of pushes have in metrics.
fn routes(table: &str) -> Result<BTreeSet<String>> {
    let rows = table.split("\n        => ");
    // A row ends with its traits, before the handler.
    let pushes = rows.filter(|row| {
        let traits = row.trim_end().rsplit(['\n', ']']).next().unwrap_or_default();
        traits.contains("PUSH")
    });
    let name = |row: &str| {
        let (_, rest) = row.rsplit_once(';').unwrap_or(("", row));
        rest.split('"').nth(1).map(str::to_owned)
    };
    let names: BTreeSet<String> = pushes.filter_map(name).collect();
    if names.is_empty() {
        bail!("{ROUTES} has no routes of pushes");
    }
    Ok(names)
}

fn faults_of(place: &str, expression: &str, expected: &BTreeSet<String>) -> Vec<String> {
    let mut faults = Vec::new();
    for list in expression.split("route").skip(1).filter_map(|text| text.split('"').nth(1)) {
        // Besides pushes, probes are left out of the alert about requests.
        let named: BTreeSet<String> =
            list.split('|').filter(|name| *name != "ready").map(str::to_owned).collect();
        if !list.contains('|') || named == *expected {
            continue;
        }
        let differ: Vec<&str> = named.symmetric_difference(expected).map(String::as_str).collect();
        faults.push(format!("{place} and the routes of pushes differ: {}", differ.join(", ")));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "
    Push \"push\" POST [\"/push\"] (PUSH)
        => front.push(request).await;
    Upload \"upload\" POST
        [\"/upload\"]
        (PUSH.streamed())
        => front.upload(request).await;
    Bulk \"bulk\" POST [\"/_bulk\"] (ELASTIC_PUSH)
        => front.bulk(request, \"\").await;
    Query \"query\" GET [\"/query\"] (QUERY)
        => front.query(request).await;
";

    #[test]
    fn routes_of_pushes_are_found() {
        let names: Vec<String> = routes(TABLE).unwrap().into_iter().collect();
        assert_eq!(names, ["bulk", "push", "upload"]);
        assert!(routes("").is_err());
    }

    #[test]
    fn what_is_missing_or_too_much_is_named() {
        let expected = routes(TABLE).unwrap();
        let good =
            r#"sum by (route) (x{route!~"push|bulk|upload|ready"}) / y{route=~"upload|push|bulk"}"#;
        assert!(faults_of("x", good, &expected).is_empty());
        let bad = r#"x{route=~"push|query|upload"}"#;
        let faults = faults_of("x", bad, &expected);
        assert_eq!(faults, ["x and the routes of pushes differ: bulk, query"]);
    }
}
