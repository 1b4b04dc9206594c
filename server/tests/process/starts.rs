//! Starts that fail or that somebody should think about: the text says what to do.

use std::process::Command;

use crate::support::{DataDir, Server};

/// The log of a start that fails.
fn failed_start(data: &std::path::Path, args: &[&str]) -> String {
    let (status, log) = Server::launch(data, args).wait();
    assert_eq!(status.code(), Some(1), "{log}");
    log
}

#[test]
fn errors_name_the_folder_the_user_and_the_flag() {
    let folder = DataDir::new();
    let file = folder.path().join("file");
    std::fs::write(&file, "x").expect("a file");
    // Nobody can make a folder below a file, not even root.
    let log = failed_start(&file.join("data"), &["--cores", "1"]);
    for part in ["cannot use the data folder", "file/data", "--data-dir"] {
        assert!(log.contains(part), "{part}: {log}");
    }
    let log = failed_start(std::path::Path::new("/proc/logsvc"), &["--cores", "1"]);
    for part in ["/proc/logsvc", "uid", "--data-dir"] {
        assert!(log.contains(part), "{part}: {log}");
    }
}

#[test]
fn the_folder_of_another_program_is_refused() {
    let folder = DataDir::new();
    std::fs::write(folder.path().join("holiday.jpg"), "x").expect("a file");
    let log = failed_start(folder.path(), &["--cores", "1"]);
    assert!(log.contains("holiday.jpg") && log.contains("--data-dir"), "{log}");
    let left = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(left, 1, "nothing was written");
    std::fs::remove_file(folder.path().join("holiday.jpg")).expect("it is there");
    Server::start(folder.path(), &["--cores", "1"]).stop();
    // What comes into our own folder later is left alone.
    std::fs::write(folder.path().join("holiday.jpg"), "x").expect("a file");
    Server::start(folder.path(), &["--cores", "1"]).stop();
}

#[test]
fn oversights_are_told() {
    let folder = DataDir::new();
    let args = ["--cores", "999", "--limits.retention-period=48h", "--verify-config"];
    let log = Server::launch(folder.path(), &args).wait().1;
    assert!(!log.contains("compactor.retention_enabled"), "a check of the file is no start: {log}");
    let args = ["--cores", "40", "--limits.retention-period=48h"];
    let log = Server::start(folder.path(), &args).stop();
    assert!(log.contains("cores is 40, but this process may use"), "{log}");
    assert!(log.contains("set compactor.retention_enabled"), "{log}");
    assert!(!log.contains("whoever reaches"), "{log}");
    let args = ["--server.http-listen-address", "0.0.0.0", "--data-dir", "x"];
    let log = Command::new(env!("CARGO_BIN_EXE_logsvc"))
        .args(args)
        .args(["--server.http-listen-port", "0"])
        .current_dir("/proc")
        .output()
        .expect("the binary starts");
    let log = String::from_utf8_lossy(&log.stderr).into_owned();
    assert!(log.contains("whoever reaches 0.0.0.0:0"), "{log}");
}

#[test]
fn one_error_has_no_heading_of_many() {
    let output = Command::new(env!("CARGO_BIN_EXE_logsvc"))
        .args(["--wal.sync", "perhaps", "--verify-config"])
        .output()
        .expect("the binary starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("config error: --wal.sync: "), "{said}");
}
