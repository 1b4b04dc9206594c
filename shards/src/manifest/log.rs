//! Writes the edits of one shard.
//!
//! Guarantees: when [`ManifestLog::append`] has returned `Ok`, the edit is on stable storage and in
//! force at every later start. An edit takes effect whole or not at all, and edits take effect in
//! the order of their appends. After a failure the file is never touched again;
//! [`ManifestLog::append`] lists the duties of its caller after a failure.

use std::cell::{Cell, RefCell};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use logsvc_runtime::{File, OpenMode, Runtime};

use super::edit::ManifestEdit;
use super::format::{ManifestHeader, Role, push_frame};
use super::names::ManifestLogName;
use super::task_lock::TaskLock;

/// The edits that one shard makes from one start on. Its tasks may share a reference;
/// appends take turns.
pub struct ManifestLog<R: Runtime> {
    runtime: R,
    segments_dir: PathBuf,
    /// The file for the next edit, if there is one and it is sound.
    file: RefCell<Option<OpenLog<R::File>>>,
    /// Name of the next file.
    next: Cell<ManifestLogName>,
    /// Number of the next edit: how many have succeeded.
    edits: Cell<u64>,
    lock: TaskLock,
    /// The state that the first edit has to repeat, until it is in force.
    preface: RefCell<Option<Arc<ManifestEdit>>>,
    /// Edits in force that nobody has taken yet, if somebody does.
    told: Option<Told>,
}

/// Edits of the logs of a node by the order in which they came into force. An edit that builds upon
/// one of another shard has a higher number: the other was in force when the shard learned of it.
#[derive(Debug, Default)]
pub struct EditNumbers(AtomicU64);

impl EditNumbers {
    /// The number of the last edit. Whoever asks a log behind this call is given all edits up to it.
    pub fn last(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::AcqRel) + 1
    }
}

/// An edit that came into force, with its number ([`EditNumbers`]).
pub type ToldEdit = (u64, ManifestEdit);

struct Told {
    numbers: Arc<EditNumbers>,
    edits: RefCell<Vec<ToldEdit>>,
}

struct OpenLog<F> {
    file: F,
    nonce: u64,
    len: u64,
}

impl<R: Runtime> std::fmt::Debug for ManifestLog<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("ManifestLog");
        out.field("next", &self.next).field("edits", &self.edits).finish_non_exhaustive()
    }
}

impl<R: Runtime> ManifestLog<R> {
    /// The log of a shard for the start with this epoch (see
    /// [`crate::node::NodePlan::epoch`]). Makes no file before the first edit. There
    /// must be one value per shard and start.
    pub fn new(runtime: R, segments_dir: &Path, epoch: u32, shard: u32) -> ManifestLog<R> {
        ManifestLog {
            runtime,
            segments_dir: segments_dir.to_owned(),
            file: RefCell::new(None),
            next: Cell::new(ManifestLogName { epoch, shard, n: 0 }),
            edits: Cell::new(0),
            lock: TaskLock::default(),
            preface: RefCell::new(None),
            told: None,
        }
    }

    /// The same log, whose edits [`ManifestLog::take_told`] gives. It has to be asked again and
    /// again: the edits stay in memory until then.
    #[must_use]
    pub fn that_tells(self, numbers: Arc<EditNumbers>) -> ManifestLog<R> {
        ManifestLog { told: Some(Told { numbers, edits: RefCell::default() }), ..self }
    }

    /// The edits that have come into force since the last call, in their order; none if the log
    /// does not tell.
    pub fn take_told(&self) -> Vec<ToldEdit> {
        self.told.as_ref().map_or_else(Vec::new, |told| told.edits.take())
    }

    /// The same log, whose first edit repeats the preface, too. For a start that could not write a
    /// checkpoint: the edits that it has read of earlier logs may never have reached the disk, and
    /// edits that build upon them must not outlive them.
    #[must_use]
    pub fn with_preface(self, preface: Option<Arc<ManifestEdit>>) -> ManifestLog<R> {
        self.preface.replace(preface);
        self
    }

    /// How many edits are in force by this log.
    pub fn edits(&self) -> u64 {
        self.edits.get()
    }

