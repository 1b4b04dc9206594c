//! The stages of a log query.
//!
//! Each kind of stage is a file of its own: a type, a function that compiles it, and
//! [`CompiledStage`], which runs it. Stages own the buffers they work in, so that no entry
//! allocates. This file lists the stages three times: in `stages!`, in [`compile`], and in
//! [`effects()`], which states the effects of a stage. A new stage needs a file, these three rows,
//! and its syntax in `syntax/ast/stage.rs`.

mod compiled;
mod decolorize;
mod drop_keep;
pub(crate) mod effects;
mod entry;
pub(crate) mod error_guard;
pub(crate) mod json;
pub(crate) mod label_filter;
mod label_format;
mod line_filters;
mod line_format;
pub(crate) mod logfmt;
mod pattern;
mod regexp;
pub(crate) mod spare;
mod unpack;
pub(crate) mod unwrap;

use super::error::PlanError;
use super::filter::LineFilters;
use super::labels::{EntryLabels, Wanted};
use super::meter::Meter;
use crate::syntax::ast;
pub(crate) use compiled::Pipeline;
use decolorize::Decolorize;
use drop_keep::{Drop, Keep};
use effects::{Arguments, Effects, LabelWrites, LineUse};
pub(crate) use entry::Entry;
use json::{Json, JsonExpressions};
use label_filter::LabelFilter;
use label_format::LabelFormat;
use line_format::LineFormat;
use logfmt::{Logfmt, LogfmtExpressions};
use pattern::Pattern;
use regexp::Regexp;
use unpack::Unpack;

/// A stage that runs entry by entry.
pub(crate) trait CompiledStage {
    /// `()` for a stage that keeps every entry, `bool` for one that drops some.
    type Outcome: Outcome;

    /// Runs the stage on an entry.
    fn process(&mut self, entry: &mut Entry<'_>) -> Self::Outcome;

    /// Heap memory in bytes, about.
    fn held_bytes(&self) -> usize;

    /// Gives back buffers that an outlier among the entries has made large.
    fn recycle(&mut self, _meter: &Meter) {}

    /// False where a stage of its kind may look at the line, and this one does not.
    fn reads_line(&self) -> bool {
        true
    }
}

/// The outcome of a stage for an entry.
pub(crate) trait Outcome {
    /// Whether the entry is kept.
    fn keeps(self) -> bool;
}

impl Outcome for () {
    #[inline]
    fn keeps(self) -> bool {
        true
    }
}

impl Outcome for bool {
    #[inline]
    fn keeps(self) -> bool {
        self
    }
}

macro_rules! stages {
    ($($stage:ident,)*) => {
        /// A stage of any kind.
        #[derive(Debug)]
        enum Stage { $($stage($stage),)* }

        impl Stage {
            /// Whether the entry is kept.
            fn process(&mut self, entry: &mut Entry<'_>) -> bool {
                match self { $(Self::$stage(stage) => stage.process(entry).keeps(),)* }
            }

            fn held_bytes(&self) -> usize {
                match self { $(Self::$stage(stage) => CompiledStage::held_bytes(stage),)* }
            }

            fn recycle(&mut self, meter: &Meter) {
                match self { $(Self::$stage(stage) => stage.recycle(meter),)* }
            }

            fn reads_line(&self) -> bool {
                match self { $(Self::$stage(stage) => stage.reads_line(),)* }
            }
        }
    };
}

stages! {
    LineFilters, Json, JsonExpressions, Logfmt, LogfmtExpressions, Pattern, Regexp, Unpack,
    LabelFilter, LineFormat, LabelFormat, Drop, Keep, Decolorize,
}

/// The effects of a stage of a query: one row for each stage.
pub(crate) fn effects(stage: &ast::Stage) -> Effects<'_> {
    use Arguments as A;
    use LabelWrites as W;
    use LineUse as L;
    use ast::Stage as S;
    let (line, rewrites_line, labels, arguments) = match stage {
        S::LineFilters(list) => (L::Filters, false, W::None, A::LineFilters(list)),
        S::LabelFilter(filter) => (L::None, false, W::None, A::LabelFilter(filter)),
        S::Json(list) => (L::Parses, false, W::Unescaped, A::Extractions(list)),
        S::Logfmt(parser) => (L::Parses, false, W::Unescaped, A::Extractions(&parser.extractions)),
        S::Regexp(pattern) => (L::Parses, false, W::FromLine, A::Groups(pattern)),
        S::Pattern(pattern) => (L::Parses, false, W::FromLine, A::Captures(pattern)),
        S::Unpack => (L::Parses, true, W::Any, A::None),
        S::LineFormat(template) => (L::Shows, true, W::None, A::Template(template)),
        S::LabelFormat(list) => (L::Shows, false, W::Any, A::Formats(list)),
        S::Decolorize => (L::Edits, true, W::None, A::OwnPattern(decolorize::SEQUENCE)),
        S::Drop(list) | S::Keep(list) => (L::None, false, W::None, A::Names(list)),
    };
    Effects { line, rewrites_line, labels, arguments }
}

fn compile(
    stage: &ast::Stage,
    guards_errors: bool,
    wanted: &Wanted,
    labels: &mut EntryLabels,
) -> Result<Stage, PlanError> {
    let compiled = match stage {
        ast::Stage::LineFilters(filters) => {
            let mut own = LineFilters::default();
            own.add(filters, labels.meter()).map(|()| Stage::LineFilters(own))
        }
        ast::Stage::Json(list) if list.is_empty() => Ok(Stage::Json(Json::default())),
        ast::Stage::Json(list) => {
            JsonExpressions::compile(list, labels).map(Stage::JsonExpressions)
        }
        ast::Stage::Logfmt(parser) if parser.extractions.is_empty() => {
            Ok(Stage::Logfmt(Logfmt::compile(parser)))
        }
        ast::Stage::Logfmt(parser) => {
            LogfmtExpressions::compile(parser, labels).map(Stage::LogfmtExpressions)
        }
        ast::Stage::Pattern(pattern) => Pattern::compile(pattern, labels).map(Stage::Pattern),
        ast::Stage::Regexp(pattern) => Regexp::compile(pattern, labels).map(Stage::Regexp),
        ast::Stage::Unpack => Ok(Stage::Unpack(Unpack::new(wanted.is_nothing()))),
        ast::Stage::LabelFilter(filter) => {
            LabelFilter::compile(filter, guards_errors, labels).map(Stage::LabelFilter)
        }
        ast::Stage::LineFormat(template) => {
            LineFormat::compile(template, labels).map(Stage::LineFormat)
        }
        ast::Stage::LabelFormat(list) => LabelFormat::compile(list, labels).map(Stage::LabelFormat),
        ast::Stage::Decolorize => Ok(Stage::Decolorize(Decolorize::new())),
        ast::Stage::Drop(list) => Drop::compile(list, labels).map(Stage::Drop),
        ast::Stage::Keep(list) => Keep::compile(list, labels).map(Stage::Keep),
    };
    compiled.map_err(|detail| stage_error(stage, detail))
}

fn stage_error(stage: &ast::Stage, detail: String) -> PlanError {
    PlanError::Stage { stage: stage.to_string(), detail }
}
