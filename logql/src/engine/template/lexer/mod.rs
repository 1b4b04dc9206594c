//! Template text to tokens, with the rules and the messages of Go's
//! `text/template/parse`: trim markers, comments, and spaces as tokens of their
//! own, because `$x.y` and `$x .y` differ.

use super::token::{Kind, Token};
use crate::syntax::idents::is_ident_char;
use logsvc_proto::go::quote::{code_point, quoted_bytes};

const LEFT: &[u8] = b"{{";
const RIGHT: &[u8] = b"}}";
/// A space and a dash, on either side.
const TRIM_MARKER_LEN: usize = 2;

/// Reads tokens one by one. After an error or the end it repeats that token.
#[derive(Debug)]
pub(super) struct Lexer<'t> {
    input: &'t [u8],
    /// Where the token at hand starts.
    start: usize,
    position: usize,
    line_of_start: usize,
    inside_action: bool,
    open_parens: usize,
    last: Option<Token<'t>>,
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

impl<'t> Lexer<'t> {
    pub(super) fn new(input: &'t [u8]) -> Self {
        Self {
            input,
            start: 0,
            position: 0,
            line_of_start: 1,
            inside_action: false,
            open_parens: 0,
            last: None,
        }
    }

    /// The next token.
    pub(super) fn next(&mut self) -> Token<'t> {
        if let Some(last) = &self.last {
            return last.clone();
        }
        let token = if self.inside_action { self.action_token() } else { self.text_token() };
        if matches!(token.kind, Kind::Error | Kind::Eof) {
            self.last = Some(token.clone());
        }
        token
    }

    fn rest(&self) -> &'t [u8] {
        &self.input[self.position..]
    }

    fn emit(&mut self, kind: Kind) -> Token<'t> {
        let text = &self.input[self.start..self.position];
        let token = Token {
            kind,
            position: self.start,
            text,
            line: self.line_of_start,
            message: String::new(),
        };
        self.skip();
        token
    }

    /// Drops the text read so far.
    fn skip(&mut self) {
        let text = &self.input[self.start..self.position];
        self.line_of_start += memchr::memchr_iter(b'\n', text).count();
        self.start = self.position;
    }

    fn error(&self, message: impl Into<String>) -> Token<'t> {
        Token {
            kind: Kind::Error,
            position: self.start,
            text: b"",
            line: self.line_of_start,
            message: message.into(),
        }
    }

    /// The character at the position and its length in bytes. Bytes that are not
    /// UTF-8 read as U+FFFD.
    fn peek(&self) -> Option<(char, usize)> {
        let rest = self.rest();
        let chunk = rest[..rest.len().min(4)].utf8_chunks().next()?;
        match chunk.valid().chars().next() {
            Some(c) => Some((c, c.len_utf8())),
            None => Some((char::REPLACEMENT_CHARACTER, 1)),
        }
    }

    fn text_token(&mut self) -> Token<'t> {
        loop {
            let Some(len) = memchr::memmem::find(self.rest(), LEFT) else {
                self.position = self.input.len();
                return if self.position > self.start {
                    self.emit(Kind::Text)
                } else {
                    self.emit(Kind::Eof)
                };
            };
            let delimiter = self.position + len;
            let mut end = delimiter;
            if has_left_trim_marker(&self.input[delimiter + LEFT.len()..]) {
                while end > self.position && is_space(self.input[end - 1]) {
                    end -= 1;
                }
            }
            if end > self.start {
                self.position = end;
                return self.emit(Kind::Text);
            }
            self.position = delimiter;
            self.skip();
            let after = &self.input[delimiter + LEFT.len()..];
            let marker = if has_left_trim_marker(after) { TRIM_MARKER_LEN } else { 0 };
            if after[marker..].starts_with(b"/*") {
                self.position = delimiter + LEFT.len() + marker;
                self.skip();
                if let Err(token) = self.comment() {
                    return token;
                }
                continue;
            }
            self.position = delimiter + LEFT.len();
            let token = self.emit(Kind::LeftDelim);
            self.position += marker;
            self.skip();
            self.inside_action = true;
            self.open_parens = 0;
            return token;
        }
    }

    fn comment(&mut self) -> Result<(), Token<'t>> {
        let Some(len) = memchr::memmem::find(&self.rest()[2..], b"*/") else {
            return Err(self.error("unclosed comment"));
        };
        self.position += len + 4;
        let Some(trims) = self.at_right_delim() else {
            return Err(self.error("comment ends before closing delimiter"));
        };
        self.position += RIGHT.len() + if trims { TRIM_MARKER_LEN } else { 0 };
        if trims {
            self.pass_spaces();
        }
        self.skip();
        Ok(())
    }

    fn pass_spaces(&mut self) -> usize {
        let spaces = self.rest().iter().take_while(|b| is_space(**b)).count();
        self.position += spaces;
        spaces
    }

    /// Whether the action ends here, and if so whether it trims the text behind.
    fn at_right_delim(&self) -> Option<bool> {
        let rest = self.rest();
        if has_right_trim_marker(rest) && rest[TRIM_MARKER_LEN..].starts_with(RIGHT) {
            return Some(true);
        }
        rest.starts_with(RIGHT).then_some(false)
    }

    fn right_delim(&mut self, trims: bool) -> Token<'t> {
        if trims {
            self.position += TRIM_MARKER_LEN;
            self.skip();
        }
        self.position += RIGHT.len();
        let token = self.emit(Kind::RightDelim);
        if trims {
            self.pass_spaces();
            self.skip();
        }
        self.inside_action = false;
        token
    }

    fn action_token(&mut self) -> Token<'t> {
        if let Some(trims) = self.at_right_delim() {
            if self.open_parens > 0 {
                return self.error("unclosed left paren");
            }
            return self.right_delim(trims);
        }
        let Some((c, len)) = self.peek() else { return self.error("unclosed action") };
        if c.is_ascii() && is_space(c as u8) {
            return self.space();
        }
        let next_is_digit = self.rest().get(1).is_some_and(u8::is_ascii_digit);
        match c {
            '+' | '-' | '0'..='9' => return self.number(),
            '.' if next_is_digit => return self.number(),
            c if is_ident_char(c) => return self.identifier(),
            _ => {}
        }
        self.position += len;
        match c {
            '=' => self.emit(Kind::Assign),
            ':' if self.rest().starts_with(b"=") => {
                self.position += 1;
                self.emit(Kind::Declare)
            }
            ':' => self.error("expected :="),
            '|' => self.emit(Kind::Pipe),
            '"' => self.quoted(b'"', Kind::String, "unterminated quoted string"),
            '\'' => self.quoted(b'\'', Kind::CharConstant, "unterminated character constant"),
            '`' => self.raw_string(),
            '$' => self.field_or_variable(Kind::Variable),
            '.' => self.field_or_variable(Kind::Field),
            '(' => {
                self.open_parens += 1;
                self.emit(Kind::LeftParen)
            }
            ')' if self.open_parens == 0 => self.error("unexpected right paren"),
            ')' => {
                self.open_parens -= 1;
                self.emit(Kind::RightParen)
            }
            ' '..='~' => self.emit(Kind::Char),
            c => self.error(format!("unrecognized character in action: {}", code_point(c))),
        }
    }

    fn space(&mut self) -> Token<'t> {
        let spaces = self.pass_spaces();
        // The last space may belong to the marker of the closing delimiter.
        let marker = &self.input[self.position - 1..];
        if has_right_trim_marker(marker) && marker[TRIM_MARKER_LEN..].starts_with(RIGHT) {
            self.position -= 1;
            if spaces == 1 {
                return if self.open_parens > 0 {
                    self.error("unclosed left paren")
                } else {
                    self.right_delim(true)
                };
            }
        }
        self.emit(Kind::Space)
    }

    /// Passes letters and digits.
    fn pass_word(&mut self) {
        while let Some((c, len)) = self.peek()
            && is_ident_char(c)
        {
            self.position += len;
        }
    }

    fn identifier(&mut self) -> Token<'t> {
        self.pass_word();
        if let Some(error) = self.unless_terminated() {
            return error;
        }
        let word = &self.input[self.start..self.position];
        self.emit(Kind::of_word(word).unwrap_or(Kind::Identifier))
    }

    fn field_or_variable(&mut self, kind: Kind) -> Token<'t> {
        if self.unless_terminated().is_none() {
            return self.emit(if kind == Kind::Field { Kind::Dot } else { kind });
        }
        self.pass_word();
        match self.unless_terminated() {
            Some(error) => error,
            None => self.emit(kind),
        }
    }

    /// The error when a word does not end here.
    fn unless_terminated(&self) -> Option<Token<'t>> {
        let (c, _) = self.peek()?;
        let is_end = matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '|' | ':' | ')' | '(')
            || self.rest().starts_with(RIGHT);
        (!is_end).then(|| self.error(format!("bad character {}", code_point(c))))
    }

    /// A string or character constant whose opening quote has been read.
    fn quoted(&mut self, quote: u8, kind: Kind, unterminated: &str) -> Token<'t> {
        loop {
            let Some(&byte) = self.input.get(self.position) else {
                return self.error(unterminated);
            };
            self.position += 1;
            match byte {
                b'\\' if self.rest().first().is_some_and(|b| *b != b'\n') => self.position += 1,
                b'\\' | b'\n' => return self.error(unterminated),
                byte if byte == quote => return self.emit(kind),
                _ => {}
            }
        }
    }

    fn raw_string(&mut self) -> Token<'t> {
        match memchr::memchr(b'`', self.rest()) {
            Some(len) => {
                self.position += len + 1;
                self.emit(Kind::RawString)
            }
            None => self.error("unterminated raw quoted string"),
        }
    }

    fn number(&mut self) -> Token<'t> {
        let mut kind = Kind::Number;
        let mut is_valid = self.scan_number();
        if is_valid && matches!(self.rest().first(), Some(b'+' | b'-')) {
            kind = Kind::Complex;
            is_valid = self.scan_number() && self.input[self.position - 1] == b'i';
        }
        if is_valid {
            return self.emit(kind);
        }
        let text = quoted_bytes(&self.input[self.start..self.position]);
        self.error(format!("bad number syntax: {text}"))
    }

    fn accept(&mut self, set: &[u8]) -> bool {
        let accepted = self.rest().first().is_some_and(|b| set.contains(b));
        self.position += usize::from(accepted);
        accepted
    }

    fn accept_run(&mut self, set: &[u8]) {
        while self.accept(set) {}
    }

    fn scan_number(&mut self) -> bool {
        const DECIMAL: &[u8] = b"0123456789_";
        const HEX: &[u8] = b"0123456789abcdefABCDEF_";
        self.accept(b"+-");
        let mut digits = DECIMAL;
        if self.accept(b"0") {
            if self.accept(b"xX") {
                digits = HEX;
            } else if self.accept(b"oO") {
                digits = b"01234567_";
            } else if self.accept(b"bB") {
                digits = b"01_";
            }
        }
        self.accept_run(digits);
        if self.accept(b".") {
            self.accept_run(digits);
        }
        let exponent: &[u8] = if digits == HEX { b"pP" } else { b"eE" };
        if (digits == DECIMAL || digits == HEX) && self.accept(exponent) {
            self.accept(b"+-");
            self.accept_run(DECIMAL);
        }
        self.accept(b"i");
        match self.peek() {
            Some((c, len)) if is_ident_char(c) => {
                self.position += len;
                false
            }
            _ => true,
        }
    }
}

fn has_left_trim_marker(text: &[u8]) -> bool {
    matches!(text, [b'-', space, ..] if is_space(*space))
}

fn has_right_trim_marker(text: &[u8]) -> bool {
    matches!(text, [space, b'-', ..] if is_space(*space))
}

#[cfg(test)]
mod tests;
