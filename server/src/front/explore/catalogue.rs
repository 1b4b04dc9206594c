//! `labels`, label values and `series`: names and labels of streams.

use std::collections::BTreeSet;
use std::sync::Arc;

use logsvc_http::{Params, Request, Response};
use logsvc_logql::engine::CompiledMatcher;
use logsvc_logql::syntax;
use logsvc_peers::question::{Asked, Question, Streams};
use logsvc_proto::TenantId;
use logsvc_proto::encode::{SeriesWriter, write_label_list};
use logsvc_proto::error::ApiError;
use logsvc_runtime::{Reservation, Runtime, SideQueue};
use logsvc_shards::deletion::DeletionVersion;
use logsvc_shards::scope::{TENANT_LABEL, TenantScope};
use logsvc_shards::types::{Cancellation, TimeRange};

use crate::front::explore::Explorer;
use crate::front::query::answer::{AnswerMemory, shared_json_response};
use crate::front::query::encode::{PAIR_BYTES, escaped_bytes, labels_bytes};
use crate::front::query::errors::bad_selector;
use crate::front::query::execute::{CancelOnDrop, warnings_of};
use crate::front::query::leaves::inline_or_offloaded;
use crate::front::query::limits::check_length;
use crate::front::query::params;
use crate::front::query::queue::{Lists, QueryContext};

/// A range that no stream has entries in.
pub(super) const NO_TIME: TimeRange = TimeRange { start_ns: i64::MAX, end_ns: i64::MIN };

impl<R: Runtime> Explorer<R> {
    pub(crate) async fn label_names(&self, request: Request) -> Result<Response, ApiError> {
        let context = self.querier.context_of_parts(&request)?;
        let (selection, _memory) = self.label_selection(&context, &request).await?;
        let question = selection.question(Asked::LabelNames);
        let lists = self.querier.lookup(&context, question).await?;
        let made_up = context.tenants.are_several().then_some(TENANT_LABEL);
        self.list_response(&context, Some(lists), made_up.as_slice()).await
    }

    pub(crate) async fn label_values(
        &self,
        request: Request,
        name: &str,
    ) -> Result<Response, ApiError> {
        let context = self.querier.context_of_parts(&request)?;
        let (selection, _memory) = self.label_selection(&context, &request).await?;
        if name == TENANT_LABEL && self.core.config().multi_tenant_queries_enabled {
            let ids: Vec<&str> = context.tenants.ids().iter().map(TenantId::as_str).collect();
            return self.list_response(&context, None, &ids).await;
        }
        let question = selection.question(|streams| Asked::LabelValues(streams, name.into()));
        let lists = self.querier.lookup(&context, question).await?;
        self.list_response(&context, Some(lists), &[]).await
    }

    /// The streams that are asked about, and the memory that their matchers hold.
    async fn label_selection(
        &self,
        context: &QueryContext<'_>,
        request: &Request,
    ) -> Result<(Selection, Option<Reservation>), ApiError> {
        let params = params::of(request)?;
        let now_ns = self.core.runtime.unix_nanos();
        let range = params::time_range(&params, now_ns, params::LABELS_RANGE_NS)?;
        let (mut groups, mut memory) = (Vec::new(), None);
        if let Some(text) = params.get_non_empty("query") {
            let selector = |text: &str| syntax::parse_selector(text).map_err(bad_selector);
            let group =
                self.querier.bounded(context, self.querier.parse_matchers(text, selector)).await?;
            let (group, of_group) = group.into_parts();
            groups.push(group);
            memory = of_group;
        }
        check_length(&context.limits, range)?;
        let range = self.querier.visible(&context.limits, range).unwrap_or(NO_TIME);
        Ok((selection(context.tenants.labelled(), groups, range), memory))
    }

    pub(crate) async fn series(&self, request: Request) -> Result<Response, ApiError> {
        let context = self.querier.context_of_parts(&request)?;
        let params = params::of(&request)?;
        let now_ns = self.core.runtime.unix_nanos();
        let range = params::time_range(&params, now_ns, params::QUERY_RANGE_NS)?;
        let (groups, _memory) =
            self.querier.bounded(&context, self.matcher_groups(&params)).await?;
        check_length(&context.limits, range)?;
        let range = self.querier.visible(&context.limits, range).unwrap_or(NO_TIME);
        let selection = selection(context.tenants.labelled(), groups, range);
        let question = selection.question(Asked::Series);
        let Lists { series, memory, unreadable_parts, lacking, .. } =
            self.querier.lookup(&context, question).await?;
        self.written(&context, series.len(), move |room| {
            let _memory = memory;
            let mut out = Vec::new();
            let mut writer = SeriesWriter::new();
            writer.begin(&mut out);
            for labels in series {
                room.reserve_for(&mut out, labels_bytes(&labels))?;
                writer.series(labels.iter(), &mut out);
            }
            let warnings = warnings_of(unreadable_parts, lacking.as_ref(), false);
            let warnings: Vec<&str> = warnings.iter().map(String::as_str).collect();
            writer.end(&warnings, &mut out);
            Ok(out)
        })
        .await
    }

