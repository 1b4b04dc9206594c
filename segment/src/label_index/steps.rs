//! The pages of a lookup: which are asked for, and which were supplied.
//!
//! Guarantees: no step has more than [`STEP_MAX_BYTES`] of pages before compression, unless one page
//! has. Of earlier steps no more than that is held.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{LabelIndex, fail};
use crate::error::SegmentError;
use crate::reader::Decoder;

/// Most bytes of the pages of a step before compression, if it has several.
pub const STEP_MAX_BYTES: usize = 256 << 10;

/// How many of the first of these pages make a step.
pub(super) fn step_len(index: &LabelIndex, pages: impl IntoIterator<Item = u32>) -> usize {
    let mut bytes = 0;
    let fits = |page: &u32| {
        bytes += index.place(*page).raw_len as usize;
        bytes <= STEP_MAX_BYTES
    };
    pages.into_iter().take_while(fits).count().max(1)
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Pages {
    asked: Vec<u32>,
    reads: Vec<Range<u64>>,
    /// Raw bytes.
    held: BTreeMap<u32, Vec<u8>>,
}

impl Pages {
    /// Ranges of the file to read, one per page, ascending; `None` if nothing is asked for.
    pub(super) fn reads(&self) -> Option<&[Range<u64>]> {
        (!self.reads.is_empty()).then_some(&self.reads)
    }

    /// Asks for those of these ascending pages that are not held; returns whether there are any.
    pub(super) fn ask(&mut self, index: &LabelIndex, pages: &[u32]) -> bool {
        if self.held.values().map(Vec::len).sum::<usize>() > STEP_MAX_BYTES {
            self.held.retain(|page, _| pages.contains(page));
        }
        self.asked = pages.iter().copied().filter(|page| !self.held.contains_key(page)).collect();
        self.reads = self.asked.iter().map(|&page| index.place(page).range()).collect();
        !self.asked.is_empty()
    }

    /// Takes the stored bytes of the pages that were asked for.
    pub(super) fn supply<B: AsRef<[u8]>>(
        &mut self,
        index: &LabelIndex,
        decoder: &mut Decoder,
        pieces: &[B],
    ) -> Result<(), SegmentError> {
        let asked = std::mem::take(&mut self.asked);
        self.reads.clear();
        if pieces.len() != asked.len() {
            return Err(fail("not all of its pages were read"));
        }
        for (page, piece) in asked.into_iter().zip(pieces) {
            let raw = decoder.label_page(&index.place(page), piece.as_ref())?;
            self.held.insert(page, raw);
        }
        Ok(())
    }

    /// The raw bytes of pages that are held.
    pub(super) fn raw<'p>(&'p self, pages: &'p [u32]) -> impl Iterator<Item = &'p [u8]> {
        pages.iter().filter_map(|page| self.held.get(page)).map(Vec::as_slice)
    }

    /// Forgets all pages.
    pub(super) fn clear(&mut self) {
        *self = Pages::default();
    }
}
