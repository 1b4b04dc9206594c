//! Which fields of a line parsers turn into labels.
//!
//! The parsers call [`EntryLabels::target`] for every field. It returns no label when the field
//! is not to become one:
//! - a field with the name of another label gets the suffix `_extracted`,
//! - of several extractions of a label the first one counts,
//! - only labels that the query looks at are extracted.

use super::{ERROR, ERROR_DETAILS, EntryLabels, NONE, NameId, PRESERVE_ERROR};

/// The labels a query looks at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    /// All labels, as they are part of the result.
    All,
    /// The listed labels. For each name with the suffix `_extracted` the list also
    /// holds the name without it.
    Only {
        /// Sorted, without duplicates.
        names: Vec<NameId>,
        /// Whether parser errors are part of the result instead of failing the
        /// query.
        preserves_errors: bool,
    },
}

impl Wanted {
    /// True when parsers have nothing to do at all.
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Self::Only { names, .. } if names.is_empty())
    }
}

/// The state of extraction for the entry at hand.
#[derive(Debug, Default)]
pub(super) struct Wants {
    /// `None` when all labels are wanted.
    names: Option<Vec<NameId>>,
    preserves_errors: bool,
    /// Bit n: a wanted name is n bytes long, or 63 and more.
    lengths: u64,
    /// Number of wanted names that were not written yet; never zero when errors
    /// are wanted.
    missing: usize,
}

impl Wants {
    pub(super) fn start(&mut self) {
        // A query that looks at errors wants every line read to its end.
        let errors = usize::from(self.preserves_errors);
        self.missing = self.names.as_ref().map_or(0, Vec::len) + errors;
    }

    pub(super) fn found(&mut self) {
        self.missing -= 1;
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.names.as_ref().map_or(0, |names| names.capacity() * size_of::<NameId>())
    }

    fn may_have_length(&self, len: usize) -> bool {
        self.lengths >> len.min(63) & 1 == 1
    }
}

impl EntryLabels {
    /// Sets the labels that the query reads. To be called before the first entry.
    pub(crate) fn want(&mut self, wanted: &Wanted) {
        let Wanted::Only { names, preserves_errors } = wanted else { return };
        let mut lengths = 0;
        for name in names {
            self.rows[name.0 as usize].is_needed = true;
            lengths |= 1 << self.name(*name).len().min(63);
        }
        if !self.meter.admit(size_of_val(names.as_slice())) {
            return;
        }
        self.wants = Wants {
            names: Some(names.clone()),
            preserves_errors: *preserves_errors,
            lengths,
            missing: 0,
        };
    }

    /// True when the query reads a label of this name.
    pub(crate) fn is_wanted(&self, name: NameId) -> bool {
        self.wants.names.is_none() || self.rows[name.0 as usize].is_needed
    }

    /// The labels that the query reads, and whether errors are among them; `None` if these may be
    /// any.
    pub(crate) fn wanted_names(&self) -> Option<(&[NameId], bool)> {
        self.wants.names.as_deref().map(|names| (names, self.wants.preserves_errors))
    }

    /// True when all labels that the query reads are written, so that parsers stop.
    pub(crate) fn has_all(&self) -> bool {
        self.wants.missing == 0 && self.wants.names.is_some()
    }

    /// True when labels that begin with `prefix` and an underscore may be wanted,
    /// or the error of a damaged object of this name.
    pub(crate) fn may_want_prefix(&self, prefix: &[u8]) -> bool {
        let Some(names) = &self.wants.names else { return true };
        prefix.is_empty()
            || self.wants.preserves_errors
            || names.iter().any(|name| {
                self.name(*name)
                    .strip_prefix(prefix)
                    .is_some_and(|rest| rest.first() == Some(&b'_'))
            })
    }

    /// True when the answer may depend on structured metadata with one of the names that
    /// `may_have` knows, by itself or through other labels.
    pub(crate) fn reads_metadata(&self, may_have: impl Fn(&str) -> bool) -> bool {
        let Some(names) = &self.wants.names else { return true };
        // Names that were never metadata of any entry cannot matter; that of an
        // error may fail the query, and its details depend on all other labels.
        let is_known = |name: &NameId| {
            *name == ERROR_DETAILS || std::str::from_utf8(self.name(*name)).is_ok_and(&may_have)
        };
        names.iter().chain(&[ERROR, PRESERVE_ERROR]).any(is_known) || may_have("__error_details__")
    }

    /// The label that a parser sets for a field with this sanitised name. `None`
    /// when the query does not read it, or when it is written already.
    pub(crate) fn target(&mut self, name: &[u8]) -> Option<NameId> {
        let id = self.field_id(name)?;
        self.target_of(id)
    }

    /// The label of a field with this sanitised name; `None` when the query
    /// does not read it, with or without the suffix. The answer is the same for every entry.
    pub(crate) fn field_id(&mut self, name: &[u8]) -> Option<NameId> {
        if self.wants.names.is_none() {
            return self.new_name_id(name);
        }
        if !self.wants.may_have_length(name.len()) {
            return None;
        }
        // The list holds the plain name of every suffixed one.
        let id = NameId(self.names.find(name)?);
        self.rows[id.0 as usize].is_needed.then_some(id)
    }

    /// [`EntryLabels::target`] for a known name.
    pub(crate) fn target_of(&mut self, name: NameId) -> Option<NameId> {
        let name = self.extraction_name(name);
        (self.is_wanted(name) && !self.known(name).is_claimed).then_some(name)
    }

    /// The name under which a parser sets `name`: with the suffix when the stream
    /// has the name (visible or not) or the structured metadata has it now.
    pub(crate) fn extraction_name(&mut self, name: NameId) -> NameId {
        let row = self.known(name);
        if row.base != NONE || row.metadata != NONE { self.extracted(name) } else { name }
    }

    /// True when the stream (visible or not) or the structured metadata has the
    /// name now.
    pub(crate) fn is_taken(&self, name: NameId) -> bool {
        let row = self.known(name);
        row.base != NONE || row.metadata != NONE
    }

    /// Reports a line that a parser cannot read.
    pub(crate) fn set_parser_error(&mut self, error: &[u8], details: &[u8]) {
        self.set_error(error, details);
        if self.wants.preserves_errors {
            self.set(PRESERVE_ERROR, b"true");
        }
    }

    /// True when errors of this entry do not fail the query.
    pub(crate) fn preserves_errors(&self) -> bool {
        self.get(PRESERVE_ERROR) == Some(b"true")
    }
}
