//! Removes or moves, at a start, the files that are of no use.
//!
//! Guarantees: a file that cannot be removed or moved stays where it is and keeps nothing from going
//! on; the next start meets it again. Damaged files go to the quarantine folder, and none there is
//! written over.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use logsvc_runtime::{File, OpenMode, Runtime};

use super::super::names::{CHECKPOINT_NAME, QUARANTINE_NAME, SegmentName};
use super::super::survey::FoundSegment;
use super::OpenedManifest;

/// A manifest larger than this is not copied to the quarantine folder.
const COPIED_MAX_BYTES: usize = 256 << 20;

impl OpenedManifest {
    /// Forgets segments that are not live any more, once their files are gone for good: a file that
    /// was removed without a sync may be there again after a power loss.
    pub(super) async fn forget_removed<R: Runtime>(&mut self, runtime: &R) {
        let files = self.survey.segments.iter().chain(&self.survey.pending);
        let there: BTreeSet<SegmentName> = files.map(|found| found.name).collect();
        if self.state.removed.iter().all(|name| there.contains(name)) {
            return;
        }
        for day in &self.survey.days {
            let folder = self.segments_dir.join(day.folder_name());
            if let Err(error) = runtime.sync_dir(&folder).await {
                tracing::warn!(%error, folder = %folder.display(), "cannot sync a folder");
                return;
            }
        }
        self.state.removed.retain(|name| there.contains(name));
    }

    /// Syncs the logs that count. The last edits may be in the page cache only, and a file that has
    /// its name must have been live whatever happens.
    ///
    /// # Errors
    /// A log cannot be synced.
    pub(super) async fn sync_logs<R: Runtime>(&self, runtime: &R) -> io::Result<()> {
        for name in &self.state.logs {
            let path = self.segments_dir.join(name.file_name());
            runtime.open(&path, OpenMode::Read).await?.sync_data().await?;
        }
        Ok(())
    }

    /// Removes the logs that the checkpoint contains.
    pub(super) async fn remove_logs<R: Runtime>(&mut self, runtime: &R) {
        let contained = std::mem::take(&mut self.state.contained_logs);
        for name in contained.into_iter().chain(std::mem::take(&mut self.state.logs)) {
            let file_name = name.file_name();
            let path = self.segments_dir.join(&file_name);
            if self.is_damaged(&file_name) || self.state.torn_logs.contains(&name) {
                let target = self.segments_dir.join(QUARANTINE_NAME).join(&file_name);
                if let Err(error) = runtime.rename(&path, &target).await {
                    tracing::warn!(%error, file = %path.display(), "cannot keep a damaged file");
                }
            } else if let Err(error) = runtime.remove_file(&path).await {
                // The old log does not count any more.
                tracing::warn!(%error, file = %path.display(), "cannot remove an old log");
            }
        }
    }

    /// Moves segments to the quarantine folder.
    pub(super) async fn quarantine_segments<R: Runtime>(
        &mut self,
        runtime: &R,
        epoch: u32,
        files: Vec<(PathBuf, FoundSegment)>,
    ) {
        for (path, found) in files {
            // No start has the epoch of another, so nothing is written over.
            let name = format!("{epoch:08x}-{}-{}", found.day, found.name.file_name());
            let target = self.segments_dir.join(QUARANTINE_NAME).join(name);
            match runtime.rename(&path, &target).await {
                Ok(()) => {
                    self.report.quarantined_files += 1;
                    tracing::error!(
                        file = %path.display(), to = %target.display(), len_bytes = found.len_bytes,
                        "moved a file to the quarantine folder"
                    );
                }
                Err(error) => tracing::error!(
                    %error, file = %path.display(), "cannot move a file to the quarantine folder"
                ),
            }
        }
    }

    pub(super) fn is_damaged(&self, file_name: &str) -> bool {
        self.state.damage.iter().any(|damage| damage.file == file_name)
    }

    pub(super) async fn keep_damaged_checkpoint<R: Runtime>(
        &self,
        runtime: &R,
        epoch: u32,
        path: &Path,
    ) {
        let name = format!("{CHECKPOINT_NAME}-{epoch:08x}");
        let copy = self.segments_dir.join(QUARANTINE_NAME).join(name);
        let copied = async {
            let bytes = runtime.read_file(path, COPIED_MAX_BYTES).await?;
            runtime.replace_file(&copy, bytes).await
        };
        match copied.await {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::error!(%error, copy = %copy.display(), "cannot copy a damaged file");
            }
        }
    }

    pub(super) async fn remove_left_overs<R: Runtime>(&mut self, runtime: &R, paths: Vec<PathBuf>) {
        for path in paths {
            match runtime.remove_file(&path).await {
                Ok(()) => {
                    self.report.removed_files += 1;
                    tracing::info!(file = %path.display(), "removed the left-over of a crash");
                }
                Err(error) => {
                    tracing::warn!(%error, file = %path.display(), "cannot remove a left-over");
                }
            }
        }
    }
}
