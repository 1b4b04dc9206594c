//! Says which streams a leaf counts together, so that the totals of many streams answer it at once.

use super::LeafExecutor;
use crate::engine::labels::sets::Reduction;

/// By which of their labels the streams of a leaf are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CountedBy<'a> {
    /// All streams are alike.
    Nothing,
    /// Streams with equal values of this label are alike, if they have the label. Of others the
    /// metadata may have it.
    Label(&'a str),
}

impl LeafExecutor {
    /// By which of their labels streams are counted together; `None` if more than one label counts,
    /// or each stream has to be looked at.
    #[must_use]
    pub fn counts_by(&self) -> Option<CountedBy<'_>> {
        let Reduction::By(listed) = &self.reduction else { return None };
        if self.listed_groups.is_none() || !self.takes_totals() {
            return None;
        }
        match listed[..] {
            [] => Some(CountedBy::Nothing),
            [name] => std::str::from_utf8(self.labels.name(name)).ok().map(CountedBy::Label),
            _ => None,
        }
    }
}
