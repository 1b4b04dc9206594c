//! Limits and timeouts of a server.

use std::time::Duration;

use logsvc_runtime::{Budget, BufferPool};

use crate::limit::ConnectionLimit;
use crate::scan::HeadLimits;

/// Bytes of the buffers of an idle connection, and of a first read.
pub const IDLE_BUFFER_BYTES: usize = 4096;

/// Limits and timeouts of the server of one core.
#[derive(Clone)]
pub struct ServerConfig {
    /// Limits of request lines and headers.
    pub head: HeadLimits,
    /// Connections over this count are answered with 503 and closed.
    pub connections: ConnectionLimit,
    /// Time for a head to arrive, from the accept or from its first byte.
    pub head_timeout: Duration,
    /// Time that a kept-alive connection may wait for its next request.
    pub idle_timeout: Duration,
    /// Time for a body to arrive, besides what `min_rate_bytes_per_s` allows for
    /// the bytes that have come.
    pub body_timeout: Duration,
    /// Time for all writes of an answer to be taken by the client, besides what
    /// `min_rate_bytes_per_s` allows for its bytes.
    pub write_timeout: Duration,
    /// Slowest client that is served: each byte of a body or of a write extends
    /// its deadline by this rate.
    pub min_rate_bytes_per_s: u64,
    /// Fewest bytes of a body that must come within each `pace_window`, however much came at
    /// once.
    pub pace_min_bytes: u64,
    /// Time over which the pace of a body is measured.
    pub pace_window: Duration,
    /// How long a request waits for memory before it is refused, and a quarter of it if it
    /// holds some already. Meanwhile slow ones are ended.
    pub room_patience: Duration,
    /// Time for requests under way to finish after the stop latch; then their
    /// connections are dropped.
    pub drain_timeout: Duration,
    /// After an answer that leaves body bytes unread: how many of them are read
    /// and dropped, so that the client sees the answer rather than a reset.
    pub linger_max_bytes: u64,
    /// Time for the same.
    pub linger_timeout: Duration,
    /// Compressible bodies from this length on are compressed.
    pub compress_min_bytes: usize,
    /// Memory for request bodies, and for heads longer than the idle buffer. With accounts,
    /// one of each client's address and one of [`crate::Admission::Body::account`], nobody
    /// takes more than half of it while others want some.
    pub body_budget: Budget,
    /// Where large buffers come from and go to.
    pub pool: BufferPool,
}

impl ServerConfig {
    /// The default limits with this memory for bodies.
    pub fn new(body_budget: Budget) -> ServerConfig {
        ServerConfig {
            head: HeadLimits::default(),
            connections: ConnectionLimit::new(16_384),
            head_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(120),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            min_rate_bytes_per_s: 16 * 1024,
            pace_min_bytes: 10 * 1024,
            pace_window: Duration::from_secs(10),
            room_patience: Duration::from_secs(2),
            drain_timeout: Duration::from_secs(30),
            linger_max_bytes: 1024 * 1024,
            linger_timeout: Duration::from_secs(2),
            compress_min_bytes: 1400,
            body_budget,
            pool: BufferPool::new(4 * 1024 * 1024),
        }
    }

    /// `timeout` and the time that `bytes` take at the slowest rate served.
    pub(crate) fn with_rate(&self, timeout: Duration, bytes: u64) -> Duration {
        let rate_bytes_per_s = self.min_rate_bytes_per_s.max(1);
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate_bytes_per_s);
        timeout.saturating_add(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }
}
