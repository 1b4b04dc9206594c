//! The package for Fedora, its relatives and SUSE.

use super::contents::{self, CONFIG, DEPLOY, Item};
use super::{Release, read};
use ::rpm::{BuildConfig, CompressionWithLevel, Dependency, FileOptions, PackageBuilder};
use anyhow::{Context, Result};
use std::path::Path;

/// The release of the package: the first of its version.
const PACKAGE_RELEASE: &str = "1";

/// The name of the file.
pub(super) fn name(version: &str) -> String {
    format!("logsvc-{version}-{PACKAGE_RELEASE}.{}.rpm", contents::arch())
}

/// The bytes of the package.
pub(super) fn build(release: &Release, items: &[Item]) -> Result<Vec<u8>> {
    let summary = "Log server that speaks Loki's HTTP API and LogQL";
    let libc = contents::glibc_version(items)?;
    let mut builder =
        PackageBuilder::new("logsvc", &release.version, "Apache-2.0", contents::arch(), summary);
    let config =
        BuildConfig::v4().source_date(release.epoch_s).compression(CompressionWithLevel::Gzip(9));
    builder
        .using_config(config)
        .release(PACKAGE_RELEASE)
        .build_host("localhost")
        .description(
            "Agents and Grafana use it like Loki. Pushes are on the disk before they are \
             acknowledged. One process, no required configuration.",
        )
        .requires(Dependency::any(format!("libc.so.6(GLIBC_{libc})(64bit)")))
        .requires(Dependency::any("libgcc_s.so.1()(64bit)"))
        .requires(Dependency::script_pre("/usr/sbin/useradd"))
        .requires(Dependency::script_pre("/usr/sbin/groupadd"));
    for item in items {
        let path = format!("/{}", place(&item.path));
        let mode = u16::try_from(item.mode).context("a mode has 16 bits")?;
        let options = FileOptions::new(path).permissions(mode).user("root").group("root");
        let options = if item.path == CONFIG {
            // The file may hold passwords.
            options.permissions(0o640).group("logsvc").config().noreplace()
        } else if item.path.ends_with("/copyright") {
            options.license()
        } else if item.path.starts_with("usr/share/doc/") {
            options.doc()
        } else {
            options
        };
        builder.with_file_contents(item.data.clone(), options)?;
    }
    let folder = FileOptions::dir("/etc/logsvc").permissions(0o755).user("root").group("root");
    builder.with_dir_entry(folder)?;
    let data = FileOptions::dir("/var/lib/logsvc").permissions(0o750);
    builder.with_dir_entry(data.user("logsvc").group("logsvc"))?;
    builder
        .pre_install_script(script("pre")?)
        .post_install_script(script("post")?)
        .pre_uninstall_script(script("preun")?)
        .post_uninstall_script(script("postun")?);
    let mut bytes = Vec::new();
    builder.build()?.write(&mut bytes)?;
    Ok(bytes)
}

/// Where the distributions of this format keep a file.
fn place(path: &str) -> String {
    path.replace("zsh/vendor-completions", "zsh/site-functions")
}

fn script(name: &str) -> Result<String> {
    let text = read(&Path::new(DEPLOY).join("rpm").join(name))?;
    String::from_utf8(text).with_context(|| format!("the script {name}"))
}
