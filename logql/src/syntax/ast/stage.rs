//! The stages of a pipeline: their nodes, the words that begin them, how they are read and how they
//! are printed.
//!
//! A new stage has its whole syntax in this file. `tests/syntax_random.rs` holds that each stage
//! reads back as it is printed. `engine/pipeline` executes the stages.

use std::fmt::{self, Display};

use super::{LabelFilter, LineFilter, Matcher, Text};
use crate::syntax::ParseError;
use crate::syntax::pattern::check_pattern_parser;

/// One stage of a pipeline.
#[derive(Clone, PartialEq, Debug)]
pub enum Stage {
    /// A non-empty run of adjacent line filters.
    LineFilters(Vec<LineFilter>),
    /// `| json`, with or without extractions.
    Json(Vec<Extraction>),
    /// `| logfmt`
    Logfmt(LogfmtParser),
    /// `| regexp "..."`: the pattern compiles and has a named group.
    Regexp(Text),
    /// `| pattern "..."`: the pattern is well formed and names a capture.
    Pattern(Text),
    /// `| unpack`
    Unpack,
    /// `| status >= 500 and method = "GET"`
    LabelFilter(LabelFilter),
    /// `| line_format "template"`
    LineFormat(Text),
    /// `| label_format ...`, non-empty.
    LabelFormat(Vec<LabelFormat>),
    /// `| decolorize`
    Decolorize,
    /// `| drop ...`, non-empty.
    Drop(Vec<NameOrMatcher>),
    /// `| keep ...`, non-empty.
    Keep(Vec<NameOrMatcher>),
}

/// `label="source"` of a parameterised `json` or `logfmt`; `x` alone is `x="x"`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extraction {
    /// The label that is set.
    pub label: String,
    /// The source expression, unchecked.
    pub source: Text,
}

/// `| logfmt --strict --keep-empty a="b"`
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogfmtParser {
    /// `--strict`: stop at the first malformed pair and set an error.
    pub strict: bool,
    /// `--keep-empty`: keep keys without a value.
    pub keep_empty: bool,
    /// Empty for the implicit form, which extracts every pair.
    pub extractions: Vec<Extraction>,
}

/// One item of `label_format`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LabelFormat {
    /// The label that is set.
    pub label: String,
    /// The value that it is set to.
    pub value: LabelFormatValue,
}

/// Right-hand side of a `label_format` item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LabelFormatValue {
    /// `dst=src`: move the value of another label.
    Rename(String),
    /// `dst="template"`, unchecked.
    Template(Text),
}

/// Item of `drop` and `keep`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NameOrMatcher {
    /// The label whatever its value.
    Name(String),
    /// The label when its value matches.
    Matcher(Matcher),
}

