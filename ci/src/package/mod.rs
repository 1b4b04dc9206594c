//! Makes the artefacts of a release from one built binary, and tries them.
//!
//! - [`contents`]: which file of the repository goes where.
//! - [`symbols`]: takes the debug information out of the binary into a file of its own.
//! - [`archive`], [`deb`], [`rpm`], [`image`]: the formats.
//! - [`sbom`]: the list of components; [`licences`]: the licences that they may have.
//! - [`manifests`]: whether the manifests of Kubernetes fit the server.
//! - [`trial`]: installs, runs, updates and removes what was made.
//!
//! Guarantees: the same binary, commit and machine packages give the same bytes. Times are those of
//! the commit (`SOURCE_DATE_EPOCH`), owners are fixed, entries are sorted. `SHA256SUMS` names every
//! artefact. What can go wrong: `objcopy`, `ldd` or git are missing; then nothing is made.

mod archive;
mod contents;
mod deb;
mod image;
pub(crate) mod licences;
mod manifests;
mod rpm;
mod sbom;
mod symbols;
mod trial;

use crate::process::{self, output};
use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The list of checksums.
const SUMS: &str = "SHA256SUMS";

/// What all artefacts of a run share.
#[derive(Clone, Debug)]
struct Release {
    /// The version, as in `Cargo.toml`.
    version: String,
    /// The time of all files, in seconds since the Unix epoch.
    epoch_s: u32,
    /// The commit, or empty outside of a clone.
    commit: String,
}

impl Release {
    fn of_repository() -> Result<Release> {
        let metadata = sbom::metadata()?;
        let packages = metadata["packages"].as_array().context("metadata without packages")?;
        let server = packages.iter().find(|package| package["name"] == "logsvc-server");
        let version = server.and_then(|server| server["version"].as_str());
        let version = version.context("there is no package logsvc-server")?.to_owned();
        let mut head = Command::new("git");
        head.args(["log", "-1", "--format=%ct %H"]);
        let head = output(head)?;
        let (time, commit) = head.trim().split_once(' ').context("git log without a commit")?;
        let time = std::env::var("SOURCE_DATE_EPOCH").unwrap_or_else(|_| time.to_owned());
        let epoch_s = time.parse().with_context(|| format!("SOURCE_DATE_EPOCH {time:?}"))?;
        Ok(Release { version, epoch_s, commit: commit.to_owned() })
    }
}

/// Makes all artefacts in `out`, and tries them if `tries` is set.
pub(crate) fn run(binary: &Path, out: &Path, tries: bool) -> Result<()> {
    if !binary.is_file() {
        bail!("{} is missing: cargo build --release --bin logsvc", binary.display());
    }
    manifests::check()?;
    let release = Release::of_repository()?;
    // Programs that are called here run in other folders.
    let (binary, out) = (std::path::absolute(binary)?, std::path::absolute(out)?);
    let (binary, out) = (binary.as_path(), out.as_path());
    empty(out)?;
    let made = make(&release, binary, out)?;
    let sums = sums(out)?;
    write(&out.join(SUMS), sums.as_bytes())?;
    print!("{sums}");
    if tries { trial::run(&release, &made, out) } else { Ok(()) }
}

/// What the trials need to know of what was made.
struct Made {
    /// The program without debug information.
    program: Vec<u8>,
    contents: Vec<contents::Item>,
    deb: PathBuf,
    rpm: PathBuf,
    image: PathBuf,
}

fn make(release: &Release, binary: &Path, out: &Path) -> Result<Made> {
    let version = &release.version;
    let arch = contents::arch();
    let base = format!("logsvc-{version}-linux-{arch}");
    let symbols_name = format!("{base}.debug");
    let program = symbols::split(binary, out, &symbols_name)?;
    let symbols = read(&out.join(&symbols_name))?;
    std::fs::remove_file(out.join(&symbols_name)).context("removing the plain symbols")?;
    write(&out.join(format!("{symbols_name}.gz")), &archive::gzip(&symbols, 6)?)?;
    write(&out.join(&base), &program)?;
    symbols::make_executable(&out.join(&base))?;

    let sbom = sbom::cyclonedx(release)?;
    write(&out.join(format!("logsvc-{version}.cdx.json")), sbom.as_bytes())?;
    let contents = contents::of_packages(&program)?;
    let tarball = archive::tar(&contents::under(&contents, &base), release.epoch_s)?;
    write(&out.join(format!("{base}.tar.gz")), &archive::gzip(&tarball, 9)?)?;

    let deb = out.join(deb::name(version));
    write(&deb, &deb::build(release, &contents)?)?;
    let rpm = out.join(rpm::name(version));
    write(&rpm, &rpm::build(release, &contents)?)?;
    let image = out.join(format!("{base}.oci.tar"));
    write(&image, &image::build(release, &program, binary)?)?;

    for name in ["logsvc.yaml", "logsvc.schema.json"] {
        write(&out.join(name), &read(&Path::new(contents::DEPLOY).join("config").join(name))?)?;
    }
    let seccomp = Path::new(contents::DEPLOY).join("seccomp/logsvc.json");
    write(&out.join("logsvc.seccomp.json"), &read(&seccomp)?)?;
    let kubernetes = archive::tar(&contents::kubernetes(&base)?, release.epoch_s)?;
    write(
        &out.join(format!("logsvc-{version}-kubernetes.tar.gz")),
        &archive::gzip(&kubernetes, 9)?,
    )?;
    Ok(Made { program, contents, deb, rpm, image })
}

/// Makes `out` an empty folder. A folder with something else than artefacts is left alone.
fn empty(out: &Path) -> Result<()> {
    std::fs::create_dir_all(out).with_context(|| format!("creating {}", out.display()))?;
    for entry in std::fs::read_dir(out)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name != SUMS && !name.starts_with("logsvc") {
            bail!("{} is not empty: {name} is no artefact", out.display());
        }
        std::fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
    }
    Ok(())
}

/// A line for each file of a folder, as `sha256sum` writes and checks them.
fn sums(folder: &Path) -> Result<String> {
    let mut names: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    names.retain(|name| name != SUMS);
    let lines = names.iter().map(|name| {
        let bytes = read(&folder.join(name))?;
        Ok(format!("{}  {name}\n", sha256_hex(&bytes)))
    });
    lines.collect()
}

fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("reading {}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))
}

/// The folder for artefacts unless another is named.
pub(crate) fn default_folder() -> PathBuf {
    process::target_folder().join("package")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::DataFolder;

    #[test]
    fn checksums_are_sorted_and_leave_themselves_out() {
        let folder = DataFolder::create("sums").unwrap();
        for name in ["logsvc-b", "logsvc-a", SUMS] {
            write(&folder.0.join(name), b"").unwrap();
        }
        let empty_sum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let expected = format!("{empty_sum}  logsvc-a\n{empty_sum}  logsvc-b\n");
        assert_eq!(sums(&folder.0).unwrap(), expected);
        empty(&folder.0).unwrap();
        assert_eq!(sums(&folder.0).unwrap(), "");
        write(&folder.0.join("letter.txt"), b"").unwrap();
        assert!(empty(&folder.0).is_err(), "a foreign file stays");
    }

    #[test]
    fn a_missing_binary_is_an_error() {
        let error = run(Path::new("no-such-binary"), Path::new("out"), false).unwrap_err();
        assert!(error.to_string().contains("cargo build --release"), "{error}");
    }
}
