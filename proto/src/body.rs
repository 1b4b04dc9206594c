//! From the bytes of a push request to an uncompressed message: which decoder
//! the headers ask for, and decompression under a limit.
//!
//! | `Content-Type` | message |
//! |---|---|
//! | `application/json`, any case, any parameters | JSON |
//! | any other media type | a snappy block that holds protobuf |
//!
//! `Content-Encoding` (compared exactly) may add gzip or raw DEFLATE around
//! either. No decompressor here allocates on the word of the sender: a claimed
//! size must be under the limit and possible for the input, and streams are
//! decompressed piece by piece.

use std::io::{self, Read};

use flate2::bufread::{DeflateDecoder, MultiGzDecoder};

use crate::labels::go_quoted;

/// What the message is written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageFormat {
    /// JSON text.
    Json,
    /// Protobuf in a snappy block.
    SnappyProtobuf,
}

/// What is wrapped around the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// Nothing.
    None,
    /// RFC 1952, one or several members.
    Gzip,
    /// RFC 1951, without a zlib wrapper.
    Deflate,
}

/// How to read a push body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decoder {
    /// What the message is written in.
    pub format: MessageFormat,
    /// What is wrapped around it.
    pub compression: Compression,
}

/// Why a body cannot be decompressed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BodyError {
    /// The `Content-Type` is missing or malformed.
    #[error("mime: {0}")]
    MediaType(&'static str),
    /// The `Content-Encoding` is none of those known.
    #[error("Content-Encoding {} not supported", go_quoted(.0))]
    ContentEncoding(String),
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
        other => {
            return Err(BodyError::ContentEncoding(String::from_utf8_lossy(other).into_owned()));
        }
    };
    Ok(Decoder { format, compression })
}

/// The type without parameters: `token` or `token/token` (RFC 2045, as Go's
/// `mime.ParseMediaType` reads it). Parameters are not looked at.
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
    unwrapped: Vec<u8>,
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
        match decoder.compression {
            Compression::None => {}
            Compression::Gzip => gunzip(body, &mut self.unwrapped, max_bytes)?,
            Compression::Deflate => inflate(body, &mut self.unwrapped, max_bytes)?,
        }
        if decoder.format == MessageFormat::SnappyProtobuf {
            let block = match decoder.compression {
                Compression::None => body,
                Compression::Gzip | Compression::Deflate => &self.unwrapped,
            };
            snappy_block_decode(block, &mut self.message, max_bytes)?;
        }
        Ok(())
    }

    /// The message that the last [`Self::decode`] of this body made: `body` itself
    /// if it was not compressed.
    pub fn decoded<'b>(&'b self, decoder: Decoder, body: &'b [u8]) -> &'b [u8] {
        match (decoder.format, decoder.compression) {
            (MessageFormat::SnappyProtobuf, _) => &self.message,
            (MessageFormat::Json, Compression::None) => body,
            (MessageFormat::Json, Compression::Gzip | Compression::Deflate) => &self.unwrapped,
        }
    }
}

impl Decoder {
    /// A guess at what the body becomes, in bytes, for reserving memory before it is
    /// decompressed: exact for a plain snappy block that keeps its word, 0 where
    /// nothing is decompressed.
    pub fn expected_len(self, body: &[u8]) -> u64 {
        /// No snappy element makes more than 64 bytes out of 3.
        const SNAPPY_MAX_RATIO: u64 = 22;
        /// What gzip makes of logs, and more.
        const FLATE_RATIO: u64 = 8;
        let body_len = body.len() as u64;
        match (self.format, self.compression) {
            (MessageFormat::Json, Compression::None) => 0,
            (MessageFormat::SnappyProtobuf, Compression::None) => {
                let claim = crate::varint::read(body, &mut 0).unwrap_or(0);
                claim.min(body_len * SNAPPY_MAX_RATIO).max(1)
            }
            (_, Compression::Gzip | Compression::Deflate) => (body_len * FLATE_RATIO).max(1),
        }
    }
}

/// Decompresses a gzip stream into `out`, replacing its content.
pub fn gunzip(body: &[u8], out: &mut Vec<u8>, max_bytes: usize) -> Result<(), BodyError> {
    if body.is_empty() {
        return Err(BodyError::Eof);
    }
    read_limited(MultiGzDecoder::new(body), out, max_bytes).map_err(|failure| match failure {
        Failure::TooLarge(error) => error,
        Failure::Read(error) => match error.kind() {
            io::ErrorKind::UnexpectedEof => BodyError::UnexpectedEof,
            // flate2 tells its failures apart by their texts only.
            _ if error.to_string().contains("header") => BodyError::GzipHeader,
            _ if error.to_string().contains("checksum") => BodyError::GzipChecksum,
            _ => BodyError::FlateCorrupt,
        },
    })
}

