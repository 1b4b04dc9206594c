//! Lists names, values and label sets of streams.
//!
//! Streams with entries of the range in memory are listed from the index. If segments may have
//! others, a job beside the shard goes on ([`crate::scan::ListJob`]).

use std::collections::BTreeSet;
use std::sync::Arc;

use ahash::{AHashMap, AHashSet};
use logsvc_proto::Labels;
use logsvc_runtime::mesh::ReplyTo;

use super::{Effect, Shard};
use crate::index::{Slot, SlotSet};
use crate::manifest::LiveSegment;
use crate::messages::{ShardReply, StreamSelection};
use crate::scan::{ListJob, Listed, Listing, StreamSelector};
use crate::sealed::{SealedSegment, hasher};

/// One in so many of a tenant's streams, or of a label's values, are few streams: their own
/// labels are looked at instead of the lists of the index.
const FEW_STREAMS: usize = 64;

impl Shard {
    /// Answers a request for a list, or has it answered beside the shard.
    pub(super) fn list(
        &self,
        listing: Listing,
        selection: StreamSelection,
        reply_to: ReplyTo<ShardReply>,
        effects: &mut Vec<Effect>,
    ) {
        let range = selection.range;
        let mut selected = self.selected(&selection);
        selected.retain(|&slot| self.overlaps(slot, range));
        let (present, idle): (Vec<Slot>, Vec<Slot>) =
            selected.into_iter().partition(|&slot| self.overlaps_in_memory(slot, range));
        let overlaps = |segment: &&Arc<SealedSegment>| {
            range.overlaps((segment.live.min_ns, segment.live.max_ns))
                && !(idle.is_empty() && self.active.knows(segment))
        };
        let mut segments: Vec<(Arc<SealedSegment>, bool)> = self
            .segments
            .iter()
            .filter(overlaps)
            .map(|segment| (Arc::clone(segment), self.active.knows(segment)))
            .collect();
        let is_missed = |live: &&LiveSegment| range.overlaps((live.min_ns, live.max_ns));
        let unreadable_parts = self.missing.iter().filter(is_missed).count() as u64;
        let listed = match &listing {
            Listing::Names => Listed::Texts(self.label_names(&selection, &present)),
            Listing::Values(name) => Listed::Texts(self.label_values(&selection, &present, name)),
            Listing::Series => Listed::Series(self.series(&selection, &present)),
        };
        if segments.is_empty() {
            let reply = ShardReply::from(Ok((listed, unreadable_parts)));
            effects.push(Effect::Reply(reply_to, reply));
            return;
        }
        // The newest segments confirm most streams.
        segments.sort_by_key(|(segment, _)| std::cmp::Reverse(segment.live.max_ns));
        let mut known = AHashSet::with_hasher(hasher());
        if segments.iter().any(|(_, is_known)| !is_known) {
            known.extend(present.iter().map(|&slot| self.streams[slot as usize].id));
        }
        let mut waiting = AHashMap::with_capacity_and_hasher(idle.len(), hasher());
        let shown = |slot: Slot| self.shown(&selection.tenants, slot);
        waiting.extend(idle.iter().map(|&slot| (self.streams[slot as usize].id, shown(slot))));
        let selector = StreamSelector {
            tenants: selection.tenants.clone(),
            groups: Arc::clone(&selection.matcher_groups),
            range,
            owner: self.active.owner.clone(),
            deletions: Arc::from([]),
        };
        let job = ListJob {
            listing,
            selector: Arc::new(selector),
            listed,
            known,
            idle: waiting,
            segments,
            unreadable_parts,
            memory: selection.account.grant(),
            cancellation: selection.cancellation,
        };
        effects.push(Effect::List(Box::new(job), reply_to));
    }

    /// Streams of a selection in memory, rising.
    fn selected(&self, selection: &StreamSelection) -> Vec<Slot> {
        match &*selection.matcher_groups {
            [] => self.select(&selection.tenants, &[]),
            [group] => self.select(&selection.tenants, group),
            groups => {
                let mut union = SlotSet::default();
                for group in groups {
                    union.insert_all(&self.select(&selection.tenants, group));
                }
                union.slots()
            }
        }
    }

    /// The names of the labels of some streams, sorted.
    fn label_names(&self, selection: &StreamSelection, slots: &[Slot]) -> Vec<Box<str>> {
        if let [tenant] = selection.tenants.tenants()
            && let Some(index) = self.index.tenant(tenant)
            && slots.len() > index.streams().len() / FEW_STREAMS
        {
            // Most names are found with the first stream that the index gives for them.
            let selected = SlotSet::of(slots);
            let names = index.names().filter(|name| index.has_name(name, &selected));
            return names.map(Box::from).collect();
        }
        let mut names = BTreeSet::new();
        for &slot in slots {
            for (name, _) in self.streams[slot as usize].labels.iter() {
                let name = selection.tenants.shown_name(name);
                if !names.contains(name) {
                    names.insert(Box::from(name));
                }
            }
        }
        names.into_iter().collect()
    }

    /// The values of a label of some streams, sorted.
    fn label_values(
        &self,
        selection: &StreamSelection,
        slots: &[Slot],
        name: &str,
    ) -> Vec<Box<str>> {
        let tenants = &selection.tenants;
        if tenants.is_made_up(name) {
            let shown = slots.iter().map(|&slot| self.shown(tenants, slot));
            let values: BTreeSet<Box<str>> =
                shown.filter_map(|labels| labels.get(name).map(Box::from)).collect();
            return values.into_iter().collect();
        }
        let indexes = || tenants.tenants().iter().filter_map(|tenant| self.index.tenant(tenant));
        let known: usize = indexes().map(|index| index.value_count(name)).sum();
        if slots.len() < known / FEW_STREAMS {
            let labels = slots.iter().map(|&slot| &self.streams[slot as usize].labels);
            let values: BTreeSet<&str> = labels.filter_map(|labels| labels.get(name)).collect();
            return values.into_iter().map(Box::from).collect();
        }
        let selected = SlotSet::of(slots);
        let values = indexes().flat_map(|index| index.values(name));
        let values = values.filter(|(_, slots)| selected.contains_any(slots));
        let values = values.map(|(value, _)| value);
        match tenants.tenants() {
            [_] => values.map(Box::from).collect(),
            // Sorted for each tenant, but not over all.
            _ => values.collect::<BTreeSet<_>>().into_iter().map(Box::from).collect(),
        }
    }

    /// The label sets of some streams.
    fn series(&self, selection: &StreamSelection, slots: &[Slot]) -> Vec<Arc<Labels>> {
        slots.iter().map(|&slot| self.shown(&selection.tenants, slot)).collect()
    }
}
