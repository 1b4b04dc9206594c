//! What an operator gets beside the server: dashboards, alert rules and their runbooks.
//!
//! - [`check`] needs no server: dashboards are what their source says, and every query names metrics
//!   that the server has; every alert has what belongs to it; both know all routes of pushes;
//!   the page about Loki's mixin is true.
//! - [`run`] starts the built server under load, with faults, beside the real Prometheus. Its tests
//!   in `ci/operations` prove that metrics, rules and tests of rules are those that promtool takes,
//!   and that every panel and every metric of an alert has samples.

mod alerts;
mod dashboards;
mod mixin;
mod names;
mod pushes;

use crate::python::PythonTests;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::time::Duration;

const TESTS: PythonTests<'_> = PythonTests {
    command: "operations",
    folder: "ci/operations",
    module: "test_operations",
    programs: &["prometheus", "promtool"],
    inside: &[],
    limit: Duration::from_secs(300),
};

/// Makes the dashboards.
pub(crate) fn write_dashboards() -> Result<()> {
    dashboards::write()
}

/// Checks dashboards, alerts and runbooks.
pub(crate) fn check() -> Result<()> {
    let metrics = names::of_server()?;
    let dashboards = dashboards::all()?;
    let mut faults = dashboards::faults(&dashboards);
    let mut panels = 0;
    for dashboard in &dashboards {
        let path = dashboard.path.display();
        for query in dashboards::queries(&dashboard.text).with_context(|| path.to_string())? {
            panels += 1;
            let named = names::in_query(&query);
            if named.is_empty() {
                faults.push(format!("{path}: {query} names no metric"));
            }
            for metric in named.iter().filter(|metric| !names::has(&metrics, metric)) {
                faults.push(format!("{path} asks for {metric}, which the server has not"));
            }
        }
    }
    faults.extend(alerts::faults(&metrics)?);
    faults.extend(mixin::faults(&metrics)?);
    faults.extend(pushes::faults()?);
    if !faults.is_empty() {
        bail!("operations: {} faults\n  {}", faults.len(), faults.join("\n  "));
    }
    println!("ci: {panels} queries of dashboards and all alerts fit the server");
    Ok(())
}

/// Runs the tests with a server, if all programs are there.
pub(crate) fn run(binary: &Path) -> Result<()> {
    let variables = [
        ("LOGSVC_RULES", alerts::RULES),
        ("LOGSVC_RULES_TEST", alerts::TESTS),
        ("LOGSVC_DASHBOARDS", dashboards::FOLDER),
        ("LOGSVC_MIXIN", mixin::PAGE),
    ];
    let mut absolute = Vec::new();
    for (name, path) in variables {
        absolute.push((name, std::path::absolute(path)?.into_os_string()));
    }
    TESTS.run(binary, &absolute)
}