/// Decompresses raw DEFLATE data into `out`, replacing its content.
pub fn inflate(body: &[u8], out: &mut Vec<u8>, max_bytes: usize) -> Result<(), BodyError> {
    let mut decoder = DeflateDecoder::new(body);
    let result = read_limited(&mut decoder, out, max_bytes);
    result.map_err(|failure| match failure {
        Failure::TooLarge(error) => error,
        // What is no DEFLATE data from the start, zlib-wrapped data above all,
        // counts as no data, as in the reference.
        Failure::Read(_) if decoder.total_out() == 0 => BodyError::Eof,
        Failure::Read(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            BodyError::UnexpectedEof
        }
        Failure::Read(_) => BodyError::FlateCorrupt,
    })
}

enum Failure {
    TooLarge(BodyError),
    Read(io::Error),
}

fn read_limited(reader: impl Read, out: &mut Vec<u8>, max_bytes: usize) -> Result<(), Failure> {
    out.clear();
    let one_more = (max_bytes as u64).saturating_add(1);
    let read = reader.take(one_more).read_to_end(out).map_err(Failure::Read)?;
    if read > max_bytes {
        return Err(Failure::TooLarge(BodyError::TooLarge { size_bytes: read, max_bytes }));
    }
    Ok(())
}

/// Decompresses a snappy block (not the framed stream format) into `out`,
/// replacing its content.
///
/// The block begins with the size it claims to decompress to. The densest
/// element is a copy of 64 bytes in three, so a claim beyond 64/3 of the input
/// is a lie and refused before anything is allocated.
pub fn snappy_block_decode(
    body: &[u8],
    out: &mut Vec<u8>,
    max_bytes: usize,
) -> Result<(), BodyError> {
    let claimed_bytes = snap::raw::decompress_len(body).map_err(|_| BodyError::SnappyCorrupt)?;
    if body.is_empty() || claimed_bytes > body.len().saturating_mul(64) / 3 {
        return Err(BodyError::SnappyCorrupt);
    }
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
mod tests {
    use std::io::Write;

    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    const LEVEL: flate2::Compression = flate2::Compression::new(6);

    fn gzipped(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), LEVEL);
        encoder.write_all(text).expect("a Vec takes all");
        encoder.finish().expect("a Vec takes all")
    }

    fn deflated(text: &[u8]) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), LEVEL);
        encoder.write_all(text).expect("a Vec takes all");
        encoder.finish().expect("a Vec takes all")
    }

    fn snappy(text: &[u8]) -> Vec<u8> {
        snap::raw::Encoder::new().compress_vec(text).expect("small enough")
    }

    fn chosen(content_type: &str, content_encoding: &str) -> String {
        let encoding = Some(content_encoding.as_bytes()).filter(|value| !value.is_empty());
        match choose_decoder(Some(content_type.as_bytes()), encoding) {
            Ok(decoder) => format!("{:?} {:?}", decoder.format, decoder.compression),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn headers_choose_the_decoder() {
        let cases = [
            ("application/json", "", "Json None"),
            ("Application/JSON; charset=utf-8", "gzip", "Json Gzip"),
            ("application/json;", "snappy", "Json None"),
            ("application/x-protobuf", "", "SnappyProtobuf None"),
            ("application/x-protobuf", "snappy", "SnappyProtobuf None"),
            ("text/plain", "deflate", "SnappyProtobuf Deflate"),
            ("application/x-www-form-urlencoded", "", "SnappyProtobuf None"),
            ("form-data", "", "SnappyProtobuf None"),
            ("", "", "mime: no media type"),
            (";;", "", "mime: no media type"),
            ("a b", "", "mime: expected slash after first token"),
            ("a/", "", "mime: expected token after slash"),
            ("a/b/c", "", "mime: unexpected content after media subtype"),
            ("application/json", "identity", "Content-Encoding \"identity\" not supported"),
            ("application/json", "GZIP", "Content-Encoding \"GZIP\" not supported"),
            ("text/plain", "br", "Content-Encoding \"br\" not supported"),
        ];
        for (content_type, content_encoding, expected) in cases {
            assert_eq!(chosen(content_type, content_encoding), expected, "{content_type}");
        }
        assert_eq!(choose_decoder(None, None), Err(BodyError::MediaType("no media type")));
    }

    #[test]
    fn every_wrapping_is_undone() {
        let message = b"a message, a message, a message".repeat(100);
        let mut buffers = BodyBuffers::default();
        for (format, inner) in [
            (MessageFormat::Json, message.clone()),
            (MessageFormat::SnappyProtobuf, snappy(&message)),
        ] {
            for (compression, body) in [
                (Compression::None, inner.clone()),
                (Compression::Gzip, gzipped(&inner)),
                (Compression::Gzip, [gzipped(&inner[..9]), gzipped(&inner[9..])].concat()),
                (Compression::Deflate, deflated(&inner)),
            ] {
                let decoder = Decoder { format, compression };
                let decoded = decode_body(decoder, &body, &mut buffers, message.len());
                assert_eq!(decoded, Ok(&message[..]), "{decoder:?}");
            }
        }
        assert!(buffers.capacity_bytes() >= 2 * message.len());
    }

    #[test]
    fn limits_hold_for_every_decompressor() {
        let message = vec![b'x'; 3001];
        let too_large = |size_bytes| Err(BodyError::TooLarge { size_bytes, max_bytes: 3000 });
        let mut out = Vec::new();
        assert_eq!(gunzip(&gzipped(&message), &mut out, 3000), too_large(3001));
        assert_eq!(inflate(&deflated(&message), &mut out, 3000), too_large(3001));
        assert_eq!(snappy_block_decode(&snappy(&message), &mut out, 3000), too_large(3001));
        assert_eq!(
            BodyError::TooLarge { size_bytes: 3001, max_bytes: 3000 }.to_string(),
            "decompressed message size too large than max (3001 vs 3000)"
        );
        assert_eq!(gunzip(&gzipped(&message), &mut out, 3001), Ok(()));
        // A bomb stops at the limit, not at its end.
        let bomb = gzipped(&vec![0; 50_000_000]);
        out = Vec::new();
        assert!(gunzip(&bomb, &mut out, 1 << 20).is_err());
        assert!(out.capacity() <= 4 << 20, "{}", out.capacity());
    }

    #[test]
    fn damaged_bodies_are_named() {
        let mut out = Vec::new();
        let good = gzipped(b"hello hello hello");
        assert_eq!(gunzip(b"{\"streams\":[]}", &mut out, 99), Err(BodyError::GzipHeader));
        assert_eq!(gunzip(b"", &mut out, 99), Err(BodyError::Eof));
        assert_eq!(gunzip(&good[..good.len() - 9], &mut out, 99), Err(BodyError::UnexpectedEof));
        let mut flipped = good.clone();
        *flipped.last_mut().expect("not empty") ^= 1;
        assert_eq!(gunzip(&flipped, &mut out, 99), Err(BodyError::GzipChecksum));
        let mut zlib = ZlibEncoder::new(Vec::new(), LEVEL);
        zlib.write_all(b"hello").expect("a Vec takes all");
        let zlib = zlib.finish().expect("a Vec takes all");
        assert_eq!(inflate(&zlib, &mut out, 99), Err(BodyError::Eof));
        assert_eq!(inflate(b"", &mut out, 99), Err(BodyError::Eof));
        for body in [&b""[..], b"garbage", b"\x0a\x05hello", b"\xff\xff\xff\xff\x0f", b"\x80"] {
            let result = snappy_block_decode(body, &mut out, usize::MAX);
            assert_eq!(result, Err(BodyError::SnappyCorrupt), "{body:?}");
        }
        // The framed stream format.
        let framed = b"\xff\x06\x00\x00sNaPpY";
        assert_eq!(snappy_block_decode(framed, &mut out, 99), Err(BodyError::SnappyCorrupt));
        // An empty message is a block of one byte.
        assert_eq!(snappy_block_decode(b"\x00", &mut out, 99), Ok(()));
        assert!(out.is_empty());
    }

    #[test]
    fn a_lying_claim_allocates_nothing() {
        let mut body = Vec::new();
        crate::varint::write(&mut body, 1 << 31);
        body.extend_from_slice(&[0; 100]);
        let mut out = Vec::new();
        assert_eq!(snappy_block_decode(&body, &mut out, usize::MAX), Err(BodyError::SnappyCorrupt));
        assert_eq!(out.capacity(), 0);
        // The densest real block is taken.
        let zeros = vec![0u8; 1 << 20];
        assert_eq!(snappy_block_decode(&snappy(&zeros), &mut out, 1 << 20), Ok(()));
        assert_eq!(out, zeros);
    }
}
