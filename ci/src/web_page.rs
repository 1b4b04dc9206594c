//! The web page: its types, its unit tests, whether `ui/dist` is what `ui/src` makes, its size, and
//! its tests in Debian's Chromium against the built server.
//!
//! It is skipped, with a message, where Node, its registry or Chromium is missing, but never where
//! `CI` is set.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::installed::{Installed, install_npm, npm};
use crate::process::{run_within, succeeds_quietly};

/// The sources.
const SOURCES: &str = "ui";
/// How long the tests in the browser may take.
const BROWSER_LIMIT: Duration = Duration::from_secs(900);
/// How long any other step may take.
const STEP_LIMIT: Duration = Duration::from_secs(180);

/// See the module.
pub(crate) fn check(binary: &Path) -> Result<()> {
    ensure!(binary.is_file(), "{} is missing: cargo build --bin logsvc", binary.display());
    let binary = std::path::absolute(binary)?;
    let folder = std::path::absolute(SOURCES)?;
    if let Some(missing) = missing(&folder)? {
        ensure!(std::env::var_os("CI").is_none(), "the web page cannot be tested: {missing}");
        println!("ci: tests of the web page skipped: {missing}");
        return Ok(());
    }
    for step in ["check", "unit", "check-same", "check-sizes", "browser"] {
        println!("ci: npm run {step}");
        let mut run = npm(&folder);
        run.args(["run", "--silent", step]).env("LOGSVC", &binary);
        run_within(run, if step == "browser" { BROWSER_LIMIT } else { STEP_LIMIT })?;
    }
    Ok(())
}

/// Installs the packages of the page. Says what keeps the tests from running, if something does.
fn missing(folder: &Path) -> Result<Option<&'static str>> {
    for (program, text) in [("node", "there is no node"), ("npm", "there is no npm")] {
        let mut version = Command::new(program);
        version.arg("--version");
        if !succeeds_quietly(version) {
            return Ok(Some(text));
        }
    }
    let chromium = std::env::var_os("CHROMIUM").unwrap_or_else(|| "/usr/bin/chromium".into());
    if !Path::new(&chromium).exists() {
        return Ok(Some("there is no chromium"));
    }
    let installed = Installed::of(&folder.join("node_modules"), &folder.join("package-lock.json"))?;
    if installed.is_current {
        return Ok(None);
    }
    let mut probe = npm(folder);
    probe.args(["view", "preact", "version", "--fetch-retries=1", "--fetch-timeout=10000"]);
    if !succeeds_quietly(probe) {
        return Ok(Some("no registry answers"));
    }
    install_npm(folder)?;
    installed.remember()?;
    Ok(None)
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
