//! Flags of the reference: those that have another name here, and those that mean nothing
//! here, and why.

/// Flags of the reference and the flags that mean the same here. Limits are registered
/// under the part that heeds them there; here they are all under `limits`.
static ALIASES: &[(&str, &str)] = &[
    ("distributor.ingestion-rate-limit-mb", "limits.ingestion-rate-mb"),
    ("distributor.ingestion-burst-size-mb", "limits.ingestion-burst-size-mb"),
    ("distributor.max-line-size", "limits.max-line-size"),
    ("distributor.max-line-size-truncate", "limits.max-line-size-truncate"),
    ("distributor.max-line-size-truncate-identifier", "limits.max-line-size-truncate-identifier"),
    ("validation.max-label-names-per-series", "limits.max-label-names-per-series"),
    ("validation.max-length-label-name", "limits.max-label-name-length"),
    ("validation.max-length-label-value", "limits.max-label-value-length"),
    ("validation.reject-old-samples", "limits.reject-old-samples"),
    ("validation.reject-old-samples.max-age", "limits.reject-old-samples-max-age"),
    ("validation.create-grace-period", "limits.creation-grace-period"),
    ("validation.increment-duplicate-timestamps", "limits.increment-duplicate-timestamp"),
    ("validation.discover-service-name", "limits.discover-service-name"),
    ("validation.discover-log-levels", "limits.discover-log-levels"),
    ("querier.cache-results", "query-range.cache-results"),
    ("validation.allow-structured-metadata", "limits.allow-structured-metadata"),
    ("validation.max-entries-limit", "limits.max-entries-limit-per-query"),
    ("ingester.max-streams-per-user", "limits.max-streams-per-user"),
    ("ingester.max-global-streams-per-user", "limits.max-global-streams-per-user"),
    ("ingester.per-stream-rate-limit", "limits.per-stream-rate-limit"),
    ("ingester.per-stream-rate-limit-burst", "limits.per-stream-rate-limit-burst"),
    ("store.max-query-length", "limits.max-query-length"),
    ("store.retention", "limits.retention-period"),
    ("querier.query-timeout", "limits.query-timeout"),
    ("querier.max-query-series", "limits.max-query-series"),
    ("querier.max-query-lookback", "limits.max-query-lookback"),
    ("querier.max-query-range", "limits.max-query-range"),
    ("querier.max-query-parallelism", "limits.max-query-parallelism"),
    ("querier.tsdb-max-query-parallelism", "limits.tsdb-max-query-parallelism"),
    ("querier.max-streams-matcher-per-query", "limits.max-streams-matchers-per-query"),
    ("querier.max-concurrent-tail-requests", "limits.max-concurrent-tail-requests"),
    ("frontend.max-query-bytes-read", "limits.max-query-bytes-read"),
    ("frontend.max-querier-bytes-read", "limits.max-querier-bytes-read"),
];

/// Flags that mean nothing here for the same reason.
#[derive(Debug)]
struct ForeignFlags {
    /// Names; one that ends with a dot or a dash stands for all that begin so.
    names: &'static [&'static str],
    /// Why they mean nothing; completes "ignored:".
    reason: &'static str,
}

