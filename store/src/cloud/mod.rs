//! Buckets of clouds, by the crate `object_store`: S3 and what speaks like it, Google Cloud Storage,
//! Azure.
//!
//! That crate signs requests, and reads answers and credentials. It sends nothing by itself
//! ([`connector`]), and it repeats nothing: its own repetition sleeps on a runtime that is not there
//! and panics. So every client of it is built here, with `max_retries` 0.

mod config;
mod connector;
mod errors;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use logsvc_http::client::Client;
use logsvc_runtime::{Dial, Monotonic, Runtime};
use object_store::multipart::{MultipartStore, PartId as CloudPartId};
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
};

use crate::bucket::{
    Answer, Bucket, BucketError, ObjectInfo, Page, PartId, PartPlace, Span, UploadId,
};
use crate::name::{Folder, ObjectName};
pub use config::{
    AzureConfig, AzureCredentials, CloudConfig, ConfigError, ContainerAddress, Encryption,
    GcsConfig, GcsCredentials, S3Config, S3Credentials, Secret,
};
use connector::Connector;
use errors::of_store;

/// Objects of a page.
const PAGE_OBJECTS: usize = 1000;

/// A bucket of a cloud. Stays on its core.
pub struct CloudBucket<R> {
    runtime: R,
    objects: Arc<dyn ObjectStore>,
    uploads: Arc<dyn MultipartStore>,
    /// Before every name; empty, or with a `/` at its end.
    prefix: String,
    address: String,
}

impl<R: Runtime> CloudBucket<R> {
    /// The bucket of these settings. Its requests are sent with `client`. Sends nothing yet.
    ///
    /// # Errors
    /// The settings contradict each other, or a file that they name cannot be read.
    pub fn new<D: Dial>(
        runtime: R,
        client: Client<R, D>,
        config: &CloudConfig,
    ) -> Result<CloudBucket<R>, ConfigError> {
        let connector = Connector::new(&runtime, client);
        let (objects, uploads) = config.build(connector)?;
        let prefix = match config.prefix() {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        let address = config.address();
        Ok(CloudBucket { runtime, objects, uploads, prefix, address })
    }

    fn path(&self, name: &ObjectName) -> Path {
        Path::from(format!("{}{name}", self.prefix))
    }

    fn info_of(&self, meta: &ObjectMeta) -> Option<ObjectInfo> {
        let name = meta.location.as_ref().strip_prefix(&self.prefix)?;
        let name = ObjectName::new(name).ok()?;
        let created_ns = meta.last_modified.timestamp_nanos_opt().unwrap_or(0);
        Some(ObjectInfo { name, len_bytes: meta.size, created_ns })
    }

    /// Ends a request at its deadline.
    async fn in_time<T>(
        &self,
        until: Monotonic,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, BucketError> {
        // Boxed, because the futures of that crate are large.
        let request = Box::pin(request);
        match select(request, Box::pin(self.runtime.sleep_until(until))).await {
            Either::Left((answer, _)) => answer.map_err(of_store),
            Either::Right(_) => Err(BucketError::failed("no answer in time")),
        }
    }
}

impl<R: Runtime> Bucket for CloudBucket<R> {
    fn create(&self, name: &ObjectName, body: Bytes, until: Monotonic) -> Answer<'_, ()> {
        let path = self.path(name);
        Box::pin(async move {
            let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            let put = self.objects.put_opts(&path, PutPayload::from_bytes(body), options);
            self.in_time(until, put).await.map(|_| ())
        })
    }

    fn begin(&self, name: &ObjectName, until: Monotonic) -> Answer<'_, UploadId> {
        let path = self.path(name);
        Box::pin(async move {
            self.in_time(until, self.uploads.create_multipart(&path)).await.map(UploadId)
        })
    }

