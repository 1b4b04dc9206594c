//! The codec, the compression and the checksum of a column's stored bytes.
//!
//! A compressor keeps its zstd context, because making one costs as much as compressing a
//! small block. A column that compression does not shrink is stored raw.

use std::borrow::Cow;
use std::fmt;

use logsvc_runtime::AlignedBuffer;

use super::template_store::{Plan, TemplateStore};
use super::templates::{self, LineParts, Timestamps};
use crate::error::WriteError;

/// How the stored bytes of a column encode its raw bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Codec {
    /// The raw bytes.
    Raw,
    /// One zstd frame.
    Zstd,
    /// Templates: numbers, and a zstd frame of the distinct texts between them. For lines only.
    Templates,
    /// Templates with times, which are stored relative to the block's timestamps.
    TimedTemplates,
}

impl Codec {
    /// The byte that names the codec in a file.
    pub fn to_byte(self) -> u8 {
        match self {
            Codec::Raw => 0,
            Codec::Zstd => 1,
            Codec::Templates => 3,
            Codec::TimedTemplates => 4,
        }
    }

    /// Reads the byte; `None` if it names no codec.
    pub fn from_byte(byte: u8) -> Option<Codec> {
        match byte {
            0 => Some(Codec::Raw),
            1 => Some(Codec::Zstd),
            3 => Some(Codec::Templates),
            4 => Some(Codec::TimedTemplates),
            _ => None,
        }
    }

    /// Whether the codec is for columns of lines only, of at most 1 MiB.
    #[inline]
    pub fn is_for_lines(self) -> bool {
        matches!(self, Codec::Templates | Codec::TimedTemplates)
    }

    /// Whether decoding lines needs the timestamps of their block.
    #[inline]
    pub fn needs_timestamps(self) -> bool {
        self == Codec::TimedTemplates
    }
}

/// Where a column is, and how to read it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnPlace {
    /// Offset in the file.
    pub offset: u64,
    /// Bytes in the file; 0 if the column is empty.
    pub stored_len: u32,
    /// Bytes after decompression.
    pub raw_len: u32,
    /// CRC-32C of the stored bytes.
    pub crc: u32,
    /// Codec of the stored bytes.
    pub codec: Codec,
}

impl ColumnPlace {
    /// Where the column is in the file.
    #[inline]
    pub fn range(&self) -> std::ops::Range<u64> {
        self.offset..self.offset + u64::from(self.stored_len)
    }

    /// Checks length and checksum of the column's stored bytes.
    ///
    /// # Errors
    /// If they are not the bytes that were written.
    pub fn check(&self, stored: &[u8]) -> Result<(), &'static str> {
        if stored.len() != self.stored_len as usize {
            return Err("not all of it was read");
        }
        if crc32c::crc32c(stored) != self.crc {
            return Err("the checksum does not match");
        }
        Ok(())
    }
}

/// Bytes that columns are appended to.
pub(crate) trait Appendable {
    /// Their number.
    fn len_bytes(&self) -> usize;
    /// Appends `bytes`.
    fn append_bytes(&mut self, bytes: &[u8]);
    /// Removes all bytes after the first `len_bytes`.
    fn cut(&mut self, len_bytes: usize);
}

macro_rules! appendable {
    ($buffer:ty) => {
        impl Appendable for $buffer {
            fn len_bytes(&self) -> usize {
                self.len()
            }

            fn append_bytes(&mut self, bytes: &[u8]) {
                self.extend_from_slice(bytes);
            }

            fn cut(&mut self, len_bytes: usize) {
                self.truncate(len_bytes);
            }
        }
    };
}

appendable!(Vec<u8>);
appendable!(AlignedBuffer);

/// Compresses columns at one level.
pub(crate) struct Compressor {
    zstd: zstd::bulk::Compressor<'static>,
    buffer: Vec<u8>,
    templates: TemplateStore,
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").field("buffer_bytes", &self.buffer.capacity()).finish()
    }
}

impl Compressor {
    /// A compressor of this zstd level.
    ///
    /// # Errors
    /// If the level does not exist or there is no memory for a context.
    pub(crate) fn new(level: i32) -> Result<Compressor, WriteError> {
        let zstd = zstd::bulk::Compressor::new(level).map_err(compression)?;
        Ok(Compressor { zstd, buffer: Vec::new(), templates: TemplateStore::new() })
    }

