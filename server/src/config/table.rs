//! The settings, one row each.
//!
//! A path equals the path in Loki's file if Loki has the setting, so that its
//! files work here. A row also says whether the short help shows its flag.

use super::Config;
use super::field::Field;

/// One setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Where the file has it: keys joined by dots.
    pub(crate) path: &'static str,
    /// Its flag, without the leading dashes.
    pub(crate) flag: &'static str,
    /// Whether `-h` shows it, too.
    pub(crate) common: bool,
    /// One sentence or two; says the unit where the value has none.
    pub(crate) help: &'static str,
    field: fn(&mut Config) -> Field<'_>,
}

impl Setting {
    /// The field of `config` that this setting sets.
    pub(crate) fn field<'c>(&self, config: &'c mut Config) -> Field<'c> {
        (self.field)(config)
    }

    /// Whether the file may have a list or a section for it.
    pub(crate) fn is_structured(&self) -> bool {
        self.field(&mut Config::default()).is_structured()
    }

    /// The default value, as it is written in the file.
    pub(crate) fn default_value(&self) -> String {
        self.field(&mut Config::default()).print()
    }
}

/// The row with this path.
pub(crate) fn by_path(path: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.path == path)
}

/// Writes rows: path, flag, `common` for rows that `-h` shows, field, help.
macro_rules! settings {
    ($($path:literal, $flag:literal $($common:ident)?, |$c:ident| $kind:ident($field:expr), $help:literal;)*) => {
        &[$(Setting {
            path: $path,
            flag: $flag,
            common: settings!(@ $($common)?),
            help: $help,
            field: |$c| Field::$kind($field),
        }),*]
    };
    (@ common) => { true };
    (@) => { false };
}

mod bucket;
mod cluster;
mod elasticsearch;
mod journald;
mod lines;
mod ruler;
mod syslog;

/// All settings, in the order of the help and of the documentation. Values of the file are applied
/// in this order, so a later row may refine the value of an earlier one.
pub(crate) static SETTINGS: &[Setting] = &joined::<{ count(PARTS) }>(PARTS);

const PARTS: &[&[Setting]] = &[
    SERVER,
    cluster::SERVER,
    TENANTS,
    bucket::COMMON,
    cluster::COMMON,
    DATA,
    bucket::OWN,
    COMPACTION,
    bucket::COMPACTOR,
    INTAKE,
    bucket::INGESTER,
    cluster::INGESTER,
    QUERIES,
    bucket::LOKI,
    cluster::INGESTER_CLIENT,
    cluster::MEMBERLIST,
    elasticsearch::NODE,
    journald::NODE,
    lines::NODE,
    ruler::NODE,
    syslog::NODE,
    LIMITS,
    ruler::LIMITS,
    FILES,
];

const fn count(parts: &[&[Setting]]) -> usize {
    let (mut part, mut count) = (0, 0);
    while part < parts.len() {
        count += parts[part].len();
        part += 1;
    }
    count
}

const fn joined<const COUNT: usize>(parts: &[&[Setting]]) -> [Setting; COUNT] {
    let mut rows = [parts[0][0]; COUNT];
    let (mut part, mut row, mut at) = (0, 0, 0);
    while part < parts.len() {
        while row < parts[part].len() {
            rows[at] = parts[part][row];
            row += 1;
            at += 1;
        }
        row = 0;
        part += 1;
    }
    rows
}

