//! Runs real clients of the API against the built server: clients of the package registries of
//! Python and Node, pinned in `ci/clients`. Their tests push entries and find them again.
//!
//! A language is skipped, with a message, where it or its registry is missing. Everything else
//! that goes wrong is a failure, and the check shows the server's log. Installed clients stay in
//! the target folder until the list of clients changes.

use crate::installed::{INSTALL_LIMIT, Installed, install_npm, npm, remove};
use crate::process::{self, run_within, succeeds_quietly};
use crate::server::{DataFolder, Server, free_ports};
use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The tests and the lists of clients.
const SOURCES: &str = "ci/clients";
/// How long the tests of one language may take.
const TEST_LIMIT: Duration = Duration::from_secs(120);
/// Set to the server's address for the tests.
const URL_VARIABLE: &str = "LOGSVC_URL";

/// Installs the clients of both languages and runs their tests on one server.
pub(crate) fn check(binary: &Path) -> Result<()> {
    if !binary.is_file() {
        bail!("{} is missing: cargo build --bin logsvc", binary.display());
    }
    let sources = std::path::absolute(SOURCES)?;
    let home = std::path::absolute(process::target_folder().join("clients"))?;
    let prepared = [prepare_python(&sources, &home)?, prepare_node(&sources, &home)?];
    let tests: Vec<Command> = prepared.into_iter().flatten().collect();
    if tests.is_empty() {
        return Ok(());
    }
    let data = DataFolder::create("clients")?;
    let port = free_ports()?.0;
    let port_text = port.to_string();
    let arguments = [
        "--server.http-listen-address",
        "127.0.0.1",
        "--server.http-listen-port",
        &port_text,
        "--cores",
        "2",
    ];
    let mut server = Server::start(binary, &arguments.map(OsStr::new), &data.0)?;
    let outcome = run_tests(&mut server, port, tests);
    if outcome.is_err() {
        server.show_log();
    }
    outcome
}

/// Runs all tests, even after some have failed, and stops the server.
fn run_tests(server: &mut Server, port: u16, tests: Vec<Command>) -> Result<()> {
    server.wait_until_listening(port)?;
    let mut failed = Vec::new();
    for mut test in tests {
        test.env(URL_VARIABLE, format!("http://127.0.0.1:{port}"));
        println!("ci: {}", test.get_program().display());
        if let Err(error) = run_within(test, TEST_LIMIT) {
            failed.push(format!("{error:#}"));
        }
    }
    server.stop()?;
    if server.log()?.contains("panicked") {
        failed.push("the server's log tells of a panic".to_owned());
    }
    if !failed.is_empty() {
        bail!("clients: {}", failed.join("; "));
    }
    Ok(())
}

/// The tests of Python clients, or none where they cannot be installed.
fn prepare_python(sources: &Path, home: &Path) -> Result<Option<Command>> {
    let list = sources.join("requirements.txt");
    let Some(python) = prepare_venv(&home.join("python"), &list)? else { return Ok(None) };
    let mut test = Command::new(python);
    test.args(["-m", "unittest", "-v", "test_python_clients"]);
    // The sources stay as they are.
    test.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(sources);
    Ok(Some(test))
}

/// The Python of an environment with the packages of a list, or none where they cannot be
/// installed.
pub(crate) fn prepare_venv(environment: &Path, list: &Path) -> Result<Option<PathBuf>> {
    let mut has_venv = Command::new("python3");
    has_venv.args(["-c", "import venv, ensurepip"]);
    if !succeeds_quietly(has_venv) {
        println!("ci: Python packages skipped: there is no python3 with venv");
        return Ok(None);
    }
    let python = environment.join("bin/python");
    let installed = Installed::of(environment, list)?;
    if !installed.is_current {
        remove(environment)?;
        let mut make = Command::new("python3");
        make.args(["-m", "venv"]).arg(environment);
        run_within(make, INSTALL_LIMIT)?;
        let pip = |arguments: &[&str]| {
            let mut pip = Command::new(&python);
            pip.args(["-m", "pip", "--disable-pip-version-check", "--quiet"]).args(arguments);
            pip
        };
        let first = first_requirement(&installed.list)?;
        let mut probe = pip(&["--retries", "1", "--timeout", "10", "download", "--no-deps"]);
        probe.arg("--dest").arg(environment.join("probe")).arg(first);
        if !succeeds_quietly(probe) {
            println!("ci: Python packages skipped: {first} cannot be had from a registry");
            return Ok(None);
        }
        let mut install = pip(&["install", "--no-deps", "--requirement"]);
        install.arg(list);
        run_within(install, INSTALL_LIMIT)?;
        installed.remember()?;
    }
    Ok(Some(python))
}

/// The tests of Node clients, or none where they cannot be installed.
fn prepare_node(sources: &Path, home: &Path) -> Result<Option<Command>> {
    let folder = home.join("node");
    if !prepare_node_folder(&folder, sources, "ws")? {
        return Ok(None);
    }
    // Node looks for packages beside the file that imports them.
    let test_name = "node_clients.test.mjs";
    for name in [test_name, "server_under_test.mjs"] {
        copy(sources, &folder, name)?;
    }
    let mut test = Command::new("node");
    test.args(["--test", "--test-reporter=spec", test_name]).current_dir(&folder);
    Ok(Some(test))
}

/// Installs packages into a folder, one of which is `probed`: those that the lock file in `sources`
/// lists, or without one those of `package.json`, as of the day in `.npmrc`. False where they cannot
/// be installed.
pub(crate) fn prepare_node_folder(folder: &Path, sources: &Path, probed: &str) -> Result<bool> {
    for program in ["node", "npm"] {
        let mut version = Command::new(program);
        version.arg("--version");
        if !succeeds_quietly(version) {
            println!("ci: Node packages skipped: there is no {program}");
            return Ok(false);
        }
    }
    let lock = "package-lock.json";
    let (list, second) = if sources.join(lock).exists() {
        (lock, "package.json")
    } else {
        ("package.json", ".npmrc")
    };
    let installed = Installed::of(folder, &sources.join(list))?;
    if !installed.is_current {
        remove(folder)?;
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        for name in [list, second] {
            copy(sources, folder, name)?;
        }
        let mut probe = npm(folder);
        probe.args(["view", probed, "version", "--fetch-retries=1", "--fetch-timeout=10000"]);
        if !succeeds_quietly(probe) {
            println!("ci: Node packages skipped: no registry answers");
            return Ok(false);
        }
        install_npm(folder)?;
        installed.remember()?;
    }
    Ok(true)
}

fn first_requirement(list: &str) -> Result<&str> {
    let mut lines = list.lines().map(str::trim);
    lines.find(|line| line.contains("==")).context("requirements.txt names no package")
}

fn copy(from: &Path, to: &Path, name: &str) -> Result<()> {
    let copied = std::fs::copy(from.join(name), to.join(name));
    copied.with_context(|| format!("copying {name} to {}", to.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_requirement_is_a_package() {
        assert_eq!(first_requirement("# clients\na==1\n").unwrap(), "a==1");
        assert!(first_requirement("# nothing\n").is_err());
    }

    #[test]
    fn a_missing_server_is_an_error() {
        let error = check(Path::new("no-such-binary")).unwrap_err();
        assert!(error.to_string().contains("cargo build"), "{error}");
    }
}
