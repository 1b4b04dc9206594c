//! What a tenant may do (`limits_config`).

use super::HOUR_NS;

/// Limits of a tenant. 0 means no limit unless said otherwise; sizes are in bytes,
/// durations in ns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limits {
    /// Longest line.
    pub(crate) max_line_size_bytes: usize,
    /// Whether longer lines are cut instead of refused.
    pub(crate) max_line_size_truncate: bool,
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
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_line_size_bytes: 256 << 10,
            max_line_size_truncate: false,
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
        }
    }
}
    /// Whether volumes may be asked for.
    pub(crate) volume_enabled: bool,
    /// Most series that a volume may have.
    pub(crate) volume_max_series: usize,
            volume_enabled: true,
            volume_max_series: 1000,
