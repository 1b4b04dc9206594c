//! `index/volume` and `index/volume_range`: how many bytes streams hold, by their
//! labels.
//!
//! A volume is a metric query like any other ([`Plan::volume`]); this module names and orders its
//! series.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::StatusCode;
use logsvc_http::{Params, Request, Response};
use logsvc_logql::engine::{
    Estimate, MatrixSeries, Plan, QueryResult, ResultPoint, SizeOf, StreamLabels, VectorSample,
};
use logsvc_logql::syntax::{
    self,
    ast::{MatchOp, Matcher, Selector},
};
use logsvc_proto::Labels;
use logsvc_proto::error::ApiError;
use logsvc_runtime::Runtime;
use logsvc_shards::scan::PartAllowance;
use logsvc_shards::scope::{TENANT_LABEL, TenantScope};
use logsvc_shards::types::TimeRange;

use crate::front::explore::Explorer;
use crate::front::query::answer::shared_json_response;
use crate::front::query::endpoints::{AnswerForm, Evaluated};
use crate::front::query::errors::bad_selector;
use crate::front::query::execute::Executed;
use crate::front::query::leaves::{inline_or_offloaded, merge_queue};
use crate::front::query::limits::check_length;
use crate::front::query::params;
use crate::front::query::parquet;
use crate::front::query::tenants::Tenants;

const MS_NS: i64 = 1_000_000;

impl<R: Runtime> Explorer<R> {
    pub(crate) async fn volume(&self, request: Request) -> Result<Response, ApiError> {
        self.answer_volume(request, false).await
    }

    pub(crate) async fn volume_range(&self, request: Request) -> Result<Response, ApiError> {
        self.answer_volume(request, true).await
    }

    async fn answer_volume(&self, request: Request, in_steps: bool) -> Result<Response, ApiError> {
        let context = self.querier.context_of_parts(&request)?;
        let limits = &context.limits;
        if !limits.volume_enabled {
            return Err(ApiError::new(StatusCode::NOT_FOUND, "not found"));
        }
        let params = params::of(&request)?;
        let now_ns = self.core.runtime.unix_nanos();
        let range = params::time_range(&params, now_ns, params::QUERY_RANGE_NS)?;
        let limit = params::volume_limit(&params)?;
        let step_ns = in_steps.then(|| params::step(&params, range)).transpose()?;
        let text = params.get("query").unwrap_or_default();
        let selector = self.querier.parse(text, matchers_of).await?;
        let aggregation =
            selector.map(|selector| Aggregation::of(&params, selector)).transposed()?;
        check_length(limits, range)?;
        context.tenants.check_selector(&aggregation.selector)?;
        let bounds_ns = (range.start_ns, range.end_ns);
        let plan = async |bounds_ns| {
            let (by, selector) = (aggregation.stream_labels(), aggregation.selector.clone());
            let estimate = Estimate::of_matchers(&selector.matchers);
            let plan = move |_: &PartAllowance| {
                Plan::volume(&selector, by, bounds_ns, step_ns, SizeOf::Entry)
            };
            self.querier.planned(estimate, plan).await
        };
        let executed = match self.querier.visible(limits, range) {
            Some(seen) => {
                let plan = plan((seen.start_ns, seen.end_ns)).await?;
                let tenants = aggregation.scope(&context.tenants);
                self.querier.run_over_stored(&context, &tenants, &plan).await?
            }
            None => Executed::nothing(&plan(bounds_ns).await?)?,
        };
        let warnings = executed.warnings();
        let mut stats = executed.stats();
        let by_label_name = aggregation.by_label_name;
        let volume = Volume { range, step_ns, by_label_name };
        let queue = merge_queue(executed.result.held_bytes());
        let Executed { result, memory, .. } = executed;
        let series = move || volume.series(result);
        let mut series = inline_or_offloaded(&self.core.runtime, queue, series).await?;
        let max_series = limits.volume_max_series;
        if max_series > 0 && series.len() > max_series {
            return Err(ApiError::bad_request(format!(
                "the query hit the max number of series limit (limit: {max_series} series)"
            )));
        }
        series.truncate(limit as usize);
        stats.entries_returned = series.len() as u64;
        let result = in_one_type(series, in_steps);
        if let Some(media_type) = parquet::accepted(&request.head) {
            return self.querier.parquet_response(media_type, result, &warnings).await;
        }
        let evaluated = Evaluated { result, last: None, stats, warnings, memory };
        let form = AnswerForm::V1 { flags: Vec::new() };
        let held = self.querier.bounded(&context, self.querier.in_json(evaluated, form)).await?;
        Ok(shared_json_response(Arc::new(held)))
    }
}

