//! Runs Debian's real senders against the built server: rsyslog, syslog-ng, busybox, `logger` and
//! `systemd-journal-upload`. What they send has to be found again.
//!
//! The tests in `ci/senders` start all programs on loopback, with files in a temporary folder. A
//! sender that is missing is skipped by its test, with a line, but never where `CI` is set. Packages
//! that cannot be installed beside others may be unpacked into the folder `senders` of the target
//! folder, as `.ci/run` does.

use crate::process::target_folder;
use crate::python::PythonTests;
use anyhow::Result;
use std::path::Path;
use std::time::Duration;

const TESTS: PythonTests<'_> = PythonTests {
    command: "senders",
    folder: "ci/senders",
    module: "test_senders",
    programs: &[],
    inside: &[],
    limit: Duration::from_secs(60),
};

/// Runs the tests.
pub(crate) fn check(binary: &Path) -> Result<()> {
    let unpacked = std::path::absolute(target_folder().join("senders"))?;
    let variables = unpacked.is_dir().then(|| ("LOGSVC_SENDERS", unpacked.into_os_string()));
    TESTS.run(binary, variables.as_slice())
}
