//! Final label sets, interned, so that entries with equal labels share a number.

use std::borrow::Cow;
use std::sync::Arc;

use logsvc_proto::Labels;

use super::super::interner::BytesInterner;
use super::super::meter::Meter;
use super::{Category, EntryLabels, NameId};

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
    /// Heap memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::Keep | Self::KeepBut(_) => 0,
            Self::By(names) | Self::Without(names) => names.capacity() * size_of::<NameId>(),
        }
    }

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

/// The id where there is no memory for another set, which ends the leaf.
pub(crate) const NO_SET: u32 = 0;

/// The work for keys of fewer bytes is part of the work for an entry.
const LONG_KEY_BYTES: usize = 1 << 10;

/// Most bytes for the lengths of a name and of its value.
const LENGTHS_BYTES: usize = 10;

/// Memory for a name and a value on their way into a set: in a list that doubles, and in another
/// one while it is sorted.
const PAIR_BYTES: usize = 4 * size_of::<(Cow<'_, str>, Cow<'_, str>)>();

/// The labels of a log entry by category.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct EntryLabelSet {
    /// Labels of stream category. Sets of one stream may share them.
    pub(crate) stream: Arc<Labels>,
    /// Labels of structured metadata.
    pub(crate) structured_metadata: Labels,
    /// Labels made by the pipeline, and the error labels.
    pub(crate) parsed: Labels,
}

impl EntryLabelSet {
    /// All labels together.
    pub(crate) fn merged(&self) -> Labels {
        if self.structured_metadata.is_empty() && self.parsed.is_empty() {
            return Labels::clone(&self.stream);
        }
        let all = self.stream.iter().chain(&self.structured_metadata).chain(&self.parsed);
        Labels::from_result_pairs(all).expect("the categories of an entry have no name in common")
    }

    /// Whether no two categories have a name in common, as [`EntryLabelSet::merged`] asks for.
    pub(crate) fn has_names_once(&self) -> bool {
        if self.structured_metadata.is_empty() && self.parsed.is_empty() {
            return true;
        }
        let all = self.stream.iter().chain(&self.structured_metadata).chain(&self.parsed);
        let mut names: Vec<&str> = all.map(|(name, _)| name).collect();
        names.sort_unstable();
        names.is_sorted_by(|a, b| a < b)
    }

    /// Heap memory in bytes, as if it shared none. There are two counts for what it may share.
    pub(crate) fn held_bytes(&self) -> usize {
        size_of::<Labels>()
            + 2 * size_of::<usize>()
            + self.stream.as_bytes().len()
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
        let meter = labels.meter();
        labels.for_each_final(|name, category, value| {
            self.gather(name, category as u8, value, meter)
        });
        self.finish(meter)
    }

    /// The id of the entry's labels as far as `reduction` keeps them.
    pub(crate) fn intern_reduced(&mut self, labels: &EntryLabels, reduction: &Reduction) -> u32 {
        self.begin();
        let meter = labels.meter();
        match reduction {
            Reduction::By(names) => {
                // They are sorted, so the key is written right away.
                for name in names {
                    if let Some(value) = labels.final_value(*name).filter(|it| !it.is_empty()) {
                        push_label(&mut self.key, *name, 0, value, meter);
                    }
                }
                return self.intern_key(meter);
            }
            Reduction::Keep | Reduction::KeepBut(_) | Reduction::Without(_) => labels
                .for_each_final(|name, _, value| {
                    if reduction.keeps(name, value) {
                        self.gather(name, 0, value, meter);
                    }
                }),
        }
        self.finish(meter)
    }

    /// The id of the part of a set of `others` that `reduction` keeps. The set was interned
    /// without categories and with the same names.
    pub(crate) fn intern_part(
        &mut self,
        others: &LabelSets,
        id: u32,
        reduction: &Reduction,
        meter: &Meter,
    ) -> u32 {
        self.key.clear();
        for (name, category, value) in others.fields_of(id) {
            if reduction.keeps(name, value) {
                push_label(&mut self.key, name, category, value, meter);
            }
        }
        self.intern_key(meter)
    }

    /// The id of the set of a stream's listed labels, sorted by their ids.
    pub(crate) fn intern_listed(
        &mut self,
        stream: &Labels,
        listed: &[NameId],
        names: &EntryLabels,
    ) -> u32 {
        self.key.clear();
        for &name in listed {
            if let Some(value) = names.value_in(stream, name).filter(|it| !it.is_empty()) {
                push_label(&mut self.key, name, 0, value.as_bytes(), names.meter());
            }
        }
        self.intern_key(names.meter())
    }