/// The grouping of bytes.
struct Aggregation {
    /// The streams.
    selector: Selector,
    /// The labels that name series; `None` stands for all labels.
    names: Option<Vec<String>>,
    /// Whether there is a series for each label name, not for each set of values.
    by_label_name: bool,
}

impl Aggregation {
    fn of(params: &Params, mut selector: Selector) -> Result<Aggregation, ApiError> {
        let by_label_name = match params.get_non_empty("aggregateBy") {
            None | Some("series") => false,
            Some("labels") => true,
            Some(_) => return Err(ApiError::bad_request("invalid aggregation option")),
        };
        let targets = params.get_non_empty("targetLabels");
        let targets: Option<Vec<String>> = targets.map(|list| {
            list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
        });
        let names = match targets {
            Some(targets) => {
                // Streams that lack one of them are left out.
                for name in &targets {
                    let (op, value) = (MatchOp::Regex, ".+".into());
                    selector.matchers.push(Matcher { name: name.clone(), op, value });
                }
                Some(targets)
            }
            None if by_label_name || selector.matchers.is_empty() => None,
            None => Some(selector.matchers.iter().map(|matcher| matcher.name.clone()).collect()),
        };
        Ok(Aggregation { selector, names, by_label_name })
    }

    /// The streams of the tenants: told apart only where their label is asked for.
    fn scope(&self, tenants: &Tenants) -> TenantScope {
        let names = self.names.iter().flatten();
        match names.into_iter().any(|name| name == TENANT_LABEL) {
            true => tenants.labelled(),
            false => tenants.merged(),
        }
    }

    /// The labels that tell streams apart. Streams that have labels of the same names add to the
    /// same series of an answer by names, so their values are not asked for.
    fn stream_labels(&self) -> StreamLabels {
        let mut names = self.names.clone();
        if let Some(names) = &mut names {
            names.sort_unstable();
            names.dedup();
        }
        match (self.by_label_name, names) {
            (true, names) => StreamLabels::Names(names),
            (false, Some(names)) => StreamLabels::Listed(names),
            (false, None) => StreamLabels::All,
        }
    }
}

/// The matchers of a selector, which may be none.
pub(super) fn matchers_of(text: &str) -> Result<Selector, ApiError> {
    let selector = syntax::parse_matchers(text).map_err(bad_selector)?;
    match selector.matchers.is_empty() {
        true => Ok(selector),
        false => syntax::parse_selector(text).map_err(bad_selector),
    }
}

/// A question about volumes.
struct Volume {
    range: TimeRange,
    step_ns: Option<i64>,
    /// See [`Aggregation`].
    by_label_name: bool,
}

impl Volume {
    /// The series of the answer, largest first.
    fn series(&self, result: QueryResult) -> Result<Vec<MatrixSeries>, ApiError> {
        let QueryResult::Matrix(found) = result else {
            return Err(ApiError::internal("a volume is no matrix"));
        };
        let end_ms = self.range.end_ns.div_euclid(MS_NS);
        // The last bucket is stamped with the end of the range, the others with their
        // own last millisecond.
        let last_ms = match self.step_ns {
            Some(step_ns) => {
                let last = i128::from((self.range.end_ns - 1).div_euclid(step_ns));
                let last_end_ns = (last + 1) * i128::from(step_ns) - 1;
                i64::try_from(last_end_ns.div_euclid(i128::from(MS_NS))).unwrap_or(i64::MAX)
            }
            None => i64::MIN,
        };
        let stamped = |timestamp_ms| if timestamp_ms >= last_ms { end_ms } else { timestamp_ms };
        let found = found.into_iter().map(|mut series| {
            for point in &mut series.points {
                point.timestamp_ms = stamped(point.timestamp_ms);
            }
            series
        });
        let mut series: Vec<MatrixSeries> =
            if self.by_label_name { by_label_name(found) } else { found.collect() };
        let first = |series: &MatrixSeries| series.points.first().map_or(0.0, |point| point.value);
        series.sort_by(|a, b| {
            first(b).total_cmp(&first(a)).then_with(|| a.labels.cmp_pairs(&b.labels))
        });
        Ok(series)
    }
}

