//! Percent escapes of URLs (RFC 3986, section 2.1).

use std::borrow::Cow;

/// The value of a hexadecimal digit.
pub(crate) fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Decodes the escape at the start of `text`, which begins with `%`.
pub(crate) fn decode_escape(text: &[u8]) -> Option<u8> {
    let (Some(high), Some(low)) = (text.get(1), text.get(2)) else { return None };
    Some(hex_digit(*high)? << 4 | hex_digit(*low)?)
}

/// Decodes a path. A `+` stays a plus sign. Errors name the fault.
pub(crate) fn decode_path(raw: &str) -> Result<Cow<'_, str>, &'static str> {
    if !raw.contains('%') {
        return Ok(Cow::Borrowed(raw));
    }
    let mut rest = raw.as_bytes();
    let mut decoded = Vec::with_capacity(rest.len());
    while let Some(at) = memchr::memchr(b'%', rest) {
        decoded.extend_from_slice(&rest[..at]);
        decoded.push(decode_escape(&rest[at..]).ok_or("invalid URL escape in the path")?);
        rest = &rest[at + 3..];
    }
    decoded.extend_from_slice(rest);
    String::from_utf8(decoded).map(Cow::Owned).map_err(|_| "the path is not valid UTF-8")
}
