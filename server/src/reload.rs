//! Reads files again while the node runs: the limits of tenants from time to time, and everything
//! that may change when somebody asks for it (SIGHUP, `/-/reload`).
//!
//! Guarantees: core 0 does it, through the runtime's files, and takes their text apart beside its
//! other work on the side thread. Only a change of the text is looked at; a text that names other
//! files which cannot be used is looked at again. Files that cannot be read or are wrong change
//! nothing: the last good limits and certificates stay, the log says once why, and the metrics show
//! it until the files are good again. Everything is read and checked before anything is switched.
//! Wishes that come during a reading lead to one more reading.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use logsvc_rules::messages::{RulesReply, RulesRequest};
use logsvc_runtime::mesh::Caller;
use logsvc_runtime::{CoreId, Monotonic, Runtime};
use logsvc_shards::messages::{ShardReply, ShardRequest};

use crate::cluster::Encryption;
use crate::config::{
    FILE_MAX_BYTES, IgnoredKey, LimitsOfTenants, NEEDED_FILE_MAX_BYTES, RuntimeFiles, print,
    retention, sha256,
};
use crate::node::{Certificates, NodeState};

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

/// Ways to those who use what was read.
pub(crate) struct Links {
    /// To the shards, for their retention.
    pub(crate) shards: Caller<ShardRequest, ShardReply>,
    /// To the ruler, for its files.
    pub(crate) ruler: Caller<RulesRequest, RulesReply>,
}

/// Why the files are read.
enum Cause {
    Time,
    Asked,
}

/// Reads the files again and again until the node stops.
pub(crate) async fn run<R: Runtime>(runtime: R, node: Arc<NodeState>, links: Links) {
    let mut seen = Seen {
        used_sha256: node.limits.current().files_sha256,
        refused_sha256: None,
        failure: None,
    };
    while let Some(cause) = wait(&runtime, &node).await {
        match cause {
            Cause::Time => {
                let outcome = read_again(&runtime, &node, &mut seen).await;
                if let Some(files) = note(&node, &mut seen, outcome) {
                    apply(&runtime, &node, &links.shards, files).await;
                }
            }
            Cause::Asked => {
                let waiting = node.surroundings.reload.take();
                node.surroundings.manager.reloading();
                let outcome = read_all(&runtime, &node, &links, &mut seen).await;
                node.reloads.was_asked(outcome.is_ok());
                let status = match &outcome {
                    Ok(()) => "the files were read again".to_owned(),
                    Err(error) => format!("the last reading of the files failed: {error}"),
                };
                node.surroundings.manager.ready(&status);
                for client in waiting {
                    // A client may have gone.
                    let _ = client.try_send(outcome.clone());
                }
            }
        }
    }
}

/// `None` when the node stops.
async fn wait<R: Runtime>(runtime: &R, node: &NodeState) -> Option<Cause> {
    let next = match node.config.runtime_files.is_empty() {
        true => Monotonic::NEVER,
        false => runtime.now().after(node.config.runtime_reload_period),
    };
    let sleep = std::pin::pin!(runtime.sleep_until(next));
    let bell = std::pin::pin!(node.surroundings.reload.bell.wait());
    let stop = std::pin::pin!(node.stop.wait());
    match select(stop, select(bell, sleep)).await {
        Either::Left(_) => None,
        Either::Right((Either::Left(_), _)) => Some(Cause::Asked),
        Either::Right((Either::Right(_), _)) => Some(Cause::Time),
    }
}

/// Counts and logs the outcome of reading the files with limits; returns the files if they are good
/// and have changed.
fn note(
    node: &NodeState,
    seen: &mut Seen,
    outcome: Result<Option<RuntimeFiles>, String>,
) -> Option<RuntimeFiles> {
    match outcome {
        Ok(files) => {
            node.reloads.read();
            seen.failure = None;
            files
        }
        Err(failure) => {
            node.reloads.failed();
            if seen.failure.as_ref() != Some(&failure) {
                tracing::error!("failed to load runtime config: {failure}");
            }
            seen.failure = Some(failure);
            None
        }
    }
}

