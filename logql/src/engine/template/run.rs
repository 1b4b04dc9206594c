//! What functions see of one execution: the entry, and the work that is left.

use std::cell::{Cell, RefCell};

use super::functions::RegexCache;
use crate::engine::pipeline::labels::EntryLabels;

/// Nodes, pipelines and calls of one execution.
const MAX_STEPS: u32 = 100_000;
/// Bytes that functions of one execution read and write.
const MAX_WORK_BYTES: usize = 16 << 20;
/// Bytes of output, beyond twice the length of the line.
const MAX_OUTPUT_BYTES: usize = 4 << 20;

/// The entry a template is executed over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'v> {
    /// Labels as they are before the stage.
    pub(crate) labels: &'v EntryLabels,
    /// The current line.
    pub(crate) line: &'v [u8],
    /// Time of the entry in nanoseconds.
    pub(crate) timestamp_ns: i64,
    /// What `now` gives, in nanoseconds.
    pub(crate) now_ns: i64,
}

/// One execution.
#[derive(Debug)]
pub(super) struct Run<'v> {
    pub(super) input: Input<'v>,
    pub(super) regexes: &'v RefCell<RegexCache>,
    steps: Cell<u32>,
    work_bytes: Cell<usize>,
}

impl<'v> Run<'v> {
    pub(super) fn new(input: Input<'v>, regexes: &'v RefCell<RegexCache>) -> Self {
        let work_bytes = MAX_WORK_BYTES.saturating_add(input.line.len().saturating_mul(16));
        Self { input, regexes, steps: Cell::new(MAX_STEPS), work_bytes: Cell::new(work_bytes) }
    }

    /// Largest length of an output.
    pub(super) fn max_output_bytes(&self) -> usize {
        MAX_OUTPUT_BYTES.saturating_add(self.input.line.len().saturating_mul(2))
    }

    /// Counts a node or a call.
    ///
    /// # Errors
    /// After too many.
    pub(super) fn step(&self) -> Result<(), String> {
        let left = self.steps.get();
        if left == 0 {
            return Err(format!("more than {MAX_STEPS} steps"));
        }
        self.steps.set(left - 1);
        Ok(())
    }

    /// Counts bytes that are read or written.
    ///
    /// # Errors
    /// After too many.
    pub(super) fn work(&self, len_bytes: usize) -> Result<(), String> {
        match self.work_bytes.get().checked_sub(len_bytes) {
            Some(left) => {
                self.work_bytes.set(left);
                Ok(())
            }
            None => Err("too many bytes read and written".to_owned()),
        }
    }

    /// Lets a function write a new string.
    ///
    /// # Errors
    /// Those of `write`, or when the string is too long.
    pub(super) fn build(
        &self,
        write: impl FnOnce(&mut super::out::Out<'_>) -> Result<(), String>,
    ) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        write(&mut super::out::Out::new(&mut bytes, self.max_output_bytes()))?;
        self.work(bytes.len())?;
        Ok(bytes)
    }
}
