//! Parts of label sets, by which series are grouped and paired.
//!
//! A label without a value is no label here: `{a="1", u=""}` and `{a="1"}` are the same set
//! wherever sets are compared, and the labels of a group or of a pair have no empty value.

use logsvc_proto::Labels;

use crate::syntax::ast::{Grouping, GroupingKind};

/// The labels of `grouping` that a series keeps; no grouping keeps none.
pub(crate) fn group_labels(labels: &Labels, grouping: Option<&Grouping>) -> Labels {
    let Some(grouping) = grouping else {
        return Labels::empty();
    };
    let keep_listed = grouping.kind == GroupingKind::By;
    select_labels(labels, &grouping.labels, keep_listed)
}

/// The listed labels, or the labels that are not listed, without empty labels.
pub(crate) fn select_labels(labels: &Labels, listed: &[String], keep_listed: bool) -> Labels {
    let is_listed = |name: &str| listed.iter().any(|listed| listed == name);
    part(labels, |name, value| !value.is_empty() && is_listed(name) == keep_listed)
}

/// The labels that have a value.
pub(crate) fn non_empty(labels: &Labels) -> Labels {
    if labels.iter().all(|(_, value)| !value.is_empty()) {
        return labels.clone();
    }
    part(labels, |_, value| !value.is_empty())
}

fn part(labels: &Labels, keeps: impl Fn(&str, &str) -> bool) -> Labels {
    let pairs = labels.iter().filter(|(name, value)| keeps(name, value));
    Labels::from_result_pairs(pairs).expect("a part of a label set has every name once")
}
