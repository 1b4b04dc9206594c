//! What handlers of bodies of any length share: entries are stored in batches while the body comes.
//!
//! Guarantees: what cannot be stored at the moment is tried again, with longer and longer pauses,
//! until the patience of the handler ends, the client is gone, or the node stops. Then the answer is
//! 429 or 503, which clients repeat.

use std::time::Duration;

use http::StatusCode;
use logsvc_http::Disconnect;
use logsvc_proto::TenantId;
use logsvc_proto::error::ApiError;
use logsvc_proto::records::Records;
use logsvc_runtime::{Reservation, Runtime};

use super::Ingest;
use crate::config::Limits;
use crate::front::core::errors::too_many_bytes;
use crate::metrics::{Amount, Reason};
use crate::refusals::Sender;

/// Entries are stored when there are so many bytes or entries.
const BATCH_BYTES: u64 = 1 << 20;
pub(super) const BATCH_ENTRIES: usize = 4096;
/// Memory of records that is kept for the next batch.
const KEPT_BYTES: usize = 8 << 20;
/// Bytes that the limits on rates count for an entry besides those of its record.
const LEVEL_BYTES: u64 = 32;

/// How long something is tried again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// The sum of the pauses.
    pub(super) whole: Duration,
    /// The first pause, and the longest.
    pub(super) pauses: (Duration, Duration),
}

/// Who sends a body, and where it goes.
pub(super) struct Streamed<'s, R: Runtime> {
    pub(super) ingest: &'s Ingest<R>,
    pub(super) tenant: &'s TenantId,
    pub(super) sender: Sender<'s>,
    pub(super) disconnect: &'s Disconnect,
    pub(super) patience: Patience,
}

impl<R: Runtime> Streamed<'_, R> {
    /// Memory that grows with [`Streamed::reserve`].
    ///
    /// # Errors
    /// The node has none.
    pub(super) fn memory(&self) -> Result<Reservation, ApiError> {
        let memory = self.ingest.core.budgets().bodies.try_reserve(0).ok_or_else(too_many_bytes);
        self.ingest.noted(Some(self.tenant), self.sender, memory)
    }

    /// Waits until there is so much memory.
    ///
    /// # Errors
    /// The patience has ended.
    pub(super) async fn reserve(
        &self,
        memory: &mut Reservation,
        wanted_bytes: u64,
    ) -> Result<(), ApiError> {
        let mut tries = Tries::default();
        loop {
            let missing_bytes = wanted_bytes.saturating_sub(memory.bytes());
            if missing_bytes == 0 || memory.try_grow(missing_bytes) {
                memory.shrink_to(wanted_bytes);
                return Ok(());
            }
            let outcome = tries.pause(self, too_many_bytes()).await;
            self.ingest.noted(Some(self.tenant), self.sender, outcome)?;
        }
    }

    /// Counts and lists what could not be read.
    pub(super) fn note_unreadable(&self, amount: Amount, text: &str) {
        self.ingest.note_unreadable(self.tenant, self.sender, Reason::Unreadable, amount, text);
    }

    /// How long the tenant's limit on rates keeps the records out; none if it lets them in.
    pub(super) fn rate_wait(&self, records: &Records) -> Option<Duration> {
        let bytes = records.len_bytes() + records.len() as u64 * LEVEL_BYTES;
        self.ingest.rate_wait(self.tenant, bytes)
    }

    /// Whether nobody waits for the answer, or nothing will be stored any more.
    pub(super) fn is_over(&self) -> bool {
        self.disconnect.is_gone() || self.ingest.core.node.stop.is_triggered()
    }

    pub(super) async fn sleep(&self, pause: Duration) {
        let runtime = &self.ingest.core.runtime;
        runtime.sleep_until(runtime.now().after(pause)).await;
    }
}

/// How often something was tried, and since when.
#[derive(Default)]
pub(super) struct Tries {
    waited: Duration,
    pause: Duration,
}

impl Tries {
    /// Waits before the next try.
    ///
    /// # Errors
    /// There is none; the body ends with `error`.
    pub(super) async fn pause<R: Runtime>(
        &mut self,
        of: &Streamed<'_, R>,
        error: ApiError,
    ) -> Result<(), ApiError> {
        let (first, longest) = of.patience.pauses;
        self.pause = (self.pause * 2).clamp(first, longest);
        self.pause_for(of, self.pause, error).await
    }

    /// The same, for about so long.
    ///
    /// # Errors
    /// See [`Tries::pause`].
    pub(super) async fn pause_for<R: Runtime>(
        &mut self,
        of: &Streamed<'_, R>,
        pause: Duration,
        error: ApiError,
    ) -> Result<(), ApiError> {
        let Patience { whole, pauses: (first, longest) } = of.patience;
        if self.waited >= whole || of.is_over() {
            let status = match error.status {
                StatusCode::TOO_MANY_REQUESTS => StatusCode::TOO_MANY_REQUESTS,
                _ => StatusCode::SERVICE_UNAVAILABLE,
            };
            let retry_after_s = error.retry_after_s.or(Some(1));
            return Err(ApiError { status, retry_after_s, ..error });
        }
        let pause = pause.clamp(first, longest);
        of.sleep(pause).await;
        self.waited += pause;
        Ok(())
    }
}

/// Whether a refusal with this status may be gone when the same is sent again.
pub(super) fn may_pass(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()
}

/// A batch has to fit into the bursts that the limits on rates allow, or it never gets in.
pub(super) fn batch_bytes(limits: &Limits) -> u64 {
    let mut bytes = BATCH_BYTES;
    if limits.ingestion_rate_mb > 0.0 {
        bytes = bytes.min((limits.ingestion_burst_size_mb * (1 << 20) as f64 / 2.0) as u64);
    }
    if limits.per_stream_rate_limit_bytes > 0 {
        bytes = bytes.min(limits.per_stream_rate_limit_burst_bytes / 2);
    }
    bytes.max(1)
}

/// Forgets the records of a batch, and gives back much memory.
pub(super) fn forget(records: &mut Records) {
    if records.capacity_bytes() > KEPT_BYTES {
        *records = Records::new();
    }
    records.clear();
}
