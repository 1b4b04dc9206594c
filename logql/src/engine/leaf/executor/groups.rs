//! Groups of streams by listed labels, for a leaf whose result depends on no other label of a
//! stream.
//!
//! Streams of one group share their labels, so many streams take the memory of few groups.

use std::sync::Arc;

use logsvc_proto::Labels;

use crate::engine::hash::{FixedMap, new_map};
use crate::engine::labels::{BaseLabels, EntryLabels, NameId};
use crate::engine::meter::map_bytes;

/// The labels of the groups that were found.
#[derive(Debug)]
pub(super) struct ListedGroups {
    /// The labels of a group by the id of its label set.
    bases: FixedMap<u32, Arc<BaseLabels>>,
    /// Heap memory of these labels, in bytes.
    bases_bytes: usize,
}

impl Default for ListedGroups {
    fn default() -> Self {
        Self { bases: new_map(), bases_bytes: 0 }
    }
}

impl ListedGroups {
    /// The labels of `group`, made of the listed labels of one of its streams.
    pub(super) fn base(
        &mut self,
        group: u32,
        stream: &Labels,
        listed: &[NameId],
        labels: &EntryLabels,
    ) -> Arc<BaseLabels> {
        if let Some(base) = self.bases.get(&group) {
            return Arc::clone(base);
        }
        let base = labels.base_of_listed(stream, listed);
        // Without memory for a place in the map the leaf ends; this stream still gets its labels.
        if labels.meter().make_room_in_map(&mut self.bases) {
            self.bases_bytes += base.held_bytes();
            self.bases.insert(group, Arc::clone(&base));
        }
        base
    }

    /// Heap memory in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        map_bytes(&self.bases) + self.bases_bytes
    }
}
