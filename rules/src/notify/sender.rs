//! The task that sends a tenant's alerts to one Alertmanager, one request after the other.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Method, StatusCode};
use logsvc_runtime::Runtime;

use super::discover::Discover;
use super::queue::Batch;
use super::setup::Connect;
use super::tenant::Receiver;
use super::{SetupOf, Shared, TenantOf};
use crate::transport::{OutgoingAnswer, OutgoingRequest, Transport};

/// How often a request is sent at most.
pub const ATTEMPTS: u32 = 3;

/// Most alerts of a request.
pub(super) const BATCH_MAX_ALERTS: u64 = 256;

/// Most bytes of a request with several alerts.
pub(super) const BATCH_MAX_BYTES: u64 = 1 << 20;

/// Pause after the first attempt; each further one waits twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Longest pause that an Alertmanager may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Longest part of an answer in a log line, in bytes.
const REASON_MAX_BYTES: usize = 256;

/// The header that names the tenant.
const TENANT_HEADER: &str = "x-scope-orgid";

/// Why an attempt failed.
struct Failure {
    reason: String,
    /// When to try again; `None`: not at all.
    retry_after: Option<Duration>,
}

impl Failure {
    fn passing(reason: String) -> Failure {
        Failure { reason, retry_after: Some(Duration::ZERO) }
    }
}

impl<R: Runtime, C: Connect, D: Discover> Shared<R, C, D> {
    /// Sends until the receiver is removed, or until the node stops and nothing waits.
    pub(super) async fn send_all(
        self: Rc<Self>,
        tenant: Rc<TenantOf<R, C>>,
        receiver: Rc<Receiver>,
    ) {
        while !receiver.removed.is_triggered() && self.runtime.now() < self.stop_at.get() {
            match self.take(&tenant, &receiver) {
                Some(batch) => self.send_batch(&tenant, &receiver, batch).await,
                None if self.stop.is_triggered() => return,
                None => receiver.bell.heard().await,
            }
        }
    }

    fn take(&self, tenant: &TenantOf<R, C>, receiver: &Receiver) -> Option<Batch> {
        // Each attempt has a copy of the body.
        let room = (self.config.max_queued_bytes / 4).saturating_sub(self.body_bytes.get()) / 2;
        let max_bytes = room.min(BATCH_MAX_BYTES);
        let batch =
            self.with_queue(tenant, |queue| queue.take(receiver.id, BATCH_MAX_ALERTS, max_bytes))?;
        self.body_bytes.set(self.body_bytes.get() + 2 * batch.body.len() as u64);
        receiver.count(|counts| counts.in_flight = batch.count);
        Some(batch)
    }

    async fn send_batch(&self, tenant: &TenantOf<R, C>, receiver: &Receiver, batch: Batch) {
        let mut attempt = 1;
        let outcome = loop {
            let setup = tenant.setup.borrow().clone();
            let Some(setup) = setup else { break Err("there are no settings".to_owned()) };
            let begun = self.runtime.now();
            let outcome = self.attempt(tenant, receiver, &setup, &batch.body).await;
            receiver.count(|counts| {
                counts.requests += 1;
                counts.latency += self.runtime.now().since(begun);
            });
            let Failure { reason, retry_after } = match outcome {
                Ok(()) => break Ok(()),
                Err(failure) => failure,
            };
            let Some(asked) = retry_after.filter(|_| attempt < ATTEMPTS) else {
                break Err(reason);
            };
            let pause = asked.max(FIRST_PAUSE * (1 << (attempt - 1))).min(LONGEST_PAUSE);
            if !self.pause(receiver, pause).await {
                break Err(reason);
            }
            attempt += 1;
        };
        self.body_bytes.set(self.body_bytes.get() - 2 * batch.body.len() as u64);
        receiver.count(|counts| {
            counts.in_flight = 0;
            match outcome {
                Ok(()) => counts.sent += batch.count,
                Err(_) => counts.errors += batch.count,
            }
        });
        if let Err(reason) = outcome
            && let Some(earlier) = receiver.failures_log.admit(self.runtime.now())
        {
            tracing::error!(
                tenant = tenant.id.as_str(),
                alertmanager = %receiver.url,
                alerts = batch.count,
                attempts = attempt,
                reason,
                earlier,
                "cannot send alerts"
            );
        }
    }

