//! Walks a store: lock, format, manifest, segments, write-ahead log, requests for deletion.

use std::io;
use std::path::{Path, PathBuf};

use logsvc_runtime::Runtime;
use logsvc_store::{Store, StoreError};

use crate::ledger::{LedgerError, Mark, peek};
use crate::manifest::{
    CHECKPOINT_NAME, FooterRecord, FoundSegment, LiveFiles, LiveSegment, Unlisted, UnlistedKind,
    find_unlisted, lost_edits, path_of, read_manifest, survey_segments,
};
use crate::node::{FORMAT, is_newer};
use crate::sealed::verify_tail;
use crate::types::StreamPartitions;
use crate::wal::covers::FileCovers;
use crate::wal::format::WalName;

use super::bundles::check_bundles;
use super::left::{foreign_parts, left_by_segment};
use super::requests::check_requests;
use super::segment::{Expected, check_segment};
use super::source::{PATIENCE, Source};
use super::stored::StoredSegments;
use super::wal::{LogFile, check_wal};
use super::{CheckReport, Severity};

/// Why a store cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// A process uses it.
    #[error("the data folder {0} is in use; stop the server first")]
    InUse(PathBuf),
    /// The folder is no data folder, or one of another version.
    #[error("{0} is not a data folder of this version: {1}")]
    NotAStore(PathBuf, String),
    /// The bucket has no store.
    #[error("there is no store of logsvc in {0}: are the bucket and its prefix right?")]
    NoStore(String),
    /// The bucket is not that of the folder.
    #[error("the data folder {folder} is of another bucket or prefix than {bucket}")]
    OtherBucket {
        /// The folder.
        folder: PathBuf,
        /// The bucket.
        bucket: String,
    },
    /// The bucket does not answer as it should.
    #[error("cannot read the bucket: {0}")]
    Bucket(#[from] LedgerError),
    /// Something cannot be read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The folder or the file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl From<StoreError> for CheckError {
    fn from(error: StoreError) -> CheckError {
        CheckError::Bucket(error.into())
    }
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
    check_store_with(runtime, data_dir, None).await
}

/// The same. Segments that are in the bucket only are verified there, if there is one.
///
/// # Errors
/// As for [`check_store`]; or the bucket does not answer, or is not that of the folder.
pub async fn check_store_with<R: Runtime>(
    runtime: &R,
    data_dir: &Path,
    store: Option<&Store<R>>,
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
    let has_segments = !survey.segments.is_empty() || !survey.pending.is_empty();
    let manifest = read_manifest(runtime, &segments_dir, survey.logs.clone(), has_segments).await;
    let mut manifest = manifest.map_err(cannot_read(&segments_dir.join(CHECKPOINT_NAME)))?;
    let mark = Mark::read(runtime, data_dir).await.map_err(cannot_read(data_dir))?;
    let mut stored = None;
    if let Some(mark) = mark {
        if let Some(store) = store {
            check_owner(runtime, data_dir, store, &mark).await?;
            stored = Some(StoredSegments::new(runtime, store));
        }
        // The files of any of them may have gone, since the bucket has them.
        manifest.stored = manifest.live.keys().copied().collect();
    }
    let unlisted = find_unlisted(runtime, &segments_dir, &survey, &manifest).await;
    let unlisted = unlisted.map_err(cannot_read(&segments_dir))?;
    let is_known = manifest.unknown.is_empty();
    if manifest.damage.is_empty() && is_known {
        manifest.damage = lost_edits(&unlisted, &manifest);
    }
    manifest.unknown.iter().for_each(|unknown| report.other_version(unknown));
    for damage in &manifest.damage {
        report.damage(&segments_dir.join(&damage.file), damage.offset, &damage.what);
    }
    if manifest.torn_edits > 0 {
        let what = format!("{} edits were cut short by a crash", manifest.torn_edits);
        report.note(&segments_dir, 0, what);
    }
    for path in &survey.temporary {
        report.note(path, 0, "the left-over of a write that did not end");
    }
    for path in &survey.strangers {
        report.note(path, 0, "not a file of the store");
    }
    tell_unlisted(runtime, &segments_dir, unlisted, is_known, &mut report).await?;
    let files = LiveFiles::new(&manifest, &survey);
    let left = left_by_segment(&manifest);
    // A manifest that has lost edits may have lost the edit that makes a segment live.
    let unknown = left.keys().filter(|name| !manifest.live.contains_key(name));
    for name in unknown.filter(|_| manifest.damage.is_empty()) {
        let what = format!("streams are said to have left {}, which is not live", name.file_name());
        report.damage(&segments_dir, 0, what);
    }
    for name in &manifest.wrong_footers {
        let what = format!(
            "the manifest has a footer of {} that does not check or does not fit its record; that \
             of the file counts",
            name.file_name()
        );
        report.damage(&segments_dir, 0, what);
    }
    let none = StreamPartitions::default();
    for segment in manifest.live.values() {
        report.segments += 1;
        let is_of = |found: &&FoundSegment| (found.name, found.day) == (segment.name, segment.day);
        let is_pending = survey.pending.iter().find(is_of).is_some()
            && survey.segments.iter().find(is_of).is_none();
        let path = if is_pending {
            segment.name.pending_path(&segments_dir, segment.day)
        } else {
            segment.name.path(&segments_dir, segment.day)
        };
        if is_pending {
            report.note(&path, 0, "a live segment that the next start gives its name");
        }
        let left = left.get(&segment.name).unwrap_or(&none);
        for what in foreign_parts(segment.name, left) {
            report.damage(&path, 0, what);
        }
        let has_file = is_pending || survey.segments.iter().any(|found| is_of(&found));
        match files.len_bytes(segment) {
            Some(_) if !has_file => {
                let footer = manifest.footers.get(&segment.name);
                if survey.tails.iter().any(|found| is_of(&found)) {
                    check_tail(runtime, &segments_dir, segment, footer, &mut report).await;
                }
                match &mut stored {
                    Some(stored) => {
                        let expected = Expected { live: segment, footer, left };
                        stored.check(expected, &mut report).await?;
                    }
                    None => {
                        let what = "a segment that is in the bucket only, and is not checked";
                        report.note(&path, 0, what);
                        report.unchecked_segments += 1;
                    }
                }
            }
            None => report.damage(&path, 0, MISSING),
            Some(len) if len != segment.file_len => {
                let what = format!("the segment has {len} bytes instead of {}", segment.file_len);
                report.damage(&path, len, what);
            }
            Some(_) => {
                let footer = manifest.footers.get(&segment.name);
                let expected = Expected { live: segment, footer, left };
                let source = Source::file(runtime, &path).await;
                check_segment(runtime, &path, source, expected, &mut report).await?;
            }
        }
    }
    if let Some(stored) = stored {
        stored.settle(&mut report).await?;
    }
    check_bundles(runtime, &segments_dir, &mut report).await;
    let covers = if manifest.damage.is_empty() && is_known { manifest.covers } else { Vec::new() };
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
    check_requests(runtime, data_dir, &mut report).await;
    list_quarantine(runtime, data_dir, &mut report).await;
    Ok(report)
}

