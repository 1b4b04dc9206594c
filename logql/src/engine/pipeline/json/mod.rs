//! `| json`: every field of an object becomes a label, or with expressions the
//! listed ones.

pub(crate) mod escapes;
mod expressions;
mod path;
mod paths;
pub(crate) mod scan;

use std::ops::ControlFlow;

use super::super::meter::Meter;
use super::{CompiledStage, Entry};
use crate::engine::labels::key_cache::KeyCache;
use crate::engine::labels::text::{is_blank, is_label_name, push_clean, push_sanitized};
use crate::engine::labels::{EntryLabels, NameId};
use escapes::push_unescaped;
pub(crate) use expressions::{JsonExpressions, label_of};
pub(crate) use paths::for_each_path;
use scan::{BAD_ESCAPE, Failure, Field, Fields, Kind, MAX_DEPTH, TOO_DEEP, Value};

/// The error of a line that cannot be read.
pub(crate) const JSON_ERROR: &[u8] = b"JSONParserErr";

/// Bytes of fields whose work is counted at once, see [`super::super::meter`].
const COUNTED_BYTES: usize = 16 << 10;
/// The work of a byte of fields: there may be one field in six bytes.
const FIELD_FACTOR: usize = 4;
/// Underscores that may be added to a part of a name.
const UNDERSCORES: usize = 2;

/// `| json` without expressions.
#[derive(Debug, Default)]
pub(crate) struct Json {
    /// Scratch: the name of the field at hand.
    name: Vec<u8>,
    /// Scratch: a key without its escapes.
    key: Vec<u8>,
    /// The labels of keys outside of nested objects.
    known: KeyCache,
}

impl CompiledStage for Json {
    type Outcome = ();

    fn process(&mut self, entry: &mut Entry<'_>) {
        let (line, labels) = entry.parts();
        if labels.has_all() {
            return;
        }
        self.name.clear();
        let (name, key, known) = (&mut self.name, &mut self.key, &mut self.known);
        let mut reader = Reader { labels, name, key, known };
        if let Err(details) = reader.object(line, 0) {
            labels.set_parser_error(JSON_ERROR, details.as_bytes());
        }
    }

    fn held_bytes(&self) -> usize {
        self.name.capacity() + self.key.capacity() + KeyCache::BYTES
    }

    fn recycle(&mut self, meter: &Meter) {
        meter.recycle(&mut self.name);
        meter.recycle(&mut self.key);
    }
}

struct Reader<'r> {
    labels: &'r mut EntryLabels,
    /// The name of the object at hand.
    name: &'r mut Vec<u8>,
    key: &'r mut Vec<u8>,
    known: &'r mut KeyCache,
}

impl Reader<'_> {
    /// Sets the labels of an object's fields; breaks when all are found.
    fn object(&mut self, data: &[u8], depth: usize) -> Result<ControlFlow<()>, Failure> {
        if depth > MAX_DEPTH {
            return Err(TOO_DEEP);
        }
        let mut fields = Fields::open(data)?;
        let prefix_len = self.name.len();
        let mut counted = 0;
        while let Some(field) = fields.next()? {
            if fields.position() - counted >= COUNTED_BYTES {
                if !self.labels.meter().work(FIELD_FACTOR * (fields.position() - counted)) {
                    return Ok(ControlFlow::Break(()));
                }
                counted = fields.position();
            }
            let flow = self.field(&field, depth)?;
            self.name.truncate(prefix_len);
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn field(&mut self, field: &Field<'_>, depth: usize) -> Result<ControlFlow<()>, Failure> {
        if field.key_has_escapes {
            self.key.clear();
            if !self.labels.meter().make_room(self.key, field.key.len()) {
                return Ok(ControlFlow::Break(()));
            }
            if !push_unescaped(self.key, field.key, false) {
                return Err(BAD_ESCAPE);
            }
        }
        let key = if field.key_has_escapes { self.key.as_slice() } else { field.key };
        if field.value.kind == Kind::Object {
            // Its end has been looked for.
            if !self.labels.meter().work(field.value.text.len())
                || !has_room(self.labels, self.name, key)
            {
                return Ok(ControlFlow::Break(()));
            }
            push_part(self.name, key);
            if !self.labels.may_want_prefix(self.name) {
                return Ok(ControlFlow::Continue(()));
            }
            return self.object(field.value.text, depth + 1);
        }
        if matches!(field.value.kind, Kind::Null | Kind::Array) {
            return Ok(ControlFlow::Continue(()));
        }
        let id = if self.name.is_empty() {
            let (labels, name) = (&mut *self.labels, &mut *self.name);
            self.known.get(key, |key| {
                if is_label_name(key) {
                    return labels.field_id(key);
                }
                if !labels.meter().make_room(name, key.len() + UNDERSCORES) {
                    return None;
                }
                push_part(name, key);
                named(labels, name)
            })
        } else if has_room(self.labels, self.name, key) {
            push_part(self.name, key);
            named(self.labels, self.name)
        } else {
            None
        };
        if let Some(target) = id.and_then(|id| self.labels.target_of(id)) {
            let value = &field.value;
            self.labels.set_with(target, value.text.len(), |arena| push_value(arena, value));
            if self.labels.has_all() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// The label of a field; one whose name is blank on all levels has no name.
fn named(labels: &mut EntryLabels, name: &[u8]) -> Option<NameId> {
    if name.is_empty() { None } else { labels.field_id(name) }
}

/// Makes room for another part of a name.
fn has_room(labels: &EntryLabels, name: &mut Vec<u8>, key: &[u8]) -> bool {
    labels.meter().make_room(name, key.len() + UNDERSCORES)
}

/// Appends the part of a name that a key stands for.
fn push_part(name: &mut Vec<u8>, key: &[u8]) {
    if is_blank(key) {
        return;
    }
    if !name.is_empty() {
        name.push(b'_');
    }
    push_sanitized(name, key);
}

/// Appends a string, number or boolean as a label value.
pub(crate) fn push_value(arena: &mut Vec<u8>, value: &Value<'_>) {
    if value.kind == (Kind::String { has_escapes: true }) {
        push_text(arena, value.text);
    } else {
        push_clean(arena, value.text);
    }
}

/// Appends a text without its escapes, or nothing when one of them is invalid.
pub(crate) fn push_text(arena: &mut Vec<u8>, text: &[u8]) {
    let start = arena.len();
    if !push_unescaped(arena, text, true) {
        arena.truncate(start);
    }
}
