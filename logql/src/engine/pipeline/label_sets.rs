//! Final label sets, interned, so that entries with equal labels share a number.

use logsvc_proto::Labels;

use super::super::interner::BytesInterner;
use super::labels::{Category, EntryLabels, NameId};

/// Which labels identify a series. Where series are grouped, a label without a value is no
/// label; where they are not, it stays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reduction {
    /// No grouping: all of them.
    Keep,
    /// No grouping: all but the unwrapped one.
    KeepBut(NameId),
    /// The listed ones, as far as an entry has them: sorted, without duplicates.
    By(Vec<NameId>),
    /// All but the listed ones.
    Without(Vec<NameId>),
}

impl Reduction {
    /// True when a label stays.
    pub(crate) fn keeps(&self, name: NameId, value: &[u8]) -> bool {
        match self {
            Self::Keep => true,
            Self::KeepBut(unwrapped) => name != *unwrapped,
            Self::By(names) => !value.is_empty() && names.contains(&name),
            Self::Without(names) => !value.is_empty() && !names.contains(&name),
        }
    }
}

/// Interned label sets with dense ids.
///
/// The key of a set is the list of its labels sorted by interned name:
/// name id and value length as four little-endian bytes each, the category as
/// one byte (or zero where categories do not matter), then the value.
#[derive(Debug)]
pub(crate) struct LabelSets {
    keys: BytesInterner,
    /// Scratch: unsorted labels of the set at hand and their values.
    fields: Vec<(NameId, u8, usize, usize)>,
    values: Vec<u8>,
    key: Vec<u8>,
}

/// The labels of a log entry by category.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct EntryLabelSet {
    /// Labels of stream category.
    pub(crate) stream: Labels,
    /// Labels of structured metadata.
    pub(crate) structured_metadata: Labels,
    /// Labels made by the pipeline, and the error labels.
    pub(crate) parsed: Labels,
}

impl EntryLabelSet {
    /// All labels together.
    pub(crate) fn merged(&self) -> Labels {
        if self.structured_metadata.is_empty() && self.parsed.is_empty() {
            return self.stream.clone();
        }
        let all = self.stream.iter().chain(&self.structured_metadata).chain(&self.parsed);
        Labels::from_result_pairs(all).expect("the categories of an entry have no name in common")
    }

    /// Heap memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.stream.as_bytes().len()
            + self.structured_metadata.as_bytes().len()
            + self.parsed.as_bytes().len()
    }
}

impl LabelSets {
    pub(crate) fn new() -> Self {
        Self { keys: BytesInterner::new(), fields: Vec::new(), values: Vec::new(), key: Vec::new() }
    }

    /// The id of the entry's final label set with categories.
    pub(crate) fn intern_categorized(&mut self, labels: &EntryLabels) -> u32 {
        self.begin();
        labels.for_each_final(|name, category, value| self.gather(name, category as u8, value));
        self.finish()
    }

    /// The id of the entry's labels as far as `reduction` keeps them.
    pub(crate) fn intern_reduced(&mut self, labels: &EntryLabels, reduction: &Reduction) -> u32 {
        self.begin();
        match reduction {
            Reduction::By(names) => {
                // They are sorted, so the key is written right away.
                for name in names {
                    if let Some(value) = labels.final_value(*name).filter(|it| !it.is_empty()) {
                        push_label(&mut self.key, *name, 0, value);
                    }
                }
                return self.keys.intern(&self.key);
            }
            Reduction::Keep | Reduction::KeepBut(_) | Reduction::Without(_) => labels
                .for_each_final(|name, _, value| {
                    if reduction.keeps(name, value) {
                        self.gather(name, 0, value);
                    }
                }),
        }
        self.finish()
    }

    /// The id of what `reduction` keeps of a set of `others`, which was interned without
    /// categories and with the same names.
    pub(crate) fn intern_part(
        &mut self,
        others: &LabelSets,
        id: u32,
        reduction: &Reduction,
    ) -> u32 {
        self.key.clear();
        for (name, category, value) in others.fields_of(id) {
            if reduction.keeps(name, value) {
                push_label(&mut self.key, name, category, value);
            }
        }
        self.keys.intern(&self.key)
    }

    /// The id of those labels of a stream that are listed, sorted by their ids.
    pub(crate) fn intern_listed(
        &mut self,
        stream: &Labels,
        listed: &[NameId],
        names: &EntryLabels,
    ) -> u32 {
        self.key.clear();
        for &name in listed {
            if let Some(value) = names.value_in(stream, name).filter(|it| !it.is_empty()) {
                push_label(&mut self.key, name, 0, value.as_bytes());
            }
        }
        self.keys.intern(&self.key)
    }

    /// How many sets there are.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    fn begin(&mut self) {
        self.fields.clear();
        self.values.clear();
        self.key.clear();
    }

    /// Adds a label; `category` is zero where categories do not matter.
    fn gather(&mut self, name: NameId, category: u8, value: &[u8]) {
        let start = self.values.len();
        self.values.extend_from_slice(value);
        self.fields.push((name, category, start, self.values.len()));
    }

    fn finish(&mut self) -> u32 {
        self.fields.sort_unstable();
        for (name, category, start, end) in &self.fields {
            push_label(&mut self.key, *name, *category, &self.values[*start..*end]);
        }
        self.keys.intern(&self.key)
    }

    /// The labels of a set with their categories, sorted by name id.
    fn fields_of(&self, id: u32) -> impl Iterator<Item = (NameId, u8, &[u8])> {
        let mut rest = self.keys.get(id);
        std::iter::from_fn(move || {
            let (name, tail) = rest.split_first_chunk::<4>()?;
            let (len, tail) = tail.split_first_chunk::<4>().expect("keys are whole");
            let (category, tail) = tail.split_first().expect("keys are whole");
            let (value, tail) = tail.split_at(u32::from_le_bytes(*len) as usize);
            rest = tail;
            Some((NameId(u32::from_le_bytes(*name)), *category, value))
        })
    }

    fn pairs<'s>(
        &'s self,
        id: u32,
        names: &'s EntryLabels,
    ) -> impl Iterator<Item = (u8, String, String)> + 's {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.fields_of(id)
            .map(move |(name, category, value)| (category, text(names.name(name)), text(value)))
    }

    /// The labels of a set, categories forgotten.
    pub(crate) fn labels(&self, id: u32, names: &EntryLabels) -> Labels {
        Labels::from_result_pairs(self.pairs(id, names).map(|(_, name, value)| (name, value)))
            .expect("a final set has every name once")
    }

    /// The labels of a set that was interned with categories.
    pub(crate) fn categorized(&self, id: u32, names: &EntryLabels) -> EntryLabelSet {
        let of = |wanted: Category| {
            Labels::from_result_pairs(
                self.pairs(id, names)
                    .filter(|(category, ..)| *category == wanted as u8)
                    .map(|(_, name, value)| (name, value)),
            )
            .expect("a final set has every name once")
        };
        EntryLabelSet {
            stream: of(Category::Stream),
            structured_metadata: of(Category::Metadata),
            parsed: of(Category::Parsed),
        }
    }

    /// Heap memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.keys.held_bytes() + self.values.capacity() + self.key.capacity()
    }
}

/// Appends a label to the key of a set.
fn push_label(key: &mut Vec<u8>, name: NameId, category: u8, value: &[u8]) {
    let len = u32::try_from(value.len()).expect("a value is part of a line or of metadata");
    key.extend_from_slice(&name.0.to_le_bytes());
    key.extend_from_slice(&len.to_le_bytes());
    key.push(category);
    key.extend_from_slice(value);
}
