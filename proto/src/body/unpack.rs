//! Unpacks a compressed message piece by piece, so that the caller can find memory for each piece,
//! and let other work run between them.

use std::io::{self, Read};

use flate2::bufread::{DeflateDecoder, MultiGzDecoder};
use lz4_flex::frame::FrameDecoder;

use super::{BodyError, Compression};

/// A zstd frame may ask for a window of this many bytes (as a power of two) while it
/// is read. The compression levels of all senders need no more.
pub(super) const ZSTD_WINDOW_LOG_MAX: u32 = 25;

/// A compressed body of which a part is unpacked.
pub struct Unpacker<'b>(Kind<'b>);

enum Kind<'b> {
    Gzip(MultiGzDecoder<&'b [u8]>),
    Deflate(DeflateDecoder<&'b [u8]>),
    Zstd(Box<zstd::stream::read::Decoder<'static, &'b [u8]>>),
    Lz4(Box<FrameDecoder<&'b [u8]>>),
}

impl<'b> Unpacker<'b> {
    /// The start of a body; `None` if nothing is wrapped around it.
    ///
    /// # Errors
    /// There is no body.
    pub fn new(
        compression: Compression,
        body: &'b [u8],
    ) -> Result<Option<Unpacker<'b>>, BodyError> {
        if body.is_empty() && compression != Compression::None {
            return Err(BodyError::Eof);
        }
        let kind = match compression {
            Compression::None => return Ok(None),
            Compression::Gzip => Kind::Gzip(MultiGzDecoder::new(body)),
            Compression::Deflate => Kind::Deflate(DeflateDecoder::new(body)),
            Compression::Zstd => {
                let decoder = zstd::stream::read::Decoder::with_buffer(body);
                let decoder = decoder.and_then(|mut decoder| {
                    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                    Ok(decoder)
                });
                Kind::Zstd(Box::new(decoder.map_err(|_| BodyError::ZstdCorrupt)?))
            }
            Compression::Lz4 => Kind::Lz4(Box::new(FrameDecoder::new(body))),
        };
        Ok(Some(Unpacker(kind)))
    }

    /// Whether the unpacker itself takes little memory, some 100 KB, so that many may be under
    /// way together.
    pub fn is_small(&self) -> bool {
        matches!(self.0, Kind::Gzip(_) | Kind::Deflate(_))
    }

    /// Appends up to `most_bytes` to `out`. True at the end of the body; there may be more
    /// only if `most_bytes` were appended.
    ///
    /// # Errors
    /// The body is malformed. The appended bytes mean nothing then.
    pub fn read(&mut self, out: &mut Vec<u8>, most_bytes: usize) -> Result<bool, BodyError> {
        let most = most_bytes as u64;
        let read = match &mut self.0 {
            Kind::Gzip(decoder) => decoder.take(most).read_to_end(out).map_err(gzip_error),
            Kind::Deflate(decoder) => decoder.take(most).read_to_end(out).map_err(|error| {
                // A body that is no DEFLATE data from the start, such as zlib-wrapped data, counts
                // as no data, as in Loki.
                if decoder.total_out() == 0 {
                    BodyError::Eof
                } else {
                    cut_off_or(&error, BodyError::FlateCorrupt)
                }
            }),
            Kind::Zstd(decoder) => decoder
                .take(most)
                .read_to_end(out)
                .map_err(|error| cut_off_or(&error, BodyError::ZstdCorrupt)),
            Kind::Lz4(decoder) => decoder
                .take(most)
                .read_to_end(out)
                .map_err(|error| cut_off_or(&error, BodyError::Lz4Corrupt)),
        };
        Ok(read? < most_bytes)
    }
}

fn gzip_error(error: io::Error) -> BodyError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => BodyError::UnexpectedEof,
        // flate2 tells its failures apart by their texts only.
        _ if error.to_string().contains("header") => BodyError::GzipHeader,
        _ if error.to_string().contains("checksum") => BodyError::GzipChecksum,
        _ => BodyError::FlateCorrupt,
    }
}

/// The error for a stream that cannot be read: a stream that is cut off has an error of its own,
/// any other one is `corrupt`.
fn cut_off_or(error: &io::Error, corrupt: BodyError) -> BodyError {
    if error.kind() == io::ErrorKind::UnexpectedEof { BodyError::UnexpectedEof } else { corrupt }
}

/// Unpacks a body into `out`, replacing its content.
///
/// # Errors
/// The body is malformed, or longer than `max_bytes` once it is unpacked.
pub fn unpack(
    compression: Compression,
    body: &[u8],
    out: &mut Vec<u8>,
    max_bytes: usize,
) -> Result<(), BodyError> {
    out.clear();
    let Some(mut unpacker) = Unpacker::new(compression, body)? else {
        out.extend_from_slice(body);
        return Ok(());
    };
    // One byte more tells whether there is more.
    unpacker.read(out, max_bytes.saturating_add(1))?;
    if out.len() > max_bytes {
        return Err(BodyError::TooLarge { size_bytes: out.len(), max_bytes });
    }
    Ok(())
}
