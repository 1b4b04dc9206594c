//! The known times of streams after a purge.

use std::sync::Arc;

use super::Purge;
use crate::deletion::SelectedStream;
use crate::sealed::SealedSegment;
use crate::shard::Shard;

impl Shard {
    /// Makes the known times of streams that lost their oldest or newest entries narrower. They
    /// are exact if the segments outside of the targets have no entries of the stream. Otherwise
    /// they are outside of the targets. They stay as they are if the stream was selected late.
    pub(super) fn narrow_bounds(&mut self, purge: &Purge) {
        let is_known = |segment: &&Arc<SealedSegment>| {
            let name = &segment.live.name;
            purge.clean.contains(name) || purge.later.contains(name)
        };
        let others = self.segments.iter().filter(|segment| !is_known(segment));
        let mut others: Vec<(i64, i64)> =
            others.map(|segment| (segment.live.min_ns, segment.live.max_ns)).collect();
        // Of the segments from each one on, in the order of their ends, the oldest time.
        others.sort_unstable_by_key(|bounds| bounds.1);
        let mut oldest: Vec<(i64, i64)> = Vec::with_capacity(others.len());
        let mut min_ns = i64::MAX;
        for other in others.iter().rev() {
            min_ns = min_ns.min(other.0);
            oldest.push((other.1, min_ns));
        }
        oldest.reverse();
        others.sort_unstable_by_key(|bounds| bounds.0);
        let mut newest: Vec<(i64, i64)> = Vec::with_capacity(others.len());
        let mut max_ns = i64::MIN;
        for other in &others {
            max_ns = max_ns.max(other.1);
            newest.push((other.0, max_ns));
        }
        let mut has_changed = false;
        let is_late = |stream: &&SelectedStream| purge.late_streams.contains(&stream.id);
        for selected in purge.streams.iter().filter(|stream| !is_late(stream)) {
            let Some(&slot) = self.by_id.get(&selected.id) else { continue };
            let stream = &mut self.streams[slot as usize];
            let Some((min_ns, max_ns)) = &mut stream.sealed_bounds_ns else { continue };
            let targets = || selected.targets.iter().map(|&t| &purge.targets[usize::from(t)]);
            let is_hit = |ts_ns: i64| targets().any(|target| target.overlaps(ts_ns, ts_ns));
            let known = purge.bounds_ns.get(&selected.id);
            if is_hit(*min_ns) {
                let first = oldest.partition_point(|other| other.0 < *min_ns);
                let other_ns = oldest.get(first).map(|other| other.1.max(*min_ns));
                let left_ns = [known.map(|known| known.0), other_ns].into_iter().flatten().min();
                if let Some(left_ns) = left_ns.filter(|left_ns| left_ns > min_ns) {
                    *min_ns = left_ns;
                    has_changed = true;
                }
            }
            if is_hit(*max_ns) {
                let end = newest.partition_point(|other| other.0 <= *max_ns);
                let other_ns = end.checked_sub(1).map(|last| newest[last].1.min(*max_ns));
                let left_ns = [known.map(|known| known.1), other_ns].into_iter().flatten().max();
                if let Some(left_ns) = left_ns.filter(|left_ns| left_ns < max_ns) {
                    *max_ns = left_ns;
                    has_changed = true;
                }
            }
        }
        if has_changed {
            for target in purge.targets.iter() {
                let (start_ns, end_ns) = target.bounds_ns();
                self.changes.changed_for_all(start_ns, end_ns.max(start_ns));
            }
        }
    }
}
