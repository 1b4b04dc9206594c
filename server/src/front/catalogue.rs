//! `labels`, label values and `series`: what streams there are.

use std::collections::BTreeSet;
use std::sync::Arc;

use logsvc_http::{Params, Request, Response};
use logsvc_logql::engine::CompiledMatcher;
use logsvc_logql::syntax::ast::Selector;
use logsvc_logql::syntax::{self, SelectorError};
use logsvc_proto::TenantId;
use logsvc_proto::encode::{SeriesWriter, write_label_list};
use logsvc_proto::error::ApiError;
use logsvc_runtime::{Budget, Runtime};
use logsvc_shards::messages::{ShardReply, ShardRequest, StreamSelection, TimeRange};
use logsvc_shards::scope::{TENANT_LABEL, TenantScope};

use super::answer::json_response;
use super::query_limits::check_length;
use super::queue::Inquiry;
use super::scatter::shard_gone;
use super::{Front, params};

/// A range that no stream has entries in.
pub(super) const NO_TIME: TimeRange = TimeRange { start_ns: i64::MAX, end_ns: i64::MIN };

impl<R: Runtime> Front<R> {
    pub(super) async fn label_names(&self, request: Request) -> Result<Response, ApiError> {
        let inquiry = self.inquiry(&request)?;
        let selection = self.label_selection(&inquiry, &request)?;
        let ask = || ShardRequest::LabelNames(selection.clone());
        let replies = self.look_up(&inquiry, ask).await?;
        let made_up = inquiry.tenants.are_several().then_some(TENANT_LABEL);
        list_response(replies, made_up.as_slice(), &self.queries)
    }

    pub(super) async fn label_values(
        &self,
        request: Request,
        name: &str,
    ) -> Result<Response, ApiError> {
        let inquiry = self.inquiry(&request)?;
        let selection = self.label_selection(&inquiry, &request)?;
        if name == TENANT_LABEL && self.config.multi_tenant_queries_enabled {
            let ids: Vec<&str> = inquiry.tenants.ids().iter().map(TenantId::as_str).collect();
            return list_response(Vec::new(), &ids, &self.queries);
        }
        let ask = || ShardRequest::LabelValues(selection.clone(), name.into());
        let replies = self.look_up(&inquiry, ask).await?;
        list_response(replies, &[], &self.queries)
    }

    fn label_selection(
        &self,
        inquiry: &Inquiry<'_>,
        request: &Request,
    ) -> Result<StreamSelection, ApiError> {
        let params = params::of(request)?;
        let now_ns = self.runtime.unix_nanos();
        let range = params::time_range(&params, now_ns, params::LABELS_RANGE_NS)?;
        let groups = match params.get_non_empty("query") {
            None => Vec::new(),
            Some(text) => {
                let selector = syntax::parse_selector(text);
                let selector =
                    selector.map_err(|error| ApiError::bad_request(error.to_string()))?;
                vec![compiled(&selector)?]
            }
        };
        check_length(&inquiry.limits, range)?;
        let range = self.visible(&inquiry.limits, range).unwrap_or(NO_TIME);
        Ok(selection(inquiry.tenants.labelled(), groups, range))
    }

    pub(super) async fn series(&self, request: Request) -> Result<Response, ApiError> {
        let inquiry = self.inquiry(&request)?;
        let params = params::of(&request)?;
        let now_ns = self.runtime.unix_nanos();
        let range = params::time_range(&params, now_ns, params::QUERY_RANGE_NS)?;
        let groups = matcher_groups(&params)?;
        check_length(&inquiry.limits, range)?;
        let range = self.visible(&inquiry.limits, range).unwrap_or(NO_TIME);
        let selection = selection(inquiry.tenants.labelled(), groups, range);
        let ask = || ShardRequest::Series(selection.clone());
        let replies = self.look_up(&inquiry, ask).await?;
        let mut out = Vec::new();
        let mut writer = SeriesWriter::new();
        writer.begin(&mut out);
        for reply in replies {
            // A stream lives on one shard only, so nothing repeats.
            let ShardReply::Series(series) = reply else { return Err(shard_gone()) };
            for labels in series {
                writer.series(labels.iter(), &mut out);
            }
        }
        writer.end(&mut out);
        json_response(out, &self.queries)
    }
}

pub(super) fn selection(
    tenants: TenantScope,
    groups: Vec<Vec<CompiledMatcher>>,
    range: TimeRange,
) -> StreamSelection {
    StreamSelection { tenants, matcher_groups: Arc::from(groups), range }
}

/// The selectors of `match[]` and `match`, at least one. Each must narrow the streams down, as
/// in a query; only `{}` alone stands for all of them, and gives no group.
fn matcher_groups(params: &Params) -> Result<Vec<Vec<CompiledMatcher>>, ApiError> {
    let texts: Vec<&str> = params.get_all("match[]").chain(params.get_all("match")).collect();
    let mut groups = Vec::new();
    for text in &texts {
        let bad_request = |error: SelectorError| ApiError::bad_request(error.to_string());
        if syntax::parse_matchers(text).map_err(bad_request)?.matchers.is_empty() {
            continue;
        }
        let selector = syntax::parse_selector(text).map_err(bad_request)?;
        groups.push(compiled(&selector)?);
    }
    if texts.is_empty() || !groups.is_empty() && groups.len() < texts.len() {
        return Err(ApiError::bad_request("0 matchers in group: {}"));
    }
    Ok(groups)
}

pub(super) fn compiled(selector: &Selector) -> Result<Vec<CompiledMatcher>, ApiError> {
    let matchers: Result<Vec<_>, _> = selector.matchers.iter().map(CompiledMatcher::new).collect();
    matchers.map_err(ApiError::bad_request)
}

/// The sorted union of what the shards list, and of `more`.
fn list_response(
    replies: Vec<ShardReply>,
    more: &[&str],
    budget: &Budget,
) -> Result<Response, ApiError> {
    let mut texts: BTreeSet<Box<str>> = more.iter().map(|&text| text.into()).collect();
    for reply in replies {
        let ShardReply::Texts(part) = reply else { return Err(shard_gone()) };
        texts.extend(part);
    }
    let mut out = Vec::new();
    write_label_list(texts.iter().map(|text| &**text), &mut out);
    json_response(out, budget)
}
