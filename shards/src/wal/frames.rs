//! Reads the frames of one log file in order, and finds the next good frame behind damage.
//!
//! Memory: one read-ahead chunk, or one frame if that is larger. A claimed length never allocates
//! more than the rest of the file. The shard that mends a file may cut it while another one reads
//! it: the reader sees the new end.

use std::io;

use logsvc_runtime::File;

use super::format::{FRAME_HEADER_LEN, FRAME_MAGIC_START, FrameHeader, WalName};

/// Bytes read at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Which frames are taken for the file's own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Frames {
    /// Frames with this nonce.
    Of(u64),
    /// Frames that may be of the log file of this name, whose header is damaged.
    MaybeOf(WalName),
    /// All: the header is damaged, and the file was never another one.
    Any,
}

impl Frames {
    fn decode(self, bytes: &[u8]) -> Option<FrameHeader> {
        match self {
            Frames::Of(nonce) => FrameHeader::decode(bytes, nonce),
            Frames::MaybeOf(name) => {
                FrameHeader::decode_any(bytes).filter(|header| name.may_have(header.nonce))
            }
            Frames::Any => FrameHeader::decode_any(bytes),
        }
    }
}

/// A window over a file that moves forward.
pub(crate) struct FrameReader<'f, F> {
    file: &'f F,
    frames: Frames,
    /// Bytes behind this offset are not looked at.
    end: u64,
    /// Offset of the first byte in `buffer`.
    base: u64,
    buffer: Vec<u8>,
}

impl<'f, F: File> FrameReader<'f, F> {
    /// A reader of `file`'s frames that looks at nothing behind `end`.
    pub(crate) fn new(file: &'f F, frames: Frames, end: u64) -> FrameReader<'f, F> {
        FrameReader { file, frames, end, base: 0, buffer: Vec::new() }
    }

    /// From this call on takes only frames with this nonce.
    pub(crate) fn adopt(&mut self, nonce: u64) {
        self.frames = Frames::Of(nonce);
    }

    /// The frame at `offset` and its payload; `None` if there is no good frame at `offset`.
    pub(crate) async fn frame_at(
        &mut self,
        offset: u64,
    ) -> io::Result<Option<(FrameHeader, &[u8])>> {
        let frames = self.frames;
        let bytes = self.bytes(offset, FRAME_HEADER_LEN).await?;
        let Some(header) = frames.decode(bytes) else { return Ok(None) };
        let payload_start = offset + FRAME_HEADER_LEN as u64;
        let payload = self.bytes(payload_start, header.payload_len as usize).await?;
        let whole = payload.len() == header.payload_len as usize;
        if !whole || crc32c::crc32c(payload) != header.payload_crc {
            return Ok(None);
        }
        Ok(Some((header, payload)))
    }

    /// Offset and header of the first good frame at or behind `from` whose number
    /// is at least `min_number`.
    pub(crate) async fn find_frame(
        &mut self,
        from: u64,
        min_number: u64,
    ) -> io::Result<Option<(u64, FrameHeader)>> {
        let mut offset = from;
        loop {
            let window = self.bytes(offset, CHUNK_BYTES).await?;
            if window.len() < FRAME_HEADER_LEN {
                return Ok(None);
            }
            let window_len = window.len() as u64;
            let Some(hit) = memchr::memmem::find(window, FRAME_MAGIC_START) else {
                // The magic may straddle the window's end.
                offset += window_len - (FRAME_MAGIC_START.len() as u64 - 1);
                continue;
            };
            let candidate = offset + hit as u64;
            match self.frame_at(candidate).await? {
                Some((header, _)) if header.number >= min_number => {
                    return Ok(Some((candidate, header)));
                }
                _ => offset = candidate + 1,
            }
        }
    }

    /// Up to `len` bytes at `offset`; fewer only at the end.
    pub(crate) async fn bytes(&mut self, offset: u64, len: usize) -> io::Result<&[u8]> {
        let available = self.end.saturating_sub(offset).min(len as u64) as usize;
        let have = (self.base + self.buffer.len() as u64).saturating_sub(offset);
        if offset < self.base || have < available as u64 {
            let want = (available.max(CHUNK_BYTES) as u64).min(self.end.saturating_sub(offset));
            let mut buffer = std::mem::take(&mut self.buffer);
            if offset >= self.base && have > 0 {
                buffer.drain(..(offset - self.base) as usize);
            } else {
                buffer.clear();
            }
            let read_at = offset + buffer.len() as u64;
            let missing = (want as usize).saturating_sub(buffer.len());
            let (result, returned) = self.file.read_exact_at(buffer, read_at, missing).await;
            self.buffer = returned;
            self.base = offset;
            match result {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.end = self.base + self.buffer.len() as u64;
                }
                other => other?,
            }
        }
        // Behind the end there is nothing, and the buffer may not reach up to it.
        let available = self.end.saturating_sub(offset).min(len as u64) as usize;
        let start = if available == 0 { 0 } else { (offset - self.base) as usize };
        Ok(&self.buffer[start..start + available])
    }
}
