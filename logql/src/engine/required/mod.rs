//! Conditions on the stored form of an entry that follow from a leaf, so that storage can skip a
//! sealed block without reading it.
//!
//! [`LeafPlan::required_text`] and [`LeafPlan::required_metadata`] are necessary conditions, never
//! sufficient ones. An entry that breaks one of them cannot pass the leaf's pipeline, so it neither
//! contributes to the result nor fails the query. Where a stage makes that doubtful there is no
//! condition. The work is bounded by the length of the query; [`super::literals`] bounds the work
//! for a pattern.
//!
//! # Text
//!
//! Line filters test the stored line until a stage rewrites it. A value that a parser took from the
//! stored line stands in that line, unless it was written there with an escape. Values of labels
//! are cleaned (bytes that are no text become spaces), so spaces are never required.
//!
//! # Metadata
//!
//! Before the first stage that writes labels, a label is one of the stream or of the structured
//! metadata.

mod line_tests;

pub use self::line_tests::{LineTest, LineTests};
use super::ip::IpSet;
use super::literals::{Literal, MAX_ALTERNATIVES, best, required_by, score};
use super::pipeline::effects;
use super::pipeline::effects::{Arguments, LabelWrites};
use super::plan::LeafPlan;
use super::regex::{self as patterns, Anchoring};
use crate::syntax::ast::{LabelFilter, LineFilter, LineFilterOp, LineOperand, MatchOp, Text};
use crate::syntax::pattern::{PatternNode, parse_pattern};

/// Texts of which a line must contain at least one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequiredText {
    /// The alternatives, at least one.
    pub any_of: Vec<Literal>,
    /// The requirement does not hold for entries that have one of these names
    /// among their stream labels or in their structured metadata. So it must not
    /// be used for a stream that has one of them as a label, nor for a block in
    /// which an entry has one as structured metadata. Empty for line filters.
    pub unless_labels: Vec<String>,
}

impl RequiredText {
    /// Whether a line, or a run of them, holds one of the alternatives; false
    /// proves that none of the lines can pass the leaf's pipeline.
    #[must_use]
    pub fn allows(&self, lines: &[u8]) -> bool {
        self.any_of.iter().any(|literal| literal.occurs_in(lines))
    }
}

impl LeafPlan {
    /// The texts that the stored line of every entry that contributes to the leaf contains:
    /// a conjunction, each item of which is a disjunction. An entry whose stored
    /// line contains none of the texts of an item can never pass the pipeline; mind
    /// [`RequiredText::unless_labels`].
    #[must_use]
    pub fn required_text(&self) -> Vec<RequiredText> {
        let mut items = Vec::new();
        let mut line_is_stored = true;
        // Whether every label is one of the stream, of the metadata, or was taken
        // from the stored line as it stands there.
        let mut labels_are_stored = true;
        let mut parsers = Parsers::default();
        for stage in &self.log.stages {
            let effects = effects(stage);
            match effects.arguments {
                Arguments::LineFilters(filters) if line_is_stored => {
                    for filter in filters {
                        add_line_filter(filter, &mut items);
                    }
                }
                Arguments::LabelFilter(filter) if labels_are_stored && parsers.some => {
                    items.extend(label_items(filter, parsers));
                }
                _ => {}
            }
            match effects.labels {
                LabelWrites::None => {}
                LabelWrites::FromLine | LabelWrites::Unescaped => {
                    labels_are_stored &= line_is_stored;
                    parsers.some = true;
                    parsers.unescape |= effects.labels == LabelWrites::Unescaped;
                }
                LabelWrites::Any => labels_are_stored = false,
            }
            line_is_stored &= !effects.rewrites_line;
        }
        items
    }

    /// Pairs of name and value, all of which the structured metadata of an entry
    /// must hold for the entry to contribute. **A pair must be left out for streams
    /// that have a label of its name**, because the query tests that label then.
    #[must_use]
    pub fn required_metadata(&self) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        for stage in &self.log.stages {
            let effects = effects(stage);
            if let Some(filter) = effects.label_filter() {
                add_pairs(filter, &mut pairs);
            }
            if effects.labels != LabelWrites::None {
                // From here on a label may have been written by a stage.
                break;
            }
        }
        pairs
    }
}

/// The parsers so far.
#[derive(Clone, Copy, Default)]
struct Parsers {
    some: bool,
    /// One of them reads escapes.
    unescape: bool,
}

fn add_line_filter(filter: &LineFilter, items: &mut Vec<RequiredText>) {
    if let [operand] = filter.operands.as_slice() {
        items.extend(operand_items(filter.op, operand).into_iter().map(of_line));
        return;
    }
    let mut any_of = Vec::new();
    for operand in &filter.operands {
        let Some(mut one) = best(operand_items(filter.op, operand)) else { return };
        any_of.append(&mut one);
    }
    any_of.sort_unstable();
    any_of.dedup();
    if any_of.len() <= MAX_ALTERNATIVES {
        items.push(of_line(any_of));
    }
}

fn of_line(any_of: Vec<Literal>) -> RequiredText {
    RequiredText { any_of, unless_labels: Vec::new() }
}

/// The texts of every line that matches an operand of a positive operator.
fn operand_items(op: LineFilterOp, operand: &LineOperand) -> Vec<Vec<Literal>> {
    let (LineOperand::Text(text) | LineOperand::Ip(text)) = operand;
    match op {
        LineFilterOp::Contains => match operand {
            LineOperand::Text(text) => exact(text.as_bytes()).into_iter().collect(),
            LineOperand::Ip(pattern) => addresses(pattern).into_iter().collect(),
        },
        LineFilterOp::Regex => required_by_pattern(text.as_bytes(), Anchoring::Search),
        LineFilterOp::Pattern => parse_pattern(text.as_bytes())
            .into_iter()
            .filter_map(|node| match node {
                PatternNode::Literal(literal) => exact(&literal),
                PatternNode::Capture(_) => None,
            })
            .collect(),
        LineFilterOp::NotContains | LineFilterOp::NotRegex | LineFilterOp::NotPattern => Vec::new(),
    }
}

