//! Numbers of remote write for the node's metrics ([`crate::remote`]).

use std::time::Duration;

use logsvc_proto::TenantId;

/// Numbers of all sample logs and receivers. Counters begin at the start of the process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RemoteNumbers {
    /// By tenant, in order.
    pub logs: Vec<SampleLogNumbers>,
    /// By tenant and receiver, in order.
    pub receivers: Vec<ReceiverNumbers>,
}

/// Numbers of a tenant's sample log; label `tenant`. Names without a prefix are the metrics' names
/// behind `loki_ruler_wal_`.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleLogNumbers {
    /// Whose.
    pub tenant: TenantId,
    /// `appender_ready`: whether samples can be appended.
    pub is_ready: bool,
    /// `storage_active_series`: series with a sample in the last hour.
    pub active_series: u64,
    /// `storage_created_series_total`: series that were new.
    pub created_series: u64,
    /// `storage_removed_series_total`: series that were forgotten.
    pub removed_series: u64,
    /// `samples_appended_total`.
    pub samples_appended: u64,
    /// Samples that were not newer than the last one of their series, and were left out.
    pub samples_out_of_order: u64,
    /// Samples whose labels are too long, which were left out.
    pub samples_too_large: u64,
    /// Samples that could not be written.
    pub samples_not_written: u64,
    /// `corruptions_total`: damaged places, and files that cannot be read.
    pub corruptions: u64,
    /// `corruptions_repair_succeeded_total`: torn ends that were cut and damage that was skipped.
    pub repairs: u64,
    /// `disk_size`: bytes of the log.
    pub disk_bytes: u64,
    /// `replay_duration`: how long the log took to be read at the start; `None` before.
    pub replay_time: Option<Duration>,
    /// `prometheus_remote_storage_highest_timestamp_in_seconds`: the newest timestamp appended, in
    /// ms.
    pub highest_timestamp_ms: Option<i64>,
}

impl SampleLogNumbers {
    /// Those of a log that has done nothing.
    pub(crate) fn new(tenant: TenantId) -> SampleLogNumbers {
        SampleLogNumbers {
            tenant,
            is_ready: false,
            active_series: 0,
            created_series: 0,
            removed_series: 0,
            samples_appended: 0,
            samples_out_of_order: 0,
            samples_too_large: 0,
            samples_not_written: 0,
            corruptions: 0,
            repairs: 0,
            disk_bytes: 0,
            replay_time: None,
            highest_timestamp_ms: None,
        }
    }
}

/// Upper ends of the buckets of [`ReceiverNumbers::durations`], in s, as Prometheus has them. The
/// last bucket has no end.
pub const DURATION_BUCKETS_S: [f64; 15] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 60.0, 120.0, 300.0];

/// Numbers of a receiver; labels `tenant`, `remote_name` and `url`. Names are the metrics' names
/// behind `loki_ruler_wal_prometheus_remote_storage_`.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceiverNumbers {
    /// Whose samples.
    pub tenant: TenantId,
    /// `remote_name`.
    pub name: String,
    /// `url`, without a password.
    pub url: String,
    /// `samples_total`: samples of all requests, those that were sent again included.
    pub samples_sent: u64,
    /// Samples that the receiver has taken.
    pub samples_taken: u64,
    /// `samples_failed_total`: samples that the receiver refused for good.
    pub samples_failed: u64,
    /// `samples_retried_total`.
    pub samples_retried: u64,
    /// `samples_dropped_total` with `reason="dropped_series"`: relabelling dropped them.
    pub dropped_by_relabelling: u64,
    /// `samples_dropped_total` with `reason="log_full"`: the log had no room.
    pub dropped_for_room: u64,
    /// `samples_dropped_total` with `reason="too_old"`: they had waited too long.
    pub dropped_for_age: u64,
    /// `samples_dropped_total` with `reason="damaged"`: they could not be read.
    pub dropped_as_damaged: u64,
    /// `samples_pending`.
    pub samples_pending: u64,
    /// `bytes_total`: compressed bytes of all requests.
    pub sent_bytes: u64,
    /// `queue_highest_sent_timestamp_seconds`: the newest timestamp that the receiver has taken, in
    /// ms.
    pub highest_sent_ms: Option<i64>,
    /// `max_samples_per_send`.
    pub max_samples_per_send: u64,
    /// `sent_batch_duration_seconds`: requests by duration, not cumulative; one bucket more than
    /// [`DURATION_BUCKETS_S`] has ends.
    pub durations: [u64; DURATION_BUCKETS_S.len() + 1],
    /// Sum of the durations. `shards` and its kin are 1: a receiver gets one request at a time.
    pub durations_sum: Duration,
}

impl ReceiverNumbers {
    /// Those of a receiver that has got nothing.
    pub(crate) fn new(tenant: TenantId) -> ReceiverNumbers {
        ReceiverNumbers {
            tenant,
            name: String::new(),
            url: String::new(),
            samples_sent: 0,
            samples_taken: 0,
            samples_failed: 0,
            samples_retried: 0,
            dropped_by_relabelling: 0,
            dropped_for_room: 0,
            dropped_for_age: 0,
            dropped_as_damaged: 0,
            samples_pending: 0,
            sent_bytes: 0,
            highest_sent_ms: None,
            max_samples_per_send: 0,
            durations: [0; DURATION_BUCKETS_S.len() + 1],
            durations_sum: Duration::ZERO,
        }
    }

    /// Counts a request.
    pub(crate) fn observe(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let bucket = DURATION_BUCKETS_S.iter().position(|&end| seconds <= end);
        self.durations[bucket.unwrap_or(DURATION_BUCKETS_S.len())] += 1;
        self.durations_sum += duration;
    }
}
