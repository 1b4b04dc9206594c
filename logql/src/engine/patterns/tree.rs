//! Groups lines into templates by the Drain algorithm: a line joins the template with the same
//! separators that agrees with most of its words.
//!
//! Guarantees: memory and the time for a line are bounded whatever the lines are. The same lines in
//! the same order give the same templates. When the bounds are reached, lines without a template
//! are not counted.

use std::collections::BTreeMap;

use super::super::hash::{FixedMap, new_map};
use super::super::meter::{Meter, map_bytes};
use super::LEVELS;
use super::token::{LINE_WORDS_MAX, Tokens, WORD, is_severity};

/// Most templates of one tree.
pub(crate) const TEMPLATES_MAX: usize = 2048;

/// Most bytes of skeletons and words of one tree.
const TEXT_MAX_BYTES: usize = 8 << 20;

/// Templates with the same separators before they are joined more readily.
const CLOSE_TEMPLATES: usize = 16;
/// Templates with the same separators before they are joined in any case.
const ALIKE_TEMPLATES: usize = 64;

/// Bytes of a template beside its text and its samples.
const TEMPLATE_BYTES: usize = size_of::<FoundTemplate>() + SAMPLES_BYTES;

/// The first node of a template's samples.
const SAMPLES_BYTES: usize = 11 * size_of::<(i64, u64)>() + 32;

/// Most bytes of a further sample, as nodes may be half empty.
const SAMPLE_BYTES: usize = 2 * size_of::<(i64, u64)>() + 8;

/// The work of comparing a word, see [`crate::engine::meter`].
const WORD_WORK: usize = 8;

/// The words of lines, with open places for variable words, and the counts of the lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Template {
    words: Vec<Option<Box<str>>>,
    /// Lines by step.
    samples: BTreeMap<i64, u64>,
}

/// The properties that lines must share before their words are compared: the level of severity, and
/// the separators.
type Shape = (u8, Box<[u8]>);

/// The templates of many lines.
#[derive(Debug)]
pub(super) struct Tree {
    shapes: FixedMap<Shape, Vec<Template>>,
    templates: usize,
    text_bytes: usize,
    samples: usize,
    tokens: Tokens,
    /// The shape of the line at hand, kept so that looking it up allocates nothing new.
    shape: Shape,
}

/// A template on its way to other templates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FoundTemplate {
    level: u8,
    skeleton: Box<[u8]>,
    template: Template,
}

