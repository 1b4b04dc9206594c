//! Series as the merge part computes with them.

use logsvc_proto::Labels;

use super::super::hash::{FixedMap, new_map};

/// The value of a series at one step of the grid.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Point {
    pub(crate) step: u32,
    pub(crate) value: f64,
}

/// A series; steps strictly ascend. Several series may have equal labels, for
/// `label_replace` can make them so; they are then samples of their own.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Series {
    pub(crate) labels: Labels,
    pub(crate) points: Vec<Point>,
}

/// The value of an expression.
#[derive(Debug)]
pub(crate) enum Value {
    /// The same number at every step.
    Scalar(f64),
    /// The samples of all steps, by series, none of them empty.
    Samples(Vec<Series>),
}

/// Series numbers by a key derived from their labels, in order of first sight.
pub(crate) struct Groups {
    index: FixedMap<Labels, usize>,
    /// Keys in order of first sight.
    pub(crate) keys: Vec<Labels>,
    /// Members of each group, ascending.
    pub(crate) members: Vec<Vec<usize>>,
}

impl Groups {
    pub(crate) fn new() -> Self {
        Self { index: new_map(), keys: Vec::new(), members: Vec::new() }
    }

    /// Groups series by `key`.
    pub(crate) fn of(series: &[Series], key: impl Fn(&Labels) -> Labels) -> Self {
        let mut groups = Self::new();
        for (number, one) in series.iter().enumerate() {
            groups.add(key(&one.labels), number);
        }
        groups
    }

    pub(crate) fn add(&mut self, key: Labels, member: usize) {
        if let Some(&group) = self.index.get(&key) {
            self.members[group].push(member);
            return;
        }
        self.index.insert(key.clone(), self.keys.len());
        self.keys.push(key);
        self.members.push(vec![member]);
    }

    /// Puts the members of each group into the order of their labels, so that what is made of
    /// them depends on the series alone, not on which others there are.
    pub(crate) fn order_members(&mut self, series: &[Series]) {
        let order = |&a: &usize, &b: &usize| series[a].labels.cmp_pairs(&series[b].labels);
        for members in &mut self.members {
            if !members.is_sorted_by(|a, b| order(a, b).is_le()) {
                members.sort_by(order);
            }
        }
    }

    pub(crate) fn find(&self, key: &Labels) -> Option<usize> {
        self.index.get(key).copied()
    }
}