static FLAGS: &[ForeignFlags] = &[
    ForeignFlags {
        names: &[
            "memberlist.",
            "consul.",
            "etcd.",
            "multi.",
            "ring.",
            "common.storage.ring.",
            "common.embedded-cachering.",
            "common.compactor-",
            "distributor.ring.",
            "distributor.replication-factor",
            "distributor.excluded-zones",
            "distributor.zone-awareness-enabled",
            "distributor.write-failures-logging.",
            "distributor.ha-tracker.",
            "distributor.ingestion-rate-limit-strategy",
            "distributor.client-cleanup-period",
            "distributor.health-check-ingesters",
            "distributor.rate-store.",
            "ingester.lifecycler.",
            "ingester.client.",
            "ingester.partition-ring.",
            "ingester.num-tokens",
            "ingester.heartbeat-period",
            "ingester.heartbeat-timeout",
            "ingester.observe-period",
            "ingester.join-after",
            "ingester.min-ready-duration",
            "ingester.final-sleep",
            "ingester.tokens-file-path",
            "ingester.token-file-path",
            "ingester.availability-zone",
            "ingester.unregister-on-shutdown",
            "ingester.readiness-check-ring-health",
            "ingester.autoforget-unhealthy",
            "ingester-rf1.",
            "compactor.ring.",
            "compactor.client.",
            "compactor.grpc-client.",
            "index-gateway.",
            "index-gateway-client.",
            "query-scheduler.ring.",
            "query-scheduler.grpc-client-config.",
            "query-scheduler.use-scheduler-ring",
            "query-scheduler.querier-forget-delay",
            "query-scheduler-grpc-client.",
            "query-frontend-grpc-client.",
            "frontend.scheduler-",
            "frontend.instance-",
            "frontend.grpc-client-config.",
            "frontend.downstream-url",
            "frontend.querier-forget-delay",
            "frontend.max-queriers-per-",
            "querier.frontend-address",
            "querier.frontend-client.",
            "querier.scheduler-address",
            "querier.dns-lookup-period",
            "querier.id",
            "querier.query-ingester-only",
            "querier.query-partition-ingesters",
            "server.cluster-validation.",
            "kafka",
            "kafka-",
            "kafka.",
            "partition-ingester.",
            "block-builder.",
            "block-scheduler.",
            "ingest-limits.",
            "ingest-limits-",
            "overrides-exporter.",
            "legacy-read-mode",
            "shard-stream",
        ],
        reason: "there is one node",
    },
    ForeignFlags {
        names: &[
            "boltdb.",
            "tsdb.",
            "local.",
            "s3.",
            "aws.",
            "gcs.",
            "azure.",
            "swift.",
            "cos.",
            "bos.",
            "baidubce.",
            "alibabacloud.",
            "ibmcloud.",
            "bigtable.",
            "dynamodb.",
            "cassandra.",
            "grpc-store.",
            "hedge-requests-",
            "hedge-max-",
            "object-store.",
            "objectstore.",
            "common.storage.",
            "schema-config-file",
            "store.",
            "table-manager.",
            "dataobj-",
            "dataobj.",
            "compactor.working-directory",
            "compactor.shared-store",
            "compactor.delete-request-store",
            "compactor.object-prefix",
            "compactor.upload-parallelism",
        ],
        reason: "data is kept in files of this node",
    },
    ForeignFlags {
        names: &[
            "store.cache-",
            "store.chunks-cache.",
            "store.chunks-cache-l2.",
            "store.index-cache-",
            "frontend.cache.",
            "frontend.index-stats-results-cache.",
            "frontend.volume-results-cache.",
            "frontend.series-results-cache.",
            "frontend.label-results-cache.",
            "frontend.instant-metric-results-cache.",
            "frontend.log-result-cache.",
            "frontend.max-cache-freshness",
            "querier.cache-",
            "querier.compress-http-responses",
            "frontend.compress-responses",
            "querier.max-cache-freshness",
        ],
        reason: "answers are kept in memory only, and no other results are",
    },
    ForeignFlags {
        names: &[
            "querier.split-queries-by-",
            "querier.split-metadata-by-interval",
            "querier.split-recent-metadata-by-interval",
            "querier.split-ingester-queries-by-interval",
            "querier.split-instant-metric-queries-by-interval",
            "querier.parallelise-shardable-queries",
            "querier.align-querier-with-step",
            "querier.max-retries-per-request",
            "querier.tsdb-max-bytes-per-shard",
            "querier.shard-aggregations",
            "querier.engine.",
            "querier.engine-v2.",
            "querier.extra-query-delay",
            "querier.query-ingesters-within",
            "querier.query-store-max-look-back-period",
            "querier.query-store-only",
            "querier.worker-",
            "querier.max-concurrent-per-",
            "querier.min-sharding-lookback",
            "frontend.min-sharding-lookback",
            "frontend.log-queries-longer-than",
            "frontend.query-stats-enabled",
            "frontend.graceful-shutdown-timeout",
            "frontend.tail-proxy-url",
            "frontend.support-parquet-encoding",
            "frontend.encoding",
            "frontend.background.",
            "query-engine.",
            "query-scheduler.max-queue-hierarchy-levels",
            "store.query-chunk-limit",
            "store.cardinality-limit",
        ],
        reason: "queries are spread over the cores, not split into parts",
    },
    ForeignFlags {
        names: &[
            "ingester.chunks-",
            "ingester.chunk-",
            "ingester.concurrent-flushes",
            "ingester.concurrent-sweeps",
            "ingester.flush-check-period",
            "ingester.flush-op-",
            "ingester.max-chunk-idle",
            "ingester.max-transfer-retries",
            "ingester.sync-",
            "ingester.tailer.",
            "ingester.index-shards",
            "ingester.max-dropped-streams",
            "ingester.max-ignored-stream-errors",
            "ingester.query-store-max-look-back-period",
            "ingester.unordered-writes",
            "ingester.flush-op-timeout",
        ],
        reason: "there are no chunks",
    },
    ForeignFlags {
        names: &["ingester.wal-", "ingester.checkpoint-", "ingester.recover-from-wal"],
        reason: "there is always a write-ahead log: see the flags that begin with wal",
    },
    ForeignFlags {
        names: &[
            "compactor.compaction-interval",
            "compactor.apply-retention-interval",
            "compactor.retention-delete-",
            "compactor.retention-table-timeout",
            "compactor.retention-backoff-config.",
            "compactor.max-compaction-parallelism",
            "compactor.tables-to-compact",
            "compactor.skip-latest-n-tables",
            "compactor.run-once",
            "compactor.horizontal-scaling-mode",
            "compactor.jobs.",
            "compactor.worker.",
        ],
        reason: "cores compact when they have time",
    },
    ForeignFlags {
        names: &[
            "compactor.delete-",
            "compactor.deletion-mode",
            "compactor.allow-deletes",
            "boltdb.shipper.compactor.",
        ],
        reason: "there is no deletion yet",
    },
    ForeignFlags {
        names: &["ruler.", "ruler-storage.", "remote-write.", "alertmanager."],
        reason: "there are no rules yet",
    },
    ForeignFlags {
        names: &["bloom-", "bloom.", "blooms."],
        reason: "filters are made with each segment",
    },
    ForeignFlags {
        names: &["pattern-ingester.", "limits.pattern-ingester-", "limits.aggregation-enabled"],
        reason: "patterns are found when they are asked for",
    },
    ForeignFlags {
        names: &["reporting.", "usage-report."],
        reason: "nothing is reported to anybody",
    },
    ForeignFlags {
        names: &["server.grpc", "server.grpc-", "server.grpc."],
        reason: "there is no gRPC",
    },
    ForeignFlags {
        names: &[
            "server.log-source-ips-",
            "server.log-request-",
            "server.http-log-closed-connections-without-response",
            "log.use-buffered",
            "log.use-sync",
            "log-config-reverse-order",
            "profiling.",
            "tracing.",
            "operation-config.",
            "operational-config.",
            "config.ballast-bytes",
            "metrics-namespace",
            "metrics.",
            "internal-server.",
            "shutdown-delay",
            "server.register-instrumentation",
            "server.throughput.",
            "server.trace-request-",
            "server.path-prefix",
            "server.http-network",
            "server.http-read-header-timeout",
            "server.proxy-protocol-enabled",
            "ui.",
            "limits.tenant-limits-allow-publish",
            "tenant-limits-allow-publish",
        ],
        reason: "it is about the process of the reference",
    },
];

