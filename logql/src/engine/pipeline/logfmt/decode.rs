//! Splitting a line into `key=value` pairs.

use super::super::json::escapes::{code_unit, short, surrogates};
use crate::engine::labels::text::{is_unclean, push_clean};
use logsvc_proto::words::{bare_word_end, quote_or_backslash};

/// A pair as it stands in the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pair<'l> {
    /// Non-empty, unless the line ended with white space.
    pub(crate) key: &'l [u8],
    /// Without quotes; empty for a bare key.
    pub(crate) value: &'l [u8],
    /// The value holds backslashes; [`push_unescaped`] reads them.
    pub(crate) has_escapes: bool,
    /// The position behind the pair.
    pub(crate) end: usize,
}

/// A fault at a position of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SyntaxError {
    /// From 1, in bytes.
    pub(crate) position: usize,
    pub(crate) message: &'static str,
}

impl std::fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "logfmt syntax error at pos {} : {}", self.position, self.message)
    }
}

/// Message for a quoted value with an escape that does not exist.
pub(crate) const BAD_QUOTED_VALUE: &str = "invalid quoted value";

/// Reads the pairs of a line one by one.
#[derive(Debug)]
pub(crate) struct Decoder<'l> {
    line: &'l [u8],
    at: usize,
}

impl<'l> Decoder<'l> {
    pub(crate) fn new(line: &'l [u8]) -> Self {
        Self { line, at: 0 }
    }

    /// The position of the next byte to read.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// The next pair, or its fault; reading goes on behind it.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<Result<Pair<'l>, SyntaxError>> {
        let line = self.line;
        self.at += line[self.at..].iter().position(|b| *b > b' ')?;
        let start = self.at;
        let key_end = bare_word_end(line, start);
        let key = &line[start..key_end];
        self.at = key_end;
        if line.get(key_end) == Some(&b'"') {
            return Some(Err(self.skip_value("unexpected '\"'")));
        }
        if key.is_empty() {
            return Some(Err(self.skip_value("unexpected '='")));
        }
        if is_unclean(key) {
            return Some(Err(self.skip_value("invalid key")));
        }
        if line.get(key_end) != Some(&b'=') {
            return Some(Ok(Pair { key, value: b"", has_escapes: false, end: key_end }));
        }
        let start = key_end + 1;
        if line.get(start) == Some(&b'"') {
            return Some(self.quoted(key, start + 1));
        }
        let end = bare_word_end(line, start);
        self.at = end;
        match line.get(end) {
            Some(b'=') => Some(Err(self.skip_value("unexpected '='"))),
            Some(b'"') => Some(Err(self.skip_value("unexpected '\"'"))),
            _ => Some(Ok(Pair { key, value: &line[start..end], has_escapes: false, end })),
        }
    }

    #[inline(always)]
    fn quoted(&mut self, key: &'l [u8], start: usize) -> Result<Pair<'l>, SyntaxError> {
        let line = self.line;
        let mut has_escapes = false;
        let mut at = start;
        loop {
            let Some(hit) = quote_or_backslash(line, at) else {
                self.at = line.len();
                return Err(SyntaxError {
                    position: line.len() + 1,
                    message: "unterminated quoted value",
                });
            };
            if line[hit] == b'"' {
                self.at = hit + 1;
                return Ok(Pair { key, value: &line[start..hit], has_escapes, end: hit + 1 });
            }
            has_escapes = true;
            at = hit + 2;
        }
    }

    fn find(&self, from: usize, is_end: impl Fn(&u8) -> bool) -> usize {
        self.line[from..].iter().position(is_end).map_or(self.line.len(), |len| from + len)
    }

    /// The error at the current byte; goes on at the next space.
    #[cold]
    fn skip_value(&mut self, message: &'static str) -> SyntaxError {
        let error = SyntaxError { position: self.at + 1, message };
        self.at = self.find(self.at, |b| *b <= b' ');
        error
    }
}

