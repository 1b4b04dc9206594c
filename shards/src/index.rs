//! The slice of the label index that one shard owns: per tenant, label name →
//! value → streams, in memory.
//!
//! Guarantees: resolving matchers touches each value of the matched labels once
//! and costs one bit per stream and matcher besides; a stream without a label
//! matches as if the label were empty, as LogQL says. Streams are named by their
//! slot, a dense number that the shard assigns. Mostly they come in rising order,
//! but a stream may be indexed long after its slot was assigned.

use std::collections::BTreeMap;

use logsvc_logql::engine::CompiledMatcher;
use logsvc_proto::{Labels, TenantId};

/// Number of a stream within its shard, from zero.
pub type Slot = u32;

type Postings = Vec<Slot>;

/// Adds a slot to postings, which are in rising order.
fn add(postings: &mut Postings, slot: Slot) {
    if postings.last().is_none_or(|&last| last < slot) {
        postings.push(slot);
    } else if let Err(place) = postings.binary_search(&slot) {
        postings.insert(place, slot);
    }
}

/// Takes a slot out of postings.
fn take(postings: &mut Postings, slot: Slot) {
    if let Ok(place) = postings.binary_search(&slot) {
        postings.remove(place);
    }
}

/// Label index of all tenants of a shard.
#[derive(Debug, Default)]
pub struct LabelIndex {
    tenants: BTreeMap<TenantId, TenantIndex>,
}

/// Label index of one tenant.
#[derive(Debug, Default)]
pub struct TenantIndex {
    names: BTreeMap<Box<str>, BTreeMap<Box<str>, Postings>>,
    streams: Postings,
}

impl LabelIndex {
    /// Adds a stream. `slot` must not have been added before.
    pub fn insert(&mut self, tenant: &TenantId, slot: Slot, labels: &Labels) {
        let index = match self.tenants.get_mut(tenant) {
            Some(index) => index,
            None => self.tenants.entry(tenant.clone()).or_default(),
        };
        add(&mut index.streams, slot);
        for (name, value) in labels.iter() {
            if !index.names.contains_key(name) {
                index.names.insert(name.into(), BTreeMap::new());
            }
            let Some(values) = index.names.get_mut(name) else { continue };
            match values.get_mut(value) {
                Some(postings) => add(postings, slot),
                None => {
                    values.insert(value.into(), vec![slot]);
                }
            }
        }
    }

    /// Removes a stream that was inserted with these labels. What has no stream any more
    /// goes, too: values, names, tenants.
    pub fn remove(&mut self, tenant: &TenantId, slot: Slot, labels: &Labels) {
        let Some(index) = self.tenants.get_mut(tenant) else { return };
        take(&mut index.streams, slot);
        for (name, value) in labels.iter() {
            let Some(values) = index.names.get_mut(name) else { continue };
            if let Some(postings) = values.get_mut(value) {
                take(postings, slot);
                if postings.is_empty() {
                    values.remove(value);
                }
            }
            if values.is_empty() {
                index.names.remove(name);
            }
        }
        if index.streams.is_empty() {
            self.tenants.remove(tenant);
        }
    }

    /// The index of one tenant; `None` if it has no stream here.
    pub fn tenant(&self, tenant: &TenantId) -> Option<&TenantIndex> {
        self.tenants.get(tenant)
    }

    /// Tenants that have a stream here, with their number of streams.
    pub fn tenants(&self) -> impl Iterator<Item = (&TenantId, usize)> {
        self.tenants.iter().map(|(tenant, index)| (tenant, index.streams.len()))
    }
}

impl TenantIndex {
    /// All streams of the tenant, in rising order.
    pub fn streams(&self) -> &[Slot] {
        &self.streams
    }

    /// Streams that all matchers accept, in rising order.
    pub fn select<'m>(&self, matchers: impl IntoIterator<Item = &'m CompiledMatcher>) -> Vec<Slot> {
        let mut selected: Option<SlotSet> = None;
        for matcher in matchers {
            let accepted = self.accepted(matcher);
            match &mut selected {
                None => selected = Some(accepted),
                Some(selected) => selected.intersect(&accepted),
            }
        }
        match selected {
            None => self.streams.clone(),
            Some(selected) => selected.slots(),
        }
    }

    fn accepted(&self, matcher: &CompiledMatcher) -> SlotSet {
        let values = self.names.get(matcher.name());
        if !matcher.matches("") {
            let mut accepted = SlotSet::default();
            let Some(values) = values else { return accepted };
            if let Some(literals) = matcher.literals() {
                for postings in literals.iter().filter_map(|value| values.get(value.as_str())) {
                    accepted.insert_all(postings);
                }
                return accepted;
            }
            for (value, postings) in values {
                if matcher.matches(value) {
                    accepted.insert_all(postings);
                }
            }
            return accepted;
        }
        // Streams without the label match too, so it is cheaper to say who does not.
        let mut accepted = SlotSet::default();
        accepted.insert_all(&self.streams);
        for (value, postings) in values.into_iter().flatten() {
            if !matcher.matches(value) {
                accepted.remove_all(postings);
            }
        }
        accepted
    }

    /// Label names with the streams that have them, sorted by name.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(|name| &**name)
    }

    /// Whether a stream of the set has the label.
    pub(crate) fn has_name(&self, name: &str, streams: &SlotSet) -> bool {
        let lists = self.names.get(name).into_iter().flat_map(BTreeMap::values);
        lists.flatten().any(|&slot| streams.contains(slot))
    }

    /// Values of a label with the streams that have them, sorted by value.
    pub fn values(&self, name: &str) -> impl Iterator<Item = (&str, &[Slot])> {
        self.names
            .get(name)
            .into_iter()
            .flatten()
            .map(|(value, postings)| (&**value, postings.as_slice()))
    }
}

/// A set of slots, one bit each.
#[derive(Debug, Default)]
pub(crate) struct SlotSet {
    words: Vec<u64>,
}

impl SlotSet {
    /// The set of these slots.
    pub(crate) fn of(slots: &[Slot]) -> SlotSet {
        let mut set = SlotSet::default();
        set.insert_all(slots);
        set
    }

    /// Whether the slot is in the set.
    pub(crate) fn contains(&self, slot: Slot) -> bool {
        self.words.get(slot as usize / 64).is_some_and(|word| word & (1 << (slot % 64)) != 0)
    }

    /// Adds slots, which must be in rising order.
    pub(crate) fn insert_all(&mut self, slots: &[Slot]) {
        let Some(&last) = slots.last() else { return };
        let words = last as usize / 64 + 1;
        if self.words.len() < words {
            self.words.resize(words, 0);
        }
        for &slot in slots {
            self.words[slot as usize / 64] |= 1 << (slot % 64);
        }
    }

    fn remove_all(&mut self, slots: &[Slot]) {
        for &slot in slots {
            if let Some(word) = self.words.get_mut(slot as usize / 64) {
                *word &= !(1 << (slot % 64));
            }
        }
    }

    fn intersect(&mut self, other: &SlotSet) {
        self.words.truncate(other.words.len());
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= other;
        }
    }

    /// The slots in rising order.
    pub(crate) fn slots(&self) -> Vec<Slot> {
        let mut slots =
            Vec::with_capacity(self.words.iter().map(|w| w.count_ones() as usize).sum());
        for (index, &word) in self.words.iter().enumerate() {
            let mut rest = word;
            while rest != 0 {
                slots.push(index as u32 * 64 + rest.trailing_zeros());
                rest &= rest - 1;
            }
        }
        slots
    }
}

#[cfg(test)]
mod tests;