    /// Forgets the statistics of past blocks, before the first block of another segment.
    pub(crate) fn forget(&mut self) {
        self.templates.forget();
    }

    /// Like [`Self::store`], for lines that end at `ends` and have these timestamps. Stores
    /// them as templates if that takes fewer bytes.
    pub(crate) fn store_lines(
        &mut self,
        lines: &[u8],
        ends: &[u32],
        timestamps_ns: &[i64],
        out: &mut impl Appendable,
    ) -> Result<ColumnPlace, WriteError> {
        let raw_len = raw_len_of(lines)?;
        let plan = self.templates.plan(lines.len());
        if plan == Plan::Plain {
            return self.store(lines, out);
        }
        if self.templates.encode(lines, ends, timestamps_ns, &mut self.zstd)?.is_none() {
            return self.store(lines, out);
        }
        if plan == Plan::Templates && !self.templates.are_doubtful(lines.len()) {
            return Ok(append(self.templates.codec(), self.templates.stored(), raw_len, out));
        }
        let start = out.len_bytes();
        let place = self.store(lines, out)?;
        if !self.templates.note_trial(lines.len(), place.stored_len as usize) {
            return Ok(place);
        }
        out.cut(start);
        Ok(append(self.templates.codec(), self.templates.stored(), raw_len, out))
    }

    /// Blocks whose templates did not decode to their lines. These and all later blocks are
    /// stored without templates.
    pub(crate) fn refused_blocks(&self) -> u32 {
        self.templates.refused()
    }

    /// Bytes that buffers occupy.
    pub(crate) fn held_bytes(&self) -> usize {
        self.buffer.capacity() + self.templates.held_bytes()
    }

    /// Appends the stored bytes of `raw` to `out`, and returns their place; its offset counts
    /// from the beginning of `out`.
    pub(crate) fn store(
        &mut self,
        raw: &[u8],
        out: &mut impl Appendable,
    ) -> Result<ColumnPlace, WriteError> {
        let raw_len = raw_len_of(raw)?;
        self.buffer.clear();
        if raw.len() >= COMPRESSED_FROM_BYTES {
            self.buffer.reserve(zstd::zstd_safe::compress_bound(raw.len()));
            self.zstd.compress_to_buffer(raw, &mut self.buffer).map_err(compression)?;
        }
        let shrinks = !self.buffer.is_empty() && self.buffer.len() < raw.len();
        let (codec, stored) =
            if shrinks { (Codec::Zstd, &self.buffer[..]) } else { (Codec::Raw, raw) };
        let place = append(codec, stored, raw_len, out);
        if self.buffer.capacity() > BUFFER_KEPT_BYTES {
            self.buffer = Vec::new();
        }
        Ok(place)
    }

    /// Like [`Self::store`], without compression.
    pub(crate) fn store_raw(
        raw: &[u8],
        out: &mut impl Appendable,
    ) -> Result<ColumnPlace, WriteError> {
        Ok(append(Codec::Raw, raw, raw_len_of(raw)?, out))
    }

    /// The place of raw bytes that are at `offset`.
    pub(crate) fn stored_raw(raw: &[u8], offset: u64) -> Result<ColumnPlace, WriteError> {
        Ok(place(Codec::Raw, raw, raw_len_of(raw)?, offset))
    }
}

fn raw_len_of(raw: &[u8]) -> Result<u32, WriteError> {
    u32::try_from(raw.len()).map_err(|_| WriteError::Malformed("a column has more than 4 GiB"))
}

fn append(codec: Codec, stored: &[u8], raw_len: u32, out: &mut impl Appendable) -> ColumnPlace {
    let offset = out.len_bytes() as u64;
    out.append_bytes(stored);
    place(codec, stored, raw_len, offset)
}

fn place(codec: Codec, stored: &[u8], raw_len: u32, offset: u64) -> ColumnPlace {
    ColumnPlace {
        offset,
        stored_len: stored.len() as u32,
        raw_len,
        crc: crc32c::crc32c(stored),
        codec,
    }
}

/// Shorter columns are stored raw: an empty zstd frame takes 9 bytes.
const COMPRESSED_FROM_BYTES: usize = 32;

/// Larger buffers are released, so that one huge line does not keep its memory.
const BUFFER_KEPT_BYTES: usize = 4 << 20;

