//! The labels an entry carries through its pipeline.
//!
//! Section 4 of the language reference: a working set of three layers (stream
//! labels, structured metadata, parsed labels) and two error slots. Names are
//! interned per executor and compared as numbers; values live in one arena that
//! is emptied for every entry, so that working on labels allocates only while the
//! vectors grow.

use std::rc::Rc;

use logsvc_proto::Labels;

use super::super::interner::BytesInterner;

/// An interned label name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct NameId(pub(crate) u32);

/// `__error__`, interned first by [`EntryLabels::new`].
pub(crate) const ERROR: NameId = NameId(0);
/// `__error_details__`, interned second.
pub(crate) const ERROR_DETAILS: NameId = NameId(1);

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
    fn position(&self, name: NameId) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }

    fn value(&self, index: usize) -> &[u8] {
        let field = self.fields[index];
        &self.text[field.start..field.end]
    }

    /// True when the stream has a label of that name.
    pub(crate) fn has(&self, name: NameId) -> bool {
        self.position(name).is_some()
    }

    /// Heap memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.fields.capacity() * size_of::<Field>() + self.text.capacity()
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

/// The working label set of the entry at hand.
#[derive(Debug)]
pub(crate) struct EntryLabels {
    names: BytesInterner,
    base: Rc<BaseLabels>,
    /// Stream labels that were deleted, by position in `base`.
    hidden: Vec<usize>,
    metadata: Vec<Field>,
    parsed: Vec<Field>,
    /// Every name that was ever written into `parsed` for this entry.
    claimed: Vec<NameId>,
    arena: Vec<u8>,
    error: Option<(usize, usize)>,
    error_details: Option<(usize, usize)>,
    /// Scratch for derived names.
    name_buffer: Vec<u8>,
}

impl EntryLabels {
    pub(crate) fn new() -> Self {
        let mut names = BytesInterner::new();
        assert_eq!(names.intern(b"__error__"), ERROR.0, "the first name has id 0");
        assert_eq!(names.intern(b"__error_details__"), ERROR_DETAILS.0, "the second has id 1");
        Self {
            names,
            base: Rc::default(),
            hidden: Vec::new(),
            metadata: Vec::new(),
            parsed: Vec::new(),
            claimed: Vec::new(),
            arena: Vec::new(),
            error: None,
            error_details: None,
            name_buffer: Vec::new(),
        }
    }

    /// The id of a name, for stages to keep.
    pub(crate) fn name_id(&mut self, name: &[u8]) -> NameId {
        NameId(self.names.intern(name))
    }

    /// The text of a name.
    pub(crate) fn name(&self, id: NameId) -> &[u8] {
        self.names.get(id.0)
    }

    /// Prepares the labels of a stream.
    pub(crate) fn base(&mut self, labels: &Labels) -> Rc<BaseLabels> {
        let mut base = BaseLabels::default();
        for (name, value) in labels {
            let start = base.text.len();
            base.text.extend_from_slice(value.as_bytes());
            let name = self.name_id(name.as_bytes());
            base.fields.push(Field { name, start, end: base.text.len() });
        }
        Rc::new(base)
    }

    /// Starts an entry of a stream: stream labels only.
    pub(crate) fn start(&mut self, base: &Rc<BaseLabels>) {
        if !Rc::ptr_eq(&self.base, base) {
            self.base = Rc::clone(base);
        }
        self.hidden.clear();
        self.metadata.clear();
        self.parsed.clear();
        self.claimed.clear();
        self.arena.clear();
        self.error = None;
        self.error_details = None;
    }

