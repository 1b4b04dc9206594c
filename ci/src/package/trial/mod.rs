//! Tries the artefacts as a user would: installs the packages in a clean Debian, starts what they
//! brought as the unit would, pushes, queries, stops, updates and removes; starts the image with a
//! root that cannot be written to.
//!
//! Guarantees: nothing of it stays, and nothing outside of the temporary folder changes. There is no
//! service manager here, so the trial itself reads user, folder and command from the unit. The trial
//! is skipped, with a message, where a program or the right to it is missing, but never where `CI`
//! is set.

mod node;
mod root;

use super::contents::{self, CONFIG, Item};
use super::{Made, Release, SUMS, deb, image, read, rpm, sha256_hex, write};
use crate::process::{output, run_within, succeeds_quietly};
use crate::server::DataFolder;
use anyhow::{Context, Result, bail, ensure};
use node::Node;
use root::Root;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// What the trial starts, and the Debian package that has it.
const PROGRAMS: [(&str, &str); 7] = [
    ("python3", "python3"),
    ("mmdebstrap", "mmdebstrap"),
    ("dpkg", "dpkg"),
    ("rpm", "rpm"),
    ("rpm2cpio", "rpm"),
    ("cpio", "cpio"),
    ("systemd-analyze", "systemd"),
];
/// The highest exposure of the unit, in tenths, as `systemd-analyze security` counts it.
const EXPOSURE_MAX: &str = "20";
/// Errors by which kernels and runtimes refuse io_uring (EPERM, ENOSYS), and their words.
const REFUSALS: [(i32, &str); 2] =
    [(1, "Operation not permitted"), (38, "Function not implemented")];
const LIMIT: Duration = Duration::from_secs(120);
/// A change of the administrator.
const EDIT: (&str, &str) = ("  #log_level: info\n", "  log_level: debug\n");
/// A file of the administrator beside the unit.
const DROP_IN: &str = "etc/systemd/system/logsvc.service.d/user.conf";

/// Tries what is in `out`.
pub(super) fn run(release: &Release, made: &Made, out: &Path) -> Result<()> {
    for (program, package) in PROGRAMS {
        let mut known = Command::new("sh");
        known.args(["-c", "command -v \"$0\"", program]);
        if !succeeds_quietly(known) {
            return skipped(&format!("there is no {program}: apt-get install {package}"));
        }
    }
    let mut isolated = Command::new("unshare");
    isolated.args(["--mount", "true"]);
    if !succeeds_quietly(isolated) {
        return skipped("this user may not mount");
    }
    let mut sums = Command::new("sha256sum");
    sums.args(["--check", "--quiet", SUMS]).current_dir(out);
    run_within(sums, LIMIT)?;
    unit()?;
    let folder = DataFolder::create("package")?;
    let newer = newer(release, made, &folder.0)?;
    let root = Root::create(&folder.0.join("debian"))?;
    debian(&root, made, &newer).context("the package for Debian")?;
    red_hat(&root, made, &newer).context("the package of rpm")?;
    container(made, &folder.0.join("image")).context("the image")?;
    println!("ci: the packages and the image of logsvc {} work", release.version);
    Ok(())
}

fn skipped(reason: &str) -> Result<()> {
    if std::env::var_os("CI").is_some() {
        bail!("package: {reason}");
    }
    println!("ci: the trial of packages is skipped: {reason}");
    Ok(())
}

/// The unit exposes as little as it should.
fn unit() -> Result<()> {
    let unit = std::path::absolute(Path::new(contents::DEPLOY).join("systemd/logsvc.service"))?;
    let mut security = Command::new("systemd-analyze");
    security.args(["security", "--offline=true", "--no-pager"]);
    security.arg(format!("--threshold={EXPOSURE_MAX}")).arg(unit);
    let said = output(security).context("the unit exposes too much")?;
    let overall = said.lines().find(|line| line.contains("Overall exposure level"));
    println!("ci: {}", overall.context("systemd-analyze says no level")?.trim());
    Ok(())
}

/// Packages of a later version: the same program, and a configuration file that has changed too.
struct Newer {
    version: String,
    deb: std::path::PathBuf,
    rpm: std::path::PathBuf,
}

fn newer(release: &Release, made: &Made, folder: &Path) -> Result<Newer> {
    let version = format!("{}.1", release.version);
    let release = Release { version: version.clone(), ..release.clone() };
    let changed = made.contents.iter().cloned().map(|mut item: Item| {
        if item.path == CONFIG {
            item.data.extend(b"\n# A later version.\n");
        }
        item
    });
    let changed: Vec<Item> = changed.collect();
    let (deb, rpm) = (folder.join(deb::name(&version)), folder.join(rpm::name(&version)));
    write(&deb, &super::deb::build(&release, &changed)?)?;
    write(&rpm, &super::rpm::build(&release, &changed)?)?;
    Ok(Newer { version, deb, rpm })
}

