//! The dashboards of Grafana, made from one short file.
//!
//! Guarantees: the same source gives the same bytes, and [`faults`] finds files that are not what
//! the source says. A source that lacks something is an error that names the dashboard.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The folder of the dashboards.
pub(super) const FOLDER: &str = "deploy/grafana";
/// What they are made from.
pub(super) const SOURCE: &str = "deploy/grafana/dashboards.yaml";
/// Metrics by which Grafana finds jobs and instances.
const FINDS_NODES: &str = "logsvc_ready";
/// Columns of a dashboard.
const WIDTH: u64 = 24;
/// Columns and lines of a graph, and of a number.
const GRAPH: (u64, u64) = (8, 8);
const STAT: (u64, u64) = (4, 4);

/// A dashboard as it is written.
pub(super) struct Dashboard {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// All dashboards, as the source in the repository has them.
pub(super) fn all() -> Result<Vec<Dashboard>> {
    let text = std::fs::read_to_string(SOURCE).with_context(|| format!("reading {SOURCE}"))?;
    made(&text)
}

/// Writes all dashboards.
pub(super) fn write() -> Result<()> {
    for dashboard in all()? {
        std::fs::write(&dashboard.path, dashboard.text)
            .with_context(|| format!("writing {}", dashboard.path.display()))?;
    }
    Ok(())
}

/// Files that are not what the source says.
pub(super) fn faults(dashboards: &[Dashboard]) -> Vec<String> {
    let differs =
        |d: &&Dashboard| std::fs::read_to_string(&d.path).ok().as_deref() != Some(d.text.as_str());
    let fault = |d: &Dashboard| {
        let path = d.path.display();
        format!("{path} is not what {SOURCE} says: cargo run -p logsvc-ci -- dashboards")
    };
    dashboards.iter().filter(differs).map(fault).collect()
}

/// The queries of a dashboard's text.
pub(super) fn queries(text: &str) -> Result<Vec<String>> {
    let dashboard: Value = serde_json::from_str(text)?;
    let panels = dashboard["panels"].as_array().context("no panels")?;
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    targets.map(|target| Ok(target["expr"].as_str().context("no query")?.to_owned())).collect()
}

fn made(source: &str) -> Result<Vec<Dashboard>> {
    let source: Value = serde_saphyr::from_str(source).context("the source is no YAML")?;
    let selectors = source["selectors"].as_object().context("no selectors")?;
    let selectors: Vec<(String, &str)> = selectors
        .iter()
        .map(|(name, text)| Ok((format!("${name}"), text.as_str().context("no selector")?)))
        .collect::<Result<_>>()?;
    let dashboards = source["dashboards"].as_array().context("no dashboards")?;
    let made = dashboards.iter().map(|dashboard| {
        let name = text_of(dashboard, "name")?;
        let value =
            one(dashboard, name, &selectors).with_context(|| format!("dashboard {name}"))?;
        let path = Path::new(FOLDER).join(format!("{name}.json"));
        Ok(Dashboard { path, text: serde_json::to_string_pretty(&value)? + "\n" })
    });
    made.collect()
}

fn text_of<'v>(value: &'v Value, key: &str) -> Result<&'v str> {
    value[key].as_str().with_context(|| format!("no {key} in {value}"))
}

fn filled(text: &str, selectors: &[(String, &str)]) -> String {
    let fill = |text: String, (name, selector): &(String, &str)| text.replace(name, selector);
    selectors.iter().fold(text.to_owned(), fill)
}

fn source_of_data() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

fn variable(name: &str, query: &str) -> Value {
    json!({
        "name": name, "type": "query", "datasource": source_of_data(),
        "definition": query, "query": {"query": query, "refId": name},
        "includeAll": true, "multi": true, "allValue": ".+", "refresh": 2, "sort": 1,
        "current": {"selected": true, "text": ["All"], "value": ["$__all"]},
    })
}

/// A number that people type in, such as a price.
fn typed(name: &str, source: &Value) -> Result<Value> {
    let value = text_of(source, "value")?;
    Ok(json!({
        "name": name, "label": text_of(source, "label")?, "type": "textbox", "query": value,
        "current": {"selected": true, "text": value, "value": value},
    }))
}

