//! Log queries: selectors and pipelines.

use super::Parser;
use crate::syntax::ast::{
    Extraction, LabelFormat, LabelFormatValue, LineFilter, LineFilterOp, LineOperand, LogExpr,
    LogfmtParser, MatchOp, Matcher, NameOrMatcher, Selector, Stage,
};
use crate::syntax::lexer::{Fixed, Kind};
use crate::syntax::{ParseError, checker, go_regex, pattern};

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
        let keyword = match self.peek()?.kind {
            Kind::Fixed(fixed) => fixed,
            Kind::Ident => return Ok(Stage::LabelFilter(self.label_filter()?)),
            _ => return Err(self.unexpected("")),
        };
        if keyword == Fixed::OpenParen {
            return Ok(Stage::LabelFilter(self.label_filter()?));
        }
        let token = self.next()?;
        Ok(match keyword {
            Fixed::Json => Stage::Json(self.extractions()?),
            Fixed::Logfmt => Stage::Logfmt(self.logfmt()?),
            Fixed::Regexp => {
                let pattern = self.string("STRING")?;
                self.check_regexp(&pattern).map_err(|error| {
                    ParseError::new(format!("invalid regexp parser: {}", error.message))
                })?;
                Stage::Regexp(pattern.into())
            }
            Fixed::Pattern => {
                let text = self.string("STRING")?;
                pattern::check_pattern_parser(&text).map_err(|detail| {
                    ParseError::new(format!("invalid pattern parser: {detail}"))
                })?;
                Stage::Pattern(text.into())
            }
            Fixed::Unpack => Stage::Unpack,
            Fixed::LineFormat => Stage::LineFormat(self.string("STRING")?.into()),
            Fixed::LabelFormat => Stage::LabelFormat(self.label_formats()?),
            Fixed::Decolorize => Stage::Decolorize,
            Fixed::Drop => Stage::Drop(self.names_or_matchers()?),
            Fixed::Keep => Stage::Keep(self.names_or_matchers()?),
            _ => return Err(super::unexpected(&token, "")),
        })
    }

    fn check_regexp(&mut self, pattern: &[u8]) -> Result<(), ParseError> {
        let translation =
            self.charge_regex(go_regex::translate(pattern, go_regex::Purpose::Captures))?;
        go_regex::compile_capturing(pattern).map_err(ParseError::new)?;
        checker::check_group_names(&translation.group_names)
    }

    fn logfmt(&mut self) -> Result<LogfmtParser, ParseError> {
        let mut parser = LogfmtParser::default();
        loop {
            match self.peek()?.kind {
                Kind::Strict => parser.strict = true,
                Kind::KeepEmpty => parser.keep_empty = true,
                _ => break,
            }
            self.next()?;
        }
        parser.extractions = self.extractions()?;
        Ok(parser)
    }

    /// Extractions, possibly none.
    fn extractions(&mut self) -> Result<Vec<Extraction>, ParseError> {
        let mut extractions = Vec::new();
        if self.peek()?.kind != Kind::Ident {
            return Ok(extractions);
        }
        loop {
            let label = self.name("IDENTIFIER")?;
            let source = if self.take(Fixed::Equal)? {
                self.string("STRING")?.into()
            } else {
                label.as_str().into()
            };
            extractions.push(Extraction { label, source });
            if !self.take(Fixed::Comma)? {
                return Ok(extractions);
            }
        }
    }

    fn label_formats(&mut self) -> Result<Vec<LabelFormat>, ParseError> {
        let mut items = Vec::new();
        loop {
            let label = self.name("IDENTIFIER")?;
            self.expect(Fixed::Equal, "=")?;
            let value = if self.peek()?.kind == Kind::Ident {
                LabelFormatValue::Rename(self.name("IDENTIFIER or STRING")?)
            } else {
                LabelFormatValue::Template(self.string("IDENTIFIER or STRING")?.into())
            };
            items.push(LabelFormat { label, value });
            if !self.take(Fixed::Comma)? {
                return Ok(items);
            }
        }
    }

    fn names_or_matchers(&mut self) -> Result<Vec<NameOrMatcher>, ParseError> {
        let mut items = Vec::new();
        loop {
            let name = self.name("IDENTIFIER")?;
            items.push(match self.match_op()? {
                Some(op) => NameOrMatcher::Matcher(self.matcher_value(name, op)?.0),
                None => NameOrMatcher::Name(name),
            });
            if !self.take(Fixed::Comma)? {
                return Ok(items);
            }
        }
    }
}
