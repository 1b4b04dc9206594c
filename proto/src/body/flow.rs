//! Unpacks a compressed body that comes in pieces, of any length.
//!
//! Guarantees: one call takes at most [`STEP_BYTES`] of the input if it is compressed, and appends
//! at most some MB, whatever the input claims. Failures are those of a body that is there as a
//! whole; a body that is cut off is told by [`Flow::finish`].

use std::io::{self, Write};

use flate2::write::MultiGzDecoder;
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, Operation};

use super::unpack::ZSTD_WINDOW_LOG_MAX;
use super::{BodyError, Compression};

/// Input of one call: DEFLATE makes at most about a thousand bytes out of one.
const STEP_BYTES: usize = 4 << 10;

/// Output of one call from zstd, which may make any number of bytes out of one.
const ZSTD_OUT_BYTES: usize = 256 << 10;

/// A body on its way.
pub struct Flow {
    kind: Kind,
    has_begun: bool,
}

enum Kind {
    Plain,
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    /// And whether a frame is complete.
    Zstd(Box<ZstdDecoder<'static>>, bool),
}

impl Flow {
    /// The start of a body; `None` if this compression cannot be undone in pieces.
    ///
    /// # Errors
    /// There is no memory for a decoder.
    pub fn new(compression: Compression) -> Result<Option<Flow>, BodyError> {
        let kind = match compression {
            Compression::None => Kind::Plain,
            Compression::Gzip => Kind::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))),
            Compression::Zstd => {
                let decoder = ZstdDecoder::new().and_then(|mut decoder| {
                    decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))?;
                    Ok(decoder)
                });
                Kind::Zstd(Box::new(decoder.map_err(|_| BodyError::ZstdCorrupt)?), false)
            }
            Compression::Deflate | Compression::Lz4 => return Ok(None),
        };
        Ok(Some(Flow { kind, has_begun: false }))
    }

    /// A body that is not compressed.
    pub fn plain() -> Flow {
        Flow { kind: Kind::Plain, has_begun: false }
    }

    /// Takes a part of `input` off its front and appends what it stands for. True if the next call
    /// may have more, of this input.
    ///
    /// # Errors
    /// The body is malformed.
    pub fn read(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<bool, BodyError> {
        self.has_begun |= !input.is_empty();
        let (now, later) = input.split_at(input.len().min(STEP_BYTES));
        match &mut self.kind {
            Kind::Plain => {
                out.extend_from_slice(input);
                *input = &[];
                Ok(false)
            }
            Kind::Gzip(decoder) => {
                decoder.write_all(now).map_err(|error| gzip_error(&error))?;
                out.append(decoder.get_mut());
                *input = later;
                Ok(!input.is_empty())
            }
            Kind::Zstd(decoder, is_complete) => {
                let start = out.len();
                out.resize(start + ZSTD_OUT_BYTES, 0);
                let ran = decoder.run_on_buffers(now, &mut out[start..]);
                let ran = ran.map_err(|_| BodyError::ZstdCorrupt)?;
                out.truncate(start + ran.bytes_written);
                let stands_still = ran.bytes_read + ran.bytes_written == 0;
                if stands_still && !now.is_empty() {
                    return Err(BodyError::ZstdCorrupt);
                }
                if !stands_still {
                    *is_complete = ran.remaining == 0;
                }
                *input = &input[ran.bytes_read..];
                Ok(!input.is_empty() || ran.bytes_written == ZSTD_OUT_BYTES)
            }
        }
    }

    /// Takes the end of the body, and appends the last bytes.
    ///
    /// # Errors
    /// The body is cut off, or there was none.
    pub fn finish(self, out: &mut Vec<u8>) -> Result<(), BodyError> {
        match self.kind {
            Kind::Plain => Ok(()),
            _ if !self.has_begun => Err(BodyError::Eof),
            Kind::Gzip(mut decoder) => {
                decoder.try_finish().map_err(|error| gzip_error(&error))?;
                out.append(decoder.get_mut());
                Ok(())
            }
            Kind::Zstd(_, is_complete) => {
                if is_complete {
                    Ok(())
                } else {
                    Err(BodyError::UnexpectedEof)
                }
            }
        }
    }
}

fn gzip_error(error: &io::Error) -> BodyError {
    let text = error.to_string();
    match error.kind() {
        io::ErrorKind::UnexpectedEof => BodyError::UnexpectedEof,
        // flate2 tells its failures apart by their texts only.
        _ if text.contains("header") => BodyError::GzipHeader,
        _ if text.contains("checksum") => BodyError::GzipChecksum,
        _ => BodyError::FlateCorrupt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let level = flate2::Compression::fast();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        zstd::stream::encode_all(text, 1).unwrap()
    }

    /// What comes out of a body in pieces of this length, and the most at once.
    fn flow(
        compression: Compression,
        body: &[u8],
        piece_len: usize,
    ) -> Result<(Vec<u8>, usize), BodyError> {
        let mut flow = Flow::new(compression)?.expect("it can be undone in pieces");
        let (mut whole, mut most) = (Vec::new(), 0);
        let mut out = Vec::new();
        for mut piece in body.chunks(piece_len) {
            loop {
                let goes_on = flow.read(&mut piece, &mut out)?;
                most = most.max(out.len());
                whole.append(&mut out);
                if !goes_on {
                    break;
                }
            }
        }
        flow.finish(&mut whole)?;
        Ok((whole, most))
    }

    #[test]
    fn a_body_comes_out_as_it_was_however_it_is_cut() {
        let text: Vec<u8> =
            (0..200_000_u32).flat_map(|n| n.wrapping_mul(n).to_le_bytes()).collect();
        let halves = text.split_at(100_000);
        for piece_len in [1000, 7001, 1 << 20] {
            let gzipped = [gzip(halves.0), gzip(halves.1)].concat();
            let zipped = [zstd(halves.0), zstd(halves.1)].concat();
            for (compression, body) in [
                (Compression::None, text.clone()),
                (Compression::Gzip, gzipped),
                (Compression::Zstd, zipped),
            ] {
                let (whole, _) = flow(compression, &body, piece_len).expect("a good body");
                assert!(whole == text, "{compression:?} {piece_len}");
                if compression == Compression::None {
                    continue;
                }
                let cut = flow(compression, &body[..body.len() - 3], piece_len);
                assert!(cut.is_err(), "{compression:?} {piece_len}");
                let mut bad = body.clone();
                bad[1] ^= 0x55;
                assert!(flow(compression, &bad, piece_len).is_err(), "{compression:?}");
                assert_eq!(flow(compression, b"", 1).expect_err("none"), BodyError::Eof);
            }
        }
        assert!(Flow::new(Compression::Lz4).unwrap().is_none());
    }

    #[test]
    fn a_bomb_comes_out_in_small_parts() {
        let bomb = vec![0; 200 << 20];
        for (compression, body) in
            [(Compression::Gzip, gzip(&bomb)), (Compression::Zstd, zstd(&bomb))]
        {
            let (whole, most) = flow(compression, &body, 1 << 20).expect("a good body");
            assert_eq!(whole.len(), bomb.len());
            assert!(most <= 8 << 20, "{compression:?}: {most}");
        }
    }
}
