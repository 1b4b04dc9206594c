//! `| json x="a.b[0]"`: the listed parts of a document, found in one pass.
//!
//! The pass looks at keys and brackets and at nothing else. Of several matches of a path the
//! first in the document counts. The pass looks at every byte a bounded number of times per
//! path: it skips arrays and wanted values in one go, and a search that finds no end stops.

use super::super::super::meter::Meter;
use super::super::{CompiledStage, Entry};
use super::escapes::push_unescaped;
use super::path::{self, Step};
use super::scan::{
    Failure, Fields, Kind, MALFORMED, UNKNOWN_VALUE, Value, block_end, skip_space, string_end,
    value,
};
use super::{JSON_ERROR, push_text};
use crate::engine::labels::text::{is_label_name, push_clean};
use crate::engine::labels::{EntryLabels, NameId};
use crate::syntax::ast::Extraction;

/// Bytes of a line whose work is counted at once, see [`super::super::super::meter`].
const COUNTED_BYTES: usize = 32 << 10;
/// The work of comparing a key with a path.
const PATH_WORK: usize = 8;

/// A listed part.
#[derive(Debug)]
struct Path {
    label: NameId,
    /// Non-empty.
    steps: Vec<Step>,
    /// Number of leading steps that lead to the place at hand.
    matched: usize,
    /// No further match is looked for.
    is_done: bool,
    /// The label was set.
    is_set: bool,
}

impl Path {
    fn key_at(&self, step: usize) -> Option<&[u8]> {
        match self.steps.get(step) {
            Some(Step::Key(key)) => Some(key),
            _ => None,
        }
    }

    fn index_at(&self, step: usize) -> Option<usize> {
        match self.steps.get(step) {
            Some(Step::Index(index)) => Some(*index),
            _ => None,
        }
    }

    fn wants_array(&self, level: usize) -> bool {
        !self.is_done && self.matched == level && self.index_at(level).is_some()
    }
}

/// `| json` with expressions.
#[derive(Debug)]
pub(crate) struct JsonExpressions {
    paths: Vec<Path>,
    /// Scratch: a key without its escapes.
    key: Vec<u8>,
}

impl JsonExpressions {
    /// Compiles the list.
    ///
    /// # Errors
    /// The detail of Loki's stage error.
    pub(crate) fn compile(list: &[Extraction], labels: &mut EntryLabels) -> Result<Self, String> {
        let mut paths = Vec::with_capacity(list.len());
        for item in list {
            let steps = path::parse(&item.source)?;
            let label = label_of(item, labels)?;
            paths.push(Path { label, steps, matched: 0, is_done: false, is_set: false });
        }
        Ok(Self { paths, key: Vec::new() })
    }
}

impl CompiledStage for JsonExpressions {
    type Outcome = ();

    fn process(&mut self, entry: &mut Entry<'_>) {
        let (line, labels) = entry.parts();
        let is_idle = labels.has_all() && !self.paths.iter().any(|p| labels.is_wanted(p.label));
        if line.is_empty() || is_idle {
            return;
        }
        if !matches!(line[0], b'{' | b'[' | b'"') {
            labels.set_parser_error(JSON_ERROR, b"");
            return;
        }
        for path in &mut self.paths {
            (path.matched, path.is_done, path.is_set) = (0, false, false);
        }
        let mut search = Search { paths: &mut self.paths, key: &mut self.key, labels, line };
        search.run();
        for path in self.paths.iter().filter(|path| !path.is_set) {
            if labels.get(path.label).is_none() {
                labels.set(path.label, b"");
            }
        }
    }

    fn held_bytes(&self) -> usize {
        let steps = |path: &Path| {
            let keys = (0..path.steps.len()).filter_map(|step| path.key_at(step)).map(<[u8]>::len);
            path.steps.capacity() * size_of::<Step>() + keys.sum::<usize>()
        };
        self.key.capacity()
            + self.paths.capacity() * size_of::<Path>()
            + self.paths.iter().map(steps).sum::<usize>()
    }

    fn recycle(&mut self, meter: &Meter) {
        meter.recycle(&mut self.key);
    }
}

/// The label that an item of a list sets.
///
/// # Errors
/// For a name that is an identifier of the language, but no label name.
pub(crate) fn label_of(item: &Extraction, labels: &mut EntryLabels) -> Result<NameId, String> {
    if is_label_name(item.label.as_bytes()) {
        Ok(labels.name_id(item.label.as_bytes()))
    } else {
        Err(format!("invalid extracted label name '{}'", item.label))
    }
}

struct Search<'s> {
    paths: &'s mut [Path],
    key: &'s mut Vec<u8>,
    labels: &'s mut EntryLabels,
    line: &'s [u8],
}

