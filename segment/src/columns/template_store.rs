//! When lines are stored as templates: decides, encodes and checks, one block of a writer
//! after another.
//!
//! The log is given up once a segment is live, so what is stored must be what was there.
//! The codec's bodies for fuzzing and its property tests compare every block; so does every
//! build with debug assertions. Decoding again what was just encoded is a quarter of the
//! work, therefore other builds compare a sample, by a fixed rule. It finds what is
//! systematic, such as a fault of the compiler, of the machine, or lines of a kind that
//! nobody has thought of. A writer that finds a block to differ stores no more templates.

use super::compress::{Codec, compression};
use super::templates::{self, Encoded, Encoder, MAX_RAW_BYTES, Timestamps};
use crate::error::WriteError;

/// Templates and zstd alone are both tried once in so many blocks: neighbours are alike.
const TRIED_EVERY_BLOCKS: usize = 16;

/// The same where templates have won clearly, unless they shrink a block much less than
/// that one: making the other form, too, is a good part of the work of encoding.
const TRIED_AFTER_CLEAR_BLOCKS: usize = 96;

/// The first blocks of a writer are compared, as many as this.
const COMPARED_FIRST_BLOCKS: usize = 4;
/// Of the others one in so many is compared.
const COMPARED_EVERY_BLOCKS: usize = 16;

/// Smaller blocks do without: columns would hold too few numbers.
const FROM_BYTES: usize = 16 << 10;

/// What storing lines as templates needs.
pub(super) struct TemplateStore {
    encoder: Encoder,
    /// The stored form of the last block.
    stored: Vec<u8>,
    /// Whether it has times.
    has_times: bool,
    frame: Vec<u8>,
    /// Blocks so far.
    blocks: usize,
    /// Whether they beat zstd alone when both were tried last.
    pays: bool,
    /// The block that is next to be tried both ways, by its number.
    next_trial: usize,
    /// If templates have won clearly, what they made of a block then.
    clear: Option<Shrunk>,
    /// Blocks that did not decode to their lines.
    refused: u32,
    /// Blocks from this one on are damaged before they are compared.
    #[cfg(test)]
    pub(super) damaged_from_block: usize,
}

/// Bytes of a block's lines, and of what they are stored as.
#[derive(Clone, Copy)]
struct Shrunk {
    from_bytes: usize,
    to_bytes: usize,
}

impl Shrunk {
    /// Whether this takes a quarter more bytes for its lines than another.
    fn is_much_worse_than(self, other: Shrunk) -> bool {
        let product = |a: usize, b: usize| a as u64 * b as u64;
        4 * product(self.to_bytes, other.from_bytes) > 5 * product(other.to_bytes, self.from_bytes)
    }
}

/// What to do with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Zstd alone.
    Plain,
    /// Templates, if there are any.
    Templates,
    /// Both, to see which is smaller.
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

    /// Begins with another segment: its bytes follow from its own blocks.
    pub(super) fn forget(&mut self) {
        (self.blocks, self.pays, self.refused) = (0, true, 0);
        (self.next_trial, self.clear) = (0, None);
        self.encoder.forget();
    }

    /// What to do with the next block, whose lines have so many bytes.
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

    /// Whether templates have shrunk the last block, of so many bytes, so little that it has
    /// to be tried both ways although that was not planned.
    pub(super) fn are_doubtful(&self, line_bytes: usize) -> bool {
        let last = Shrunk { from_bytes: line_bytes, to_bytes: self.stored.len() };
        self.clear.is_some_and(|clear| last.is_much_worse_than(clear))
    }

    /// Makes the stored form of lines with these timestamps; `None` if there is none, or if
    /// it is not what it should be.
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
            let as_text = |_: &[u8], _| Ok(text.to_vec());
            let timestamps =
                if has_times { Timestamps::Of(timestamps_ns) } else { Timestamps::None };
            let joined =
                templates::decode(stored, lines.len(), timestamps, as_text, |malformed| malformed);
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

    /// Tells what zstd alone has made of the last block, of so many bytes; returns whether
    /// templates are smaller.
    pub(super) fn note_trial(&mut self, line_bytes: usize, plain_bytes: usize) -> bool {
        let to_bytes = self.stored.len();
        self.pays = to_bytes < plain_bytes;
        let is_clear = to_bytes * 4 < plain_bytes * 3;
        self.clear = is_clear.then_some(Shrunk { from_bytes: line_bytes, to_bytes });
        let pause = if is_clear { TRIED_AFTER_CLEAR_BLOCKS } else { TRIED_EVERY_BLOCKS };
        // The block was counted when it was planned.
        self.next_trial = self.blocks - 1 + pause;
        self.pays
    }

    /// Whether the block is compared that was planned last.
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
