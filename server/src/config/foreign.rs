//! Keys of the reference that mean nothing here, and why.
//!
//! They are accepted, so that files of the reference load, and named in a warning.

pub(crate) mod flags;
mod limits;

use limits::LIMITS;

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
    let row = rows().find(|row| row.section == section && row.keys.contains(&key));
    row.map(|row| row.reason)
}

/// What is wrong with the value of a key that means nothing here: where the reference
/// would not start, a mistake is not passed over in silence.
pub(super) fn fault(path: &str, value: Option<&str>) -> Option<String> {
    const MODES: [&str; 3] = ["disabled", "filter-only", "filter-and-delete"];
    let is_mode = matches!(path, "limits_config.deletion_mode" | "compactor.deletion_mode");
    let is_good = value.is_some_and(|mode| MODES.contains(&mode));
    (is_mode && !is_good)
        .then(|| format!("{path}: unknown deletion mode: must be one of {}", MODES.join("|")))
}

/// The paths of all of them.
pub(super) fn paths() -> impl Iterator<Item = String> {
    rows().flat_map(|row| {
        row.keys.iter().map(|key| match row.section {
            "" => (*key).to_owned(),
            section => format!("{section}.{key}"),
        })
    })
}

/// All rows, by section.
pub(super) fn rows() -> impl Iterator<Item = &'static Foreign> {
    SECTIONS.iter().chain(LIMITS)
}

