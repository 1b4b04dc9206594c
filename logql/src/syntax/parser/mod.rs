//! Tokens to syntax tree: a recursive-descent parser that uses explicit stacks
//! wherever the text decides how long a chain gets.
//!
//! Recursion happens only for parentheses and arguments and is bounded by
//! [`MAX_EXPR_DEPTH`](super::MAX_EXPR_DEPTH), as is the depth of the tree. Work is
//! bounded by the length of the text and by [`MAX_QUERY_REGEX_COST`].
//!
//! Which of several errors is reported follows Loki: an error in the
//! form of the text, a bad pattern of a matcher or parser stage, and a malformed
//! number count as soon as they are reached; problems of functions and operators
//! wait until the whole text has been read, and then the outermost and leftmost
//! one counts.

mod label_filter;
mod log;
mod metric;
mod pipeline;
mod range;

pub(crate) use pipeline::{check_matchers, parse_pipeline};

use super::ast::{Expr, LogExpr, MetricExpr, Selector};
use super::idents::is_ident_start;
use super::lexer::{Fixed, Kind, Lexer, Token};
use super::{ParseError, checker, go_regex};
use logsvc_proto::go::quote::quoted;

/// Length in bytes from which a query is refused.
pub const MAX_QUERY_LEN_BYTES: usize = 131_072;

/// Most of [`go_regex::Translation::cost`] that one query may hold.
pub const MAX_QUERY_REGEX_COST: u64 = 500_000;

/// Parses and checks a query.
///
/// # Errors
/// The first problem, in the words of Loki.
pub fn parse(query: &str) -> Result<Expr, ParseError> {
    let (expr, is_selective) = parse_unchecked(query)?;
    checker::check_sort_grouping(&expr)?;
    if !is_selective {
        return Err(checker::not_selective());
    }
    Ok(expr)
}

/// Like [`parse`], for text that may not be UTF-8.
///
/// # Errors
/// As [`parse`], and `invalid UTF-8 encoding` at the first bad byte.
pub fn parse_bytes(query: &[u8]) -> Result<Expr, ParseError> {
    match std::str::from_utf8(query) {
        Ok(query) => parse(query),
        Err(_) if query.len() >= MAX_QUERY_LEN_BYTES => Err(too_long(query.len())),
        Err(error) => {
            let before = String::from_utf8_lossy(&query[..error.valid_up_to()]);
            let line = 1 + before.matches('\n').count();
            let col = 1 + before.rsplit('\n').next().unwrap_or("").chars().count();
            // The length limit keeps both far below the range of the type.
            Err(ParseError::at(line as u32, col as u32, "invalid UTF-8 encoding"))
        }
    }
}

/// Addition to the sum for the smallest pattern.
const REGEX_BASE_COST: u64 = 20;

/// Why a text is not the kind of query that an endpoint takes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SelectorError {
    /// It is not a query at all.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// It has a pipeline, or yields samples.
    #[error("only label matchers are supported")]
    NotASelector,
    /// It yields samples.
    #[error("only log selector is supported")]
    NotALogQuery,
}

/// Parses a query that may consist of a stream selector only.
///
/// # Errors
/// As [`parse`], and `only label matchers are supported`.
pub fn parse_selector(query: &str) -> Result<Selector, SelectorError> {
    match parse(query)? {
        Expr::Log(log) if log.stages.is_empty() => Ok(log.selector),
        _ => Err(SelectorError::NotASelector),
    }
}

/// Like [`parse_selector`], but accepts `{}` and selectors whose matchers all
/// match the empty value. The caller decides the meaning of these selectors.
///
/// # Errors
/// As [`parse_selector`].
pub fn parse_matchers(query: &str) -> Result<Selector, SelectorError> {
    match parse_unchecked(query)?.0 {
        Expr::Log(log) if log.stages.is_empty() => Ok(log.selector),
        _ => Err(SelectorError::NotASelector),
    }
}

/// Parses a query that must yield entries.
///
/// # Errors
/// As [`parse`], and `only log selector is supported`.
pub fn parse_log_selector(query: &str) -> Result<LogExpr, SelectorError> {
    match parse(query)? {
        Expr::Log(log) => Ok(log),
        Expr::Metric(_) => Err(SelectorError::NotALogQuery),
    }
}

fn too_long(len_bytes: usize) -> ParseError {
    longer_than(len_bytes, MAX_QUERY_LEN_BYTES)
}

fn longer_than(len_bytes: usize, max_len_bytes: usize) -> ParseError {
    ParseError::new(format!("input size too long ({len_bytes} > {max_len_bytes})"))
}

/// Parses without the checks that follow parsing. Also returns whether every
/// selector has a matcher that does not match the empty value.
fn parse_unchecked(query: &str) -> Result<(Expr, bool), ParseError> {
    if query.len() >= MAX_QUERY_LEN_BYTES {
        return Err(too_long(query.len()));
    }
    let mut parser = Parser::new(query);
    let node = parser.expr()?;
    if parser.peek()?.kind != Kind::End {
        return Err(parser.unexpected(""));
    }
    match parser.odd_name.or(node.problem) {
        Some(problem) => Err(problem),
        None => Ok((node.expr, parser.is_selective)),
    }
}

