//! `detected_labels`: the labels of streams that are worth grouping by.

use std::collections::BTreeMap;
use std::sync::Arc;

use logsvc_http::{Request, Response};
use logsvc_peers::question::Asked;
use logsvc_proto::Labels;
use logsvc_proto::encode::write_detected_labels;
use logsvc_proto::error::ApiError;
use logsvc_runtime::Runtime;

use super::super::catalogue::{NO_TIME, selection};
use super::super::volume::matchers_of;
use super::sketch::Sketch;
use crate::front::explore::Explorer;
use crate::front::query::encode::escaped_bytes;
use crate::front::query::limits::check_length;
use crate::front::query::params;
use crate::front::query::queue::Lists;

/// Labels that are kept whatever their values are.
const ALWAYS_KEPT: [&str; 4] = ["cluster", "namespace", "instance", "pod"];

impl<R: Runtime> Explorer<R> {
    pub(crate) async fn detected_labels(&self, request: Request) -> Result<Response, ApiError> {
        let context = self.querier.query_context(&request)?;
        let params = params::of(&request)?;
        let now_ns = self.core.runtime.unix_nanos();
        let range = params::time_range(&params, now_ns, params::QUERY_RANGE_NS)?;
        let (mut groups, mut _memory) = (Vec::new(), None);
        if let Some(text) = params.get_non_empty("query") {
            // `{}` stands for every stream here.
            let matchers = self.querier.parse_matchers(text, matchers_of);
            let (group, memory) = self.querier.bounded(&context, matchers).await?.into_parts();
            _memory = memory;
            if !group.is_empty() {
                groups.push(group);
            }
        }
        check_length(&context.limits, range)?;
        let range = self.querier.visible(&context.limits, range).unwrap_or(NO_TIME);
        let selection = selection(context.tenants.merged(), groups, range);
        let question = selection.question(Asked::Series);
        let Lists { series, memory, .. } = self.querier.lookup(&context, question).await?;
        self.written(&context, series.len(), move |room| {
            let _memory = memory;
            let mut found = Found::default();
            found.add(&series);
            let mut out = Vec::new();
            let names = found.0.keys().map(|name| escaped_bytes(name.len()) + NAME_BYTES);
            room.reserve_for(&mut out, NAME_BYTES + names.sum::<usize>())?;
            write_detected_labels(found.detected(), &mut out);
            Ok(out)
        })
        .await
    }
}

/// Bytes of a label in the answer besides its name, and of the answer besides labels.
const NAME_BYTES: usize = 128;

/// Labels, and statistics of their values.
#[derive(Default)]
struct Found(BTreeMap<String, Values>);

#[derive(Default)]
struct Values {
    distinct: Sketch,
    /// Whether there is a value that is no number and no UUID.
    has_text: bool,
    /// Whether all values are `0` or `1`.
    has_only_flags: bool,
}

impl Found {
    fn add(&mut self, series: &[Arc<Labels>]) {
        for (name, value) in series.iter().flat_map(|labels| labels.iter()) {
            if !self.0.contains_key(name) {
                let values = Values { has_only_flags: true, ..Values::default() };
                self.0.insert(name.to_owned(), values);
            }
            if let Some(values) = self.0.get_mut(name) {
                values.distinct.insert(value.as_bytes());
                values.has_text |= !is_id(value);
                values.has_only_flags &= matches!(value, "0" | "1");
            }
        }
    }

    /// The labels to show, each with its number of values.
    fn detected(&self) -> impl Iterator<Item = (&str, u64)> {
        let tells = |(name, values): &(&String, &Values)| {
            ALWAYS_KEPT.contains(&name.as_str()) || values.has_text || values.has_only_flags
        };
        let shown = self.0.iter().filter(tells);
        shown.map(|(name, values)| (name.as_str(), values.distinct.count()))
    }
}

/// A number or a UUID: a value that names one thing among very many.
fn is_id(value: &str) -> bool {
    value.parse::<f64>().is_ok() || is_uuid(value)
}

/// 32 hexadecimal digits in the groups of RFC 9562, or without any hyphens.
fn is_uuid(value: &str) -> bool {
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match value.len() {
        32 => are_digits(value),
        36 => {
            let lengths = [8, 4, 4, 4, 12];
            let mut groups = value.split('-');
            let is_group = |len: usize| {
                groups.next().is_some_and(|group| group.len() == len && are_digits(group))
            };
            lengths.into_iter().all(is_group)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(sets: &[&[(&str, &str)]]) -> Vec<(String, u64)> {
        let labels = sets
            .iter()
            .map(|pairs| Arc::new(Labels::from_pairs(pairs.iter().copied()).expect("valid names")));
        let mut found = Found::default();
        found.add(&labels.collect::<Vec<_>>());
        found.detected().map(|(name, count)| (name.to_owned(), count)).collect()
    }

    #[test]
    fn labels_that_only_number_things_are_left_out() {
        let uuid = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
        let found = detected(&[
            &[("app", "web"), ("id", uuid), ("shard", "17"), ("flag", "0"), ("pod", "3")],
            &[("app", "db"), ("id", "12"), ("shard", "18"), ("flag", "1"), ("pod", "4")],
            &[("app", "db"), ("mixed", "12"), ("hex", "f81d4fae7dec11d0a76500a0c91e6bf6")],
            &[("mixed", "twelve"), ("flag", "1")],
        ]);
        let expected = [("app", 2), ("flag", 2), ("mixed", 2), ("pod", 2)];
        let expected = expected.map(|(name, count)| (name.to_owned(), count));
        assert_eq!(found, expected);
        assert_eq!(detected(&[]), []);
    }

    #[test]
    fn uuids_have_their_hyphens_in_place() {
        assert!(is_uuid("F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6"));
        for text in [
            "f81d4fae-7dec-11d0-a765-00a0c91e6bf",
            "f81d4fae7-dec-11d0-a765-00a0c91e6bf6",
            "g81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "",
            "web",
        ] {
            assert!(!is_uuid(text), "{text}");
        }
    }
}