fn debian(root: &Root, made: &Made, newer: &Newer) -> Result<()> {
    let dpkg = |args: &[&str]| root.run(&[&["dpkg", "--force-confold,confdef"], args].concat());
    dpkg(&["-i", &root.bring(&made.deb)?])?;
    let owner = root.owner("var/lib/logsvc")?;
    ensure!(owner == "logsvc:logsvc 750", "the data folder belongs to {owner}");
    let file = root.owner(CONFIG)?;
    ensure!(file == "root:logsvc 640", "the configuration belongs to {file}");

    let node = Node::of_unit(root)?;
    node.push("before the update")?;
    node.stop()?;
    edit(root)?;

    dpkg(&["-i", &root.bring(&newer.deb)?])?;
    let version = root.output(&["dpkg-query", "-f", "${Version}", "-W", "logsvc"])?;
    ensure!(version == newer.version, "{version} is installed");
    still_edited(root)?;
    ensure!(
        root.has(&format!("{CONFIG}.dpkg-dist")),
        "the new configuration is not beside the old"
    );
    ensure!(root.owner("var/lib/logsvc")? == owner, "the data folder has another owner");
    let node = Node::of_unit(root)?;
    node.find("before the update")?;
    ensure!(node.get("/config")?.contains("log_level: debug"), "the edit is not in force");
    node.stop()?;

    dpkg(&["-r", "logsvc"])?;
    ensure!(!root.has("usr/bin/logsvc"), "the program is still there");
    still_edited(root)?;
    ensure!(root.has("var/lib/logsvc/segments"), "the data is gone with the package");
    dpkg(&["-P", "logsvc"])?;
    ensure!(!root.has(CONFIG), "a purge leaves the configuration");
    ensure!(root.has("var/lib/logsvc/segments"), "a purge takes the data");
    println!("ci: the package for Debian installs, runs, updates and leaves");
    Ok(())
}

fn red_hat(root: &Root, made: &Made, newer: &Newer) -> Result<()> {
    let query = |format: &str| {
        let mut rpm = Command::new("rpm");
        rpm.args(["-qp", "--queryformat", format]).arg(&made.rpm);
        output(rpm)
    };
    let flags = query("[%{FILENAMES} %{FILEFLAGS:fflags}\n]")?;
    let config = format!("/{CONFIG} cn");
    ensure!(
        flags.lines().any(|line| line == config),
        "the configuration is not noreplace: {flags}"
    );
    let mut unpacked = Command::new("sh");
    unpacked
        .args(["-c", "rpm2cpio \"$0\" | cpio -i --quiet --to-stdout ./usr/bin/logsvc | sha256sum"]);
    let sum = output({
        unpacked.arg(&made.rpm);
        unpacked
    })?;
    ensure!(sum.starts_with(&sha256_hex(&made.program)), "the program differs from the other's");

    // Its scripts run in the root, whose libraries no package of this kind has brought.
    let rpm = |args: &[&str]| root.rpm(args);
    rpm(&["-i", "--nodeps", &std::path::absolute(&made.rpm)?.to_string_lossy()])?;
    let owner = root.owner("var/lib/logsvc")?;
    ensure!(owner == "logsvc:logsvc 750", "the data folder belongs to {owner}");
    let node = Node::of_unit(root)?;
    // The package of the other kind has left it.
    node.find("before the update")?;
    node.stop()?;
    edit(root)?;
    rpm(&["-U", "--nodeps", &newer.rpm.to_string_lossy()])?;
    still_edited(root)?;
    ensure!(root.has(&format!("{CONFIG}.rpmnew")), "the new configuration is not beside the old");
    rpm(&["-e", "--nodeps", "logsvc"])?;
    ensure!(!root.has("usr/bin/logsvc"), "the program is still there");
    ensure!(root.has(&format!("{CONFIG}.rpmsave")), "the edited configuration is gone");
    ensure!(root.has("var/lib/logsvc/segments"), "the data is gone with the package");
    println!("ci: the package of rpm installs, runs, updates and leaves");
    Ok(())
}

/// Changes the configuration and the unit as an administrator does.
fn edit(root: &Root) -> Result<()> {
    let path = root.path(CONFIG);
    let text = String::from_utf8(read(&path)?)?;
    let edited = text.replacen(EDIT.0, EDIT.1, 1);
    ensure!(edited != text, "{CONFIG} has no line {:?}", EDIT.0);
    write(&path, edited.as_bytes())?;
    let drop_in = root.path(DROP_IN);
    std::fs::create_dir_all(drop_in.parent().context("it has a folder")?)?;
    write(&drop_in, b"[Service]\nUser=somebody\n")
}

fn still_edited(root: &Root) -> Result<()> {
    let text = String::from_utf8(read(&root.path(CONFIG))?)?;
    ensure!(text.contains(EDIT.1), "the update has replaced the configuration");
    ensure!(root.has(DROP_IN), "the update has removed the drop-in");
    let unit = root.has("usr/lib/systemd/system/logsvc.service");
    ensure!(unit || !root.has("usr/bin/logsvc"), "the unit is not where packages have units");
    Ok(())
}

/// Starts the image with a root that cannot be written to, as its user, and where io_uring is
/// refused, as container runtimes do.
fn container(made: &Made, folder: &Path) -> Result<()> {
    let root = Root::of_image(&made.image, folder)?;
    let node = Node::of_image(&root, image::USER, None)?;
    node.push("in the image")?;
    node.stop()?;
    for (refusal, cause) in REFUSALS {
        let node = Node::of_image(&root, image::USER, Some(refusal))?;
        node.find("in the image")?;
        let log = node.log()?;
        node.stop()?;
        let warnings = log.lines().filter(|line| line.contains("falling back to epoll"));
        ensure!(warnings.clone().count() == 1, "not one warning: {log}");
        ensure!(warnings.clone().any(|line| line.contains(cause)), "no cause: {log}");
        ensure!(warnings.clone().any(|line| line.contains("io_uring system calls")), "{log}");
        let said = Node::refused(&root, image::USER, refusal)?;
        ensure!(said.contains(cause) && said.contains("io_uring system calls"), "{said}");
    }
    println!("ci: the image runs sealed, with io_uring and without");
    Ok(())
}
