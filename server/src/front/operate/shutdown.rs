//! `flush`, and the ways to end the node or its part that takes entries:
//! `ingester/prepare_shutdown`, `ingester/shutdown` and `ingester/flush_shutdown`.
//!
//! Guarantees: 204 to a flush means that all entries that were in memory at the start of the
//! request are in segments on stable storage, and in the bucket if there is one. A prepared shutdown survives a restart: a marker file
//! in the data folder records it. Failures: segments or the marker cannot be written (500); then
//! the node is as it was.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{Method, StatusCode};
use logsvc_http::{Params, Request, Response};
use logsvc_logql::syntax;
use logsvc_proto::error::ApiError;
use logsvc_runtime::Runtime;
use logsvc_shards::messages::{ShardReply, ShardRequest};

use crate::front::core::errors::shard_gone;
use crate::front::operate::Operator;
use crate::front::query::params;
use crate::services::{Component, State};

/// The text of the marker file, for people who find it.
const MARKER_TEXT: &[u8] = b"memory is written to segments when the server stops\n";

/// How long a flush waits for the bucket, and how often it looks.
const BUCKET_PATIENCE: Duration = Duration::from_secs(60);
const BUCKET_PAUSE: Duration = Duration::from_millis(20);

/// The file that says that the node is prepared for a shutdown.
fn marker_path(data_dir: &Path) -> PathBuf {
    data_dir.join("PREPARE_SHUTDOWN")
}

/// Whether the data folder says that the node is prepared for a shutdown.
///
/// # Errors
/// The marker is there but cannot be opened.
pub(crate) async fn was_prepared<R: Runtime>(runtime: &R, data_dir: &Path) -> io::Result<bool> {
    match runtime.open(&marker_path(data_dir), logsvc_runtime::OpenMode::Read).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

impl<R: Runtime> Operator<R> {
    /// `flush`.
    pub(crate) async fn flush(&self) -> Result<Response, ApiError> {
        self.flush_shards().await?;
        self.reach_bucket().await?;
        Ok(Response::new(StatusCode::NO_CONTENT))
    }

    /// `flush/tenant`: the shards seal all tenants together, so more is written than
    /// was asked for.
    pub(crate) async fn flush_tenant(&self, request: &Request) -> Result<Response, ApiError> {
        self.core.tenant(&request.head).map_err(ApiError::with_newline)?;
        let params = params::of(request)?;
        if let Some(text) = params.get_non_empty("streams") {
            syntax::parse_matchers(text)
                .map_err(|error| ApiError::bad_request(error.to_string()).with_newline())?;
        }
        self.flush().await
    }

    /// Waits until the bucket has everything, if there is one.
    async fn reach_bucket(&self) -> Result<(), ApiError> {
        let (node, runtime) = (&self.core.node, &self.core.runtime);
        if node.config.bucket.is_none() {
            return Ok(());
        }
        let wanted = node.bucket.want();
        let deadline = runtime.now().after(BUCKET_PATIENCE);
        while !node.bucket.has_reached(wanted) {
            if runtime.now() >= deadline || node.bucket.is_lost() || node.stop.is_triggered() {
                let text = "the entries are in segments on the disk of this node, and the bucket \
                            has not taken them yet";
                return Err(ApiError::unavailable(text).with_newline());
            }
            runtime.sleep_until(runtime.now().after(BUCKET_PAUSE)).await;
        }
        Ok(())
    }

    pub(super) async fn flush_shards(&self) -> Result<(), ApiError> {
        for reply in self.core.gather(|| ShardRequest::Flush).await? {
            match reply {
                ShardReply::Flushed(Ok(())) => {}
                ShardReply::Flushed(Err(cause)) => {
                    return Err(ApiError::internal(format!("cannot flush: {cause}")).with_newline());
                }
                _ => return Err(shard_gone()),
            }
        }
        Ok(())
    }

    /// `ingester/prepare_shutdown`: from POST to DELETE, stopping the node writes entries in memory
    /// to segments, whatever the settings say.
    pub(crate) async fn prepare_shutdown(&self, request: &Request) -> Result<Response, ApiError> {
        let path = marker_path(&self.core.config().data_dir);
        let unwritable = |error: io::Error| {
            let text = format!("cannot write {}: {error}", path.display());
            ApiError::internal(text).with_newline()
        };
        match request.head.method {
            Method::POST if self.core.node.asked.is_prepared.load(Ordering::Acquire) => {}
            Method::POST => {
                let written = self.core.runtime.replace_file(&path, MARKER_TEXT.to_vec()).await;
                written.map_err(unwritable)?;
                self.core.node.asked.is_prepared.store(true, Ordering::Release);
            }
            Method::DELETE => {
                match self.core.runtime.remove_file(&path).await {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(unwritable(error));
                    }
                    _ => self
                        .core
                        .runtime
                        .sync_dir(&self.core.config().data_dir)
                        .await
                        .map_err(unwritable)?,
                }
                self.core.node.asked.is_prepared.store(false, Ordering::Release);
            }
            _ => {
                let is_set = self.core.node.asked.is_prepared.load(Ordering::Acquire);
                let text = if is_set { "set" } else { "unset" };
                return Ok(Response::text(StatusCode::OK, text));
            }
        }
        Ok(Response::new(StatusCode::NO_CONTENT))
    }

    /// `ingester/shutdown` and `ingester/flush_shutdown`, which differ in whether the
    /// process ends by default. `delete_ring_tokens` has no meaning: there are none.
    pub(crate) async fn shut_down(
        &self,
        request: &Request,
        terminates: bool,
    ) -> Result<Response, ApiError> {
        let params = params::of(request)?;
        if !self.core.takes_entries() {
            return Err(ApiError::unavailable("Ingester is stopping or already stopped."));
        }
        let flushes = flag(&params, "flush", true);
        if flushes {
            // Before anything else, so that a failure leaves the node as it was.
            self.flush_shards().await?;
        }
        self.core.node.services.set_whole(Component::Ingester, State::Terminated);
        if flushes && let Err(error) = self.flush_shards().await {
            // Entries that came meanwhile; they are in the write-ahead log.
            tracing::warn!(error = error.message, "the last entries stay in the log");
        }
        if flag(&params, "terminate", terminates) {
            tracing::info!("stopping because a client asked for it");
            self.core.node.stop.trigger();
        }
        Ok(Response::new(StatusCode::NO_CONTENT))
    }
}

/// A parameter that is true or false; any other value means the default.
fn flag(params: &Params, name: &str, default: bool) -> bool {
    match params.get(name).map(str::to_ascii_lowercase).as_deref() {
        Some("t" | "true" | "1") => true,
        Some("f" | "false" | "0") => false,
        _ => default,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_booleans_in_any_case_or_the_default() {
        let params = Params::parse(b"a=T&b=False&c=0&d=yes&e=").expect("parameters");
        for (name, expected) in [("a", true), ("b", false), ("c", false)] {
            assert_eq!(flag(&params, name, !expected), expected, "{name}");
        }
        for name in ["d", "e", "f"] {
            assert!(flag(&params, name, true) && !flag(&params, name, false), "{name}");
        }
    }
}
