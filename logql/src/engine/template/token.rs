//! Tokens of a template.

/// The kind of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The lexer gave up; the token's message says why.
    Error,
    Eof,
    Text,
    LeftDelim,
    RightDelim,
    Space,
    Assign,
    Declare,
    Bool,
    /// A printable ASCII character that means nothing by itself, such as a comma.
    Char,
    CharConstant,
    Complex,
    Field,
    Identifier,
    LeftParen,
    Number,
    Pipe,
    RawString,
    RightParen,
    String,
    Variable,
    Dot,
    Nil,
    Block,
    Break,
    Continue,
    Define,
    Else,
    End,
    If,
    Range,
    Template,
    With,
}

impl Kind {
    /// The kind of a reserved word.
    pub(super) fn of_word(word: &[u8]) -> Option<Self> {
        Some(match word {
            b"block" => Self::Block,
            b"break" => Self::Break,
            b"continue" => Self::Continue,
            b"define" => Self::Define,
            b"else" => Self::Else,
            b"end" => Self::End,
            b"if" => Self::If,
            b"nil" => Self::Nil,
            b"range" => Self::Range,
            b"template" => Self::Template,
            b"with" => Self::With,
            b"true" | b"false" => Self::Bool,
            _ => return None,
        })
    }

    fn is_keyword(self) -> bool {
        matches!(
            self,
            Self::Dot
                | Self::Nil
                | Self::Block
                | Self::Break
                | Self::Continue
                | Self::Define
                | Self::Else
                | Self::End
                | Self::If
                | Self::Range
                | Self::Template
                | Self::With
        )
    }
}

/// A piece of the template's text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Token<'t> {
    pub(super) kind: Kind,
    /// Byte offset of the token.
    pub(super) position: usize,
    /// The token as written; empty for errors.
    pub(super) text: &'t [u8],
    /// Line on which the token starts, from 1.
    pub(super) line: usize,
    /// Why the lexer gave up.
    pub(super) message: String,
}

impl Token<'_> {
    /// The token in an error message: keywords in angle brackets, anything else
    /// quoted, at most ten characters of it.
    pub(super) fn describe(&self) -> String {
        let text = String::from_utf8_lossy(self.text);
        match self.kind {
            Kind::Eof => "EOF".to_owned(),
            Kind::Error => self.message.clone(),
            kind if kind.is_keyword() => format!("<{text}>"),
            _ if self.text.len() > 10 => {
                let start: String = text.chars().take(10).collect();
                format!("{}...", logsvc_proto::go::quote::quoted_bytes(start.as_bytes()))
            }
            _ => logsvc_proto::go::quote::quoted_bytes(self.text),
        }
    }
}
