//! The tenant of a request.

use ahash::RandomState;
use http::header::HeaderValue;
use logsvc_http::RequestHead;
use logsvc_proto::TenantId;
use logsvc_proto::error::ApiError;
use logsvc_proto::tenant::parse_single_tenant_header;
use logsvc_runtime::Runtime;

use super::Core;

const TENANT_HEADER: &str = "x-scope-orgid";

impl<R: Runtime> Core<R> {
    /// The one tenant that a request is for.
    ///
    /// # Errors
    /// There is none, there are several, or an id is bad.
    pub(crate) fn tenant(&self, head: &RequestHead) -> Result<TenantId, ApiError> {
        if !self.config().auth_enabled {
            return Ok(TenantId::no_auth());
        }
        Ok(parse_single_tenant_header(tenant_header(head)?)?)
    }

    /// [`Core::tenant`] of a request whose client may be unable to set headers, as pages are that
    /// open a WebSocket: without the header, the tenant is the one that the request names
    /// otherwise.
    ///
    /// # Errors
    /// As of [`Core::tenant`].
    pub(crate) fn tenant_or(
        &self,
        head: &RequestHead,
        named: Option<&str>,
    ) -> Result<TenantId, ApiError> {
        match named {
            Some(id) if self.config().auth_enabled && tenant_header(head)?.is_none() => {
                Ok(parse_single_tenant_header(Some(id.as_bytes()))?)
            }
            _ => self.tenant(head),
        }
    }

    /// The account of the memory of a request's body: its tenant as the header has it, if there are
    /// tenants.
    pub(crate) fn account_of(&self, head: &RequestHead) -> Option<u64> {
        let header = header_of(head).filter(|_| self.config().auth_enabled)?;
        Some(RandomState::with_seeds(17, 18, 19, 20).hash_one(header))
    }
}

/// The header that names tenants. Several of them must be equal: if the proxy in front read another
/// one than this server, clients could choose their tenant.
pub(crate) fn tenant_header(head: &RequestHead) -> Result<Option<&[u8]>, ApiError> {
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
