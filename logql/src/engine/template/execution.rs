//! The state of one execution that functions see: the entry, and the work that is left.

use std::cell::{Cell, RefCell};

use super::alert::AlertRun;
use super::functions::RegexCache;
use super::json::Json;
use super::out::{ENDED, Out};
use super::value::Text;
use crate::engine::labels::EntryLabels;
use crate::engine::meter::{Meter, Reservation};

/// Nodes, pipelines and calls of one execution.
const MAX_STEPS: u32 = 100_000;
/// Bytes that functions of one execution read and write.
const MAX_WORK_BYTES: usize = 16 << 20;
/// Steps whose work is counted at once.
const COUNTED_STEPS: u32 = 64;
/// The work of a step, see [`crate::engine::meter`].
const STEP_WORK: usize = 64;
/// Bytes of output, beyond twice the length of the line.
const MAX_OUTPUT_BYTES: usize = 4 << 20;

/// Bytes of output for a label or an annotation of an alert.
const MAX_ALERT_BYTES: usize = 64 << 10;

/// The entry a template is executed over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'v> {
    /// Labels as they are before the stage.
    pub(crate) labels: &'v EntryLabels,
    /// The current line.
    pub(crate) line: &'v [u8],
    /// Time of the entry in nanoseconds.
    pub(crate) timestamp_ns: i64,
    /// The time that `now` gives, in nanoseconds.
    pub(crate) now_ns: i64,
}

/// One execution.
#[derive(Debug)]
pub(super) struct Execution<'v> {
    pub(super) input: Input<'v>,
    pub(super) regexes: &'v RefCell<RegexCache>,
    /// What the functions of alerts see.
    pub(super) alert: Option<&'v AlertRun<'v>>,
    steps: Cell<u32>,
    work_bytes: Cell<usize>,
    /// Bytes that were admitted until the execution ends.
    kept_bytes: Cell<usize>,
}

/// Largest length of an output for an entry.
pub(super) fn max_output_bytes(input: &Input<'_>) -> usize {
    MAX_OUTPUT_BYTES.saturating_add(input.line.len().saturating_mul(2))
}

impl Drop for Execution<'_> {
    fn drop(&mut self) {
        if self.kept_bytes.get() > 0 {
            self.meter().release(self.kept_bytes.get());
        }
    }
}

impl<'v> Execution<'v> {
    pub(super) fn new(input: Input<'v>, regexes: &'v RefCell<RegexCache>) -> Self {
        let work_bytes = MAX_WORK_BYTES.saturating_add(input.line.len().saturating_mul(16));
        Self {
            input,
            regexes,
            alert: None,
            steps: Cell::new(MAX_STEPS),
            work_bytes: Cell::new(work_bytes),
            kept_bytes: Cell::new(0),
        }
    }

    /// An execution for an alert; `input` has the meter.
    pub(super) fn for_alert(
        input: Input<'v>,
        regexes: &'v RefCell<RegexCache>,
        alert: &'v AlertRun<'v>,
    ) -> Self {
        let mut run = Self::new(input, regexes);
        run.alert = Some(alert);
        run
    }

    /// The meter of the leaf's memory and work.
    pub(super) fn meter(&self) -> &'v Meter {
        self.input.labels.meter()
    }

    /// Asks for memory for the lifetime of the reservation.
    ///
    /// # Errors
    /// There is none, and the leaf ends.
    pub(super) fn hold(&self, bytes: usize) -> Result<Reservation<'v>, String> {
        self.meter().hold(bytes).ok_or_else(|| ENDED.to_owned())
    }

    /// Notes that `bytes` admitted bytes stay until the execution ends.
    pub(super) fn keep(&self, bytes: usize) {
        self.kept_bytes.set(self.kept_bytes.get() + bytes);
    }

    /// Largest length of an output.
    pub(super) fn max_output_bytes(&self) -> usize {
        if self.alert.is_some() { MAX_ALERT_BYTES } else { max_output_bytes(&self.input) }
    }

    /// Asks for memory for an array that stays until the execution ends.
    ///
    /// # Errors
    /// There is none, and the leaf ends.
    pub(super) fn keep_array(&self, len: usize) -> Result<(), String> {
        let bytes = len * size_of::<Json>();
        if !self.meter().admit(bytes) {
            return Err(ENDED.to_owned());
        }
        self.keep(bytes);
        Ok(())
    }

    /// Counts a node or a call.
    ///
    /// # Errors
    /// After too many, or when the leaf has to end.
    pub(super) fn step(&self) -> Result<(), String> {
        let left = self.steps.get();
        if left == 0 {
            return Err(format!("more than {MAX_STEPS} steps"));
        }
        self.steps.set(left - 1);
        if left.is_multiple_of(COUNTED_STEPS) {
            return self.count(STEP_WORK * COUNTED_STEPS as usize);
        }
        Ok(())
    }

    fn count(&self, work: usize) -> Result<(), String> {
        if self.meter().work(work) { Ok(()) } else { Err(ENDED.to_owned()) }
    }

    /// Counts bytes that are read or written.
    ///
    /// # Errors
    /// After too many, or when the leaf has to end.
    pub(super) fn work(&self, len_bytes: usize) -> Result<(), String> {
        match self.work_bytes.get().checked_sub(len_bytes) {
            Some(left) => {
                self.work_bytes.set(left);
                self.count(len_bytes)
            }
            None => Err("too many bytes read and written".to_owned()),
        }
    }

    /// Lets a function write a new string.
    ///
    /// # Errors
    /// As `write` fails, or when the string is too long.
    pub(super) fn build(
        &self,
        write: impl FnOnce(&mut Out<'_>) -> Result<(), String>,
    ) -> Result<Text<'v>, String> {
        let mut bytes = Vec::new();
        let result = write(&mut Out::new(&mut bytes, self.max_output_bytes(), self.meter()));
        // It was admitted while it grew.
        let text = Text::counted(bytes, self.meter());
        result.and_then(|()| self.work(text.bytes().len()))?;
        Ok(text)
    }

    /// Lets a function make a new string of at most so many bytes in one go.
    ///
    /// # Errors
    /// There is no memory for it, and the leaf ends.
    pub(super) fn make(
        &self,
        max_len_bytes: usize,
        make: impl FnOnce() -> Vec<u8>,
    ) -> Result<Text<'v>, String> {
        if !self.meter().admit(max_len_bytes) {
            return Err(ENDED.to_owned());
        }
        let bytes = make();
        self.meter().release(max_len_bytes.saturating_sub(bytes.capacity()));
        Ok(Text::counted(bytes, self.meter()))
    }
}
