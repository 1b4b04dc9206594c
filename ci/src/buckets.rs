//! Runs the tests of buckets against servers: SeaweedFS and moto for S3, Azurite for Azure, and Swift,
//! pinned in `ci/buckets`, and a fake of Google's store that is kept there. No emulator of that one
//! has creates that are kept apart. The store has its feature `swift` in these tests.
//!
//! The servers of a language are skipped, with a message, where it or its registry is missing, but
//! not with `CI=true` in the environment. Nothing stays behind but what was installed.

use std::fs::File;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::clients::{prepare_node_folder, prepare_venv};
use crate::process::{self, cargo_command, run_within};
use crate::server::{DataFolder, free_ports};

/// The lists of servers.
const SOURCES: &str = "ci/buckets";
/// How long a server may take until it answers.
const START_LIMIT: Duration = Duration::from_secs(60);
const TEST_LIMIT: Duration = Duration::from_secs(600);
const BUCKET: &str = "logs";
/// The fakes of Google's store, with their options: one that has short pages, and one that does not
/// take creates of one name in quick succession.
const FAKES: [(&str, &[&str]); 2] =
    [("gcs", &["--page-size", "7"]), ("gcs-contended", &["--contended"])];
/// The account and the key that Azurite knows, which its documentation gives.
const AZURE_ACCOUNT: &str = "devstoreaccount1";
const AZURE_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Starts the servers and runs the tests.
pub(crate) fn check() -> Result<()> {
    let sources = std::path::absolute(SOURCES)?;
    let home = home()?;
    let data = DataFolder::create("buckets")?;
    let (mut running, mut told) = (Vec::new(), Vec::new());
    let python = python()?;
    if let Some(python) = &python {
        let bin = python.parent().context("a program without a folder")?;
        told.push(start_seaweedfs(bin, &data.0, &mut running)?);
        told.push(start_moto(bin, &data.0, &mut running)?);
        told.push(start_swift(python, &sources, &data.0, &mut running)?);
    }
    let node = home.join("node");
    if prepare_node_folder(&node, &sources, "azurite")? {
        told.push(start_azurite(&node, &sources, &data.0, &mut running)?);
    }
    let mut version = Command::new("python3");
    version.arg("--version");
    if process::succeeds_quietly(version) {
        for (name, options) in FAKES {
            told.push(start_gcs_fake(name, options, &sources, &data.0, &mut running)?);
        }
    }
    if told.is_empty() {
        return if std::env::var_os("CI").is_some_and(|ci| ci == "true") {
            bail!("no server of buckets can be had")
        } else {
            Ok(())
        };
    }
    let mut test = cargo_command();
    // With the unit tests, some of which are of the feature.
    test.args(["test", "-p", "logsvc-store", "--features", "swift", "--lib", "--test", "servers"]);
    test.args(["--", "--test-threads=1"]).env("LOGSVC_TEST_BUCKETS", told.join(" "));
    run_within(test, TEST_LIMIT)
}

/// Where what is installed stays.
fn home() -> Result<PathBuf> {
    Ok(std::path::absolute(process::target_folder().join("buckets"))?)
}

/// A Python beside which SeaweedFS, moto and Swift are installed, or none where they cannot be.
pub(crate) fn python() -> Result<Option<PathBuf>> {
    let list = std::path::absolute(SOURCES)?.join("requirements.txt");
    prepare_venv(&home()?.join("python"), &list)
}

/// A server that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(mut command: Command, data: &Path, name: &str, port: u16) -> Result<Running> {
    let log = data.join(format!("{name}.log"));
    let out = File::create(&log).with_context(|| log.display().to_string())?;
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).current_dir(data);
    let mut running = Running(command.spawn().with_context(|| format!("starting {name}"))?);
    let end = Instant::now() + START_LIMIT;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if let Some(status) = running.0.try_wait()? {
            bail!("{name} ended ({status}): {}", std::fs::read_to_string(&log)?);
        }
        if Instant::now() >= end {
            bail!("{name} does not listen: {}", std::fs::read_to_string(&log)?);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(running)
}