/// Settings of the server: what it listens to and what it logs.
const SERVER: &[Setting] = settings! {
    "target", "target",
        |c| Text(&mut c.target),
        "What a node of a cluster does, with commas between the names: all, read, write, backend, or \
         one of Loki's parts. A node without a cluster does everything, whatever is named. See \
         *Roles* in [cluster.md](cluster.md#roles).";
    "legacy_read_mode", "legacy-read-mode",
        |c| Bool(&mut c.legacy_read_mode),
        "Whether the target read has the parts of backend, too. Then no node may have the target \
         backend.";
    "server.http_listen_address", "server.http-listen-address" common,
        |c| Address(&mut c.http_address),
        "IP address to listen on. Empty or 0.0.0.0 means all addresses of the machine.";
    "server.http_listen_port", "server.http-listen-port" common,
        |c| Port(&mut c.http_address),
        "Port to listen on. 0 lets the system choose; the log then names the port.";
    "server.http_server_read_timeout", "server.http-read-timeout",
        |c| Duration(&mut c.http_read_timeout),
        "Longest time to receive a whole request. Each 16KB received extend it by a second. At \
         least 10KB of a body must arrive within each 10 seconds.";
    "server.http_server_write_timeout", "server.http-write-timeout",
        |c| Duration(&mut c.http_write_timeout),
        "Longest time in which a client takes no bytes of an answer, summed over all its parts. \
         Each 16KB that the client takes extend it by a second.";
    "server.http_server_idle_timeout", "server.http-idle-timeout",
        |c| Duration(&mut c.http_idle_timeout),
        "Longest time that a connection stays open without a request.";
    "server.http_listen_conn_limit", "server.http-conn-limit",
        |c| Count(&mut c.http_listen_conn_limit),
        "Most connections that may be open. The server answers further ones with 503. 0 means \
         the smaller of two numbers: one connection for each 64KB of memory.max_bytes, and the \
         limit of open files less a reserve for the server's own files. The server raises the \
         limit as far as it may. The reserve is a quarter of it, but at least 64 and at most \
         4096.";
    "server.http_tls_config.cert_file", "server.http-tls-cert-path",
        |c| Text(&mut c.tls.cert_file),
        "File with the server's certificate, followed by the certificates up to its issuer, as \
         PEM. With it and the key the port speaks HTTPS only.";
    "server.http_tls_config.key_file", "server.http-tls-key-path",
        |c| Text(&mut c.tls.key_file),
        "File with the private key of the certificate, as PEM.";
    "server.http_tls_config.client_auth_type", "server.http-tls-client-auth",
        |c| Text(&mut c.tls.client_auth_type),
        "The certificate that clients must show: NoClientCert, RequestClientCert, \
         RequireAnyClientCert, VerifyClientCertIfGiven or RequireAndVerifyClientCert. Empty \
         means NoClientCert.";
    "server.http_tls_config.client_ca_file", "server.http-tls-ca-path",
        |c| Text(&mut c.tls.client_ca_file),
        "File with the certificates of the issuers of clients, as PEM; needed if client \
         certificates are verified.";
    "server.users_file", "server.users-file",
        |c| Text(&mut c.access.users_file),
        "File with the accounts that may use the HTTP interface, one name:hash or \
         name:hash:tenant a line, as htpasswd -B writes it. Empty means that nobody is asked.";
    "server.cors_allowed_origins", "server.cors-allowed-origins",
        |c| Words(&mut c.access.cors_allowed_origins),
        "Origins of web pages that may use the HTTP interface from a browser, such as \
         https://grafana.example.com. * lets pages of every origin read.";
    "server.tls_cipher_suites", "server.tls-cipher-suites",
        |c| Words(&mut c.tls.cipher_suites),
        "Cipher suites of TLS 1.2, such as TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, preferred \
         first. Empty means all suites with forward secrecy and authenticated encryption; the \
         server never speaks weaker ones. It always speaks all suites of TLS 1.3.";
    "server.tls_min_version", "server.tls-min-version",
        |c| Text(&mut c.tls.min_version),
        "Oldest version of TLS that clients may speak: VersionTLS12 or VersionTLS13; \
         VersionTLS10, VersionTLS11 and an empty text mean VersionTLS12.";
    "server.graceful_shutdown_timeout", "server.graceful-shutdown-timeout",
        |c| Duration(&mut c.graceful_stop_timeout),
        "How long a stop waits for running requests.";
    "server.log_level", "log.level" common,
        |c| Choice(&mut c.log_level),
        "Lowest severity of log lines that the server writes.";
    "server.log_format", "log.format" common,
        |c| Choice(&mut c.log_format),
        "Format of log lines: text for people, or one JSON object per line.";
    "server.log_request_at_info_level_enabled", "server.log-request-at-info-level-enabled",
        |c| Bool(&mut c.request_log.requests),
        "Whether the server logs each request at the level info: an access log. Otherwise requests \
         are logged at the level debug.";
};

