//! The labels an entry carries through its pipeline.
//!
//! There are three layers (stream labels, structured metadata, parsed labels) and two labels for
//! errors. Names are interned per executor and compared as numbers. Values live in one arena that
//! is emptied for every entry, so that working on labels allocates only while the vectors grow.
//!
//! A table indexed by the number of a name has its state within the entry at hand, so that
//! reading, writing and deleting a label take constant time, however many labels an entry has. A
//! row of the table belongs to the entry it was last written for; a row of another entry reads as
//! empty.

mod edit;
mod extraction;
pub(crate) mod key_cache;
pub(crate) mod sets;
pub(crate) mod text;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use logsvc_proto::Labels;

use super::interner::BytesInterner;
use super::meter::Meter;
pub(crate) use extraction::Wanted;
use extraction::Wants;
use key_cache::KeyCache;

/// An interned label name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct NameId(pub(crate) u32);

/// `__error__`, interned first by [`EntryLabels::new`].
pub(crate) const ERROR: NameId = NameId(0);
/// `__error_details__`, interned second.
pub(crate) const ERROR_DETAILS: NameId = NameId(1);
/// `__preserve_error__`, interned third.
pub(crate) const PRESERVE_ERROR: NameId = NameId(2);

/// No position.
const NONE: u32 = u32::MAX;

/// A name with its value, a piece of some arena.
#[derive(Clone, Copy, Debug)]
struct Field {
    name: NameId,
    start: usize,
    end: usize,
}

/// The labels of one stream, prepared once.
#[derive(Debug, Default)]
pub(crate) struct BaseLabels {
    fields: Vec<Field>,
    text: Vec<u8>,
}

impl BaseLabels {
    fn value(&self, index: usize) -> &[u8] {
        let field = self.fields[index];
        &self.text[field.start..field.end]
    }

    /// True when the stream has a label of that name.
    pub(crate) fn has(&self, name: NameId) -> bool {
        self.fields.iter().any(|field| field.name == name)
    }

    /// Heap memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.fields.capacity() * size_of::<Field>() + self.text.capacity()
    }
}

/// The category of a label in the final set of an entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum Category {
    /// Stream labels.
    Stream = 0,
    /// Structured metadata.
    Metadata = 1,
    /// Labels written by stages, and the error labels.
    Parsed = 2,
}

/// The state of a name.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// Number of the entry for which the second half of the fields holds.
    entry: u64,
    /// Position in the current stream's labels, or [`NONE`].
    base: u32,
    /// The name with the suffix of colliding labels, once it was needed.
    extracted: u32,
    /// The query looks at labels of that name.
    is_needed: bool,
    /// Position in the structured metadata, or [`NONE`].
    metadata: u32,
    /// Position in the parsed labels, or [`NONE`].
    parsed: u32,
    /// The stream's label was deleted.
    is_hidden: bool,
    /// Was written into the parsed labels, even if it was deleted since.
    is_claimed: bool,
}

const NEW_ROW: Row = Row {
    entry: 0,
    base: NONE,
    extracted: NONE,
    is_needed: false,
    metadata: NONE,
    parsed: NONE,
    is_hidden: false,
    is_claimed: false,
};

/// The working label set of the entry at hand.
#[derive(Debug)]
pub(crate) struct EntryLabels {
    names: BytesInterner,
    /// By name id.
    rows: Vec<Row>,
    /// Number of the entry at hand, from 1.
    entry: u64,
    base: Arc<BaseLabels>,
    /// Names of the labels that were prepared last.
    base_names: Vec<NameId>,
    metadata: Vec<Field>,
    parsed: Vec<Field>,
    /// Number of stream labels that were deleted.
    hidden: usize,
    arena: Vec<u8>,
    error: Option<(usize, usize)>,
    error_details: Option<(usize, usize)>,
    wants: Wants,
    /// Names of structured metadata.
    metadata_names: KeyCache,
    /// Scratch for derived names.
    name_buffer: Vec<u8>,
    /// The memory and the work that the stages may still take.
    meter: Meter,
}

