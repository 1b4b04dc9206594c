//! Runs the rules of the built server with the real Prometheus and the real Alertmanager: alerts
//! have to arrive, samples too, and listings have to be those of Prometheus. The tests in `ci/rules`
//! start all programs on loopback.

use crate::python::PythonTests;
use anyhow::Result;
use std::path::Path;
use std::time::Duration;

const TESTS: PythonTests<'_> = PythonTests {
    command: "rules",
    folder: "ci/rules",
    module: "test_real_parts",
    programs: &["prometheus", "prometheus-alertmanager"],
    inside: &[],
    limit: Duration::from_secs(600),
};

/// Runs the tests.
pub(crate) fn check(binary: &Path) -> Result<()> {
    TESTS.run(binary, &[])
}
