//! The labels of the entry as templates see them: a map from string to string.

use std::cell::OnceCell;

use crate::engine::labels::{ERROR, ERROR_DETAILS, EntryLabels, NameId};

/// The work of inserting a name, see [`crate::engine::meter`].
const SORT_WORK: usize = 64;

/// The labels of the entry at hand, with their names put in order once the template
/// uses them as a map.
#[derive(Debug)]
pub(super) struct LabelMap<'v> {
    labels: &'v EntryLabels,
    sorted: OnceCell<Vec<NameId>>,
}

impl Drop for LabelMap<'_> {
    fn drop(&mut self) {
        if let Some(sorted) = self.sorted.get() {
            self.labels.meter().release(sorted.capacity() * size_of::<NameId>());
        }
    }
}

impl<'v> LabelMap<'v> {
    pub(super) fn new(labels: &'v EntryLabels) -> Self {
        Self { labels, sorted: OnceCell::new() }
    }

    /// The value of a label; the empty string when there is none.
    pub(super) fn get(&self, name: NameId) -> &'v [u8] {
        let slot = match name {
            ERROR => self.labels.error(),
            ERROR_DETAILS => self.labels.error_details(),
            _ => None,
        };
        slot.or_else(|| self.labels.get(name)).unwrap_or_default()
    }

    /// The names of all labels, sorted as text.
    fn sorted(&self) -> &[NameId] {
        self.sorted.get_or_init(|| {
            let (mut names, meter) = (Vec::new(), self.labels.meter());
            self.labels.for_each_final(|name, _, _| {
                let _is_listed = meter.push(&mut names, name);
            });
            meter.work(names.len() * SORT_WORK);
            // Details are seen here even where results leave them out.
            if self.labels.error_details().is_some() && !names.contains(&ERROR_DETAILS) {
                let _is_listed = meter.push(&mut names, ERROR_DETAILS);
            }
            names.sort_unstable_by_key(|name| self.labels.name(*name));
            names
        })
    }

    pub(super) fn len(&self) -> usize {
        self.sorted().len()
    }

    /// Names and values, sorted by name.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&'v [u8], &'v [u8])> {
        self.sorted().iter().map(|name| (self.labels.name(*name), self.get(*name)))
    }

    /// The value of a label by its text; the empty string when there is none.
    pub(super) fn find(&self, name: &[u8]) -> &'v [u8] {
        let sorted = self.sorted();
        match sorted.binary_search_by_key(&name, |own| self.labels.name(*own)) {
            Ok(index) => self.get(sorted[index]),
            Err(_) => b"",
        }
    }
}
