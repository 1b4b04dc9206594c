//! Answers that need no scan: labels, series, numbers for metrics. And the
//! snapshot that a scan starts from.

use std::collections::BTreeSet;
use std::sync::Arc;

use logsvc_proto::Labels;

use super::Shard;
use crate::index::{Slot, SlotSet};
use crate::messages::{LeafRequest, ShardStatus, StreamSelection, TimeRange};
use crate::scan::{ScanError, ScanJob, StreamSnapshot};

impl Shard {
    /// Streams of a selection that may have entries in its range, rising.
    fn selected(&self, selection: &StreamSelection) -> Vec<Slot> {
        let Some(index) = self.index.tenant(&selection.tenant) else { return Vec::new() };
        let mut slots = match &*selection.matcher_groups {
            [] => index.streams().to_vec(),
            [group] => index.select(group),
            groups => {
                let mut union = SlotSet::default();
                for group in groups {
                    union.insert_all(&index.select(group));
                }
                union.slots()
            }
        };
        slots.retain(|&slot| self.overlaps(slot, selection.range));
        slots
    }

    fn overlaps(&self, slot: Slot, range: TimeRange) -> bool {
        let bounds = self.streams[slot as usize].head.time_bounds_ns();
        bounds.is_some_and(|bounds| range.overlaps(bounds))
    }

    pub(super) fn label_names(&self, selection: &StreamSelection) -> Vec<Box<str>> {
        let mut names = BTreeSet::new();
        for slot in self.selected(selection) {
            for (name, _) in self.streams[slot as usize].labels.iter() {
                if !names.contains(name) {
                    names.insert(Box::from(name));
                }
            }
        }
        names.into_iter().collect()
    }

    pub(super) fn label_values(&self, selection: &StreamSelection, name: &str) -> Vec<Box<str>> {
        let Some(index) = self.index.tenant(&selection.tenant) else { return Vec::new() };
        let selected = SlotSet::of(&self.selected(selection));
        let has_selected = |slots: &[Slot]| slots.iter().any(|&slot| selected.contains(slot));
        let values = index.values(name).filter(|(_, slots)| has_selected(slots));
        values.map(|(value, _)| Box::from(value)).collect()
    }

    pub(super) fn series(&self, selection: &StreamSelection) -> Vec<Arc<Labels>> {
        let labels = |slot| Arc::clone(&self.streams[slot as usize].labels);
        self.selected(selection).into_iter().map(labels).collect()
    }

    pub(super) fn status(&self) -> ShardStatus {
        ShardStatus {
            streams: self.index.tenants().map(|(t, count)| (t.clone(), count as u64)).collect(),
            head_entries: self.counters.entries,
            head_line_bytes: self.counters.line_bytes,
            head_reserved_bytes: self.heads.bytes(),
            duplicates: self.counters.duplicates,
            wal: self.wal.counters(),
            commit_latency: self.counters.commit_latency,
            recovery: self.recovery.clone(),
        }
    }

    /// Everything a scan reads, held so that it stays as it is now.
    ///
    /// # Errors
    /// A matcher of the plan does not compile.
    pub(super) fn scan_job(&self, request: LeafRequest) -> Result<ScanJob, ScanError> {
        let (start_ns, end_ns) = request.plan.entry_bounds_ns();
        let range = TimeRange { start_ns, end_ns };
        let matchers = request.plan.compiled_matchers();
        let matchers = matchers.map_err(|error| ScanError::Plan(error.to_string()))?;
        let slots = match self.index.tenant(&request.tenant) {
            Some(index) => index.select(&matchers),
            None => Vec::new(),
        };
        let snapshot = |slot: Slot| {
            let stream = &self.streams[slot as usize];
            let blocks = stream.head.blocks().enumerate();
            let overlapping = blocks.filter(|(_, block)| range.overlaps(block.time_bounds_ns()));
            StreamSnapshot {
                labels: Arc::clone(&stream.labels),
                blocks: overlapping.map(|(at, block)| (at as u64, Arc::clone(block))).collect(),
            }
        };
        let streams = slots.into_iter().filter(|&slot| self.overlaps(slot, range)).map(snapshot);
        Ok(ScanJob { streams: streams.collect(), request })
    }
}
