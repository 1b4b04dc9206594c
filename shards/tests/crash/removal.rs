//! The removal of entries from the disk, as the keeper of the requests has it done.

use std::path::PathBuf;
use std::sync::Arc;

use logsvc_runtime::CoreId;
use logsvc_runtime::sim::Simulation;
use logsvc_shards::messages::{PurgeOutcome, PurgeRequest, PurgeTarget, ShardReply, ShardRequest};
use logsvc_shards::wal::format::WalName;

use crate::cluster::{Cluster, DATA_DIR, WAL_DIR};

/// The answer of a shard.
pub(crate) type Answer = Result<PurgeOutcome, Arc<str>>;

/// Begins a purge on all shards; the result gives their answers, if the node lives so long.
pub(crate) fn begin(
    cluster: &Cluster<'_>,
    targets: Vec<PurgeTarget>,
) -> impl Future<Output = Option<Vec<Answer>>> + use<> {
    let targets: Arc<[PurgeTarget]> = targets.into();
    let caller = cluster.caller(0);
    let request = || ShardRequest::Purge(PurgeRequest { targets: Arc::clone(&targets) });
    let replies: Vec<_> = (0..cluster.shards)
        .map(|shard| caller.call(CoreId(shard), request()).expect("the lanes have room"))
        .collect();
    async move {
        let mut answers = Vec::new();
        for reply in replies {
            let ShardReply::Purged(answer) = reply.await.ok()? else { panic!("another reply") };
            answers.push(answer);
        }
        Some(answers)
    }
}

/// The files that have to go, according to answers.
pub(crate) fn leaving(simulation: &Simulation, outcomes: &[PurgeOutcome]) -> Vec<PathBuf> {
    let is_leaving = |path: &PathBuf| {
        if outcomes.iter().any(|outcome| outcome.leaving.contains(path)) {
            return true;
        }
        let name = path.file_name().and_then(|name| WalName::parse(name.to_str()?));
        let is_new = |log: WalName| {
            let first = outcomes.iter().filter_map(|outcome| outcome.first_log);
            let mut own = first.filter(|first| WalName { index: first.index, ..log } == *first);
            own.any(|first| log.index >= first.index)
        };
        path.starts_with(WAL_DIR) && name.is_some_and(|log| !is_new(log))
    };
    simulation.disk().files(DATA_DIR).into_iter().filter(is_leaving).collect()
}
