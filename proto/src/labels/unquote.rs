//! Quoted strings of the series syntax: `"..."` and `'...'` with Go's escapes,
//! and raw `` `...` ``.

use std::borrow::Cow;

use crate::go::unquote::unescape_one;

/// A string literal.
pub(super) struct QuotedText<'a> {
    /// With its quotes.
    pub(super) written: &'a str,
    /// Without quotes and escapes.
    pub(super) value: Cow<'a, str>,
}

const INVALID_UTF8: &str = "invalid UTF-8 rune";

/// Scans a raw string at the start of `text`, which begins with a back quote.
pub(super) fn scan_raw(text: &[u8]) -> Result<QuotedText<'_>, String> {
    let end = memchr::memchr(b'`', &text[1..]).map(|index| index + 1);
    let inside = std::str::from_utf8(&text[1..end.unwrap_or(text.len())])
        .map_err(|_| INVALID_UTF8.to_owned())?;
    let end = end.ok_or_else(|| "unterminated raw string".to_owned())?;
    let written = std::str::from_utf8(&text[..=end]).map_err(|_| INVALID_UTF8.to_owned())?;
    Ok(QuotedText { written, value: Cow::Borrowed(inside) })
}

/// Scans an interpreted string at the start of `text`, which begins with the
/// quote that ends it. A raw line break ends the attempt.
pub(super) fn scan_quoted(text: &[u8]) -> Result<QuotedText<'_>, String> {
    let quote = text[0];
    let mut position = 1;
    let mut unescaped: Option<Vec<u8>> = None;
    loop {
        let rest = &text[position..];
        let run = rest
            .iter()
            .position(|&byte| byte == quote || byte == b'\\' || byte == b'\n')
            .unwrap_or(rest.len());
        let plain = &rest[..run];
        if simdutf8::basic::from_utf8(plain).is_err() {
            return Err(INVALID_UTF8.to_owned());
        }
        position += run;
        match rest.get(run) {
            None | Some(b'\n') => return Err("unterminated quoted string".to_owned()),
            Some(b'\\') => {
                let out = unescaped.get_or_insert_default();
                out.extend_from_slice(plain);
                let read = unescape_one(&text[position + 1..], quote, out);
                position += 1 + read.map_err(|error| error.to_string())?;
            }
            Some(_) => {
                if let Some(out) = &mut unescaped {
                    out.extend_from_slice(plain);
                }
                break;
            }
        }
    }
    let utf8 = |_| INVALID_UTF8.to_owned();
    let written = std::str::from_utf8(&text[..=position]).map_err(utf8)?;
    let value = match unescaped {
        None => Cow::Borrowed(&written[1..written.len() - 1]),
        Some(bytes) => Cow::Owned(String::from_utf8(bytes).map_err(|_| INVALID_UTF8.to_owned())?),
    };
    Ok(QuotedText { written, value })
}