    /// The number of sets.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    fn begin(&mut self) {
        self.fields.clear();
        self.values.clear();
        self.key.clear();
    }

    /// Adds a label; `category` is zero where categories do not matter.
    fn gather(&mut self, name: NameId, category: u8, value: &[u8], meter: &Meter) {
        let (start, end) = (self.values.len(), self.values.len() + value.len());
        if meter.append(&mut self.values, value) {
            let _is_gathered = meter.push(&mut self.fields, (name, category, start, end));
        }
    }

    fn finish(&mut self, meter: &Meter) -> u32 {
        self.fields.sort_unstable();
        for (name, category, start, end) in &self.fields {
            push_label(&mut self.key, *name, *category, &self.values[*start..*end], meter);
        }
        self.intern_key(meter)
    }

    fn intern_key(&mut self, meter: &Meter) -> u32 {
        if self.key.len() >= LONG_KEY_BYTES {
            meter.work(self.key.len());
        }
        // A key without memory for all of it is dropped.
        if meter.is_stopped() {
            return NO_SET;
        }
        self.keys.intern(&self.key, meter).unwrap_or(NO_SET)
    }

    /// Gives back buffers that an outlier among the sets has made large.
    pub(crate) fn recycle(&mut self, meter: &Meter) {
        meter.recycle(&mut self.values);
        meter.recycle(&mut self.key);
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

    /// The labels of a set, categories forgotten. None of them if there is no memory.
    pub(crate) fn labels(&self, id: u32, names: &EntryLabels) -> Labels {
        self.labels_of(id, names, |_| true)
    }

    /// The labels of a set that was interned with categories. None of them if there is no
    /// memory.
    pub(crate) fn categorized(&self, id: u32, names: &EntryLabels) -> EntryLabelSet {
        let of = |wanted| self.labels_of(id, names, |category| category == wanted as u8);
        EntryLabelSet {
            stream: Arc::new(of(Category::Stream)),
            structured_metadata: of(Category::Metadata),
            parsed: of(Category::Parsed),
        }
    }

    /// The labels of some categories of a set. The meter admits the memory of the labels, and,
    /// until they are made, the memory that making them needs.
    fn labels_of(&self, id: u32, names: &EntryLabels, is_wanted: impl Fn(u8) -> bool) -> Labels {
        let meter = names.meter();
        let fields = || self.fields_of(id).filter(|(_, category, _)| is_wanted(*category));
        let (mut count, mut text_bytes) = (0, 0);
        for (name, _, value) in fields() {
            count += 1;
            text_bytes += names.name(name).len() + value.len();
        }
        let made_bytes = text_bytes + (count + 1) * LENGTHS_BYTES;
        // Encoded once more until all of it is there.
        let beside_bytes = made_bytes + count * PAIR_BYTES;
        meter.work(made_bytes + beside_bytes);
        if !meter.admit(made_bytes + beside_bytes) {
            return Labels::empty();
        }
        let pairs = fields().map(|(name, _, value)| {
            (String::from_utf8_lossy(names.name(name)), String::from_utf8_lossy(value))
        });
        let labels = Labels::from_result_pairs(pairs).expect("a final set has every name once");
        meter.release((made_bytes + beside_bytes).saturating_sub(labels.as_bytes().len()));
        labels
    }

    /// Heap memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.keys.held_bytes()
            + self.values.capacity()
            + self.key.capacity()
            + self.fields.capacity() * size_of::<(NameId, u8, usize, usize)>()
    }
}

/// Appends a label to the key of a set; nothing of it if there is no memory.
fn push_label(key: &mut Vec<u8>, name: NameId, category: u8, value: &[u8], meter: &Meter) {
    let mut head = [0; 9];
    if !meter.make_room(key, head.len() + value.len()) {
        return;
    }
    let len = u32::try_from(value.len()).expect("a value is part of a line or of metadata");
    head[..4].copy_from_slice(&name.0.to_le_bytes());
    head[4..8].copy_from_slice(&len.to_le_bytes());
    head[8] = category;
    key.extend_from_slice(&head);
    key.extend_from_slice(value);
}
