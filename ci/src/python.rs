//! Tests in Python that start the built server beside other programs.
//!
//! They are skipped, with a message, where a program is missing, but never where `CI` is set. They
//! end in bounded time, and write nothing into the sources.

use crate::process::{run_within, succeeds_quietly};
use anyhow::{Result, bail};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Tests of one kind.
pub(crate) struct PythonTests<'t> {
    /// The command of this program that runs them.
    pub(crate) command: &'t str,
    /// The folder of the tests.
    pub(crate) folder: &'t str,
    /// The module of the tests.
    pub(crate) module: &'t str,
    /// Programs besides Python without which no test runs. All know `--version`.
    pub(crate) programs: &'t [&'t str],
    /// A program with arguments that runs the tests as its own arguments say; none: they run as they are.
    pub(crate) inside: &'t [&'t str],
    /// How long all tests may take.
    pub(crate) limit: Duration,
}

impl PythonTests<'_> {
    /// Runs the tests with a server, if all programs are there. Variables are for the tests.
    pub(crate) fn run(&self, binary: &Path, variables: &[(&str, OsString)]) -> Result<()> {
        if !binary.is_file() {
            bail!("{} is missing: cargo build --bin logsvc", binary.display());
        }
        for program in ["python3"].iter().chain(self.programs) {
            let mut version = Command::new(program);
            version.arg("--version");
            if !succeeds_quietly(version) {
                if std::env::var_os("CI").is_some() {
                    bail!("{}: there is no {program}", self.command);
                }
                println!("ci: {} skipped: there is no {program}", self.command);
                return Ok(());
            }
        }
        let plain = ["python3", "-m", "unittest", "-v", self.module];
        let mut words = self.inside.iter().chain(&plain).copied();
        let mut tests = Command::new(words.next().unwrap_or("python3"));
        tests.args(words).current_dir(self.folder);
        tests.env("LOGSVC_BINARY", std::path::absolute(binary)?);
        for (name, value) in variables {
            tests.env(name, value);
        }
        // What starts programs is that of the tests of rules.
        tests.env("PYTHONPATH", std::path::absolute("ci/rules")?);
        // The sources stay as they are.
        tests.env("PYTHONDONTWRITEBYTECODE", "1");
        run_within(tests, self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTS: PythonTests<'_> = PythonTests {
        command: "x",
        folder: ".",
        module: "unittest",
        programs: &[],
        inside: &[],
        limit: Duration::from_secs(10),
    };

    #[test]
    fn a_missing_server_is_an_error() {
        let error = TESTS.run(Path::new("no-such-binary"), &[]).unwrap_err();
        assert!(error.to_string().contains("cargo build"), "{error}");
    }
}
