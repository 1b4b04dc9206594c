//! Log ranges: the inside of a range aggregation.

use super::Parser;
use crate::syntax::ParseError;
use crate::syntax::ast::{LogExpr, LogRange, Unwrap, UnwrapConversion};
use crate::syntax::lexer::{Fixed, Kind};

/// The kinds of text inside a range aggregation.
pub(super) enum Range {
    Complete(LogRange),
    Open { log: LogExpr, unwrap: Option<Unwrap> },
}

impl Parser<'_> {
    /// A log range, or a log query that still lacks its range.
    pub(super) fn log_range(&mut self) -> Result<Range, ParseError> {
        if self.take(Fixed::OpenParen)? {
            self.enter()?;
            let inner = self.log_range()?;
            self.nesting -= 1;
            return match inner {
                Range::Complete(range) => {
                    self.expect(Fixed::CloseParen, ")")?;
                    Ok(Range::Complete(range))
                }
                Range::Open { log, unwrap } => {
                    self.expect(Fixed::CloseParen, "")?;
                    let is_bare = log.stages.is_empty() && unwrap.is_none();
                    let Kind::Range(range_ns) = self.peek()?.kind else {
                        return Err(self.unexpected("RANGE"));
                    };
                    self.next()?;
                    let offset_ns = self.offset()?;
                    let mut range = LogRange { log, unwrap, range_ns, offset_ns };
                    if is_bare && self.take(Fixed::Pipe)? {
                        self.expect(Fixed::Unwrap, "unwrap")?;
                        range.unwrap = Some(self.unwrap()?);
                    }
                    Ok(Range::Complete(range))
                }
            };
        }
        if !self.is(Fixed::OpenBrace)? {
            return Err(self.unexpected("NUMBER or { or ("));
        }
        let selector = self.selector()?;
        let early = match self.peek()?.kind {
            Kind::Range(range_ns) => {
                self.next()?;
                Some((range_ns, self.offset()?))
            }
            _ => None,
        };
        let mut stages = Vec::new();
        let has_unwrap = self.pipeline(&mut stages, true)?;
        let unwrap = if has_unwrap { Some(self.unwrap()?) } else { None };
        let log = LogExpr { selector, stages };
        if let Some((range_ns, offset_ns)) = early {
            return Ok(Range::Complete(LogRange { log, unwrap, range_ns, offset_ns }));
        }
        let Kind::Range(range_ns) = self.peek()?.kind else {
            return match (self.is(Fixed::CloseParen)?, &unwrap) {
                (false, Some(_)) => Err(self.unexpected("RANGE or |")),
                _ => Ok(Range::Open { log, unwrap }),
            };
        };
        self.next()?;
        let offset_ns = self.offset()?;
        Ok(Range::Complete(LogRange { log, unwrap, range_ns, offset_ns }))
    }

    fn offset(&mut self) -> Result<i64, ParseError> {
        if !self.take(Fixed::Offset)? {
            return Ok(0);
        }
        let offset_ns = match self.peek()?.kind {
            Kind::Fixed(sign @ (Fixed::Add | Fixed::Sub)) => {
                self.next()?;
                self.signed_duration(sign, "DURATION")?
            }
            Kind::Duration(offset_ns) => {
                self.next()?;
                Some(offset_ns)
            }
            _ => None,
        };
        offset_ns.ok_or_else(|| self.unexpected("DURATION"))
    }

    /// The arguments of `| unwrap`.
    pub(super) fn unwrap(&mut self) -> Result<Unwrap, ParseError> {
        let conversion = match self.peek()?.kind {
            Kind::Fixed(Fixed::BytesConversion) => UnwrapConversion::Bytes,
            Kind::Fixed(Fixed::DurationConversion) => UnwrapConversion::Duration,
            Kind::Fixed(Fixed::DurationSecondsConversion) => UnwrapConversion::DurationSeconds,
            _ => UnwrapConversion::Number,
        };
        let label = if conversion == UnwrapConversion::Number {
            self.name("IDENTIFIER or BYTES_CONV or DURATION_CONV or DURATION_SECONDS_CONV")?
        } else {
            self.next()?;
            self.expect(Fixed::OpenParen, "(")?;
            let label = self.name("IDENTIFIER")?;
            self.expect(Fixed::CloseParen, ")")?;
            label
        };
        let mut filters = Vec::new();
        while self.take(Fixed::Pipe)? {
            if !matches!(self.peek()?.kind, Kind::Ident | Kind::Fixed(Fixed::OpenParen)) {
                return Err(self.unexpected("IDENTIFIER or ("));
            }
            filters.push(self.label_filter()?);
        }
        Ok(Unwrap { label, conversion, filters })
    }
}