/// A parsed expression on its way into the tree.
struct Node {
    expr: Expr,
    /// Levels of metric expressions, at least 1.
    depth: usize,
    /// The first problem within that does not stop parsing.
    problem: Option<ParseError>,
}

impl Node {
    fn leaf(expr: MetricExpr) -> Self {
        Self { expr: Expr::Metric(expr), depth: 1, problem: None }
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    lookahead: Option<Token<'a>>,
    /// Open parentheses and argument lists.
    nesting: usize,
    /// Sum of the costs of the patterns so far.
    regex_cost: u64,
    /// No selector so far matches streams without any label.
    is_selective: bool,
    /// The first name that is no name, such as `$`. The grammar takes it for one,
    /// which decides where an error is found; no label can have it, though.
    odd_name: Option<ParseError>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            lexer: Lexer::new(text),
            lookahead: None,
            nesting: 0,
            regex_cost: 0,
            is_selective: true,
            odd_name: None,
        }
    }

    /// The next token, which stays next.
    fn peek(&mut self) -> Result<&Token<'a>, ParseError> {
        if self.lookahead.is_none() {
            self.lookahead = Some(self.lexer.next_token()?);
        }
        Ok(self.lookahead.as_ref().expect("it was just filled"))
    }

    fn next(&mut self) -> Result<Token<'a>, ParseError> {
        match self.lookahead.take() {
            Some(token) => Ok(token),
            None => self.lexer.next_token(),
        }
    }

    /// Whether the next token is the given one.
    fn is(&mut self, fixed: Fixed) -> Result<bool, ParseError> {
        Ok(self.peek()?.kind == Kind::Fixed(fixed))
    }

    /// Takes the next token if it is the given one.
    fn take(&mut self, fixed: Fixed) -> Result<bool, ParseError> {
        let is = self.is(fixed)?;
        if is {
            self.lookahead = None;
        }
        Ok(is)
    }

    /// Takes the next token, which must be the given one.
    fn expect(&mut self, fixed: Fixed, expecting: &str) -> Result<(), ParseError> {
        if self.take(fixed)? { Ok(()) } else { Err(self.unexpected(expecting)) }
    }

    fn name(&mut self, expecting: &str) -> Result<String, ParseError> {
        if self.peek()?.kind != Kind::Ident {
            return Err(self.unexpected(expecting));
        }
        let token = self.next()?;
        if self.odd_name.is_none() && !token.text.starts_with(is_ident_start) {
            // Its kind is the one that is expected, so it goes by its text.
            let text = quoted(token.text);
            self.odd_name = Some(unexpected_one(&token, &text[1..text.len() - 1], expecting));
        }
        Ok(token.text.to_owned())
    }

    fn string(&mut self, expecting: &str) -> Result<Vec<u8>, ParseError> {
        match self.next()? {
            Token { kind: Kind::String(text), .. } => Ok(text),
            token => Err(unexpected(&token, expecting)),
        }
    }

    /// The error for the next token. `expecting` lists the tokens that could stand
    /// there, where Loki lists them.
    fn unexpected(&mut self, expecting: &str) -> ParseError {
        match self.peek() {
            Ok(token) => unexpected(token, expecting),
            Err(error) => error,
        }
    }

    /// Names in parentheses, separated by commas; possibly none.
    fn names(&mut self) -> Result<Vec<String>, ParseError> {
        self.expect(Fixed::OpenParen, "(")?;
        let mut names = Vec::new();
        if self.take(Fixed::CloseParen)? {
            return Ok(names);
        }
        names.push(self.name("IDENTIFIER or )")?);
        while self.take(Fixed::Comma)? {
            names.push(self.name("IDENTIFIER")?);
        }
        self.expect(Fixed::CloseParen, ", or )")?;
        Ok(names)
    }

    /// Checks the pattern of a matcher. Returns whether it matches the empty text.
    fn check_matcher_regex(&mut self, pattern: &[u8]) -> Result<bool, ParseError> {
        self.charge_regex(go_regex::translate(pattern, go_regex::Purpose::Matcher))?;
        let regex = go_regex::compile_matcher(pattern).map_err(ParseError::new)?;
        Ok(regex.is_match(b""))
    }

    fn charge_regex(
        &mut self,
        translation: Result<go_regex::Translation, String>,
    ) -> Result<go_regex::Translation, ParseError> {
        let translation = translation.map_err(ParseError::new)?;
        self.regex_cost += REGEX_BASE_COST + translation.cost;
        if self.regex_cost > MAX_QUERY_REGEX_COST {
            return Err(ParseError::new("the regular expressions of the query are too large"));
        }
        Ok(translation)
    }
}

fn unexpected(token: &Token<'_>, expecting: &str) -> ParseError {
    unexpected_one(token, &token.kind.name(), expecting)
}

fn unexpected_one(token: &Token<'_>, name: &str, expecting: &str) -> ParseError {
    let mut message = format!("syntax error: unexpected {name}");
    if !expecting.is_empty() {
        message.push_str(", expecting ");
        message.push_str(expecting);
    }
    ParseError::at(token.line, token.col, message)
}
