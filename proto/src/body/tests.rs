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

fn zstd_frame(text: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(text, 3).expect("a Vec takes all")
}

fn lz4_frame(text: &[u8]) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
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
        ("application/x-protobuf", "zstd", "SnappyProtobuf Zstd"),
        ("application/json", "lz4", "Json Lz4"),
        ("", "", "mime: no media type"),
        (";;", "", "mime: no media type"),
        ("a b", "", "mime: expected slash after first token"),
        ("a/", "", "mime: expected token after slash"),
        ("a/b/c", "", "mime: unexpected content after media subtype"),
        ("application/json", "identity", "Content-Encoding \"identity\" not supported"),
        ("application/json", "GZIP", "Content-Encoding \"GZIP\" not supported"),
        ("application/json", "ZSTD", "Content-Encoding \"ZSTD\" not supported"),
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
        (MessageFormat::Protobuf, message.clone()),
        (MessageFormat::SnappyProtobuf, snappy(&message)),
    ] {
        for (compression, body) in [
            (Compression::None, inner.clone()),
            (Compression::Gzip, gzipped(&inner)),
            (Compression::Gzip, [gzipped(&inner[..9]), gzipped(&inner[9..])].concat()),
            (Compression::Deflate, deflated(&inner)),
            (Compression::Zstd, zstd_frame(&inner)),
            (Compression::Zstd, [zstd_frame(&inner[..9]), zstd_frame(&inner[9..])].concat()),
            (Compression::Lz4, lz4_frame(&inner)),
        ] {
            let decoder = Decoder { format, compression };
            let decoded = decode_body(decoder, &body, &mut buffers, message.len());
            assert_eq!(decoded, Ok(&message[..]), "{decoder:?}");
        }
    }
    assert!(buffers.capacity_bytes() >= 2 * message.len());
}

#[test]
fn snappy_is_optional_within_zstd_and_lz4() {
    // A push of one stream with one label: no valid one is shorter.
    let mut message = vec![0x0a, 9, 0x0a, 7];
    message.extend_from_slice(b"{a=\"b\"}");
    let mut buffers = BodyBuffers::default();
    let decoder = |compression| Decoder { format: MessageFormat::SnappyProtobuf, compression };
    for (compression, wrap) in
        [(Compression::Zstd, zstd_frame as fn(&[u8]) -> Vec<u8>), (Compression::Lz4, lz4_frame)]
    {
        for inner in [message.clone(), snappy(&message)] {
            let body = wrap(&inner);
            let decoded = decode_body(decoder(compression), &body, &mut buffers, 1000);
            assert_eq!(decoded, Ok(&message[..]), "{compression:?}");
        }
        let empty = wrap(b"");
        assert_eq!(decode_body(decoder(compression), &empty, &mut buffers, 1000), Ok(&b""[..]));
        let garbage = wrap(b"{\"streams\": []}");
        assert_eq!(
            decode_body(decoder(compression), &garbage, &mut buffers, 1000),
            Err(BodyError::SnappyCorrupt)
        );
    }
    let bare = gzipped(&message);
    assert_eq!(
        decode_body(decoder(Compression::Gzip), &bare, &mut buffers, 1000),
        Err(BodyError::SnappyCorrupt)
    );
}

#[test]
fn limits_hold_for_every_decompressor() {
    let message = vec![b'x'; 3001];
    let too_large = |size_bytes| Err(BodyError::TooLarge { size_bytes, max_bytes: 3000 });
    let mut out = Vec::new();
    assert_eq!(unpack(Compression::Gzip, &gzipped(&message), &mut out, 3000), too_large(3001));
    assert_eq!(unpack(Compression::Deflate, &deflated(&message), &mut out, 3000), too_large(3001));
    assert_eq!(unpack(Compression::Zstd, &zstd_frame(&message), &mut out, 3000), too_large(3001));
    assert_eq!(unpack(Compression::Lz4, &lz4_frame(&message), &mut out, 3000), too_large(3001));
    assert_eq!(snappy_block_decode(&snappy(&message), &mut out, 3000), too_large(3001));
    assert_eq!(
        BodyError::TooLarge { size_bytes: 3001, max_bytes: 3000 }.to_string(),
        "decompressed message size too large than max (3001 vs 3000)"
    );
    assert_eq!(unpack(Compression::Gzip, &gzipped(&message), &mut out, 3001), Ok(()));
    // A bomb stops at the limit, not at its end.
    let bomb = gzipped(&vec![0; 50_000_000]);
    out = Vec::new();
    assert!(unpack(Compression::Gzip, &bomb, &mut out, 1 << 20).is_err());
    assert!(out.capacity() <= 4 << 20, "{}", out.capacity());
    for (compression, bomb) in [
        (Compression::Zstd, zstd_frame(&vec![0; 50_000_000])),
        (Compression::Lz4, lz4_frame(&vec![0; 50_000_000])),
    ] {
        out = Vec::new();
        assert!(unpack(compression, &bomb, &mut out, 1 << 20).is_err());
        assert!(out.capacity() <= 8 << 20, "{compression:?}: {}", out.capacity());
    }
}

