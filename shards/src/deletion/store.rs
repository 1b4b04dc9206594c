//! The file of the requests in the data folder.
//!
//! Each change replaces the whole file, so the text of a request that has left the record is in no
//! file of the folder.
//!
//! Guarantees: after a crash the file holds the requests from before a change or from behind it.
//! After a replacement that failed it may hold either, until the next replacement succeeds; the
//! temporary file is removed, here or at the next start.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logsvc_logql::syntax;
use logsvc_runtime::{Runtime, temporary_path};

use super::format::{self, FILE_MAX_BYTES, FormatError};
use super::{DeleteFilter, DeleteRequest, DeletionVersion};

/// The folder of the file, in the data folder.
pub const FOLDER_NAME: &str = "deletes";
/// Its name.
pub const FILE_NAME: &str = "REQUESTS";

/// Why the requests of earlier starts are not known.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file or its folder cannot be read or cleared up.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The operation that failed.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The bytes are damaged or of another version.
    #[error("the record of delete requests {path} cannot be used: {source}. {ADVICE}")]
    Format {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: FormatError,
    },
    /// The query of a pending request cannot be evaluated.
    #[error(
        "the record of delete requests {path} cannot be used: this program cannot evaluate the \
         query of request {id}: {cause}. {ADVICE}"
    )]
    Query {
        /// The file.
        path: PathBuf,
        /// The request.
        id: super::DeleteId,
        /// Why not, without the query's text.
        cause: String,
    },
}

const ADVICE: &str = "Entries that its requests hide would show again, so the server does not \
                      start without it. Put back a copy of the file, or start the version of \
                      logsvc that has written it; to give the requests up, move the file away";

/// The requests that a start has found.
#[derive(Clone, Debug, Default)]
pub struct LoadedRequests {
    /// All of the file, oldest first.
    pub requests: Arc<[DeleteRequest]>,
    /// The filters of those that are pending, in the same order. They hold from
    /// [`DeletionVersion::FIRST`] on.
    pub filters: Arc<[Arc<DeleteFilter>]>,
}

/// Where the requests of a data folder are.
pub fn requests_path(data_dir: &Path) -> PathBuf {
    data_dir.join(FOLDER_NAME).join(FILE_NAME)
}

/// Reads the requests of earlier starts, and removes the left-over of a write that did not end.
///
/// # Errors
/// See [`LoadError`].
pub async fn load<R: Runtime>(runtime: &R, data_dir: &Path) -> Result<LoadedRequests, LoadError> {
    let path = requests_path(data_dir);
    let io = |action, path: &Path| {
        let path = path.to_path_buf();
        move |source| LoadError::Io { action, path, source }
    };
    let temporary = temporary_path(&path);
    match runtime.remove_file(&temporary).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(io("remove", &temporary)(error));
        }
        _ => {}
    }
    for folder in [data_dir.join(FOLDER_NAME), data_dir.to_path_buf()] {
        // This start acts by what it finds, so a power cut must not bring back what was before.
        match runtime.sync_dir(&folder).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(io("sync", &folder)(error));
            }
            _ => {}
        }
    }
    let requests = match read(runtime, &path).await {
        Ok(requests) => requests,
        Err(ReadError::Io(error)) => return Err(io("read", &path)(error)),
        Err(ReadError::Format(source)) => return Err(LoadError::Format { path, source }),
    };
    let mut filters = Vec::new();
    for request in requests.iter().filter(|request| request.is_pending()) {
        let filter = filter_of(request, DeletionVersion::FIRST)
            .map_err(|cause| LoadError::Query { path: path.clone(), id: request.id, cause })?;
        filters.push(Arc::new(filter));
    }
    Ok(LoadedRequests { requests: requests.into(), filters: filters.into() })
}

/// Why the file cannot be read.
#[derive(Debug)]
pub(crate) enum ReadError {
    Io(io::Error),
    Format(FormatError),
}

/// The requests of a file; none if there is no file.
pub(crate) async fn read<R: Runtime>(
    runtime: &R,
    path: &Path,
) -> Result<Vec<DeleteRequest>, ReadError> {
    match runtime.read_file(path, FILE_MAX_BYTES).await {
        Ok(bytes) => format::decode(&bytes).map_err(ReadError::Format),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(ReadError::Io(error)),
    }
}

/// The filter of a recorded request, which holds from a version on. The error does not repeat the query, which may be the very
/// datum that is to go.
pub(crate) fn filter_of(
    request: &DeleteRequest,
    since: DeletionVersion,
) -> Result<DeleteFilter, String> {
    let log = syntax::parse_log_selector(&request.query)
        .map_err(|_| "it is no log query that this program can parse".to_owned())?;
    let bounds_ns = (request.start_ns, request.end_ns);
    let (id, tenant) = (request.id, request.tenant.clone());
    DeleteFilter::new(id, tenant, &log, bounds_ns, since)
        .map_err(|_| "it has stages that this program cannot evaluate".to_owned())
}

/// Writes the file.
#[derive(Debug)]
pub struct RequestStore<R: Runtime> {
    runtime: R,
    data_dir: PathBuf,
    /// Whether the folder is known to be there, durably.
    has_folder: bool,
}

impl<R: Runtime> RequestStore<R> {
    /// The store of a data folder.
    pub fn new(runtime: R, data_dir: PathBuf) -> RequestStore<R> {
        RequestStore { runtime, data_dir, has_folder: false }
    }

    /// Replaces the file by one with these requests.
    ///
    /// # Errors
    /// The disk. The file may hold these requests or the ones before.
    pub async fn replace(
        &mut self,
        requests: impl Iterator<Item = &DeleteRequest>,
    ) -> io::Result<()> {
        let bytes = format::encode(requests)
            .ok_or_else(|| io::Error::other("the record of delete requests is too long"))?;
        if !self.has_folder {
            let folder = self.data_dir.join(FOLDER_NAME);
            self.runtime.create_dir_all(&folder).await?;
            self.runtime.sync_dir(&self.data_dir).await?;
            self.has_folder = true;
        }
        let path = requests_path(&self.data_dir);
        let replaced = self.runtime.replace_file(&path, bytes).await;
        if replaced.is_err() {
            // It holds texts of requests.
            match self.runtime.remove_file(&temporary_path(&path)).await {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(%error, "cannot remove the left-over of a failed write");
                }
                _ => {}
            }
        }
        replaced
    }
}
