//! Reads the frames of a log file whose bytes come piece by piece, as a bucket has them.
//!
//! A piece is what was written at once, the headers or one frame without the zeros behind it; or a part
//! of that, and then the rest follows.
//!
//! Guarantees: a file is read from its beginning on, and every frame is there, in its place, and checks.
//! Anything else is an error: these bytes were acknowledged, and there is no torn tail in a bucket.
//! Behind an error nothing of the file may be believed.
//!
//! Memory: the bytes of one frame, and of a longer one at most those that came.

use super::format::{FILE_HEADER_LEN, FRAME_HEADER_LEN, FileHeader, FrameHeader, Layout, WalName};

/// Memory is kept for the next frame up to this size.
const KEPT_BYTES: usize = 1 << 20;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct PiecedFile {
    /// Nonce and layout, as the header says.
    header: Option<(u64, Layout)>,
    /// Bytes that were not given yet, behind those that were.
    waiting: Vec<u8>,
    /// How many of these were given.
    given: usize,
    /// Where in the file `waiting` begins, or the next piece if there is nothing.
    at: u64,
    /// The number of the next frame.
    number: u64,
}

impl PiecedFile {
    /// Where in the file the first byte is that was not given.
    pub(crate) fn position(&self) -> u64 {
        self.at + self.given as u64
    }

    /// Whether a header or a frame has begun and not ended, after all frames were taken.
    pub(crate) fn is_cut(&self) -> bool {
        self.waiting.len() > self.given
    }

    /// Takes the next piece. All frames of the one before have to be taken.
    ///
    /// # Errors
    /// It is not the next one.
    pub(crate) fn add(&mut self, offset: u64, bytes: &[u8]) -> Result<(), String> {
        self.forget_given();
        let expected = self.at + self.waiting.len() as u64;
        if offset != expected {
            return Err(match (self.is_cut(), self.header) {
                (true, _) => "it is cut short".to_owned(),
                (false, None) => "the beginning of the file is missing".to_owned(),
                (false, Some(_)) => format!("byte {offset} follows"),
            });
        }
        self.waiting.extend_from_slice(bytes);
        Ok(())
    }

    /// The payload of the next frame; `None` if another piece has to come first. `name` is the
    /// file's.
    ///
    /// # Errors
    /// Something does not check.
    pub(crate) fn next_frame(&mut self, name: WalName) -> Result<Option<&[u8]>, String> {
        self.forget_given();
        let Some((nonce, layout)) = self.read_header(name)? else { return Ok(None) };
        let Some(header) = self.waiting.get(..FRAME_HEADER_LEN) else { return Ok(None) };
        let header = FrameHeader::decode(header, nonce);
        let header =
            header.filter(|header| (header.number, header.layout) == (self.number, layout));
        let header = header.ok_or("the header of a frame does not check")?;
        let end = FRAME_HEADER_LEN + header.payload_len as usize;
        let Some(payload) = self.waiting.get(FRAME_HEADER_LEN..end) else { return Ok(None) };
        if crc32c::crc32c(payload) != header.payload_crc {
            return Err("the frame does not match its checksum".to_owned());
        }
        self.given = end;
        self.number = self.number.saturating_add(1);
        Ok(Some(payload))
    }

    /// Nonce and layout, once the headers are there.
    fn read_header(&mut self, name: WalName) -> Result<Option<(u64, Layout)>, String> {
        if self.header.is_none() {
            let Some(bytes) = self.waiting.get(..FILE_HEADER_LEN) else { return Ok(None) };
            let header = FileHeader::decode(bytes).filter(|header| header.name == name);
            let header = header.ok_or("the file's header does not check")?;
            self.header = Some((header.nonce, header.layout));
        }
        let Some((nonce, layout)) = self.header else { return Ok(None) };
        let before = layout.first_frame().saturating_sub(self.at);
        if before > self.waiting.len() as u64 {
            return Ok(None);
        }
        self.waiting.drain(..before as usize);
        self.at += before;
        Ok(Some((nonce, layout)))
    }