/// The rows of all sections but that of limits.
static SECTIONS: &[Foreign] = &[
    Foreign {
        section: "",
        keys: &[
            "legacy_read_mode",
            "legacy_read_target",
            "ingest_limits",
            "ingest_limits_frontend",
            "ingest_limits_frontend_client",
            "ingester_client",
            "ingester_rf1",
            "ingester_rf1_client",
            "querier_rf1",
            "frontend_worker",
            "worker",
            "index_gateway",
            "compactor_client",
            "compactor_grpc_client",
            "metastore",
            "metastore_client",
            "block_builder",
            "block_scheduler",
            "partition_ingester",
            "usage_tracker",
            "rate_service",
            "rate_service_client",
        ],
        reason: "one process has all parts",
    },
    Foreign {
        section: "",
        keys: &["memberlist", "kafka_config", "kafka_ingester", "consul", "etcd"],
        reason: "there is one node",
    },
    Foreign {
        section: "",
        keys: &[
            "schema_config",
            "storage_config",
            "chunk_store_config",
            "table_manager",
            "dataobj",
            "dataobj_consumer",
            "dataobj-consumer",
            "dataobj_explorer",
        ],
        reason: "data is kept in files of this node, in a form of its own",
    },
    Foreign {
        section: "",
        keys: &["query_engine"],
        reason: "all queries are run by the same engine",
    },
    Foreign {
        section: "",
        keys: &["ruler", "ruler_storage", "ruler_remote_write"],
        reason: "there are no rules yet",
    },
    Foreign {
        section: "",
        keys: &["bloom_gateway", "bloom_build", "bloom_compactor"],
        reason: "filters are made with each segment",
    },
    Foreign {
        section: "",
        keys: &["analytics", "usage_report"],
        reason: "nothing is reported to anybody",
    },
    Foreign {
        section: "",
        keys: &[
            "ballast_bytes",
            "tracing",
            "profiling",
            "operational_config",
            "metrics_namespace",
            "use_buffered_logger",
            "use_sync_logger",
            "internal_server",
            "shutdown_delay",
        ],
        reason: "it is about the process of the reference",
    },
    Foreign { section: "", keys: &["ui"], reason: "there is no such page" },
    Foreign { section: "", keys: &["http_prefix"], reason: "paths have no prefix" },
    Foreign {
        section: "",
        keys: &["tenant_limits_allow_publish"],
        reason: "limits are published as the reference does by default",
    },
    Foreign {
        section: "server",
        keys: &[
            "grpc_listen_network",
            "grpc_listen_address",
            "grpc_listen_port",
            "grpc_listen_conn_limit",
            "grpc_collect_max_streams_by_conn",
            "grpc_tls_config",
            "grpc_server_max_recv_msg_size",
            "grpc_server_max_send_msg_size",
            "grpc_server_max_concurrent_streams",
            "grpc_server_max_connection_idle",
            "grpc_server_max_connection_age",
            "grpc_server_max_connection_age_grace",
            "grpc_server_keepalive_time",
            "grpc_server_keepalive_timeout",
            "grpc_server_min_time_between_pings",
            "grpc_server_ping_without_stream_allowed",
            "grpc_server_num_workers",
            "grpc_server_stats_tracking_enabled",
            "grpc_server_recv_buffer_pools_enabled",
            "grpc_server_read_buffer_size",
            "grpc_server_write_buffer_size",
            "report_grpc_codes_in_instrumentation_label_enabled",
        ],
        reason: "there is no gRPC",
    },
    Foreign { section: "server", keys: &["cluster_validation"], reason: "there is one node" },
    Foreign {
        section: "server",
        keys: &[
            "log_source_ips_enabled",
            "log_source_ips_full",
            "log_source_ips_header",
            "log_source_ips_regex",
            "log_request_headers",
            "log_request_at_info_level_enabled",
            "log_request_exclude_headers_list",
            "http_log_closed_connections_without_response_enabled",
        ],
        reason: "requests are not logged",
    },
    Foreign {
        section: "server",
        keys: &["trace_request_headers", "trace_request_exclude_headers_list", "create_new_traces"],
        reason: "requests are not traced",
    },
    Foreign {
        section: "server",
        keys: &[
            "register_instrumentation",
            "per_tenant_duration_instrumentation",
            "throughput",
            "instrument_http",
        ],
        reason: "metrics are always there",
    },
    Foreign { section: "server", keys: &["http_path_prefix"], reason: "paths have no prefix" },
    Foreign {
        section: "server",
        keys: &["http_listen_network"],
        reason: "the address decides between IPv4 and IPv6",
    },
    Foreign {
        section: "server",
        keys: &["http_server_read_header_timeout"],
        reason: "the whole request has one timeout, http_server_read_timeout",
    },
    Foreign {
        section: "server",
        keys: &["proxy_protocol_enabled"],
        reason: "the address of the client is not used",
    },
    Foreign {
        section: "server.http_tls_config",
        keys: &["cert", "key", "client_ca", "client_ca_text"],
        reason: "name a file instead",
    },
    Foreign {
        section: "common",
        keys: &[
            "replication_factor",
            "ring",
            "persist_tokens",
            "instance_interface_names",
            "instance_addr",
            "instance_enable_ipv6",
            "instance_id",
            "compactor_address",
            "compactor_grpc_address",
        ],
        reason: "there is one node",
    },
    Foreign { section: "common", keys: &["storage"], reason: "data is kept in files of this node" },
    Foreign { section: "common", keys: &["scratch_path"], reason: "all data is in data_dir" },
    Foreign {
        section: "distributor",
        keys: &[
            "ring",
            "rate_store",
            "kafka_writes_enabled",
            "ingester_writes_enabled",
            "kafka_config",
            "tenant_topic",
            "extend_writes",
            "ingest_limits_enabled",
            "ingest_limits_dry_run_enabled",
            "dataobj_tee",
            "dataobj_tee_config",
            "shard_streams",
        ],
        reason: "there is one node",
    },
    Foreign {
        section: "distributor",
        keys: &["inmemory_dataobj_push_timeout"],
        reason: "data is kept in files of this node, in a form of its own",
    },
    Foreign {
        section: "distributor",
        keys: &["default_policy_stream_mappings"],
        reason: "there are no policies of ingestion",
    },
    Foreign {
        section: "distributor",
        keys: &["push_worker_count"],
        reason: "each core takes pushes itself",
    },
    Foreign {
        section: "distributor",
        keys: &["write_failures_logging"],
        reason: "refused entries are counted and told to the client",
    },
    Foreign {
        section: "querier",
        keys: &[
            "query_ingesters_within",
            "query_store_only",
            "query_ingester_only",
            "query_partition_ingesters",
            "dataobj",
            "ingester_query_store_max_look_back_period",
        ],
        reason: "there is one store for recent and old entries",
    },
    Foreign {
        section: "querier",
        keys: &["extra_query_delay", "engine", "engine_v2", "worker_parallelism"],
        reason: "every core runs queries",
    },
    Foreign {
        section: "querier",
        keys: &["multi_tenant_queries_max_tenants"],
        reason: "a query may name any number of tenants",
    },
    Foreign {
        section: "querier",
        keys: &["query_timeout"],
        reason: "set limits_config.query_timeout",
    },
    Foreign {
        section: "query_scheduler",
        keys: &[
            "max_queue_hierarchy_levels",
            "querier_forget_delay",
            "grpc_client_config",
            "use_scheduler_ring",
            "scheduler_ring",
        ],
        reason: "there is no queue between processes",
    },
    Foreign {
        section: "frontend",
        keys: &[
            "max_outstanding_requests_per_tenant",
            "querier_forget_delay",
            "scheduler_address",
            "scheduler_dns_lookup_period",
            "scheduler_worker_concurrency",
            "grpc_client_config",
            "graceful_shutdown_timeout",
            "instance_interface_names",
            "instance_addr",
            "instance_port",
            "instance_enable_ipv6",
            "address",
            "port",
            "downstream_url",
            "tail_proxy_url",
            "tail_tls_config",
            "encoding",
            "experimental_functions",
        ],
        reason: "there is no queue between processes",
    },
    Foreign {
        section: "frontend",
        keys: &["log_queries_longer_than", "query_stats_enabled", "log_query_request_headers"],
        reason: "queries are not logged",
    },
    Foreign {
        section: "frontend",
        keys: &["experimental_apis_enabled"],
        reason: "no endpoint is experimental",
    },
    Foreign {
        section: "frontend",
        keys: &["compress_responses", "support_parquet_encoding"],
        reason: "the client decides by its headers",
    },
    Foreign {
        section: "query_range",
        keys: &[
            "results_cache",
            "index_stats_results_cache",
            "cache_index_stats_results",
            "volume_results_cache",
            "cache_volume_results",
            "instant_metric_results_cache",
            "cache_instant_metric_results",
            "series_results_cache",
            "cache_series_results",
            "label_results_cache",
            "cache_label_results",
        ],
        reason: "only the answers of metric range queries are kept, in memory: see query_range.cache_results",
    },
    Foreign {
        section: "query_range",
        keys: &[
            "split_queries_by_interval",
            "max_retries",
            "parallelise_shardable_queries",
            "parallelize_shardable_queries",
            "required_query_response_format",
            "shard_aggregations",
            "instant_metric_query_split_align",
        ],
        reason: "queries are spread over the cores, not split into parts",
    },
    Foreign {
        section: "query_range",
        keys: &["forward_headers_list"],
        reason: "one process has all parts",
    },
    Foreign {
        section: "ingester",
        keys: &[
            "lifecycler",
            "autoforget_unhealthy",
            "owned_streams_check_interval",
            "kafka_ingestion",
            "delegate_stream_limits_enabled",
            "max_transfer_retries",
            "client_config",
        ],
        reason: "there is one node",
    },
    Foreign {
        section: "ingester",
        keys: &[
            "concurrent_flushes",
            "flush_check_period",
            "flush_op_backoff",
            "flush_op_timeout",
            "chunk_retain_period",
            "chunk_idle_period",
            "chunk_block_size",
            "chunk_target_size",
            "chunk_encoding",
            "sync_period",
            "sync_min_utilization",
            "max_chunk_idle",
            "stream_retain_period",
        ],
        reason: "there are no chunks: see storage.head_max_bytes and storage.head_max_age",
    },
    Foreign {
        section: "ingester",
        keys: &["query_store_max_look_back_period"],
        reason: "there is one store for recent and old entries",
    },
    Foreign {
        section: "ingester",
        keys: &["max_returned_stream_errors", "index_shards", "max_dropped_streams"],
        reason: "it needs no bound of its own",
    },
    Foreign {
        section: "ingester",
        keys: &["shutdown_marker_path"],
        reason: "it is kept in the data folder",
    },
    Foreign {
        section: "ingester",
        keys: &["unordered_writes_enabled", "unordered_writes"],
        reason: "entries may always come out of order",
    },
    Foreign {
        section: "ingester.wal",
        keys: &[
            "enabled",
            "dir",
            "checkpoint_duration",
            "checkpoint_enabled",
            "replay_memory_ceiling",
            "recover",
            "disk_full_threshold",
        ],
        reason: "there is always a write-ahead log: see the section wal",
    },
    Foreign {
        section: "compactor",
        keys: &[
            "working_directory",
            "shared_store",
            "shared_store_key_prefix",
            "delete_request_store",
            "delete_request_store_key_prefix",
            "delete_request_store_db_type",
            "backup_delete_request_store_db_type",
            "upload_parallelism",
            "deletion_marker_object_store_prefix",
        ],
        reason: "data is kept in files of this node",
    },
    Foreign {
        section: "compactor",
        keys: &[
            "compaction_interval",
            "apply_retention_interval",
            "retention_delete_delay",
            "retention_delete_worker_count",
            "retention_table_timeout",
            "retention_backoff_config",
            "max_compaction_parallelism",
            "tables_to_compact",
            "skip_latest_n_tables",
            "run_once",
            "compactor_ring",
            "horizontal_scaling_mode",
            "worker_config",
            "jobs_config",
            "dataobj",
        ],
        reason: "cores compact when they have time",
    },
    Foreign {
        section: "compactor",
        keys: &[
            "delete_batch_size",
            "delete_request_cancel_period",
            "delete_max_interval",
            "deletion_mode",
            "allow_deletes",
        ],
        reason: "there is no deletion yet",
    },
    Foreign {
        section: "pattern_ingester",
        keys: &[
            "lifecycler",
            "client_config",
            "concurrent_flushes",
            "flush_check_period",
            "max_clusters",
            "max_eviction_ratio",
            "metric_aggregation",
            "pattern_persistence",
            "tee_config",
            "connection_timeout",
            "max_allowed_line_length",
            "retain_for",
            "chunk_duration",
            "sample_interval",
            "pattern_sample_interval",
            "max_chunk_age",
            "volume_threshold",
        ],
        reason: "patterns are found when they are asked for",
    },
];

#[cfg(test)]
mod tests {
    use super::super::table::by_path;
    use super::*;

    #[test]
    fn every_key_stands_once_and_is_no_setting() {
        let mut paths: Vec<String> = paths().collect();
        for path in &paths {
            // One that became a setting has to leave this table.
            assert!(by_path(path).is_none(), "{path} is a setting");
            assert!(reason(path).is_some(), "{path}");
        }
        paths.sort_unstable();
        let twice = paths.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(twice, None);
    }
}
