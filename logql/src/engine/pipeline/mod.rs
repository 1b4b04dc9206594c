//! The stages of a log query, compiled, and the entry that passes through them.
//!
//! Line filters that come before the first stage that changes the line run first
//! of all, over whole blocks: they are pure predicates, so hoisting them over
//! parsers and label stages changes nothing that can be seen. Filters behind a
//! line-changing stage keep their place (the reference hoists them over
//! `decolorize`, Q7; that defect is not copied).
//!
//! Each kind of stage is a file of its own with a function that compiles it and a
//! `process` function that takes the [`Entry`] or its labels; [`Stage`] lists them.
//! Stages own the buffers they work in, so that no entry allocates.

pub(crate) mod convert;
mod decolorize;
mod drop_keep;
pub(crate) mod error_guard;
pub(crate) mod json;
mod key_cache;
mod label_filter;
mod label_format;
pub(crate) mod label_sets;
pub(crate) mod labels;
mod line_format;
pub(crate) mod logfmt;
mod needs;
mod pattern;
mod regexp;
pub(crate) mod spare;
mod text;
mod unpack;
pub(crate) mod unwrap;

use super::error::PlanError;
use super::filter::LineFilters;
use super::meter::Meter;
use super::template::Input;
use crate::syntax::ast::{self, LogExpr};
use decolorize::Decolorize;
use drop_keep::{Drop, Keep};
use json::{Json, JsonExpressions};
use label_filter::LabelFilter;
use label_format::LabelFormat;
use labels::{EntryLabels, Wanted};
use line_format::LineFormat;
use logfmt::{Logfmt, LogfmtExpressions};
pub(crate) use needs::{wanted, wanted_by};
use pattern::Pattern;
use regexp::Regexp;
use unpack::Unpack;

/// What a stage costs besides the bytes of the line, see [`super::meter`].
const STAGE_WORK: usize = 64;

/// An entry on its way through the stages.
#[derive(Debug)]
pub(crate) struct Entry<'e> {
    /// The line as it was stored.
    stored_line: &'e [u8],
    /// True when `rewritten` holds the current line.
    is_rewritten: bool,
    rewritten: &'e mut Vec<u8>,
    pub(crate) labels: &'e mut EntryLabels,
    timestamp_ns: i64,
    now_ns: i64,
    /// Stages of the pipeline that it goes through.
    stages: usize,
}

impl<'e> Entry<'e> {
    /// `buffer` holds a rewritten line; its capacity is reused by the next entry.
    pub(crate) fn new(
        stored_line: &'e [u8],
        buffer: &'e mut Vec<u8>,
        labels: &'e mut EntryLabels,
    ) -> Self {
        Self {
            stored_line,
            is_rewritten: false,
            rewritten: buffer,
            labels,
            timestamp_ns: 0,
            now_ns: 0,
            stages: 0,
        }
    }

    /// The same entry with its time, and the time of the query, in nanoseconds.
    pub(crate) fn at(self, timestamp_ns: i64, now_ns: i64) -> Self {
        Self { timestamp_ns, now_ns, ..self }
    }

    /// What templates see.
    fn template_input(&self) -> Input<'_> {
        Input {
            labels: self.labels,
            line: self.line(),
            timestamp_ns: self.timestamp_ns,
            now_ns: self.now_ns,
        }
    }

    /// The current line.
    pub(crate) fn line(&self) -> &[u8] {
        if self.is_rewritten { self.rewritten } else { self.stored_line }
    }

    /// The current line, and the labels to work on meanwhile.
    pub(crate) fn parts(&mut self) -> (&[u8], &mut EntryLabels) {
        let line = if self.is_rewritten { self.rewritten.as_slice() } else { self.stored_line };
        (line, self.labels)
    }

    /// What counts the memory and the work of the stages.
    pub(crate) fn meter(&self) -> &Meter {
        self.labels.meter()
    }

    /// Makes `line` the current line; it becomes a buffer of any content.
    pub(crate) fn replace_line(&mut self, line: &mut Vec<u8>) {
        std::mem::swap(self.rewritten, line);
        self.is_rewritten = true;
        if self.rewritten.len() > self.stored_line.len() {
            self.count_stages();
        }
    }

    /// Counts that each stage, and whoever takes the entry, reads the line. False if the leaf
    /// has to end.
    fn count_stages(&self) -> bool {
        self.meter().work((self.stages + 1) * (STAGE_WORK + self.line().len()))
    }
}

