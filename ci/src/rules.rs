//! Runs the rules of the built server with the real Prometheus and the real Alertmanager: alerts
//! have to arrive, samples too, and listings have to be those of Prometheus.
//!
//! The tests in `ci/rules` start all programs on loopback. The check is skipped, with a message,
//! where a program is missing, but never where `CI` is set.

use crate::process::{run_within, succeeds_quietly};
use anyhow::{Result, bail};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The tests.
const SOURCES: &str = "ci/rules";
/// The programs that the tests start.
const PROGRAMS: [&str; 3] = ["python3", "prometheus", "prometheus-alertmanager"];
/// How long the tests may take.
const TEST_LIMIT: Duration = Duration::from_secs(600);

/// Runs the tests, if all programs are there.
pub(crate) fn check(binary: &Path) -> Result<()> {
    if !binary.is_file() {
        bail!("{} is missing: cargo build --bin logsvc", binary.display());
    }
    for program in PROGRAMS {
        let mut version = Command::new(program);
        version.arg("--version");
        if !succeeds_quietly(version) {
            if std::env::var_os("CI").is_some() {
                bail!("rules: there is no {program}");
            }
            println!("ci: rules with real parts skipped: there is no {program}");
            return Ok(());
        }
    }
    let mut tests = Command::new("python3");
    tests.args(["-m", "unittest", "-v", "test_real_parts"]).current_dir(SOURCES);
    tests.env("LOGSVC_BINARY", std::path::absolute(binary)?);
    // The sources stay as they are.
    tests.env("PYTHONDONTWRITEBYTECODE", "1");
    run_within(tests, TEST_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_server_is_an_error() {
        let error = check(Path::new("no-such-binary")).unwrap_err();
        assert!(error.to_string().contains("cargo build"), "{error}");
    }
}
