//! Text to tokens, one at a time.
//!
//! Tokens are cut on demand, because an error in the text counts only when the
//! parser gets that far. Work is linear in the length of the text.

mod number;
mod token;

pub(super) use token::{Fixed, Kind, Token};

use logsvc_proto::go::duration::{parse_go_duration_ns, parse_model_duration_ns};
use logsvc_proto::go::unquote::unescape;

use super::ParseError;
use super::ast::Flag;
use super::idents::{is_ident_char, is_ident_start};

/// Longest keyword; longer words need no look-up.
const MAX_KEYWORD_LEN: usize = 20;

/// Cuts tokens off a text.
pub(super) struct Lexer<'a> {
    src: &'a str,
    pos: usize,
    line: u32,
    col: u32,
    /// Where the first NUL character is; the text may not contain any.
    nul: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(src: &'a str) -> Self {
        let src = src.strip_prefix('\u{feff}').unwrap_or(src);
        let nul = memchr::memchr(0, src.as_bytes()).unwrap_or(usize::MAX);
        Self { src, pos: 0, line: 1, col: 1, nul }
    }

    /// The next token, [`Kind::End`] at the end and from then on.
    pub(super) fn next_token(&mut self) -> Result<Token<'a>, ParseError> {
        self.skip_blanks()?;
        let (start, mut line, col) = (self.pos, self.line, self.col);
        let Some(c) = self.peek() else {
            let (line, col) = if self.src.is_empty() { (0, 0) } else { (line, col) };
            return Ok(Token { kind: Kind::End, text: "", line, col });
        };
        let cut = match c {
            '"' | '`' | '\'' => self.string(c),
            '[' => {
                line = 0;
                self.range()
            }
            c if c.is_ascii_digit() => self.number(),
            '.' if self.rest()[1..].starts_with(|c: char| c.is_ascii_digit()) => self.number(),
            c if is_ident_start(c) => Ok(self.word()),
            _ => Ok(self.symbol(c)),
        };
        let kind = cut.map_err(|message| ParseError::at(line, col, message))?;
        self.check_nul()?;
        let text = &self.src[start..self.pos];
        let by_hand = match &kind {
            Kind::Duration(_) | Kind::Bytes(_) | Kind::Flag(_) => true,
            Kind::Fixed(_) => text.len() == 2 && !text.starts_with(is_ident_start),
            _ => false,
        };
        if by_hand {
            line = 0;
        }
        Ok(Token { kind, text, line, col })
    }

    fn rest(&self) -> &'a str {
        &self.src[self.pos..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn advance(&mut self, len_bytes: usize) {
        for c in self.rest()[..len_bytes].chars() {
            if c == '\n' {
                self.line += 1;
                self.col = 1;
            } else {
                self.col += 1;
            }
        }
        self.pos += len_bytes;
    }

    fn check_nul(&mut self) -> Result<(), ParseError> {
        if self.pos <= self.nul {
            return Ok(());
        }
        // Count again up to the character, which lies behind.
        let mut upto = Self { src: self.src, pos: 0, line: 1, col: 1, nul: usize::MAX };
        upto.advance(self.nul);
        Err(ParseError::at(upto.line, upto.col, "invalid character NUL"))
    }

    fn skip_blanks(&mut self) -> Result<(), ParseError> {
        loop {
            let rest = self.rest();
            let len = if rest.starts_with([' ', '\t', '\r', '\n']) {
                rest.find(|c| !matches!(c, ' ' | '\t' | '\r' | '\n')).unwrap_or(rest.len())
            } else if rest.starts_with('#') || rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if let Some(comment) = rest.strip_prefix("/*") {
                match comment.find("*/") {
                    Some(len) => len + 4,
                    None => {
                        return Err(ParseError::at(self.line, self.col, "comment not terminated"));
                    }
                }
            } else {
                return Ok(());
            };
            self.advance(len);
            self.check_nul()?;
        }
    }

    /// A literal in double, back or single quotes.
    fn string(&mut self, quote: char) -> Result<Kind, String> {
        let rest = self.rest();
        let not_terminated = || Err("literal not terminated".to_owned());
        if quote == '`' {
            let Some(len) = rest[1..].find('`') else { return not_terminated() };
            self.advance(len + 2);
            return Ok(Kind::String(rest.as_bytes()[1..=len].to_vec()));
        }
        let mut escaped = false;
        let end = rest.char_indices().skip(1).find(|&(_, c)| {
            if escaped {
                escaped = false;
                return false;
            }
            escaped = c == '\\';
            c == quote || c == '\n'
        });
        let len = end.map_or(rest.len(), |(at, _)| at);
        let Ok(text) = unescape(&rest[1..len], quote as u8) else {
            return Err("invalid char escape".to_owned());
        };
        if end.is_none_or(|(_, c)| c != quote) {
            return not_terminated();
        }
        self.advance(len + 1);
        if quote == '"' {
            return Ok(Kind::String(text));
        }
        let chars = std::str::from_utf8(&text).map_or(text.len(), |text| text.chars().count());
        if chars == 1 { Ok(Kind::Ident) } else { Err("invalid char literal".to_owned()) }
    }

    fn range(&mut self) -> Result<Kind, String> {
        let rest = self.rest();
        let Some(end) = rest.find(']') else {
            return Err("missing closing ']' in duration".to_owned());
        };
        let range_ns = parse_model_duration_ns(&rest[1..end]).map_err(|error| error.to_string())?;
        self.advance(end + 1);
        Ok(Kind::Range(range_ns))
    }

    fn number(&mut self) -> Result<Kind, String> {
        let (kind, len) = number::scan(self.rest())?;
        self.advance(len);
        Ok(kind)
    }

    fn word(&mut self) -> Kind {
        let rest = self.rest();
        let len = rest.find(|c| !is_ident_char(c)).unwrap_or(rest.len());
        self.advance(len);
        if len > MAX_KEYWORD_LEN {
            return Kind::Ident;
        }
        let lower = rest[..len].to_ascii_lowercase();
        if let Some(kind) = token::reserved(&lower) {
            return kind;
        }
        match token::contextual(&lower) {
            Some(kind) if self.is_call() => kind,
            _ => Kind::Ident,
        }
    }

    /// Whether the word that ends here is followed by `(`, or by a grouping
    /// keyword and `(`, with nothing but white space between.
    fn is_call(&self) -> bool {
        let rest = self.rest().trim_start();
        let after_keyword = ["by", "without"].into_iter().find_map(|keyword| {
            let head = rest.get(..keyword.len())?;
            head.eq_ignore_ascii_case(keyword).then(|| rest[keyword.len()..].trim_start())
        });
        after_keyword.unwrap_or(rest).starts_with('(')
    }

    fn symbol(&mut self, c: char) -> Kind {
        let rest = self.rest();
        let two = match rest.as_bytes().get(1) {
            Some(second) => match (c, second) {
                ('=', b'~') => Some(Fixed::Match),
                ('=', b'=') => Some(Fixed::DoubleEqual),
                ('!', b'=') => Some(Fixed::NotEqual),
                ('!', b'~') => Some(Fixed::NotMatch),
                ('!', b'>') => Some(Fixed::NotPattern),
                ('|', b'=') => Some(Fixed::PipeExact),
                ('|', b'~') => Some(Fixed::PipeMatch),
                ('|', b'>') => Some(Fixed::PipePattern),
                ('>', b'=') => Some(Fixed::GreaterOrEqual),
                ('<', b'=') => Some(Fixed::LessOrEqual),
                _ => None,
            },
            None => None,
        };
        if let Some(fixed) = two {
            self.advance(2);
            return Kind::Fixed(fixed);
        }
        if c == '-'
            && let Some((kind, len)) = dash(rest)
        {
            self.advance(len);
            return kind;
        }
        self.advance(c.len_utf8());
        Kind::Fixed(match c {
            '{' => Fixed::OpenBrace,
            '}' => Fixed::CloseBrace,
            '(' => Fixed::OpenParen,
            ')' => Fixed::CloseParen,
            ']' => Fixed::CloseBracket,
            ',' => Fixed::Comma,
            '.' => Fixed::Dot,
            '|' => Fixed::Pipe,
            '=' => Fixed::Equal,
            '>' => Fixed::Greater,
            '<' => Fixed::Less,
            '+' => Fixed::Add,
            '-' => Fixed::Sub,
            '*' => Fixed::Mul,
            '/' => Fixed::Div,
            '%' => Fixed::Mod,
            '^' => Fixed::Pow,
            _ => return Kind::Ident,
        })
    }
}

/// A flag or a negative duration at the start of the text.
fn dash(rest: &str) -> Option<(Kind, usize)> {
    for (text, flag) in [("--strict", Flag::Strict), ("--keep-empty", Flag::KeepEmpty)] {
        let is_whole = |after: &str| !after.starts_with(|c| c == '-' || is_ident_char(c));
        if rest.strip_prefix(text).is_some_and(is_whole) {
            return Some((Kind::Flag(flag), text.len()));
        }
    }
    let len = 1 + number::duration_run_len(&rest[1..]);
    let text = &rest[..len];
    // `-0` is the number, not a duration without a unit.
    if len == 1 || text == "-0" {
        return None;
    }
    parse_go_duration_ns(text).ok().map(|duration_ns| (Kind::Duration(duration_ns), len))
}

#[cfg(test)]
mod tests;
