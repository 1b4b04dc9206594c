//! Makes a backup beside a running node.
//!
//! The order matters. The record of requests comes first, see the module above. Then segments are
//! linked, the files of the manifest are copied, and segments are linked once more: those that
//! became live meanwhile. A segment that the copied manifest calls live and that is not there was
//! merged or has expired between, so the manifest is copied again. Edits of different shards need no
//! common moment. A copied log of the manifest may end in a part of an edit, as after a crash.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use logsvc_runtime::Runtime;

use super::copy::{copy_file, link_or_copy};
use super::{BACKUPS, BackupError, FORMAT_FILE, check_name, folders, io_error};
use crate::manifest::{
    FoundSegment, ManifestState, SegmentName, is_manifest_file, path_of, read_manifest,
    survey_segments,
};
use crate::node::FORMAT;

/// How often the manifest is copied before it is given up.
const ROUNDS: usize = 50;

/// A live segment that is in no folder in so many rounds is lost in the node, too.
const LOST_AFTER_ROUNDS: usize = 5;

/// A backup that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Segments in it.
    pub segments: u64,
    /// Entries in them.
    pub entries: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Segments that the node has lost: they are live, and their files are not there.
    pub missing_segments: u64,
}

/// Makes a backup of this name. Entries in memory are not in it. One at a time.
///
/// # Errors
/// See [`BackupError`].
pub async fn take<R: Runtime>(
    runtime: &R,
    data_dir: &Path,
    name: &str,
) -> Result<Backup, BackupError> {
    check_name(name)?;
    if folders(runtime, data_dir).await?.iter().any(|(of, ..)| of == name) {
        return Err(BackupError::Exists(name.to_owned()));
    }
    let backups = data_dir.join(BACKUPS);
    let folder = backups.join(name);
    for path in [folder.join("wal"), folder.join("segments")] {
        runtime.create_dir_all(&path).await.map_err(io_error("make", &path))?;
    }
    copy_folder(runtime, data_dir, &folder, "deletes").await?;
    copy_folder(runtime, data_dir, &folder, "rules/state").await?;
    copy_tenants(runtime, data_dir, &folder, "rules/groups").await?;
    let (state, missing) = Segments::new(runtime, data_dir, &folder).take().await?;
    copy_if_there(runtime, &data_dir.join("CLOCK"), &folder.join("CLOCK")).await?;
    for path in [folder.as_path(), &backups, data_dir] {
        runtime.sync_dir(path).await.map_err(io_error("sync", path))?;
    }
    let format = folder.join(FORMAT_FILE);
    let written = runtime.replace_file(&format, FORMAT.to_vec()).await;
    written.map_err(io_error("write", &format))?;
    let there = || state.live.values().filter(|segment| !missing.contains(&segment.name));
    Ok(Backup {
        name: name.to_owned(),
        folder,
        segments: there().count() as u64,
        entries: there().map(|segment| segment.entries).sum(),
        bytes: there().map(|segment| segment.file_len).sum(),
        missing_segments: missing.len() as u64,
    })
}

/// Copies the files of a folder, if it is there.
async fn copy_folder<R: Runtime>(
    runtime: &R,
    data_dir: &Path,
    to: &Path,
    name: &str,
) -> Result<(), BackupError> {
    let (from, to) = (data_dir.join(name), to.join(name));
    let entries = match runtime.read_dir(&from).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(io_error("list", &from))?,
    };
    runtime.create_dir_all(&to).await.map_err(io_error("make", &to))?;
    for entry in entries.iter().filter(|entry| !entry.is_dir && !entry.name.ends_with(".tmp")) {
        copy_if_there(runtime, &from.join(&entry.name), &to.join(&entry.name)).await?;
    }
    // The folder, and its name in the one above.
    for path in to.ancestors().take(1 + Path::new(name).components().count()) {
        runtime.sync_dir(path).await.map_err(io_error("sync", path))?;
    }
    Ok(())
}

/// Copies the folders of a folder.
async fn copy_tenants<R: Runtime>(
    runtime: &R,
    data_dir: &Path,
    to: &Path,
    name: &str,
) -> Result<(), BackupError> {
    let from = data_dir.join(name);
    let entries = match runtime.read_dir(&from).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(io_error("list", &from))?,
    };
    for tenant in entries.iter().filter(|entry| entry.is_dir) {
        copy_folder(runtime, data_dir, to, &format!("{name}/{}", tenant.name)).await?;
    }
    Ok(())
}

async fn copy_if_there<R: Runtime>(runtime: &R, from: &Path, to: &Path) -> Result<(), BackupError> {
    match copy_file(runtime, from, to).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map(|_| ()).map_err(io_error("copy", from)),
    }
}

/// The segments folder on its way.
struct Segments<'r, R: Runtime> {
    runtime: &'r R,
    from: PathBuf,
    to: PathBuf,
    /// Names that files have in the backup, within its segments folder.
    linked: BTreeSet<PathBuf>,
}

