//! `| unpack`: the labels and the line of a packed entry.

use super::super::labels::EntryLabels;
use super::super::labels::text::{push_clean, push_sanitized};
use super::super::meter::Meter;
use super::json::JSON_ERROR;
use super::json::escapes::push_unescaped;
use super::json::push_text;
use super::json::scan::{BAD_ESCAPE, Failure, Fields, Kind};
use super::{CompiledStage, Entry};

/// The field that holds the line.
const ENTRY: &[u8] = b"_entry";

/// The work of a field besides its bytes, see [`super::super::meter`].
const FIELD_WORK: usize = 32;

/// A list of fields up to this size is kept from entry to entry.
const KEPT_BYTES: usize = 64 << 10;

/// A string as it stands in a line, by positions.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    end: usize,
    has_escapes: bool,
}

/// A compiled `unpack`.
#[derive(Debug, Default)]
pub(crate) struct Unpack {
    /// The query looks at no label: only the line is unpacked.
    line_only: bool,
    /// Scratch: the string fields of the line, keys and values.
    fields: Vec<(Span, Span)>,
    /// Scratch: a key without its escapes, and the name made from it.
    key: Vec<u8>,
    name: Vec<u8>,
    /// Scratch: the unpacked line.
    line: Vec<u8>,
}

impl Unpack {
    pub(crate) fn new(line_only: bool) -> Self {
        Self { line_only, ..Self::default() }
    }

    /// Collects the string fields of the line, and finds the packed line.
    fn scan(&mut self, line: &[u8], meter: &Meter) -> Result<Option<Span>, Failure> {
        self.fields.clear();
        let mut packed = None;
        let mut fields = Fields::open(line)?;
        while let Some(field) = fields.next()? {
            self.key.clear();
            let has_room = meter.work(FIELD_WORK + field.key.len() + field.value.text.len())
                && meter.make_room(&mut self.key, field.key.len())
                && meter.make_room(&mut self.fields, 1);
            if !has_room {
                return Ok(None);
            }
            if field.key_has_escapes && !push_unescaped(&mut self.key, field.key, false) {
                return Err(BAD_ESCAPE);
            }
            let Kind::String { has_escapes } = field.value.kind else { continue };
            let value = span(line, field.value.text, has_escapes);
            let key = if field.key_has_escapes { self.key.as_slice() } else { field.key };
            if key == ENTRY {
                packed = Some(value);
            } else {
                self.fields.push((span(line, field.key, field.key_has_escapes), value));
            }
        }
        Ok(packed)
    }

    /// Sets the labels, the last of equal names first, which then is the one that
    /// counts.
    fn set_labels(&mut self, line: &[u8], labels: &mut EntryLabels) {
        for (key, value) in self.fields.iter().rev() {
            self.key.clear();
            self.name.clear();
            let text = &line[key.start..key.end];
            let has_room = labels.meter().work(FIELD_WORK + text.len())
                && labels.meter().make_room(&mut self.key, text.len())
                && labels.meter().make_room(&mut self.name, text.len() + 1);
            if !has_room {
                return;
            }
            if key.has_escapes {
                push_unescaped(&mut self.key, text, false);
            } else {
                self.key.extend_from_slice(text);
            }
            push_sanitized(&mut self.name, &self.key);
            if !self.name.is_empty()
                && let Some(target) = labels.target(&self.name)
            {
                let max_len_bytes = value.end - value.start;
                labels.set_with(target, max_len_bytes, |arena| push(arena, line, *value));
            }
        }
    }
}

impl CompiledStage for Unpack {
    type Outcome = ();

    fn process(&mut self, entry: &mut Entry<'_>) {
        let (line, labels) = entry.parts();
        if line.is_empty() {
            return;
        }
        let found = match line[0] {
            b'{' => self.scan(line, labels.meter()),
            _ => Err("expecting json object(6), but it is not"),
        };
        match found {
            Ok(Some(packed)) => {
                if !self.line_only {
                    self.set_labels(line, labels);
                }
                self.line.clear();
                if !labels.meter().make_room(&mut self.line, packed.end - packed.start) {
                    return;
                }
                push(&mut self.line, line, packed);
                entry.replace_line(&mut self.line);
            }
            Ok(None) => {}
            Err(_) if self.line_only => {}
            Err(details) => labels.set_parser_error(JSON_ERROR, details.as_bytes()),
        }
    }

    fn held_bytes(&self) -> usize {
        self.fields.capacity() * size_of::<(Span, Span)>()
            + self.key.capacity()
            + self.name.capacity()
            + self.line.capacity()
    }

    fn recycle(&mut self, meter: &Meter) {
        meter.recycle(&mut self.key);
        meter.recycle(&mut self.name);
        meter.recycle(&mut self.line);
        let fields_bytes = self.fields.capacity() * size_of::<(Span, Span)>();
        if fields_bytes > KEPT_BYTES {
            meter.release(fields_bytes);
            self.fields = Vec::new();
        }
    }
}

/// Where `part`, a piece of `line`, stands.
fn span(line: &[u8], part: &[u8], has_escapes: bool) -> Span {
    let start = part.as_ptr().addr() - line.as_ptr().addr();
    Span { start, end: start + part.len(), has_escapes }
}

fn push(out: &mut Vec<u8>, line: &[u8], value: Span) {
    let text = &line[value.start..value.end];
    if value.has_escapes { push_text(out, text) } else { push_clean(out, text) }
}
