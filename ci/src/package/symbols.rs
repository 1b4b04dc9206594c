//! Debug information in a file beside the binary.
//!
//! Debuggers find the file by the link in the binary, or by its build id. Addresses of backtraces
//! in logs are resolved with it (`addr2line -e`).

use super::read;
use crate::process::{output, run_within};
use anyhow::{Context, Result, bail};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

/// Writes the debug information of `binary` to `out/name`, and gives the program without it. Both
/// paths are absolute.
pub(super) fn split(binary: &Path, out: &Path, name: &str) -> Result<Vec<u8>> {
    let objcopy = |args: &[&str], files: &[&Path]| {
        let mut command = Command::new("objcopy");
        command.args(args).args(files).current_dir(out);
        run_within(command, LIMIT)
    };
    let stripped = out.join("logsvc.stripped");
    objcopy(&["--only-keep-debug"], &[binary, Path::new(name)])?;
    // The link holds the name and a checksum of the file, so that file comes first.
    let link = format!("--add-gnu-debuglink={name}");
    objcopy(&["--strip-all", &link], &[binary, &stripped])?;
    let sections = |file: &Path| {
        let mut command = Command::new("objdump");
        command.arg("-h").arg(file);
        output(command)
    };
    if sections(&stripped)?.contains(".debug_line") {
        bail!("the program still has debug information");
    }
    if !sections(&out.join(name))?.contains(".debug_line") {
        bail!("the binary was built without line tables: there are no symbols to keep");
    }
    let program = read(&stripped)?;
    std::fs::remove_file(&stripped).context("removing the stripped copy")?;
    Ok(program)
}

/// Lets everybody run a file.
pub(super) fn make_executable(path: &Path) -> Result<()> {
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path, mode).with_context(|| format!("mode of {}", path.display()))
}
