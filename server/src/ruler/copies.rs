//! The bucket as the one who keeps copies of rule groups.

use std::fmt;

use logsvc_rules::store::{Copying, FileCopies, NotCopied};
use logsvc_runtime::Runtime;
use logsvc_shards::kept::{KeptFiles, KeptPath};

/// Notes changes of rule groups for the follower of the node.
pub(super) struct BucketCopies<R> {
    pub(super) runtime: R,
    pub(super) files: KeptFiles,
}

impl<R> fmt::Debug for BucketCopies<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketCopies").field("files", &self.files).finish_non_exhaustive()
    }
}

impl<R: Runtime> FileCopies for BucketCopies<R> {
    fn changed(&self, path: &str) {
        match KeptPath::parse(path) {
            Some(path) => self.files.note(path),
            None => tracing::error!(path, "a file is not kept in the bucket: it has another name"),
        }
    }

    fn copied(&self) -> Option<Copying> {
        let settling = self.files.settled(&self.runtime)?;
        Some(Box::pin(async move { settling.await.map_err(|_| NotCopied) }))
    }
}
