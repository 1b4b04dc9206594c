//! Removes log files once their entries are in live segments.
//!
//! A file of an earlier start may have been replayed by several shards. It goes when
//! the last of them has sealed what it took from it. What can go wrong is a removal:
//! that is logged, and the next start tries again.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use logsvc_runtime::Runtime;

use crate::manifest::{Cover, FileCovers};

use super::format::WalName;
use super::recovery::{PlannedFile, ReplayTask};

/// The files that a start replays. All shards share it.
#[derive(Debug, Default)]
pub struct ReplayedFiles {
    shards: u16,
    files: Vec<ReplayedFile>,
    /// Which shards have released theirs.
    released: Vec<AtomicBool>,
}

#[derive(Debug)]
struct ReplayedFile {
    name: WalName,
    covers: FileCovers,
    /// How many shards have not released it yet.
    waits_for: AtomicU32,
    /// Whether it holds damaged bytes of which there is no copy.
    keeps_bytes: AtomicBool,
}

impl ReplayedFiles {
    /// The files of a plan for a start with this many shards.
    pub(crate) fn new(files: &[PlannedFile], covers: &[Cover], shards: u16) -> ReplayedFiles {
        let file = |planned: &PlannedFile| {
            let name = planned.name;
            let covers = FileCovers::of(covers, name);
            let reads = |shard: &u16| ReplayTask::reads(name, &covers, *shard, shards);
            let waits_for = AtomicU32::new((0..shards).filter(reads).count() as u32);
            ReplayedFile { name, covers, waits_for, keeps_bytes: AtomicBool::new(false) }
        };
        ReplayedFiles {
            shards,
            files: files.iter().map(file).collect(),
            released: (0..shards).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    fn of_shard(&self, shard: u16) -> impl Iterator<Item = &ReplayedFile> {
        self.files
            .iter()
            .filter(move |file| ReplayTask::reads(file.name, &file.covers, shard, self.shards))
    }

    /// What a shard covers when everything that it has replayed is in live segments; for
    /// the first edit of the manifest after recovery. Empty if it had nothing to replay.
    /// A shard whose replay gave no entries may append these covers at once.
    pub fn covers_of(&self, shard: u16) -> Vec<Cover> {
        let mut covers: Vec<Cover> = Vec::new();
        for file in self.of_shard(shard) {
            let name = file.name;
            let cover = Cover {
                wal_epoch: name.epoch,
                wal_shards: name.shards,
                wal_shard: name.shard,
                up_to_index: name.index,
                by_shards: self.shards,
                by_shard: shard,
            };
            let same = |c: &&mut Cover| Cover { up_to_index: name.index, ..**c } == cover;
            match covers.iter_mut().find(same) {
                Some(known) => known.up_to_index = known.up_to_index.max(name.index),
                None => covers.push(cover),
            }
        }
        covers
    }

    /// Tells that the edit with [`ReplayedFiles::covers_of`] the shard is in force, and
    /// removes the files that no other shard still needs. Repeated calls do nothing.
    pub async fn release<R: Runtime>(&self, runtime: &R, wal_dir: &Path, shard: u16) {
        let Some(released) = self.released.get(usize::from(shard)) else { return };
        if released.swap(true, Ordering::AcqRel) {
            return;
        }
        for file in self.of_shard(shard) {
            if file.waits_for.fetch_sub(1, Ordering::AcqRel) != 1 {
                continue;
            }
            if file.keeps_bytes.load(Ordering::Acquire) {
                quarantine_file(runtime, wal_dir, file.name).await;
            } else {
                remove_file(runtime, wal_dir, file.name).await;
            }
        }
    }

    /// Notes that a file holds damaged bytes that could not be copied, so that the file
    /// itself is kept.
    pub(super) fn keep_bytes(&self, name: WalName) {
        let file = self.files.iter().find(|file| file.name == name);
        if let Some(file) = file {
            file.keeps_bytes.store(true, Ordering::Release);
        }
    }
}

/// Removes the files of this start's writer from `first` up to `last_index`, after an
/// edit that covers them is in force. Names that are not there are passed over.
pub async fn remove_own_files<R: Runtime>(
    runtime: &R,
    wal_dir: &Path,
    first: WalName,
    last_index: u32,
) {
    // Oldest first: a file says how much of the one before it counts.
    for index in first.index..=last_index {
        remove_file(runtime, wal_dir, WalName { index, ..first }).await;
    }
}

/// Removes a log file; a failure is logged. Gives whether it is gone.
pub(crate) async fn remove_file<R: Runtime>(runtime: &R, wal_dir: &Path, name: WalName) -> bool {
    let path = wal_dir.join(name.file_name());
    match runtime.remove_file(&path).await {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => {
            tracing::warn!(
                %error, file = %path.display(),
                "cannot remove a log file that is not needed any more; the next start tries again"
            );
            false
        }
    }
}

/// Moves a file to the quarantine folder, which takes no space on a full disk.
async fn quarantine_file<R: Runtime>(runtime: &R, wal_dir: &Path, name: WalName) {
    let path = wal_dir.join(name.file_name());
    let target = wal_dir.join("quarantine").join(name.file_name());
    match runtime.rename(&path, &target).await {
        Ok(()) => tracing::warn!(
            file = %path.display(), to = %target.display(),
            "moved a log file with damaged bytes of which there is no copy"
        ),
        Err(error) => tracing::error!(
            %error, file = %path.display(),
            "cannot move a log file with damaged bytes out of the way"
        ),
    }
}
