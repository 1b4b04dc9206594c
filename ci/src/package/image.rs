//! The container image, made without a daemon: a tar archive with an OCI layout, which podman,
//! skopeo and Docker load. It holds Docker's older list (`manifest.json`) as well.
//!
//! The image has no base: the program, the shared objects that it needs from the machine that
//! builds, certificates of authorities, and the licences of both. There is no shell.

use super::contents::{CONFIG, DEPLOY, Item, arch};
use super::{Release, archive, read, sbom, sha256_hex};
use crate::process::output;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The user and group of the process, by number: the image has no names that a cluster knows.
pub(super) const USER: u64 = 10_001;
/// The data folder.
pub(super) const DATA: &str = "var/lib/logsvc";
/// The certificates of authorities, where Debian has them. Rules and notifications need them.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Where Debian has the licences of packages.
const LICENCES: &str = "/usr/share/doc";

/// The bytes of the archive. `binary` is asked for the shared objects that it needs.
pub(super) fn build(release: &Release, program: &[u8], binary: &Path) -> Result<Vec<u8>> {
    let layer = layer(release, program, binary)?;
    archive_of(release, &layer)
}

fn layer(release: &Release, program: &[u8], binary: &Path) -> Result<Vec<u8>> {
    let file = |path: &str, mode: u32, data: Vec<u8>| Item {
        path: path.trim_start_matches('/').to_owned(),
        mode,
        data,
    };
    let mut items = vec![
        file("usr/bin/logsvc", 0o755, program.to_vec()),
        file(CONFIG, 0o644, read(&Path::new(DEPLOY).join("config/logsvc.yaml"))?),
        file("usr/share/doc/logsvc/copyright", 0o644, read(Path::new("LICENSE"))?),
        file(
            "etc/passwd",
            0o644,
            format!("logsvc:x:{USER}:{USER}::/{DATA}:/sbin/nologin\n").into(),
        ),
        file("etc/group", 0o644, format!("logsvc:x:{USER}:\n").into()),
        file("etc/nsswitch.conf", 0o644, b"hosts: files dns\n".to_vec()),
    ];
    for object in shared_objects(binary)? {
        let path = object.to_str().context("a path is text")?;
        items.push(file(path, 0o755, read(&object)?));
    }
    let mut packages = vec!["libc6", "libgcc-s1"];
    if Path::new(CERTIFICATES).is_file() {
        items.push(file(CERTIFICATES, 0o644, read(Path::new(CERTIFICATES))?));
        packages.push("ca-certificates");
    }
    for package in packages {
        let path = format!("{LICENCES}/{package}/copyright");
        let text = read(Path::new(&path)).context("the image needs the licences of Debian")?;
        items.push(file(&path, 0o644, text));
    }
    items.sort_by(|a, b| a.path.cmp(&b.path));
    let mut tar = archive::Tar::new(release.epoch_s);
    tar.folder(DATA, 0o750, (USER, USER))?;
    tar.folder("tmp", 0o1777, (0, 0))?;
    for item in &items {
        tar.file(item)?;
    }
    tar.finish()
}

/// The shared objects that a program needs, with the loader, where the loader looks for them.
fn shared_objects(binary: &Path) -> Result<Vec<PathBuf>> {
    let mut command = Command::new("ldd");
    command.arg(binary);
    let said = output(command)?;
    let objects = objects_of(&said)?;
    if !objects.iter().any(|path| path.to_string_lossy().contains("ld-linux")) {
        bail!("the program names no loader: {said}");
    }
    Ok(objects)
}

/// The paths in the output of `ldd`. The kernel's own object has none.
fn objects_of(said: &str) -> Result<Vec<PathBuf>> {
    let mut objects = Vec::new();
    for line in said.lines().map(str::trim).filter(|line| !line.starts_with("linux-vdso")) {
        let target = line.split_once("=> ").map_or(line, |(_, target)| target);
        let path = target.split(" (").next().unwrap_or("");
        if !path.starts_with('/') {
            bail!("a shared object is missing: {line}");
        }
        objects.push(PathBuf::from(path));
    }
    objects.sort_unstable();
    Ok(objects)
}

