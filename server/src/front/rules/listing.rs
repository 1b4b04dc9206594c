//! The rules that are evaluated, and their alerts, as Prometheus lists them.
//!
//! Guarantees: a listing shows each group at the end of its last evaluation. Long listings are
//! written by side threads, and their memory counts until the client has taken them. Failures are
//! JSON texts whose media type is that of plain text, as clients know them.

mod encode;
mod filter;

use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use logsvc_http::{Request, Response};
use logsvc_proto::TenantId;
use logsvc_proto::encode::write_json_text;
use logsvc_proto::error::ApiError;
use logsvc_proto::tenant::{TenantError, parse_single_tenant_header};
use logsvc_rules::messages::{GroupStatus, RulesReply, RulesRequest};
use logsvc_runtime::Runtime;
use std::sync::Arc;

use super::Ruling;
use crate::front::core::errors::node_stopping;
use crate::front::core::tenant_header;
use crate::front::query::answer::{AnswerBody, AnswerMemory, shared_json_response};
use crate::front::query::leaves::{inline_or_offloaded, merge_queue};
use crate::front::query::params;
use filter::RuleFilter;

impl<R: Runtime> Ruling<R> {
    /// `/prometheus/api/v1/rules`.
    pub(crate) async fn list_rules(&self, request: Request) -> Result<Response, ApiError> {
        let tenant = self.listed_tenant(&request)?;
        let filter = RuleFilter::of(&params::of(&request)?).map_err(|text| bad_data(&text))?;
        let groups = self.status(tenant).await?;
        self.listing(groups, move |groups, room| {
            let page = filter.page(groups).map_err(|text| bad_data(&text))?;
            encode::rules(&page, room)
        })
        .await
    }

    /// `/prometheus/api/v1/alerts`.
    pub(crate) async fn list_alerts(&self, request: Request) -> Result<Response, ApiError> {
        let tenant = self.listed_tenant(&request)?;
        let groups = self.status(tenant).await?;
        self.listing(groups, encode::alerts).await
    }

    fn listed_tenant(&self, request: &Request) -> Result<TenantId, ApiError> {
        if !self.core.config().auth_enabled {
            return Ok(TenantId::no_auth());
        }
        match parse_single_tenant_header(tenant_header(&request.head)?) {
            Err(TenantError::Multiple) => Err(bad_data("too many org ids found")),
            parsed => Ok(parsed?),
        }
    }

    async fn status(&self, tenant: TenantId) -> Result<Vec<Arc<GroupStatus>>, ApiError> {
        match self.core.ask_ruler(RulesRequest::Status { tenant }).await? {
            RulesReply::Status(groups) => Ok(groups),
            RulesReply::Refused(refusal) => Err(ApiError::unavailable(refusal.to_string())),
            _ => Err(node_stopping()),
        }
    }

    async fn listing(
        &self,
        groups: Vec<Arc<GroupStatus>>,
        encode: impl FnOnce(&[Arc<GroupStatus>], AnswerMemory) -> Result<AnswerBody, ApiError>
        + Send
        + 'static,
    ) -> Result<Response, ApiError> {
        let room = AnswerMemory::new(&self.core.budgets().queries, 0);
        let work = groups.iter().map(|group| encode::work_bytes(group)).sum();
        let encode = move || encode(&groups, room);
        let body = inline_or_offloaded(&self.core.runtime, merge_queue(work), encode).await?;
        let mut response = shared_json_response(Arc::new(body));
        response.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(response)
    }
}

/// The refusal of a parameter.
fn bad_data(text: &str) -> ApiError {
    let mut body = br#"{"status":"error","data":null,"errorType":"bad_data","error":"#.to_vec();
    write_json_text(text, &mut body);
    body.push(b'}');
    ApiError::new(StatusCode::BAD_REQUEST, String::from_utf8_lossy(&body))
}