/// The advice about a segment that is not there.
const MISSING: &str = "the segment is missing; a copy that is put back is live again. If the \
                       manifest has lost edits, it may have been merged: then its entries are in \
                       a segment that no edit names";

/// Tells of segments that the manifest does not name, and how the next start treats them.
/// `is_known` says whether all of the manifest is of a version that can be read.
async fn tell_unlisted<R: Runtime>(
    runtime: &R,
    segments_dir: &Path,
    unlisted: Vec<Unlisted>,
    is_known: bool,
    report: &mut CheckReport,
) -> Result<(), CheckError> {
    for file in unlisted {
        let path = path_of(segments_dir, &file.found, file.is_pending);
        match file.kind {
            UnlistedKind::Removed => report.note(
                &path,
                0,
                "a segment that is not live any more; the next start removes it",
            ),
            UnlistedKind::Unborn(_) => report.note(
                &path,
                0,
                "a segment that has never been live; the next start removes it if what it was \
                 made of is there, and reads it otherwise",
            ),
            UnlistedKind::Lost(_) if !is_known => {
                report.note(&path, 0, "a segment; what this program can read does not name it");
            }
            UnlistedKind::Lost(segment) => {
                let what = format!(
                    "no edit of the manifest names this segment of {} entries, which may be \
                     nowhere else; the next start reads it. To be rid of it, move it away",
                    segment.entries
                );
                report.damage(&path, 0, what);
                let none = StreamPartitions::default();
                let expected = Expected { live: &segment, footer: None, left: &none };
                let source = Source::file(runtime, &path).await;
                check_segment(runtime, &path, source, expected, report).await?;
            }
            UnlistedKind::Misplaced => report.damage(
                &path,
                0,
                "another file has the name of this segment and is live; the next start moves this \
                 one to segments/quarantine",
            ),
            UnlistedKind::Unreadable(what) => {
                let what = format!(
                    "no edit of the manifest names this segment, and it cannot be read ({what}); \
                     the next start moves it to segments/quarantine"
                );
                report.damage(&path, 0, what);
            }
            UnlistedKind::OtherVersion(unknown) => report.other_version(&unknown),
        }
    }
    Ok(())
}

/// Verifies that a folder is of a bucket.
async fn check_owner<R: Runtime>(
    runtime: &R,
    data_dir: &Path,
    store: &Store<R>,
    mark: &Mark,
) -> Result<(), CheckError> {
    let bucket = store.address().to_owned();
    match peek(store, None, runtime.now().after(PATIENCE)).await? {
        None => Err(CheckError::NoStore(bucket)),
        Some(peeked) if peeked.cluster.id != mark.cluster => {
            Err(CheckError::OtherBucket { folder: data_dir.to_owned(), bucket })
        }
        Some(_) => Ok(()),
    }
}

/// Verifies the end of a segment whose own file is not kept.
async fn check_tail<R: Runtime>(
    runtime: &R,
    segments_dir: &Path,
    segment: &LiveSegment,
    footer: Option<&FooterRecord>,
    report: &mut CheckReport,
) {
    report.tails += 1;
    let path = segment.name.tail_path(segments_dir, segment.day);
    match verify_tail(runtime, &path, segment, footer).await {
        Ok(len_bytes) => report.read_bytes += len_bytes,
        Err(error) => {
            let what = format!("{error}; remove the file: the bucket has its bytes");
            report.damage(&path, 0, what);
        }
    }
}

async fn check_format<R: Runtime>(runtime: &R, data_dir: &Path) -> Result<(), CheckError> {
    let path = data_dir.join("FORMAT");
    match runtime.read_file(&path, 4096).await {
        Ok(found) if found == FORMAT => Ok(()),
        Ok(found) => {
            let found = String::from_utf8_lossy(&found);
            let by = if is_newer(found.trim_end()) { "a newer version" } else { "another program" };
            let says = format!("written by {by}: FORMAT says {:?}", found.trim_end());
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
                    let what = format!(
                        "{} bytes that an earlier start could not use; no start removes them, so \
                         remove the file when nobody needs it",
                        entry.len_bytes
                    );
                    report.note(&folder.join(entry.name), 0, what);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => report.find(Severity::Note, &folder, 0, format!("cannot list: {error}")),
        }
    }
}
