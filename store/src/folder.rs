//! A bucket that is a folder of a file system: an object is a file, and its name is the path.
//!
//! # Guarantees
//!
//! - An object whose create has succeeded is there after a power loss, whole. One whose create has
//!   not is there whole or not at all. Bytes are written and synced under another name, in a hidden
//!   folder, and then a hard link gives them the object's name ([`publish`]).
//! - A name is given once. A hard link replaces no file, whichever core, process or machine made it.
//! - What is told of an object that this value has tried to create is durable: its folder is synced
//!   before an answer if that has not happened yet, or has failed. That a name is taken
//!   ([`BucketError::Exists`]) is told after a sync, too, whoever took it.
//! - A request is a task of its own. It goes on when its deadline has passed or nobody waits for it,
//!   so that it leaves nothing half done.
//!
//! # What can go wrong
//!
//! - A crash leaves files in the hidden folder. An open removes those that are older than a day.
//! - What another core or process creates may be read before it is durable. A power loss may take it
//!   back then. A log does not mind, because the next entry syncs the same folder.
//! - An object and a folder cannot have one name: who has `a` cannot create `a/b`, and is refused.
//! - Folders stay when their last object has gone. Nobody else may remove them.
//! - A file system that is not mounted is an empty folder to an open, but an error to a later
//!   request: the hidden folder is missing then.

mod errors;
mod listing;
mod publish;
mod uploads;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use logsvc_runtime::{File, Monotonic, OpenMode, Runtime};

use crate::bucket::{
    Answer, Bucket, BucketError, ObjectInfo, Page, PartId, PartPlace, Span, UploadId,
};
use crate::name::{Folder, ObjectName};
use errors::{is_absent, of_file};

/// The folder of files that are no objects yet. No name of an object has this character.
const HIDDEN: &str = ".tmp~";

/// How old left-over files are when they are removed.
const LEFT_OVER_AGE: Duration = Duration::from_secs(24 * 3_600);

/// Why a folder cannot be a bucket.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be a bucket: {what}: {error}", path.display())]
pub struct FolderError {
    /// The folder.
    pub path: PathBuf,
    /// What did not succeed.
    pub what: &'static str,
    /// Why not.
    pub error: io::Error,
}

/// See the module. Stays on its core; other cores open the folder, too.
pub struct FolderBucket<R> {
    inner: Rc<Inner<R>>,
}

struct Inner<R> {
    runtime: R,
    root: PathBuf,
    hidden: PathBuf,
    address: String,
    /// Folders whose names are durable; some of them.
    durable_folders: RefCell<BTreeSet<PathBuf>>,
    /// Objects that may be there without being durable, and how many creates of each are under way.
    unsettled: RefCell<BTreeMap<ObjectName, usize>>,
    /// Uploads whose sync has failed, and whose file could not be removed.
    spoiled: RefCell<BTreeSet<String>>,
}

impl<R: Runtime> FolderBucket<R> {
    /// Opens a folder, which is made if it is missing. Left-over files of writers that crashed are
    /// removed when they are older than a day by the clocks of this machine and of the file system.
    ///
    /// # Errors
    /// The folder cannot be made, written or synced, or its file system has no hard links.
    pub async fn open(runtime: R, path: &Path) -> Result<FolderBucket<R>, FolderError> {
        let root = path.to_owned();
        let failed = |what| {
            let path = root.clone();
            move |error| FolderError { path, what, error }
        };
        let hidden = root.join(HIDDEN);
        runtime.create_dir_all(&hidden).await.map_err(failed("it cannot be made"))?;
        for folder in [&root, &hidden] {
            runtime.sync_dir(folder).await.map_err(failed("it cannot be synced"))?;
        }
        for above in root.ancestors().skip(1) {
            match runtime.sync_dir(above).await {
                // Whoever made these has done it.
                Err(error) if is_not_ours(&error) => {}
                other => other.map_err(failed("a folder above it cannot be synced"))?,
            }
        }
        let inner = Inner {
            address: format!("file://{}", root.display()),
            root: root.clone(),
            hidden,
            runtime,
            durable_folders: RefCell::default(),
            unsettled: RefCell::default(),
            spoiled: RefCell::default(),
        };
        inner.try_links().await.map_err(|(what, error)| failed(what)(error))?;
        inner.remove_left_overs().await.map_err(failed("it cannot be listed"))?;
        Ok(FolderBucket { inner: Rc::new(inner) })
    }

