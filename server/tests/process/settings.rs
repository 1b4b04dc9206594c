//! The file of settings, as the program reads it.

use std::process::{Command, Output};

use crate::support::DataDir;

fn verify(config_file: &str, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_logsvc"))
        .arg(format!("-config.file={config_file}"))
        .arg("-verify-config")
        .args(more)
        .env("LOGSVC_TEST_PORT", "3999")
        .output()
        .expect("the binary starts")
}

#[test]
fn variables_are_replaced_if_that_is_wanted() {
    let folder = DataDir::new();
    let file = folder.path().join("config.yaml");
    let text =
        "server:\n  http_listen_port: ${LOGSVC_TEST_PORT}\ndata_dir: ${LOGSVC_NONE:-/tmp/x}\n";
    std::fs::write(&file, text).expect("the folder can be written");
    // Of several files the first counts that is there.
    let files = format!("{}/missing.yaml,{}", folder.path().display(), file.display());
    let good = verify(&files, &["-config.expand-env=true", "-target=all"]);
    assert_eq!(String::from_utf8_lossy(&good.stdout), "config is valid\n");
    let bad = verify(&files, &[]);
    assert_eq!(bad.status.code(), Some(1));
    let said = String::from_utf8_lossy(&bad.stderr).into_owned();
    assert!(said.contains("server.http_listen_port: \"${LOGSVC_TEST_PORT}\" is not"), "{said}");
}

#[test]
fn unknown_keys_stop_the_start_and_foreign_ones_are_named() {
    let folder = DataDir::new();
    let file = folder.path().join("config.yaml");
    let path = file.display().to_string();
    let mut text = "memberlist: {bind_port: 1}\nfrontend: {encoding: protobuf}\n".to_owned();
    std::fs::write(&file, &text).expect("the folder can be written");
    let good = verify(&path, &["--log.format=json"]);
    assert_eq!(good.status.code(), Some(0));
    let said = String::from_utf8_lossy(&good.stderr).into_owned();
    assert!(said.contains("config key ignored: there is one node"), "{said}");
    assert!(said.contains("memberlist") && said.contains("frontend.encoding"), "{said}");
    let flags = ["-kafka.address", "a:1", "-log-config-reverse-order", "--log.format=json"];
    let good = verify(&path, &flags);
    assert_eq!(good.status.code(), Some(0));
    let said = String::from_utf8_lossy(&good.stderr).into_owned();
    assert!(said.contains("flag ignored: there is no Kafka"), "{said}");
    assert!(said.contains("--kafka.address") && said.contains("reverse-order"), "{said}");
    let bad = verify(&path, &["-ingester.max-chunk-agee=1h"]);
    assert_eq!(bad.status.code(), Some(2));
    let said = String::from_utf8_lossy(&bad.stderr).into_owned();
    assert!(said.contains("'--ingester.max-chunk-age'"), "{said}");
    text +=
        "limits_config:\n  max_line_sise: 1KB\n  deletion_mode: filter\nauth_enabled: perhaps\n";
    std::fs::write(&file, &text).expect("the folder can be written");
    let bad = verify(&path, &[]);
    assert_eq!(bad.status.code(), Some(1));
    let expected = "\
MULTIPLE CONFIG ERRORS FOUND, PLEASE READ CAREFULLY
limits_config.max_line_sise: unknown key in line 4; did you mean limits_config.max_line_size?
auth_enabled: \"perhaps\" is neither true nor false
limits_config.deletion_mode: unknown deletion mode: must be one of disabled|filter-only|filter-and-delete
";
    assert_eq!(String::from_utf8_lossy(&bad.stderr), expected);
}

#[test]
fn settings_and_targets_are_printed() {
    let folder = DataDir::new();
    let file = folder.path().join("config.yaml");
    std::fs::write(&file, "limits_config: {max_line_size: 1KB}\n")
        .expect("the folder can be written");
    let printed = verify(&file.display().to_string(), &["-print-config-stderr", "--cores=3"]);
    assert_eq!(printed.status.code(), Some(0));
    let said = String::from_utf8_lossy(&printed.stderr).into_owned();
    for line in ["target: all", "cores: 3", "    max_line_size: 1KB", "    http_listen_port: 3100"]
    {
        assert!(said.lines().any(|known| known == line), "{line} is missing in\n{said}");
    }
    let listed = Command::new(env!("CARGO_BIN_EXE_logsvc")).arg("-list-targets").output();
    let listed = listed.expect("the binary starts");
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(names.starts_with("all\nread\nwrite\nbackend\n"), "{names}");
    assert_eq!((listed.status.code(), names.lines().count()), (Some(0), 28));
}
