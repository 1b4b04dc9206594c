//! Deriving one label set from another.

use std::borrow::Cow;

use crate::labels::{LabelError, Labels};

/// Collects changes to a label set. Borrows texts where possible. Lookups are linear, as
/// sets are small.
#[derive(Clone, Default, Debug)]
pub struct LabelsBuilder<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> LabelsBuilder<'a> {
    /// Starts from nothing.
    pub fn new() -> LabelsBuilder<'a> {
        LabelsBuilder::default()
    }

    /// Starts from a set.
    pub fn from_labels(labels: &'a Labels) -> LabelsBuilder<'a> {
        let pairs = labels.iter().map(|(name, value)| (name.into(), value.into())).collect();
        LabelsBuilder { pairs }
    }

    /// The current value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(found, _)| found == name).map(|(_, value)| &**value)
    }

    /// Sets `name`, replacing an earlier value.
    pub fn set(
        &mut self,
        name: impl Into<Cow<'a, str>>,
        value: impl Into<Cow<'a, str>>,
    ) -> &mut Self {
        let (name, value) = (name.into(), value.into());
        match self.pairs.iter_mut().find(|(found, _)| *found == name) {
            Some(pair) => pair.1 = value,
            None => self.pairs.push((name, value)),
        }
        self
    }

    /// Removes `name`, if it is there.
    pub fn del(&mut self, name: &str) -> &mut Self {
        self.pairs.retain(|(found, _)| found != name);
        self
    }

    /// Sets every pair of `labels`.
    pub fn merge(&mut self, labels: &'a Labels) -> &mut Self {
        for (name, value) in labels {
            self.set(name, value);
        }
        self
    }

    /// The label set of a stream: empty values vanish, names are checked.
    pub fn build(&self) -> Result<Labels, LabelError> {
        Labels::from_pairs(self.pairs.iter().map(|(name, value)| (name, value)))
    }

    /// The label set of a query result: empty values stay, any name goes.
    pub fn build_result(&self) -> Labels {
        Labels::from_result_pairs(self.pairs.iter().map(|(name, value)| (name, value)))
            .expect("set() keeps names unique")
    }
}
