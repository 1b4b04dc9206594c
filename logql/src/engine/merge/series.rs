//! Series as the merge part computes with them.

use logsvc_proto::Labels;

use super::super::hash::{FixedMap, new_map};
use super::super::meter::Meter;

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

impl Series {
    /// Memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        size_of::<Self>()
            + self.labels.as_bytes().len()
            + self.points.capacity() * size_of::<Point>()
    }

    /// The work of reading it once, for [`Meter::work`].
    pub(crate) fn work(&self) -> usize {
        SERIES_WORK + self.labels.as_bytes().len() + self.points.len() * size_of::<Point>()
    }
}

/// Addition for each series: it is allocated, hashed or compared.
pub(crate) const SERIES_WORK: usize = 256;

/// The value of an expression.
#[derive(Debug)]
pub(crate) enum Value {
    /// The same number at every step.
    Scalar(f64),
    /// The samples of all steps, by series, none of them empty.
    Samples(Vec<Series>),
}

impl Value {
    /// Memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::Scalar(_) => 0,
            Self::Samples(series) => series.iter().map(Series::held_bytes).sum(),
        }
    }
}

/// Series numbers by a key derived from their labels, in order of first sight.
pub(crate) struct Groups {
    index: FixedMap<Labels, usize>,
    /// Keys in order of first sight.
    pub(crate) keys: Vec<Labels>,
    /// Members of each group, ascending.
    pub(crate) members: Vec<Vec<usize>>,
}

/// Bytes of a group besides its keys: entries of a table and of two lists that double, and its
/// first members.
const GROUP_BYTES: usize = 3 * (size_of::<(Labels, usize)>() + size_of::<Labels>())
    + 3 * size_of::<Vec<usize>>()
    + 4 * size_of::<usize>();

/// Bytes of a further member in a list that doubles.
const MEMBER_BYTES: usize = 3 * size_of::<usize>();

impl Groups {
    pub(crate) fn new() -> Self {
        Self { index: new_map(), keys: Vec::new(), members: Vec::new() }
    }

    /// Groups series by `key`, which is about as long as the labels at most. A meter that is
    /// stopped ends it early.
    pub(crate) fn of(meter: &Meter, series: &[Series], key: impl Fn(&Labels) -> Labels) -> Self {
        let mut groups = Self::new();
        for (number, one) in series.iter().enumerate() {
            let labels_bytes = one.labels.as_bytes().len();
            let before_bytes = meter.used_bytes();
            // The key once in the index, once in the list, and once while it is made.
            if !meter.work(SERIES_WORK + labels_bytes)
                || !meter.admit(3 * labels_bytes + GROUP_BYTES)
            {
                break;
            }
            let key = key(&one.labels);
            let (key_bytes, count) = (key.as_bytes().len(), groups.keys.len());
            groups.add(key, number);
            let is_new = groups.keys.len() > count;
            let kept_bytes = if is_new { 2 * key_bytes + GROUP_BYTES } else { MEMBER_BYTES };
            meter.release_to(before_bytes + kept_bytes);
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

    /// Puts the members of each group into the order of their labels, so that an aggregate of
    /// a group depends on its members alone, and not on other series.
    pub(crate) fn order_members(&mut self, meter: &Meter, series: &[Series]) {
        let order = |&a: &usize, &b: &usize| {
            // A sort cannot end early.
            meter.work(SERIES_WORK / 4);
            series[a].labels.cmp_pairs(&series[b].labels)
        };
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