    /// Waits before the next attempt, and says whether there is to be one. A node that stops has
    /// no time to wait; it tries again at once if its patience is not over.
    async fn pause(&self, receiver: &Receiver, pause: Duration) -> bool {
        let slept = pin!(self.runtime.sleep_until(self.runtime.now().after(pause)));
        let called = select(self.stop.wait(), receiver.removed.wait());
        select(slept, called).await;
        !receiver.removed.is_triggered() && self.runtime.now() < self.stop_at.get()
    }

    async fn attempt(
        &self,
        tenant: &TenantOf<R, C>,
        receiver: &Receiver,
        setup: &SetupOf<R, C>,
        body: &[u8],
    ) -> Result<(), Failure> {
        let timeout = setup.config.timeout;
        let sent = pin!(self.exchange(tenant, receiver, setup, body));
        // The transport keeps the time itself. This clock is for one that does not.
        let too_late = self.runtime.now().after(timeout.saturating_add(Duration::from_secs(1)));
        let late = pin!(async {
            self.runtime.sleep_until(too_late).await;
            Failure::passing(format!("no answer within {timeout:?}"))
        });
        let ended = pin!(async {
            self.end_of(receiver).await;
            Failure { reason: "the node stops, or the address is gone".into(), retry_after: None }
        });
        let over = select(late, ended);
        let answer = match select(sent, over).await {
            Either::Left((answer, _)) => answer?,
            Either::Right((over, _)) => return Err(over.factor_first().0),
        };
        judge(&answer)
    }

    /// Ends when the receiver is removed, or when the node stops and its patience is over. A
    /// request ends with it, so that none is under way when the address comes back.
    async fn end_of(&self, receiver: &Receiver) {
        let stopped = pin!(async {
            self.stop.wait().await;
            self.runtime.sleep_until(self.stop_at.get()).await;
        });
        select(stopped, receiver.removed.wait()).await;
    }

    async fn exchange(
        &self,
        tenant: &TenantOf<R, C>,
        receiver: &Receiver,
        setup: &SetupOf<R, C>,
        body: &[u8],
    ) -> Result<OutgoingAnswer, Failure> {
        let failed = |error: String| Failure::passing(error);
        let transport = setup.transport(&self.connect).await.map_err(|error| failed(error.0))?;
        let mut headers = setup.auth.headers().await.map_err(|error| failed(error.to_string()))?;
        if setup.auth.is_anonymous()
            && let Some(value) = &*receiver.authorization.borrow()
        {
            headers.insert(AUTHORIZATION, value.clone());
        }
        set_standard(&mut headers, tenant.id.as_str());
        let request = OutgoingRequest {
            method: Method::POST,
            url: receiver.url.to_string(),
            headers,
            body: body.to_vec(),
            timeout: setup.config.timeout,
        };
        transport.send(request).await.map_err(|error| failed(error.0))
    }
}

/// Sets what the settings do not say otherwise.
fn set_standard(headers: &mut HeaderMap, tenant: &str) {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(value) = HeaderValue::try_from(tenant) {
        headers.entry(TENANT_HEADER).or_insert(value);
    }
}

fn judge(answer: &OutgoingAnswer) -> Result<(), Failure> {
    if answer.status.is_success() {
        return Ok(());
    }
    let body = &answer.body[..answer.body.len().min(REASON_MAX_BYTES)];
    let text = String::from_utf8_lossy(body);
    let reason = format!("bad response status {}: {}", answer.status, text.trim());
    let is_passing = answer.status.is_server_error()
        || matches!(answer.status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
    let asked = answer.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let asked = asked.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
    Err(Failure { reason, retry_after: is_passing.then(|| asked.unwrap_or_default()) })
}