/// The flag of this program that means the same as a flag of the reference.
pub(crate) fn alias(flag: &str) -> Option<&'static str> {
    ALIASES.iter().find(|(theirs, _)| *theirs == flag).map(|(_, ours)| *ours)
}

/// Why a flag means nothing here, if it is one of the reference. Flags of this program are
/// not asked for: some of them stand beside foreign ones.
pub(crate) fn reason(flag: &str) -> Option<&'static str> {
    let means = |name: &str| match name.as_bytes().last() {
        Some(b'.' | b'-') => flag.len() > name.len() && flag.starts_with(name),
        _ => flag == name,
    };
    // The longest name is the most special one.
    let named = FLAGS.iter().flat_map(|row| row.names.iter().map(move |name| (*name, row.reason)));
    named.filter(|(name, _)| means(name)).max_by_key(|(name, _)| name.len()).map(|(_, why)| why)
}

#[cfg(test)]
mod tests {
    use super::super::super::table::SETTINGS;
    use super::*;

    #[test]
    fn aliases_lead_to_flags() {
        for (theirs, ours) in ALIASES {
            assert!(SETTINGS.iter().any(|setting| setting.flag == *ours), "{ours}");
            assert!(SETTINGS.iter().all(|setting| setting.flag != *theirs), "{theirs}");
        }
    }

    #[test]
    fn the_most_special_name_gives_the_reason() {
        for (flag, why) in [
            ("memberlist.join", Some("there is one node")),
            (
                "store.chunks-cache.memcached.addresses",
                Some("answers are kept in memory only, and no other results are"),
            ),
            (
                "store.query-chunk-limit",
                Some("queries are spread over the cores, not split into parts"),
            ),
            ("store.index-type", Some("data is kept in files of this node")),
            ("ingester.chunks-idle-period", Some("there are no chunks")),
            ("compactor.delete-request-store", Some("data is kept in files of this node")),
            ("ruler.", None),
            ("ingester.max-chunk-agee", None),
            ("nonsense", None),
        ] {
            assert_eq!(reason(flag), why, "{flag}");
        }
    }
}
