//! Makes the log files of one shard, and uses them again.
//!
//! A write that extends a file, or fills space that was only allocated, is durable when the file
//! system's journal is. The journal waits for all data that goes with it, among it segments of
//! hundreds of megabytes. A write over bytes that were written before waits for the device alone:
//! while segments are being written, one commit in a thousand takes 8 ms instead of 50 to 70. So a
//! file whose entries are in segments is not removed but becomes the writer's next file. It gets a
//! header and its new name while no commit waits for it. A commit that needs a new file only adds
//! the header's facts about the previous file.
//!
//! Guarantees: an old file gets its new name after its old entries are in live segments and its
//! new header is on stable storage. A crash leaves either a file under its old name, whose
//! entries are all in segments, or a file under its new name without frames. A file is not used
//! again if an operation on it has failed. At most one file per shard is kept, and none when
//! nothing has been written to the log for [`KEPT_FOR`]. If the disk fails, the next file is made
//! anew.
//!
//! Only files of [`SyncPolicy::Always`] are used again; the others wait for nothing.
//!
//! A file that serves again holds bytes of old entries. So no file does while entries are purged,
//! and the file that waits is removed first ([`LogFiles::stop_reuse`]).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use logsvc_runtime::{AlignedBuffer, File, Latch, OpenMode, Runtime};

use super::SyncPolicy;
use super::format::{FileHeader, WalName};
use super::replayed::remove_file;

/// How long a file waits for its use while nothing is written to the log.
const KEPT_FOR: Duration = Duration::from_secs(2);

/// How long after a failure it is tried again to remove files.
const REMOVE_PAUSE: Duration = Duration::from_secs(5);

/// See the module.
pub struct LogFiles<R: Runtime> {
    runtime: R,
    folder: PathBuf,
    sync: SyncPolicy,
    /// Counts the commits.
    commits: Cell<u64>,
    /// Whether files serve again.
    reuses: Cell<bool>,
    state: RefCell<State<R::File>>,
}

struct State<F> {
    /// Files whose operations have all succeeded and whose entries are in no segment yet,
    /// the one in use among them.
    good: Vec<(WalName, Rc<F>)>,
    /// The header of the next file.
    upcoming: Option<FileHeader>,
    ready: Ready<F>,
    /// Files that nothing needs and that could not be removed.
    unremoved: Vec<WalName>,
}

/// The file that serves again.
enum Ready<F> {
    None,
    /// The file is being renamed or removed; the latch tells when that is over.
    Changing(Latch),
    /// The file has this header and name.
    File(FileHeader, Rc<F>),
}

