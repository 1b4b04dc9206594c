//! From the bytes of a push request to an uncompressed message: which decoder
//! the headers ask for, and decompression under a limit.
//!
//! | `Content-Type` | message |
//! |---|---|
//! | `application/json`, any case, any parameters | JSON |
//! | any other media type | a snappy block that holds protobuf |
//!
//! `Content-Encoding` (compared exactly) may add gzip, raw DEFLATE, zstd or LZ4 frames around
//! either. Whoever compresses with zstd or LZ4 has no use for snappy, so within these two protobuf
//! may be there without it. OTLP has rules of its own, see [`choose_otlp_decoder`]. No decompressor here allocates on the word of the
//! sender: a claimed size must be under the limit and possible for the input, and streams are
//! decompressed piece by piece.

mod flow;
mod unpack;

use crate::go::quote::quoted;

pub use flow::Flow;
pub use unpack::{Unpacker, unpack};

/// The encoding of the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageFormat {
    /// JSON text.
    Json,
    /// Protobuf in a snappy block; within zstd and LZ4 perhaps without.
    SnappyProtobuf,
    /// Protobuf as it is.
    Protobuf,
}

/// The compression around the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// Nothing.
    None,
    /// RFC 1952, one or several members.
    Gzip,
    /// RFC 1951, without a zlib wrapper.
    Deflate,
    /// RFC 8878, one or several frames.
    Zstd,
    /// LZ4 frames.
    Lz4,
}

/// How to read a push body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decoder {
    /// The encoding of the message.
    pub format: MessageFormat,
    /// The compression around it.
    pub compression: Compression,
}

/// Why a body cannot be decompressed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BodyError {
    /// The `Content-Type` is missing or malformed.
    #[error("mime: {0}")]
    MediaType(&'static str),
    /// The `Content-Encoding` is not known.
    #[error("Content-Encoding {} not supported", quoted(.0))]
    ContentEncoding(String),
    /// OTLP is sent as protobuf or JSON only.
    #[error("content type: {0} is not supported")]
    OtlpContentType(String),
    /// OTLP is compressed in three ways only.
    #[error("unsupported content encoding {0}: only gzip, lz4 and zstd are supported")]
    OtlpContentEncoding(String),
    /// Not zstd, or a frame that needs too much memory.
    #[error("zstd: corrupt input")]
    ZstdCorrupt,
    /// Not LZ4 frames.
    #[error("lz4: corrupt input")]
    Lz4Corrupt,
    /// Not gzip.
    #[error("gzip: invalid header")]
    GzipHeader,
    /// The gzip check sum or size does not match.
    #[error("gzip: invalid checksum")]
    GzipChecksum,
    /// Malformed DEFLATE data.
    #[error("flate: corrupt input")]
    FlateCorrupt,
    /// The compressed stream is cut off.
    #[error("unexpected EOF")]
    UnexpectedEof,
    /// There is no compressed stream.
    #[error("EOF")]
    Eof,
    /// Not a snappy block.
    #[error("snappy: corrupt input")]
    SnappyCorrupt,
    /// The message is larger than allowed.
    #[error("decompressed message size too large than max ({size_bytes} vs {max_bytes})")]
    TooLarge {
        /// Its size; one more than the limit where it is not known in advance.
        size_bytes: usize,
        /// The limit.
        max_bytes: usize,
    },
}

/// Chooses how to read a body by its headers.
pub fn choose_decoder(
    content_type: Option<&[u8]>,
    content_encoding: Option<&[u8]>,
) -> Result<Decoder, BodyError> {
    let media_type = media_type(content_type.unwrap_or_default())?;
    let json = media_type.eq_ignore_ascii_case(b"application/json");
    let format = if json { MessageFormat::Json } else { MessageFormat::SnappyProtobuf };
    let compression = match content_encoding.unwrap_or_default() {
        // The message itself says whether it is snappy.
        b"" | b"snappy" => Compression::None,
        b"gzip" => Compression::Gzip,
        b"deflate" => Compression::Deflate,
        b"zstd" => Compression::Zstd,
        b"lz4" => Compression::Lz4,
        other => {
            return Err(BodyError::ContentEncoding(String::from_utf8_lossy(other).into_owned()));
        }
    };
    Ok(Decoder { format, compression })
}

