//! Which file goes where in packages.

use super::{archive, read};
use anyhow::{Context, Result};
use std::path::Path;

/// Sources of packages.
pub(super) const DEPLOY: &str = "deploy";
/// The configuration file, which belongs to the administrator.
pub(super) const CONFIG: &str = "etc/logsvc/logsvc.yaml";

/// A file of a package.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// Where it goes, without a leading slash.
    pub(super) path: String,
    /// Its permissions.
    pub(super) mode: u32,
    pub(super) data: Vec<u8>,
}

/// The name of the machine's architecture, as the kernel says it.
pub(super) fn arch() -> &'static str {
    std::env::consts::ARCH
}

/// The files of deb, rpm and tarball, sorted by their paths.
pub(super) fn of_packages(program: &[u8]) -> Result<Vec<Item>> {
    let mut items =
        vec![Item { path: "usr/bin/logsvc".to_owned(), mode: 0o755, data: program.to_vec() }];
    for (source, path) in [
        ("deploy/config/logsvc.yaml", CONFIG),
        ("deploy/config/logsvc.schema.json", "usr/share/logsvc/logsvc.schema.json"),
        ("deploy/seccomp/logsvc.json", "usr/share/logsvc/seccomp.json"),
        ("deploy/systemd/logsvc.service", "usr/lib/systemd/system/logsvc.service"),
        ("deploy/systemd/logsvc.sysusers", "usr/lib/sysusers.d/logsvc.conf"),
        ("deploy/completions/logsvc.bash", "usr/share/bash-completion/completions/logsvc"),
        ("deploy/completions/_logsvc", "usr/share/zsh/vendor-completions/_logsvc"),
        ("deploy/completions/logsvc.fish", "usr/share/fish/vendor_completions.d/logsvc.fish"),
        ("README.md", "usr/share/doc/logsvc/README.md"),
        ("CHANGELOG.md", "usr/share/doc/logsvc/CHANGELOG.md"),
        ("docs/install.md", "usr/share/doc/logsvc/install.md"),
        ("docs/runbooks.md", "usr/share/doc/logsvc/runbooks.md"),
    ] {
        items.push(Item { path: path.to_owned(), mode: 0o644, data: read(Path::new(source))? });
    }
    for part in ["grafana", "prometheus"] {
        let folder = Path::new(DEPLOY).join(part);
        // Not what dashboards are made from, and not the tests of alerts.
        let wanted = |name: &String| name.ends_with(".json") || name == "alerts.yaml";
        for name in names(&folder)?.into_iter().filter(wanted) {
            let data = read(&folder.join(&name))?;
            let path = format!("usr/share/logsvc/{part}/{name}");
            items.push(Item { path, mode: 0o644, data });
        }
    }
    for name in names(&Path::new(DEPLOY).join("man"))? {
        let page = read(&Path::new(DEPLOY).join("man").join(&name))?;
        let path = format!("usr/share/man/man1/{name}.gz");
        items.push(Item { path, mode: 0o644, data: archive::gzip(&page, 9)? });
    }
    let mut copyright = b"logsvc is under the Apache License, Version 2.0:\n\n".to_vec();
    copyright.extend(read(Path::new("LICENSE"))?);
    let path = "usr/share/doc/logsvc/copyright".to_owned();
    items.push(Item { path, mode: 0o644, data: copyright });
    items.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(items)
}

/// The manifests of Kubernetes, below a folder.
pub(super) fn kubernetes(base: &str) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    for part in ["base", "monitoring"] {
        let folder = Path::new(DEPLOY).join("kubernetes").join(part);
        for name in names(&folder)? {
            let data = read(&folder.join(&name))?;
            items.push(Item { path: format!("{base}/{part}/{name}"), mode: 0o644, data });
        }
    }
    Ok(items)
}

/// The same files below a folder.
pub(super) fn under(items: &[Item], folder: &str) -> Vec<Item> {
    let moved = items.iter().cloned();
    moved.map(|item| Item { path: format!("{folder}/{}", item.path), ..item }).collect()
}

/// Names of the files of a folder, sorted.
fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    Ok(names)
}

/// The oldest glibc that has every symbol that the program names.
pub(super) fn glibc_version(items: &[Item]) -> Result<String> {
    const MARK: &[u8] = b"GLIBC_2.";
    let program = items.iter().find(|item| item.path == "usr/bin/logsvc");
    let program = program.context("there is no program")?;
    let places = memchr::memmem::find_iter(&program.data, MARK);
    let minors = places.filter_map(|at| {
        let rest = &program.data[at + MARK.len()..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&rest[..digits]).ok()?.parse::<u32>().ok()
    });
    Ok(format!("2.{}", minors.max().context("the program does not use glibc")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_symbol_decides_the_libc() {
        let item = |data: &[u8]| {
            [Item { path: "usr/bin/logsvc".to_owned(), mode: 0o755, data: data.to_vec() }]
        };
        let text = b"GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_2.";
        assert_eq!(glibc_version(&item(text)).unwrap(), "2.34");
        assert!(glibc_version(&item(b"musl")).is_err());
    }
}