/// Settings of tenants and of the folder, in the order of Loki's file.
const TENANTS: &[Setting] = settings! {
    "auth_enabled", "auth.enabled" common,
        |c| Bool(&mut c.auth_enabled),
        "Whether requests must name their tenant in X-Scope-OrgID.";
    "common.path_prefix", "common.path-prefix",
        |c| Folder(&mut c.data_dir),
        "Folder of all data; another name of data_dir.";
};

/// Settings of the data folder, of cores and of memory.
const DATA: &[Setting] = settings! {
    "data_dir", "data-dir" common,
        |c| Folder(&mut c.data_dir),
        "Folder of all data; made if missing.";
    "cores", "cores" common,
        |c| SmallCount(&mut c.cores),
        "Number of cores, each with a thread and a shard of its own. 0 means all CPUs that the \
         process may use.";
    "runtime.backend", "runtime" common,
        |c| Choice(&mut c.runtime),
        "The asynchronous runtime of the cores. monoio works everywhere; glommio needs io_uring.";
    "runtime.driver", "runtime.driver",
        |c| Choice(&mut c.io_driver),
        "How monoio does input and output. auto takes io_uring, or epoll where the system \
         refuses io_uring.";
    "memory.max_bytes", "memory.max-bytes",
        |c| Bytes(&mut c.memory_max_bytes),
        "Memory that bodies, recent entries, streams, directories of segments, queries and the \
         cache share. 0 means a quarter of the memory of the machine or the control group.";
    "wal.sync", "wal.sync",
        |c| Sync(&mut c.wal.sync),
        "When entries are forced to the disk. always: before the answer to a push; a crash of \
         the machine loses no entries. An interval such as 1s: a crash of the machine loses at \
         most the entries of that time. never: whenever the system writes them; a crash of the \
         machine loses about 30 seconds. A crash of the process alone loses no entries in any \
         mode.";
    "wal.durability", "wal.durability",
        |c| Choice(&mut c.wal.durability),
        "Where entries are when their push is answered. local: in the log on the local disk. \
         store: in the bucket, so that the loss of the node and its disk loses none of them; a push \
         takes longer.";
    "wal.file_max_bytes", "wal.file-max-bytes",
        |c| Bytes(&mut c.wal.file_max_bytes),
        "A file of the write-ahead log is closed at this size.";
    "wal.max_bytes", "wal.max-bytes",
        |c| Bytes(&mut c.wal.max_bytes),
        "Largest size of the node's write-ahead log: the server writes entries to segments early \
         enough to stay below it. It bounds the time of a start after a crash.";
    "ingester.wal.flush_on_shutdown", "ingester.flush-on-shutdown",
        |c| Bool(&mut c.wal.flush_on_shutdown),
        "Whether a stop writes recent entries to segments. Otherwise the next start reads them \
         back from the write-ahead log.";
    "storage.head_max_bytes", "storage.head-max-bytes",
        |c| Bytes(&mut c.head_max_bytes),
        "A core writes its recent entries to a segment when they take this much memory. 0 means \
         24MB, or less on machines with little memory.";
    "storage.head_max_age", "storage.head-max-age",
        |c| Duration(&mut c.head_max_age),
        "A core writes recent entries to a segment when they have been in memory for this long.";
    "storage.ignore_unknown_versions", "storage.ignore-unknown-versions",
        |c| Bool(&mut c.ignore_unknown_versions),
        "Whether to start although the data folder has files of another version that this \
         version cannot read. The server leaves these files as they are, and queries lack their \
         entries.";
};

