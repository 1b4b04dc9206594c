//! Which label set a set of metadata leads to, where the query looks at few names of metadata.
//!
//! Entries with a trace id have sets of their own each, but a query that groups by level sees no
//! difference between them. So the label set is found by the values that the query looks at,
//! without a look at the others.
//!
//! An instance serves one block of one stream at a time ([`ListedSets::clear`]), since places of
//! texts belong to a dictionary.

use super::super::block::{MetadataSets, TextRef};
use super::super::labels::{ERROR, ERROR_DETAILS, EntryLabels, NameId, PRESERVE_ERROR};
use super::super::listed_names::ListedNames;

/// Most values that a set is known by. A set with more is not kept.
const SEEN_MAX: usize = 2;
/// Places for what is known. Levels and the like have fewer values.
const SLOTS: usize = 16;
/// Most places of names that are kept. Other names are compared each time.
const NAMES_MAX: usize = 16;

/// What a query sees of a set of metadata: numbers of names in [`ListedSets::names`], and values.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Seen([Option<(u32, TextRef)>; SEEN_MAX]);

impl Seen {
    fn is_equal(&self, other: &Seen, sets: &MetadataSets) -> bool {
        self.0.iter().zip(&other.0).all(|pair| match pair {
            (None, None) => true,
            (Some((name, value)), Some((of, known))) => {
                name == of && (value == known || sets.text_at(*value) == sets.text_at(*known))
            }
            (None, Some(_)) | (Some(_), None) => false,
        })
    }

    /// Equal for equal texts.
    fn slot(&self, sets: &MetadataSets) -> usize {
        let seen = self.0.iter().flatten();
        let mixed = seen.fold(0, |mixed: usize, &(name, value)| {
            let text = sets.text_at(value).as_bytes();
            let ends = text.first().zip(text.last());
            let ends = ends.map_or(0, |(first, last)| usize::from(*first) + usize::from(*last));
            mixed.wrapping_mul(31) + name as usize + text.len() + ends
        });
        mixed % SLOTS
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct ListedSets {
    /// The names that the query looks at, as they stand in metadata.
    names: Vec<Box<[u8]>>,
    listed: ListedNames,
    /// Places of names in the dictionary at hand, and which of the names they are.
    places: Vec<(TextRef, Option<u32>)>,
    known: [Option<(Seen, u32)>; SLOTS],
    /// What was found last, since levels come in rows.
    last: Option<(Seen, u32)>,
    last_id: Option<(u32, u32)>,
}

impl ListedSets {
    /// For a query that looks at the listed names, and at those that tell of errors. `None` if the
    /// details of errors are listed, since whether they are shown depends on all other labels.
    pub(super) fn new(listed: &[NameId], labels: &EntryLabels) -> Option<ListedSets> {
        if listed.contains(&ERROR_DETAILS) {
            return None;
        }
        let texts = listed.iter().filter_map(|&name| std::str::from_utf8(labels.name(name)).ok());
        let texts = ListedNames::new(texts);
        let reserved = [ERROR, ERROR_DETAILS, PRESERVE_ERROR];
        let names = listed.iter().chain(&reserved).map(|&name| labels.name(name).into());
        let places = Vec::with_capacity(NAMES_MAX);
        let known = [None; SLOTS];
        let made = ListedSets {
            names: names.collect(),
            listed: texts,
            places,
            known,
            last: None,
            last_id: None,
        };
        let _is_admitted = labels.meter().admit(made.held_bytes());
        Some(made)
    }

    /// The listed names.
    pub(super) fn listed(&self) -> &ListedNames {
        &self.listed
    }

    /// Forgets what was known: another dictionary or another stream follows.
    pub(super) fn clear(&mut self) {
        self.places.clear();
        self.known = [None; SLOTS];
        (self.last, self.last_id) = (None, None);
    }

    /// The label set that was kept for what the query sees of a set of metadata. Else what it
    /// sees, or `None` if that is too much to be kept.
    pub(super) fn find(&mut self, sets: &MetadataSets, id: u32) -> Result<u32, Option<Seen>> {
        if let Some((_, set)) = self.last_id.filter(|(last, _)| *last == id) {
            return Ok(set);
        }
        let seen = self.seen(sets, id).ok_or(None)?;
        let known = match self.last.filter(|(last, _)| *last == seen) {
            Some(last) => Some(last),
            None => self.known[seen.slot(sets)].filter(|(known, _)| known.is_equal(&seen, sets)),
        };
        let (_, set) = known.ok_or(Some(seen))?;
        self.last = Some((seen, set));
        self.last_id = Some((id, set));
        Ok(set)
    }

    /// What the query sees of a set; `None` if it is too much.
    fn seen(&mut self, sets: &MetadataSets, id: u32) -> Option<Seen> {
        let (mut seen, mut count) = (Seen::default(), 0);
        for (at, (name, value)) in sets.places(id).enumerate() {
            // Most sets have the names of the first one.
            let number = match self.places.get(at) {
                Some(&(known, number)) if known == name => number,
                _ => self.number_of(sets, name),
            };
            if let Some(name) = number {
                *seen.0.get_mut(count)? = Some((name, value));
                count += 1;
            }
        }
        Some(seen)
    }

    /// Keeps the label set that sets of which this is seen lead to.
    pub(super) fn put(&mut self, seen: Seen, set: u32, sets: &MetadataSets) {
        self.known[seen.slot(sets)] = Some((seen, set));
    }

    /// The number of a name in `names`; `None` if the query does not look at it.
    fn number_of(&mut self, sets: &MetadataSets, name: TextRef) -> Option<u32> {
        if let Some(&(_, number)) = self.places.iter().find(|(known, _)| *known == name) {
            return number;
        }
        let text = sets.text_at(name).as_bytes();
        let mut names = (0u32..).zip(&self.names);
        let number = names.find(|(_, listed)| ***listed == *text).map(|(number, _)| number);
        if self.places.len() < NAMES_MAX {
            self.places.push((name, number));
        }
        number
    }

    /// Heap memory in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.names.capacity() * size_of::<Box<[u8]>>()
            + self.names.iter().map(|name| name.len()).sum::<usize>()
            + self.listed.held_bytes()
            + self.places.capacity() * size_of::<(TextRef, Option<u32>)>()
    }
}
