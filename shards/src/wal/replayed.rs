//! Removes log files once their entries are in live segments.
//!
//! Several shards may have replayed a file of an earlier start. It goes when the last one of them
//! has sealed its entries. A removal that fails is logged, and tried again with each further
//! generation that a shard seals.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use logsvc_runtime::Runtime;

use super::covers::{Cover, FileCovers};
use super::format::WalName;
use super::planned::PlannedFile;
use super::recovery::ReplayTask;
use crate::types::Layout;

/// The files that a start replays. All shards share it.
#[derive(Debug, Default)]
pub struct ReplayedFiles {
    layout: Layout,
    files: Vec<ReplayedFile>,
    /// Which shards have released theirs.
    released: Vec<AtomicBool>,
}

#[derive(Debug)]
struct ReplayedFile {
    name: WalName,
    covers: FileCovers,
    /// The number of shards that have not released it yet.
    waits_for: AtomicU32,
    /// Whether it holds damaged bytes of which there is no copy.
    keeps_bytes: AtomicBool,
    /// Whether it could not be removed.
    is_left: AtomicBool,
}

impl ReplayedFile {
    async fn remove<R: Runtime>(&self, runtime: &R, wal_dir: &Path) {
        let is_gone = remove_file(runtime, wal_dir, self.name).await;
        self.is_left.store(!is_gone, Ordering::Release);
    }
}

