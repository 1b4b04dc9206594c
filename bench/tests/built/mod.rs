//! The server's binary for tests of processes. Two tests that build it at once are safe: cargo lets
//! one wait for the other.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The server of the same build. A test run of the whole workspace has built it; a test run of this
/// package alone builds it once, if it is not there.
pub(crate) fn server_binary() -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_bench")).parent().expect("a folder of binaries");
    let binary = folder.join("logsvc");
    if !binary.exists() {
        let target = folder.parent().expect("a target folder");
        let built = Command::new(env!("CARGO"))
            .args([
                "build",
                "--quiet",
                "--profile",
                "test",
                "-p",
                "logsvc-server",
                "--bin",
                "logsvc",
            ])
            .arg("--target-dir")
            .arg(target)
            .status()
            .expect("cargo runs");
        assert!(built.success() && binary.exists(), "the server cannot be built");
    }
    binary
}