/// Settings of what is done to stored entries.
const COMPACTION: &[Setting] = settings! {
    "compaction.enabled", "compaction.enabled",
        |c| Bool(&mut c.compaction_enabled),
        "Whether the server merges small segments of a day into large ones when a core has time.";
    "compactor.retention_enabled", "compactor.retention-enabled",
        |c| Bool(&mut c.retention_enabled),
        "Whether entries are removed when their retention period is over, and whether entries can \
         be deleted.";
    "compactor.delete_request_cancel_period", "compactor.delete-request-cancel-period",
        |c| Duration(&mut c.delete_cancel_period),
        "How long a delete request can be cancelled. Its entries are hidden from the first moment \
         and leave the disk after this time.";
    "compactor.retention_delete_delay", "compactor.retention-delete-delay",
        |c| Duration(&mut c.retention_delete_delay),
        "How long an object of a segment stays in the bucket of several nodes once no node needs it: \
         queries that have begun before read it. A single node knows when nobody reads it.";
    "compactor.delete_max_interval", "compactor.delete-max-interval",
        |c| Nanos(&mut c.delete_max_interval_ns),
        "Longest part of a delete request with stages; longer ones are worked on in parts. 0 means \
         that they are not split.";
    "compactor.delete_batch_size", "compactor.delete-batch-size",
        |c| Count(&mut c.delete_batch_size),
        "Most delete requests that are worked on at a time.";
    "compactor.allow_deletes", "compactor.allow-deletes",
        |c| Allowed(&mut c.limits.deletion_mode),
        "Old name of limits_config.deletion_mode: true means filter-and-delete, false means \
         disabled.";
    "compactor.deletion_mode", "compactor.deletion-mode",
        |c| Choice(&mut c.limits.deletion_mode),
        "Old place of limits_config.deletion_mode, which wins.";
};

/// Settings of the disk's space and of requests.
const INTAKE: &[Setting] = settings! {
    "retention.max_disk_bytes", "retention.max-disk-bytes",
        |c| Bytes(&mut c.retention_max_disk_bytes),
        "When segments take more than this, the server removes whole segments, oldest day first. \
         0 means no limit.";
    "retention.max_disk_percent", "retention.max-disk-percent",
        |c| SmallCount(&mut c.retention_max_disk_percent),
        "Like max_disk_bytes, in percent of the size of the file system; the smaller of the two \
         limits counts. 0 means no limit.";
    "distributor.max_recv_msg_size", "distributor.max-recv-msg-size",
        |c| Bytes(&mut c.push_body_max_bytes),
        "Longest body of a push, as it is sent. The memory for bodies limits it as well.";
    "distributor.max_decompressed_size", "distributor.max-decompressed-size",
        |c| Bytes(&mut c.push_decompressed_max_bytes),
        "Longest body of a push, decompressed. The memory for bodies limits it as well.";
    "distributor.otlp_config.default_resource_attributes_as_index_labels",
        "distributor.otlp.default_resource_attributes_as_index_labels",
        |c| Words(&mut c.otlp_index_labels),
        "Attributes of OpenTelemetry resources that become labels, unless a tenant's otlp_config \
         ignores the defaults.";
    "frontend.max_body_size", "frontend.max-body-size",
        |c| Bytes(&mut c.form_body_max_bytes),
        "Longest body of any other request.";
    "frontend.log_queries_longer_than", "frontend.log-queries-longer-than",
        |c| SignedNanos(&mut c.request_log.queries_longer_than_ns),
        "The server logs queries that take longer than this, at most 30 a minute for each tenant. \
         0 means none, less than 0 all. Queries that fail are logged in any case.";
    "frontend.query_stats_enabled", "frontend.query-stats-enabled",
        |c| Bool(&mut c.request_log.query_stats),
        "Whether the server logs each query with its time and the bytes read for it.";
    "frontend.max_outstanding_per_tenant", "querier.max-outstanding-requests-per-tenant",
        |c| Count(&mut c.max_outstanding_per_tenant),
        "Another name of query_scheduler.max_outstanding_requests_per_tenant.";
    "ingester.max_chunk_age", "ingester.max-chunk-age",
        |c| Nanos(&mut c.max_chunk_age_ns),
        "The server refuses entries that are older than the newest entry of their stream by more \
         than half of this.";
};

