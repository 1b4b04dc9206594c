//! Walks a store: lock, format, manifest, segments, write-ahead log.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use logsvc_runtime::Runtime;

use crate::manifest::{CHECKPOINT_NAME, FileCovers, StreamParts, read_manifest, survey_segments};
use crate::node::FORMAT;
use crate::wal::format::WalName;

use super::left::{left_by_segment, strangers};
use super::segment::check_segment;
use super::wal::{LogFile, check_wal};
use super::{CheckReport, Severity};

/// Why a store cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// A process uses it.
    #[error("the data folder {0} is in use; stop the server first")]
    InUse(PathBuf),
    /// It is none, or one of another version.
    #[error("{0} is not a data folder of this version: {1}")]
    NotAStore(PathBuf, String),
    /// Something cannot be read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// What.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

fn cannot_read(path: &Path) -> impl FnOnce(io::Error) -> CheckError {
    let path = path.to_path_buf();
    move |source| CheckError::Io { path, source }
}

/// Verifies everything in the data folder of a stopped node.
///
/// # Errors
/// The folder is in use, is no data folder, or a folder or the manifest cannot be read.
/// A segment or a log file that cannot be read is a finding.
pub async fn check_store<R: Runtime>(
    runtime: &R,
    data_dir: &Path,
) -> Result<CheckReport, CheckError> {
    check_format(runtime, data_dir).await?;
    let lock_path = data_dir.join("LOCK");
    let _lock = runtime.lock_file(&lock_path).await.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => CheckError::InUse(data_dir.to_owned()),
        _ => cannot_read(&lock_path)(error),
    })?;
    let mut report = CheckReport::default();
    let segments_dir = data_dir.join("segments");
    let survey = match survey_segments(runtime, &segments_dir).await {
        Ok(survey) => survey,
        // A store of a version that had no segments.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Default::default(),
        Err(error) => return Err(cannot_read(&segments_dir)(error)),
    };
    let has_segments = !survey.segments.is_empty();
    let manifest = read_manifest(runtime, &segments_dir, survey.logs, has_segments).await;
    let manifest = manifest.map_err(cannot_read(&segments_dir.join(CHECKPOINT_NAME)))?;
    for damage in &manifest.damage {
        report.damage(&segments_dir.join(&damage.file), damage.offset, &damage.what);
    }
    if manifest.torn_edits > 0 {
        let what = format!("{} edits were cut short by a crash", manifest.torn_edits);
        report.note(&segments_dir, 0, what);
    }
    for path in survey.temporary {
        report.note(&path, 0, "the left-over of a write that did not end");
    }
    for path in survey.strangers {
        report.note(&path, 0, "not a file of the store");
    }
    let mut found = BTreeMap::new();
    for file in survey.segments {
        let is_live = manifest.live.get(&file.name).is_some_and(|live| live.day == file.day);
        if is_live {
            found.insert(file.name, file.len_bytes);
        } else {
            let path = file.name.path(&segments_dir, file.day);
            report.note(&path, 0, "a segment that is not live");
        }
    }
    let left = left_by_segment(&manifest);
    // What has lost edits may have lost that a segment is live.
    let unknown = left.keys().filter(|name| !manifest.live.contains_key(name));
    for name in unknown.filter(|_| manifest.damage.is_empty()) {
        let what = format!("streams are said to have left {}, which is not live", name.file_name());
        report.damage(&segments_dir, 0, what);
    }
    let none = StreamParts::default();
    for segment in manifest.live.values() {
        report.segments += 1;
        let path = segment.name.path(&segments_dir, segment.day);
        let left = left.get(&segment.name).unwrap_or(&none);
        for what in strangers(segment.name, left) {
            report.damage(&path, 0, what);
        }
        match found.get(&segment.name) {
            None => report.damage(&path, 0, "the segment is missing"),
            Some(len) if *len != segment.file_len => {
                let what = format!("the segment has {len} bytes instead of {}", segment.file_len);
                report.damage(&path, *len, what);
            }
            Some(_) => check_segment(runtime, &path, segment, left, &mut report).await,
        }
    }
    let covers = if manifest.damage.is_empty() { manifest.covers } else { Vec::new() };
    let wal_dir = data_dir.join("wal");
    let mut files = Vec::new();
    let entries = match runtime.read_dir(&wal_dir).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            report.damage(&wal_dir, 0, "the folder is missing");
            Vec::new()
        }
        other => other.map_err(cannot_read(&wal_dir))?,
    };
    for entry in entries.into_iter().filter(|entry| !entry.is_dir) {
        let path = wal_dir.join(&entry.name);
        match WalName::parse(&entry.name) {
            Some(name) => files.push(LogFile {
                path,
                name,
                len_bytes: entry.len_bytes,
                is_covered: FileCovers::of(&covers, name).covers_file(name),
            }),
            None if entry.name.ends_with(".tmp") => {
                report.note(&path, 0, "the left-over of a write that did not end");
            }
            None => report.note(&path, 0, "not a file of the store"),
        }
    }
    check_wal(runtime, files, &mut report).await;
    list_quarantine(runtime, data_dir, &mut report).await;
    Ok(report)
}

async fn check_format<R: Runtime>(runtime: &R, data_dir: &Path) -> Result<(), CheckError> {
    let path = data_dir.join("FORMAT");
    match runtime.read_file(&path, 4096).await {
        Ok(found) if found == FORMAT => Ok(()),
        Ok(found) => {
            let says = format!("FORMAT says {:?}", String::from_utf8_lossy(&found).trim_end());
            Err(CheckError::NotAStore(data_dir.to_owned(), says))
        }
        Err(error) => Err(CheckError::NotAStore(data_dir.to_owned(), format!("FORMAT: {error}"))),
    }
}

/// Tells of damage that earlier starts have met.
async fn list_quarantine<R: Runtime>(runtime: &R, data_dir: &Path, report: &mut CheckReport) {
    for folder in ["wal/quarantine", "segments/quarantine"] {
        let folder = data_dir.join(folder);
        match runtime.read_dir(&folder).await {
            Ok(entries) => {
                for entry in entries {
                    report.note(&folder.join(entry.name), 0, "damage that an earlier start met");
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => report.find(Severity::Note, &folder, 0, format!("cannot list: {error}")),
        }
    }
}
