//! Brings a segment's file into the bucket.
//!
//! Guarantees: the object has the bytes of the file, or is not there, or an upload of the same name
//! has left the beginning of it. Memory for the bytes on their way is reserved first. A file that is
//! gone is told apart from all other failures: its segment has left the live set.

use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use logsvc_runtime::{Budget, File, Monotonic, OpenMode, Reservation, Runtime};
use logsvc_store::bucket::{PartPlace, UploadId};
use logsvc_store::{Created, ObjectName, Store, StoreError};

use crate::manifest::LiveSegment;

/// Bytes of a segment's beginning that no other segment of its name has.
const PROOF_LEN: u64 = 64;

/// How long a request has patience with the bucket, beside the time for its bytes.
const PATIENCE: Duration = Duration::from_secs(30);

/// The slowest way to a bucket that is of use.
const MIN_RATE_BYTES_PER_S: u64 = 1 << 20;

/// The pause before memory is asked for again.
pub(super) const MEMORY_PAUSE: Duration = Duration::from_millis(10);

/// Parts of one segment that are on their way at once.
const PARTS_AT_ONCE: usize = 4;

/// Why a segment is not in the bucket.
#[derive(Debug, thiserror::Error)]
pub(super) enum UploadError {
    /// It has left the live set.
    #[error("the file is gone")]
    Gone,
    /// The file cannot be read.
    #[error("cannot read it: {0}")]
    Io(#[from] io::Error),
    /// The store does not take it.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The store had kept the beginning of it, which is removed.
    #[error("the connection broke while it was sent")]
    Torn,
    /// Somebody else has created the name.
    #[error("another object has the name {0}")]
    Taken(ObjectName),
}

/// Uploads segments.
pub(super) struct Uploader<R: Runtime> {
    pub(super) runtime: R,
    pub(super) store: Store<R>,
    /// Memory for parts on their way.
    pub(super) memory: Budget,
    /// The length of parts. Longer segments come in parts.
    pub(super) part_bytes: u64,
}

impl<R: Runtime> Uploader<R> {
    /// Creates the object of a segment, unless it is there.
    pub(super) async fn upload(
        &self,
        path: &Path,
        name: &ObjectName,
        live: &LiveSegment,
    ) -> Result<(), UploadError> {
        let file = match self.runtime.open(path, OpenMode::Read).await {
            Ok(file) => Rc::new(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(UploadError::Gone);
            }
            Err(error) => return Err(error.into()),
        };
        if live.file_len <= self.part_bytes {
            return self.create(&file, name, live.file_len).await;
        }
        // An attempt before may have come to its end.
        match self.store.info(name, self.until(0)).await {
            Ok(info) if info.len_bytes == live.file_len => return Ok(()),
            Ok(info) if info.len_bytes < live.file_len => self.remove_torn(name).await?,
            Ok(_) => return Err(UploadError::Taken(name.clone())),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        let upload = self.store.begin(name, self.until(0)).await?;
        let sent = self.send_parts(&file, name, &upload, live.file_len).await;
        if sent.is_err()
            && let Err(error) = self.store.abort(name, &upload, self.until(0)).await
        {
            tracing::warn!(%error, "an upload that has failed may leave parts in the bucket");
        }
        sent
    }

    /// How long a request has patience that sends so many bytes. A bucket that is away is to be told
    /// soon.
    fn until(&self, len_bytes: u64) -> Monotonic {
        let moving = Duration::from_millis(len_bytes.saturating_mul(1_000) / MIN_RATE_BYTES_PER_S);
        self.runtime.now().after(PATIENCE + moving)
    }

    async fn create(
        &self,
        file: &Rc<R::File>,
        name: &ObjectName,
        len_bytes: u64,
    ) -> Result<(), UploadError> {
        let (_memory, body) = self.read(file, 0, len_bytes).await?;
        let proof = 0..len_bytes.min(PROOF_LEN) as usize;
        match self.store.create(name, body, proof, self.until(len_bytes)).await? {
            Created::New | Created::Retried => Ok(()),
            Created::Torn => {
                self.remove_torn(name).await?;
                Err(UploadError::Torn)
            }
            Created::Existing(_) => Err(UploadError::Taken(name.clone())),
        }
    }

    /// Removes the beginning of a segment. Nobody else ever creates its name.
    async fn remove_torn(&self, name: &ObjectName) -> Result<(), StoreError> {
        tracing::warn!("a connection to the bucket broke, and {name} is sent again");
        self.store.remove(name, self.until(0)).await
    }

    async fn send_parts(
        &self,
        file: &Rc<R::File>,
        name: &ObjectName,
        upload: &UploadId,
        len_bytes: u64,
    ) -> Result<(), UploadError> {
        let count = len_bytes.div_ceil(self.part_bytes);
        let parts = stream::iter(0..count).map(|number| async move {
            let offset = number * self.part_bytes;
            let part_len = self.part_bytes.min(len_bytes - offset);
            let (_memory, body) = self.read(file, offset, part_len).await?;
            let place = PartPlace { number: number as usize, offset_bytes: offset };
            Ok::<_, UploadError>(
                self.store.put_part(name, upload, place, body, self.until(part_len)).await?,
            )
        });
        let parts: Vec<_> = parts.buffered(PARTS_AT_ONCE).try_collect().await?;
        Ok(self.store.complete(name, upload, &parts, len_bytes, self.until(0)).await?)
    }

    async fn read(
        &self,
        file: &Rc<R::File>,
        offset: u64,
        len_bytes: u64,
    ) -> Result<(Reservation, Bytes), UploadError> {
        let memory = loop {
            if let Some(memory) = self.memory.try_reserve(len_bytes) {
                break memory;
            }
            self.runtime.sleep_until(self.runtime.now().after(MEMORY_PAUSE)).await;
        };
        let buffer = Vec::with_capacity(len_bytes as usize);
        let (result, bytes) = file.read_exact_at(buffer, offset, len_bytes as usize).await;
        result?;
        Ok((memory, bytes.into()))
    }
}
