//! The tenants of a request, and their common limits.

use std::fmt;
use std::sync::Arc;

use logsvc_http::RequestHead;
use logsvc_logql::syntax::{self, ast::Selector};
use logsvc_proto::TenantId;
use logsvc_proto::error::ApiError;
use logsvc_proto::tenant::parse_tenant_header;
use logsvc_runtime::Runtime;
use logsvc_shards::scope::{TENANT_LABEL, TenantScope};

use super::Querier;
use crate::config::Limits;
use crate::front::core::tenant_header;

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
    /// Those of a scope.
    pub(crate) fn of_scope(scope: &TenantScope) -> Tenants {
        let mut ids = scope.tenants().to_vec();
        ids.sort_unstable();
        ids.dedup();
        Tenants(ids.into())
    }

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

    /// Their streams. A label tells the streams of several tenants apart.
    pub(crate) fn labelled(&self) -> TenantScope {
        TenantScope::labelled(Arc::clone(&self.0))
    }

    /// Their streams as if one tenant had them all.
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

impl<R: Runtime> Querier<R> {
    /// The tenants that a request may be for: several only where that is switched on.
    ///
    /// # Errors
    /// As [`Core::tenant`](crate::front::core::Core::tenant).
    pub(super) fn tenants(&self, head: &RequestHead) -> Result<Tenants, ApiError> {
        if !self.core.config().auth_enabled || !self.core.config().multi_tenant_queries_enabled {
            return Ok(self.core.tenant(head)?.into());
        }
        Ok(Tenants(parse_tenant_header(tenant_header(head)?)?.into()))
    }

    /// The common limits of the tenants: the strictest of each.
    pub(crate) fn limits_of(&self, tenants: &Tenants) -> Arc<Limits> {
        let (first, others) = match tenants.ids() {
            [first, others @ ..] => (first, others),
            [] => unreachable!("a request has a tenant"),
        };
        let mut limits = self.core.limits(first);
        for tenant in others {
            Arc::make_mut(&mut limits).tighten(&self.core.limits(tenant));
        }
        limits
    }
}
