//! The facts about a stage by which the rest of the engine decides.
//!
//! [`super::effects()`] has one row for each stage. The planner of pipelines, the probe, required
//! texts, estimates of cost and the reuse of answers ask for these facts, and name no stage.

use crate::syntax::ast::{
    Extraction, LabelFilter, LabelFormat, LabelFormatValue, LineFilter, NameOrMatcher, Text,
};

/// The effects of a stage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effects<'s> {
    /// How it uses the line.
    pub(crate) line: LineUse,
    /// Whether the line behind it may be another one.
    pub(crate) rewrites_line: bool,
    /// The labels that it writes.
    pub(crate) labels: LabelWrites,
    /// The arguments that the query gives it.
    pub(crate) arguments: Arguments<'s>,
}

/// How a stage uses the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LineUse {
    /// It does not look at the line.
    None,
    /// It keeps or drops the entry by the line.
    Filters,
    /// It takes labels from the line.
    Parses,
    /// Its templates may show the line.
    Shows,
    /// It makes another line from the line, and nothing else.
    Edits,
}

/// The labels that a stage writes, apart from the labels of errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LabelWrites {
    /// None. It may remove labels.
    None,
    /// Values that stand in the line, byte for byte.
    FromLine,
    /// Values that stand in the line, with escapes or without.
    Unescaped,
    /// Any values.
    Any,
}

/// The arguments of a stage, by how they are compiled and how much that takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arguments<'s> {
    /// Nothing.
    None,
    /// Nothing; the stage searches for this pattern.
    OwnPattern(&'static str),
    /// Tests of the line.
    LineFilters(&'s [LineFilter]),
    /// A test of labels.
    LabelFilter(&'s LabelFilter),
    /// Names and where in the line their values are; all fields of the line if there is none.
    Extractions(&'s [Extraction]),
    /// A pattern whose groups become labels.
    Groups(&'s Text),
    /// A text with captures that become labels.
    Captures(&'s Text),
    /// A template.
    Template(&'s Text),
    /// Labels and their new values.
    Formats(&'s [LabelFormat]),
    /// Labels that are dropped or kept.
    Names(&'s [NameOrMatcher]),
}

impl<'s> Effects<'s> {
    /// True for a stage that makes labels from the line and does nothing else.
    pub(crate) fn only_parses(&self) -> bool {
        self.line == LineUse::Parses && !self.rewrites_line
    }

    /// The label filter, if the stage is one.
    pub(crate) fn label_filter(&self) -> Option<&'s LabelFilter> {
        match self.arguments {
            Arguments::LabelFilter(filter) => Some(filter),
            _ => None,
        }
    }

    /// The templates of the stage.
    pub(crate) fn templates(&self) -> impl Iterator<Item = &'s Text> + use<'s> {
        let (one, formats) = match self.arguments {
            Arguments::Template(template) => (Some(template), [].as_slice()),
            Arguments::Formats(formats) => (None, formats),
            _ => (None, [].as_slice()),
        };
        one.into_iter().chain(formats.iter().filter_map(|format| match &format.value {
            LabelFormatValue::Rename(_) => None,
            LabelFormatValue::Template(template) => Some(template),
        }))
    }
}