impl<R: Runtime> fmt::Debug for LogFiles<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogFiles").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl<R: Runtime> LogFiles<R> {
    /// The files of a shard in the folder.
    pub fn new(runtime: R, folder: PathBuf, sync: SyncPolicy) -> LogFiles<R> {
        let (good, unremoved) = (Vec::new(), Vec::new());
        let state = State { good, upcoming: None, ready: Ready::None, unremoved };
        let (commits, reuses) = (Cell::new(0), Cell::new(true));
        LogFiles { runtime, folder, sync, commits, reuses, state: RefCell::new(state) }
    }

    /// Where they are.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, name: WalName) -> PathBuf {
        self.folder.join(name.file_name())
    }

    /// Gives a file whose header is on stable storage, and its name too. `next` is the header of
    /// the file after it.
    ///
    /// # Errors
    /// An operation on the disk failed. The name must not be used again.
    pub async fn open(
        self: &Rc<Self>,
        header: FileHeader,
        next: FileHeader,
    ) -> io::Result<Rc<R::File>> {
        // Should this fail, the writer goes on with another name.
        self.state.borrow_mut().upcoming = None;
        let file = match self.take_ready().await {
            Some((ready, file))
                if self.reuses.get()
                    && ready.name == header.name
                    && ready.nonce == header.nonce =>
            {
                let header = FileHeader { is_reused: true, ..header };
                self.written(header, write_header(&*file, header).await.map(|()| file)).await?
            }
            other => {
                if let Some((ready, _)) = other {
                    self.remove(ready.name).await;
                }
                if self.state.borrow().unremoved.contains(&header.name) {
                    // The file of this name goes later.
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                Rc::new(self.create(header).await?)
            }
        };
        let mut state = self.state.borrow_mut();
        state.upcoming = Some(next);
        if self.sync == SyncPolicy::Always {
            state.good.push((header.name, Rc::clone(&file)));
        }
        Ok(file)
    }

    async fn create(self: &Rc<Self>, header: FileHeader) -> io::Result<R::File> {
        let mode = match self.sync {
            SyncPolicy::Always => OpenMode::CreateNewDurable,
            // Writes that are not synced at once need not wait for the device, either.
            SyncPolicy::Interval(_) | SyncPolicy::Never => OpenMode::CreateNew,
        };
        let file = self.runtime.open(&self.path(header.name), mode).await?;
        let written = async {
            write_header(&file, header).await?;
            if mode == OpenMode::CreateNew {
                file.sync_data().await?;
            }
            self.runtime.sync_dir(&self.folder).await
        };
        let written = written.await;
        self.written(header, written.map(|()| file)).await
    }

    /// Passes on a file whose header was written, or removes the unfinished file. Its name is not
    /// used again.
    async fn written<T>(
        self: &Rc<Self>,
        header: FileHeader,
        written: io::Result<T>,
    ) -> io::Result<T> {
        if written.is_err() {
            self.remove(header.name).await;
        }
        written
    }

    /// Takes the file that is ready, after waiting for a file that is changing.
    async fn take_ready(&self) -> Option<(FileHeader, Rc<R::File>)> {
        loop {
            let ready = std::mem::replace(&mut self.state.borrow_mut().ready, Ready::None);
            match ready {
                Ready::None => return None,
                Ready::File(header, file) => return Some((header, file)),
                Ready::Changing(made) => {
                    self.state.borrow_mut().ready = Ready::Changing(made.clone());
                    made.wait().await;
                }
            }
        }
    }

    /// Tells that something was written to the log.
    pub fn committed(&self) {
        self.commits.set(self.commits.get() + 1);
    }

    /// Tells that an operation on a file has failed.
    pub fn give_up(&self, file: &Rc<R::File>) {
        self.state.borrow_mut().good.retain(|(_, good)| !Rc::ptr_eq(good, file));
    }

    /// Tells that live segments hold all entries of the files from `first` up to
    /// `last_index`: one of them becomes the next file if one is needed, the others are
    /// removed. Names that are not there are passed over.
    pub async fn release(self: &Rc<Self>, first: WalName, last_index: u32) {
        // Oldest first: a file says how much of the one before it counts.
        for index in first.index..=last_index {
            let name = WalName { index, ..first };
            match self.claim(name) {
                Some((file, header, made)) => {
                    self.make_ready(name, file, header, made).await;
                    drop(self.runtime.spawn(Rc::clone(self).give_back_when_idle(header.name)));
                }
                None => self.remove(name).await,
            }
        }
    }

    /// Removes a file, now or as soon as the disk allows.
    async fn remove(self: &Rc<Self>, name: WalName) {
        if remove_file(&self.runtime, &self.folder, name).await {
            return;
        }
        let mut state = self.state.borrow_mut();
        state.unremoved.push(name);
        if state.unremoved.len() == 1 {
            drop(self.runtime.spawn(Rc::clone(self).remove_later()));
        }
    }

    /// Tries again and again to remove what could not be removed. No file gets the name of one that
    /// is still listed.
    async fn remove_later(self: Rc<Self>) {
        loop {
            self.runtime.sleep_until(self.runtime.now().after(REMOVE_PAUSE)).await;
            let names = self.state.borrow().unremoved.clone();
            for name in names {
                if remove_file(&self.runtime, &self.folder, name).await {
                    self.state.borrow_mut().unremoved.retain(|&other| other != name);
                }
            }
            if self.state.borrow().unremoved.is_empty() {
                return;
            }
        }
    }

    /// Has no file serve again from this moment on. The file that waits for its use is removed by
    /// [`LogFiles::give_all_back`].
    pub fn stop_reuse(&self) {
        self.reuses.set(false);
    }

    /// Lets files that are released from this moment on serve again.
    pub fn allow_reuse(&self) {
        self.reuses.set(true);
    }

    /// Removes the file that waits for its use, and the files that could not be removed so far.
    /// Returns when they are gone, so it may take long.
    pub async fn give_all_back(self: &Rc<Self>) {
        self.give_back().await;
        while !self.state.borrow().unremoved.is_empty() {
            self.runtime.sleep_until(self.runtime.now().after(REMOVE_PAUSE)).await;
        }
    }

    /// Forgets a file whose entries are in segments. Gives it if it is to serve again, with its new
    /// header. The caller then has to trigger the latch.
    fn claim(&self, name: WalName) -> Option<(Rc<R::File>, FileHeader, Latch)> {
        let mut state = self.state.borrow_mut();
        let index = state.good.iter().position(|(good, _)| *good == name)?;
        let (_, file) = state.good.swap_remove(index);
        if !self.reuses.get() || !matches!(state.ready, Ready::None) {
            return None;
        }
        // Taken away by the claim, so that no name is given to two files.
        let header = state.upcoming.take()?;
        let made = Latch::new();
        state.ready = Ready::Changing(made.clone());
        Some((file, FileHeader { is_reused: true, ..header }, made))
    }

    async fn make_ready(
        self: &Rc<Self>,
        old: WalName,
        file: Rc<R::File>,
        header: FileHeader,
        made: Latch,
    ) {
        let changed = async {
            // First of all, because a file under the new name must never have another's header.
            write_header(&*file, header).await?;
            self.runtime.rename(&self.path(old), &self.path(header.name)).await?;
            self.runtime.sync_dir(&self.folder).await
        };
        let ready = match changed.await {
            Ok(()) => Ready::File(header, file),
            Err(error) => {
                tracing::warn!(
                    %error, file = %self.path(old).display(), name = %header.name.file_name(),
                    "a log file cannot serve again"
                );
                for name in [old, header.name] {
                    self.remove(name).await;
                }
                Ready::None
            }
        };
        self.state.borrow_mut().ready = ready;
        made.trigger();
    }

    /// Removes the file that waits for its use: the disk is full, or there will be no use.
    pub async fn give_back(self: &Rc<Self>) {
        let Some((header, _)) = self.take_ready().await else { return };
        let removed = Latch::new();
        self.state.borrow_mut().ready = Ready::Changing(removed.clone());
        self.remove(header.name).await;
        let mut state = self.state.borrow_mut();
        state.ready = Ready::None;
        state.upcoming = Some(FileHeader { is_reused: false, ..header });
        drop(state);
        removed.trigger();
    }

    /// Removes the file of this name if it waits when nothing has been written for a while.
    async fn give_back_when_idle(self: Rc<Self>, name: WalName) {
        loop {
            let before = self.commits.get();
            self.runtime.sleep_until(self.runtime.now().after(KEPT_FOR)).await;
            let waits =
                matches!(&self.state.borrow().ready, Ready::File(header, _) if header.name == name);
            if !waits {
                return;
            }
            if self.commits.get() == before {
                return self.give_back().await;
            }
        }
    }
}