impl ReplayedFiles {
    /// The files of a plan for a start with this layout.
    pub(crate) fn new(files: &[PlannedFile], covers: &[Cover], layout: Layout) -> ReplayedFiles {
        let file = |planned: &PlannedFile| {
            let name = planned.name;
            let covers = FileCovers::of(covers, name);
            let reads = |shard: &u16| ReplayTask::reads(name, &covers, *shard, layout);
            let waits_for = AtomicU32::new((0..layout.cores()).filter(reads).count() as u32);
            let [keeps_bytes, is_left] = [AtomicBool::new(false), AtomicBool::new(false)];
            ReplayedFile { name, covers, waits_for, keeps_bytes, is_left }
        };
        ReplayedFiles {
            layout,
            files: files.iter().map(file).collect(),
            released: (0..layout.cores()).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    fn of_shard(&self, shard: u16) -> impl Iterator<Item = &ReplayedFile> {
        self.files
            .iter()
            .filter(move |file| ReplayTask::reads(file.name, &file.covers, shard, self.layout))
    }

    /// The covers of a shard when everything that it has replayed is in live segments; for the
    /// first edit of the manifest after recovery. Empty if it had nothing to replay. A shard whose
    /// replay gave no entries may append these covers at once.
    pub fn covers_of(&self, shard: u16) -> Vec<Cover> {
        let mut covers: Vec<Cover> = Vec::new();
        for file in self.of_shard(shard) {
            let name = file.name;
            let cover = Cover {
                wal_epoch: name.epoch,
                wal_shards: name.shards,
                wal_shard: name.shard,
                up_to_index: name.index,
                part: self.layout.part_of(shard),
            };
            let same = |c: &&mut Cover| Cover { up_to_index: name.index, ..**c } == cover;
            match covers.iter_mut().find(same) {
                Some(known) => known.up_to_index = known.up_to_index.max(name.index),
                None => covers.push(cover),
            }
        }
        covers
    }

    /// Tells that the edit with [`ReplayedFiles::covers_of`] the shard is in force, and removes the
    /// files that no other shard needs. Repeated calls try again what has failed.
    pub async fn release<R: Runtime>(&self, runtime: &R, wal_dir: &Path, shard: u16) {
        let Some(released) = self.released.get(usize::from(shard)) else { return };
        if released.swap(true, Ordering::AcqRel) {
            for file in self.files.iter() {
                if file.is_left.swap(false, Ordering::AcqRel) {
                    file.remove(runtime, wal_dir).await;
                }
            }
            return;
        }
        for file in self.of_shard(shard) {
            if file.waits_for.fetch_sub(1, Ordering::AcqRel) != 1 {
                continue;
            }
            if file.keeps_bytes.load(Ordering::Acquire) {
                quarantine_file(runtime, wal_dir, file.name).await;
            } else {
                file.remove(runtime, wal_dir).await;
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

/// Removes a log file; a failure is logged. Gives whether it is gone.
pub(crate) async fn remove_file<R: Runtime>(runtime: &R, wal_dir: &Path, name: WalName) -> bool {
    let path = wal_dir.join(name.file_name());
    match runtime.remove_file(&path).await {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => {
            tracing::warn!(
                %error, file = %path.display(),
                "cannot remove a log file that is not needed any more; it is tried again later"
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

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::sync::Arc;

    use logsvc_runtime::sim::{DiskOperation, Simulation};

    use super::*;
    use crate::types::Part;
    use crate::wal::SyncPolicy;
    use crate::wal::files::LogFiles;

    const WAL_DIR: &str = "/wal";

    fn name(shards: u32, shard: u32, index: u32) -> WalName {
        WalName { epoch: 4, shards, shard, index }
    }

    /// A disk with these files, and the plan of a start with this layout.
    fn plan(names: &[WalName], covers: &[Cover], shards: u16) -> (Simulation, Arc<ReplayedFiles>) {
        let simulation = Simulation::new(1);
        let files = names.iter().map(|name| PlannedFile::of_damaged(*name));
        let files: Vec<PlannedFile> = files.collect();
        for name in names {
            simulation.disk().write(Path::new(WAL_DIR).join(name.file_name()), b"log");
        }
        simulation.disk().write("/wal/quarantine/other", b"");
        (simulation, Arc::new(ReplayedFiles::new(&files, covers, Layout::of_cores(shards))))
    }

    fn release(simulation: &Simulation, files: &Arc<ReplayedFiles>, shard: u16) -> Vec<String> {
        let files = Arc::clone(files);
        simulation.block_on(move |runtime| async move {
            files.release(&runtime, Path::new(WAL_DIR), shard).await;
        });
        let left = simulation.disk().files(WAL_DIR);
        let left = left.iter().filter(|path| path.extension().is_some());
        left.map(|path| path.strip_prefix(WAL_DIR).unwrap().display().to_string()).collect()
    }

    #[test]
    fn a_file_goes_when_the_last_shard_that_reads_it_has_released_it() {
        // Three shards where there were two, and a file that shard 1 alone reads.
        let names = [name(2, 0, 0), name(2, 1, 0), name(3, 1, 5)];
        let (simulation, files) = plan(&names, &[], 3);
        assert_eq!(release(&simulation, &files, 2).len(), 3);
        assert_eq!(release(&simulation, &files, 2).len(), 3, "twice is once");
        let of_old = |left: Vec<String>| left == [names[0].file_name(), names[1].file_name()];
        assert!(of_old(release(&simulation, &files, 1)));
        assert!(release(&simulation, &files, 0).is_empty());
        assert!(release(&simulation, &files, 9).is_empty(), "no such shard");
    }

    #[test]
    fn covers_reach_as_far_as_a_shard_has_read() {
        let names = [name(2, 0, 0), name(2, 0, 3), name(2, 1, 1), name(3, 1, 5)];
        let (_, files) = plan(&names, &[], 3);
        let cover = |wal_shards, wal_shard, up_to_index, by_shard| Cover {
            wal_epoch: 4,
            wal_shards,
            wal_shard,
            up_to_index,
            part: Part::one(3, by_shard),
        };
        assert_eq!(files.covers_of(0), [cover(2, 0, 3, 0), cover(2, 1, 1, 0)]);
        assert_eq!(files.covers_of(1), [cover(2, 0, 3, 1), cover(2, 1, 1, 1), cover(3, 1, 5, 1)]);
        // The covers of all shards together cover the files.
        let all: Vec<Cover> = (0..3).flat_map(|shard| files.covers_of(shard)).collect();
        for name in names {
            assert!(FileCovers::of(&all, name).covers_file(name));
        }
    }

    #[test]
    fn a_shard_that_has_nothing_to_replay_of_a_file_holds_nothing_up() {
        let old = name(2, 0, 0);
        let covered = |by_shard| Cover {
            wal_epoch: 4,
            wal_shards: 2,
            wal_shard: 0,
            up_to_index: 0,
            part: Part::one(3, by_shard),
        };
        // Shard 1 has sealed its part in an earlier start; shard 0 has, too, but mends.
        let (simulation, files) = plan(&[old], &[covered(0), covered(1)], 3);
        assert_eq!(files.covers_of(1), []);
        assert_eq!(release(&simulation, &files, 2).len(), 1);
        assert_eq!(release(&simulation, &files, 1).len(), 1);
        assert!(release(&simulation, &files, 0).is_empty());
    }

    #[test]
    fn damaged_bytes_without_a_copy_are_kept() {
        let names = [name(1, 0, 0), name(1, 0, 1)];
        let (simulation, files) = plan(&names, &[], 1);
        files.keep_bytes(names[0]);
        let kept = format!("quarantine/{}", names[0].file_name());
        assert_eq!(release(&simulation, &files, 0), [kept]);
    }

    #[test]
    fn what_cannot_be_removed_is_left_and_keeps_nothing_else() {
        let names = [name(1, 0, 0), name(1, 0, 1)];
        let (simulation, files) = plan(&names, &[], 1);
        simulation.disk().fail_next(DiskOperation::Remove, "/wal", 1);
        assert_eq!(release(&simulation, &files, 0), [names[0].file_name()]);
        assert!(release(&simulation, &files, 0).is_empty(), "it is tried again");
        simulation.block_on(|runtime| async move {
            // Index 1 is gone already, and 2 never was.
            let folder = Path::new(WAL_DIR).to_owned();
            let files = Rc::new(LogFiles::new(runtime, folder, SyncPolicy::Always));
            files.release(name(1, 0, 0), 2).await;
        });
        assert_eq!(simulation.disk().files(WAL_DIR).len(), 1, "only the quarantine folder's");
    }
}
