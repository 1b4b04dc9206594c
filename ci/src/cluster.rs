//! Runs three nodes of the built server against SeaweedFS in a network of their own, with all kinds of
//! trouble. The tests in `ci/cluster` make the network of namespaces, which need the rights of root; it
//! is gone when they end.
//!
//! The tests are skipped, with a message, where such a network cannot be made: that is up to the kernel
//! and its owner. Where SeaweedFS cannot be had they are skipped, too, but not with `CI=true`.
//!
//! `LOGSVC_ROUNDS` and `LOGSVC_KILLS` in the environment ask for further rounds and kills at random, which
//! `LOGSVC_SEED` chooses.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::python::PythonTests;
use crate::{buckets, process};

/// Who runs the tests has a network and mounts of its own.
const APART: [&str; 3] = ["unshare", "--net", "--mount"];

/// Moves the time of day of one node. Debian's package `libfaketime` has it.
const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

/// What every run takes at most, and each round at random.
const LIMIT: Duration = Duration::from_secs(900);
const ROUND_LIMIT: Duration = Duration::from_secs(120);
const KILL_LIMIT: Duration = Duration::from_secs(40);

/// Runs the tests.
pub(crate) fn check(binary: &Path) -> Result<()> {
    let mut network = Command::new(APART[0]);
    network.args(&APART[1..]).args(["sh", "-c"]);
    network.arg("ip link add hub0 type bridge && ip link add left type veth peer name right");
    if !process::succeeds_quietly(network) {
        println!("ci: cluster skipped: no network can be made here");
        return Ok(());
    }
    let Some(python) = buckets::python()? else {
        if std::env::var_os("CI").is_some_and(|ci| ci == "true") {
            bail!("cluster: SeaweedFS cannot be had");
        }
        return Ok(());
    };
    let weed = python.parent().context("a program without a folder")?.join("weed");
    let mut variables = vec![("LOGSVC_WEED", weed.into_os_string())];
    if Path::new(FAKETIME).exists() {
        variables.push(("LOGSVC_FAKETIME", OsString::from(FAKETIME)));
    } else {
        println!("ci: cluster: all clocks are the same, there is no {FAKETIME}");
    }
    let (rounds, kills) = (number("LOGSVC_ROUNDS")?, number("LOGSVC_KILLS")?);
    let tests = PythonTests {
        command: "cluster",
        folder: "ci/cluster",
        module: "test_cluster",
        programs: &[],
        inside: &APART,
        limit: LIMIT + ROUND_LIMIT * rounds + KILL_LIMIT * kills,
    };
    tests.run(binary, &variables)
}

/// The number that a variable of the environment has, 0 if it is not there.
fn number(name: &str) -> Result<u32> {
    match std::env::var(name) {
        Ok(text) => text.parse().with_context(|| format!("{name} is no number")),
        Err(_) => Ok(0),
    }
}