#[test]
fn damaged_bodies_are_named() {
    let mut out = Vec::new();
    let good = gzipped(b"hello hello hello");
    assert_eq!(
        unpack(Compression::Gzip, b"{\"streams\":[]}", &mut out, 99),
        Err(BodyError::GzipHeader)
    );
    assert_eq!(unpack(Compression::Gzip, b"", &mut out, 99), Err(BodyError::Eof));
    assert_eq!(
        unpack(Compression::Gzip, &good[..good.len() - 9], &mut out, 99),
        Err(BodyError::UnexpectedEof)
    );
    let mut flipped = good.clone();
    *flipped.last_mut().expect("not empty") ^= 1;
    assert_eq!(unpack(Compression::Gzip, &flipped, &mut out, 99), Err(BodyError::GzipChecksum));
    let mut zlib = ZlibEncoder::new(Vec::new(), LEVEL);
    zlib.write_all(b"hello").expect("a Vec takes all");
    let zlib = zlib.finish().expect("a Vec takes all");
    assert_eq!(unpack(Compression::Deflate, &zlib, &mut out, 99), Err(BodyError::Eof));
    assert_eq!(unpack(Compression::Deflate, b"", &mut out, 99), Err(BodyError::Eof));
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

#[test]
fn otlp_headers_choose_the_decoder() {
    let chosen = |content_type: &str, content_encoding: &str| {
        let encoding = Some(content_encoding.as_bytes()).filter(|value| !value.is_empty());
        match choose_otlp_decoder(Some(content_type.as_bytes()), encoding) {
            Ok(decoder) => format!("{:?} {:?}", decoder.format, decoder.compression),
            Err(error) => error.to_string(),
        }
    };
    for (content_type, content_encoding, expected) in [
        ("application/x-protobuf", "", "Protobuf None"),
        ("application/x-protobuf", "gzip", "Protobuf Gzip"),
        ("application/json", "zstd", "Json Zstd"),
        ("application/json", "lz4", "Json Lz4"),
        ("text/plain", "", "content type: text/plain is not supported"),
        (
            "application/json; charset=utf-8",
            "",
            "content type: application/json; charset=utf-8 is not supported",
        ),
        ("", "", "content type:  is not supported"),
        (
            "application/json",
            "snappy",
            "unsupported content encoding snappy: only gzip, lz4 and zstd are supported",
        ),
    ] {
        assert_eq!(chosen(content_type, content_encoding), expected);
    }
}

#[test]
fn damaged_frames_are_named() {
    let message = b"a message, a message, a message".repeat(100);
    let mut out = Vec::new();
    for garbage in [&b"x"[..], b"garbage that is no frame"] {
        assert!(unpack(Compression::Zstd, garbage, &mut out, 1 << 20).is_err());
        assert!(unpack(Compression::Lz4, garbage, &mut out, 1 << 20).is_err());
    }
    assert_eq!(unpack(Compression::Zstd, b"", &mut out, 1 << 20), Err(BodyError::Eof));
    assert_eq!(unpack(Compression::Lz4, b"", &mut out, 1 << 20), Err(BodyError::Eof));
    let cut = zstd_frame(&message);
    assert_eq!(
        unpack(Compression::Zstd, &cut[..cut.len() - 3], &mut out, 1 << 20),
        Err(BodyError::UnexpectedEof)
    );
    // A window of 2^31 bytes is more than any sender needs.
    let greedy = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0x00, 0x00];
    assert_eq!(unpack(Compression::Zstd, &greedy, &mut out, 1 << 20), Err(BodyError::ZstdCorrupt));
}