/// A stage that runs entry by entry.
#[derive(Debug)]
enum Stage {
    /// Line filters behind a stage that changes the line.
    LineFilters(LineFilters),
    Json(Json),
    JsonExpressions(JsonExpressions),
    Logfmt(Logfmt),
    LogfmtExpressions(LogfmtExpressions),
    Pattern(Pattern),
    Regexp(Regexp),
    Unpack(Unpack),
    LabelFilter(LabelFilter),
    LineFormat(LineFormat),
    LabelFormat(LabelFormat),
    Drop(Drop),
    Keep(Keep),
    Decolorize(Decolorize),
}

impl Stage {
    /// Whether the entry is kept.
    fn process(&mut self, entry: &mut Entry<'_>) -> bool {
        match self {
            Self::LineFilters(filters) => {
                return filters.keeps_counted(entry.line(), entry.meter());
            }
            Self::LabelFilter(filter) => return filter.keeps(entry.labels),
            Self::Json(json) => json.process(entry),
            Self::JsonExpressions(json) => json.process(entry),
            Self::Logfmt(logfmt) => logfmt.process(entry),
            Self::LogfmtExpressions(logfmt) => logfmt.process(entry),
            Self::Pattern(pattern) => pattern.process(entry),
            Self::Regexp(regexp) => regexp.process(entry),
            Self::Unpack(unpack) => unpack.process(entry),
            Self::LineFormat(format) => format.process(entry),
            Self::LabelFormat(format) => format.process(entry),
            Self::Drop(drop) => drop.process(entry.labels),
            Self::Keep(keep) => keep.process(entry.labels),
            Self::Decolorize(decolorize) => decolorize.process(entry),
        }
        true
    }

    /// Heap memory in bytes, about.
    fn held_bytes(&self) -> usize {
        match self {
            Self::LineFilters(filters) => filters.held_bytes(),
            Self::LabelFilter(filter) => filter.held_bytes(),
            Self::Json(json) => json.held_bytes(),
            Self::JsonExpressions(json) => json.held_bytes(),
            Self::Logfmt(logfmt) => logfmt.held_bytes(),
            Self::LogfmtExpressions(logfmt) => logfmt.held_bytes(),
            Self::Pattern(pattern) => pattern.held_bytes(),
            Self::Regexp(regexp) => regexp.held_bytes(),
            Self::Unpack(unpack) => unpack.held_bytes(),
            Self::LineFormat(format) => format.held_bytes(),
            Self::LabelFormat(format) => format.held_bytes(),
            Self::Drop(drop) => drop.held_bytes(),
            Self::Keep(keep) => keep.held_bytes(),
            Self::Decolorize(decolorize) => decolorize.held_bytes(),
        }
    }

    /// Gives back what an outlier among the entries has made large.
    fn recycle(&mut self, meter: &Meter) {
        match self {
            Self::Json(json) => json.recycle(meter),
            Self::JsonExpressions(json) => json.recycle(meter),
            Self::Logfmt(logfmt) => logfmt.recycle(meter),
            Self::LogfmtExpressions(logfmt) => logfmt.recycle(meter),
            Self::Unpack(unpack) => unpack.recycle(meter),
            Self::LineFormat(format) => format.recycle(meter),
            Self::LabelFormat(format) => format.recycle(meter),
            Self::Decolorize(decolorize) => decolorize.recycle(meter),
            Self::LineFilters(_)
            | Self::LabelFilter(_)
            | Self::Pattern(_)
            | Self::Regexp(_)
            | Self::Drop(_)
            | Self::Keep(_) => {}
        }
    }

    /// True for the stages that only make labels from the line.
    fn is_parser(&self) -> bool {
        matches!(
            self,
            Self::Json(_)
                | Self::JsonExpressions(_)
                | Self::Logfmt(_)
                | Self::LogfmtExpressions(_)
                | Self::Pattern(_)
                | Self::Regexp(_)
        )
    }

    fn reads_line(&self) -> bool {
        match self {
            Self::LineFilters(_) | Self::Unpack(_) | Self::Decolorize(_) => true,
            // Where the template fails the line stays.
            Self::LineFormat(_) => true,
            Self::LabelFormat(format) => format.reads_line(),
            stage => stage.is_parser(),
        }
    }
}

/// A compiled pipeline.
#[derive(Debug)]
pub(crate) struct Pipeline {
    front: LineFilters,
    stages: Vec<Stage>,
    reads_line: bool,
    /// A label filter admits no entry with an error.
    guards_errors: bool,
}

