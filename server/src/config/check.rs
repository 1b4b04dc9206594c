//! Refuses values that their notation allows but that no node can run with.

use std::time::Duration;

use http::HeaderValue;
use logsvc_proto::push::metadata::is_normal_name;
use logsvc_proto::time::format_model_duration;
use logsvc_shards::retention::PERIOD_MIN_NS;
use logsvc_shards::wal::SyncPolicy;

use super::{Config, Limits, targets};

/// Most cores of a node; far more than a machine has, but few enough that the lanes
/// between each two of them fit into memory.
const MAX_CORES: u16 = 1024;

/// Less memory than this holds no useful heads.
const MIN_MEMORY_BYTES: u64 = 64 << 20;

/// Below this a log consists of headers.
const MIN_WAL_FILE_BYTES: u64 = 1 << 20;

/// Appends a text for each fault, beginning with the path of the setting.
pub(super) fn check(config: &Config, errors: &mut Vec<String>) {
    let mut need = |good: bool, text: &str| {
        if !good {
            errors.push(text.to_owned());
        }
    };
    let index_label = &config.elasticsearch.index_label;
    need(
        index_label.is_empty() || is_normal_name(index_label.as_bytes()),
        "intake.elasticsearch.index_label: must be a label name or empty",
    );
    need(
        HeaderValue::from_str(&config.elasticsearch.version).is_ok()
            && !config.elasticsearch.version.is_empty(),
        "intake.elasticsearch.version: must be a version such as 8.17.0",
    );
    for name in targets::unknown(&config.target) {
        need(false, &format!("target: unrecognised module name: {name}"));
    }
    let exports = targets::lists(&config.target, "overrides-exporter");
    need(
        !exports || !config.runtime_files.is_empty(),
        "overrides-exporter has been enabled, but no runtime configuration file was configured",
    );
    config.access.check(errors);
    let mut need = |good: bool, text: &str| {
        if !good {
            errors.push(text.to_owned());
        }
    };
    need(config.cores <= MAX_CORES, "cores: at most 1024");
    need(config.memory_max_bytes >= MIN_MEMORY_BYTES, "memory.max_bytes: at least 64MB");
    need(config.wal.file_max_bytes >= MIN_WAL_FILE_BYTES, "wal.file_max_bytes: at least 1MB");
    let shortest = Duration::from_millis(1);
    let interval_good =
        !matches!(config.wal.sync, SyncPolicy::Interval(interval) if interval < shortest);
    need(interval_good, "wal.sync: an interval must be at least 1ms");
    for (timeout, text) in [
        (config.http_read_timeout, "server.http_server_read_timeout: must be more than 0"),
        (config.http_write_timeout, "server.http_server_write_timeout: must be more than 0"),
        (config.http_idle_timeout, "server.http_server_idle_timeout: must be more than 0"),
        (config.tail_max_duration, "querier.tail_max_duration: must be more than 0"),
        (config.runtime_reload_period, "runtime_config.period: must be more than 0"),
    ] {
        need(!timeout.is_zero(), text);
    }
    need(config.push_body_max_bytes > 0, "distributor.max_recv_msg_size: must be more than 0");
    need(
        config.push_decompressed_max_bytes > 0,
        "distributor.max_decompressed_size: must be more than 0",
    );
    need(config.delete_batch_size > 0, "compactor.delete_batch_size: must be more than 0");
    need(config.retention_max_disk_percent <= 100, "retention.max_disk_percent: at most 100");
    need(config.form_body_max_bytes > 0, "frontend.max_body_size: must be more than 0");
    config.tls.check("http", errors);
    config.cluster_keys.tls.listener.check_files("grpc", errors);
    config.ruler.check(&config.limits.ruler, errors);
    config.syslog.check(config.tls.is_on(), config.auth_enabled, errors);
    errors.extend(check_limits(&config.limits).map(|error| format!("limits_config.{error}")));
}

/// The faults in the limits of a tenant; each text begins with the key.
pub(super) fn check_limits(limits: &Limits) -> impl Iterator<Item = String> {
    let status = (!(200..600).contains(&limits.block_ingestion_status_code))
        .then(|| "block_ingestion_status_code: must be 200 to 599".to_owned());
    let period_ns = limits.retention_period_ns;
    let period = (period_ns != 0 && period_ns < PERIOD_MIN_NS).then(|| {
        let was = format_model_duration(period_ns);
        format!("retention_period: retention period must be >= 24h was {was}")
    });
    [status, period].into_iter().flatten()
}