    fn forget_given(&mut self) {
        let given = std::mem::take(&mut self.given);
        self.waiting.drain(..given);
        self.at += given as u64;
        if let (Some((_, layout)), true, true) = (self.header, given > 0, self.waiting.is_empty()) {
            self.at = layout.position_behind(self.at);
            self.waiting.shrink_to(KEPT_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    const NAME: WalName = WalName { epoch: 3, shards: 1, shard: 0, index: 2 };

    /// The pieces of a file with these payloads.
    fn pieces(layout: Layout, payloads: &[Vec<u8>]) -> Vec<(u64, Vec<u8>)> {
        let header = FileHeader {
            name: NAME,
            nonce: 77,
            created_ns: 5,
            layout,
            is_reused: false,
            previous: None,
        };
        let mut pieces = vec![(0, header.encode())];
        let mut offset = layout.first_frame();
        for (number, payload) in payloads.iter().enumerate() {
            let header = FrameHeader {
                nonce: 77,
                number: number as u64,
                durable_len: offset,
                payload_len: payload.len() as u32,
                payload_crc: crc32c::crc32c(payload),
                layout,
            };
            let frame = [&header.encode(), payload.as_slice()].concat();
            let end = offset + frame.len() as u64;
            pieces.push((offset, frame));
            offset = layout.position_behind(end);
        }
        pieces
    }

    fn read(pieces: &[(u64, Vec<u8>)]) -> Result<(Vec<Vec<u8>>, bool), String> {
        let (mut file, mut read) = (PiecedFile::default(), Vec::new());
        for (offset, bytes) in pieces {
            file.add(*offset, bytes)?;
            while let Some(payload) = file.next_frame(NAME)? {
                read.push(payload.to_vec());
            }
        }
        Ok((read, file.is_cut()))
    }

    #[test]
    fn frames_come_however_pieces_are_cut_and_nothing_is_missing_unnoticed() {
        for seed in seeds(300) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let layout = *rng.pick(&[Layout::Packed, Layout::Padded]);
            let payloads: Vec<Vec<u8>> = (0..rng.between(1, 5))
                .map(|_| {
                    let len = rng.below(9_000) as usize;
                    rng.bytes(len)
                })
                .collect();
            let whole = pieces(layout, &payloads);
            assert_eq!(read(&whole), Ok((payloads.clone(), false)));
            let mut cut = Vec::new();
            for (offset, bytes) in &whole {
                let at = rng.below(bytes.len() as u64 + 1) as usize;
                cut.push((*offset, bytes[..at].to_vec()));
                cut.push((*offset + at as u64, bytes[at..].to_vec()));
            }
            assert_eq!(read(&cut), Ok((payloads.clone(), false)));
            // The end of it may be missing, and is known to be if that is within a frame.
            let end = rng.index(cut.len());
            let (found, is_cut) = read(&cut[..end]).expect("the beginning");
            assert!(payloads.starts_with(&found));
            assert_eq!(
                is_cut,
                end % 2 == 1 && !cut[end - 1].1.is_empty() && !cut[end].1.is_empty()
            );
            // Anything else is noticed.
            let mut less = cut.clone();
            less.remove(rng.index(cut.len() - 2));
            match read(&less) {
                Err(_) => {}
                found => assert_eq!(found, Ok((payloads.clone(), false)), "it was empty"),
            }
            let mut damaged = whole.clone();
            let piece = 1 + rng.index(damaged.len() - 1);
            let byte = rng.index(damaged[piece].1.len());
            damaged[piece].1[byte] ^= 1 << rng.below(8);
            read(&damaged).expect_err("a checksum covers it");
            let mut other = whole.clone();
            other[0].1[20] ^= 1;
            read(&other).expect_err("another file's header");
        }
    }
}
