//! Tokens of the series syntax. Only tokens that can begin or continue a series have a kind of
//! their own. All other tokens are distinguished just far enough to be named in an error text.

use std::borrow::Cow;

use crate::go::quote::{first_char, quoted, write_quoted_char};
use crate::labels::unquote::{QuotedText, scan_quoted, scan_raw};

/// A token and where it begins.
pub(super) struct Token<'a> {
    pub(super) offset_bytes: usize,
    pub(super) kind: Kind<'a>,
}

/// The kind of a token.
pub(super) enum Kind<'a> {
    End,
    LeftBrace,
    RightBrace,
    Comma,
    Equals,
    /// A label name.
    Identifier(&'a str),
    /// A word outside braces that may stand as a metric name.
    MetricName(&'a str),
    /// A quoted string: as written, and unescaped.
    Text {
        written: &'a str,
        value: Cow<'a, str>,
    },
    /// Any other token, described as Prometheus does.
    Other(String),
    /// The text cannot be split into tokens here.
    Error(String),
}

impl Kind<'_> {
    pub(super) fn describe(&self) -> String {
        match self {
            Kind::End => "end of input".to_owned(),
            Kind::LeftBrace => "\"{\"".to_owned(),
            Kind::RightBrace => "\"}\"".to_owned(),
            Kind::Comma => "\",\"".to_owned(),
            Kind::Equals => "\"=\"".to_owned(),
            Kind::Identifier(name) => format!("identifier \"{name}\""),
            Kind::MetricName(name) => describe_word(name),
            Kind::Text { written, .. } => format!("string {}", abbreviated(written)),
            Kind::Other(text) | Kind::Error(text) => text.clone(),
        }
    }
}

/// The first ten characters, quoted, with dots if there are more than ten bytes.
fn abbreviated(text: &str) -> String {
    if text.len() <= 10 {
        return quoted(text);
    }
    let end = text.char_indices().nth(10).map_or(text.len(), |(index, _)| index);
    quoted(&text[..end]) + "..."
}

const AGGREGATIONS: [&str; 14] = [
    "sum",
    "avg",
    "count",
    "min",
    "max",
    "group",
    "stddev",
    "stdvar",
    "topk",
    "bottomk",
    "count_values",
    "quantile",
    "limitk",
    "limit_ratio",
];
const KEYWORDS: [&str; 9] =
    ["offset", "by", "without", "on", "ignoring", "group_left", "group_right", "bool", "smoothed"];
const OPERATORS: [&str; 4] = ["and", "or", "unless", "atan2"];
/// Words that the grammar does not take as a metric name.
const NEVER_NAMES: [&str; 8] =
    ["on", "ignoring", "group_left", "group_right", "bool", "atan2", "inf", "nan"];

fn describe_word(word: &str) -> String {
    let lower = word.to_ascii_lowercase();
    let lower = lower.as_str();
    if AGGREGATIONS.contains(&lower) {
        format!("<aggr:{word}>")
    } else if KEYWORDS.contains(&lower) {
        format!("<{word}>")
    } else if OPERATORS.contains(&lower) {
        format!("<op:{word}>")
    } else if matches!(lower, "inf" | "nan") {
        format!("number \"{word}\"")
    } else if word.contains(':') {
        format!("metric identifier \"{word}\"")
    } else {
        format!("identifier \"{word}\"")
    }
}