impl Search<'_> {
    /// Walks over the line, counting braces; malformed text ends the search.
    fn run(&mut self) {
        let line = self.line;
        // The number of objects that are open.
        let mut level = 0usize;
        let mut at = 0;
        let mut counted = 0;
        while let Some(byte) = line.get(at) {
            if at - counted >= COUNTED_BYTES {
                if !self.labels.meter().work(at - counted) {
                    return;
                }
                counted = at;
            }
            at = match byte {
                b'"' => {
                    let Some((end, has_escapes)) = string_end(line, at + 1) else { return };
                    let Some(next) = skip_space(line, end) else { return };
                    if line[next] == b':' {
                        if level == 0 {
                            self.fail(MALFORMED);
                            return;
                        }
                        if !self.enter_key(&line[at + 1..end - 1], has_escapes, level - 1, next + 1)
                        {
                            return;
                        }
                        next + 1
                    } else {
                        next
                    }
                }
                b'{' => {
                    level += 1;
                    at + 1
                }
                b'}' => {
                    level = level.saturating_sub(1);
                    at + 1
                }
                b'[' if self.paths.iter().any(|path| path.wants_array(level)) => {
                    match self.elements(at + 1, level) {
                        Some(next) => next,
                        None => return,
                    }
                }
                b'[' => match block_end(line, at, b'[', b']') {
                    Some(next) => next,
                    None => return,
                },
                _ => at + 1,
            };
        }
    }

    /// Notes the paths that the key at step `step` belongs to, and takes its value for
    /// the paths that end here. False when nothing is left to be found.
    fn enter_key(&mut self, key: &[u8], has_escapes: bool, step: usize, value_at: usize) -> bool {
        self.key.clear();
        let is_counted = self.labels.meter().work(self.paths.len() * PATH_WORK)
            && (!has_escapes || self.labels.meter().make_room(self.key, key.len()));
        if !is_counted {
            return false;
        }
        if has_escapes && !push_unescaped(self.key, key, false) {
            return false;
        }
        let mut open = false;
        for i in 0..self.paths.len() {
            let key = if has_escapes { self.key.as_slice() } else { key };
            let path = &mut self.paths[i];
            if path.is_done {
                continue;
            }
            path.matched = path.matched.min(step);
            if path.matched == step && path.key_at(step) == Some(key) {
                path.matched = step + 1;
                if path.steps.len() == step + 1 {
                    path.is_done = true;
                    match value(self.line, value_at) {
                        Ok((value, _)) => {
                            self.labels.meter().work(value.text.len());
                            self.take(i, &value);
                        }
                        Err(details) => self.fail(details),
                    }
                    continue;
                }
            }
            open = true;
        }
        open
    }

    /// Reads the elements of a wanted array from `at`; the position behind it, or
    /// `None` when it cannot be read.
    fn elements(&mut self, at: usize, level: usize) -> Option<usize> {
        let line = self.line;
        let mut at = skip_space(line, at)?;
        if line[at] == b']' {
            return Some(at + 1);
        }
        for index in 0.. {
            if !self.labels.meter().work(self.paths.len() * PATH_WORK) {
                return None;
            }
            let (element, next) = match value(line, at) {
                Ok(found) => found,
                Err(UNKNOWN_VALUE) => {
                    let at = skip_space(line, at)?;
                    let is_end = |b: &u8| matches!(b, b' ' | b',' | b'}' | b']');
                    return Some(at + line[at..].iter().position(is_end)?);
                }
                Err(_) => return None,
            };
            for i in 0..self.paths.len() {
                let path = &mut self.paths[i];
                if path.wants_array(level) && path.index_at(level) == Some(index) {
                    path.is_done = true;
                    // An object or array is read once per step at most.
                    let steps = path.steps.len() - level;
                    self.key.clear();
                    let has_room = self.labels.meter().work(element.text.len() * steps)
                        && self.labels.meter().make_room(self.key, element.text.len());
                    if !has_room {
                        return None;
                    }
                    if let Some(value) = descend(element, &path.steps[level + 1..], self.key) {
                        self.take(i, &value);
                    }
                }
            }
            at = skip_space(line, next)?;
            match line[at] {
                b',' => at += 1,
                b']' => return Some(at + 1),
                _ => return Some(at),
            }
        }
        None
    }

    /// Sets the label of a path, unless a later one of the list has set it.
    fn take(&mut self, i: usize, value: &Value<'_>) {
        self.paths[i].is_set = true;
        let label = self.paths[i].label;
        if self.paths[i + 1..].iter().any(|path| path.is_set && path.label == label) {
            return;
        }
        let name = self.labels.extraction_name(label);
        self.labels.set_with(name, value.text.len(), |arena| match value.kind {
            Kind::Null => {}
            Kind::Object => push_clean(arena, value.text),
            _ => push_text(arena, value.text),
        });
    }

    fn fail(&mut self, details: Failure) {
        self.labels.set_parser_error(JSON_ERROR, details.as_bytes());
    }
}

/// Follows the steps into a value. There is room for the longest key in `buffer`.
fn descend<'l>(mut place: Value<'l>, steps: &[Step], buffer: &mut Vec<u8>) -> Option<Value<'l>> {
    for step in steps {
        place = match (step, place.kind) {
            (Step::Key(key), Kind::Object) => field_of(place.text, key, buffer)?,
            (Step::Index(index), Kind::Array) => element_of(place.text, *index)?,
            _ => return None,
        };
    }
    Some(place)
}

fn field_of<'l>(object: &'l [u8], key: &[u8], buffer: &mut Vec<u8>) -> Option<Value<'l>> {
    let mut fields = Fields::open(object).ok()?;
    while let Some(field) = fields.next().ok()? {
        if field.key_has_escapes {
            buffer.clear();
            if push_unescaped(buffer, field.key, false) && buffer == key {
                return Some(field.value);
            }
        } else if field.key == key {
            return Some(field.value);
        }
    }
    None
}

fn element_of(array: &[u8], index: usize) -> Option<Value<'_>> {
    let mut at = 1;
    for _ in 0..index {
        let (_, next) = value(array, at).ok()?;
        let comma = skip_space(array, next)?;
        if array[comma] != b',' {
            return None;
        }
        at = comma + 1;
    }
    Some(value(array, at).ok()?.0)
}