impl Pipeline {
    /// Compiles the stages of a log query; not all of them where the meter is stopped. Parsers extract what is `wanted`. Without
    /// `keeps_line` nobody looks at the final line; a `line_format` that no parser
    /// and no line filter follows is then left out unread, and so cannot fail (Q4).
    ///
    /// # Errors
    /// [`PlanError::Stage`] for a stage that cannot be built.
    pub(crate) fn compile(
        log: &LogExpr,
        wanted: &Wanted,
        keeps_line: bool,
        labels: &mut EntryLabels,
    ) -> Result<Self, PlanError> {
        let mut front = LineFilters::default();
        let mut stages = Vec::new();
        let mut line_may_change = false;
        let mut guards_errors = false;
        let last_reader = log.stages.iter().rposition(reads_line);
        let last_parser = log.stages.iter().rposition(parses_or_filters_line);
        for (i, stage) in log.stages.iter().enumerate() {
            let failed = |detail| stage_error(stage, detail);
            if let ast::Stage::LabelFilter(filter) = stage {
                guards_errors |= error_guard::is_guard(filter);
            }
            let spare_bytes = spare::of_stage(stage);
            let has_room = labels.meter().work(spare_bytes)
                && labels.meter().admit(spare_bytes)
                && labels.meter().make_room(&mut stages, 1);
            if !has_room {
                break;
            }
            match stage {
                ast::Stage::LineFilters(filters) if !line_may_change => {
                    front.add(filters, labels.meter()).map_err(failed)?;
                }
                // Nobody looks at labels, and nothing behind at the line.
                ast::Stage::Unpack if wanted.is_nothing() && last_reader < Some(i) => {}
                // Nobody looks at the line it would write.
                ast::Stage::LineFormat(_) if !keeps_line && last_parser < Some(i) => {}
                _ => match compile(stage, guards_errors, wanted, labels) {
                    Ok(compiled) => {
                        if !matches!(compiled, Stage::LineFilters(_)) {
                            // What is there is there; it ends the leaf if it is too much.
                            let _ = labels.meter().admit(compiled.held_bytes());
                        }
                        if wanted.is_nothing() && compiled.is_parser() {
                            labels.meter().release(compiled.held_bytes());
                        } else {
                            line_may_change |= changes_line(stage);
                            stages.push(compiled);
                        }
                    }
                    // It is no error of the query that there is no memory.
                    Err(_) if labels.meter().is_stopped() => break,
                    Err(error) => return Err(error),
                },
            }
            labels.meter().release(spare_bytes);
        }
        let reads_line = !front.is_empty() || stages.iter().any(Stage::reads_line);
        Ok(Self { front, stages, reads_line, guards_errors })
    }

    /// Heap memory in bytes, about.
    pub(crate) fn held_bytes(&self) -> usize {
        self.front.held_bytes()
            + self.stages.capacity() * size_of::<Stage>()
            + self.stages.iter().map(Stage::held_bytes).sum::<usize>()
    }

    /// Gives back what an outlier among the entries has made large.
    pub(crate) fn recycle(&mut self, meter: &Meter) {
        self.stages.iter_mut().for_each(|stage| stage.recycle(meter));
    }

    /// The filters that run over blocks before anything else.
    pub(crate) fn front(&self) -> &LineFilters {
        &self.front
    }

    /// True when nothing but the front filters looks at an entry: labels and line
    /// stay what they are.
    pub(crate) fn is_front_only(&self) -> bool {
        self.stages.is_empty()
    }

    /// True when a stage looks at the bytes of the line.
    pub(crate) fn reads_line(&self) -> bool {
        self.reads_line
    }

    /// True when comparisons behind the stages are guarded, see [`error_guard`].
    pub(crate) fn guards_errors(&self) -> bool {
        self.guards_errors
    }

    /// Runs the stages behind the front filters; false drops the entry, or ends the leaf.
    pub(crate) fn process(&mut self, entry: &mut Entry<'_>) -> bool {
        entry.stages = self.stages.len();
        // On a stopped meter a stage does next to nothing.
        entry.count_stages()
            && self.stages.iter_mut().all(|stage| stage.process(entry))
            && !entry.meter().is_stopped()
    }
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

fn changes_line(stage: &ast::Stage) -> bool {
    matches!(stage, ast::Stage::LineFormat(_) | ast::Stage::Unpack | ast::Stage::Decolorize)
}

/// True for the stages, other than parsers, whose outcome depends on the line.
fn reads_line(stage: &ast::Stage) -> bool {
    matches!(
        stage,
        ast::Stage::LineFilters(_) | ast::Stage::LineFormat(_) | ast::Stage::LabelFormat(_)
    )
}

fn parses_or_filters_line(stage: &ast::Stage) -> bool {
    matches!(
        stage,
        ast::Stage::LineFilters(_)
            | ast::Stage::Json(_)
            | ast::Stage::Logfmt(_)
            | ast::Stage::Regexp(_)
            | ast::Stage::Pattern(_)
            | ast::Stage::Unpack
    )
}

fn stage_error(stage: &ast::Stage, detail: String) -> PlanError {
    PlanError::Stage { stage: stage.to_string(), detail }
}