pub(super) fn compression(error: std::io::Error) -> WriteError {
    WriteError::Compression(error.to_string())
}

/// Decodes the stored bytes that a [`Compressor`] writes.
pub(crate) struct Decompressor {
    zstd: zstd::bulk::Decompressor<'static>,
    templates: templates::Scratch,
}

impl fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decompressor").finish_non_exhaustive()
    }
}

impl Decompressor {
    pub(crate) fn new() -> Decompressor {
        Decompressor { zstd: zstd::bulk::Decompressor::default(), templates: Default::default() }
    }

    /// The raw bytes of a column with these stored bytes. Allocates at most `place.raw_len`
    /// bytes, which the checks of the directory bound.
    pub(crate) fn load<'a>(
        &mut self,
        place: &ColumnPlace,
        stored: &'a [u8],
    ) -> Result<Cow<'a, [u8]>, &'static str> {
        self.load_timed(place, stored, &[])
    }

    /// Like [`Self::load`], for lines. `timestamps_ns` are those of the block; they may be
    /// empty if the codec does not need them.
    pub(crate) fn load_timed<'a>(
        &mut self,
        place: &ColumnPlace,
        stored: &'a [u8],
        timestamps_ns: &[i64],
    ) -> Result<Cow<'a, [u8]>, &'static str> {
        place.check(stored)?;
        let raw_len = place.raw_len as usize;
        match place.codec {
            Codec::Raw if stored.len() == raw_len => Ok(Cow::Borrowed(stored)),
            Codec::Raw => Err("its raw length is wrong"),
            Codec::Zstd => {
                let mut raw = Vec::new();
                decompress(&mut self.zstd, stored, raw_len, &mut raw)?;
                Ok(Cow::Owned(raw))
            }
            Codec::Templates | Codec::TimedTemplates => {
                let timestamps = match place.codec.needs_timestamps() {
                    true => Timestamps::Of(timestamps_ns),
                    false => Timestamps::None,
                };
                let Decompressor { zstd, templates: scratch } = self;
                let decompress = |text: &[u8], len, out: &mut _| decompress(zstd, text, len, out);
                let malformed = |_| "its templates do not fit";
                templates::decode(stored, raw_len, timestamps, scratch, decompress, malformed)
                    .map(Cow::Owned)
            }
        }
    }

    /// The parts of lines that are stored as templates; `None` for other codecs. Allocates at
    /// most a few times `place.raw_len`.
    pub(crate) fn load_parts(
        &mut self,
        place: &ColumnPlace,
        stored: &[u8],
    ) -> Result<Option<LineParts>, &'static str> {
        place.check(stored)?;
        if !place.codec.is_for_lines() {
            return Ok(None);
        }
        let (raw_len, has_times) = (place.raw_len as usize, place.codec.needs_timestamps());
        let Decompressor { zstd, templates: scratch } = self;
        let decompress = |text: &[u8], len, out: &mut _| decompress(zstd, text, len, out);
        let malformed = |_| "its templates do not fit";
        LineParts::new(stored, raw_len, has_times, scratch, decompress, malformed)
    }
}

