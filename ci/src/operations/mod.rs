//! What an operator gets beside the server: dashboards, alert rules and their runbooks.
//!
//! - [`check`] needs no server: dashboards are what their source says, and every query names metrics
//!   that the server has; every alert has what belongs to it;
//!   the page about Loki's mixin is true.
//! - [`run`] starts the built server under load, with faults, beside the real Prometheus. Its tests
//!   in `ci/operations` prove that metrics, rules and tests of rules are those that promtool takes,
//!   and that every panel and every metric of an alert has samples.

mod alerts;
mod dashboards;
mod mixin;
mod names;

use crate::process::{run_within, succeeds_quietly};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The tests.
const SOURCES: &str = "ci/operations";
/// The programs that the tests start.
const PROGRAMS: [&str; 3] = ["python3", "prometheus", "promtool"];
/// How long the tests may take.
const TEST_LIMIT: Duration = Duration::from_secs(300);

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
    if !faults.is_empty() {
        bail!("operations: {} faults\n  {}", faults.len(), faults.join("\n  "));
    }
    println!("ci: {panels} queries of dashboards and all alerts fit the server");
    Ok(())
}

/// Runs the tests with a server, if all programs are there.
pub(crate) fn run(binary: &Path) -> Result<()> {
    if !binary.is_file() {
        bail!("{} is missing: cargo build --bin logsvc", binary.display());
    }
    for program in PROGRAMS {
        let mut version = Command::new(program);
        version.arg("--version");
        if !succeeds_quietly(version) {
            if std::env::var_os("CI").is_some() {
                bail!("operations: there is no {program}");
            }
            println!("ci: dashboards and alerts beside a server skipped: there is no {program}");
            return Ok(());
        }
    }
    let mut tests = Command::new("python3");
    tests.args(["-m", "unittest", "-v", "test_operations"]).current_dir(SOURCES);
    tests.env("LOGSVC_BINARY", std::path::absolute(binary)?);
    tests.env("LOGSVC_RULES", std::path::absolute(alerts::RULES)?);
    tests.env("LOGSVC_RULES_TEST", std::path::absolute(alerts::TESTS)?);
    tests.env("LOGSVC_DASHBOARDS", std::path::absolute(dashboards::FOLDER)?);
    tests.env("LOGSVC_MIXIN", std::path::absolute(mixin::PAGE)?);
    // What starts programs is that of the tests of rules.
    tests.env("PYTHONPATH", std::path::absolute("ci/rules")?);
    // The sources stay as they are.
    tests.env("PYTHONDONTWRITEBYTECODE", "1");
    run_within(tests, TEST_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_server_is_an_error() {
        let error = run(Path::new("no-such-binary")).unwrap_err();
        assert!(error.to_string().contains("cargo build"), "{error}");
    }
}
