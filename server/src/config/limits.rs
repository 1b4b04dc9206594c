//! The limits of a tenant (`limits_config`).

use logsvc_proto::discover::{DEFAULT_SERVICE_LABELS, LevelFields};

use super::{
    BlockedQueries, DeletionMode, HOUR_NS, OtlpConfig, RateStrategy, RulerLimits, StreamRetention,
};

/// Limits of a tenant. 0 means no limit unless said otherwise; sizes are in bytes,
/// durations in ns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limits {
    /// Whether queries take a part of the answer if owners of partitions do not answer.
    pub(crate) allow_partial_answers: bool,
    /// Longest line.
    pub(crate) max_line_size_bytes: usize,
    /// Whether longer lines are cut instead of refused.
    pub(crate) max_line_size_truncate: bool,
    /// The text at the end of a line that was cut.
    pub(crate) max_line_size_truncate_identifier: String,
    /// Whether entries of one push with the time of the entry before them are moved
    /// behind it.
    pub(crate) increment_duplicate_timestamp: bool,
    /// Labels that tell the service of a stream; empty: `service_name` is not added.
    pub(crate) discover_service_name: Vec<String>,
    /// Whether entries get the metadata `detected_level`.
    pub(crate) discover_log_levels: bool,
    /// Names of labels, metadata and fields that hold a level.
    pub(crate) log_level_fields: LevelFields,
    /// Depth of nested objects to which a JSON line is searched for a level.
    pub(crate) log_level_from_json_max_depth: usize,
    /// Until when pushes are refused, in ns since the Unix epoch; `None`: they are not.
    pub(crate) block_ingestion_until_ns: Option<i64>,
    /// Status of the answer to a push that is refused until then.
    pub(crate) block_ingestion_status_code: u16,
    /// The mapping of the attributes of OpenTelemetry logs.
    pub(crate) otlp: OtlpConfig,
    /// Labels that every stream must have.
    pub(crate) enforced_labels: Vec<String>,
    /// Bytes that the tenant may push in a second, in MB.
    pub(crate) ingestion_rate_mb: f64,
    /// Whether all nodes share the rate.
    pub(crate) ingestion_rate_strategy: RateStrategy,
    /// Bytes that the tenant may push at once, in MB.
    pub(crate) ingestion_burst_size_mb: f64,
    /// Most active streams that this node takes entries of.
    pub(crate) max_streams_per_user: usize,
    /// Most active streams on all nodes together.
    pub(crate) max_global_streams_per_user: usize,
    /// Bytes that may be pushed to one stream in a second.
    pub(crate) per_stream_rate_limit_bytes: u64,
    /// Bytes that may be pushed to one stream at once.
    pub(crate) per_stream_rate_limit_burst_bytes: u64,
    /// Whether entries older than `reject_old_samples_max_age_ns` are refused.
    pub(crate) reject_old_samples: bool,
    /// Largest age of an entry.
    pub(crate) reject_old_samples_max_age_ns: i64,
    /// How far in the future an entry may lie.
    pub(crate) creation_grace_period_ns: i64,
    /// Most labels of a stream.
    pub(crate) max_label_names_per_series: usize,
    /// Longest label name, in bytes.
    pub(crate) max_label_name_length: usize,
    /// Longest label value, in bytes.
    pub(crate) max_label_value_length: usize,
    /// Whether entries may carry structured metadata.
    pub(crate) allow_structured_metadata: bool,
    /// Most bytes of names and values of one entry's structured metadata.
    pub(crate) max_structured_metadata_size_bytes: usize,
    /// Most pairs of one entry's structured metadata.
    pub(crate) max_structured_metadata_entries_count: usize,
    /// Most lines that a query may ask for.
    pub(crate) max_entries_limit_per_query: usize,
    /// Most series that a metric query may produce.
    pub(crate) max_query_series: usize,
    /// Longest time range of a query.
    pub(crate) max_query_length_ns: i64,
    /// How far back a query sees.
    pub(crate) max_query_lookback_ns: i64,
    /// Longest run time of a query.
    pub(crate) query_timeout_ns: i64,
    /// Longest range of a range aggregation.
    pub(crate) max_query_range_ns: i64,
    /// Most bytes of lines that the streams and times of a query may stand for.
    pub(crate) max_query_bytes_read: u64,
    /// Like `max_query_bytes_read`, for each node that takes part in the query.
    pub(crate) max_querier_bytes_read: u64,
    /// Most matchers of a stream selector.
    pub(crate) max_streams_matchers_per_query: usize,
    /// Labels that every stream selector of a range query must match.
    pub(crate) required_labels: Vec<String>,
    /// Fewest matchers that a stream selector of a range query must have.
    pub(crate) minimum_labels_number: usize,
    /// Queries that are refused.
    pub(crate) blocked_queries: BlockedQueries,
    /// 0 refuses queries. Other values have no effect: as in the reference,
    /// `tsdb_max_query_parallelism` supersedes them.
    pub(crate) max_query_parallelism: usize,
    /// Most queries of the tenant that run at a time; 0 refuses queries.
    pub(crate) tsdb_max_query_parallelism: usize,
    /// Most tails at a time.
    pub(crate) max_concurrent_tail_requests: usize,
    /// How long entries stay if `compactor.retention_enabled` is on; 0: for ever.
    pub(crate) retention_period_ns: i64,
    /// Other periods for some streams.
    pub(crate) retention_stream: StreamRetention,
    /// What requests for deletion do.
    pub(crate) deletion_mode: DeletionMode,
    /// Whether the volume endpoints answer.
    pub(crate) volume_enabled: bool,
    /// Most series that a volume may have.
    pub(crate) volume_max_series: usize,
    /// Rules, alerts and recorded samples.
    pub(crate) ruler: RulerLimits,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            allow_partial_answers: false,
            max_line_size_bytes: 256 << 10,
            max_line_size_truncate: false,
            max_line_size_truncate_identifier: String::new(),
            increment_duplicate_timestamp: false,
            discover_service_name: DEFAULT_SERVICE_LABELS.map(str::to_owned).to_vec(),
            discover_log_levels: true,
            log_level_fields: LevelFields::default(),
            log_level_from_json_max_depth: 2,
            block_ingestion_until_ns: None,
            block_ingestion_status_code: 260,
            otlp: OtlpConfig::default(),
            enforced_labels: Vec::new(),
            ingestion_rate_mb: 0.0,
            ingestion_rate_strategy: RateStrategy::Global,
            ingestion_burst_size_mb: 6.0,
            max_streams_per_user: 0,
            max_global_streams_per_user: 0,
            per_stream_rate_limit_bytes: 0,
            per_stream_rate_limit_burst_bytes: 15 << 20,
            reject_old_samples: true,
            reject_old_samples_max_age_ns: 7 * 24 * HOUR_NS,
            creation_grace_period_ns: HOUR_NS / 6,
            max_label_names_per_series: 15,
            max_label_name_length: 1024,
            max_label_value_length: 2048,
            allow_structured_metadata: true,
            max_structured_metadata_size_bytes: 64 << 10,
            max_structured_metadata_entries_count: 128,
            max_entries_limit_per_query: 5000,
            max_query_series: 500,
            max_query_length_ns: 721 * HOUR_NS,
            max_query_lookback_ns: 0,
            query_timeout_ns: HOUR_NS / 60,
            max_query_range_ns: 0,
            max_query_bytes_read: 0,
            max_querier_bytes_read: 0,
            max_streams_matchers_per_query: 1000,
            required_labels: Vec::new(),
            minimum_labels_number: 0,
            blocked_queries: BlockedQueries::default(),
            max_query_parallelism: 32,
            tsdb_max_query_parallelism: 128,
            max_concurrent_tail_requests: 10,
            retention_period_ns: 0,
            retention_stream: StreamRetention::default(),
            deletion_mode: DeletionMode::Disabled,
            volume_enabled: true,
            volume_max_series: 1000,
            ruler: RulerLimits::default(),
        }
    }
}

