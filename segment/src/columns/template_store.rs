//! Decides for each block of a writer whether its lines are stored as templates, encodes them
//! and verifies the result.
//!
//! The log is deleted once a segment is live, so the stored lines must be the original ones.
//! Fuzzing, property tests and all builds with debug assertions decode every block and compare
//! it with its lines. Decoding is a quarter of the work of encoding, therefore other builds
//! compare a sample of the blocks, by a fixed rule. It finds systematic faults: of the
//! compiler, of the machine, or of the codec on lines that no test has. After a difference a
//! writer stores no more templates.

use super::compress::{Codec, compression};
use super::templates::{self, Encoded, Encoder, MAX_RAW_BYTES, Timestamps};
use crate::error::WriteError;

/// Templates and zstd alone are both tried once in so many blocks, since adjacent blocks have
/// similar lines.
const TRIED_EVERY_BLOCKS: usize = 16;

/// Both are tried once in so many blocks after templates have won clearly, and at the first
/// block that templates shrink much less than that block. Each try costs a compression.
const TRIED_AFTER_CLEAR_BLOCKS: usize = 96;

/// So many first blocks of a writer are verified.
const COMPARED_FIRST_BLOCKS: usize = 4;
/// One in so many of the other blocks is verified.
const COMPARED_EVERY_BLOCKS: usize = 16;

/// Smaller blocks are stored without templates: their columns would have too few numbers.
const FROM_BYTES: usize = 16 << 10;

/// The encoder of templates, and the statistics by which it is used.
pub(super) struct TemplateStore {
    encoder: Encoder,
    /// The stored form of the last block.
    stored: Vec<u8>,
    /// Whether the last block has times.
    has_times: bool,
    frame: Vec<u8>,
    /// Blocks so far.
    blocks: usize,
    /// Whether templates beat zstd alone at the last comparison.
    pays: bool,
    /// Number of the next block for which both are compared.
    next_trial: usize,
    /// The ratio of templates at the last comparison, if they won clearly.
    clear: Option<Shrunk>,
    /// Blocks that did not decode to their lines.
    refused: u32,
    /// Blocks from this number on are damaged before they are verified.
    #[cfg(test)]
    pub(super) damaged_from_block: usize,
}

/// Bytes of a block's lines, and bytes of their stored form.
#[derive(Clone, Copy)]
struct Shrunk {
    from_bytes: usize,
    to_bytes: usize,
}

impl Shrunk {
    /// Whether it takes a quarter more bytes per byte of lines than `other`.
    fn is_much_worse_than(self, other: Shrunk) -> bool {
        let product = |a: usize, b: usize| a as u64 * b as u64;
        4 * product(self.to_bytes, other.from_bytes) > 5 * product(other.to_bytes, self.from_bytes)
    }
}

/// The forms that are tried for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Zstd alone.
    Plain,
    /// Templates alone, or zstd if the lines cannot be stored as templates.
    Templates,
    /// Both; the smaller one is stored.
    Both,
}

impl TemplateStore {
    pub(super) fn new() -> TemplateStore {
        TemplateStore {
            encoder: Encoder::new(),
            stored: Vec::new(),
            has_times: false,
            frame: Vec::new(),
            blocks: 0,
            pays: true,
            next_trial: 0,
            clear: None,
            refused: 0,
            #[cfg(test)]
            damaged_from_block: usize::MAX,
        }
    }

    /// Forgets the blocks of the last segment, so that the bytes of a segment depend on its own
    /// blocks alone.
    pub(super) fn forget(&mut self) {
        (self.blocks, self.pays, self.refused) = (0, true, 0);
        (self.next_trial, self.clear) = (0, None);
        self.encoder.forget();
    }