    /// The selectors of `match[]` and `match`, at least one, and the memory that they hold. Each
    /// must narrow the streams down, as in a query; only `{}` alone stands for all of them, and
    /// gives no group.
    async fn matcher_groups(
        &self,
        params: &Params,
    ) -> Result<(Vec<Vec<CompiledMatcher>>, Vec<Reservation>), ApiError> {
        let texts: Vec<&str> = params.get_all("match[]").chain(params.get_all("match")).collect();
        let count = texts.len();
        let (mut groups, mut memory) = (Vec::new(), Vec::new());
        for text in texts {
            let selector = move |text: &str| {
                let all = syntax::parse_matchers(text).map_err(bad_selector)?;
                if all.matchers.is_empty() {
                    return Ok(all);
                }
                syntax::parse_selector(text).map_err(bad_selector)
            };
            let (group, of_group) = self.querier.parse_matchers(text, selector).await?.into_parts();
            if !group.is_empty() {
                groups.push(group);
            }
            memory.extend(of_group);
        }
        if count == 0 || !groups.is_empty() && groups.len() < count {
            return Err(ApiError::bad_request("0 matchers in group: {}"));
        }
        Ok((groups, memory))
    }

    /// The sorted union of the lists of the shards, and of `more`.
    async fn list_response(
        &self,
        context: &QueryContext<'_>,
        looked: Option<Lists>,
        more: &[&str],
    ) -> Result<Response, ApiError> {
        let more: Vec<Box<str>> = more.iter().map(|&text| text.into()).collect();
        let (listed, memory, unreadable_parts, lacking) = match looked {
            Some(Lists { texts, memory, unreadable_parts, lacking, .. }) => {
                (texts, Some(memory), unreadable_parts, lacking)
            }
            None => (Vec::new(), None, 0, None),
        };
        self.written(context, listed.len(), move |room| {
            let _memory = memory;
            let texts: BTreeSet<Box<str>> = more.into_iter().chain(listed).collect();
            let mut out = Vec::new();
            let bytes = texts.iter().map(|text| json_bytes(text) + PAIR_BYTES);
            room.reserve_for(&mut out, bytes.sum::<usize>() + PAIR_BYTES * 8)?;
            let warnings = warnings_of(unreadable_parts, lacking.as_ref(), false);
            let warnings: Vec<&str> = warnings.iter().map(String::as_str).collect();
            write_label_list(texts.iter().map(|text| &**text), &warnings, &mut out);
            Ok(out)
        })
        .await
    }

    /// The answer that `write` writes, of so many items: on a side thread if they are many.
    pub(super) async fn written(
        &self,
        context: &QueryContext<'_>,
        count: usize,
        write: impl FnOnce(&mut AnswerMemory) -> Result<Vec<u8>, ApiError> + Send + 'static,
    ) -> Result<Response, ApiError> {
        let cancellation = CancelOnDrop(Cancellation::default());
        let mut room =
            AnswerMemory::new(&self.core.budgets().queries, 0).until(cancellation.0.clone());
        let work = move || {
            let out = write(&mut room)?;
            room.finish(out)
        };
        let queue = (count > FEW_ITEMS).then_some(SideQueue::Queries);
        let held = self
            .querier
            .bounded(context, inline_or_offloaded(&self.core.runtime, queue, work))
            .await?;
        Ok(shared_json_response(Arc::new(held)))
    }
}

/// The expected bytes of a text in JSON: hardly more than it has, as few bytes are escaped.
fn json_bytes(text: &str) -> usize {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    text.bytes().map(|byte| if is_plain(byte) { 1 } else { escaped_bytes(1) }).sum()
}

/// Lists of so many items are written in less than a millisecond.
const FEW_ITEMS: usize = 1000;

/// The streams that a request is about.
pub(super) struct Selection {
    tenants: TenantScope,
    groups: Arc<[Vec<CompiledMatcher>]>,
    range: TimeRange,
}

impl Selection {
    /// What `ask` makes of these streams.
    pub(super) fn question(&self, ask: impl FnOnce(Streams) -> Asked) -> Question {
        let Selection { tenants, groups, range } = self;
        let streams = Streams { matcher_groups: Arc::clone(groups), range: *range };
        Question {
            tenants: tenants.clone(),
            asked: ask(streams),
            deletions: DeletionVersion::NONE,
            entries_each: None,
        }
    }
}

pub(super) fn selection(
    tenants: TenantScope,
    groups: Vec<Vec<CompiledMatcher>>,
    range: TimeRange,
) -> Selection {
    Selection { tenants, groups: Arc::from(groups), range }
}