/// Appends a quoted value without its escapes, U+FFFD and invalid bytes as spaces.
/// False when an escape does not exist; the appended text means nothing then.
pub(crate) fn push_unescaped(out: &mut Vec<u8>, mut text: &[u8]) -> bool {
    while let Some(at) = memchr::memchr(b'\\', text) {
        push_clean(out, &text[..at]);
        let Some((c, len)) = escape(&text[at..]) else { return false };
        let mut buffer = [0; 4];
        push_clean(out, c.encode_utf8(&mut buffer).as_bytes());
        text = &text[at + len..];
    }
    push_clean(out, text);
    true
}

/// The character that the escape at the start of the text stands for, and the
/// length of the escape. A lone surrogate stands for U+FFFD.
fn escape(text: &[u8]) -> Option<(char, usize)> {
    match *text.get(1)? {
        b'\'' => return Some(('\'', 2)),
        b'u' => {}
        kind => return short(kind).map(|c| (c, 2)),
    }
    let first = code_unit(text)?;
    if let Some(c) = char::from_u32(first) {
        return Some((c, 6));
    }
    let pair = code_unit(&text[6..]).and_then(|second| surrogates(first, second));
    Some(pair.map_or((char::REPLACEMENT_CHARACTER, 6), |c| (c, 12)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(line: &str) -> Vec<Result<(&str, &str), String>> {
        let mut decoder = Decoder::new(line.as_bytes());
        let text = |bytes| std::str::from_utf8(bytes).expect("cut at ASCII");
        std::iter::from_fn(|| decoder.next())
            .map(|pair| match pair {
                Ok(pair) => Ok((text(pair.key), text(pair.value))),
                Err(error) => Err(error.to_string()),
            })
            .collect()
    }

    #[test]
    fn lines_are_pairs_and_errors() {
        let bad = |position: usize, message: &str| {
            Err(format!("logfmt syntax error at pos {position} : {message}"))
        };
        for (line, pairs) in [
            ("", vec![]),
            (" \t\n", vec![]),
            ("a=1  b=\"x y\"", vec![Ok(("a", "1")), Ok(("b", "x y"))]),
            ("a= b c=", vec![Ok(("a", "")), Ok(("b", "")), Ok(("c", ""))]),
            ("a=\"x\"b=\"y\"z", vec![Ok(("a", "x")), Ok(("b", "y")), Ok(("z", ""))]),
            (r#"a="\"\\" b"#, vec![Ok(("a", r#"\"\\"#)), Ok(("b", ""))]),
            ("a=1 b=x\"y c", vec![Ok(("a", "1")), bad(8, "unexpected '\"'"), Ok(("c", ""))]),
            ("=v a", vec![bad(1, "unexpected '='"), Ok(("a", ""))]),
            ("a=b=c", vec![bad(4, "unexpected '='")]),
            ("\"q\" a\"b", vec![bad(1, "unexpected '\"'"), bad(6, "unexpected '\"'")]),
            ("a\u{fffd}=1 b", vec![bad(5, "invalid key"), Ok(("b", ""))]),
            ("a=\"x b=1", vec![bad(9, "unterminated quoted value")]),
            ("a=\"x\\", vec![bad(6, "unterminated quoted value")]),
            ("a='x y'", vec![Ok(("a", "'x")), Ok(("y'", ""))]),
        ] {
            assert_eq!(decoded(line), pairs, "{line}");
        }
    }

    #[test]
    fn escapes_are_those_of_go_logfmt() {
        let unescaped = |text: &str| {
            let mut out = Vec::new();
            push_unescaped(&mut out, text.as_bytes()).then(|| String::from_utf8(out).expect("text"))
        };
        assert_eq!(unescaped(r#"\'\"\/\\\t\u0021"#).as_deref(), Some("'\"/\\\t!"));
        assert_eq!(unescaped(r"\ud83d\ude80").as_deref(), Some("\u{1f680}"));
        assert_eq!(unescaped(r"a\ud83dz\ude80").as_deref(), Some("a z "));
        assert_eq!(unescaped(r"\z"), None);
        assert_eq!(unescaped(r"\u12"), None);
    }
}
