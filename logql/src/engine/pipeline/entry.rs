//! An entry on its way through the stages.

use super::super::labels::EntryLabels;
use super::super::meter::Meter;
use super::super::template::Input;

/// The work of a stage besides the bytes of the line, see [`super::super::meter`].
const STAGE_WORK: usize = 64;

/// An entry on its way through the stages.
#[derive(Debug)]
pub(crate) struct Entry<'e> {
    /// The line as it was stored.
    stored_line: &'e [u8],
    /// True when `rewritten` holds the current line.
    is_rewritten: bool,
    rewritten: &'e mut Vec<u8>,
    pub(crate) labels: &'e mut EntryLabels,
    timestamp_ns: i64,
    now_ns: i64,
    /// Stages of the pipeline that it goes through.
    pub(super) stages: usize,
}

impl<'e> Entry<'e> {
    /// `buffer` holds a rewritten line; its capacity is reused by the next entry.
    pub(crate) fn new(
        stored_line: &'e [u8],
        buffer: &'e mut Vec<u8>,
        labels: &'e mut EntryLabels,
    ) -> Self {
        Self {
            stored_line,
            is_rewritten: false,
            rewritten: buffer,
            labels,
            timestamp_ns: 0,
            now_ns: 0,
            stages: 0,
        }
    }

    /// The same entry with its time, and the time of the query, in nanoseconds.
    pub(crate) fn at(self, timestamp_ns: i64, now_ns: i64) -> Self {
        Self { timestamp_ns, now_ns, ..self }
    }

    /// The input of templates.
    pub(super) fn template_input(&self) -> Input<'_> {
        Input {
            labels: self.labels,
            line: self.line(),
            timestamp_ns: self.timestamp_ns,
            now_ns: self.now_ns,
        }
    }

    /// The current line.
    pub(crate) fn line(&self) -> &[u8] {
        if self.is_rewritten { self.rewritten } else { self.stored_line }
    }

    /// The current line, and the labels to work on meanwhile.
    pub(crate) fn parts(&mut self) -> (&[u8], &mut EntryLabels) {
        let line = if self.is_rewritten { self.rewritten.as_slice() } else { self.stored_line };
        (line, self.labels)
    }

    /// The meter, which counts the memory and the work of the stages.
    pub(crate) fn meter(&self) -> &Meter {
        self.labels.meter()
    }

    /// Makes `line` the current line; it becomes a buffer of any content.
    pub(crate) fn replace_line(&mut self, line: &mut Vec<u8>) {
        std::mem::swap(self.rewritten, line);
        self.is_rewritten = true;
        if self.rewritten.len() > self.stored_line.len() {
            self.count_stages();
        }
    }

    /// Counts the work of each stage, and of the collector, that reads the line. False if the
    /// leaf has to end.
    pub(super) fn count_stages(&self) -> bool {
        self.meter().work((self.stages + 1) * (STAGE_WORK + self.line().len()))
    }
}
