//! Parameters of query strings and HTML forms
//! (`application/x-www-form-urlencoded`), with Go's reading of them, because its
//! error texts are part of the API: a `;` is no separator but an error, pairs
//! without `=` have an empty value, `+` is a space.
//!
//! Bytes that are no UTF-8 after decoding become U+FFFD. The number of
//! parameters is bounded, so that a body of separators cannot make many times
//! its own size of memory.

use std::borrow::Cow;

use crate::percent;

/// Most parameters of one query string or form.
pub const MAX_PARAMS: usize = 10_000;

/// Why a query string or form is malformed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ParamsError {
    /// A percent sign without two hexadecimal digits after it. Holds the sign
    /// and up to two characters that follow.
    #[error("invalid URL escape {0:?}")]
    InvalidEscape(String),
    /// A semicolon outside of an escape.
    #[error("invalid semicolon separator in query")]
    Semicolon,
    /// More than [`MAX_PARAMS`] parameters.
    #[error("number of URL query parameters exceeded limit")]
    TooMany,
}

/// An ordered multi-map of parameters. Names are case sensitive.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Params {
    pairs: Vec<(String, String)>,
}

impl Params {
    /// Parses a query string or the body of a form.
    pub fn parse(text: &[u8]) -> Result<Params, ParamsError> {
        let mut params = Params::default();
        params.append(text)?;
        Ok(params)
    }

    /// The parameters of a request: those of the form body come before those of
    /// the URL, so that the body wins where a name is in both.
    pub fn of_request(query: Option<&str>, form: Option<&[u8]>) -> Result<Params, ParamsError> {
        let mut params = Params::default();
        for text in [form, query.map(str::as_bytes)].into_iter().flatten() {
            params.append(text)?;
        }
        Ok(params)
    }

    fn append(&mut self, text: &[u8]) -> Result<(), ParamsError> {
        // A semicolon anywhere wins over a bad escape before it.
        if memchr::memchr(b';', text).is_some() {
            return Err(ParamsError::Semicolon);
        }
        for pair in text.split(|byte| *byte == b'&') {
            if pair.is_empty() {
                continue;
            }
            if self.pairs.len() == MAX_PARAMS {
                return Err(ParamsError::TooMany);
            }
            let (name, value) = match memchr::memchr(b'=', pair) {
                Some(at) => (&pair[..at], &pair[at + 1..]),
                None => (pair, &[][..]),
            };
            self.pairs.push((decode(name)?, decode(value)?));
        }
        Ok(())
    }

    /// The first value of a name, which may be empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.get_all(name).next()
    }

    /// The first value of a name, unless that is empty.
    pub fn get_non_empty(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// All values of a name in order.
    pub fn get_all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.iter().filter(move |(key, _)| *key == name).map(|(_, value)| value)
    }

    /// All pairs in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

fn decode(text: &[u8]) -> Result<String, ParamsError> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr2(b'%', b'+', rest) {
        decoded.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        if rest[0] == b'+' {
            decoded.push(b' ');
            rest = &rest[1..];
        } else if let Some(byte) = percent::decode_escape(rest) {
            decoded.push(byte);
            rest = &rest[3..];
        } else {
            let shown = String::from_utf8_lossy(&rest[..rest.len().min(3)]);
            return Err(ParamsError::InvalidEscape(shown.into_owned()));
        }
    }
    decoded.extend_from_slice(rest);
    Ok(String::from_utf8(decoded)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Escapes a text for use as a name or value in a query string.
pub fn escape(text: &str) -> Cow<'_, str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    if text.bytes().all(plain) {
        return Cow::Borrowed(text);
    }
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut escaped = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        if plain(byte) {
            escaped.push(char::from(byte));
        } else if byte == b' ' {
            escaped.push('+');
        } else {
            escaped.push('%');
            escaped.push(char::from(DIGITS[usize::from(byte >> 4)]));
            escaped.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
    Cow::Owned(escaped)
}