impl Limits {
    /// Limits that change nothing when [`Limits::tighten`] combines them with the limits of one
    /// tenant.
    pub(crate) fn unlimited_queries() -> Limits {
        Limits {
            allow_partial_answers: true,
            max_entries_limit_per_query: 0,
            max_query_series: 0,
            max_query_length_ns: 0,
            max_query_lookback_ns: 0,
            query_timeout_ns: 0,
            max_query_range_ns: 0,
            max_query_bytes_read: 0,
            max_querier_bytes_read: 0,
            max_streams_matchers_per_query: 0,
            max_query_parallelism: usize::MAX,
            tsdb_max_query_parallelism: usize::MAX,
            volume_max_series: 0,
            ..Limits::default()
        }
    }

    /// Makes the limits of queries as strict as the limits of another tenant, whose data the same
    /// query reads. Other limits stay.
    pub(crate) fn tighten(&mut self, other: &Limits) {
        // 0 is no limit.
        fn least<N: Ord + Default + Copy>(limit: &mut N, other: N) {
            if *limit == N::default() || (other != N::default() && other < *limit) {
                *limit = other;
            }
        }
        least(&mut self.max_entries_limit_per_query, other.max_entries_limit_per_query);
        least(&mut self.max_query_series, other.max_query_series);
        least(&mut self.max_query_length_ns, other.max_query_length_ns);
        least(&mut self.max_query_lookback_ns, other.max_query_lookback_ns);
        least(&mut self.query_timeout_ns, other.query_timeout_ns);
        least(&mut self.max_query_range_ns, other.max_query_range_ns);
        least(&mut self.max_query_bytes_read, other.max_query_bytes_read);
        least(&mut self.max_querier_bytes_read, other.max_querier_bytes_read);
        least(&mut self.max_streams_matchers_per_query, other.max_streams_matchers_per_query);
        least(&mut self.volume_max_series, other.volume_max_series);
        // 0 forbids queries.
        self.max_query_parallelism = self.max_query_parallelism.min(other.max_query_parallelism);
        self.tsdb_max_query_parallelism =
            self.tsdb_max_query_parallelism.min(other.tsdb_max_query_parallelism);
        self.minimum_labels_number = self.minimum_labels_number.max(other.minimum_labels_number);
        for name in &other.required_labels {
            if !self.required_labels.contains(name) {
                self.required_labels.push(name.clone());
            }
        }
        self.volume_enabled &= other.volume_enabled;
        self.allow_partial_answers &= other.allow_partial_answers;
        self.blocked_queries.add(&other.blocked_queries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strictest_limit_counts() {
        let first = Limits {
            max_entries_limit_per_query: 0,
            max_query_series: 10,
            max_query_lookback_ns: 5,
            query_timeout_ns: 7,
            required_labels: vec!["a".to_owned(), "b".to_owned()],
            tsdb_max_query_parallelism: 4,
            ..Limits::default()
        };
        let second = Limits {
            max_entries_limit_per_query: 100,
            max_query_series: 20,
            max_query_lookback_ns: 0,
            query_timeout_ns: 3,
            required_labels: vec!["b".to_owned(), "c".to_owned()],
            minimum_labels_number: 2,
            tsdb_max_query_parallelism: 0,
            volume_enabled: false,
            max_line_size_bytes: 1,
            ..Limits::default()
        };
        let sorted = |mut limits: Limits| {
            limits.required_labels.sort();
            limits
        };
        let expected = Limits {
            max_entries_limit_per_query: 100,
            max_query_series: 10,
            max_query_lookback_ns: 5,
            query_timeout_ns: 3,
            required_labels: ["a", "b", "c"].map(str::to_owned).to_vec(),
            minimum_labels_number: 2,
            tsdb_max_query_parallelism: 0,
            volume_enabled: false,
            ..Limits::default()
        };
        let mut both = first.clone();
        both.tighten(&second);
        assert_eq!(sorted(both), expected);
        let mut alone = first.clone();
        alone.tighten(&Limits::unlimited_queries());
        assert_eq!(alone, first);
        let mut both = second;
        both.tighten(&first);
        let expected = Limits { max_line_size_bytes: 1, ..expected };
        assert_eq!(sorted(both), expected);
    }
}
