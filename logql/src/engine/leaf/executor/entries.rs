//! One entry on its way through a leaf.

use super::{Collector, LeafExecutor};
use crate::engine::block::{EntryBlock, MetadataColumn, MetadataSets};
use crate::engine::leaf::StreamState;
use crate::engine::leaf::log::Position;
use crate::engine::leaf::repeats::{Outcome, RepeatSlot};
use crate::engine::leaf::samples::Sample;
use crate::engine::leaf::series::series_of;
use crate::engine::pipeline::Entry;
use crate::engine::plan::EntryValue;

/// The work of an entry besides its bytes, see [`crate::engine::meter`].
const ENTRY_WORK: usize = 64;

impl LeafExecutor {
    /// Runs one entry that passed the front filters.
    pub(super) fn entry(&mut self, stream: &StreamState, block: &EntryBlock<'_>, i: usize) {
        let collects_patterns = matches!(self.collector, Collector::Patterns(_));
        // The pipeline counts the work of an entry that goes through it.
        let is_processed = !collects_patterns && !self.labels_are_stored;
        let meter = self.labels.meter();
        let goes_on = if is_processed { !meter.is_stopped() } else { meter.work(ENTRY_WORK) };
        if self.failure.is_some() || !goes_on {
            return;
        }
        if let Collector::Log(log) = &self.collector
            && !log.admits(block.timestamps_ns[i])
        {
            return;
        }
        if let Collector::Patterns(patterns) = &mut self.collector {
            self.stats.entries_kept += 1;
            patterns.add(block, i, self.labels.meter());
        } else if is_processed {
            self.processed_entry(stream, block, i);
        } else if matches!(self.collector, Collector::Matches(_)) {
            self.note_match(i);
        } else {
            self.stored_entry(stream, block, i);
        }
    }

    /// Takes an entry that no stage looks at: label sets are known per stream and
    /// metadata set.
    fn stored_entry(&mut self, stream: &StreamState, block: &EntryBlock<'_>, i: usize) {
        let Some(set) = self.stored_set(stream, block, i) else { return };
        let timestamp_ns = block.timestamps_ns[i];
        self.stats.entries_kept += 1;
        let lines = block.line_view();
        match &mut self.collector {
            Collector::Log(log) => {
                let position =
                    Position::new(timestamp_ns, &stream.key, block.arrival, i, log.direction());
                log.add(position, set, lines.get(i), self.labels.meter());
            }
            Collector::Range(range) => {
                let bytes = match range.value() {
                    EntryValue::One => 0,
                    EntryValue::LineLength => lines.len_of(i) as u64,
                    EntryValue::StoredSize => {
                        lines.len_of(i) as u64 + self.sizes.read(stream.number, block, i, i + 1)
                    }
                };
                let cell = range.cell(timestamp_ns);
                range.add(set, &cell, 1, bytes, self.labels.meter());
            }
            Collector::Samples { .. } => unreachable!("samples depend on the labels of the entry"),
            Collector::Patterns(_) | Collector::Matches(_) => unreachable!("labels do not matter"),
        }
    }

    /// The label set of an entry that no stage looks at. `None` when its metadata
    /// carries an error that fails the query.
    fn stored_set(
        &mut self,
        stream: &StreamState,
        block: &EntryBlock<'_>,
        i: usize,
    ) -> Option<u32> {
        let MetadataColumn::Sets { set_ids, sets } = block.metadata else {
            return Some(stream.plain_set);
        };
        let metadata_set = set_ids[i];
        let is_sized = matches!(&self.collector, Collector::Range(range) if range.value() == EntryValue::StoredSize);
        if metadata_set == 0 || !stream.needs.metadata || is_sized {
            return Some(stream.plain_set);
        }
        if let Some(set) = self.set_cache.get(metadata_set) {
            return Some(set);
        }
        let set = self.set_of(stream, sets, metadata_set)?;
        self.set_cache.put(metadata_set, set);
        Some(set)
    }

    /// The label set of an entry with this set of metadata, which no stage looks at. `None` when
    /// the metadata carries an error that fails the query.
    pub(super) fn set_of(
        &mut self,
        stream: &StreamState,
        sets: &MetadataSets,
        metadata_set: u32,
    ) -> Option<u32> {
        self.labels.start(&stream.base);
        self.labels.add_metadata(sets.get(metadata_set));
        if matches!(self.collector, Collector::Log(_)) {
            return Some(self.label_sets.intern_categorized(&self.labels));
        }
        match series_of(&mut self.label_sets, &self.labels, &self.reduction) {
            Ok(set) => Some(set),
            Err(error) => {
                self.failure = Some(error);
                None
            }
        }
    }

    /// Has the collector keep what tells a processed entry apart from the others as it is stored.
    fn note_stored(
        &mut self,
        stream: &StreamState,
        block: &EntryBlock<'_>,
        i: usize,
        position: &Position,
        stored_line: &[u8],
    ) {
        self.labels.start(&stream.base);
        if let MetadataColumn::Sets { set_ids, sets } = block.metadata {
            self.labels.add_metadata(sets.get(set_ids[i]));
        }
        let set = self.label_sets.intern_categorized(&self.labels);
        let set = self.label_sets.categorized(set, &self.labels);
        let meter = self.labels.meter();
        meter.work(stored_line.len());
        if let Collector::Log(log) = &mut self.collector {
            log.note_stored(position, &set, stored_line);
        }
        meter.release(set.held_bytes());
    }

