//! Keys of the reference that mean nothing here, and why.
//!
//! They are accepted, so that files of the reference load, and named in a warning.

/// Keys of one section that mean nothing for the same reason.
#[derive(Debug)]
pub(super) struct Foreign {
    /// Where they stand; empty for the top level.
    pub(super) section: &'static str,
    /// The keys, each with all that is below it.
    pub(super) keys: &'static [&'static str],
    /// Why they mean nothing; completes "ignored:".
    pub(super) reason: &'static str,
}

/// Why the key at a path means nothing here, if it is one of the reference.
pub(super) fn reason(path: &str) -> Option<&'static str> {
    let (section, key) = path.rsplit_once('.').unwrap_or(("", path));
    let row = FOREIGN.iter().find(|row| row.section == section && row.keys.contains(&key));
    row.map(|row| row.reason)
}

/// The paths of all of them.
pub(super) fn paths() -> impl Iterator<Item = String> {
    FOREIGN.iter().flat_map(|row| {
        row.keys.iter().map(|key| match row.section {
            "" => (*key).to_owned(),
            section => format!("{section}.{key}"),
        })
    })
}

const ONE_NODE: &str = "there is one node";
const SPLITS: &str = "queries are spread over the cores, not split into parts";
const RESULTS: &str = "there is no cache of results";
const CHUNKS: &str = "there are no chunks";
const OBJECTS: &str = "data is kept in files of this node";
const RULES: &str = "there are no rules yet";
const DELETION: &str = "there is no deletion yet";
const BLOOMS: &str = "filters are made with each segment";

/// The table, by section.
pub(super) static FOREIGN: &[Foreign] = &[
    Foreign { section: "", keys: &["target"], reason: "one process has all parts" },
    Foreign {
        section: "limits_config",
        keys: &[
            "ingestion_rate_strategy",
            "use_owned_stream_count",
            "max_queriers_per_tenant",
            "max_query_capacity",
            "index_gateway_shard_size",
            "ingestion_partitions_tenant_shard_size",
        ],
        reason: ONE_NODE,
    },
    Foreign {
        section: "limits_config",
        keys: &[
            "max_query_parallelism",
            "tsdb_max_query_parallelism",
            "tsdb_max_bytes_per_shard",
            "tsdb_sharding_strategy",
            "tsdb_precompute_chunks",
            "split_queries_by_interval",
            "split_metadata_queries_by_interval",
            "split_recent_metadata_queries_by_interval",
            "recent_metadata_query_window",
            "split_instant_metric_queries_by_interval",
            "split_ingester_queries_by_interval",
            "min_sharding_lookback",
            "shard_aggregations",
            "enable_multi_variant_queries",
            "cardinality_limit",
        ],
        reason: SPLITS,
    },
    Foreign {
        section: "limits_config",
        keys: &[
            "max_cache_freshness_per_query",
            "max_metadata_cache_freshness",
            "max_stats_cache_freshness",
        ],
        reason: RESULTS,
    },
    Foreign {
        section: "limits_config",
        keys: &["max_chunks_per_query", "query_ready_index_num_days"],
        reason: CHUNKS,
    },
    Foreign {
        section: "limits_config",
        keys: &["shard_streams"],
        reason: "a stream is not bound to one chunk, so it need not be split",
    },
    Foreign {
        section: "limits_config",
        keys: &["unordered_writes"],
        reason: "entries may always come out of order",
    },
    Foreign {
        section: "limits_config",
        keys: &["simulated_push_latency"],
        reason: "it is for tests of the reference",
    },
    Foreign {
        section: "limits_config",
        keys: &["s3_sse_type", "s3_sse_kms_key_id", "s3_sse_kms_encryption_context"],
        reason: OBJECTS,
    },
    Foreign {
        section: "limits_config",
        keys: &[
            "ruler_max_rules_per_rule_group",
            "ruler_max_rule_groups_per_tenant",
            "ruler_tenant_shard_size",
            "ruler_alertmanager_config",
            "ruler_enable_wal_replay",
            "ruler_remote_write_disabled",
            "ruler_remote_write_url",
            "ruler_remote_write_timeout",
            "ruler_remote_write_headers",
            "ruler_remote_write_relabel_configs",
            "ruler_remote_write_queue_capacity",
            "ruler_remote_write_queue_min_shards",
            "ruler_remote_write_queue_max_shards",
            "ruler_remote_write_queue_max_samples_per_send",
            "ruler_remote_write_queue_batch_send_deadline",
            "ruler_remote_write_queue_min_backoff",
            "ruler_remote_write_queue_max_backoff",
            "ruler_remote_write_queue_retry_on_ratelimit",
            "ruler_remote_write_sigv4_config",
            "ruler_remote_write_config",
            "ruler_remote_evaluation_timeout",
            "ruler_remote_evaluation_max_response_size",
        ],
        reason: RULES,
    },
    Foreign {
        section: "limits_config",
        keys: &["deletion_mode", "allow_deletes"],
        reason: DELETION,
    },
    Foreign {
        section: "limits_config",
        keys: &[
            "bloom_gateway_enable_filtering",
            "bloom_gateway_shard_size",
            "bloom_gateway_cache_key_interval",
            "bloom_gateway_blocks_downloading_parallelism",
            "bloom_build_max_builders",
            "bloom_build_task_max_retries",
            "bloom_build_builder_response_timeout",
            "bloom_creation_enabled",
            "bloom_planning_strategy",
            "bloom_split_series_keyspace_by",
            "bloom_task_target_series_chunk_size",
            "bloom_block_encoding",
            "bloom_prefetch_blocks",
            "bloom_max_block_size",
            "bloom_max_bloom_size",
            "bloom_ngram_length",
            "bloom_ngram_skip",
            "bloom_false_positive_rate",
            "bloom_compactor_enable_compaction",
            "bloom_compactor_shard_size",
            "bloom_compactor_max_block_size",
            "bloom_compactor_max_bloom_size",
        ],
        reason: BLOOMS,
    },
    Foreign {
        section: "limits_config",
        keys: &[
            "pattern_ingester_tokenizable_json_fields_default",
            "pattern_ingester_tokenizable_json_fields_append",
            "pattern_ingester_tokenizable_json_fields_delete",
            "pattern_persistence_enabled",
            "pattern_persistence_granularity",
            "pattern_persistence_threshold",
            "pattern_rate_threshold",
            "persist_granularity",
            "metric_aggregation_enabled",
        ],
        reason: "patterns are found when they are asked for",
    },
    Foreign {
        section: "limits_config",
        keys: &[
            "block_ingestion_policy_until",
            "policy_enforced_labels",
            "policy_stream_mapping",
            "policy_override_limits",
        ],
        reason: "there are no policies of ingestion",
    },
    Foreign {
        section: "limits_config",
        keys: &["blocked_queries"],
        reason: "queries cannot be blocked by policy",
    },
    Foreign {
        section: "limits_config",
        keys: &["discover_generic_fields"],
        reason: "fields are found when they are asked for",
    },
];
