//! Response heads as bytes.

use http::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, DATE, TRANSFER_ENCODING, UPGRADE, VARY,
};
use http::{HeaderMap, StatusCode};

use crate::date::DATE_LEN_BYTES;

/// How the end of a response body is marked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BodyMark {
    /// The status allows no body.
    None,
    /// `Content-Length`.
    Length(usize),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// The connection closes after the body.
    Close,
    /// The connection goes over to another protocol after the head.
    Upgrade,
}

/// Headers that the driver adds to a response's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadParts<'a> {
    pub(crate) status: StatusCode,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) mark: BodyMark,
    pub(crate) date: [u8; DATE_LEN_BYTES],
    /// Whether the connection lives on.
    pub(crate) keep_alive: bool,
    /// Whether an HTTP/1.0 client must be told that the connection lives on.
    pub(crate) say_keep_alive: bool,
    pub(crate) gzip: bool,
    pub(crate) vary: bool,
}

/// Appends a response head. Headers that are the driver's to decide on are
/// skipped among the response's own.
pub(crate) fn encode_head(out: &mut Vec<u8>, parts: &HeadParts<'_>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(parts.status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(parts.status.canonical_reason().unwrap_or("Unknown").as_bytes());
    out.extend_from_slice(b"\r\n");

    let upgrade = parts.mark == BodyMark::Upgrade;
    for (name, value) in parts.headers {
        let owned_by_driver = name == CONTENT_LENGTH
            || name == TRANSFER_ENCODING
            || name == DATE
            || !upgrade && (name == CONNECTION || name == UPGRADE)
            || parts.gzip && name == CONTENT_ENCODING
            || parts.vary && name == VARY && value.as_bytes() == b"Accept-Encoding";
        if !owned_by_driver {
            // Header names are lower case in memory; on the wire, where they are
            // case-insensitive, they go out in the customary spelling.
            put_name(out, name.as_str());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
    if parts.vary {
        out.extend_from_slice(b"Vary: Accept-Encoding\r\n");
    }
    if parts.gzip {
        out.extend_from_slice(b"Content-Encoding: gzip\r\n");
    }
    out.extend_from_slice(b"Date: ");
    out.extend_from_slice(&parts.date);
    out.extend_from_slice(b"\r\n");
    match parts.mark {
        BodyMark::Length(len_bytes) => {
            out.extend_from_slice(b"Content-Length: ");
            out.extend_from_slice(itoa::Buffer::new().format(len_bytes).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        BodyMark::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        BodyMark::None | BodyMark::Close | BodyMark::Upgrade => {}
    }
    if !upgrade {
        if !parts.keep_alive {
            out.extend_from_slice(b"Connection: close\r\n");
        } else if parts.say_keep_alive {
            out.extend_from_slice(b"Connection: keep-alive\r\n");
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Capital letters at the start and after each hyphen.
pub(crate) fn put_name(out: &mut Vec<u8>, name: &str) {
    let mut first = true;
    for byte in name.bytes() {
        out.push(if first { byte.to_ascii_uppercase() } else { byte });
        first = byte == b'-';
    }
}

/// Appends the line before a chunk of `len_bytes`, more than zero.
pub(crate) fn encode_chunk_size(out: &mut Vec<u8>, len_bytes: usize) {
    debug_assert!(len_bytes > 0, "an empty chunk would end the body");
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit_count = (len_bytes | 1).ilog2() / 4 + 1;
    for position in (0..digit_count).rev() {
        out.push(DIGITS[len_bytes >> (position * 4) & 15]);
    }
    out.extend_from_slice(b"\r\n");
}

/// The end of a chunked body.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::date::format_date;
    use http::HeaderValue;
    use http::header::{CONTENT_TYPE, HeaderName};

    fn head(change: impl FnOnce(&mut HeadParts<'_>)) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("999"));
        headers.insert(HeaderName::from_static("x-scope-orgid"), HeaderValue::from_static("a"));
        let mut parts = HeadParts {
            status: StatusCode::OK,
            headers: &headers,
            mark: BodyMark::Length(12),
            date: format_date(784_111_777),
            keep_alive: true,
            say_keep_alive: false,
            gzip: false,
            vary: false,
        };
        change(&mut parts);
        let mut out = Vec::new();
        encode_head(&mut out, &parts);
        String::from_utf8(out).expect("heads are ASCII")
    }

    #[test]
    fn heads_have_the_driver_s_headers_once() {
        assert_eq!(
            head(|_| {}),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-Scope-Orgid: a\r\n\
             Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 12\r\n\r\n"
        );
        let text = head(|parts| {
            parts.status = StatusCode::from_u16(499).expect("three digits");
            parts.mark = BodyMark::Chunked;
            parts.keep_alive = false;
            parts.gzip = true;
            parts.vary = true;
        });
        assert_eq!(
            text,
            "HTTP/1.1 499 Unknown\r\nContent-Type: text/plain\r\nX-Scope-Orgid: a\r\n\
             Vary: Accept-Encoding\r\nContent-Encoding: gzip\r\n\
             Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nTransfer-Encoding: chunked\r\n\
             Connection: close\r\n\r\n"
        );
    }

    #[test]
    fn chunk_sizes_are_hexadecimal() {
        for len_bytes in [1, 15, 16, 255, 256, 65_535, 65_536, usize::MAX] {
            let mut out = Vec::new();
            encode_chunk_size(&mut out, len_bytes);
            assert_eq!(String::from_utf8(out).expect("ASCII"), format!("{len_bytes:x}\r\n"));
        }
    }
}