impl EntryLabels {
    /// No labels. Parsers extract all labels until [`EntryLabels::want`] restricts
    /// them.
    pub(crate) fn new() -> Self {
        Self::with_meter(Meter::default())
    }

    /// Like [`EntryLabels::new`]; `meter` counts the memory and work of the stages.
    pub(crate) fn with_meter(meter: Meter) -> Self {
        let mut labels = Self {
            names: BytesInterner::new(),
            rows: Vec::new(),
            entry: 0,
            base: Arc::default(),
            base_names: Vec::new(),
            metadata: Vec::new(),
            parsed: Vec::new(),
            hidden: 0,
            arena: Vec::new(),
            error: None,
            error_details: None,
            wants: Wants::default(),
            metadata_names: KeyCache::default(),
            name_buffer: Vec::new(),
            meter: Meter::default(),
        };
        // These are there also where there is no memory.
        assert_eq!(labels.name_id(b"__error__"), ERROR, "the first name has id 0");
        assert_eq!(labels.name_id(b"__error_details__"), ERROR_DETAILS, "the second has id 1");
        assert_eq!(labels.name_id(b"__preserve_error__"), PRESERVE_ERROR, "the third has id 2");
        labels.meter = meter;
        let _is_admitted = labels.meter.admit(labels.held_bytes());
        labels
    }

    /// The id of a name, for stages to keep; any id if there is no memory for it, which ends
    /// the leaf.
    pub(crate) fn name_id(&mut self, name: &[u8]) -> NameId {
        self.new_name_id(name).unwrap_or(ERROR)
    }

    /// The id of a name; `None` if there is no memory for it.
    fn new_name_id(&mut self, name: &[u8]) -> Option<NameId> {
        intern_name(&mut self.names, &mut self.rows, name, &self.meter)
    }

    /// The meter, which counts the memory and the work of the stages.
    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// The meter of labels that are not needed further.
    pub(crate) fn into_meter(self) -> Meter {
        self.meter
    }

    /// The text of a name.
    pub(crate) fn name(&self, id: NameId) -> &[u8] {
        self.names.get(id.0)
    }

    /// Prepares the labels of a stream.
    pub(crate) fn base(&mut self, labels: &Labels) -> Arc<BaseLabels> {
        let text_bytes = labels.iter().map(|(_, value)| value.len()).sum();
        let mut base = BaseLabels::default();
        let has_room = self.meter.make_room(&mut base.fields, labels.len())
            && self.meter.make_room(&mut base.text, text_bytes)
            && self.meter.make_room(&mut self.base_names, labels.len());
        if !has_room {
            return Arc::new(base);
        }
        for (position, (name, value)) in labels.iter().enumerate() {
            // Most streams have the names that the one before had.
            let before = self.base_names.get(position).copied();
            let name = match before.filter(|&id| self.name(id) == name.as_bytes()) {
                Some(id) => id,
                None => self.name_id(name.as_bytes()),
            };
            let start = base.text.len();
            base.text.extend_from_slice(value.as_bytes());
            base.fields.push(Field { name, start, end: base.text.len() });
        }
        self.base_names.clear();
        self.base_names.extend(base.fields.iter().map(|field| field.name));
        Arc::new(base)
    }

    /// Prepares the listed labels of a stream alone.
    pub(crate) fn base_of_listed(&self, labels: &Labels, listed: &[NameId]) -> Arc<BaseLabels> {
        let mut base = BaseLabels::default();
        for &name in listed {
            if let Some(value) = self.value_in(labels, name) {
                let start = base.text.len();
                let end = start + value.len();
                if !self.meter.append(&mut base.text, value.as_bytes())
                    || !self.meter.push(&mut base.fields, Field { name, start, end })
                {
                    break;
                }
            }
        }
        Arc::new(base)
    }

