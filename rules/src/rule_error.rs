//! Why the evaluation of a rule gave no result.

/// The reasons that are the rules' own. Texts are part of the interface (`lastError`).
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RuleError {
    /// Two results of an alerting rule have the same labels, so they would be one alert.
    #[error("vector contains metrics with the same labelset after applying alert labels")]
    SameAlert,
    /// Two results of a recording rule have the same labels, so they would be one series.
    #[error("vector contains metrics with the same labelset after applying rule labels")]
    SameSeries,
    /// There are more alerts than the group's `limit`.
    #[error("exceeded limit of {limit} with {found} alerts")]
    TooManyAlerts {
        /// The limit.
        limit: u64,
        /// Pending and firing alerts.
        found: usize,
    },
    /// There are more series than the group's `limit`.
    #[error("exceeded limit of {limit} with {found} series")]
    TooManySeries {
        /// The limit.
        limit: u64,
        /// Series of the result.
        found: usize,
    },
}