/// The text of every line in which an address of a set is found.
fn addresses(pattern: &Text) -> Option<Vec<Literal>> {
    exact(IpSet::parse(pattern.as_str()?)?.common_text()?.as_bytes())
}

fn exact(bytes: &[u8]) -> Option<Vec<Literal>> {
    (!bytes.is_empty()).then(|| vec![Literal { bytes: bytes.to_vec(), ignore_case: false }])
}

fn required_by_pattern(pattern: &[u8], anchoring: Anchoring) -> Vec<Vec<Literal>> {
    // The planner has compiled the pattern, so that it cannot fail here.
    patterns::compile(pattern, anchoring).map_or(Vec::new(), |p| required_by(&p.hir))
}

/// The texts of lines whose parsed labels pass a filter.
fn label_items(filter: &LabelFilter, parsers: Parsers) -> Vec<RequiredText> {
    match filter {
        LabelFilter::And(left, right) => {
            let mut items = label_items(left, parsers);
            items.append(&mut label_items(right, parsers));
            items
        }
        LabelFilter::Or(left, right) => {
            let pick = |filter| {
                label_items(filter, parsers).into_iter().max_by_key(|item| score(&item.any_of))
            };
            let (Some(mut one), Some(mut other)) = (pick(left), pick(right)) else {
                return Vec::new();
            };
            one.any_of.append(&mut other.any_of);
            one.any_of.sort_unstable();
            one.any_of.dedup();
            one.unless_labels.append(&mut other.unless_labels);
            one.unless_labels.sort_unstable();
            one.unless_labels.dedup();
            if one.any_of.len() <= MAX_ALTERNATIVES { vec![one] } else { Vec::new() }
        }
        LabelFilter::String(matcher) if is_plain(&matcher.name) => {
            let values = match matcher.op {
                MatchOp::Equal => exact(matcher.value.as_bytes()).into_iter().collect(),
                MatchOp::Regex => required_by_pattern(matcher.value.as_bytes(), Anchoring::Full),
                MatchOp::NotEqual | MatchOp::NotRegex => Vec::new(),
            };
            values
                .into_iter()
                .flat_map(|any_of| as_written(&any_of, parsers.unescape))
                .map(|any_of| RequiredText { any_of, unless_labels: vec![matcher.name.clone()] })
                .collect()
        }
        LabelFilter::String(_)
        | LabelFilter::Number { .. }
        | LabelFilter::Duration { .. }
        | LabelFilter::Bytes { .. }
        | LabelFilter::Ip { .. } => Vec::new(),
    }
}

/// How a line may write label values that contain one of `any_of`.
fn as_written(any_of: &[Literal], unescape: bool) -> Vec<Vec<Literal>> {
    // A space may stand for anything that is no text.
    let pieces = |literal: &Literal| -> Vec<Literal> {
        literal
            .bytes
            .split(|byte| *byte == b' ')
            .filter(|piece| !piece.is_empty())
            .map(|piece| Literal { bytes: piece.to_vec(), ignore_case: literal.ignore_case })
            .collect()
    };
    let mut items: Vec<Vec<Literal>> = match any_of {
        [literal] => pieces(literal).into_iter().map(|piece| vec![piece]).collect(),
        _ => {
            let longest =
                |literal| pieces(literal).into_iter().max_by_key(|piece| piece.bytes.len());
            any_of.iter().map(longest).collect::<Option<Vec<_>>>().into_iter().collect()
        }
    };
    if unescape {
        items.iter_mut().for_each(add_escapes);
    }
    items
}

/// Adds the escapes with which a part of the alternatives may have been written.
fn add_escapes(any_of: &mut Vec<Literal>) {
    let mut letters = vec![b'u'];
    for byte in any_of.iter().flat_map(|literal| &literal.bytes) {
        letters.push(match byte {
            b'"' | b'\\' | b'/' | b'\'' => *byte,
            8 => b'b',
            12 => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            _ => continue,
        });
    }
    letters.sort_unstable();
    letters.dedup();
    let escape = |letter| Literal { bytes: vec![b'\\', letter], ignore_case: false };
    any_of.extend(letters.into_iter().map(escape));
}

/// Adds the pairs that the metadata must hold for the filter to be true of a label
/// that no stage has written.
fn add_pairs(filter: &LabelFilter, pairs: &mut Vec<(String, String)>) {
    match filter {
        LabelFilter::And(left, right) => {
            add_pairs(left, pairs);
            add_pairs(right, pairs);
        }
        LabelFilter::String(matcher)
            if matcher.op == MatchOp::Equal
                && is_plain(&matcher.name)
                && !matcher.value.is_empty() =>
        {
            if let Some(value) = matcher.value.as_str() {
                pairs.push((matcher.name.clone(), value.to_owned()));
            }
        }
        LabelFilter::Or(..)
        | LabelFilter::String(_)
        | LabelFilter::Number { .. }
        | LabelFilter::Duration { .. }
        | LabelFilter::Bytes { .. }
        | LabelFilter::Ip { .. } => {}
    }
}

/// Whether a label of that name can only have come there under its own name, and
/// not from the machinery of errors.
fn is_plain(name: &str) -> bool {
    !name.starts_with("__") && !name.ends_with("_extracted")
}
