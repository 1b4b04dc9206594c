//! Says which streams a leaf counts together, so that the totals of many streams answer it at once.

use super::LeafExecutor;
use crate::engine::block::BlockSummary;
use crate::engine::labels::sets::Reduction;
use crate::engine::leaf::StreamState;
use crate::engine::plan::StreamLabels;

/// By which of their labels the streams of a leaf are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CountedBy<'a> {
    /// All streams are alike.
    Nothing,
    /// Streams with equal values of this label are alike, if they have the label. Of others the
    /// metadata may have it.
    Label(&'a str),
    /// The same, and streams without the label are alike, too.
    StreamLabel(&'a str),
}

impl LeafExecutor {
    /// By which of their labels streams are counted together; `None` if more than one label counts,
    /// or each stream has to be looked at.
    #[must_use]
    pub fn counts_by(&self) -> Option<CountedBy<'_>> {
        if !self.takes_totals() {
            return None;
        }
        if let Some(groups) = &self.stream_groups {
            return match groups.by() {
                StreamLabels::Listed(names) => match &names[..] {
                    [] => Some(CountedBy::Nothing),
                    [name] => Some(CountedBy::StreamLabel(name)),
                    _ => None,
                },
                StreamLabels::All | StreamLabels::Names(_) => None,
            };
        }
        let Reduction::By(listed) = &self.reduction else { return None };
        self.listed_groups.as_ref()?;
        match listed[..] {
            [] => Some(CountedBy::Nothing),
            [name] => std::str::from_utf8(self.labels.name(name)).ok().map(CountedBy::Label),
            _ => None,
        }
    }

    /// Whether the caller has to count the streams that the leaf reads: the answer to a question for
    /// statistics has their number.
    #[must_use]
    pub fn counts_streams(&self) -> bool {
        self.stream_groups.is_some() && self.counts_by() == Some(CountedBy::Nothing)
    }

    /// Offers many blocks of a stream, or of streams that are alike, by their sums; see
    /// [`LeafExecutor::summary`]. Nothing is estimated.
    pub fn totals(&mut self, stream: &StreamState, totals: &BlockSummary) -> bool {
        let is_known = totals.metadata_bytes.is_some() || !self.counts_metadata();
        is_known && self.summary(stream, totals)
    }
}
