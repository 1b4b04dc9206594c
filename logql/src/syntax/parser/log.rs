//! Log queries: selectors and pipelines.

use super::Parser;
use crate::syntax::ast::{
    Arguments, Flag, LineFilter, LineFilterOp, LineOperand, LogExpr, MatchOp, Matcher,
    NameOrMatcher, Selector, Stage, Text,
};
use crate::syntax::lexer::{Fixed, Kind};
use crate::syntax::{ParseError, checker, go_regex};

impl Parser<'_> {
    /// A selector and its pipeline; the next token is the brace.
    pub(super) fn log_expr(&mut self) -> Result<LogExpr, ParseError> {
        let selector = self.selector()?;
        let mut stages = Vec::new();
        self.pipeline(&mut stages, false)?;
        Ok(LogExpr { selector, stages })
    }

    /// `{...}`; the next token is the brace.
    pub(super) fn selector(&mut self) -> Result<Selector, ParseError> {
        self.expect(Fixed::OpenBrace, "{")?;
        let mut matchers = Vec::new();
        let mut is_selective = false;
        if !self.take(Fixed::CloseBrace)? {
            let mut expecting = "IDENTIFIER or }";
            loop {
                let name = self.name(expecting)?;
                let Some(op) = self.match_op()? else {
                    return Err(self.unexpected("= or =~ or !~ or !="));
                };
                let (matcher, matches_empty) = self.matcher_value(name, op)?;
                is_selective |= !matches_empty;
                matchers.push(matcher);
                if !self.take(Fixed::Comma)? {
                    break;
                }
                expecting = "IDENTIFIER";
            }
            self.expect(Fixed::CloseBrace, "} or ,")?;
        }
        self.is_selective &= is_selective;
        Ok(Selector { matchers })
    }

    /// Takes the operator of a matcher, if the next token is one.
    fn match_op(&mut self) -> Result<Option<MatchOp>, ParseError> {
        let op = match self.peek()?.kind {
            Kind::Fixed(Fixed::Equal) => MatchOp::Equal,
            Kind::Fixed(Fixed::NotEqual) => MatchOp::NotEqual,
            Kind::Fixed(Fixed::Match) => MatchOp::Regex,
            Kind::Fixed(Fixed::NotMatch) => MatchOp::NotRegex,
            _ => return Ok(None),
        };
        self.next()?;
        Ok(Some(op))
    }

    /// The value of a matcher. Also returns whether the matcher accepts the empty
    /// value.
    fn matcher_value(&mut self, name: String, op: MatchOp) -> Result<(Matcher, bool), ParseError> {
        let value = self.string("STRING")?;
        let matches_empty = match op {
            MatchOp::Equal => value.is_empty(),
            MatchOp::NotEqual => !value.is_empty(),
            MatchOp::Regex => self.check_matcher_regex(&value)?,
            MatchOp::NotRegex => !self.check_matcher_regex(&value)?,
        };
        Ok((Matcher { name, op, value: value.into() }, matches_empty))
    }

    /// Stages up to the first token that begins none. With `allow_unwrap`, `true`
    /// means that `| unwrap` was reached and taken.
    pub(super) fn pipeline(
        &mut self,
        stages: &mut Vec<Stage>,
        allow_unwrap: bool,
    ) -> Result<bool, ParseError> {
        loop {
            let filters = self.line_filters()?;
            if !filters.is_empty() {
                stages.push(Stage::LineFilters(filters));
                continue;
            }
            if !self.take(Fixed::Pipe)? {
                return Ok(false);
            }
            if allow_unwrap && self.take(Fixed::Unwrap)? {
                return Ok(true);
            }
            stages.push(self.stage()?);
        }
    }

    /// A run of line filters; empty when the next token begins none.
    fn line_filters(&mut self) -> Result<Vec<LineFilter>, ParseError> {
        let mut filters = Vec::new();
        loop {
            let op = match self.peek()?.kind {
                Kind::Fixed(Fixed::PipeExact) => LineFilterOp::Contains,
                Kind::Fixed(Fixed::NotEqual) => LineFilterOp::NotContains,
                Kind::Fixed(Fixed::PipeMatch) => LineFilterOp::Regex,
                Kind::Fixed(Fixed::NotMatch) => LineFilterOp::NotRegex,
                Kind::Fixed(Fixed::PipePattern) => LineFilterOp::Pattern,
                Kind::Fixed(Fixed::NotPattern) => LineFilterOp::NotPattern,
                _ => return Ok(filters),
            };
            self.next()?;
            let mut operands = vec![self.line_operand()?];
            while self.take(Fixed::Or)? {
                operands.push(self.line_operand()?);
            }
            if op.is_negative() {
                let split = operands.into_iter().map(|x| LineFilter { op, operands: vec![x] });
                filters.extend(split);
            } else {
                filters.push(LineFilter { op, operands });
            }
        }
    }

    fn line_operand(&mut self) -> Result<LineOperand, ParseError> {
        if self.take(Fixed::Ip)? {
            return Ok(LineOperand::Ip(self.ip_argument()?.into()));
        }
        Ok(LineOperand::Text(self.string("STRING or ip")?.into()))
    }

    /// A stage; its `|` was taken.
    fn stage(&mut self) -> Result<Stage, ParseError> {
        match self.peek()?.kind {
            Kind::Ident | Kind::Fixed(Fixed::OpenParen) => {
                Ok(Stage::LabelFilter(self.label_filter()?))
            }
            Kind::Stage(keyword) => {
                self.next()?;
                Stage::parse(keyword, self)
            }
            _ => Err(self.unexpected("")),
        }
    }
}

impl Arguments for Parser<'_> {
    fn next_is_name(&mut self) -> Result<bool, ParseError> {
        Ok(self.peek()?.kind == Kind::Ident)
    }

    fn name(&mut self, expecting: &str) -> Result<String, ParseError> {
        Parser::name(self, expecting)
    }

    fn text(&mut self, expecting: &str) -> Result<Text, ParseError> {
        Ok(self.string(expecting)?.into())
    }

    fn take_flag(&mut self) -> Result<Option<Flag>, ParseError> {
        let Kind::Flag(flag) = self.peek()?.kind else { return Ok(None) };
        self.next()?;
        Ok(Some(flag))
    }

    fn take_equal(&mut self) -> Result<bool, ParseError> {
        self.take(Fixed::Equal)
    }

    fn expect_equal(&mut self) -> Result<(), ParseError> {
        self.expect(Fixed::Equal, "=")
    }

    fn take_comma(&mut self) -> Result<bool, ParseError> {
        self.take(Fixed::Comma)
    }

    fn name_or_matcher(&mut self) -> Result<NameOrMatcher, ParseError> {
        let name = Parser::name(self, "IDENTIFIER")?;
        Ok(match self.match_op()? {
            Some(op) => NameOrMatcher::Matcher(self.matcher_value(name, op)?.0),
            None => NameOrMatcher::Name(name),
        })
    }

    fn check_regexp(&mut self, pattern: &[u8]) -> Result<(), ParseError> {
        let translation =
            self.charge_regex(go_regex::translate(pattern, go_regex::Purpose::Captures))?;
        go_regex::compile_capturing(pattern).map_err(ParseError::new)?;
        checker::check_group_names(&translation.group_names)
    }
}