impl FoundTemplate {
    /// Memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        TEMPLATE_BYTES
            + self.skeleton.len()
            + self.template.text_bytes()
            + self.template.samples.len() * SAMPLE_BYTES
    }

    /// The template of these words. `None` unless the level is one of [`LEVELS`], the skeleton has
    /// a place for each word, which are no more than those of a line, and there is a count.
    pub(crate) fn of_parts(
        level: u8,
        skeleton: Box<[u8]>,
        words: Vec<Option<Box<str>>>,
        samples: BTreeMap<i64, u64>,
    ) -> Option<Self> {
        let places = skeleton.iter().filter(|byte| **byte == WORD).count();
        let fits = usize::from(level) < LEVELS.len()
            && places == words.len()
            && words.len() <= LINE_WORDS_MAX
            && !samples.is_empty();
        fits.then_some(Self { level, skeleton, template: Template { words, samples } })
    }

    /// The number of the level among [`LEVELS`].
    pub(crate) fn level(&self) -> u8 {
        self.level
    }

    /// The separators, with a place for each word.
    pub(crate) fn skeleton(&self) -> &[u8] {
        &self.skeleton
    }

    /// The words, `None` where they differ.
    pub(crate) fn words(&self) -> &[Option<Box<str>>] {
        &self.template.words
    }

    /// Lines by step.
    pub(crate) fn samples(&self) -> &BTreeMap<i64, u64> {
        &self.template.samples
    }

    /// The template in the syntax of pattern filters.
    pub(super) fn pattern(&self) -> String {
        let mut text = Vec::new();
        let mut words = self.template.words.iter();
        for &byte in &self.skeleton {
            if byte != WORD {
                text.push(byte);
                continue;
            }
            let word = words.next().and_then(Option::as_deref).unwrap_or("<_>");
            text.extend_from_slice(word.as_bytes());
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Template {
    fn text_bytes(&self) -> usize {
        let text: usize = self.words.iter().flatten().map(|word| word.len()).sum();
        text + self.words.capacity() * size_of::<Option<Box<str>>>()
    }

    /// Whether every line of `other` is one of this template.
    fn covers(&self, other: &Template) -> bool {
        self.words.iter().zip(&other.words).all(|(own, word)| own.is_none() || own == word)
    }

    fn absorb(&mut self, other: Template) {
        for (own, word) in self.words.iter_mut().zip(other.words) {
            if *own != word {
                *own = None;
            }
        }
        for (step, count) in other.samples {
            let sample = self.samples.entry(step).or_default();
            *sample = sample.saturating_add(count);
        }
    }
}

impl Tree {
    pub(super) fn new() -> Self {
        Self {
            shapes: new_map(),
            templates: 0,
            text_bytes: 0,
            samples: 0,
            tokens: Tokens::default(),
            shape: (0, Box::default()),
        }
    }

    /// Counts a line `weight` times, if there is memory for it.
    pub(super) fn add(&mut self, level: u8, line: &[u8], step: i64, weight: u64, meter: &Meter) {
        if !self.tokens.cut(line, meter) {
            return;
        }
        if self.shape.0 != level || *self.shape.1 != *self.tokens.skeleton {
            if !meter.admit(self.tokens.skeleton.len()) {
                return;
            }
            meter.release(self.shape.1.len());
            self.shape = (level, self.tokens.skeleton.as_slice().into());
        }
        let words = &self.tokens.words;
        let has_room = self.templates < TEMPLATES_MAX && self.text_bytes < TEXT_MAX_BYTES;
        let word_at = |i: usize| words[i].map(|(start, end)| &line[start..end]);
        if let Some(templates) = self.shapes.get_mut(&self.shape)
            && meter.work(templates.len() * words.len() * WORD_WORK)
            && let Some(template) = nearest(templates, has_room, word_at)
        {
            for (i, own) in template.words.iter_mut().enumerate() {
                if own.as_deref().map(str::as_bytes) != word_at(i) {
                    *own = None;
                }
            }
            if !template.samples.contains_key(&step) && !meter.admit(SAMPLE_BYTES) {
                return;
            }
            let before = template.samples.len();
            let sample = template.samples.entry(step).or_default();
            *sample = sample.saturating_add(weight);
            self.samples += template.samples.len() - before;
            return;
        }
        // A stopped search must not take the line for one of a new template.
        if !has_room || meter.is_stopped() || !self.admits(line.len(), meter) {
            return;
        }
        let words = &self.tokens.words;
        let word_at = |i: usize| words[i].map(|(start, end)| &line[start..end]);
        let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned().into_boxed_str();
        let words = (0..words.len()).map(|i| word_at(i).map(text)).collect();
        let template = Template { words, samples: BTreeMap::from([(step, weight)]) };
        self.samples += 1;
        self.insert(self.shape.clone(), template);
    }

    /// Asks for the memory of a template of the current shape for a line of `line_bytes`
    /// bytes.
    fn admits(&mut self, line_bytes: usize, meter: &Meter) -> bool {
        // Words that are not text may be longer as text.
        let words = &self.tokens.words;
        let text_bytes =
            line_bytes.min(words.iter().flatten().map(|(start, end)| end - start).sum());
        let mut list_bytes = 0;
        if let Some(templates) = self.shapes.get_mut(&self.shape) {
            if !meter.make_room(templates, 1) {
                return false;
            }
        } else if meter.make_room_in_map(&mut self.shapes) {
            // The first list of a shape has room for four.
            list_bytes = 4 * size_of::<Template>();
        } else {
            return false;
        }
        let words_bytes = words.len() * size_of::<Option<Box<str>>>();
        let bytes = text_bytes + words_bytes + self.shape.1.len() + list_bytes + SAMPLES_BYTES;
        meter.admit(bytes)
    }

    fn insert(&mut self, shape: Shape, template: Template) {
        self.templates += 1;
        self.text_bytes += template.text_bytes() + shape.1.len();
        self.shapes.entry(shape).or_default().push(template);
    }

    /// Takes a template of another tree.
    pub(super) fn merge(&mut self, found: FoundTemplate) {
        let FoundTemplate { level, skeleton, template } = found;
        let shape = (level, skeleton);
        let has_room = self.templates < TEMPLATES_MAX && self.text_bytes < TEXT_MAX_BYTES;
        if let Some(templates) = self.shapes.get_mut(&shape) {
            let word_at = |i: usize| template.words[i].as_deref().map(str::as_bytes);
            if let Some(known) = nearest(templates, has_room, word_at) {
                let before = known.samples.len();
                known.absorb(template);
                self.samples += known.samples.len() - before;
                return;
            }
        }
        if has_room {
            self.samples += template.samples.len();
            self.insert(shape, template);
        }
    }

    /// Heap memory in bytes, about.
    pub(super) fn held_bytes(&self) -> usize {
        map_bytes(&self.shapes)
            // Lists of templates double.
            + 2 * self.templates * size_of::<Template>()
            + self.templates * SAMPLES_BYTES
            + self.text_bytes
            + self.samples * SAMPLE_BYTES
            + self.shape.1.len()
            + self.tokens.skeleton.capacity()
            + self.tokens.words.capacity() * size_of::<Option<(usize, usize)>>()
    }

    /// The templates in a fixed order. A template that another one covers is joined with it.
    /// The list is empty if there is no memory for it.
    pub(super) fn finish(self, meter: &Meter) -> Vec<FoundTemplate> {
        // Each template on its way has the skeleton of its shape; lists of both are made anew.
        let of_shape = |(shape, templates): (&Shape, &Vec<Template>)| {
            templates.len()
                * (shape.1.len() + size_of::<FoundTemplate>() + size_of::<Template>() * 2)
                + size_of::<(Shape, Vec<Template>)>()
        };
        let made_bytes: usize = self.shapes.iter().map(of_shape).sum();
        if !meter.work(made_bytes) || !meter.admit(made_bytes) {
            return Vec::new();
        }
        let mut shapes: Vec<_> = self.shapes.into_iter().collect();
        shapes.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut found = Vec::with_capacity(self.templates);
        for ((level, skeleton), mut templates) in shapes {
            if !meter.work(templates.len() * templates.len() * WORD_WORK) {
                return Vec::new();
            }
            // The most general ones come first and take the templates that they cover.
            templates.sort_by_key(|template| template.words.iter().flatten().count());
            let mut kept: Vec<Template> = Vec::new();
            for template in templates {
                match kept.iter_mut().find(|known| known.covers(&template)) {
                    Some(known) => known.absorb(template),
                    None => kept.push(template),
                }
            }
            let skeleton = &skeleton;
            found.extend(kept.into_iter().map(|template| FoundTemplate {
                level,
                skeleton: skeleton.clone(),
                template,
            }));
        }
        found
    }
}

/// The template that most words agree with, if enough of them do. The more templates
/// there are the fewer suffice.
fn nearest<'t, 'w>(
    templates: &'t mut [Template],
    has_room: bool,
    word_at: impl Fn(usize) -> Option<&'w [u8]>,
) -> Option<&'t mut Template> {
    let any_will_do = !has_room || templates.len() >= ALIKE_TEMPLATES;
    // In fifths; it must be more than that.
    let needed = if templates.len() < CLOSE_TEMPLATES { 4 } else { 2 };
    let mut best: Option<(usize, usize)> = None;
    for (number, template) in templates.iter().enumerate() {
        let (mut literals, mut equal, mut is_apart) = (0_usize, 0_usize, false);
        for (i, own) in template.words.iter().enumerate() {
            let Some(own) = own else { continue };
            literals += 1;
            let word = word_at(i);
            if word == Some(own.as_bytes()) {
                equal += 1;
            } else if is_severity(own.as_bytes()) || word.is_some_and(is_severity) {
                is_apart = true;
            }
        }
        let fits = equal == literals || equal * 5 > literals * needed && !is_apart || any_will_do;
        // Scaled so that templates with different numbers of literals compare.
        let score = (equal * 4096).checked_div(literals).unwrap_or(0);
        if fits && best.is_none_or(|(known, _)| score > known) {
            best = Some((score, number));
        }
    }
    best.map(|(_, number)| &mut templates[number])
}