    /// Adds the entry's structured metadata. A name that the stream has gets the
    /// suffix `_extracted`; the error names go to the error slots.
    pub(crate) fn add_metadata<'p>(&mut self, pairs: impl Iterator<Item = (&'p str, &'p str)>) {
        for (name, value) in pairs {
            let id = self.name_id(name.as_bytes());
            let span = self.store(value.as_bytes());
            match id {
                ERROR => self.error = Some(span),
                ERROR_DETAILS => self.error_details = Some(span),
                id => {
                    let id = if self.base.has(id) { self.extracted(id) } else { id };
                    if !self.metadata.iter().any(|field| field.name == id) {
                        self.metadata.push(Field { name: id, start: span.0, end: span.1 });
                    }
                }
            }
        }
    }

    fn store(&mut self, value: &[u8]) -> (usize, usize) {
        let start = self.arena.len();
        self.arena.extend_from_slice(value);
        (start, self.arena.len())
    }

    /// `name` with the suffix of colliding labels.
    fn extracted(&mut self, id: NameId) -> NameId {
        self.name_buffer.clear();
        self.name_buffer.extend_from_slice(self.names.get(id.0));
        self.name_buffer.extend_from_slice(b"_extracted");
        NameId(self.names.intern(&self.name_buffer))
    }

    /// The value of a label, without looking into the error slots.
    pub(crate) fn get(&self, name: NameId) -> Option<&[u8]> {
        let field = self.parsed.iter().chain(&self.metadata).find(|field| field.name == name);
        if let Some(field) = field {
            return Some(&self.arena[field.start..field.end]);
        }
        let index = self.base.position(name)?;
        let value = self.base.value(index);
        (!value.is_empty() && !self.hidden.contains(&index)).then_some(value)
    }

    /// The value of a label where the error slots count as labels: string label
    /// filters, `drop`, templates and grouping.
    #[cfg_attr(not(test), expect(dead_code, reason = "called by label filters"))]
    pub(crate) fn get_with_errors(&self, name: NameId) -> Option<&[u8]> {
        match name {
            ERROR => self.error(),
            ERROR_DETAILS => self.error_details(),
            _ => None,
        }
        .or_else(|| self.get(name))
    }

    /// A non-empty `__error__`.
    pub(crate) fn error(&self) -> Option<&[u8]> {
        self.slot(self.error)
    }

    /// A non-empty `__error_details__`.
    pub(crate) fn error_details(&self) -> Option<&[u8]> {
        self.slot(self.error_details)
    }

    fn slot(&self, slot: Option<(usize, usize)>) -> Option<&[u8]> {
        let (start, end) = slot?;
        (start < end).then(|| &self.arena[start..end])
    }

    /// Sets both error slots.
    pub(crate) fn set_error(&mut self, error: &[u8], details: &[u8]) {
        self.error = Some(self.store(error));
        self.error_details = Some(self.store(details));
    }

    /// Writes a parsed label, replacing what had the name (`label_format`, and
    /// parsers that were given names).
    #[cfg_attr(not(test), expect(dead_code, reason = "called by label stages"))]
    pub(crate) fn set(&mut self, name: NameId, value: &[u8]) {
        let (start, end) = self.store(value);
        self.metadata.retain(|field| field.name != name);
        match self.parsed.iter_mut().find(|field| field.name == name) {
            Some(field) => (field.start, field.end) = (start, end),
            None => self.parsed.push(Field { name, start, end }),
        }
        if !self.claimed.contains(&name) {
            self.claimed.push(name);
        }
    }

    /// The name under which a parser sets `name`: with the suffix when the stream
    /// has the name (visible or not) or the structured metadata has it now.
    #[cfg_attr(not(test), expect(dead_code, reason = "called by parser stages"))]
    pub(crate) fn extraction_name(&mut self, name: NameId) -> NameId {
        let taken = self.base.has(name) || self.metadata.iter().any(|field| field.name == name);
        if taken { self.extracted(name) } else { name }
    }

    /// True when a label of that name was written before for this entry, even if
    /// it was deleted since; the implicit parsers then skip their field.
    #[cfg_attr(not(test), expect(dead_code, reason = "called by parser stages"))]
    pub(crate) fn is_claimed(&self, name: NameId) -> bool {
        self.claimed.contains(&name)
    }

    /// Removes a label from all layers.
    #[cfg_attr(not(test), expect(dead_code, reason = "called by label stages"))]
    pub(crate) fn delete(&mut self, name: NameId) {
        self.metadata.retain(|field| field.name != name);
        self.parsed.retain(|field| field.name != name);
        if let Some(index) = self.base.position(name)
            && !self.hidden.contains(&index)
        {
            self.hidden.push(index);
        }
    }

    /// True when the final set is exactly the stream's labels.
    pub(crate) fn is_untouched(&self) -> bool {
        self.hidden.is_empty()
            && self.metadata.is_empty()
            && self.parsed.is_empty()
            && self.error().is_none()
    }

    /// Calls `visit` for every label of the final set: visible stream labels,
    /// structured metadata, parsed labels, then the error slots. Names come once.
    pub(crate) fn for_each_final(&self, mut visit: impl FnMut(NameId, Category, &[u8])) {
        for (index, field) in self.base.fields.iter().enumerate() {
            let value = self.base.value(index);
            let visible = !value.is_empty()
                && !self.hidden.contains(&index)
                && !self.parsed.iter().any(|parsed| parsed.name == field.name);
            if visible {
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

    /// Details alone are shown only when the pipeline left another trace (4.4).
    fn shows_details(&self) -> bool {
        self.error_details().is_some() && !self.is_untouched()
    }

    /// Heap memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.names.held_bytes()
            + self.arena.capacity()
            + (self.metadata.capacity() + self.parsed.capacity()) * size_of::<Field>()
            + self.claimed.capacity() * size_of::<NameId>()
            + self.hidden.capacity() * size_of::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn final_set(labels: &EntryLabels) -> Vec<(String, Category, String)> {
        let mut out = Vec::new();
        labels.for_each_final(|name, category, value| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            out.push((text(labels.name(name)), category, text(value)));
        });
        out.sort();
        out
    }

    fn started() -> EntryLabels {
        let mut labels = EntryLabels::new();
        let stream = Labels::from_pairs([("app", "t"), ("env", "p")]).expect("valid");
        let base = labels.base(&stream);
        labels.start(&base);
        labels
    }

    fn owned(name: &str, category: Category, value: &str) -> (String, Category, String) {
        (name.to_owned(), category, value.to_owned())
    }

    #[test]
    fn metadata_that_collides_with_the_stream_is_renamed() {
        let mut labels = started();
        labels.add_metadata([("app", "meta"), ("n", "5")].into_iter());
        assert_eq!(
            final_set(&labels),
            [
                owned("app", Category::Stream, "t"),
                owned("app_extracted", Category::Metadata, "meta"),
                owned("env", Category::Stream, "p"),
                owned("n", Category::Metadata, "5"),
            ]
        );
    }

    #[test]
    fn error_metadata_goes_to_the_error_slot() {
        let mut labels = started();
        labels.add_metadata([("__error__", "E")].into_iter());
        assert_eq!(labels.get(ERROR), None);
        assert_eq!(labels.get_with_errors(ERROR), Some(&b"E"[..]));
        assert_eq!(final_set(&labels)[0], owned("__error__", Category::Parsed, "E"));
    }

    #[test]
    fn written_labels_hide_stream_labels_and_metadata() {
        let mut labels = started();
        labels.add_metadata([("trace", "abc")].into_iter());
        let (app, trace) = (labels.name_id(b"app"), labels.name_id(b"trace"));
        let suffixed = labels.extraction_name(trace);
        assert_eq!(labels.name(suffixed), b"trace_extracted");
        labels.set(app, b"new");
        labels.set(trace, b"t2");
        assert_eq!(labels.get(app), Some(&b"new"[..]));
        assert_eq!(
            final_set(&labels),
            [
                owned("app", Category::Parsed, "new"),
                owned("env", Category::Stream, "p"),
                owned("trace", Category::Parsed, "t2"),
            ]
        );
        labels.delete(app);
        assert_eq!(labels.get(app), None);
        assert!(labels.is_claimed(app));
        assert_eq!(labels.extraction_name(app), labels.name_id(b"app_extracted"));
    }

    #[test]
    fn details_without_an_error_show_only_beside_another_change() {
        let mut labels = started();
        labels.set_error(b"", b"d");
        assert_eq!(final_set(&labels).len(), 2);
        let x = labels.name_id(b"x");
        labels.set(x, b"");
        assert_eq!(final_set(&labels).len(), 4);
        labels.set_error(b"E", b"d");
        assert_eq!(final_set(&labels)[0], owned("__error__", Category::Parsed, "E"));
    }
}
