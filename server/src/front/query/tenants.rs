//! The tenants of a request, and what they may do together.

use std::fmt;
use std::sync::Arc;

use ahash::RandomState;
use http::header::HeaderValue;
use logsvc_http::RequestHead;
use logsvc_logql::syntax::{self, ast::Selector};
use logsvc_proto::TenantId;
use logsvc_proto::error::ApiError;
use logsvc_proto::tenant::{parse_single_tenant_header, parse_tenant_header};
use logsvc_runtime::Runtime;
use logsvc_shards::scope::{TENANT_LABEL, TenantScope};

use crate::config::Limits;
use crate::front::Front;

const TENANT_HEADER: &str = "x-scope-orgid";

/// Tenants whose data a request asks for: at least one, sorted, none twice. Cheap to
/// clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tenants(Arc<[TenantId]>);

impl From<TenantId> for Tenants {
    fn from(tenant: TenantId) -> Tenants {
        Tenants(Arc::from([tenant]))
    }
}

impl Tenants {
    /// The ids.
    pub(crate) fn ids(&self) -> &[TenantId] {
        &self.0
    }

    /// Whether there is more than one.
    pub(crate) fn are_several(&self) -> bool {
        self.0.len() > 1
    }

    /// Refuses a selector that says nothing but which of several tenants it means.
    ///
    /// # Errors
    /// It does.
    pub(crate) fn check_selector(&self, selector: &Selector) -> Result<(), ApiError> {
        let of_streams = selector.matchers.iter().filter(|m| m.name != TENANT_LABEL);
        let matchers: Vec<_> = of_streams.cloned().collect();
        if !self.are_several() || matchers.len() == selector.matchers.len() {
            return Ok(());
        }
        let text = Selector { matchers }.to_string();
        syntax::parse_selector(&text).map(|_| ()).map_err(|error| {
            ApiError::bad_request(format!("log selector is invalid after matcher update: {error}"))
        })
    }

    /// Their streams, those of several told apart by a label.
    pub(crate) fn labelled(&self) -> TenantScope {
        TenantScope::labelled(Arc::clone(&self.0))
    }

    /// Their streams as if they were those of one tenant.
    pub(crate) fn merged(&self) -> TenantScope {
        TenantScope::merged(Arc::clone(&self.0))
    }
}

/// As the header has them.
impl fmt::Display for Tenants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, tenant) in self.0.iter().enumerate() {
            let bar = if place > 0 { "|" } else { "" };
            write!(f, "{bar}{tenant}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Tenants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<R: Runtime> Front<R> {
    /// The one tenant that a request is for.
    ///
    /// # Errors
    /// There is none, there are several, or an id is bad.
    pub(crate) fn tenant(&self, head: &RequestHead) -> Result<TenantId, ApiError> {
        if !self.config.auth_enabled {
            return Ok(TenantId::no_auth());
        }
        Ok(parse_single_tenant_header(one_header_of(head)?)?)
    }

    /// The tenants that a request may be for: several only where that is switched on.
    ///
    /// # Errors
    /// As [`Front::tenant`].
    pub(super) fn tenants(&self, head: &RequestHead) -> Result<Tenants, ApiError> {
        if !self.config.auth_enabled || !self.config.multi_tenant_queries_enabled {
            return Ok(self.tenant(head)?.into());
        }
        Ok(Tenants(parse_tenant_header(one_header_of(head)?)?.into()))
    }

    /// What the tenants may do together: the strictest of each limit.
    pub(super) fn limits_of(&self, tenants: &Tenants) -> Arc<Limits> {
        let (first, others) = match tenants.ids() {
            [first, others @ ..] => (first, others),
            [] => unreachable!("a request has a tenant"),
        };
        let mut limits = self.limits(first);
        for tenant in others {
            Arc::make_mut(&mut limits).tighten(&self.limits(tenant));
        }
        limits
    }
}

impl<R: Runtime> Front<R> {
    /// Whom the memory of a request's body is counted for: its tenant as the header has it,
    /// if there are tenants.
    pub(crate) fn account_of(&self, head: &RequestHead) -> Option<u64> {
        let header = header_of(head).filter(|_| self.config.auth_enabled)?;
        Some(RandomState::with_seeds(17, 18, 19, 20).hash_one(header))
    }
}

/// The header that names tenants. Several of them must say the same: who reads another one than
/// the proxy in front would let its clients choose.
fn one_header_of(head: &RequestHead) -> Result<Option<&[u8]>, ApiError> {
    let first = header_of(head);
    if head.headers.get_all(TENANT_HEADER).iter().any(|value| Some(value.as_bytes()) != first) {
        let text = "the header X-Scope-OrgID is there several times, with different values";
        return Err(ApiError::bad_request(text).with_newline());
    }
    Ok(first)
}

fn header_of(head: &RequestHead) -> Option<&[u8]> {
    head.headers.get(TENANT_HEADER).map(HeaderValue::as_bytes)
}
