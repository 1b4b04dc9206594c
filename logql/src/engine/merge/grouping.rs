//! Parts of label sets, by which series are grouped and paired.

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

/// The labels that are listed, or those that are not.
pub(crate) fn select_labels(labels: &Labels, listed: &[String], keep_listed: bool) -> Labels {
    let pairs =
        labels.iter().filter(|(name, _)| listed.iter().any(|listed| listed == name) == keep_listed);
    Labels::from_result_pairs(pairs).expect("a part of a label set has every name once")
}