    /// Runs the stages over an entry and takes it when they keep it.
    fn processed_entry(&mut self, stream: &StreamState, block: &EntryBlock<'_>, i: usize) {
        let stored_line = if stream.needs.lines { block.line_view().get(i) } else { &[] };
        if let (Some(probe), Some(base)) = (&mut self.shortcuts.probe, &stream.probe_base)
            && !probe.may_keep(base, &block.metadata, i, stored_line)
        {
            return;
        }
        let slot = self.repeat_slot(stream, block, stored_line);
        if let (Some(slot), Some(repeats)) = (slot, &mut self.shortcuts.repeats)
            && let Some(outcome) = repeats.get(slot, stored_line)
        {
            if self.labels.meter().work(ENTRY_WORK)
                && let Outcome::Kept { set, value } = outcome
            {
                self.stats.entries_kept += 1;
                // The length of an abridged line is not asked for.
                self.add_value(stream, block, i, (set, value), 0);
            }
            return;
        }
        let outcome = self.parsed_entry(stream, block, i, stored_line);
        if let (Some(slot), Some(outcome)) = (slot, outcome)
            && let Some(repeats) = &mut self.shortcuts.repeats
        {
            repeats.put(slot, stored_line, outcome);
        }
    }

    /// Where the outcome of an entry is remembered, if it follows from the line alone.
    fn repeat_slot(
        &mut self,
        stream: &StreamState,
        block: &EntryBlock<'_>,
        line: &[u8],
    ) -> Option<RepeatSlot> {
        let follows = stream.is_unread && matches!(block.metadata, MetadataColumn::None);
        self.shortcuts.repeats.as_mut().filter(|_| follows)?.slot(line)
    }

    /// Runs the stages over an entry and takes it when they keep it. The outcome, where that is
    /// no line and no failure.
    fn parsed_entry(
        &mut self,
        stream: &StreamState,
        block: &EntryBlock<'_>,
        i: usize,
        stored_line: &[u8],
    ) -> Option<Outcome> {
        let timestamp_ns = block.timestamps_ns[i];
        self.labels.start(&stream.base);
        if let MetadataColumn::Sets { set_ids, sets } = block.metadata {
            self.labels.add_metadata(sets.get(set_ids[i]));
        }
        let mut entry = Entry::new(stored_line, &mut self.line_buffer, &mut self.labels)
            .at(timestamp_ns, self.plan.now_ns);
        if !self.pipeline.process(&mut entry) {
            return (!entry.meter().is_stopped()).then_some(Outcome::Dropped);
        }
        if let Collector::Log(log) = &mut self.collector {
            self.stats.entries_kept += 1;
            let position =
                Position::new(timestamp_ns, &stream.key, block.arrival, i, log.direction());
            let set = self.label_sets.intern_categorized(entry.labels);
            let noted = log.tells_places().then(|| position.clone());
            log.add(position, set, entry.line(), entry.meter());
            if let Some(position) = noted {
                self.note_stored(stream, block, i, &position, stored_line);
            }
            return None;
        }
        if let Collector::Matches(_) = &self.collector {
            self.note_match(i);
            return None;
        }
        let mut value = 0.0;
        if let Collector::Samples { unwrap, .. } = &self.collector {
            match unwrap.sample(entry.labels) {
                Some(sample) => value = sample,
                None => return Some(Outcome::Dropped),
            }
        }
        self.stats.entries_kept += 1;
        let line_len = entry.line().len();
        let set = match series_of(&mut self.label_sets, entry.labels, &self.reduction) {
            Ok(set) => set,
            Err(error) => {
                self.failure = Some(error);
                return None;
            }
        };
        self.add_value(stream, block, i, (set, value), line_len);
        Some(Outcome::Kept { set, value })
    }

    /// Adds an entry that the stages keep with this label set and sample. `line_len` is the length
    /// of its line in the end, if stages read lines.
    fn add_value(
        &mut self,
        stream: &StreamState,
        block: &EntryBlock<'_>,
        i: usize,
        (series, value): (u32, f64),
        line_len: usize,
    ) {
        let timestamp_ns = block.timestamps_ns[i];
        match &mut self.collector {
            Collector::Log(_) | Collector::Patterns(_) | Collector::Matches(_) => {}
            Collector::Range(range) => {
                let line_len = match range.value() {
                    EntryValue::One => 0,
                    EntryValue::LineLength if stream.needs.lines => line_len,
                    EntryValue::LineLength | EntryValue::StoredSize => block.line_view().len_of(i),
                };
                let cell = range.cell(timestamp_ns);
                range.add(series, &cell, 1, line_len as u64, self.labels.meter());
            }
            Collector::Samples { samples, .. } => {
                let index = u32::try_from(i).expect("line ends are 32-bit, so entries are");
                let (stream, arrival) = (stream.number, block.arrival);
                let sample = Sample { timestamp_ns, value, stream, index, arrival };
                samples.add(series, sample, self.labels.meter());
            }
        }
    }
}