/// Repeats what fails until a server has come up.
fn patiently(what: &str, mut attempt: impl FnMut() -> Command) -> Result<()> {
    let end = Instant::now() + START_LIMIT;
    while !process::succeeds_quietly(attempt()) {
        if Instant::now() >= end {
            bail!("{what} does not succeed");
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    Ok(())
}

fn curl(url: &str, method: &str) -> Command {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--fail", "--noproxy", "*", "--max-time", "10", "-X", method, url]);
    curl
}

fn start_seaweedfs(bin: &Path, data: &Path, running: &mut Vec<Running>) -> Result<String> {
    const KEYS: &str = r#"{"identities":[{"name":"tests","credentials":[{"accessKey":"AKTEST",
        "secretKey":"sktest"}],"actions":["Admin","Read","Write","List","Tagging"]}]}"#;
    std::fs::write(data.join("s3.json"), KEYS)?;
    std::fs::create_dir(data.join("seaweedfs"))?;
    let mut weed = Command::new(bin.join("weed"));
    weed.args(["server", "-ip=127.0.0.1", "-dir=seaweedfs", "-s3", "-s3.config=s3.json"]);
    weed.arg("-volume.max=20");
    // These two have ports that others may have.
    weed.args(["-s3.port.iceberg=0", "-s3.port.lance=0"]);
    let mut ports = [0; 2];
    for (at, part) in ["s3", "filer", "master", "volume"].into_iter().enumerate() {
        let (port, grpc) = free_ports()?;
        weed.arg(format!("-{part}.port={port}")).arg(format!("-{part}.port.grpc={grpc}"));
        if let Some(slot) = ports.get_mut(at) {
            *slot = port;
        }
    }
    let [s3, filer] = ports;
    running.push(start(weed, data, "seaweedfs", s3)?);
    let folder = format!("http://127.0.0.1:{filer}/buckets/{BUCKET}/");
    patiently("making a bucket of SeaweedFS", || curl(&folder, "POST"))?;
    Ok(format!("seaweedfs=s3,http://127.0.0.1:{s3},-,{BUCKET},AKTEST,sktest"))
}

fn start_moto(bin: &Path, data: &Path, running: &mut Vec<Running>) -> Result<String> {
    let port = free_ports()?.0;
    let mut moto = Command::new(bin.join("moto_server"));
    moto.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
    running.push(start(moto, data, "moto", port)?);
    let bucket = format!("http://127.0.0.1:{port}/{BUCKET}");
    patiently("making a bucket of moto", || curl(&bucket, "PUT"))?;
    Ok(format!("moto=s3,http://127.0.0.1:{port},-,{BUCKET},any,any"))
}

/// Two servers: Swift as it is, and with creates that are kept apart.
fn start_swift(
    python: &Path,
    sources: &Path,
    data: &Path,
    running: &mut Vec<Running>,
) -> Result<String> {
    let (plain, exclusive) = free_ports()?;
    let mut swift = Command::new(python);
    swift.arg(sources.join("swift_server.py"));
    swift.args([plain.to_string(), exclusive.to_string()]).arg("swift");
    // It listens there last.
    running.push(start(swift, data, "swift", exclusive)?);
    let word = |name: &str, port: u16| {
        format!("{name}=swift,http://127.0.0.1:{port}/auth/v1.0,-,{BUCKET},test:tester,testing")
    };
    Ok(format!("{} {}", word("swift", plain), word("swift-exclusive", exclusive)))
}

fn start_gcs_fake(
    name: &str,
    options: &[&str],
    sources: &Path,
    data: &Path,
    running: &mut Vec<Running>,
) -> Result<String> {
    let port = free_ports()?.0;
    let mut fake = Command::new("python3");
    fake.arg(sources.join("gcs_fake.py")).args([&port.to_string(), BUCKET]).args(options);
    running.push(start(fake, data, name, port)?);
    Ok(format!("{name}=gcs,http://127.0.0.1:{port},-,{BUCKET},-,-"))
}

fn start_azurite(
    node: &Path,
    sources: &Path,
    data: &Path,
    running: &mut Vec<Running>,
) -> Result<String> {
    let port = free_ports()?.0;
    let mut azurite = Command::new(node.join("node_modules/.bin/azurite-blob"));
    azurite.args(["--silent", "--inMemoryPersistence", "--skipApiVersionCheck"]);
    azurite.args(["--disableTelemetry", "--blobHost", "127.0.0.1"]);
    azurite.args(["--blobPort", &port.to_string()]);
    running.push(start(azurite, data, "azurite", port)?);
    let endpoint = format!("http://127.0.0.1:{port}/{AZURE_ACCOUNT}");
    patiently("making a container of Azurite", || {
        let mut make = Command::new("python3");
        make.arg(sources.join("make_container.py"));
        make.args([&endpoint, AZURE_ACCOUNT, BUCKET, AZURE_KEY]);
        make
    })?;
    Ok(format!("azurite=azure,{endpoint},{AZURE_ACCOUNT},{BUCKET},-,{AZURE_KEY}"))
}
