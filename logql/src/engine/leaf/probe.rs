//! A cheap first test of an entry whose labels are all part of the result.
//!
//! `{..} | json | status >= 500` shows every field of the lines that it keeps, but needs one field
//! to decide. The probe runs the stages up to the label filters, and extracts only the labels that
//! these filters read. The whole pipeline rejects every entry that the probe rejects, because a
//! parser gives a label the same value whichever other labels are wanted. Errors depend on how far
//! a line is read, so the probe leaves out filters whose outcome depends on errors.

use std::sync::Arc;

use logsvc_proto::Labels;

use super::super::block::MetadataColumn;
use super::super::labels::{BaseLabels, EntryLabels, Wanted};
use super::super::meter::{Meter, Stop};
use super::super::pipeline::effects::LineUse;
use super::super::pipeline::{Entry, Pipeline, effects};
use super::super::plan::LeafPlan;
use super::wanted::wanted_by;
use crate::syntax::ast::{LabelFilter, LogExpr, Stage};

/// Entries after which the leaf decides whether the probe pays.
const TRIAL_ENTRIES: u32 = 1024;
/// Entries for which the probe rests when it kept more than half of a trial.
const REST_ENTRIES: u32 = 16 * TRIAL_ENTRIES;

/// The probe of a leaf.
#[derive(Debug)]
pub(super) struct Probe {
    pipeline: Pipeline,
    line_buffer: Vec<u8>,
    tried: u32,
    kept: u32,
    rest_entries: u32,
    /// The last field, since it has the meter.
    labels: EntryLabels,
}

impl Probe {
    /// The probe of a leaf that wants all labels; `None` where there is nothing to
    /// be found out.
    pub(super) fn new(plan: &LeafPlan, meter: Meter) -> Option<Self> {
        let stages = probed(&plan.log.stages);
        if stages.is_empty() {
            return None;
        }
        let log = LogExpr { selector: plan.log.selector.clone(), stages: stages.to_vec() };
        let mut labels = EntryLabels::with_meter(meter);
        let wanted = wanted_by(&log, &mut labels);
        if wanted == Wanted::All {
            return None;
        }
        labels.want(&wanted);
        let pipeline = Pipeline::compile(&log, &wanted, false, &mut labels).ok()?;
        let (tried, kept, rest_entries) = (0, 0, 0);
        Some(Self { pipeline, labels, line_buffer: Vec::new(), tried, kept, rest_entries })
    }

    /// Prepares a stream.
    pub(super) fn base(&mut self, labels: &Labels) -> Arc<BaseLabels> {
        self.labels.base(labels)
    }

    /// False when the pipeline rejects the entry.
    pub(super) fn may_keep(
        &mut self,
        base: &Arc<BaseLabels>,
        metadata: &MetadataColumn<'_>,
        i: usize,
        line: &[u8],
    ) -> bool {
        if self.rest_entries > 0 {
            self.rest_entries -= 1;
            return true;
        }
        self.labels.start(base);
        if let MetadataColumn::Sets { set_ids, sets } = metadata {
            self.labels.add_metadata(sets.get(set_ids[i]));
        }
        let mut entry = Entry::new(line, &mut self.line_buffer, &mut self.labels);
        let keeps = self.pipeline.process(&mut entry);
        self.tried += 1;
        self.kept += u32::from(keeps);
        if self.tried == TRIAL_ENTRIES {
            if self.kept * 2 > self.tried {
                self.rest_entries = REST_ENTRIES;
            }
            (self.tried, self.kept) = (0, 0);
        }
        keeps
    }

    /// The reason to end the part, if there is one.
    pub(super) fn stop(&self) -> Option<Stop> {
        self.labels.meter().stop()
    }

    /// Gives back buffers that outliers have made large, and sets the bytes in use.
    pub(super) fn reconcile(&mut self) {
        let meter = self.labels.meter();
        if meter.is_reconciled() {
            return;
        }
        meter.recycle(&mut self.line_buffer);
        self.pipeline.recycle(meter);
        self.labels.recycle();
        self.labels.meter().reconcile(self.held_bytes());
    }

    /// Heap memory in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.labels.held_bytes() + self.line_buffer.capacity() + self.pipeline.held_bytes()
    }
}

/// The stages up to the last label filter that can be tested beforehand; none
/// when no parser stands before it, as then nothing would be saved.
fn probed(stages: &[Stage]) -> &[Stage] {
    let mut end = 0;
    let mut parses = false;
    for (i, stage) in stages.iter().enumerate() {
        let effects = effects(stage);
        if effects.only_parses() {
            parses = true;
        } else if let Some(filter) = effects.label_filter()
            && ignores_errors(filter)
        {
            if parses {
                end = i + 1;
            }
        } else if effects.line != LineUse::Filters {
            break;
        }
    }
    &stages[..end]
}

/// Whether the outcome of a filter depends on nothing but values of labels.
fn ignores_errors(filter: &LabelFilter) -> bool {
    match filter {
        LabelFilter::String(matcher) => !matcher.name.starts_with("__"),
        LabelFilter::Number { name, .. }
        | LabelFilter::Duration { name, .. }
        | LabelFilter::Bytes { name, .. } => !name.starts_with("__"),
        // With an error it keeps the entry.
        LabelFilter::Ip { .. } => false,
        LabelFilter::And(left, right) | LabelFilter::Or(left, right) => {
            ignores_errors(left) && ignores_errors(right)
        }
    }
}
