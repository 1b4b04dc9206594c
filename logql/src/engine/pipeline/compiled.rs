//! A compiled pipeline: the stages of a log query in the order in which they run.
//!
//! Line filters that come before the first stage that changes the line run first
//! of all, over whole blocks: they are pure predicates, so hoisting them over
//! parsers and label stages changes nothing that can be seen. Filters behind a
//! line-changing stage keep their place. Loki hoists them over `decolorize` as well, which
//! changes answers; that defect is not copied.

use super::super::error::PlanError;
use super::super::filter::LineFilters;
use super::super::labels::{EntryLabels, Wanted};
use super::super::meter::Meter;
use super::effects::{Arguments, LineUse};
use super::{Entry, Stage, compile, effects, error_guard, spare, stage_error};
use crate::syntax::ast::LogExpr;

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
    /// Compiles the stages of a log query; not all of them where the meter is stopped. Parsers
    /// extract the labels that are `wanted`. Without `keeps_line` the query does not look at the
    /// final line; a `line_format` that no parser and no line filter follows is then left out
    /// unread, and so cannot fail, as in Loki.
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
        let mut reads_line = false;
        let last_with = |uses: [LineUse; 2]| {
            log.stages.iter().rposition(|stage| uses.contains(&effects(stage).line))
        };
        let last_reader = last_with([LineUse::Filters, LineUse::Shows]);
        let last_parser = last_with([LineUse::Filters, LineUse::Parses]);
        for (i, stage) in log.stages.iter().enumerate() {
            let effects = effects(stage);
            guards_errors |= effects.label_filter().is_some_and(error_guard::is_guard);
            let spare_bytes = spare::of_stage(&effects);
            let has_room = labels.meter().work(spare_bytes)
                && labels.meter().admit(spare_bytes)
                && labels.meter().make_room(&mut stages, 1);
            if !has_room {
                break;
            }
            let is_unread = match effects.line {
                // The query looks at no label, and no stage behind looks at the line.
                LineUse::Parses if effects.rewrites_line => {
                    wanted.is_nothing() && last_reader < Some(i)
                }
                // Neither a stage behind nor the query reads the line that the stage writes.
                LineUse::Shows if effects.rewrites_line => !keeps_line && last_parser < Some(i),
                _ => false,
            };
            if let Arguments::LineFilters(filters) = effects.arguments
                && !line_may_change
            {
                front.add(filters, labels.meter()).map_err(|detail| stage_error(stage, detail))?;
            } else if !is_unread {
                match compile(stage, guards_errors, wanted, labels) {
                    Ok(compiled) => {
                        if effects.line != LineUse::Filters {
                            // The memory is allocated already. It ends the leaf if it is too much.
                            let _ = labels.meter().admit(compiled.held_bytes());
                        }
                        if wanted.is_nothing() && effects.only_parses() {
                            labels.meter().release(compiled.held_bytes());
                        } else {
                            line_may_change |= effects.rewrites_line;
                            reads_line |= effects.line != LineUse::None && compiled.reads_line();
                            stages.push(compiled);
                        }
                    }
                    // A lack of memory is no error of the query.
                    Err(_) if labels.meter().is_stopped() => break,
                    Err(error) => return Err(error),
                }
            }
            labels.meter().release(spare_bytes);
        }
        reads_line |= !front.is_empty();
        Ok(Self { front, stages, reads_line, guards_errors })
    }

    /// Heap memory in bytes, about.
    pub(crate) fn held_bytes(&self) -> usize {
        self.front.held_bytes()
            + self.stages.capacity() * size_of::<Stage>()
            + self.stages.iter().map(Stage::held_bytes).sum::<usize>()
    }

    /// Gives back buffers that an outlier among the entries has made large.
    pub(crate) fn recycle(&mut self, meter: &Meter) {
        self.stages.iter_mut().for_each(|stage| stage.recycle(meter));
    }

    /// The filters that run over blocks before anything else.
    pub(crate) fn front(&self) -> &LineFilters {
        &self.front
    }

    /// True when the front filters are the only stages that read an entry: labels and line
    /// stay unchanged.
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