/// Chooses how to read an OTLP body by its headers, both of which are compared
/// exactly.
pub fn choose_otlp_decoder(
    content_type: Option<&[u8]>,
    content_encoding: Option<&[u8]>,
) -> Result<Decoder, BodyError> {
    let printed = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let format = match content_type.unwrap_or_default() {
        b"application/x-protobuf" => MessageFormat::Protobuf,
        b"application/json" => MessageFormat::Json,
        other => return Err(BodyError::OtlpContentType(printed(other))),
    };
    let compression = match content_encoding.unwrap_or_default() {
        b"" => Compression::None,
        b"gzip" => Compression::Gzip,
        b"zstd" => Compression::Zstd,
        b"lz4" => Compression::Lz4,
        other => return Err(BodyError::OtlpContentEncoding(printed(other))),
    };
    Ok(Decoder { format, compression })
}

/// Chooses how to read a body of text, which may be compressed in any way that is known.
pub fn choose_text_decoder(content_encoding: Option<&[u8]>) -> Result<Decoder, BodyError> {
    let compression = match content_encoding.unwrap_or_default() {
        b"" | b"identity" => Compression::None,
        b"gzip" | b"x-gzip" => Compression::Gzip,
        b"deflate" => Compression::Deflate,
        b"zstd" => Compression::Zstd,
        b"lz4" => Compression::Lz4,
        other => {
            return Err(BodyError::ContentEncoding(String::from_utf8_lossy(other).into_owned()));
        }
    };
    Ok(Decoder { format: MessageFormat::Json, compression })
}

/// The type without parameters: `token` or `token/token` (RFC 2045, as Go's
/// `mime.ParseMediaType` reads it). Parameters are ignored.
fn media_type(value: &[u8]) -> Result<&[u8], BodyError> {
    let end = memchr::memchr(b';', value).unwrap_or(value.len());
    let value = value[..end].trim_ascii();
    let token_len = |bytes: &[u8]| {
        let is_token = |byte: u8| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&byte);
        bytes.iter().position(|&byte| !is_token(byte)).unwrap_or(bytes.len())
    };
    let (kind, rest) = value.split_at(token_len(value));
    match (kind, rest) {
        (b"", _) => Err(BodyError::MediaType("no media type")),
        (_, b"") => Ok(value),
        (_, [b'/', subtype @ ..]) => match token_len(subtype) {
            0 => Err(BodyError::MediaType("expected token after slash")),
            len if len < subtype.len() => {
                Err(BodyError::MediaType("unexpected content after media subtype"))
            }
            _ => Ok(value),
        },
        _ => Err(BodyError::MediaType("expected slash after first token")),
    }
}

/// Two buffers for [`decode_body`]; keep and reuse them.
#[derive(Default, Debug)]
pub struct BodyBuffers {
    /// An output of an [`Unpacker`].
    pub unwrapped: Vec<u8>,
    message: Vec<u8>,
}

impl BodyBuffers {
    /// Memory held, in bytes; it counts against the budget for bodies.
    pub fn capacity_bytes(&self) -> usize {
        self.unwrapped.capacity() + self.message.capacity()
    }
}

/// Undoes all compression. Borrows `body` itself if there is none.
pub fn decode_body<'b>(
    decoder: Decoder,
    body: &'b [u8],
    buffers: &'b mut BodyBuffers,
    max_bytes: usize,
) -> Result<&'b [u8], BodyError> {
    buffers.decode(decoder, body, max_bytes)?;
    Ok(buffers.decoded(decoder, body))
}

impl BodyBuffers {
    /// Undoes all compression of a body; [`Self::decoded`] has the outcome.
    ///
    /// # Errors
    /// The body is malformed, or larger than `max_bytes` on the way. The latter may
    /// be tried again with a larger limit.
    pub fn decode(
        &mut self,
        decoder: Decoder,
        body: &[u8],
        max_bytes: usize,
    ) -> Result<(), BodyError> {
        if decoder.compression != Compression::None {
            unpack(decoder.compression, body, &mut self.unwrapped, max_bytes)?;
        }
        self.decode_unwrapped(decoder, body, max_bytes)
    }

