//! The generation of caches outside of the node, by tenant.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ahash::RandomState;
use http::StatusCode;
use logsvc_http::{Request, Response};
use logsvc_proto::TenantId;
use logsvc_proto::error::ApiError;
use logsvc_runtime::Runtime;
use logsvc_shards::deletion::{DeleteRequest, DeleteState};

use super::Deleter;

/// Tenants that share a place see changes of each other.
const PLACES: usize = 1 << 10;

/// When the requests for deletion of tenants have last changed in this start. Clones are the same.
#[derive(Clone)]
pub(crate) struct Generations(Arc<[AtomicI64]>);

impl Generations {
    /// Nothing has changed.
    pub(crate) fn new() -> Generations {
        Generations((0..PLACES).map(|_| AtomicI64::new(0)).collect())
    }

    fn place(&self, tenant: &TenantId) -> &AtomicI64 {
        let hash = RandomState::with_seeds(25, 26, 27, 28).hash_one(tenant.as_str());
        &self.0[hash as usize % PLACES]
    }

    /// Notes a change at this time, in ns since the Unix epoch. The number grows also if the clock
    /// does not.
    pub(super) fn changed(&self, tenant: &TenantId, now_ns: i64) {
        let greater = |known: i64| Some(now_ns.max(known.saturating_add(1)));
        // The update always gives a number.
        let _ = self.place(tenant).fetch_update(Ordering::AcqRel, Ordering::Acquire, greater);
    }

    fn last_ns(&self, tenant: &TenantId) -> i64 {
        self.place(tenant).load(Ordering::Acquire)
    }
}

impl<R: Runtime> Deleter<R> {
    /// `cache/generation_numbers`: kept answers are worth nothing once the number is another one.
    /// A cache may be told too early, not too late.
    pub(crate) async fn cache_generation(&self, request: Request) -> Result<Response, ApiError> {
        let tenant = self.allowed_tenant(&request).map_err(ApiError::with_newline)?;
        let listed = self.listed(tenant.clone(), None).await;
        let (requests, _memory) = listed.map_err(ApiError::with_newline)?;
        // Cancellations of earlier starts have left no trace.
        let recorded_ns = requests.iter().map(last_change_ns).max();
        let recorded_ns = recorded_ns.map_or(0, |ns| ns.max(self.started_ns));
        let of_all_ns = self.queries.cache_generation.load(Ordering::Acquire);
        let text = match recorded_ns.max(of_all_ns).max(self.generations.last_ns(&tenant)) {
            0 => "\"\"\n".to_owned(),
            number => format!("\"{number}\"\n"),
        };
        Ok(Response::new(StatusCode::OK)
            .with_content_type("text/plain; charset=utf-8")
            .with_body(text.into_bytes()))
    }
}

/// When a request has last changed what queries see, in ns since the Unix epoch.
fn last_change_ns(request: &DeleteRequest) -> i64 {
    let at_ms = match request.state {
        DeleteState::Pending { .. } => request.created_ms,
        DeleteState::Processed { at_ms } => at_ms.max(request.created_ms),
    };
    at_ms.saturating_mul(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_gives_another_number() {
        let tenant = |name| TenantId::new(name).expect("a tenant");
        let generations = Generations::new();
        generations.changed(&tenant("a"), 7);
        assert_eq!(generations.last_ns(&tenant("a")), 7);
        assert_eq!(generations.last_ns(&tenant("b")), 0);
        generations.clone().changed(&tenant("a"), 5);
        assert_eq!(generations.last_ns(&tenant("a")), 8);
    }
}
