//! From the labels of a pushed stream to its id, its shard, and whether it may be
//! pushed at all. Known streams come from a cache and are not parsed again.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use logsvc_proto::discover::{SERVICE_NAME, normalize_level, service_name, with_service_name};
use logsvc_proto::error::ApiError;
use logsvc_proto::labels::write_pairs_canonical;
use logsvc_proto::push::{LabelForm, LabelSource};
use logsvc_proto::{LabelParseError, Labels, LabelsBuilder, StreamId, TenantId};
use logsvc_runtime::Runtime;

use super::Ingest;
use super::refusals::Refusal;
use super::stream_cache::CachedStream;
use crate::config::Limits;
use crate::metrics::{Metric, Reason};

/// The label that marks the streams of a backfill, and the one that names its part.
const BACKFILL: &str = "__backfill__";
const BACKFILL_SHARD: &str = "__backfill_shard__";

impl<R: Runtime> Ingest<R> {
    /// The stream with these labels.
    ///
    /// # Errors
    /// They do not parse or have reserved names, which refuses the whole request.
    pub(super) fn resolve(
        &self,
        tenant: &TenantId,
        limits: &Arc<Limits>,
        source: &LabelSource<'_>,
    ) -> Result<Rc<CachedStream>, ApiError> {
        let mut cache = self.streams.borrow_mut();
        if let Some(known) = cache.get(tenant, limits, source) {
            return Ok(known);
        }
        self.core.counters().numbers.add(Metric::StreamCacheMisses, 1);
        let (labels, refusal) = match source.parse() {
            Ok(labels) => {
                // The server itself makes the sets that come encoded.
                if source.form != LabelForm::Encoded {
                    refuse_reserved(&labels)?;
                }
                let labels = with_service_name(labels, &limits.discover_service_name);
                let refusal = check_labels(tenant, &labels, limits);
                (labels, refusal)
            }
            // A repeated name costs this stream only.
            Err(LabelParseError::Duplicate { name, pairs }) => {
                let printed = print_with_service_name(pairs, &limits.discover_service_name);
                let refusal = format!("stream '{printed}' has duplicate label name: '{name}'");
                let refusal = Refusal::new(Reason::DuplicateLabelNames, refusal);
                (Labels::empty(), Some(refusal))
            }
            Err(error) => return Err(error.into()),
        };
        let id = StreamId::new(tenant, &labels);
        let level = limits.log_level_fields.names().find_map(|name| labels.get(name));
        let stream = Rc::new(CachedStream {
            id,
            level: level.map(|level| normalize_level(level.as_bytes()).into()),
            refusal: refusal.map(Box::new),
            labels: Arc::new(labels),
            announced: Cell::new(false),
        });
        cache.insert(tenant, limits, source, Rc::clone(&stream));
        Ok(stream)
    }

    /// The stream with these labels in a part of a backfill. It is kept apart from the stream that
    /// it fills.
    pub(super) fn resolve_backfill(
        &self,
        tenant: &TenantId,
        limits: &Arc<Limits>,
        source: &LabelSource<'_>,
        shard: &str,
    ) -> Result<Rc<CachedStream>, ApiError> {
        let labels = match source.parse() {
            Ok(labels) => labels,
            Err(LabelParseError::Duplicate { .. }) => return self.resolve(tenant, limits, source),
            Err(error) => return Err(error.into()),
        };
        refuse_reserved(&labels)?;
        let mut labels = LabelsBuilder::from_labels(&labels);
        labels.set(BACKFILL, "true").set(BACKFILL_SHARD, shard);
        let labels = labels.build().map_err(|error| ApiError::internal(error.to_string()))?;
        self.resolve(tenant, limits, &LabelSource::labels(&labels))
    }
}

/// Refuses labels that only the server may give.
pub(super) fn refuse_reserved(labels: &Labels) -> Result<(), ApiError> {
    if [BACKFILL, BACKFILL_SHARD].iter().all(|name| labels.get(name).is_none()) {
        return Ok(());
    }
    let text =
        format!("streams must not contain the reserved labels {BACKFILL} and {BACKFILL_SHARD}");
    Err(ApiError::bad_request(text).with_newline())
}

/// Why a label set breaks the limits, if it does.
fn check_labels(tenant: &TenantId, labels: &Labels, limits: &Limits) -> Option<Refusal> {
    if labels.is_empty() {
        let text = "error at least one label pair is required per stream";
        return Some(Refusal::new(Reason::MissingLabels, text));
    }
    // The service may be added by the server, so it comes on top of the allowed number.
    let counted = labels.len() - usize::from(labels.get(SERVICE_NAME).is_some());
    let max_names = limits.max_label_names_per_series;
    if max_names > 0 && counted > max_names {
        let text = format!(
            "entry for stream '{}' has {counted} label names; limit {max_names}",
            labels.canonical(),
        );
        return Some(Refusal::new(Reason::MaxLabelNamesPerSeries, text));
    }
    for (name, value) in labels.iter() {
        if limits.max_label_name_length > 0 && name.len() > limits.max_label_name_length {
            let text = format!("stream '{}' has label name too long: '{name}'", labels.canonical());
            return Some(Refusal::new(Reason::LabelNameTooLong, text));
        }
        if limits.max_label_value_length > 0 && value.len() > limits.max_label_value_length {
            let text =
                format!("stream '{}' has label value too long: '{value}'", labels.canonical());
            return Some(Refusal::new(Reason::LabelValueTooLong, text));
        }
    }
    let enforced = limits.enforced_labels.iter().map(String::as_str);
    let missing: Vec<&str> = enforced.filter(|name| labels.get(name).is_none()).collect();
    if !missing.is_empty() {
        let text = format!(
            "missing required labels '{}' for user '{}' for stream '{}' (policy: '')",
            missing.join(","),
            tenant.as_str(),
            labels.canonical(),
        );
        return Some(Refusal::new(Reason::MissingEnforcedLabels, text));
    }
    None
}

/// Prints pairs that are no set, with the service that they would get.
fn print_with_service_name(mut pairs: Vec<(String, String)>, names: &[String]) -> String {
    if !names.is_empty() && pairs.iter().all(|(name, _)| name != SERVICE_NAME) {
        let get = |wanted: &str| {
            pairs.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
        };
        let service = service_name(names, get).to_owned();
        pairs.push((SERVICE_NAME.to_owned(), service));
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
    }
    let mut printed = Vec::new();
    let pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    write_pairs_canonical(pairs, &mut printed);
    String::from_utf8_lossy(&printed).into_owned()
}
