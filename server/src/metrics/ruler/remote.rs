//! Numbers of samples that wait and that are sent, by tenant and receiver.

use logsvc_rules::remote_numbers::{
    DURATION_BUCKETS_S, ReceiverNumbers, RemoteNumbers, SampleLogNumbers,
};

use super::super::exposition::Exposition;
use super::family;

/// A metric of tenants: name, kind, help and value.
type LogFamily = (&'static str, &'static str, &'static str, fn(&SampleLogNumbers) -> Option<f64>);

/// A metric of receivers: name, kind, help and value.
type ReceiverFamily =
    (&'static str, &'static str, &'static str, fn(&ReceiverNumbers) -> Option<f64>);

/// Most tenants and receivers with values; a node has few.
const ROWS_MAX: usize = 4096;

const LOG_FAMILIES: [LogFamily; 10] = [
    (
        "loki_ruler_wal_appender_ready",
        "gauge",
        "1 if samples of the tenant can be recorded, else 0.",
        |log| Some(f64::from(log.is_ready)),
    ),
    ("loki_ruler_wal_samples_appended_total", "counter", "Samples that were recorded.", |log| {
        Some(log.samples_appended as f64)
    }),
    (
        "loki_ruler_wal_storage_active_series",
        "gauge",
        "Series with a sample in the last hour.",
        |log| Some(log.active_series as f64),
    ),
    ("loki_ruler_wal_storage_created_series_total", "counter", "Series that were new.", |log| {
        Some(log.created_series as f64)
    }),
    (
        "loki_ruler_wal_storage_removed_series_total",
        "counter",
        "Series that were forgotten.",
        |log| Some(log.removed_series as f64),
    ),
    ("loki_ruler_wal_disk_size", "gauge", "Bytes on the disk of samples that wait.", |log| {
        Some(log.disk_bytes as f64)
    }),
    (
        "loki_ruler_wal_corruptions_total",
        "counter",
        "Damaged places of the log of samples.",
        |log| Some(log.corruptions as f64),
    ),
    (
        "loki_ruler_wal_corruptions_repair_succeeded_total",
        "counter",
        "Damaged places that were cut off or skipped.",
        |log| Some(log.repairs as f64),
    ),
    (
        "logsvc_ruler_replay_seconds",
        "gauge",
        "How long the log of samples was read at the start.",
        |log| Some(log.replay_time?.as_secs_f64()),
    ),
    (
        "loki_ruler_wal_prometheus_remote_storage_highest_timestamp_in_seconds",
        "gauge",
        "Newest time of a recorded sample.",
        |log| Some(log.highest_timestamp_ms? as f64 / 1000.0),
    ),
];

const RECEIVER_FAMILIES: [ReceiverFamily; 12] = [
    (
        "loki_ruler_wal_prometheus_remote_storage_samples_total",
        "counter",
        "Samples of all requests, also those that were sent again.",
        |receiver| Some(receiver.samples_sent as f64),
    ),
    (
        "logsvc_ruler_samples_taken_total",
        "counter",
        "Samples that the receiver has taken.",
        |receiver| Some(receiver.samples_taken as f64),
    ),
    (
        "loki_ruler_wal_prometheus_remote_storage_samples_failed_total",
        "counter",
        "Samples that the receiver refused for good.",
        |receiver| Some(receiver.samples_failed as f64),
    ),
    (
        "loki_ruler_wal_prometheus_remote_storage_samples_retried_total",
        "counter",
        "Samples of requests that failed and are sent again.",
        |receiver| Some(receiver.samples_retried as f64),
    ),
    (
        "loki_ruler_wal_prometheus_remote_storage_samples_pending",
        "gauge",
        "Samples that wait for the receiver.",
        |receiver| Some(receiver.samples_pending as f64),
    ),
    (
        "loki_ruler_wal_prometheus_remote_storage_bytes_total",
        "counter",
        "Compressed bytes of all requests.",
        |receiver| Some(receiver.sent_bytes as f64),
    ),
    (
        "loki_ruler_wal_prometheus_remote_storage_queue_highest_sent_timestamp_seconds",
        "gauge",
        "Newest time of a sample that the receiver has taken.",
        |receiver| Some(receiver.highest_sent_ms? as f64 / 1000.0),
    ),
    (
        "loki_ruler_wal_prometheus_remote_storage_max_samples_per_send",
        "gauge",
        "Most samples of a request.",
        |receiver| Some(receiver.max_samples_per_send as f64),
    ),
    (
        "loki_ruler_wal_prometheus_remote_storage_shards",
        "gauge",
        "Requests to the receiver at a time.",
        |_| Some(1.0),
    ),
    (
        "loki_ruler_wal_prometheus_remote_storage_shards_desired",
        "gauge",
        "As many as there are.",
        |_| Some(1.0),
    ),
    (
        "loki_ruler_wal_prometheus_remote_storage_shards_max",
        "gauge",
        "Most requests at a time.",
        |_| Some(1.0),
    ),
    (
        "loki_ruler_wal_prometheus_remote_storage_shards_min",
        "gauge",
        "Fewest requests at a time.",
        |_| Some(1.0),
    ),
];

pub(super) fn expose(numbers: &RemoteNumbers, out: &mut Exposition) {
    let logs = &numbers.logs[..numbers.logs.len().min(ROWS_MAX)];
    for (name, kind, help, read) in LOG_FAMILIES {
        family(out, (name, kind, help), logs, |log, sample| {
            if let Some(value) = read(log) {
                sample(&[("tenant", log.tenant.as_str())], value);
            }
        });
    }
    let left_out = ("logsvc_ruler_samples_left_out_total", "counter", "Samples not recorded.");
    family(out, left_out, logs, |log, sample| {
        for (reason, count) in [
            ("out_of_order", log.samples_out_of_order),
            ("too_large", log.samples_too_large),
            ("not_written", log.samples_not_written),
        ] {
            sample(&[("tenant", log.tenant.as_str()), ("reason", reason)], count as f64);
        }
    });
    let receivers = &numbers.receivers[..numbers.receivers.len().min(ROWS_MAX)];
    for (name, kind, help, read) in RECEIVER_FAMILIES {
        family(out, (name, kind, help), receivers, |receiver, sample| {
            if let Some(value) = read(receiver) {
                sample(&labels(receiver), value);
            }
        });
    }
    let name = "loki_ruler_wal_prometheus_remote_storage_samples_dropped_total";
    let help = "Samples that the receiver does not get.";
    family(out, (name, "counter", help), receivers, |receiver, sample| {
        for (reason, count) in [
            ("dropped_series", receiver.dropped_by_relabelling),
            ("log_full", receiver.dropped_for_room),
            ("too_old", receiver.dropped_for_age),
            ("damaged", receiver.dropped_as_damaged),
        ] {
            let [tenant, name, url] = labels(receiver);
            sample(&[tenant, name, url, ("reason", reason)], count as f64);
        }
    });
    let name = "loki_ruler_wal_prometheus_remote_storage_sent_batch_duration_seconds";
    out.family(name, "histogram", "How long requests took.");
    for receiver in receivers {
        let [tenant, remote, url] = labels(receiver);
        let mut count = 0;
        for (place, in_bucket) in receiver.durations.iter().enumerate() {
            count += in_bucket;
            let end = DURATION_BUCKETS_S.get(place).map(f64::to_string);
            let end = end.as_deref().unwrap_or("+Inf");
            let labels = [tenant, remote, url, ("le", end)];
            out.sample(&format!("{name}_bucket"), &labels, count as f64);
        }
        let labels = labels(receiver);
        out.sample(&format!("{name}_sum"), &labels, receiver.durations_sum.as_secs_f64());
        out.sample(&format!("{name}_count"), &labels, count as f64);
    }
}

fn labels(receiver: &ReceiverNumbers) -> [(&str, &str); 3] {
    [("tenant", receiver.tenant.as_str()), ("remote_name", &receiver.name), ("url", &receiver.url)]
}
