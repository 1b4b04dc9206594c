//! Loki's errors about keys that do not go together.

use super::super::Config;
use super::super::yaml::{Entry, Node};

/// The section of Loki with keys that do not go together.
const WORKER: &str = "frontend_worker";
/// The old key.
const OLD: &str = "grpc_client_config";
/// The keys that have taken its place.
const NEW: [&str; 2] = ["query_frontend_grpc_client", "query_scheduler_grpc_client"];

/// Tokens are kept in the folder that the operator has named, or nowhere.
pub(in super::super) fn tokens(config: &Config, given: &[&str]) -> Option<String> {
    let is_named = given.iter().any(|path| ["common.path_prefix", "data_dir"].contains(path));
    (config.cluster_keys.persists_tokens && !is_named)
        .then(|| "if persist_tokens is true, path_prefix MUST be defined".to_owned())
}

/// The old key for clients of gRPC and the new ones, which mean nothing here, exclude each other.
pub(in super::super) fn grpc_clients(document: &[Entry]) -> Option<String> {
    let worker = document.iter().find(|entry| entry.key == WORKER)?;
    let Node::Section(keys) = &worker.value else { return None };
    let has = |name: &str| keys.iter().any(|entry| entry.key == name && !entry.value.is_null());
    (has(OLD) && NEW.into_iter().any(has)).then(|| {
        "both `grpc_client_config` and (`query_frontend_grpc_client` or \
         `query_scheduler_grpc_client`) are set at the same time. Please use only \
         `query_frontend_grpc_client` and `query_scheduler_grpc_client`"
            .to_owned()
    })
}