impl<'r, R: Runtime> Segments<'r, R> {
    fn new(runtime: &'r R, data_dir: &Path, folder: &Path) -> Self {
        let (from, to) = (data_dir.join("segments"), folder.join("segments"));
        Segments { runtime, from, to, linked: BTreeSet::new() }
    }

    /// Brings the folder to its end; gives the copied manifest, and the live segments that are
    /// nowhere.
    async fn take(mut self) -> Result<(ManifestState, BTreeSet<SegmentName>), BackupError> {
        let mut before = BTreeSet::new();
        let mut same_rounds = 0;
        for _ in 0..ROUNDS {
            self.link().await?;
            self.copy_manifest().await?;
            self.link().await?;
            let to = &self.to;
            let survey = survey_segments(self.runtime, to).await.map_err(io_error("list", to))?;
            let state = read_manifest(self.runtime, to, survey.logs.clone(), true).await;
            let state = state.map_err(io_error("read the manifest of", to))?;
            if let Some(unknown) = state.unknown.first() {
                return Err(BackupError::Manifest(unknown.what.to_string()));
            }
            let is_there: BTreeSet<SegmentName> =
                survey.segments.iter().chain(&survey.pending).map(|found| found.name).collect();
            let live = state.live.keys().copied();
            let missing: BTreeSet<SegmentName> =
                live.filter(|name| !is_there.contains(name)).collect();
            same_rounds = if missing == before { same_rounds + 1 } else { 0 };
            let is_settled = missing.is_empty() || same_rounds >= LOST_AFTER_ROUNDS;
            // An edit that is under way is no damage the next time.
            if is_settled && (state.damage.is_empty() || same_rounds >= LOST_AFTER_ROUNDS) {
                if let Some(damage) = state.damage.first() {
                    let text =
                        format!("{} at byte {}: {}", damage.file, damage.offset, damage.what);
                    return Err(BackupError::Manifest(text));
                }
                self.finish(&state, &survey.segments, &survey.pending).await?;
                return Ok((state, missing));
            }
            before = missing;
        }
        Err(BackupError::Restless)
    }

    /// Links the segments that are not linked yet.
    async fn link(&mut self) -> Result<(), BackupError> {
        let from = &self.from;
        let survey = survey_segments(self.runtime, from).await.map_err(io_error("list", from))?;
        let complete = survey.segments.iter().map(|found| (found, false));
        for (found, is_pending) in complete.chain(survey.pending.iter().map(|found| (found, true)))
        {
            let name = path_of(Path::new(""), found, is_pending);
            if self.linked.contains(&name) {
                continue;
            }
            let (source, target) = (self.from.join(&name), self.to.join(&name));
            if let Some(day) = target.parent() {
                self.runtime.create_dir_all(day).await.map_err(io_error("make", day))?;
            }
            match link_or_copy(self.runtime, &source, &target).await {
                // It got its name, or is not live any more.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(io_error("link", &source)(error)),
                Ok(()) => {
                    self.linked.insert(name);
                }
            }
        }
        Ok(())
    }

    /// Copies the files of the manifest, over earlier copies.
    async fn copy_manifest(&self) -> Result<(), BackupError> {
        let list = self.runtime.read_dir(&self.to).await;
        for entry in list.map_err(io_error("list", &self.to))? {
            if is_manifest_file(&entry.name) {
                let path = self.to.join(&entry.name);
                self.runtime.remove_file(&path).await.map_err(io_error("remove", &path))?;
            }
        }
        let list = self.runtime.read_dir(&self.from).await;
        for entry in list.map_err(io_error("list", &self.from))? {
            if !entry.is_dir && is_manifest_file(&entry.name) {
                let (from, to) = (self.from.join(&entry.name), self.to.join(&entry.name));
                copy_if_there(self.runtime, &from, &to).await?;
            }
        }
        Ok(())
    }

    /// Removes what is not live, and makes the rest durable.
    async fn finish(
        &self,
        state: &ManifestState,
        segments: &[FoundSegment],
        pending: &[FoundSegment],
    ) -> Result<(), BackupError> {
        let is_live = |found: &FoundSegment| {
            state.live.get(&found.name).is_some_and(|segment| segment.day == found.day)
        };
        let mut days = BTreeSet::new();
        for (found, is_pending) in
            segments.iter().map(|found| (found, false)).chain(pending.iter().map(|p| (p, true)))
        {
            let path = path_of(&self.to, found, is_pending);
            let is_twin = is_pending && segments.iter().any(|one| one.name == found.name);
            if !is_live(found) || is_twin {
                self.runtime.remove_file(&path).await.map_err(io_error("remove", &path))?;
            }
            days.extend(path.parent().map(Path::to_owned));
        }
        for path in days.iter().chain([&self.to]) {
            self.runtime.sync_dir(path).await.map_err(io_error("sync", path))?;
        }
        Ok(())
    }
}
