//! The headers that steer a connection: where a body ends, whether the
//! connection lives on, whether the client waits for `100 Continue`.

use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Version};

use crate::refusal::Refusal;

/// How the end of a request body is found (RFC 9112, section 6.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// There is no body.
    None,
    /// The body has this many bytes, more than zero.
    Length(u64),
    /// The body comes in chunks.
    Chunked,
}

/// Decides on the framing. Everything that two implementations might read
/// differently is refused: both kinds of framing at once, repeated lengths even
/// if they agree, signs, lists and other codings than `chunked`.
pub(crate) fn body_framing(headers: &HeaderMap, version: Version) -> Result<Framing, Refusal> {
    let length = only_value(headers, CONTENT_LENGTH, "repeated Content-Length")?;
    let mut encodings = headers.get_all(TRANSFER_ENCODING).iter();
    let Some(encoding) = encodings.next() else {
        return match length {
            Some(value) => match parse_length(value.as_bytes()) {
                Some(0) => Ok(Framing::None),
                Some(len_bytes) => Ok(Framing::Length(len_bytes)),
                None => Err(Refusal::BadRequest("malformed Content-Length")),
            },
            None => Ok(Framing::None),
        };
    };
    if length.is_some() {
        return Err(Refusal::BadRequest("both Content-Length and Transfer-Encoding"));
    }
    if version == Version::HTTP_10 {
        return Err(Refusal::BadRequest("Transfer-Encoding in an HTTP/1.0 request"));
    }
    if encodings.next().is_some() || !encoding.as_bytes().eq_ignore_ascii_case(b"chunked") {
        return Err(Refusal::TransferEncodingNotSupported);
    }
    Ok(Framing::Chunked)
}

/// A length in decimal digits, `None` if it is anything else or overflows.
pub(crate) fn parse_length(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |value, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

/// Exactly one `Host` in HTTP/1.1, at most one in HTTP/1.0, and nothing in it
/// that could not be part of an authority.
pub(crate) fn check_host(headers: &HeaderMap, version: Version) -> Result<(), Refusal> {
    match only_value(headers, HOST, "repeated Host header")? {
        Some(host) if host.as_bytes().iter().all(|byte| is_authority_byte(*byte)) => Ok(()),
        Some(_) => Err(Refusal::BadRequest("malformed Host header")),
        None if version == Version::HTTP_10 => Ok(()),
        None => Err(Refusal::BadRequest("missing required Host header")),
    }
}

fn is_authority_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+;=:[]%".contains(&byte)
}

/// Whether the client waits for `100 Continue`. HTTP/1.0 clients cannot.
pub(crate) fn expects_continue(headers: &HeaderMap, version: Version) -> Result<bool, Refusal> {
    if version == Version::HTTP_10 {
        return Ok(false);
    }
    let mut expects = false;
    for value in headers.get_all(EXPECT) {
        if !value.as_bytes().eq_ignore_ascii_case(b"100-continue") {
            return Err(Refusal::ExpectationFailed);
        }
        expects = true;
    }
    Ok(expects)
}

/// Whether the client lets the connection live: the default of HTTP/1.1, and a
/// wish to be spelled out in HTTP/1.0. `close` wins over everything.
pub(crate) fn keeps_alive(headers: &HeaderMap, version: Version) -> bool {
    if has_token(headers, CONNECTION, "close") {
        return false;
    }
    version == Version::HTTP_11 || has_token(headers, CONNECTION, "keep-alive")
}

/// Whether a list-valued header has this member, in any letter case.
pub(crate) fn has_token(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    headers.get_all(name).iter().any(|value| {
        let mut members = value.as_bytes().split(|byte| *byte == b',');
        members.any(|member| member.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
    })
}

fn only_value<'h>(
    headers: &'h HeaderMap,
    name: HeaderName,
    if_repeated: &'static str,
) -> Result<Option<&'h HeaderValue>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    match values.next() {
        None => Ok(first),
        Some(_) => Err(Refusal::BadRequest(if_repeated)),
    }
}