    fn put_part(
        &self,
        name: &ObjectName,
        upload: &UploadId,
        place: PartPlace,
        body: Bytes,
        until: Monotonic,
    ) -> Answer<'_, PartId> {
        let (path, upload) = (self.path(name), upload.0.clone());
        Box::pin(async move {
            let put =
                self.uploads.put_part(&path, &upload, place.number, PutPayload::from_bytes(body));
            self.in_time(until, put).await.map(|part| PartId(part.content_id))
        })
    }

    fn complete(
        &self,
        name: &ObjectName,
        upload: &UploadId,
        parts: Vec<PartId>,
        until: Monotonic,
    ) -> Answer<'_, ()> {
        let (path, upload) = (self.path(name), upload.0.clone());
        let parts = parts.into_iter().map(|part| CloudPartId { content_id: part.0 }).collect();
        Box::pin(async move {
            let complete = self.uploads.complete_multipart(&path, &upload, parts);
            self.in_time(until, complete).await.map(|_| ())
        })
    }

    fn abort(&self, name: &ObjectName, upload: &UploadId, until: Monotonic) -> Answer<'_, ()> {
        let (path, upload) = (self.path(name), upload.0.clone());
        Box::pin(async move {
            match self.in_time(until, self.uploads.abort_multipart(&path, &upload)).await {
                Err(BucketError::NotFound) => Ok(()),
                other => other,
            }
        })
    }

    fn read(&self, name: &ObjectName, span: Span, until: Monotonic) -> Answer<'_, Bytes> {
        let path = self.path(name);
        Box::pin(async move {
            let (range, max_bytes) = match span {
                Span::Whole { max_bytes } => (None, max_bytes),
                Span::Range(range) if range.is_empty() => return Ok(Bytes::new()),
                Span::Range(range) => (Some(GetRange::Bounded(range)), u64::MAX),
            };
            let options = GetOptions { range, ..GetOptions::default() };
            let read = async {
                let found = self.objects.get_opts(&path, options).await?;
                if found.range.end - found.range.start > max_bytes {
                    return Ok(None);
                }
                found.bytes().await.map(Some)
            };
            match self.in_time(until, read).await {
                Ok(Some(bytes)) => Ok(bytes),
                Ok(None) => Err(BucketError::TooLarge { max_bytes }),
                // The range begins behind the object.
                Err(error) if errors::is_beyond(&error) => Ok(Bytes::new()),
                Err(error) => Err(error),
            }
        })
    }

    fn info(&self, name: &ObjectName, until: Monotonic) -> Answer<'_, ObjectInfo> {
        let (path, name) = (self.path(name), name.clone());
        Box::pin(async move {
            let meta = self.in_time(until, self.objects.head(&path)).await?;
            let created_ns = meta.last_modified.timestamp_nanos_opt().unwrap_or(0);
            Ok(ObjectInfo { name, len_bytes: meta.size, created_ns })
        })
    }

    fn list(
        &self,
        folder: &Folder,
        after: Option<&ObjectName>,
        until: Monotonic,
    ) -> Answer<'_, Page> {
        let prefix = Path::from(format!("{}{}", self.prefix, folder.as_str()));
        let (after, behind) = (after.map(|after| self.path(after)), after.cloned());
        Box::pin(async move {
            let list = async {
                let prefix = (!prefix.as_ref().is_empty()).then_some(&prefix);
                let mut found = match &after {
                    Some(after) => self.objects.list_with_offset(prefix, after),
                    None => self.objects.list(prefix),
                };
                let mut page = Page::default();
                while let Some(meta) = found.next().await {
                    // Others may have objects of other names there.
                    let Some(info) = self.info_of(&meta?) else { continue };
                    // Some servers do not know where to begin.
                    if behind.as_ref().is_some_and(|behind| info.name <= *behind) {
                        continue;
                    }
                    if page.objects.len() == PAGE_OBJECTS {
                        page.has_more = true;
                        break;
                    }
                    page.objects.push(info);
                }
                Ok(page)
            };
            self.in_time(until, list).await
        })
    }

    fn remove(&self, name: &ObjectName, until: Monotonic) -> Answer<'_, ()> {
        let path = self.path(name);
        Box::pin(async move {
            match self.in_time(until, self.objects.delete(&path)).await {
                Err(BucketError::NotFound) => Ok(()),
                other => other,
            }
        })
    }

    fn address(&self) -> &str {
        &self.address
    }
}