/// Settings of queries.
const QUERIES: &[Setting] = settings! {
    "querier.tail_max_duration", "querier.tail-max-duration",
        |c| Duration(&mut c.tail_max_duration),
        "Longest time that a tail stays open.";
    "querier.max_concurrent", "querier.max-concurrent",
        |c| Count(&mut c.max_concurrent_queries),
        "Queries that run at a time on the node. Further queries wait, and tenants take turns. \
         Requests for labels, series and index statistics have a separate queue with the same \
         number of places. 0 means 4 for each core; Loki has 4.";
    "querier.multi_tenant_queries_enabled", "querier.multi-tenant-queries-enabled",
        |c| Bool(&mut c.multi_tenant_queries_enabled),
        "Whether a query may read the data of several tenants. X-Scope-OrgID then names their \
         ids, joined by vertical bars.";
    "querier.per_request_limits_enabled", "querier.per-request-limits-enabled",
        |c| Bool(&mut c.per_request_limits_enabled),
        "Whether the header X-Loki-Query-Limits makes the limits of a query stricter.";
    "pattern_ingester.enabled", "pattern-ingester.enabled",
        |c| Bool(&mut c.patterns_enabled),
        "Whether the patterns endpoint answers. The server mines patterns only for a request, so \
         they cost nothing until then.";
    "query_scheduler.max_outstanding_requests_per_tenant", "query-scheduler.max-outstanding-requests-per-tenant",
        |c| Count(&mut c.max_outstanding_per_tenant),
        "Most waiting queries of a tenant, and most waiting requests for labels, series and \
         index statistics. The server refuses further ones with 429. 0 means no limit.";
    "query_range.align_queries_with_step", "query-range.align-queries-with-step",
        |c| Bool(&mut c.align_queries_with_step),
        "Whether range queries are evaluated at multiples of their step, instead of at start, \
         start+step and so on.";
    "query_range.cache_results", "query-range.cache-results",
        |c| Bool(&mut c.cache_results),
        "Whether a metric range query reuses the steps of the last answer to the same query \
         whose entries have not changed. Loki's default is false.";
};

