//! Line filters that follow from label filters.
//!
//! `| json | level="error"` keeps only lines that contain `error`. A search over the block finds
//! these lines faster than a parser. [`LeafPlan::required_text`] lists the texts to search for.

use super::super::block::{Lines, MetadataColumn};
use super::super::filter::{LineFilter, Selection};
use super::super::labels::{BaseLabels, EntryLabels, NameId};
use super::super::meter::Meter;
use super::super::plan::LeafPlan;

/// Shorter texts stand in too many lines.
const MIN_LEN_BYTES: usize = 2;
/// Bytes that compiling a hint may take, and bytes per byte of its texts.
const HINT_BYTES: usize = 64 << 10;
const HINT_FACTOR: usize = 512;
/// Blocks that a hint rests for when it kept most lines of one.
const REST_BLOCKS: u32 = 15;

/// A filter that every entry passes that passes the pipeline.
#[derive(Debug)]
struct Hint {
    filter: LineFilter,
    /// Entries that have one of these labels before any stage may pass without.
    unless: Vec<(NameId, String)>,
    /// Number of blocks for which it is left out.
    rest_blocks: u32,
}

/// The hints of a leaf.
#[derive(Debug, Default)]
pub(super) struct Hints {
    hints: Vec<Hint>,
}

impl Hints {
    /// The line filters that follow from the label filters of a leaf.
    pub(super) fn new(plan: &LeafPlan, labels: &mut EntryLabels) -> Self {
        let mut hints = Vec::new();
        for item in plan.required_text() {
            let is_short = item.any_of.iter().any(|text| text.bytes.len() < MIN_LEN_BYTES);
            // The filters of lines themselves run anyway.
            if item.unless_labels.is_empty() || is_short {
                continue;
            }
            let text_bytes: usize = item.any_of.iter().map(|text| text.bytes.len()).sum();
            let spare_bytes = HINT_BYTES + text_bytes * HINT_FACTOR;
            if !labels.meter().work(spare_bytes) || !labels.meter().admit(spare_bytes) {
                break;
            }
            let Ok(filter) = LineFilter::any_text(&item.any_of) else { continue };
            let id = |name: String| (labels.name_id(name.as_bytes()), name);
            let unless = item.unless_labels.into_iter().map(id).collect();
            hints.push(Hint { filter, unless, rest_blocks: 0 });
        }
        Self { hints }
    }

    /// Heap memory in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        let of = |hint: &Hint| {
            hint.filter.held_bytes()
                + hint.unless.capacity() * size_of::<(NameId, String)>()
                + hint.unless.iter().map(|(_, name)| name.capacity()).sum::<usize>()
        };
        self.hints.capacity() * size_of::<Hint>() + self.hints.iter().map(of).sum::<usize>()
    }

    /// Narrows the selection to lines that may pass the pipeline.
    pub(super) fn narrow(
        &mut self,
        base: &BaseLabels,
        metadata: &MetadataColumn<'_>,
        lines: &Lines<'_>,
        selection: &mut Selection,
        meter: &Meter,
    ) {
        for hint in &mut self.hints {
            if hint.rest_blocks > 0 {
                hint.rest_blocks -= 1;
                continue;
            }
            let is_stored = |(id, name): &(NameId, String)| {
                base.has(*id)
                    || match metadata {
                        MetadataColumn::None => false,
                        MetadataColumn::Sets { sets, .. } => sets.may_have_name(name),
                    }
            };
            if hint.unless.iter().any(is_stored) {
                continue;
            }
            let before = selection.count();
            hint.filter.narrow(lines, selection, meter);
            if selection.count() * 5 > before * 4 {
                hint.rest_blocks = REST_BLOCKS;
            }
        }
    }
}