    /// Runs a request as a task, and waits for it until the deadline.
    fn ask<T: 'static, F>(
        &self,
        until: Monotonic,
        request: impl FnOnce(Rc<Inner<R>>) -> F,
    ) -> Answer<'_, T>
    where
        F: Future<Output = Result<T, BucketError>> + 'static,
    {
        let request = Box::pin(request(Rc::clone(&self.inner)));
        Box::pin(async move {
            let task = Box::pin(self.inner.runtime.spawn(request));
            match select(task, Box::pin(self.inner.runtime.sleep_until(until))).await {
                Either::Left((answer, _)) => answer,
                Either::Right(_) => Err(BucketError::failed("no answer in time")),
            }
        })
    }
}

/// Whether a folder above the bucket is one that this process may not sync.
fn is_not_ours(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    matches!(error.kind(), PermissionDenied | InvalidInput | Unsupported)
}

impl<R: Runtime> Inner<R> {
    fn path(&self, name: &ObjectName) -> PathBuf {
        self.root.join(name.as_str())
    }

    /// A name for a file that is no object yet.
    fn new_hidden_name(&self) -> String {
        format!("{:016x}{:016x}", self.runtime.random_u64(), self.runtime.random_u64())
    }

    /// Whether files can be written and have second names here.
    async fn try_links(&self) -> Result<(), (&'static str, io::Error)> {
        let [one, other] = [(); 2].map(|()| self.hidden.join(self.new_hidden_name()));
        let written = self.write_new(&one, Bytes::from_static(b"logsvc")).await;
        let tried = match written {
            Ok(()) => {
                let linked = self.runtime.hard_link(&one, &other).await;
                linked.map_err(|error| ("its file system makes no hard links", error))
            }
            Err(error) => Err(("it cannot be written", error)),
        };
        self.remove_hidden(&one).await;
        self.remove_hidden(&other).await;
        tried
    }

    async fn remove_left_overs(&self) -> io::Result<()> {
        let age_ns = i64::try_from(LEFT_OVER_AGE.as_nanos()).unwrap_or(i64::MAX);
        let oldest_ns = self.runtime.unix_nanos().saturating_sub(age_ns);
        for entry in self.runtime.read_dir(&self.hidden).await? {
            if !entry.is_dir && entry.modified_ns < oldest_ns {
                self.remove_hidden(&self.hidden.join(entry.name)).await;
            }
        }
        Ok(())
    }