pub(super) struct Lexer<'a> {
    text: &'a [u8],
    position: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a [u8]) -> Lexer<'a> {
        Lexer { text, position: 0 }
    }

    /// The next token outside braces.
    pub(super) fn next_statement(&mut self) -> Token<'a> {
        self.skip_blanks();
        let offset_bytes = self.position;
        let kind = match self.peek_byte() {
            None => Kind::End,
            Some(b'{') => self.single(Kind::LeftBrace),
            Some(b',') => self.single(Kind::Comma),
            Some(b'"' | b'\'' | b'`') => self.text(),
            Some(byte) if is_word_start(byte) || byte == b':' => self.metric_word(),
            Some(byte) if byte.is_ascii_digit() || self.at_fraction() => self.number(),
            Some(_) => self.operator(),
        };
        Token { offset_bytes, kind }
    }

    /// The next token inside braces.
    pub(super) fn next_in_braces(&mut self) -> Token<'a> {
        self.skip_blanks();
        let offset_bytes = self.position;
        let kind = match self.peek_byte() {
            None => Kind::Error("unexpected end of input inside braces".to_owned()),
            Some(b'}') => self.single(Kind::RightBrace),
            Some(b',') => self.single(Kind::Comma),
            Some(b'=') if self.peek_second() == Some(b'~') => Kind::Other("<op:=~>".to_owned()),
            Some(b'=') => self.single(Kind::Equals),
            Some(b'!') => match self.second_char() {
                Some('~') => Kind::Other("<op:!~>".to_owned()),
                Some('=') => Kind::Other("<op:!=>".to_owned()),
                other => error_with("unexpected character after '!' inside braces: ", other),
            },
            Some(b'"' | b'\'' | b'`') => self.text(),
            Some(b'{') => error_with("unexpected left brace ", Some('{')),
            Some(byte) if is_word_start(byte) => Kind::Identifier(self.word(false)),
            Some(_) => error_with("unexpected character inside braces: ", self.peek_char()),
        };
        Token { offset_bytes, kind }
    }

    fn skip_blanks(&mut self) {
        loop {
            match self.peek_byte() {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.position += 1,
                Some(b'#') => {
                    let rest = &self.text[self.position..];
                    self.position += memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
                }
                _ => return,
            }
        }
    }

    fn peek_byte(&self) -> Option<u8> {
        self.text.get(self.position).copied()
    }

    fn peek_second(&self) -> Option<u8> {
        self.text.get(self.position + 1).copied()
    }

    fn at_fraction(&self) -> bool {
        self.peek_byte() == Some(b'.') && self.peek_second().is_some_and(|b| b.is_ascii_digit())
    }

    fn peek_char(&self) -> Option<char> {
        first_char(&self.text[self.position..])
    }

    fn second_char(&self) -> Option<char> {
        first_char(&self.text[self.position + 1..])
    }

    fn single(&mut self, kind: Kind<'a>) -> Kind<'a> {
        self.position += 1;
        kind
    }

    fn word(&mut self, with_colons: bool) -> &'a str {
        let rest = &self.text[self.position..];
        let len_bytes = rest
            .iter()
            .position(|&byte| {
                !(is_word_start(byte) || byte.is_ascii_digit() || with_colons && byte == b':')
            })
            .unwrap_or(rest.len());
        self.position += len_bytes;
        std::str::from_utf8(&rest[..len_bytes]).expect("a run of ASCII")
    }

    fn metric_word(&mut self) -> Kind<'a> {
        let word = self.word(true);
        if NEVER_NAMES.iter().any(|never| word.eq_ignore_ascii_case(never)) {
            Kind::Other(describe_word(word))
        } else {
            Kind::MetricName(word)
        }
    }

    fn number(&mut self) -> Kind<'a> {
        let rest = &self.text[self.position..];
        let len_bytes = rest
            .iter()
            .position(|&byte| !(byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_'))
            .unwrap_or(rest.len());
        let written = std::str::from_utf8(&rest[..len_bytes]).expect("a run of ASCII");
        if written.parse::<f64>().is_ok() {
            Kind::Other(format!("number {}", abbreviated(written)))
        } else {
            Kind::Error(format!("bad number or duration syntax: \"{written}\""))
        }
    }

    fn operator(&mut self) -> Kind<'a> {
        let first = self.peek_char();
        match (self.peek_byte(), self.second_char()) {
            (Some(b'='), Some('=')) => Kind::Other("<op:==>".to_owned()),
            (Some(b'='), Some('~')) => error_with("unexpected character after '=': ", Some('~')),
            (Some(b'='), _) => Kind::Equals,
            (Some(b'!'), Some('=')) => Kind::Other("<op:!=>".to_owned()),
            (Some(b'!'), other) => error_with("unexpected character after '!': ", other),
            (Some(byte @ (b'<' | b'>')), Some('=')) => {
                Kind::Other(format!("<op:{}=>", char::from(byte)))
            }
            (Some(byte @ (b'<' | b'>' | b'*' | b'/' | b'%' | b'+' | b'-' | b'^' | b'@')), _) => {
                Kind::Other(format!("<op:{}>", char::from(byte)))
            }
            (Some(byte @ (b'(' | b')' | b'[')), _) => {
                Kind::Other(format!("\"{}\"", char::from(byte)))
            }
            (Some(b']'), _) => error_with("unexpected right bracket ", Some(']')),
            _ => error_with("unexpected character: ", first),
        }
    }

    fn text(&mut self) -> Kind<'a> {
        let rest = &self.text[self.position..];
        let scanned = match rest[0] {
            b'`' => scan_raw(rest),
            _ => scan_quoted(rest),
        };
        match scanned {
            Ok(QuotedText { written, value }) => {
                self.position += written.len();
                Kind::Text { written, value }
            }
            Err(message) => Kind::Error(message),
        }
    }
}

fn is_word_start(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphabetic()
}

fn error_with<'a>(message: &str, character: Option<char>) -> Kind<'a> {
    let mut out = message.to_owned();
    // Go prints its end-of-file rune (-1) as the replacement character.
    write_quoted_char(character.unwrap_or(char::REPLACEMENT_CHARACTER), &mut out);
    Kind::Error(out)
}
