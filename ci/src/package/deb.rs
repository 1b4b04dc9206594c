//! The package for Debian and Ubuntu.

use super::contents::{self, CONFIG, DEPLOY, Item};
use super::{Release, archive, read};
use anyhow::{Context, Result};
use md5::{Digest, Md5};
use std::path::Path;

/// Scripts of the package.
const SCRIPTS: [&str; 3] = ["postinst", "postrm", "prerm"];

/// The architecture, as Debian calls it.
pub(super) fn arch() -> &'static str {
    match contents::arch() {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The name of the file.
pub(super) fn name(version: &str) -> String {
    format!("logsvc_{version}_{}.deb", arch())
}

/// The bytes of the package.
pub(super) fn build(release: &Release, items: &[Item]) -> Result<Vec<u8>> {
    let sums = items.iter().filter(|item| item.path != CONFIG).map(|item| {
        let sum: String = Md5::digest(&item.data).iter().map(|b| format!("{b:02x}")).collect();
        format!("{sum}  {}\n", item.path)
    });
    let file = |path: &str, mode: u32, data: Vec<u8>| Item { path: path.to_owned(), mode, data };
    let mut control = vec![
        file("conffiles", 0o644, format!("/{CONFIG}\n").into_bytes()),
        file("control", 0o644, control_file(release, items)?.into_bytes()),
        file("md5sums", 0o644, sums.collect::<String>().into_bytes()),
    ];
    for script in SCRIPTS {
        let text = read(&Path::new(DEPLOY).join("debian").join(script))?;
        control.push(file(script, 0o755, text));
    }
    let epoch_s = release.epoch_s;
    let control = archive::gzip(&archive::tar(&control, epoch_s)?, 9)?;
    let data = archive::gzip(&archive::tar(items, epoch_s)?, 9)?;
    let members: [(&str, &[u8]); 3] =
        [("debian-binary", b"2.0\n"), ("control.tar.gz", &control), ("data.tar.gz", &data)];
    archive::ar(&members, epoch_s).context("the package")
}

fn control_file(release: &Release, items: &[Item]) -> Result<String> {
    let size_kb: usize = items.iter().map(|item| item.data.len().div_ceil(1024)).sum();
    let libc = contents::glibc_version(items)?;
    Ok(format!(
        "Package: logsvc\n\
         Version: {}\n\
         Architecture: {}\n\
         Maintainer: The logsvc developers <logsvc@invalid.invalid>\n\
         Installed-Size: {size_kb}\n\
         Depends: libc6 (>= {libc}), libgcc-s1, passwd\n\
         Recommends: ca-certificates\n\
         Section: admin\n\
         Priority: optional\n\
         Description: log server that speaks Loki's HTTP API and LogQL\n \
         Agents and Grafana use it like Loki. Pushes are on the disk before they are\n \
         acknowledged. One process, no required configuration.\n",
        release.version,
        arch(),
    ))
}
