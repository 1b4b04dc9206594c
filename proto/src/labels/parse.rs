//! The series syntax of Prometheus, as it stands in the `labels` string of a
//! push: `{app="x", env='y'}`, optionally with a metric name in front.
//!
//! Grammar and error texts follow Prometheus' `promql/parser` (lexer states
//! "statement" and "inside braces", grammar rule `metric`); positions are
//! `line:column`, both from 1, columns in bytes. Differences, on purpose: a
//! quoted label name is refused, because such a label could not be queried, and
//! a value whose escapes spell invalid UTF-8 is refused too.

use std::borrow::Cow;

use crate::labels::lexer::{Kind, Lexer, Token};
use crate::labels::{LabelError, Labels};

/// Longest accepted label string: 16 MiB.
pub const MAX_LABEL_STRING_LEN_BYTES: usize = 16 << 20;

/// Why a label string was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LabelParseError {
    /// The text does not follow the syntax. Refuses the whole request.
    #[error("{line}:{column}: parse error: {message}")]
    Syntax {
        /// Line of the offending token, from 1.
        line: usize,
        /// Byte column of the offending token, from 1.
        column: usize,
        /// The problem.
        message: String,
    },
    /// A name is given twice. The text is well formed, so this costs the stream
    /// only, and its message prints the whole set: see [`Self::pairs`].
    #[error("has duplicate label name: '{name}'")]
    Duplicate {
        /// The first name that occurs twice.
        name: String,
        /// All pairs with a value, sorted by name, for the message.
        pairs: Vec<(String, String)>,
    },
    /// The string is longer than [`MAX_LABEL_STRING_LEN_BYTES`].
    #[error("label string of {len_bytes} bytes exceeds the maximum of {max_bytes}")]
    TooLarge {
        /// Length of the string.
        len_bytes: usize,
        /// The limit.
        max_bytes: usize,
    },
}

impl LabelParseError {
    /// The pairs of a set with a duplicate name, sorted; empty for other errors.
    pub fn pairs(&self) -> &[(String, String)] {
        match self {
            LabelParseError::Duplicate { pairs, .. } => pairs,
            _ => &[],
        }
    }
}

/// Parses a label string. An empty string is the empty set; labels with an empty
/// value vanish; a metric name becomes the label `__name__`.
pub fn parse_labels(text: &[u8]) -> Result<Labels, LabelParseError> {
    if text.len() > MAX_LABEL_STRING_LEN_BYTES {
        return Err(LabelParseError::TooLarge {
            len_bytes: text.len(),
            max_bytes: MAX_LABEL_STRING_LEN_BYTES,
        });
    }
    let pairs = parse_pairs(text).map_err(|refusal| refusal.locate(text))?;
    collect(pairs)
}

/// Makes a set of pairs whose names are valid; a repeated name is reported with
/// the whole set.
pub(crate) fn collect(pairs: Vec<(Cow<'_, str>, Cow<'_, str>)>) -> Result<Labels, LabelParseError> {
    match Labels::from_pairs(pairs.iter().map(|(name, value)| (name, value))) {
        Ok(labels) => Ok(labels),
        Err(LabelError::Duplicate { name } | LabelError::InvalidName { name }) => {
            let mut pairs: Vec<_> = pairs
                .into_iter()
                .filter(|(_, value)| !value.is_empty())
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect();
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
            Err(LabelParseError::Duplicate { name, pairs })
        }
    }
}

/// A refusal at a byte offset.
struct Refusal {
    offset_bytes: usize,
    message: String,
}

impl Refusal {
    fn unexpected(token: &Token<'_>, context: &str) -> Refusal {
        let message = match &token.kind {
            Kind::Error(message) => message.clone(),
            kind => format!("unexpected {}{context}", kind.describe()),
        };
        Refusal { offset_bytes: token.offset_bytes, message }
    }

    fn locate(self, text: &[u8]) -> LabelParseError {
        let before = &text[..self.offset_bytes];
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
        LabelParseError::Syntax {
            line: 1 + memchr::memchr_iter(b'\n', before).count(),
            column: 1 + self.offset_bytes - line_start,
            message: self.message,
        }
    }
}

type Pairs<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

fn parse_pairs(text: &[u8]) -> Result<Pairs<'_>, Refusal> {
    let mut lexer = Lexer::new(text);
    let mut pairs = Vec::new();
    let mut token = lexer.next_statement();
    if let Kind::MetricName(name) = token.kind {
        pairs.push((Cow::Borrowed("__name__"), Cow::Borrowed(name)));
        token = lexer.next_statement();
    }
    if matches!(token.kind, Kind::LeftBrace) {
        parse_braces(&mut lexer, &mut pairs)?;
        token = lexer.next_statement();
    }
    match token.kind {
        Kind::End => Ok(pairs),
        _ => Err(Refusal::unexpected(&token, "")),
    }
}

fn parse_braces<'a>(lexer: &mut Lexer<'a>, pairs: &mut Pairs<'a>) -> Result<(), Refusal> {
    let mut comma_allowed = false;
    loop {
        let token = lexer.next_in_braces();
        let name = match token.kind {
            Kind::RightBrace => return Ok(()),
            Kind::Comma if comma_allowed => {
                comma_allowed = false;
                continue;
            }
            _ if comma_allowed => {
                return Err(Refusal::unexpected(&token, " in label set, expected \",\" or \"}\""));
            }
            Kind::Identifier(name) => name,
            Kind::Text { .. } => {
                return Err(Refusal {
                    offset_bytes: token.offset_bytes,
                    message: "quoted label names are not supported".to_owned(),
                });
            }
            _ => {
                return Err(Refusal::unexpected(
                    &token,
                    " in label set, expected identifier or \"}\"",
                ));
            }
        };
        let token = lexer.next_in_braces();
        if !matches!(token.kind, Kind::Equals) {
            return Err(Refusal::unexpected(&token, " in label set, expected \"=\""));
        }
        let token = lexer.next_in_braces();
        let Kind::Text { value, .. } = token.kind else {
            return Err(Refusal::unexpected(&token, " in label set, expected string"));
        };
        pairs.push((Cow::Borrowed(name), value));
        comma_allowed = true;
    }
}