    /// The value of a label of a stream.
    pub(crate) fn value_in<'l>(&self, labels: &'l Labels, name: NameId) -> Option<&'l str> {
        labels.get(std::str::from_utf8(self.name(name)).ok()?)
    }

    /// Starts an entry of a stream: stream labels only.
    pub(crate) fn start(&mut self, base: &Arc<BaseLabels>) {
        if !Arc::ptr_eq(&self.base, base) {
            for field in &self.base.fields {
                self.rows[field.name.0 as usize].base = NONE;
            }
            for (position, field) in (0u32..).zip(&base.fields) {
                self.rows[field.name.0 as usize].base = position;
            }
            self.base = Arc::clone(base);
        }
        self.entry += 1;
        self.metadata.clear();
        self.parsed.clear();
        self.hidden = 0;
        self.arena.clear();
        self.error = None;
        self.error_details = None;
        self.wants.start();
    }

    /// The state of a name within this entry.
    fn row(&mut self, name: NameId) -> &mut Row {
        let row = &mut self.rows[name.0 as usize];
        if row.entry != self.entry {
            row.entry = self.entry;
            row.metadata = NONE;
            row.parsed = NONE;
            row.is_hidden = false;
            row.is_claimed = false;
        }
        row
    }

    /// The state of a name within this entry, for reading.
    fn known(&self, name: NameId) -> Row {
        let row = self.rows[name.0 as usize];
        if row.entry == self.entry {
            row
        } else {
            Row { base: row.base, extracted: row.extracted, is_needed: row.is_needed, ..NEW_ROW }
        }
    }

    /// Adds the entry's structured metadata. A name that the stream has gets the
    /// suffix `_extracted`; the error names go to the error labels.
    pub(crate) fn add_metadata<'p>(&mut self, pairs: impl Iterator<Item = (&'p str, &'p str)>) {
        for (name, value) in pairs {
            let (names, rows, meter) = (&mut self.names, &mut self.rows, &self.meter);
            let id = self
                .metadata_names
                .get(name.as_bytes(), |name| intern_name(names, rows, name, meter));
            // There is no memory for another name.
            let Some(id) = id else { return };
            let span = self.store(value.as_bytes());
            match id {
                ERROR => self.error = Some(span),
                ERROR_DETAILS => self.error_details = Some(span),
                id => {
                    let id = if self.known(id).base == NONE { id } else { self.extracted(id) };
                    if !self.meter.make_room(&mut self.metadata, 1) {
                        return;
                    }
                    let position = position_of(self.metadata.len());
                    let row = self.row(id);
                    if row.metadata == NONE {
                        row.metadata = position;
                        self.metadata.push(Field { name: id, start: span.0, end: span.1 });
                    }
                }
            }
        }
    }

    /// Keeps a value for this entry; nothing of it if there is no memory.
    fn store(&mut self, value: &[u8]) -> (usize, usize) {
        let start = self.arena.len();
        let _is_kept = self.meter.append(&mut self.arena, value);
        (start, self.arena.len())
    }

    /// `name` with the suffix of colliding labels.
    fn extracted(&mut self, id: NameId) -> NameId {
        let known = self.rows[id.0 as usize].extracted;
        if known != NONE {
            return NameId(known);
        }
        let mut buffer = std::mem::take(&mut self.name_buffer);
        buffer.clear();
        let is_written = self.meter.append(&mut buffer, self.names.get(id.0))
            && self.meter.append(&mut buffer, b"_extracted");
        let extracted = if is_written { self.new_name_id(&buffer) } else { None };
        self.name_buffer = buffer;
        // Without memory the leaf ends, and any name will do.
        let Some(extracted) = extracted else { return id };
        self.rows[id.0 as usize].extracted = extracted.0;
        extracted
    }

    /// The value of a label, without looking into the error labels.
    pub(crate) fn get(&self, name: NameId) -> Option<&[u8]> {
        let row = self.known(name);
        let field = if row.parsed != NONE {
            self.parsed[row.parsed as usize]
        } else if row.metadata != NONE {
            self.metadata[row.metadata as usize]
        } else if row.base != NONE && !row.is_hidden {
            let value = self.base.value(row.base as usize);
            return (!value.is_empty()).then_some(value);
        } else {
            return None;
        };
        Some(&self.arena[field.start..field.end])
    }

    /// A non-empty `__error__`.
    pub(crate) fn error(&self) -> Option<&[u8]> {
        self.error_text(self.error)
    }

    /// A non-empty `__error_details__`.
    pub(crate) fn error_details(&self) -> Option<&[u8]> {
        self.error_text(self.error_details)
    }

    fn error_text(&self, range: Option<(usize, usize)>) -> Option<&[u8]> {
        let (start, end) = range?;
        (start < end).then(|| &self.arena[start..end])
    }

    /// True when the final set is exactly the stream's labels.
    pub(crate) fn is_untouched(&self) -> bool {
        self.hidden == 0
            && self.metadata.is_empty()
            && self.parsed.is_empty()
            && self.error().is_none()
    }

    /// Calls `visit` for every label of the final set: visible stream labels,
    /// structured metadata, parsed labels, then the error labels. Names come once.
    pub(crate) fn for_each_final(&self, mut visit: impl FnMut(NameId, Category, &[u8])) {
        for (position, field) in self.base.fields.iter().enumerate() {
            let value = self.base.value(position);
            let row = self.known(field.name);
            if !value.is_empty() && !row.is_hidden && row.parsed == NONE {
                visit(field.name, Category::Stream, value);
            }
        }
        for field in &self.metadata {
            visit(field.name, Category::Metadata, &self.arena[field.start..field.end]);
        }
        let has_details = self.shows_details();
        for field in &self.parsed {
            let replaced = (field.name == ERROR && self.error().is_some())
                || (field.name == ERROR_DETAILS && has_details);
            if !replaced {
                visit(field.name, Category::Parsed, &self.arena[field.start..field.end]);
            }
        }
        if let Some(error) = self.error() {
            visit(ERROR, Category::Parsed, error);
        }
        if has_details && let Some(details) = self.error_details() {
            visit(ERROR_DETAILS, Category::Parsed, details);
        }
    }

    /// The value of a label of the final set.
    pub(crate) fn final_value(&self, name: NameId) -> Option<&[u8]> {
        match name {
            ERROR => self.error().or_else(|| self.get(name)),
            ERROR_DETAILS if self.shows_details() => self.error_details(),
            _ => self.get(name),
        }
    }

    /// Details alone are shown only when the pipeline left another trace (4.4).
    fn shows_details(&self) -> bool {
        self.error_details().is_some() && !self.is_untouched()
    }

    /// Gives back buffers that an outlier among the entries has made large.
    pub(crate) fn recycle(&mut self) {
        self.meter.recycle(&mut self.arena);
        self.meter.recycle(&mut self.name_buffer);
        (self.error, self.error_details) = (None, None);
        self.metadata.clear();
        self.parsed.clear();
        // Rows point to nothing of an entry that has not begun.
        self.entry += 1;
    }

    /// Heap memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.names.held_bytes()
            + self.rows.capacity() * size_of::<Row>()
            + self.arena.capacity()
            + self.name_buffer.capacity()
            + self.base_names.capacity() * size_of::<NameId>()
            + (self.metadata.capacity() + self.parsed.capacity()) * size_of::<Field>()
            + KeyCache::BYTES
            + self.wants.held_bytes()
    }
}

fn intern_name(
    names: &mut BytesInterner,
    rows: &mut Vec<Row>,
    name: &[u8],
    meter: &Meter,
) -> Option<NameId> {
    if !meter.make_room(rows, 1) {
        return None;
    }
    let id = names.intern(name, meter)?;
    if rows.len() <= id as usize {
        rows.push(NEW_ROW);
    }
    Some(NameId(id))
}

fn position_of(len: usize) -> u32 {
    u32::try_from(len).expect("an entry is shorter than 4 GiB, and so is the list of its labels")
}