/// Limits of tenants.
const LIMITS: &[Setting] = settings! {
    "limits_config.max_line_size", "limits.max-line-size",
        |c| MemoryBytes(&mut c.limits.max_line_size_bytes),
        "Longest line. 0 means the limit of the memory only: 56 MB, or half of the memory for \
         recent entries.";
    "limits_config.max_line_size_truncate", "limits.max-line-size-truncate",
        |c| Bool(&mut c.limits.max_line_size_truncate),
        "Whether longer lines are cut instead of refused.";
    "limits_config.max_line_size_truncate_identifier", "limits.max-line-size-truncate-identifier",
        |c| Text(&mut c.limits.max_line_size_truncate_identifier),
        "The text at the end of a line that was cut. It counts as a part of the line.";
    "limits_config.increment_duplicate_timestamp", "limits.increment-duplicate-timestamp",
        |c| Bool(&mut c.limits.increment_duplicate_timestamp),
        "Whether to move an entry by 1ns if the previous entry in the same push has the same \
         time and another line.";
    "limits_config.discover_service_name", "limits.discover-service-name",
        |c| Words(&mut c.limits.discover_service_name),
        "Labels that name the service of a stream, in order of preference. The first of them \
         that a stream has becomes its label service_name, unless the stream has that label \
         already. A stream without any of them gets unknown_service. An empty list adds no \
         label.";
    "limits_config.discover_log_levels", "limits.discover-log-levels",
        |c| Bool(&mut c.limits.discover_log_levels),
        "Whether every entry gets the structured metadata detected_level. Needs \
         allow_structured_metadata.";
    "limits_config.log_level_fields", "limits.log-level-fields",
        |c| Fields(&mut c.limits.log_level_fields),
        "Names of labels, structured metadata and fields of JSON and logfmt lines that hold a \
         level, in order of preference.";
    "limits_config.log_level_from_json_max_depth", "limits.log-level-from-json-max-depth",
        |c| Count(&mut c.limits.log_level_from_json_max_depth),
        "Depth of nested objects to which the server searches a JSON line for a level. 0 means \
         no limit.";
    "limits_config.block_ingestion_until", "limits.block-ingestion-until",
        |c| Time(&mut c.limits.block_ingestion_until_ns),
        "Time until which the server refuses pushes, for example 2030-01-01T00:00:00Z. Empty or \
         0 refuses none.";
    "limits_config.block_ingestion_status_code", "limits.block-ingestion-status-code",
        |c| SmallCount(&mut c.limits.block_ingestion_status_code),
        "Status of the answer to a push that is refused until block_ingestion_until. 200 answers \
         204, as if the entries were stored.";
    "limits_config.otlp_config", "limits.otlp-config",
        |c| Otlp(&mut c.limits.otlp),
        "The mapping of the attributes of OpenTelemetry logs, see *OpenTelemetry attributes*. \
         The flag takes JSON.";
    "limits_config.enforced_labels", "limits.enforced-labels",
        |c| Words(&mut c.limits.enforced_labels),
        "Labels that every stream must have.";
    "limits_config.ingestion_rate_mb", "limits.ingestion-rate-mb",
        |c| Megabytes(&mut c.limits.ingestion_rate_mb),
        "MB of lines and structured metadata that a tenant may push in a second, over all cores. \
         0 means no limit; Loki has 4.";
    "limits_config.ingestion_rate_strategy", "limits.ingestion-rate-strategy",
        |c| Choice(&mut c.limits.ingestion_rate_strategy),
        "Of several nodes: global divides the rate by the number of nodes, so pushes should be spread \
         over them; local gives each node the whole rate. Bursts are not divided.";
    "limits_config.ingestion_burst_size_mb", "limits.ingestion-burst-size-mb",
        |c| Megabytes(&mut c.limits.ingestion_burst_size_mb),
        "MB that a tenant may push at once if ingestion_rate_mb is set. A larger push never gets \
         in.";
    "limits_config.max_streams_per_user", "limits.max-streams-per-user",
        |c| Count(&mut c.limits.max_streams_per_user),
        "Most streams of a tenant that this node took entries of in the last 30 minutes. 0 means no limit.";
    "limits_config.max_global_streams_per_user", "limits.max-global-streams-per-user",
        |c| Count(&mut c.limits.max_global_streams_per_user),
        "The same for all nodes together: each node takes as large a part as it owns of the partitions. \
         Without other nodes the smaller of the two limits holds. 0 means no limit; Loki has 5000.";
    "limits_config.per_stream_rate_limit", "limits.per-stream-rate-limit",
        |c| Bytes(&mut c.limits.per_stream_rate_limit_bytes),
        "Lines and structured metadata that may be pushed to one stream in a second, over all \
         cores. 0 means no limit; Loki has 3MB.";
    "limits_config.per_stream_rate_limit_burst", "limits.per-stream-rate-limit-burst",
        |c| Bytes(&mut c.limits.per_stream_rate_limit_burst_bytes),
        "Lines and structured metadata that may be pushed to one stream at once if \
         per_stream_rate_limit is set.";
    "limits_config.reject_old_samples", "limits.reject-old-samples",
        |c| Bool(&mut c.limits.reject_old_samples),
        "Whether entries older than reject_old_samples_max_age are refused.";
    "limits_config.reject_old_samples_max_age", "limits.reject-old-samples-max-age",
        |c| Nanos(&mut c.limits.reject_old_samples_max_age_ns),
        "Largest age of an entry if reject_old_samples is on.";
    "limits_config.creation_grace_period", "limits.creation-grace-period",
        |c| Nanos(&mut c.limits.creation_grace_period_ns),
        "How far in the future the time of an entry may lie. 0 means no limit.";
    "limits_config.max_label_names_per_series", "limits.max-label-names-per-series",
        |c| Count(&mut c.limits.max_label_names_per_series),
        "Most labels of a stream. 0 means no limit.";
    "limits_config.max_label_name_length", "limits.max-label-name-length",
        |c| Count(&mut c.limits.max_label_name_length),
        "Longest name of a label, in bytes. 0 means no limit.";
    "limits_config.max_label_value_length", "limits.max-label-value-length",
        |c| Count(&mut c.limits.max_label_value_length),
        "Longest value of a label, in bytes. 0 means no limit.";
    "limits_config.allow_structured_metadata", "limits.allow-structured-metadata",
        |c| Bool(&mut c.limits.allow_structured_metadata),
        "Whether entries may carry structured metadata.";
    "limits_config.max_structured_metadata_size", "limits.max-structured-metadata-size",
        |c| MemoryBytes(&mut c.limits.max_structured_metadata_size_bytes),
        "Most bytes of names and values of the structured metadata of one entry. 0 means no limit.";
    "limits_config.max_structured_metadata_entries_count", "limits.max-structured-metadata-entries-count",
        |c| Count(&mut c.limits.max_structured_metadata_entries_count),
        "Most pairs of structured metadata of one entry. 0 means no limit.";
    "limits_config.max_entries_limit_per_query", "limits.max-entries-limit-per-query",
        |c| Count(&mut c.limits.max_entries_limit_per_query),
        "Most lines that a query may ask for. 0 means no limit.";
    "limits_config.allow_partial_answers", "limits.allow-partial-answers",
        |c| Bool(&mut c.limits.allow_partial_answers),
        "Of several nodes: whether queries get what the others have found, with a warning, if owners of \
         partitions do not answer for 10 seconds. Otherwise they get an error. The parameter partial of a \
         request wins.";
    "limits_config.max_query_series", "limits.max-query-series",
        |c| Count(&mut c.limits.max_query_series),
        "Most series that a metric query may produce. 0 means no limit.";
    "limits_config.max_query_length", "limits.max-query-length",
        |c| Nanos(&mut c.limits.max_query_length_ns),
        "Longest time range of a query. 0 means no limit.";
    "limits_config.max_query_lookback", "limits.max-query-lookback",
        |c| Nanos(&mut c.limits.max_query_lookback_ns),
        "Largest age of entries that queries read. 0 means no limit.";
    "limits_config.query_timeout", "limits.query-timeout",
        |c| Nanos(&mut c.limits.query_timeout_ns),
        "Longest time that a query may run. 0 means no limit.";
    "limits_config.max_query_range", "limits.max-query-range",
        |c| Nanos(&mut c.limits.max_query_range_ns),
        "Longest range of a range aggregation, in its brackets. 0 means no limit.";
    "limits_config.max_query_bytes_read", "limits.max-query-bytes-read",
        |c| Bytes(&mut c.limits.max_query_bytes_read),
        "Most bytes of lines in the streams and time range of a query, counted before its \
         filters. 0 means no limit.";
    "limits_config.max_querier_bytes_read", "limits.max-querier-bytes-read",
        |c| Bytes(&mut c.limits.max_querier_bytes_read),
        "Like max_query_bytes_read, for each node that takes part in a query. 0 means no limit; \
         Loki has 150GB, for a part of one hour of the query.";
    "limits_config.max_streams_matchers_per_query", "limits.max-streams-matchers-per-query",
        |c| Count(&mut c.limits.max_streams_matchers_per_query),
        "Most matchers of a stream selector. 0 means no limit.";
    "limits_config.required_labels", "limits.required-labels",
        |c| Words(&mut c.limits.required_labels),
        "Labels that every stream selector of a range query must match.";
    "limits_config.minimum_labels_number", "limits.minimum-labels-number",
        |c| Count(&mut c.limits.minimum_labels_number),
        "Fewest matchers that a stream selector of a range query must have.";
    "limits_config.blocked_queries", "limits.blocked-queries",
        |c| Blocked(&mut c.limits.blocked_queries),
        "Queries that are refused. A rule names queries by hash (FNV-1 of the text, 32 bits), or \
         else by pattern: the text of the query or, with regex: true, a regular expression for a \
         part of it. A rule without both names all queries. Its types (metric, filter, limited) \
         restrict it to queries of these types. The flag takes JSON.";
    "limits_config.max_query_parallelism", "limits.max-query-parallelism",
        |c| Count(&mut c.limits.max_query_parallelism),
        "0 forbids queries. Other values have no effect: tsdb_max_query_parallelism replaces them.";
    "limits_config.tsdb_max_query_parallelism", "limits.tsdb-max-query-parallelism",
        |c| Count(&mut c.limits.tsdb_max_query_parallelism),
        "Most queries of the tenant that run at a time. 0 forbids queries.";
    "limits_config.max_concurrent_tail_requests", "limits.max-concurrent-tail-requests",
        |c| Count(&mut c.limits.max_concurrent_tail_requests),
        "Most tails that a tenant may have open, over all cores. 0 means no limit.";
    "limits_config.retention_period", "limits.retention-period",
        |c| Nanos(&mut c.limits.retention_period_ns),
        "How long entries stay if compactor.retention_enabled is on, at least 24h. 0 means for \
         ever.";
    "limits_config.retention_stream", "limits.retention-stream",
        |c| Retention(&mut c.limits.retention_stream),
        "Other periods for some streams. Each rule has a selector, a priority and a period of at \
         least 24h. If several rules match a stream, the largest priority wins; among equal \
         priorities, the shortest period. The flag takes JSON.";
    "limits_config.allow_deletes", "limits.allow-deletes",
        |c| Allowed(&mut c.limits.deletion_mode),
        "Old name of deletion_mode, which wins: true means filter-and-delete, false means \
         disabled.";
    "limits_config.deletion_mode", "limits.deletion-mode",
        |c| Choice(&mut c.limits.deletion_mode),
        "What delete requests do if compactor.retention_enabled is on. disabled: none can be made; \
         those that are there go on hiding entries. filter-only: they hide entries. \
         filter-and-delete: they hide entries, and remove them from the disk when \
         compactor.delete_request_cancel_period is over.";
    "limits_config.volume_enabled", "limits.volume-enabled",
        |c| Bool(&mut c.limits.volume_enabled),
        "Whether the volume endpoints answer.";
    "limits_config.volume_max_series", "limits.volume-max-series",
        |c| Count(&mut c.limits.volume_max_series),
        "Most series that an answer of the volume endpoints may have. 0 means no limit.";
};

/// Files with the limits of single tenants.
const FILES: &[Setting] = settings! {
    "limits_config.per_tenant_override_config", "limits.per-user-override-config",
        |c| Words(&mut c.runtime_files),
        "Another name of runtime_config.file.";
    "limits_config.per_tenant_override_period", "limits.per-user-override-period",
        |c| Duration(&mut c.runtime_reload_period),
        "Another name of runtime_config.period.";
    "runtime_config.file", "runtime-config.file",
        |c| Words(&mut c.runtime_files),
        "Files with the limits of single tenants. If several files set a key, the last file \
         wins. The server reads them again while it runs.";
    "runtime_config.period", "runtime-config.reload-period",
        |c| Duration(&mut c.runtime_reload_period),
        "Time between two readings of the files with the limits of single tenants.";
};