/// Reads everything that may change, and switches if all of it is good.
async fn read_all<R: Runtime>(
    runtime: &R,
    node: &Arc<NodeState>,
    links: &Links,
    seen: &mut Seen,
) -> Result<(), String> {
    let config = Arc::clone(&node.config);
    let origin = node.surroundings.origin.clone();
    let read = runtime.offload(move || {
        let loaded = origin.load().transpose().map_err(|errors| errors.0.join("; "))?;
        let needs_restart =
            loaded.map_or_else(Vec::new, |new| print::changed(&config, &new.config));
        let users = config.access.load(config.auth_enabled)?;
        Ok::<_, String>((Certificates::load(&config)?, users, needs_restart))
    });
    let of_clients = Encryption::default();
    let read = async {
        let read = read.await?;
        if let Some(cluster) = &node.config.cluster {
            of_clients.load(runtime, &cluster.tls).await?;
        }
        Ok::<_, String>(read)
    };
    let (tls, users, needs_restart) = match read.await {
        Ok(read) => read,
        Err(error) => {
            tracing::error!("the settings in force stay: {error}");
            return Err(error);
        }
    };
    let outcome = read_again(runtime, node, seen).await;
    let failure = outcome.as_ref().err().cloned();
    let files = note(node, seen, outcome);
    if let Some(failure) = failure {
        return Err(failure);
    }
    #[cfg(feature = "tls")]
    node.entrance.tls.replace(&tls);
    #[cfg(not(feature = "tls"))]
    let _ = tls;
    if let Some(cluster) = &node.cluster {
        cluster.encryption.replace(&of_clients);
    }
    if let Some(users) = users {
        node.entrance.users.replace(users);
    }
    if let Some(files) = files {
        apply(runtime, node, &links.shards, files).await;
    }
    // A stopped ruler has no files to look at; a full lane means that it is about to look.
    if let Ok(reply) = links.ruler.call(CoreId(0), RulesRequest::Look) {
        drop(reply.await);
    }
    if !needs_restart.is_empty() {
        tracing::warn!(keys = needs_restart.join(", "), "changed settings need a restart");
    }
    tracing::info!("read certificates, accounts, limits and rules again");
    Ok(())
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
    let parse = move || {
        let files = RuntimeFiles::parse(&texts, &config.limits)?;
        let faults = config.ruler.tenant_faults(&files.limits.of_rules());
        if faults.is_empty() { Ok(files) } else { Err(faults) }
    };
    match runtime.offload(parse).await {
        Ok(files) => {
            // Other files may become good without a change of these, so they are looked at again.
            check_needed_files(runtime, node, &files.limits).await?;
            (seen.used_sha256, seen.refused_sha256) = (hash, None);
            Ok(Some(files))
        }
        Err(errors) => {
            seen.refused_sha256 = hash;
            Err(errors.join("; "))
        }
    }
}

/// Reads the files that the settings of single tenants name.
///
/// # Errors
/// Some of them cannot be used; the text has all faults.
async fn check_needed_files<R: Runtime>(
    runtime: &R,
    node: &NodeState,
    limits: &LimitsOfTenants,
) -> Result<(), String> {
    let mut faults = Vec::new();
    for (tenant, file) in node.config.ruler.tenant_files(&limits.of_rules()) {
        let bytes = runtime.read_file(&file.path, NEEDED_FILE_MAX_BYTES as usize).await;
        faults.extend(file.tenant_fault(&tenant, bytes.and_then(text_of)));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
}

fn text_of(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

async fn read<R: Runtime>(runtime: &R, path: &str) -> Result<String, String> {
    let bytes = runtime.read_file(Path::new(path), FILE_MAX_BYTES).await;
    bytes.and_then(text_of).map_err(|error| format!("cannot read {path}: {error}"))
}

/// Applies new limits, first to the cores and then to the retention of shards.
async fn apply<R: Runtime>(
    runtime: &R,
    node: &NodeState,
    caller: &Caller<ShardRequest, ShardReply>,
    files: RuntimeFiles,
) {
    warn_of_ignored_keys("config key", &files.ignored_keys);
    let limits: LimitsOfTenants = files.limits;
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

/// One line for each reason, so that a file of Loki does not push everything
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