    /// Brings an edit into force. The segments that it adds must be on stable storage under their
    /// pending names: written, synced, renamed, the folders of their days and the segments folder
    /// synced. The segments that it removes, and the log files that it covers, must stay until this
    /// has returned `Ok` and the added segments have their names
    /// ([`SegmentName::finalize`](super::SegmentName::finalize)).
    ///
    /// # Errors
    /// The edit could not be written or synced; or, without any effect, it is too
    /// large. **The edit may still come into force**, whole, at the next start, if
    /// that comes before a later append has succeeded. So after an error:
    /// - keep all files that the edit names: the segments that it adds, the segments that it
    ///   removes, and the log files that it covers;
    /// - append the same edit again (the easiest), or another one that serves the same end and
    ///   removes the segments that only failed edits have added. Once an append has returned `Ok`,
    ///   edits that failed before it never come into force, and the files of segments that only
    ///   they have added may be removed. That holds for an edit without other changes, too.
    ///
    /// If the future is dropped before its end, that counts as an error.
    pub async fn append(&self, edit: &ManifestEdit) -> io::Result<()> {
        let _guard = self.lock.lock().await;
        let preface = self.preface.borrow().clone();
        let prefaced = preface.as_ref().map(|preface| joined(preface, edit));
        let written = prefaced.as_ref().unwrap_or(edit);
        // Taken out, so that it is gone for good if this fails or is dropped.
        let file = self.file.take();
        let file = match file {
            Some(open) => self.append_to(open, written).await?,
            None => self.append_to_new(written).await?,
        };
        if let Some(told) = &self.told {
            told.edits.borrow_mut().push((told.numbers.next(), edit.clone()));
        }
        self.edits.set(self.edits.get() + 1);
        self.file.replace(Some(file));
        self.preface.replace(None);
        Ok(())
    }

    async fn append_to(
        &self,
        mut open: OpenLog<R::File>,
        edit: &ManifestEdit,
    ) -> io::Result<OpenLog<R::File>> {
        let mut frame = Vec::new();
        push_frame(&mut frame, open.len, open.nonce, self.edits.get(), edit)
            .ok_or_else(too_large)?;
        let end = open.len + frame.len() as u64;
        let (result, _) = open.file.write_all_at(frame, open.len).await;
        result?;
        open.file.sync_data().await?;
        open.len = end;
        Ok(open)
    }

    async fn append_to_new(&self, edit: &ManifestEdit) -> io::Result<OpenLog<R::File>> {
        let name = self.next.get();
        let nonce = self.runtime.random_u64();
        let header = ManifestHeader {
            role: Role::Log { name, first_edit: self.edits.get() },
            nonce,
            created_ns: self.runtime.unix_nanos(),
        };
        let mut content = header.encode().to_vec();
        push_frame(&mut content, 0, nonce, self.edits.get(), edit).ok_or_else(too_large)?;
        let n = name.n.checked_add(1);
        let n = n.ok_or_else(|| io::Error::other("the manifest has the last log there is"))?;
        // A name is used once: a file that a failure leaves behind is not written again.
        self.next.set(ManifestLogName { n, ..name });
        let path = self.segments_dir.join(name.file_name());
        let file = self.runtime.open(&path, OpenMode::CreateNew).await?;
        let len = content.len() as u64;
        let written = async {
            let (result, _) = file.write_all_at(content, 0).await;
            result?;
            file.sync_data().await?;
            self.runtime.sync_dir(&self.segments_dir).await
        };
        if let Err(error) = written.await {
            // Only tidies up: whether the file is there or not, the edit is the only
            // one in it, and one that failed.
            if let Err(error) = self.runtime.remove_file(&path).await {
                tracing::warn!(%error, file = %path.display(), "cannot remove a half-made file");
            }
            return Err(error);
        }
        Ok(OpenLog { file, nonce, len })
    }
}

/// Both edits in one. All that they hold are sets, so repeating it does nothing.
fn joined(first: &ManifestEdit, second: &ManifestEdit) -> ManifestEdit {
    ManifestEdit {
        added: [&first.added[..], &second.added].concat(),
        removed: [&first.removed[..], &second.removed].concat(),
        covers: [&first.covers[..], &second.covers].concat(),
        left: [&first.left[..], &second.left].concat(),
        footers: [&first.footers[..], &second.footers].concat(),
    }
}

fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the edit is too large for the manifest")
}
