//! Where evaluations put their alerts and samples.

use logsvc_proto::{Labels, TenantId};

/// An alert as Alertmanagers read it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notification {
    /// All labels, with `alertname`.
    pub labels: Labels,
    /// Annotations; names of annotations are names of labels.
    pub annotations: Labels,
    /// When it began to fire, in ns since the Unix epoch.
    pub starts_at_ns: i64,
    /// When it ended, or until when it is to be taken for firing unless it is sent again.
    pub ends_at_ns: i64,
    /// The address of the query's graph.
    pub generator_url: String,
}

/// Takes alerts on their way to Alertmanagers.
pub trait AlertSink: 'static {
    /// Queues alerts. Never waits: what has no room is dropped and counted, oldest first.
    fn send(&self, tenant: &TenantId, alerts: Vec<Notification>);
}

/// A sample on its way to receivers of remote write.
#[derive(Clone, PartialEq, Debug)]
pub struct RecordedSample {
    /// All labels, with `__name__`.
    pub labels: Labels,
    /// Time in ms since the Unix epoch.
    pub timestamp_ms: i64,
    /// The value; [`STALE`] ends the series.
    pub value: f64,
}

/// The value that ends a series: the NaN with the bits `0x7ff0000000000002`.
pub const STALE: f64 = f64::from_bits(0x7ff0_0000_0000_0002);

/// Why samples were not taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AppendError {
    /// The node is stopping.
    #[error("WAL storage closed")]
    Closed,
    /// They cannot be written.
    #[error("cannot write samples: {0}")]
    Io(String),
}

/// Takes the samples of evaluations.
#[allow(async_fn_in_trait)]
pub trait SampleSink: 'static {
    /// Whether samples of a tenant go anywhere. If not, evaluations make none.
    fn takes(&self, _tenant: &TenantId) -> bool {
        true
    }

    /// Appends the samples of one evaluation of one rule, in their order. When it returns, they
    /// survive the end of the process.
    ///
    /// # Errors
    /// See [`AppendError`].
    async fn append(
        &self,
        tenant: &TenantId,
        samples: Vec<RecordedSample>,
    ) -> Result<(), AppendError>;
}
