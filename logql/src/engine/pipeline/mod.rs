//! The stages of a log query, compiled, and the entry that passes through them.
//!
//! Line filters that come before the first stage that changes the line run first
//! of all, over whole blocks: they are pure predicates, so hoisting them over
//! parsers and label stages changes nothing that can be seen. Filters behind a
//! line-changing stage keep their place (the reference hoists them over
//! `decolorize`, Q7; that defect is not copied).
//!
//! Each kind of stage is a file of its own with a `compile` function and a
//! `process` function that takes the [`Entry`]; [`Stage`] lists them.

mod convert;
pub(crate) mod label_sets;
pub(crate) mod labels;
pub(crate) mod unwrap;

use super::error::PlanError;
use super::filter::LineFilters;
use crate::syntax::ast::{self, LogExpr};
use labels::EntryLabels;

/// An entry on its way through the stages.
#[derive(Debug)]
pub(crate) struct Entry<'e> {
    /// The line as it was stored.
    stored_line: &'e [u8],
    /// True when `rewritten` holds the current line.
    is_rewritten: bool,
    rewritten: &'e mut Vec<u8>,
    pub(crate) labels: &'e mut EntryLabels,
}

impl<'e> Entry<'e> {
    /// `buffer` holds a rewritten line; its capacity is reused by the next entry.
    pub(crate) fn new(
        stored_line: &'e [u8],
        buffer: &'e mut Vec<u8>,
        labels: &'e mut EntryLabels,
    ) -> Self {
        Self { stored_line, is_rewritten: false, rewritten: buffer, labels }
    }

    /// The current line.
    pub(crate) fn line(&self) -> &[u8] {
        if self.is_rewritten { self.rewritten } else { self.stored_line }
    }
}

/// A stage that runs entry by entry.
#[derive(Debug)]
enum Stage {
    /// Line filters behind a stage that changes the line.
    LineFilters(LineFilters),
}

impl Stage {
    /// Whether the entry is kept.
    fn process(&self, entry: &mut Entry<'_>) -> bool {
        match self {
            Self::LineFilters(filters) => filters.keeps(entry.line()),
        }
    }
}

/// A compiled pipeline.
#[derive(Debug)]
pub(crate) struct Pipeline {
    front: LineFilters,
    stages: Vec<Stage>,
}

impl Pipeline {
    /// Compiles the stages of a log query.
    ///
    /// # Errors
    /// [`PlanError::Stage`] for a stage that cannot be built, and
    /// [`PlanError::Unsupported`] for one that does not exist yet.
    pub(crate) fn compile(log: &LogExpr) -> Result<Self, PlanError> {
        let mut front = LineFilters::default();
        let mut stages = Vec::new();
        let mut line_may_change = false;
        for stage in &log.stages {
            match stage {
                ast::Stage::LineFilters(filters) => {
                    let failed = |detail| stage_error(stage, detail);
                    if line_may_change {
                        let mut own = LineFilters::default();
                        own.add(filters).map_err(failed)?;
                        stages.push(Stage::LineFilters(own));
                    } else {
                        front.add(filters).map_err(failed)?;
                    }
                }
                other => return Err(PlanError::Unsupported(stage_name(other))),
            }
            line_may_change |= changes_line(stage);
        }
        Ok(Self { front, stages })
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
        !self.front.is_empty() || !self.stages.is_empty()
    }

    /// Runs the stages behind the front filters; false drops the entry.
    pub(crate) fn process(&self, entry: &mut Entry<'_>) -> bool {
        self.stages.iter().all(|stage| stage.process(entry))
    }
}

fn changes_line(stage: &ast::Stage) -> bool {
    matches!(stage, ast::Stage::LineFormat(_) | ast::Stage::Unpack | ast::Stage::Decolorize)
}

/// The name of a stage in error messages.
fn stage_name(stage: &ast::Stage) -> &'static str {
    match stage {
        ast::Stage::LineFilters(_) => "line filter",
        ast::Stage::Json(_) => "json",
        ast::Stage::Logfmt(_) => "logfmt",
        ast::Stage::Regexp(_) => "regexp",
        ast::Stage::Pattern(_) => "pattern",
        ast::Stage::Unpack => "unpack",
        ast::Stage::LabelFilter(_) => "label filter",
        ast::Stage::LineFormat(_) => "line_format",
        ast::Stage::LabelFormat(_) => "label_format",
        ast::Stage::Decolorize => "decolorize",
        ast::Stage::Drop(_) => "drop",
        ast::Stage::Keep(_) => "keep",
    }
}

fn stage_error(stage: &ast::Stage, detail: String) -> PlanError {
    PlanError::Stage { stage: stage.to_string(), detail }
}
