//! Reads the files with the limits of tenants again while the node runs.
//!
//! Guarantees: core 0 does it, through the runtime's files, and takes their text apart beside its
//! other work on the side thread. Only a change of the text is looked at. Files that cannot be read
//! or are wrong change nothing: the last good limits stay, the log says once why, and the metrics
//! show it until the files are good again.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use logsvc_runtime::mesh::Caller;
use logsvc_runtime::{CoreId, Runtime};
use logsvc_shards::messages::{ShardReply, ShardRequest};

use crate::config::{FILE_MAX_BYTES, IgnoredKey, LimitsOfTenants, RuntimeFiles, retention, sha256};
use crate::node::NodeState;

/// When the lane to a shard is full.
const RETRY_AFTER: Duration = Duration::from_millis(20);

/// The files as the task has last seen them.
struct Seen {
    /// Hash of the files that the limits come from.
    used_sha256: Option<[u8; 32]>,
    /// Hash of the files that were last refused.
    refused_sha256: Option<[u8; 32]>,
    /// The failure that was last logged.
    failure: Option<String>,
}

/// Reads the files again and again until the node stops.
pub(crate) async fn run<R: Runtime>(
    runtime: R,
    node: Arc<NodeState>,
    caller: Caller<ShardRequest, ShardReply>,
) {
    let mut seen = Seen {
        used_sha256: node.limits.current().files_sha256,
        refused_sha256: None,
        failure: None,
    };
    loop {
        let next = runtime.now().after(node.config.runtime_reload_period);
        let sleep = std::pin::pin!(runtime.sleep_until(next));
        let stop = std::pin::pin!(node.stop.wait());
        if matches!(select(stop, sleep).await, Either::Left(_)) {
            return;
        }
        let outcome = read_again(&runtime, &node, &mut seen).await;
        match &outcome {
            Ok(_) => node.reloads.read(),
            Err(_) => node.reloads.failed(),
        }
        match outcome {
            Ok(None) => seen.failure = None,
            Ok(Some(files)) => {
                seen.failure = None;
                warn_of_ignored_keys("config key", &files.ignored_keys);
                apply(&runtime, &node, &caller, files.limits).await;
            }
            Err(failure) => {
                if seen.failure.as_ref() != Some(&failure) {
                    tracing::error!("failed to load runtime config: {failure}");
                }
                seen.failure = Some(failure);
            }
        }
    }
}

/// The limits of the files, if the files have changed.
async fn read_again<R: Runtime>(
    runtime: &R,
    node: &NodeState,
    seen: &mut Seen,
) -> Result<Option<RuntimeFiles>, String> {
    let mut texts = Vec::new();
    for path in &node.config.runtime_files {
        texts.push(read(runtime, path).await?);
    }
    let hash = sha256(&texts);
    if hash == seen.used_sha256 {
        seen.refused_sha256 = None;
        return Ok(None);
    }
    if hash == seen.refused_sha256
        && let Some(failure) = &seen.failure
    {
        return Err(failure.clone());
    }
    let config = Arc::clone(&node.config);
    // Long files take a while.
    let parsed = runtime.offload(move || RuntimeFiles::parse(&texts, &config.limits)).await;
    match parsed {
        Ok(files) => {
            (seen.used_sha256, seen.refused_sha256) = (hash, None);
            Ok(Some(files))
        }
        Err(errors) => {
            seen.refused_sha256 = hash;
            Err(errors.join("; "))
        }
    }
}

async fn read<R: Runtime>(runtime: &R, path: &str) -> Result<String, String> {
    let bytes = runtime.read_file(Path::new(path), FILE_MAX_BYTES).await;
    let text = bytes.and_then(|bytes| {
        String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    });
    text.map_err(|error| format!("cannot read {path}: {error}"))
}

/// Applies new limits, first to the cores and then to the retention of shards.
async fn apply<R: Runtime>(
    runtime: &R,
    node: &NodeState,
    caller: &Caller<ShardRequest, ShardReply>,
    limits: LimitsOfTenants,
) {
    node.limits.replace(limits);
    let policy = Arc::new(retention::policy(&node.config, &node.limits.current()));
    for shard in (0..runtime.core_count()).map(CoreId) {
        loop {
            match caller.call(shard, ShardRequest::Retain(Arc::clone(&policy))) {
                // It ends with an error if the shard has stopped.
                Ok(reply) => break drop(reply.await),
                Err(_) if node.stop.is_triggered() => return,
                Err(_) => runtime.sleep_until(runtime.now().after(RETRY_AFTER)).await,
            }
        }
    }
    node.reloads.changed(runtime.unix_nanos());
    tracing::info!("the limits of tenants have changed");
}

/// One line for each reason, so that a file of the reference does not push everything
/// else off the screen.
pub(crate) fn warn_of_ignored_keys(what: &str, keys: &[IgnoredKey]) {
    let mut reasons: Vec<&str> = Vec::new();
    for key in keys {
        if !reasons.contains(&key.reason) {
            reasons.push(key.reason);
        }
    }
    for reason in reasons {
        let of_reason = keys.iter().filter(|key| key.reason == reason);
        let paths: Vec<&str> = of_reason.map(|key| key.path.as_str()).collect();
        tracing::warn!(keys = paths.join(", "), "{what} ignored: {reason}");
    }
}