    /// The forms to try for the next block, whose lines have `line_bytes` bytes.
    pub(super) fn plan(&mut self, line_bytes: usize) -> Plan {
        if self.refused > 0 || !(FROM_BYTES..=MAX_RAW_BYTES).contains(&line_bytes) {
            return Plan::Plain;
        }
        let tries_both = self.blocks >= self.next_trial;
        if tries_both {
            self.next_trial = self.blocks + TRIED_EVERY_BLOCKS;
        }
        self.blocks += 1;
        match tries_both {
            true => Plan::Both,
            false if self.pays => Plan::Templates,
            false => Plan::Plain,
        }
    }

    /// Whether templates have shrunk the last block so little that zstd alone must be tried too,
    /// although that was not planned.
    pub(super) fn are_doubtful(&self, line_bytes: usize) -> bool {
        let last = Shrunk { from_bytes: line_bytes, to_bytes: self.stored.len() };
        self.clear.is_some_and(|clear| last.is_much_worse_than(clear))
    }

    /// Encodes lines with these timestamps; `None` if they cannot be stored as templates, or if the
    /// encoded block does not decode to them.
    pub(super) fn encode(
        &mut self,
        lines: &[u8],
        ends: &[u32],
        timestamps_ns: &[i64],
        zstd: &mut zstd::bulk::Compressor<'static>,
    ) -> Result<Option<&[u8]>, WriteError> {
        let is_compared = self.is_compared();
        let TemplateStore { encoder, stored, frame, .. } = self;
        stored.clear();
        let Some(Encoded { text, has_times }) = encoder.encode(lines, ends, timestamps_ns, stored)
        else {
            return Ok(None);
        };
        self.has_times = has_times;
        #[cfg(test)]
        if self.blocks > self.damaged_from_block {
            stored[0] ^= 1;
        }
        if is_compared {
            let as_text = |_: &[u8], _, out: &mut Vec<u8>| {
                out.extend_from_slice(text);
                Ok(())
            };
            let timestamps =
                if has_times { Timestamps::Of(timestamps_ns) } else { Timestamps::None };
            let (len, malformed) = (lines.len(), |malformed| malformed);
            let scratch = &mut templates::Scratch::default();
            let joined = templates::decode(stored, len, timestamps, scratch, as_text, malformed);
            if joined.as_deref() != Ok(lines) {
                self.refused += 1;
                return Ok(None);
            }
        }
        frame.clear();
        frame.reserve(zstd::zstd_safe::compress_bound(text.len()));
        zstd.compress_to_buffer(text, frame).map_err(compression)?;
        stored.extend_from_slice(frame);
        Ok((stored.len() < lines.len()).then_some(stored))
    }

    /// Notes the size of the last block with zstd alone; returns whether templates are smaller.
    pub(super) fn note_trial(&mut self, line_bytes: usize, plain_bytes: usize) -> bool {
        let to_bytes = self.stored.len();
        self.pays = to_bytes < plain_bytes;
        let is_clear = to_bytes * 4 < plain_bytes * 3;
        self.clear = is_clear.then_some(Shrunk { from_bytes: line_bytes, to_bytes });
        let pause = if is_clear { TRIED_AFTER_CLEAR_BLOCKS } else { TRIED_EVERY_BLOCKS };
        // `plan` has counted the block.
        self.next_trial = self.blocks - 1 + pause;
        self.pays
    }

    /// Whether the last planned block is verified.
    fn is_compared(&self) -> bool {
        let last = self.blocks - 1;
        cfg!(debug_assertions)
            || last < COMPARED_FIRST_BLOCKS
            || last.is_multiple_of(COMPARED_EVERY_BLOCKS)
    }

    /// The stored form of the last block.
    pub(super) fn stored(&self) -> &[u8] {
        &self.stored
    }

    /// Its codec.
    pub(super) fn codec(&self) -> Codec {
        if self.has_times { Codec::TimedTemplates } else { Codec::Templates }
    }

    /// Blocks that did not decode to their lines.
    pub(super) fn refused(&self) -> u32 {
        self.refused
    }

    /// Bytes that buffers occupy.
    pub(super) fn held_bytes(&self) -> usize {
        self.encoder.held_bytes() + self.stored.capacity() + self.frame.capacity()
    }
}
