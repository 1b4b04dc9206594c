//! Label filter expressions.
//!
//! `and` binds tighter than `or`. A comma, or nothing at all between two terms,
//! also means `and`, but takes just the term before it and everything after it.

use super::{Parser, unexpected, unexpected_one};
use crate::syntax::ast::{CompareOp, LabelFilter, MatchOp, Matcher};
use crate::syntax::lexer::{Fixed, Kind};
use crate::syntax::{MAX_LABEL_FILTER_DEPTH, ParseError};
use logsvc_proto::go::float::parse_float;

/// A filter and its depth.
type Operand = (LabelFilter, usize);

/// An operator that waits for its right-hand side.
#[derive(Clone, Copy, PartialEq)]
enum Pending {
    Parenthesis,
    /// A comma or nothing: takes everything that follows.
    List,
    Or,
    And,
}

const TERM: &str = "IDENTIFIER or (";
/// The tokens that may follow the sign of a value.
const UNSIGNED: &str = "NUMBER or DURATION or BYTES";

impl Parser<'_> {
    /// A whole label filter expression; the next token begins it.
    pub(super) fn label_filter(&mut self) -> Result<LabelFilter, ParseError> {
        let mut operands: Vec<Operand> = Vec::new();
        let mut pending: Vec<Pending> = Vec::new();
        let mut open_parentheses = 0;
        loop {
            while self.take(Fixed::OpenParen)? {
                pending.push(Pending::Parenthesis);
                open_parentheses += 1;
            }
            operands.push((self.label_term()?, 1));
            loop {
                let next = match &self.peek()?.kind {
                    Kind::Fixed(Fixed::And) => Pending::And,
                    Kind::Fixed(Fixed::Or) => Pending::Or,
                    Kind::Fixed(Fixed::Comma | Fixed::OpenParen) | Kind::Ident => Pending::List,
                    Kind::Fixed(Fixed::CloseParen) if open_parentheses > 0 => {
                        self.next()?;
                        open_parentheses -= 1;
                        while let Some(operator) = pending.pop()
                            && operator != Pending::Parenthesis
                        {
                            reduce(&mut operands, operator)?;
                        }
                        continue;
                    }
                    _ if open_parentheses > 0 => return Err(self.unexpected("")),
                    _ => {
                        while let Some(operator) = pending.pop() {
                            reduce(&mut operands, operator)?;
                        }
                        let (filter, _) = operands.pop().expect("every operator had operands");
                        return Ok(filter);
                    }
                };
                let strength = |operator| match operator {
                    Pending::Parenthesis | Pending::List => 0,
                    Pending::Or => 1,
                    Pending::And => 2,
                };
                if next != Pending::List {
                    self.next()?;
                    while let Some(&top) = pending.last()
                        && strength(top) >= strength(next)
                    {
                        pending.pop();
                        reduce(&mut operands, top)?;
                    }
                } else {
                    self.take(Fixed::Comma)?;
                }
                pending.push(next);
                break;
            }
        }
    }

    fn label_term(&mut self) -> Result<LabelFilter, ParseError> {
        let name = self.name(TERM)?;
        let token = self.next()?;
        let (op, match_op) = match &token.kind {
            Kind::Fixed(Fixed::Equal) => (CompareOp::Equal, Some(MatchOp::Equal)),
            Kind::Fixed(Fixed::NotEqual) => (CompareOp::NotEqual, Some(MatchOp::NotEqual)),
            Kind::Fixed(Fixed::DoubleEqual) => (CompareOp::Equal, None),
            Kind::Fixed(Fixed::Greater) => (CompareOp::Greater, None),
            Kind::Fixed(Fixed::GreaterOrEqual) => (CompareOp::GreaterOrEqual, None),
            Kind::Fixed(Fixed::Less) => (CompareOp::Less, None),
            Kind::Fixed(Fixed::LessOrEqual) => (CompareOp::LessOrEqual, None),
            Kind::Fixed(fixed @ (Fixed::Match | Fixed::NotMatch)) => {
                let op = if *fixed == Fixed::Match { MatchOp::Regex } else { MatchOp::NotRegex };
                let value = self.string("STRING")?;
                self.check_matcher_regex(&value)?;
                return Ok(LabelFilter::String(Matcher { name, op, value: value.into() }));
            }
            _ => return Err(unexpected(&token, "")),
        };
        let token = self.next()?;
        match (token.kind, match_op) {
            (Kind::String(value), Some(op)) => {
                Ok(LabelFilter::String(Matcher { name, op, value: value.into() }))
            }
            (Kind::Fixed(Fixed::Ip), Some(op)) => {
                let negated = op == MatchOp::NotEqual;
                Ok(LabelFilter::Ip { name, negated, pattern: self.ip_argument()?.into() })
            }
            (Kind::Duration(value_ns), _) => Ok(LabelFilter::Duration { name, op, value_ns }),
            (Kind::Bytes(size_bytes), _) => {
                Ok(LabelFilter::Bytes { name, op, value_bytes: size_bytes.into() })
            }
            (Kind::Number, _) => Ok(LabelFilter::Number { name, op, value: literal(token.text)? }),
            (Kind::Fixed(sign @ (Fixed::Add | Fixed::Sub)), _) => {
                if let Some(value_ns) = self.signed_duration(sign, UNSIGNED)? {
                    return Ok(LabelFilter::Duration { name, op, value_ns });
                }
                if let Kind::Bytes(size_bytes) = self.peek()?.kind {
                    self.next()?;
                    let value_bytes = i128::from(size_bytes);
                    let value_bytes = if sign == Fixed::Sub { -value_bytes } else { value_bytes };
                    return Ok(LabelFilter::Bytes { name, op, value_bytes });
                }
                let value = self.signed_literal(sign, UNSIGNED)?;
                Ok(LabelFilter::Number { name, op, value })
            }
            (kind, _) => Err(unexpected(&super::Token { kind, ..token }, "")),
        }
    }

    /// The number after a sign.
    pub(super) fn signed_literal(
        &mut self,
        sign: Fixed,
        expecting: &str,
    ) -> Result<f64, ParseError> {
        if self.peek()?.kind != Kind::Number {
            return Err(self.unexpected(expecting));
        }
        let value = literal(self.next()?.text)?;
        Ok(if sign == Fixed::Sub { -value } else { value })
    }

    /// The duration after a sign, in nanoseconds, if the next token is one. It must not
    /// have a sign of its own, which some durations take along.
    pub(super) fn signed_duration(
        &mut self,
        sign: Fixed,
        expecting: &str,
    ) -> Result<Option<i64>, ParseError> {
        let token = self.peek()?;
        let Kind::Duration(duration_ns) = token.kind else { return Ok(None) };
        if token.text.starts_with('-') {
            return Err(unexpected_one(token, Fixed::Sub.as_str(), expecting));
        }
        self.next()?;
        Ok(Some(if sign == Fixed::Sub { -duration_ns } else { duration_ns }))
    }

    /// `("pattern")` after `ip`.
    pub(super) fn ip_argument(&mut self) -> Result<Vec<u8>, ParseError> {
        self.expect(Fixed::OpenParen, "(")?;
        let pattern = self.string("STRING")?;
        self.expect(Fixed::CloseParen, ")")?;
        Ok(pattern)
    }
}

/// The value of a number.
pub(super) fn literal(text: &str) -> Result<f64, ParseError> {
    parse_float(text)
        .map_err(|error| ParseError::new(format!("unable to parse literal as a float: {error}")))
}

fn reduce(operands: &mut Vec<Operand>, operator: Pending) -> Result<(), ParseError> {
    let (right, right_depth) = operands.pop().expect("an operator has a right operand");
    let (left, left_depth) = operands.pop().expect("an operator has a left operand");
    let depth = 1 + left_depth.max(right_depth);
    if depth > MAX_LABEL_FILTER_DEPTH {
        return Err(ParseError::new(format!(
            "the label filter nests too deeply (more than {MAX_LABEL_FILTER_DEPTH} levels)"
        )));
    }
    let (left, right) = (Box::new(left), Box::new(right));
    let filter = match operator {
        Pending::Or => LabelFilter::Or(left, right),
        _ => LabelFilter::And(left, right),
    };
    operands.push((filter, depth));
    Ok(())
}
