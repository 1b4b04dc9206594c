//! From the labels of an entry to the series it belongs to.

use super::super::error::EvalError;
use super::super::labels::sets::{LabelSets, Reduction};
use super::super::labels::{EntryLabels, NameId};
use super::super::plan::SeriesLabels;
use crate::syntax::ast::GroupingKind;

/// How much longer a text may be when it is quoted, and while that is done.
const QUOTED_FACTOR: usize = 8;

/// The series of a sample, or the failure when it carries an error.
pub(super) fn series_of(
    sets: &mut LabelSets,
    labels: &EntryLabels,
    reduction: &Reduction,
) -> Result<u32, EvalError> {
    let Some(error) = labels.error().filter(|_| !labels.preserves_errors()) else {
        return Ok(sets.intern_reduced(labels, reduction));
    };
    let error = String::from_utf8_lossy(error);
    let id = sets.intern_reduced(labels, &Reduction::Keep);
    let series = sets.labels(id, labels);
    // Quoted, and once more while it grows.
    let has_room = labels.meter().admit(error.len() + QUOTED_FACTOR * series.as_bytes().len());
    let mut series = if has_room { series.canonical() } else { String::new() };
    series.shrink_to_fit();
    Err(EvalError::Pipeline { error: error.into_owned(), series })
}

/// The labels of the series. The unwrapped label goes unless the grouping lists it.
pub(super) fn reduction_of(
    series: &SeriesLabels,
    unwrapped: Option<NameId>,
    labels: &mut EntryLabels,
) -> Reduction {
    match series {
        SeriesLabels::All => match unwrapped {
            None => Reduction::Keep,
            Some(name) => Reduction::KeepBut(name),
        },
        SeriesLabels::None => Reduction::By(Vec::new()),
        SeriesLabels::Grouped(grouping) => {
            let names = grouping.labels.iter().map(|name| labels.name_id(name.as_bytes()));
            match grouping.kind {
                GroupingKind::By => by(names.collect()),
                GroupingKind::Without => Reduction::Without(names.chain(unwrapped).collect()),
            }
        }
        // The groups of streams are found without it.
        SeriesLabels::Stream(_) => Reduction::Keep,
    }
}

fn by(mut names: Vec<NameId>) -> Reduction {
    names.sort_unstable();
    names.dedup();
    Reduction::By(names)
}
