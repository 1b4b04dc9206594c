//! The package for Debian and Ubuntu.

use super::contents::{self, CONFIG, DEPLOY, Item};
use super::{Release, archive, read};
use anyhow::{Context, Result};
use md5::{Digest, Md5};
use std::path::Path;

/// Scripts of the package.
const SCRIPTS: [&str; 3] = ["postinst", "postrm", "prerm"];

const COPYRIGHT: &str = "usr/share/doc/logsvc/copyright";
const MAINTAINER: &str = "The logsvc developers <logsvc@invalid.invalid>";

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
    let items = &with_own_documents(release, items)?;
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

/// The licence as Debian wants it, which has the text already, and a changelog in its form.
fn with_own_documents(release: &Release, items: &[Item]) -> Result<Vec<Item>> {
    let mut items = items.to_vec();
    for item in &mut items {
        if item.path == COPYRIGHT {
            item.data =
                b"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\n\
                Files: *\nCopyright: the logsvc developers\nLicense: Apache-2.0\n \
                On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.\n"
                    .to_vec();
        }
    }
    let text = format!(
        "logsvc ({}) stable; urgency=medium\n\n  * See CHANGELOG.md beside this file.\n\n -- {MAINTAINER}  {}\n",
        release.version,
        rfc2822(release.epoch_s),
    );
    let data = archive::gzip(text.as_bytes(), 9)?;
    items.push(Item { path: "usr/share/doc/logsvc/changelog.gz".to_owned(), mode: 0o644, data });
    items.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(items)
}

/// The time as changelogs of Debian have it.
fn rfc2822(epoch_s: u32) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let day = DAYS[(epoch_s / 86_400 % 7) as usize];
    let time = archive::rfc3339(epoch_s);
    let month: usize = time[5..7].parse().unwrap_or(1);
    format!("{day}, {} {} {} {} +0000", &time[8..10], MONTHS[month - 1], &time[..4], &time[11..19])
}

fn control_file(release: &Release, items: &[Item]) -> Result<String> {
    let size_kb: usize = items.iter().map(|item| item.data.len().div_ceil(1024)).sum();
    let libc = contents::glibc_version(items)?;
    Ok(format!(
        "Package: logsvc\n\
         Version: {}\n\
         Architecture: {}\n\
         Maintainer: {MAINTAINER}\n\
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_the_week_are_right() {
        assert_eq!(rfc2822(0), "Thu, 01 Jan 1970 00:00:00 +0000");
        assert_eq!(rfc2822(1_709_210_096), "Thu, 29 Feb 2024 12:34:56 +0000");
        assert_eq!(rfc2822(1_735_689_599), "Tue, 31 Dec 2024 23:59:59 +0000");
    }
}
