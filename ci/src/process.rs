//! Runs other programs: cargo, with its output passed through, and git.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

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
