//! Changing the labels of an entry: writing, renaming, deleting.

use super::text::push_clean;
use super::{ERROR, ERROR_DETAILS, EntryLabels, Field, NONE, NameId, position_of};

impl EntryLabels {
    /// Sets both error labels.
    pub(crate) fn set_error(&mut self, error: &[u8], details: &[u8]) {
        self.error = Some(self.store(error));
        self.error_details = Some(self.store(details));
    }

    /// Empties one of the error labels.
    pub(crate) fn clear_error(&mut self, name: NameId) {
        match name {
            ERROR => self.error = None,
            ERROR_DETAILS => self.error_details = None,
            _ => {}
        }
    }

    /// Writes a parsed label in place of a label of its name. Its value becomes valid
    /// text, see [`push_clean`].
    pub(crate) fn set(&mut self, name: NameId, value: &[u8]) {
        self.set_with(name, value.len(), |arena| push_clean(arena, value));
    }

    /// Writes a parsed label. `write` appends its value, valid text of at most so many bytes, to
    /// a buffer. Nothing happens if there is no memory.
    pub(crate) fn set_with(
        &mut self,
        name: NameId,
        max_len_bytes: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        if !self.meter.make_room(&mut self.arena, max_len_bytes) {
            return;
        }
        let start = self.arena.len();
        write(&mut self.arena);
        debug_assert!(self.arena.len() <= start + max_len_bytes, "room was made for less");
        self.set_span(name, start, self.arena.len());
    }

    fn set_span(&mut self, name: NameId, start: usize, end: usize) {
        if !self.meter.make_room(&mut self.parsed, 1) {
            return;
        }
        let position = position_of(self.parsed.len());
        let row = *self.row(name);
        if row.metadata != NONE {
            self.remove_metadata(name, row.metadata);
        }
        let field = Field { name, start, end };
        if row.parsed == NONE {
            self.parsed.push(field);
            self.row(name).parsed = position;
        } else {
            self.parsed[row.parsed as usize] = field;
        }
        if !row.is_claimed {
            self.row(name).is_claimed = true;
            if row.is_needed {
                self.wants.found();
            }
        }
    }

    /// Copies the value of `from` to a parsed label and deletes `from`. Nothing
    /// happens when there is no such label.
    pub(crate) fn rename(&mut self, from: NameId, to: NameId) {
        let row = self.known(from);
        let (start, end) = if row.parsed != NONE {
            let field = self.parsed[row.parsed as usize];
            (field.start, field.end)
        } else if row.metadata != NONE {
            let field = self.metadata[row.metadata as usize];
            (field.start, field.end)
        } else if self.get(from).is_some() {
            let start = self.arena.len();
            let value = self.base.value(row.base as usize);
            if !self.meter.append(&mut self.arena, value) {
                return;
            }
            (start, self.arena.len())
        } else {
            return;
        };
        self.set_span(to, start, end);
        self.delete(from);
    }

    fn remove_metadata(&mut self, name: NameId, position: u32) {
        self.metadata.swap_remove(position as usize);
        if let Some(moved) = self.metadata.get(position as usize).map(|field| field.name) {
            self.row(moved).metadata = position;
        }
        self.row(name).metadata = NONE;
    }

    /// Removes a label from all layers.
    pub(crate) fn delete(&mut self, name: NameId) {
        let row = *self.row(name);
        if row.metadata != NONE {
            self.remove_metadata(name, row.metadata);
        }
        if row.parsed != NONE {
            self.parsed.swap_remove(row.parsed as usize);
            if let Some(moved) = self.parsed.get(row.parsed as usize).map(|field| field.name) {
                self.row(moved).parsed = row.parsed;
            }
            self.row(name).parsed = NONE;
        }
        if row.base != NONE && !row.is_hidden {
            self.row(name).is_hidden = true;
            self.hidden += 1;
        }
    }

    /// Deletes the labels for which `keeps` is false; the error labels stay. Asking that costs
    /// `work` besides the value, see [`super::super::meter`].
    pub(crate) fn retain(&mut self, work: usize, keeps: impl Fn(NameId, &[u8]) -> bool) {
        let count = self.base.fields.len() + self.metadata.len() + self.parsed.len();
        if !self.meter.work(self.arena.len().saturating_add(count.saturating_mul(work))) {
            return;
        }
        for position in 0..self.base.fields.len() {
            let name = self.base.fields[position].name;
            if self.get(name).is_some_and(|value| !keeps(name, value)) {
                self.delete(name);
            }
        }
        // Deleting moves the last label to the place of the deleted one.
        for position in (0..self.metadata.len()).rev() {
            let field = self.metadata[position];
            if !keeps(field.name, &self.arena[field.start..field.end]) {
                self.delete(field.name);
            }
        }
        for position in (0..self.parsed.len()).rev() {
            let field = self.parsed[position];
            if !keeps(field.name, &self.arena[field.start..field.end]) {
                self.delete(field.name);
            }
        }
    }
}