    /// The second half of [`Self::decode`]: [`Self::unwrapped`] holds the contents of the body if
    /// the body is compressed.
    pub fn decode_unwrapped(
        &mut self,
        decoder: Decoder,
        body: &[u8],
        max_bytes: usize,
    ) -> Result<(), BodyError> {
        if self.is_in_snappy(decoder) {
            let block = match decoder.compression {
                Compression::None => body,
                _ => &self.unwrapped,
            };
            snappy_block_decode(block, &mut self.message, max_bytes)?;
        }
        Ok(())
    }

    /// Bytes that [`Self::decode_unwrapped`] will take for the message.
    ///
    /// # Errors
    /// There is no message.
    pub fn message_len(&self, decoder: Decoder, body: &[u8]) -> Result<usize, BodyError> {
        match decoder.compression {
            _ if !self.is_in_snappy(decoder) => Ok(0),
            Compression::None => snappy_block_len(body),
            _ => snappy_block_len(&self.unwrapped),
        }
    }

    /// Whether the unpacked body is a snappy block.
    ///
    /// Within zstd and LZ4 its first byte tells. The message of a push begins with the tag of its
    /// first stream. As a snappy block this byte would claim a message of ten bytes, which is
    /// shorter than a stream with one label.
    fn is_in_snappy(&self, decoder: Decoder) -> bool {
        /// Field 1, with a length (the encoding of protobuf).
        const STREAM_TAG: u8 = 0x0a;
        decoder.format == MessageFormat::SnappyProtobuf
            && match decoder.compression {
                Compression::None | Compression::Gzip | Compression::Deflate => true,
                Compression::Zstd | Compression::Lz4 => {
                    self.unwrapped.first().is_some_and(|&first| first != STREAM_TAG)
                }
            }
    }

    /// The message that the last [`Self::decode`] of this body made: `body` itself
    /// if it was not compressed.
    pub fn decoded<'b>(&'b self, decoder: Decoder, body: &'b [u8]) -> &'b [u8] {
        match decoder.compression {
            _ if self.is_in_snappy(decoder) => &self.message,
            Compression::None => body,
            _ => &self.unwrapped,
        }
    }
}

impl Decoder {
    /// A guess at the unpacked size of a compressed body.
    pub fn expected_unwrapped_len(self, body_len: u64) -> u64 {
        /// A larger ratio than that of compressed logs.
        const RATIO: u64 = 8;
        match self.compression {
            Compression::None => 0,
            _ => body_len.saturating_mul(RATIO).max(1),
        }
    }
}

/// The length of the message in a snappy block.
///
/// The block begins with the size it claims to decompress to. The densest
/// element is a copy of 64 bytes in three, so a claim beyond 64/3 of the input
/// is false, and is refused before memory is allocated.
pub fn snappy_block_len(block: &[u8]) -> Result<usize, BodyError> {
    let claimed_bytes = snap::raw::decompress_len(block).map_err(|_| BodyError::SnappyCorrupt)?;
    if block.is_empty() || claimed_bytes > block.len().saturating_mul(64) / 3 {
        return Err(BodyError::SnappyCorrupt);
    }
    Ok(claimed_bytes)
}

/// Decompresses a snappy block (not the framed stream format) into `out`,
/// replacing its content.
pub fn snappy_block_decode(
    body: &[u8],
    out: &mut Vec<u8>,
    max_bytes: usize,
) -> Result<(), BodyError> {
    let claimed_bytes = snappy_block_len(body)?;
    if claimed_bytes > max_bytes {
        return Err(BodyError::TooLarge { size_bytes: claimed_bytes, max_bytes });
    }
    // Old content stays in place, so that only growth is filled with zeros.
    out.resize(claimed_bytes, 0);
    let written =
        snap::raw::Decoder::new().decompress(body, out).map_err(|_| BodyError::SnappyCorrupt)?;
    out.truncate(written);
    Ok(())
}

#[cfg(test)]
mod tests;