async fn write_header<F: File>(file: &F, header: FileHeader) -> io::Result<()> {
    file.write_aligned_at(AlignedBuffer::from(&header.encode()[..]), 0).await.0
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use logsvc_runtime::sim::{DiskOperation, SimRuntime, Simulation};

    use super::*;
    use crate::wal::format::{Layout, Previous};

    const FOLDER: &str = "/wal";

    fn name(index: u32) -> WalName {
        WalName { epoch: 3, shards: 1, shard: 0, index }
    }

    fn header(index: u32) -> FileHeader {
        FileHeader {
            name: name(index),
            nonce: name(index).nonce(index),
            created_ns: 1,
            layout: Layout::Padded,
            is_reused: false,
            previous: None,
        }
    }

    /// As a writer opens the file after another one.
    fn opened(index: u32) -> FileHeader {
        let previous = Some(Previous { index: index - 1, durable_len: 8192 });
        FileHeader { previous, ..header(index) }
    }

    /// Opens a file and writes a block of these bytes behind its header.
    async fn fill(
        files: &Rc<LogFiles<SimRuntime>>,
        header: FileHeader,
        byte: u8,
    ) -> io::Result<()> {
        let next = self::header(header.name.index + 1);
        let file = files.open(header, next).await?;
        let block = AlignedBuffer::from(&[byte; 4096][..]);
        let result = file.write_aligned_at(block, 4096).await.0;
        if result.is_err() {
            files.give_up(&file);
        }
        result
    }

    fn new(runtime: &SimRuntime, sync: SyncPolicy) -> Rc<LogFiles<SimRuntime>> {
        Rc::new(LogFiles::new(runtime.clone(), Path::new(FOLDER).to_owned(), sync))
    }

    /// The files, of which the first one is in use.
    async fn first_filled(runtime: SimRuntime) -> Rc<LogFiles<SimRuntime>> {
        let files = new(&runtime, SyncPolicy::Always);
        fill(&files, header(0), 0).await.unwrap();
        files
    }

    fn simulation() -> Simulation {
        let simulation = Simulation::new(1);
        simulation.disk().write("/wal/other", b"");
        simulation
    }

    /// The log files on the disk; each with its header, and the bytes behind the header.
    fn left(simulation: &Simulation) -> Vec<(FileHeader, Vec<u8>)> {
        let paths = simulation.disk().files(FOLDER).into_iter();
        let logs = paths.filter_map(|path| {
            let name = WalName::parse(path.file_name()?.to_str()?)?;
            let bytes = simulation.disk().read(&path)?;
            let header = FileHeader::decode(&bytes).expect("a header that checks");
            assert_eq!(header.name, name);
            Some((header, bytes[4096..].to_vec()))
        });
        logs.collect()
    }

    #[test]
    fn a_file_serves_again_when_its_entries_are_in_segments() {
        let simulation = simulation();
        simulation.block_on(|runtime| async move {
            let files = first_filled(runtime).await;
            fill(&files, opened(1), 1).await.unwrap();
            files.release(name(0), 0).await;
        });
        let ready = FileHeader { is_reused: true, ..header(2) };
        assert_eq!(left(&simulation), [(opened(1), vec![1; 4096]), (ready, vec![0; 4096])]);
    }

    #[test]
    fn a_file_that_serves_again_says_so_and_what_of_the_last_one_counts() {
        let simulation = simulation();
        simulation.block_on(|runtime| async move {
            let files = first_filled(runtime).await;
            fill(&files, opened(1), 1).await.unwrap();
            // One kept file is enough.
            files.release(name(0), 1).await;
            assert_eq!(files.runtime.read_dir(Path::new(FOLDER)).await.unwrap().len(), 2);
            // It is in use, and another file may get ready.
            let file = files.open(opened(2), header(3)).await.unwrap();
            files.release(name(2), 2).await;
            drop(file);
        });
        let ready = FileHeader { is_reused: true, ..header(3) };
        assert_eq!(left(&simulation), [(ready, vec![0; 4096])]);
        let simulation = self::simulation();
        simulation.block_on(|runtime| async move {
            let files = first_filled(runtime).await;
            files.release(name(0), 0).await;
            fill(&files, opened(1), 1).await.unwrap();
        });
        let used = FileHeader { is_reused: true, ..opened(1) };
        assert_eq!(left(&simulation), [(used, vec![1; 4096])]);
    }

    #[test]
    fn a_file_with_a_failed_commit_does_not_serve_again() {
        let simulation = simulation();
        let files = simulation.block_on(|runtime| async move {
            let files = new(&runtime, SyncPolicy::Always);
            let file = files.open(header(0), header(1)).await.unwrap();
            (files, file)
        });
        simulation.disk().fail_next(DiskOperation::Write, FOLDER, 1);
        simulation.block_on(|_| async move {
            let (files, file) = files;
            let block = AlignedBuffer::from(&[0; 4096][..]);
            file.write_aligned_at(block, 4096).await.0.unwrap_err();
            files.give_up(&file);
            files.release(name(0), 0).await;
        });
        assert_eq!(left(&simulation), []);
    }

    #[test]
    fn whatever_fails_the_next_file_is_made_anew() {
        use DiskOperation::{Rename, SyncDir, Write};
        for failing in [Write, Rename, SyncDir] {
            let simulation = simulation();
            let files = simulation.block_on(first_filled);
            simulation.disk().fail_next(failing, FOLDER, 1);
            simulation.block_on(|runtime| async move {
                files.release(name(0), 0).await;
                assert_eq!(runtime.read_dir(Path::new(FOLDER)).await.unwrap().len(), 1);
                fill(&files, opened(1), 1).await.unwrap();
            });
            assert_eq!(left(&simulation), [(opened(1), vec![1; 4096])], "{failing:?}");
        }
    }

    #[test]
    fn a_file_for_another_name_is_removed() {
        let simulation = simulation();
        let files = simulation.block_on(|runtime| async move {
            let files = first_filled(runtime).await;
            files.release(name(0), 0).await;
            files
        });
        simulation.disk().fail_next(DiskOperation::Write, FOLDER, 1);
        simulation.block_on(|_| async move {
            fill(&files, opened(1), 1).await.unwrap_err();
            fill(&files, opened(2), 2).await.unwrap();
            // The name after it, which it was made ready for.
            files.release(name(2), 2).await;
            fill(&files, opened(4), 4).await.unwrap();
        });
        assert_eq!(left(&simulation), [(opened(4), vec![4; 4096])]);
    }

    #[test]
    fn what_waits_can_be_given_back() {
        let simulation = simulation();
        simulation.block_on(|runtime| async move {
            let files = first_filled(runtime).await;
            files.release(name(0), 0).await;
            files.give_back().await;
            // The name can be used all the same, and be waited for once more.
            fill(&files, opened(1), 1).await.unwrap();
            files.release(name(1), 1).await;
            files.give_back().await;
        });
        assert_eq!(left(&simulation), []);
    }

    #[test]
    fn nothing_waits_when_nothing_is_written() {
        let simulation = simulation();
        simulation.block_on(|runtime| async move {
            let files = first_filled(runtime.clone()).await;
            files.release(name(0), 0).await;
            let count = async || runtime.read_dir(Path::new(FOLDER)).await.unwrap().len();
            for _ in 0..10 {
                runtime.sleep_until(runtime.now().after(KEPT_FOR / 2)).await;
                files.committed();
                assert_eq!(count().await, 2, "it may be needed soon");
            }
            runtime.sleep_until(runtime.now().after(3 * KEPT_FOR)).await;
            assert_eq!(count().await, 1);
            fill(&files, opened(1), 1).await.unwrap();
        });
        assert_eq!(left(&simulation), [(opened(1), vec![1; 4096])]);
    }

    #[test]
    fn an_opening_waits_for_the_file_in_the_making() {
        let simulation = simulation();
        simulation.block_on(|runtime| async move {
            let files = first_filled(runtime.clone()).await;
            let releasing = Rc::clone(&files);
            let released = runtime.spawn(async move { releasing.release(name(0), 0).await });
            // So that it has begun.
            runtime.yield_now().await;
            fill(&files, opened(1), 1).await.unwrap();
            released.await;
        });
        let used = FileHeader { is_reused: true, ..opened(1) };
        assert_eq!(left(&simulation), [(used, vec![1; 4096])]);
    }

    #[test]
    fn during_a_purge_no_file_serves_again_and_none_is_left() {
        let simulation = simulation();
        let disk = simulation.disk().clone();
        simulation.block_on(|runtime| async move {
            let files = first_filled(runtime.clone()).await;
            files.release(name(0), 0).await;
            files.stop_reuse();
            // The file that waits goes, and another one is made.
            fill(&files, opened(1), 1).await.unwrap();
            disk.fail_next(DiskOperation::Remove, FOLDER, 3);
            files.release(name(1), 1).await;
            assert_eq!(runtime.read_dir(Path::new(FOLDER)).await.unwrap().len(), 2);
            let begun = runtime.now();
            files.give_all_back().await;
            assert!(runtime.now().since(begun) >= REMOVE_PAUSE);
            assert_eq!(runtime.read_dir(Path::new(FOLDER)).await.unwrap().len(), 1);
            files.allow_reuse();
            fill(&files, opened(2), 2).await.unwrap();
            files.release(name(2), 2).await;
        });
        let ready = FileHeader { is_reused: true, ..header(3) };
        assert_eq!(left(&simulation), [(ready, vec![2; 4096])]);
    }

    #[test]
    fn what_cannot_be_removed_goes_later_and_no_file_gets_its_name() {
        use DiskOperation::{Remove, Rename, Write};
        // A file that was to serve again, and one that was not finished.
        for failing in [Rename, Write] {
            let simulation = simulation();
            let disk = simulation.disk().clone();
            simulation.block_on(|runtime| async move {
                let files = first_filled(runtime.clone()).await;
                disk.fail_next(failing, FOLDER, 1);
                disk.fail_next(Remove, FOLDER, 2);
                if failing == Rename {
                    files.release(name(0), 0).await;
                }
                // The log goes on with another name.
                fill(&files, opened(1), 1).await.unwrap_err();
                fill(&files, opened(2), 2).await.unwrap();
                runtime.sleep_until(runtime.now().after(2 * REMOVE_PAUSE)).await;
                if failing == Write {
                    files.release(name(0), 0).await;
                    files.give_back().await;
                }
            });
            assert_eq!(left(&simulation), [(opened(2), vec![2; 4096])], "{failing:?}");
        }
    }

    #[test]
    fn files_that_are_synced_later_serve_once() {
        let simulation = simulation();
        simulation.block_on(|runtime| async move {
            let files = new(&runtime, SyncPolicy::Never);
            let packed = |header| FileHeader { layout: Layout::Packed, ..header };
            files.open(packed(header(0)), packed(header(1))).await.unwrap();
            files.release(name(0), 0).await;
        });
        assert_eq!(left(&simulation), []);
    }
}