/// The configuration of containers. `Healthcheck` is a word of Docker, which others ignore.
fn config(release: &Release, layer_digest: &str) -> Value {
    let time = archive::rfc3339(release.epoch_s);
    let second_ns: u64 = 1_000_000_000;
    json!({
        "architecture": if arch() == "x86_64" { "amd64" } else { "arm64" }, "os": "linux",
        "created": time,
        "config": {
            "User": format!("{USER}:{USER}"),
            "ExposedPorts": {"3100/tcp": {}},
            "Env": ["PATH=/usr/bin"],
            "Entrypoint": ["/usr/bin/logsvc"],
            "Cmd": [format!("--config.file=/{CONFIG}")],
            "Volumes": {format!("/{DATA}"): {}},
            "WorkingDir": format!("/{DATA}"),
            "StopSignal": "SIGTERM",
            "Labels": labels(release),
            "Healthcheck": {
                "Test": ["CMD", "/usr/bin/logsvc", "health"],
                "Interval": 10 * second_ns, "Timeout": 5 * second_ns, "Retries": 6,
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [layer_digest]},
        "history": [{"created": time, "created_by": "ci package"}],
    })
}

fn labels(release: &Release) -> Value {
    json!({
        "org.opencontainers.image.title": "logsvc",
        "org.opencontainers.image.description": "Log server that speaks Loki's HTTP API and LogQL",
        "org.opencontainers.image.version": release.version,
        "org.opencontainers.image.revision": release.commit,
        "org.opencontainers.image.created": archive::rfc3339(release.epoch_s),
        "org.opencontainers.image.licenses": "Apache-2.0",
    })
}

fn archive_of(release: &Release, layer: &[u8]) -> Result<Vec<u8>> {
    let digest = |bytes: &[u8]| sbom::digest(bytes);
    let packed = archive::gzip(layer, 9)?;
    let config = serde_json::to_vec(&config(release, &digest(layer)))?;
    let describe = |media: &str, bytes: &[u8]| json!({"mediaType": media, "digest": digest(bytes), "size": bytes.len()});
    let manifest = serde_json::to_vec(&json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": describe("application/vnd.oci.image.config.v1+json", &config),
        "layers": [describe("application/vnd.oci.image.layer.v1.tar+gzip", &packed)],
        "annotations": labels(release),
    }))?;
    let mut entry = describe("application/vnd.oci.image.manifest.v1+json", &manifest);
    entry["annotations"] = json!({
        "org.opencontainers.image.ref.name": release.version,
        "io.containerd.image.name": format!("docker.io/library/logsvc:{}", release.version),
    });
    let index = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [entry],
    });
    let blob = |bytes: &[u8]| format!("blobs/sha256/{}", sha256_hex(bytes));
    let docker = json!([{
        "Config": blob(&config), "Layers": [blob(&packed)],
        "RepoTags": [format!("logsvc:{}", release.version)],
    }]);
    let layout = json!({"imageLayoutVersion": "1.0.0"});
    let mut items = vec![
        (blob(&packed), packed.clone()),
        (blob(&config), config.clone()),
        (blob(&manifest), manifest.clone()),
        ("index.json".to_owned(), serde_json::to_vec(&index)?),
        ("manifest.json".to_owned(), serde_json::to_vec(&docker)?),
        ("oci-layout".to_owned(), serde_json::to_vec(&layout)?),
    ];
    items.sort();
    let mut tar = archive::Tar::new(release.epoch_s);
    for (path, data) in items {
        tar.file(&Item { path, mode: 0o644, data })?;
    }
    tar.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release() -> Release {
        Release { version: "1.2.3".to_owned(), epoch_s: 1_709_210_096, commit: "abc".to_owned() }
    }

    #[test]
    fn shared_objects_are_read_from_ldd() {
        let said = "\tlinux-vdso.so.1 (0x7f)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x7f)\n\t\
                    /lib64/ld-linux-x86-64.so.2 (0x7f)\n";
        let expected = ["/lib/x/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(objects_of(said).unwrap(), expected);
        assert!(objects_of("\tlibx.so => not found\n").is_err());
    }

    #[test]
    fn every_digest_of_the_archive_is_that_of_a_blob() {
        let bytes = archive_of(&release(), b"layer").unwrap();
        assert_eq!(bytes, archive_of(&release(), b"layer").unwrap());
        let mut archive = ::tar::Archive::new(bytes.as_slice());
        let mut files = std::collections::BTreeMap::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mut data = Vec::new();
            std::io::Read::read_to_end(&mut entry, &mut data).unwrap();
            files.insert(path, data);
        }
        let json = |path: &str| serde_json::from_slice::<Value>(&files[path]).unwrap();
        let blob = |value: &Value| {
            let digest = value["digest"].as_str().unwrap().trim_start_matches("sha256:");
            let path = format!("blobs/sha256/{digest}");
            assert_eq!(sha256_hex(&files[&path]), digest);
            assert_eq!(files[&path].len() as u64, value["size"].as_u64().unwrap());
            path
        };
        let manifest = json(&blob(&json("index.json")["manifests"][0]));
        let config = json(&blob(&manifest["config"]));
        blob(&manifest["layers"][0]);
        assert_eq!(config["rootfs"]["diff_ids"][0], sbom::digest(b"layer"));
        assert_eq!(config["config"]["User"], "10001:10001");
        assert_eq!(json("manifest.json")[0]["RepoTags"][0], "logsvc:1.2.3");
    }
}