/// Appends `raw_len` bytes to an empty buffer.
fn decompress(
    zstd: &mut zstd::bulk::Decompressor<'static>,
    frame: &[u8],
    raw_len: usize,
    out: &mut Vec<u8>,
) -> Result<(), &'static str> {
    // The decompressor fills a buffer up to its capacity, and refuses a longer text.
    out.reserve_exact(raw_len);
    zstd.decompress_to_buffer(frame, out).map_err(|_| "it does not decompress")?;
    if out.len() == raw_len { Ok(()) } else { Err("its raw length is wrong") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    #[test]
    fn what_shrinks_is_compressed_and_the_rest_stored_raw() {
        let mut rng = Rng::new(3);
        let random: Vec<u8> = (0..10_000).map(|_| rng.next_u64() as u8).collect();
        let text = b"the same words again and again, ".repeat(300);
        let mut compressor = Compressor::new(1).unwrap();
        let mut decompressor = Decompressor::new();
        let mut out = b"before".to_vec();
        for (raw, codec) in
            [(&random[..], Codec::Raw), (&text, Codec::Zstd), (b"", Codec::Raw), (b"x", Codec::Raw)]
        {
            let place = compressor.store(raw, &mut out).unwrap();
            assert_eq!(place.codec, codec);
            let stored = &out[place.range().start as usize..place.range().end as usize];
            assert!(stored.len() <= raw.len());
            assert_eq!(decompressor.load(&place, stored).unwrap(), raw);
        }
    }

    #[test]
    fn a_block_that_does_not_come_back_ends_templates() {
        let mut rng = Rng::new(9);
        let mut ends = Vec::new();
        let mut lines = Vec::new();
        for _ in 0..1000 {
            lines.extend_from_slice(format!("id={:016x} is here\n", rng.next_u64()).as_bytes());
            ends.push(lines.len() as u32);
        }
        let mut compressor = Compressor::new(1).unwrap();
        compressor.templates.damaged_from_block = 2;
        let mut decompressor = Decompressor::new();
        for codec in [Codec::Templates, Codec::Templates, Codec::Zstd, Codec::Zstd] {
            let mut out = Vec::new();
            let place =
                compressor.store_lines(&lines, &ends, &vec![0; ends.len()], &mut out).unwrap();
            assert_eq!(place.codec, codec);
            assert_eq!(decompressor.load(&place, &out).unwrap(), lines);
        }
        // Templates were not tried for the last block.
        assert_eq!(compressor.refused_blocks(), 1);
    }

    #[test]
    fn a_block_that_templates_shrink_less_is_tried_both_ways() {
        let mut rng = Rng::new(4);
        let mut block_of = |line: &mut dyn FnMut(&mut Rng) -> Vec<u8>, count: usize| {
            let (mut lines, mut ends) = (Vec::new(), Vec::new());
            for _ in 0..count {
                lines.extend_from_slice(&line(&mut rng));
                ends.push(lines.len() as u32);
            }
            (lines, ends)
        };
        let numbers = block_of(
            &mut |rng| {
                let mut number = || rng.below(1000);
                format!("read={} written={} took {} ms", number(), number(), number()).into_bytes()
            },
            2000,
        );
        // Lines without numbers, all different.
        let letters =
            block_of(&mut |rng| (0..150).map(|_| b'g' + rng.below(19) as u8).collect(), 600);
        let mut compressor = Compressor::new(1).unwrap();
        let mut codec_of = |(lines, ends): &(Vec<u8>, Vec<u32>)| {
            let times = vec![0; ends.len()];
            compressor.store_lines(lines, ends, &times, &mut Vec::new()).unwrap().codec
        };
        assert_eq!([codec_of(&numbers), codec_of(&numbers)], [Codec::Templates; 2]);
        assert_eq!(codec_of(&letters), Codec::Zstd, "long before the next trial by plan");
        // Fifteen blocks follow without templates, then both are tried again.
        for _ in 0..15 {
            assert_eq!(codec_of(&numbers), Codec::Zstd);
        }
        assert_eq!(codec_of(&numbers), Codec::Templates);
    }

    #[test]
    fn every_changed_byte_and_every_wrong_length_is_found() {
        let raw = b"abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc".repeat(3);
        let mut stored = Vec::new();
        let place = Compressor::new(1).unwrap().store(&raw, &mut stored).unwrap();
        let mut decompressor = Decompressor::new();
        for at in 0..stored.len() {
            stored[at] ^= 4;
            assert!(decompressor.load(&place, &stored).is_err());
            stored[at] ^= 4;
            assert!(decompressor.load(&place, &stored[..at]).is_err());
        }
        for raw_len in [0, place.raw_len - 1, place.raw_len + 1] {
            assert!(decompressor.load(&ColumnPlace { raw_len, ..place }, &stored).is_err());
        }
    }

    #[test]
    fn arbitrary_frames_never_grow_beyond_their_raw_length() {
        let mut decompressor = Decompressor::new();
        for seed in seeds(2000) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let mut stored = Vec::new();
            let raw = vec![b'x'; rng.between(40, 500) as usize];
            let mut place = Compressor::new(1).unwrap().store(&raw, &mut stored).unwrap();
            for _ in 0..rng.between(1, 3) {
                let at = rng.below(stored.len() as u64) as usize;
                stored[at] ^= 1 << rng.below(8);
            }
            place.crc = crc32c::crc32c(&stored);
            if let Ok(read) = decompressor.load(&place, &stored) {
                assert_eq!(read.len(), raw.len());
            }
        }
    }
}
