//! Runs other programs: cargo, with its output passed through, git, and tests that may hang.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The cargo that runs this command, or the one on the path.
pub(crate) fn cargo_command() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs cargo; an error if it does not succeed.
pub(crate) fn cargo(args: &[&str]) -> Result<()> {
    println!("ci: cargo {}", args.join(" "));
    let status = cargo_command().args(args).status().context("starting cargo")?;
    if !status.success() {
        bail!("cargo {} failed ({status})", args.join(" "));
    }
    Ok(())
}

/// The output of a program; an error, with its complaints, if it does not succeed.
pub(crate) fn output(mut command: Command) -> Result<String> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("output of {command:?}"))
}

/// Paths of all files that git knows or would take, without ignored ones, so that a check sees a
/// file before it is committed. Relative to the root, which is the current folder.
pub(crate) fn repository_files() -> Result<Vec<String>> {
    let mut command = Command::new("git");
    command.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let mut files: Vec<String> = output(command)?.split('\0').map(str::to_owned).collect();
    // Files that are removed but not committed yet are gone.
    files.retain(|name| !name.is_empty() && Path::new(name).is_file());
    Ok(files)
}

/// The folder of the workspace's `Cargo.toml`, from wherever the command runs.
pub(crate) fn workspace_root() -> Result<PathBuf> {
    let mut command = cargo_command();
    command.args(["locate-project", "--workspace", "--message-format", "plain"]);
    let manifest = PathBuf::from(output(command)?.trim());
    let folder = manifest.parent().with_context(|| format!("{manifest:?} has no folder"))?;
    Ok(folder.to_owned())
}

/// The target folder of cargo.
pub(crate) fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from)
}

/// Whether a program can be run and ends well. Its output is not shown.
pub(crate) fn succeeds_quietly(mut command: Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Runs a program to its end and shows its output; an error if it does not succeed, or not in time.
pub(crate) fn run_within(mut command: Command, limit: Duration) -> Result<()> {
    let name = command.get_program().display().to_string();
    let mut child =
        command.stdin(Stdio::null()).spawn().with_context(|| format!("starting {name}"))?;
    let end = Instant::now() + limit;
    loop {
        match child.try_wait().with_context(|| format!("waiting for {name}"))? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => bail!("{name} failed ({status})"),
            None if Instant::now() > end => {
                child.kill().with_context(|| format!("ending {name}"))?;
                child.wait().with_context(|| format!("waiting for {name}"))?;
                bail!("{name} took longer than {} s", limit.as_secs());
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_program_that_fails_or_hangs_is_an_error() {
        let minute = Duration::from_secs(60);
        run_within(shell("exit 0"), minute).unwrap();
        let error = run_within(shell("exit 3"), minute).unwrap_err();
        assert!(error.to_string().contains("sh failed"), "{error}");
        let error = run_within(shell("exec sleep 60"), Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("longer than 0 s"), "{error}");
        assert!(run_within(Command::new("no-such-program"), minute).is_err());
    }

    #[test]
    fn probes_tell_success() {
        assert!(succeeds_quietly(shell("echo shown nowhere")));
        assert!(!succeeds_quietly(shell("exit 1")));
        assert!(!succeeds_quietly(Command::new("no-such-program")));
    }
}