/// Adds up the series that have a label, for each label name.
fn by_label_name(found: impl Iterator<Item = MatrixSeries>) -> Vec<MatrixSeries> {
    let mut sums: BTreeMap<String, BTreeMap<i64, f64>> = BTreeMap::new();
    for series in found {
        for (name, _) in series.labels.iter() {
            if !sums.contains_key(name) {
                sums.insert(name.to_owned(), BTreeMap::new());
            }
            if let Some(points) = sums.get_mut(name) {
                for point in &series.points {
                    *points.entry(point.timestamp_ms).or_default() += point.value;
                }
            }
        }
    }
    let series = sums.into_iter().map(|(name, points)| {
        let labels = Labels::from_result_pairs([(name.as_str(), "")]);
        let labels = labels.expect("one label is not twice in its set");
        let points =
            points.into_iter().map(|(timestamp_ms, value)| ResultPoint { timestamp_ms, value });
        MatrixSeries { labels, points: points.collect() }
    });
    series.collect()
}

/// A vector if no series has more than one sample, else a matrix.
fn in_one_type(series: Vec<MatrixSeries>, in_steps: bool) -> QueryResult {
    if in_steps && series.iter().any(|series| series.points.len() > 1) {
        return QueryResult::Matrix(series);
    }
    let samples = series.into_iter().flat_map(|series| {
        let MatrixSeries { labels, points } = series;
        points.into_iter().map(move |point| VectorSample { labels: labels.clone(), point })
    });
    QueryResult::Vector(samples.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aggregation(query: &str, more: &[(&str, &str)]) -> Result<Aggregation, String> {
        let mut text = format!("query={}", logsvc_http::escape(query));
        for (name, value) in more {
            text += &format!("&{name}={value}");
        }
        let params = Params::parse(text.as_bytes()).expect("parameters");
        let aggregation = matchers_of(query).and_then(|found| Aggregation::of(&params, found));
        aggregation.map_err(|error| error.message)
    }

    #[test]
    fn series_are_named_by_targets_or_by_the_selector() {
        let names = |query: &str, more: &[(&str, &str)]| {
            aggregation(query, more).expect("an aggregation").stream_labels()
        };
        let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let listed = |names: &[&str]| StreamLabels::Listed(list(names));
        assert_eq!(names(r#"{b="1",a=~".+",b!="2"}"#, &[]), listed(&["a", "b"]));
        assert_eq!(names("{}", &[]), StreamLabels::All);
        assert_eq!(names(r#"{a="1"}"#, &[("targetLabels", "z,y,z")]), listed(&["y", "z"]));
        let by_name = [("aggregateBy", "labels")];
        assert_eq!(names(r#"{a="1"}"#, &by_name), StreamLabels::Names(None));
        let both = [("aggregateBy", "labels"), ("targetLabels", "y")];
        let both = aggregation(r#"{a="1"}"#, &both).expect("an aggregation");
        assert!(both.by_label_name);
        assert_eq!(both.stream_labels(), StreamLabels::Names(Some(list(&["y"]))));
        // Streams without the target are not asked for.
        assert_eq!(both.selector.matchers.last().map(|m| m.name.as_str()), Some("y"));
        for (query, more, text) in [
            ("{}", vec![("aggregateBy", "pods")], "invalid aggregation option"),
            (r#"{a!="1"}"#, vec![], "queries require at least one regexp or equality matcher"),
            (r#"{a="1"} |= "x""#, vec![], "only label matchers are supported"),
        ] {
            let error = aggregation(query, &more).err().expect("a refusal");
            assert!(error.contains(text), "{query}: {error}");
        }
    }

    #[test]
    fn label_names_add_up_the_streams_that_have_them() {
        let series = |pairs: &[(&str, &str)], points: &[(i64, f64)]| {
            let labels = Labels::from_pairs(pairs.iter().copied()).expect("valid names");
            let points =
                points.iter().map(|&(timestamp_ms, value)| ResultPoint { timestamp_ms, value });
            MatrixSeries { labels, points: points.collect() }
        };
        let found = by_label_name(
            [
                series(&[("a", "1"), ("b", "1")], &[(1000, 5.0), (2000, 1.0)]),
                series(&[("a", "2")], &[(2000, 7.0)]),
            ]
            .into_iter(),
        );
        let points = |series: &MatrixSeries| {
            series.points.iter().map(|p| (p.timestamp_ms, p.value)).collect::<Vec<_>>()
        };
        let found: Vec<_> = found.iter().map(|s| (s.labels.canonical(), points(s))).collect();
        let expected = [
            (r#"{a=""}"#.to_owned(), vec![(1000, 5.0), (2000, 8.0)]),
            (r#"{b=""}"#.to_owned(), vec![(1000, 5.0), (2000, 1.0)]),
        ];
        assert_eq!(found, expected);
    }
}