macro_rules! keywords {
    ($($variant:ident $text:literal,)*) => {
        /// The word that begins a stage.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(in crate::syntax) enum Keyword { $($variant,)* }

        /// All words.
        #[cfg(test)]
        const WORDS: &[&str] = &[$($text,)*];

        impl Keyword {
            /// The word as it is printed, and its name in error messages.
            pub(in crate::syntax) fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The keyword that a word in small letters is.
            pub(in crate::syntax) fn of_word(lower: &str) -> Option<Self> {
                match lower { $($text => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

keywords! {
    Json "json", Regexp "regexp", Logfmt "logfmt", Unpack "unpack", Pattern "pattern",
    LineFormat "line_format", LabelFormat "label_format", Decolorize "decolorize",
    Drop "drop", Keep "keep",
}

/// A flag of a stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::syntax) enum Flag {
    /// `--strict`
    Strict,
    /// `--keep-empty`
    KeepEmpty,
}

/// The tokens behind a keyword, as far as stages have a use for them. The parser has them.
///
/// Each method fails with the error of the lexer, or with `syntax error: unexpected ...` where
/// the next token is another one than the method expects. `expecting` lists for the message the
/// tokens that could stand there.
pub(in crate::syntax) trait Arguments {
    /// Whether the next token is a name. Takes nothing.
    fn next_is_name(&mut self) -> Result<bool, ParseError>;
    /// Takes a name.
    fn name(&mut self, expecting: &str) -> Result<String, ParseError>;
    /// Takes a string.
    fn text(&mut self, expecting: &str) -> Result<Text, ParseError>;
    /// Takes a flag, if the next token is one.
    fn take_flag(&mut self) -> Result<Option<Flag>, ParseError>;
    /// Takes `=`, if it is the next token.
    fn take_equal(&mut self) -> Result<bool, ParseError>;
    /// Takes `=`.
    fn expect_equal(&mut self) -> Result<(), ParseError>;
    /// Takes `,`, if it is the next token.
    fn take_comma(&mut self) -> Result<bool, ParseError>;
    /// Takes `a` or `a="b"`.
    fn name_or_matcher(&mut self) -> Result<NameOrMatcher, ParseError>;
    /// Checks a pattern whose named groups become labels, and counts its cost.
    fn check_regexp(&mut self, pattern: &[u8]) -> Result<(), ParseError>;
}

impl Stage {
    /// Reads the arguments behind a keyword.
    pub(in crate::syntax) fn parse(
        keyword: Keyword,
        arguments: &mut impl Arguments,
    ) -> Result<Self, ParseError> {
        Ok(match keyword {
            Keyword::Json => Self::Json(extractions(arguments)?),
            Keyword::Logfmt => Self::Logfmt(logfmt(arguments)?),
            Keyword::Regexp => {
                let pattern = arguments.text("STRING")?;
                arguments.check_regexp(&pattern).map_err(|error| {
                    ParseError::new(format!("invalid regexp parser: {}", error.message))
                })?;
                Self::Regexp(pattern)
            }
            Keyword::Pattern => {
                let pattern = arguments.text("STRING")?;
                check_pattern_parser(&pattern).map_err(|detail| {
                    ParseError::new(format!("invalid pattern parser: {detail}"))
                })?;
                Self::Pattern(pattern)
            }
            Keyword::Unpack => Self::Unpack,
            Keyword::LineFormat => Self::LineFormat(arguments.text("STRING")?),
            Keyword::LabelFormat => Self::LabelFormat(list(arguments, label_format)?),
            Keyword::Decolorize => Self::Decolorize,
            Keyword::Drop => Self::Drop(list(arguments, Arguments::name_or_matcher)?),
            Keyword::Keep => Self::Keep(list(arguments, Arguments::name_or_matcher)?),
        })
    }
}

/// Items with commas between them, at least one.
fn list<A: Arguments, T>(
    arguments: &mut A,
    item: impl Fn(&mut A) -> Result<T, ParseError>,
) -> Result<Vec<T>, ParseError> {
    let mut items = vec![item(arguments)?];
    while arguments.take_comma()? {
        items.push(item(arguments)?);
    }
    Ok(items)
}

/// Extractions, possibly none.
fn extractions(arguments: &mut impl Arguments) -> Result<Vec<Extraction>, ParseError> {
    if !arguments.next_is_name()? {
        return Ok(Vec::new());
    }
    list(arguments, |arguments| {
        let label = arguments.name("IDENTIFIER")?;
        let source =
            if arguments.take_equal()? { arguments.text("STRING")? } else { label.as_str().into() };
        Ok(Extraction { label, source })
    })
}

fn logfmt(arguments: &mut impl Arguments) -> Result<LogfmtParser, ParseError> {
    let mut parser = LogfmtParser::default();
    while let Some(flag) = arguments.take_flag()? {
        match flag {
            Flag::Strict => parser.strict = true,
            Flag::KeepEmpty => parser.keep_empty = true,
        }
    }
    parser.extractions = extractions(arguments)?;
    Ok(parser)
}

fn label_format(arguments: &mut impl Arguments) -> Result<LabelFormat, ParseError> {
    let label = arguments.name("IDENTIFIER")?;
    arguments.expect_equal()?;
    let value = if arguments.next_is_name()? {
        LabelFormatValue::Rename(arguments.name("IDENTIFIER or STRING")?)
    } else {
        LabelFormatValue::Template(arguments.text("IDENTIFIER or STRING")?)
    };
    Ok(LabelFormat { label, value })
}

impl Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LineFilters(filters) => separated(f, filters, " "),
            Self::Json(items) => {
                f.write_str("| json")?;
                print_extractions(f, items)
            }
            Self::Logfmt(parser) => {
                f.write_str("| logfmt")?;
                if parser.strict {
                    f.write_str(" --strict")?;
                }
                if parser.keep_empty {
                    f.write_str(" --keep-empty")?;
                }
                print_extractions(f, &parser.extractions)
            }
            Self::Regexp(pattern) => write!(f, "| regexp {pattern}"),
            Self::Pattern(pattern) => write!(f, "| pattern {pattern}"),
            Self::Unpack => f.write_str("| unpack"),
            Self::LabelFilter(filter) => write!(f, "| {filter}"),
            Self::LineFormat(template) => write!(f, "| line_format {template}"),
            Self::LabelFormat(items) => {
                f.write_str("| label_format ")?;
                separated(f, items, ",")
            }
            Self::Decolorize => f.write_str("| decolorize"),
            Self::Drop(items) => {
                f.write_str("| drop ")?;
                separated(f, items, ",")
            }
            Self::Keep(items) => {
                f.write_str("| keep ")?;
                separated(f, items, ",")
            }
        }
    }
}

fn separated(f: &mut fmt::Formatter<'_>, items: &[impl Display], separator: &str) -> fmt::Result {
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            f.write_str(separator)?;
        }
        item.fmt(f)?;
    }
    Ok(())
}

fn print_extractions(f: &mut fmt::Formatter<'_>, items: &[Extraction]) -> fmt::Result {
    if !items.is_empty() {
        f.write_str(" ")?;
    }
    separated(f, items, ",")
}

impl Display for Extraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.label, self.source)
    }
}

impl Display for LabelFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            LabelFormatValue::Rename(source) => write!(f, "{}={source}", self.label),
            LabelFormatValue::Template(template) => write!(f, "{}={template}", self.label),
        }
    }
}

impl Display for NameOrMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Matcher(matcher) => matcher.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words that `text` lacks, each in the form that `marked` gives it.
    fn missing(text: &str, marked: impl Fn(&str) -> String) -> Vec<&'static str> {
        WORDS.iter().copied().filter(|word| !text.contains(&marked(word))).collect()
    }

    #[test]
    fn every_stage_is_in_the_documentation_and_in_golden_queries() {
        let documentation = include_str!("../../../../docs/logql.md");
        assert_eq!(missing(documentation, |word| format!("`{word}`")), [""; 0]);
        let queries = include_str!("../../../tests/golden/queries.txt");
        assert_eq!(missing(queries, |word| format!("| {word}")), [""; 0]);
    }
}