    /// Removes a file that is no object, or not by this name. Says whether it is gone; it only takes
    /// space if not.
    async fn remove_hidden(&self, path: &Path) -> bool {
        match self.runtime.remove_file(path).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(file = %path.display(), %error, "a left-over file stays");
                false
            }
            _ => true,
        }
    }

    /// What a missing file means: no such object, unless the whole bucket is away.
    async fn absent(&self) -> BucketError {
        match self.runtime.entry(&self.hidden).await {
            Ok(_) => BucketError::NotFound,
            Err(error) => BucketError::failed(format!("the folder is away: {error}")),
        }
    }

    async fn of_read(&self, error: io::Error) -> BucketError {
        if is_absent(&error) { self.absent().await } else { of_file(&error) }
    }

    async fn read(&self, name: &ObjectName, span: Span) -> Result<Bytes, BucketError> {
        let path = self.path(name);
        let (mode, range) = match span {
            Span::Range(range) => (OpenMode::ReadPieces, range),
            Span::Whole { max_bytes } => {
                let len_bytes = self.entry(name).await?.len_bytes;
                if len_bytes > max_bytes {
                    return Err(BucketError::TooLarge { max_bytes });
                }
                (OpenMode::Read, 0..len_bytes)
            }
        };
        let read = async {
            let file = self.runtime.open(&path, mode).await?;
            let end = range.end.min(file.len_bytes().await?);
            let count = usize::try_from(end.saturating_sub(range.start)).unwrap_or(usize::MAX);
            let (result, bytes) = file.read_exact_at(Vec::new(), range.start, count).await;
            result.map(|()| bytes)
        };
        let bytes = match read.await {
            Ok(bytes) => bytes,
            Err(error) => return Err(self.of_read(error).await),
        };
        if bytes.is_empty() {
            // A folder opens like a file.
            self.entry(name).await?;
        }
        self.settle(name).await?;
        Ok(bytes.into())
    }

    async fn info(&self, name: &ObjectName) -> Result<ObjectInfo, BucketError> {
        let info = self.entry(name).await?;
        self.settle(name).await?;
        Ok(info)
    }

    /// What the file of an object tells, durable or not.
    async fn entry(&self, name: &ObjectName) -> Result<ObjectInfo, BucketError> {
        match self.runtime.entry(&self.path(name)).await {
            Ok(entry) if entry.is_dir => Err(BucketError::NotFound),
            Ok(entry) => {
                let (name, len_bytes) = (name.clone(), entry.len_bytes);
                Ok(ObjectInfo { name, len_bytes, created_ns: entry.modified_ns })
            }
            Err(error) => Err(self.of_read(error).await),
        }
    }

    async fn remove(&self, name: &ObjectName) -> Result<(), BucketError> {
        let path = self.path(name);
        match self.runtime.remove_file(&path).await {
            Err(error) if !is_absent(&error) => return Err(of_file(&error)),
            // It may have been removed by a request whose sync failed.
            _ => {}
        }
        match self.runtime.sync_dir(parent_of(&path)).await {
            Err(error) if !is_absent(&error) => Err(of_file(&error)),
            Err(_) => match self.absent().await {
                BucketError::NotFound => Ok(()),
                away => Err(away),
            },
            Ok(()) => {
                self.note_sync(name);
                Ok(())
            }
        }
    }
}

fn parent_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

impl<R: Runtime> Bucket for FolderBucket<R> {
    fn create(&self, name: &ObjectName, body: Bytes, until: Monotonic) -> Answer<'_, ()> {
        let name = name.clone();
        self.ask(until, move |inner| async move { inner.create(&name, body).await })
    }

    fn begin(&self, _: &ObjectName, until: Monotonic) -> Answer<'_, UploadId> {
        self.ask(until, move |inner| async move { inner.begin().await })
    }

    fn put_part(
        &self,
        _: &ObjectName,
        upload: &UploadId,
        place: PartPlace,
        body: Bytes,
        until: Monotonic,
    ) -> Answer<'_, PartId> {
        let upload = upload.clone();
        self.ask(until, move |inner| async move {
            inner.put_part(&upload, place.offset_bytes, body).await
        })
    }

    fn complete(
        &self,
        name: &ObjectName,
        upload: &UploadId,
        parts: Vec<PartId>,
        until: Monotonic,
    ) -> Answer<'_, ()> {
        let (name, upload) = (name.clone(), upload.clone());
        self.ask(until, move |inner| async move { inner.complete(&name, &upload, &parts).await })
    }

    fn abort(&self, _: &ObjectName, upload: &UploadId, until: Monotonic) -> Answer<'_, ()> {
        let upload = upload.clone();
        self.ask(until, move |inner| async move { inner.abort(&upload).await })
    }

    fn read(&self, name: &ObjectName, span: Span, until: Monotonic) -> Answer<'_, Bytes> {
        let name = name.clone();
        self.ask(until, move |inner| async move { inner.read(&name, span).await })
    }

    fn info(&self, name: &ObjectName, until: Monotonic) -> Answer<'_, ObjectInfo> {
        let name = name.clone();
        self.ask(until, move |inner| async move { inner.info(&name).await })
    }

    fn list(
        &self,
        folder: &Folder,
        after: Option<&ObjectName>,
        until: Monotonic,
    ) -> Answer<'_, Page> {
        let (folder, after) = (folder.clone(), after.cloned());
        self.ask(until, move |inner| async move { inner.list(&folder, after.as_ref()).await })
    }

    fn remove(&self, name: &ObjectName, until: Monotonic) -> Answer<'_, ()> {
        let name = name.clone();
        self.ask(until, move |inner| async move { inner.remove(&name).await })
    }

    fn address(&self) -> &str {
        &self.inner.address
    }
}
