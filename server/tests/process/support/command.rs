//! Runs the program as a command.

use std::path::Path;
use std::process::Command;

/// Runs the program; gives the exit code, and what it says.
pub(crate) fn logsvc(args: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_logsvc")).args(args).output();
    let output = output.expect("the binary starts");
    let said = String::from_utf8([output.stdout, output.stderr].concat()).expect("text");
    (output.status.code().expect("it exits"), said)
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}
