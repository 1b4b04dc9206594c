//! The part of the label index that one shard owns: per tenant, label name → value → streams,
//! in memory.
//!
//! Guarantees: resolving a matcher looks its values up, or touches each value of its label once,
//! except values that their first bytes rule out. It costs one bit per stream besides. A stream
//! without a label matches as if the label were empty, as in LogQL. Values are kept sorted, so
//! listing them sorts nothing. A slot names a stream: a dense number that the shard assigns.
//! Slots mostly come in rising order, but a stream may be indexed long after its slot was
//! assigned.

mod chunks;
mod postings;
mod select;
mod slot_set;
mod values;

use std::collections::BTreeMap;

use logsvc_proto::{Labels, TenantId};

pub(crate) use slot_set::SlotSet;
use values::Values;

/// Up to so many names of labels take just the memory that they need.
const FEW_NAMES: usize = 8;

/// Number of a stream within its shard, from zero.
pub(crate) type Slot = u32;

/// Label index of all tenants of a shard.
#[derive(Debug, Default)]
pub(crate) struct LabelIndex {
    tenants: BTreeMap<TenantId, TenantIndex>,
}

/// Label index of one tenant.
#[derive(Debug, Default)]
pub(crate) struct TenantIndex {
    /// Sorted by name. Streams have few names, and tenants are many.
    names: Vec<(Box<str>, Values)>,
    /// In rising order.
    streams: Vec<Slot>,
}

impl LabelIndex {
    /// Adds a stream. `slot` must not have been added before.
    pub(crate) fn insert(&mut self, tenant: &TenantId, slot: Slot, labels: &Labels) {
        let index = match self.tenants.get_mut(tenant) {
            Some(index) => index,
            None => self.tenants.entry(tenant.clone()).or_default(),
        };
        postings::add(&mut index.streams, slot);
        for (name, value) in labels.iter() {
            let position = match index.find(name) {
                Ok(position) => position,
                Err(position) => {
                    // Most tenants have the names of their first stream and no others.
                    if index.names.len() < FEW_NAMES {
                        index.names.reserve_exact(1);
                    }
                    index.names.insert(position, (name.into(), Values::default()));
                    position
                }
            };
            index.names[position].1.add(value, slot);
        }
    }

    /// Removes a stream that was inserted with these labels. Values, names and tenants that have
    /// lost their last stream go, too.
    pub(crate) fn remove(&mut self, tenant: &TenantId, slot: Slot, labels: &Labels) {
        let Some(index) = self.tenants.get_mut(tenant) else { return };
        postings::take(&mut index.streams, slot);
        for (name, value) in labels.iter() {
            let Ok(position) = index.find(name) else { continue };
            let values = &mut index.names[position].1;
            values.remove(value, slot);
            if values.count() == 0 {
                index.names.remove(position);
            }
        }
        if index.streams.is_empty() {
            self.tenants.remove(tenant);
        }
    }

    /// The index of one tenant; `None` if it has no stream here.
    pub(crate) fn tenant(&self, tenant: &TenantId) -> Option<&TenantIndex> {
        self.tenants.get(tenant)
    }

    /// Tenants that have a stream here, with their number of streams.
    pub(crate) fn tenants(&self) -> impl Iterator<Item = (&TenantId, usize)> {
        self.tenants.iter().map(|(tenant, index)| (tenant, index.streams.len()))
    }
}

impl TenantIndex {
    /// The position of a label name, or the position where it would be.
    fn find(&self, name: &str) -> Result<usize, usize> {
        self.names.binary_search_by(|(held, _)| (**held).cmp(name))
    }

    fn values_of(&self, name: &str) -> Option<&Values> {
        self.find(name).ok().map(|position| &self.names[position].1)
    }

    /// All streams of the tenant, in rising order.
    pub(crate) fn streams(&self) -> &[Slot] {
        &self.streams
    }

    /// Label names, sorted.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|(name, _)| &**name)
    }

    /// Whether a stream of the set has the label.
    pub(crate) fn has_name(&self, name: &str, streams: &SlotSet) -> bool {
        self.values(name).any(|(_, slots)| streams.contains_any(slots))
    }

    /// How many values a label has.
    pub(crate) fn value_count(&self, name: &str) -> usize {
        self.values_of(name).map_or(0, Values::count)
    }

    /// Values of a label with the streams that have them, sorted by value.
    pub(crate) fn values(&self, name: &str) -> impl Iterator<Item = (&str, &[Slot])> {
        self.values_of(name).into_iter().flat_map(Values::iter)
    }
}

#[cfg(test)]
mod tests;
