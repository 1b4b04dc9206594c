//! The labels that a query looks at.
//!
//! The result of a log query holds all labels, and so does that of a range
//! aggregation that keeps them. Where the query lists the labels of the result, parsers
//! extract the listed labels and the labels that stages read, and nothing else. A parser stops
//! when it has all of them. So damage in the rest of a line goes unnoticed, as in
//! Loki. Where a query looks at no label, parsers do not run.

use super::super::labels::{ERROR, EntryLabels, NameId, Wanted};
use super::super::pipeline::effects;
use super::super::pipeline::effects::Arguments;
use super::super::pipeline::label_filter::LabelFilter;
use super::super::plan::{LeafKind, SeriesLabels};
use super::super::template::{Template, compiling_bytes};
use crate::syntax::ast::{GroupingKind, LabelFormatValue, LogExpr, Stage, Unwrap};

/// The labels that a leaf looks at.
pub(crate) fn wanted(kind: &LeafKind, log: &LogExpr, labels: &mut EntryLabels) -> Wanted {
    let (series, unwrap) = match kind {
        LeafKind::Log { .. } | LeafKind::Patterns { .. } => return Wanted::All,
        LeafKind::Range { series, .. } => (series, None),
        LeafKind::Samples { series, unwrap, .. } => (series, Some(unwrap)),
    };
    let mut names = Names { labels, names: Vec::new() };
    match series {
        // The labels of streams are there without a parser.
        SeriesLabels::All | SeriesLabels::Stream(_) => return Wanted::All,
        SeriesLabels::Grouped(grouping) if grouping.kind == GroupingKind::Without => {
            return Wanted::All;
        }
        SeriesLabels::Grouped(grouping) => grouping.labels.iter().for_each(|name| names.add(name)),
        SeriesLabels::None => {}
    }
    if let Some(unwrap) = unwrap {
        names.add_unwrap(unwrap);
    }
    names.wanted_with(&log.stages)
}

/// The labels that the stages look at.
pub(crate) fn wanted_by(log: &LogExpr, labels: &mut EntryLabels) -> Wanted {
    Names { labels, names: Vec::new() }.wanted_with(&log.stages)
}

struct Names<'l> {
    labels: &'l mut EntryLabels,
    names: Vec<NameId>,
}

impl Names<'_> {
    /// These labels, and the labels that the stages read.
    fn wanted_with(mut self, stages: &[Stage]) -> Wanted {
        for stage in stages {
            if !self.add_stage(stage) {
                return Wanted::All;
            }
        }
        let mut names = self.names;
        names.sort_unstable();
        names.dedup();
        let preserves_errors = names.contains(&ERROR);
        Wanted::Only { names, preserves_errors }
    }

    fn add(&mut self, name: &str) {
        self.names.push(self.labels.name_id(name.as_bytes()));
        if let Some(plain) = name.strip_suffix("_extracted") {
            self.names.push(self.labels.name_id(plain.as_bytes()));
        }
    }

    fn add_unwrap(&mut self, unwrap: &Unwrap) {
        self.add(&unwrap.label);
        for filter in &unwrap.filters {
            LabelFilter::for_each_name(filter, &mut |name| self.add(name));
        }
    }

    /// Adds the labels that a template reads; false when these may be any, or there is no memory.
    fn add_template(&mut self, template: &[u8]) -> bool {
        let compiling_bytes = compiling_bytes(template);
        if !self.labels.meter().admit(compiling_bytes) {
            return false;
        }
        let is_known = Template::for_each_name(template, &mut |name| self.add(name));
        self.labels.meter().release(compiling_bytes);
        is_known
    }

    /// Adds the labels that a stage reads; false when these may be any.
    fn add_stage(&mut self, stage: &Stage) -> bool {
        let effects = effects(stage);
        // The labels that `drop` and `keep` name do not count.
        match effects.arguments {
            Arguments::LabelFilter(filter) => {
                LabelFilter::for_each_name(filter, &mut |name| self.add(name));
            }
            Arguments::Formats(formats) => {
                for format in formats {
                    if let LabelFormatValue::Rename(source) = &format.value {
                        self.add(source);
                    }
                }
            }
            _ => {}
        }
        effects.templates().all(|template| self.add_template(template))
    }
}