fn one(source: &Value, name: &str, selectors: &[(String, &str)]) -> Result<Value> {
    let mut variables = vec![
        json!({"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}),
        variable("job", &format!("label_values({FINDS_NODES}, job)")),
        variable("instance", &format!("label_values({FINDS_NODES}{{job=~\"$job\"}}, instance)")),
    ];
    for (name, query) in source["variables"].as_object().into_iter().flatten() {
        let query = query.as_str().context("a variable is a query")?;
        variables.push(variable(name, &filled(query, selectors)));
    }
    for (name, source) in source["typed"].as_object().into_iter().flatten() {
        variables.push(typed(name, source)?);
    }
    let mut panels = Vec::new();
    let mut top = 0;
    for row in source["rows"].as_array().context("no rows")? {
        panels.push(json!({
            "id": panels.len() + 1, "type": "row", "title": text_of(row, "row")?,
            "collapsed": false, "panels": [], "gridPos": place((0, top), (WIDTH, 1)),
        }));
        top += 1;
        let (mut left, mut height) = (0, 0);
        for source in row["panels"].as_array().context("no panels")? {
            let size = if source["kind"] == "stat" { STAT } else { GRAPH };
            if left + size.0 > WIDTH {
                (left, top, height) = (0, top + height, 0);
            }
            let at = place((left, top), size);
            panels.push(panel(source, panels.len() + 1, at, selectors)?);
            left += size.0;
            height = height.max(size.1);
        }
        top += height;
    }
    Ok(json!({
        "uid": format!("logsvc-{name}"), "title": text_of(source, "title")?,
        "description": text_of(source, "about")?, "tags": ["logsvc"],
        "schemaVersion": 38, "version": 1, "editable": true, "graphTooltip": 1,
        "refresh": "30s", "time": {"from": "now-3h", "to": "now"}, "timezone": "browser",
        "links": [{
            "type": "dashboards", "title": "logsvc", "tags": ["logsvc"], "asDropdown": true,
            "includeVars": true, "keepTime": true,
        }],
        "templating": {"list": variables}, "panels": panels,
    }))
}

fn place((x, y): (u64, u64), (w, h): (u64, u64)) -> Value {
    json!({"x": x, "y": y, "w": w, "h": h})
}

fn panel(source: &Value, id: usize, at: Value, selectors: &[(String, &str)]) -> Result<Value> {
    let is_stat = source["kind"] == "stat";
    let queries = source["queries"].as_object().context("a panel without queries")?;
    let target = |(place, (legend, query)): (u8, (&String, &Value))| {
        let query = query.as_str().with_context(|| format!("{legend} has no query"))?;
        Ok(json!({
            "refId": char::from(b'A' + place).to_string(), "datasource": source_of_data(),
            "expr": filled(query, selectors), "legendFormat": legend,
            "instant": is_stat, "range": !is_stat,
        }))
    };
    let targets: Vec<Value> = (0..26).zip(queries).map(target).collect::<Result<_>>()?;
    let mut defaults = json!({"unit": text_of(source, "unit")?});
    let options = if is_stat {
        let shows = source["shows"].as_str().unwrap_or("value");
        let steps = source["steps"].as_object();
        let mut steps: Vec<Value> = steps
            .into_iter()
            .flatten()
            .map(|(color, from)| json!({"color": color, "value": from}))
            .collect();
        steps
            .sort_by(|a, b| a["value"].as_f64().partial_cmp(&b["value"].as_f64()).expect("no NaN"));
        if !steps.is_empty() {
            defaults["thresholds"] = json!({"mode": "absolute", "steps": steps});
        }
        json!({"textMode": shows, "reduceOptions": {"calcs": ["lastNotNull"]}})
    } else {
        defaults["min"] = json!(0);
        defaults["custom"] = json!({"fillOpacity": 10, "showPoints": "never"});
        json!({
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        })
    };
    let mut panel = json!({
        "id": id, "type": if is_stat { "stat" } else { "timeseries" },
        "title": text_of(source, "title")?, "datasource": source_of_data(), "gridPos": at,
        "fieldConfig": {"defaults": defaults, "overrides": []}, "options": options,
        "targets": targets,
    });
    if let Some(about) = source["about"].as_str() {
        panel["description"] = json!(about);
    }
    Ok(panel)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
selectors: {node: 'job=~"$job"'}
dashboards:
- name: a
  title: A
  about: All.
  variables: {tenant: 'label_values(x{$node}, tenant)'}
  typed: {price: {label: Price, value: '0.5'}}
  rows:
  - row: One
    panels:
    - {title: S, kind: stat, unit: none, steps: {red: 2, green: null}, queries: {l: 'up{$node}'}}
    - {title: T, about: More., unit: s, queries: {b: 'y{$node, c="d"}', a: z}}
  - row: Two
    panels: [{title: U, unit: s, queries: {a: z}}]
"#;

    #[test]
    fn a_dashboard_follows_its_source() {
        let dashboards = made(SOURCE).unwrap();
        assert_eq!(dashboards[0].path, Path::new("deploy/grafana/a.json"));
        let queries = queries(&dashboards[0].text).unwrap();
        assert_eq!(queries, [r#"up{job=~"$job"}"#, "z", r#"y{job=~"$job", c="d"}"#, "z"]);
        let value: Value = serde_json::from_str(&dashboards[0].text).unwrap();
        let steps = &value["panels"][1]["fieldConfig"]["defaults"]["thresholds"]["steps"];
        assert_eq!(steps[1], json!({"color": "red", "value": 2}));
        let variables = value["templating"]["list"].as_array().unwrap();
        assert_eq!(variables[3]["definition"], r#"label_values(x{job=~"$job"}, tenant)"#);
        assert_eq!(
            (&variables[4]["name"], &variables[4]["query"]),
            (&json!("price"), &json!("0.5"))
        );
        let places: Vec<String> = (0..5)
            .map(|panel| {
                let at = &value["panels"][panel]["gridPos"];
                format!("{},{} {}x{}", at["x"], at["y"], at["w"], at["h"])
            })
            .collect();
        assert_eq!(places, ["0,0 24x1", "0,1 4x4", "4,1 8x8", "0,9 24x1", "0,10 8x8"]);
    }

    #[test]
    fn what_is_missing_and_what_differs_is_named() {
        let error = made(&SOURCE.replace("unit: s, ", "")).err().unwrap();
        assert!(format!("{error:#}").contains("dashboard a: no unit"), "{error:#}");
        let absent = Dashboard { path: "no/such.json".into(), text: String::new() };
        assert!(faults(&[absent])[0].starts_with("no/such.json is not what"));
    }
}
