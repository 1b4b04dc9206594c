//! Files of versions that the program does not know are called so, and left alone.

use std::path::{Path, PathBuf};

use logsvc_runtime::sim::{Disk, Simulation};
use logsvc_shards::check::{Severity, inspect_segment};
use logsvc_shards::node::{NodeError, OpenOptions, open_node, open_node_with};

use crate::damage::{Store, check};
use crate::store::{DATA_DIR, SEGMENTS_DIR};

/// Sets the version of a header or footer that begins at `at`, with a checksum that is right.
fn set_version(bytes: &mut [u8], at: usize, len: usize, version: u32) {
    let part = &mut bytes[at..at + len];
    part[8..12].copy_from_slice(&version.to_le_bytes());
    part[12..16].fill(0);
    let crc = crc32c::crc32c(part);
    part[12..16].copy_from_slice(&crc.to_le_bytes());
}

/// A file with a version, and where that stands.
fn with_version(path: &Path, bytes: &[u8], version: u32) -> Option<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    let ending = path.extension().map(|ending| ending.to_string_lossy().into_owned());
    match ending.as_deref() {
        Some("seg") => {
            let footer = bytes.len() - 160;
            set_version(&mut bytes, 0, 64, version);
            set_version(&mut bytes, footer, 160, version);
        }
        Some("wal" | "log") => set_version(&mut bytes, 0, 64, version),
        None if path.ends_with("MANIFEST") => set_version(&mut bytes, 0, 64, version),
        _ => return None,
    }
    Some(bytes)
}

fn open(simulation: &Simulation, ignores_unknown_versions: bool) -> Result<u64, NodeError> {
    simulation.block_on(move |runtime| async move {
        let options = OpenOptions { ignores_unknown_versions, ..OpenOptions::default() };
        let node = open_node_with(&runtime, Path::new(DATA_DIR), options).await?;
        Ok(node.plan.manifest.unknown_files.len() as u64)
    })
}

/// Whether a disk holds a file with these bytes, wherever a start may have put it.
fn is_kept(disk: &Disk, path: &Path, bytes: &[u8]) -> bool {
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    let is_it = |other: &PathBuf| {
        other.file_name().is_some_and(|other| other.to_string_lossy().starts_with(&name))
            && disk.read(other).as_deref() == Some(bytes)
    };
    disk.files("/srv").iter().any(is_it)
}

#[test]
fn files_of_another_version_keep_a_start_from_going_on_unless_it_is_told_to() {
    let store = Store::write();
    let (intact, _) = store.on_disk(0);
    let live = crate::damage::start(&intact).segments.to_vec();
    let mut cases = 0;
    for (path, bytes) in store.all_files() {
        for (version, by) in [(77, "a newer version"), (0, "another version")] {
            let Some(changed) = with_version(path, bytes, version) else { continue };
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            let is_segment = name.ends_with(".seg");
            if is_segment && !live.iter().any(|live| live.name.file_name() == name) {
                continue;
            }
            // The contents of the checkpoint are not read.
            if name.ends_with(".log") && !name.starts_with("manifest-00000002-") {
                continue;
            }
            cases += 1;
            let (simulation, disk) = store.on_disk(cases);
            disk.write(path, &changed);
            // A check tells, and takes nothing for damage except its consequences.
            let report = check(&simulation);
            let unknown = report.findings.iter().filter(|f| f.severity == Severity::OtherVersion);
            let unknown: Vec<_> = unknown.collect();
            assert!(!unknown.is_empty() && unknown.iter().all(|f| f.file == *path), "{name}");
            assert!(unknown[0].what.contains(&format!("written by {by} of logsvc")), "{name}");
            let damaged = report.findings.iter().filter(|f| f.severity == Severity::Damage);
            assert!(damaged.clone().all(|finding| finding.file != *path), "{name}");
            if is_segment {
                // The shards find it out when they open it; nothing touches it.
                assert_eq!(damaged.count(), 0, "{name}");
                let inner = path.clone();
                let error = simulation.block_on(|runtime| async move {
                    inspect_segment(&runtime, &inner, |_| {}).await.expect_err("it is unknown")
                });
                assert!(error.to_string().contains(&format!("written by {by}")), "{error}");
                assert_eq!(open(&simulation, false).ok(), Some(0));
                assert!(disk.read(path).as_deref() == Some(&changed[..]), "{name}");
                continue;
            }
            let before: Vec<_> =
                disk.files("/srv").into_iter().map(|p| (disk.read(&p), p)).collect();
            let error = open(&simulation, false).expect_err("it is unknown").to_string();
            assert!(error.contains(&name) && error.contains(by), "{error}");
            assert!(error.contains("storage.ignore_unknown_versions"), "{error}");
            for (bytes, path) in before {
                assert!(path.ends_with("LOCK") || disk.read(&path) == bytes, "{}", path.display());
            }
            for _ in 0..3 {
                let unknown = open(&simulation, true).expect("it was told to");
                assert!(is_kept(&disk, path, &changed), "{name}");
                if name.ends_with(".wal") {
                    // It stays where it is, so the next start meets it again.
                    assert_eq!(unknown, 1, "{name}");
                }
            }
        }
    }
    assert!(cases > 10, "{cases}");
}

#[test]
fn a_segment_of_another_version_that_no_edit_names_is_left_alone() {
    let store = Store::write();
    let (simulation, disk) = store.on_disk(0);
    let live = crate::damage::start(&simulation).segments[0];
    let name = logsvc_shards::manifest::SegmentName { seq: 99, ..live.name };
    let (mut bytes, _) = crate::store::encode_segment(name, live.day, None).expect("a segment");
    let footer = bytes.len() - 160;
    set_version(&mut bytes, footer, 160, u32::MAX);
    let path = name.path(Path::new(SEGMENTS_DIR), live.day);
    disk.write(&path, &bytes);
    let error = open(&simulation, false).expect_err("it is unknown").to_string();
    assert!(error.contains("a newer version"), "{error}");
    assert_eq!(open(&simulation, true).ok(), Some(1));
    assert_eq!(disk.read(&path), Some(bytes));
}

#[test]
fn a_folder_of_a_newer_version_is_called_so() {
    let (simulation, disk) = Store::write().on_disk(0);
    disk.write(format!("{DATA_DIR}/FORMAT"), b"logsvc 2\n");
    let error = simulation.block_on(|runtime| async move {
        open_node(&runtime, Path::new(DATA_DIR)).await.expect_err("it is unknown").to_string()
    });
    assert!(error.contains("written by a newer version of logsvc"), "{error}");
    disk.write(format!("{DATA_DIR}/FORMAT"), b"something\n");
    let error = open(&simulation, true).expect_err("it is no folder").to_string();
    assert!(error.contains("written by another program"), "{error}");
}

#[test]
fn a_version_whose_checksum_is_wrong_is_damage() {
    let store = Store::write();
    for (number, (path, bytes)) in store.all_files().enumerate() {
        if path.extension().is_some_and(|ending| ending == "log") {
            let (simulation, disk) = store.on_disk(number as u64);
            let mut changed = bytes.clone();
            changed[8] = 77;
            disk.write(path, &changed);
            assert_eq!(check(&simulation).unknown_files(), 0);
            assert!(open(&simulation, false).is_ok());
        }
    }
}
