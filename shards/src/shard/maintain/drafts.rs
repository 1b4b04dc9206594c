//! When drafts are written, and when they are merged.
//!
//! Guarantees: a shard has drafts of at most [`DraftPolicy::max_line_bytes`], and a damaged one
//! apart they are encoded soon after pushes have become slower: what is found without filters
//! stays a bounded amount.

use logsvc_runtime::Monotonic;

use crate::compact::DraftPolicy;
use crate::shard::Shard;

/// Drafts are merged while pushes come as before when there is this part of what there may be.
const MANY_PART: u64 = 8;

/// And without a rest when there is this part: a merge takes seconds, and frees nothing before
/// its end.
const TOO_MANY_PART: u64 = 4;

impl Shard {
    /// How drafts are made; `None` if none are to be made, since nobody would merge them.
    pub(in crate::shard) fn draft_policy(&self) -> Option<&DraftPolicy> {
        let compaction = &self.maintenance.config.compaction;
        compaction.drafts.as_ref().filter(|_| compaction.enabled)
    }

    /// Line bytes of all drafts of the shard.
    pub(in crate::shard) fn draft_line_bytes(&self) -> u64 {
        self.maintenance.draft_line_bytes
    }

    /// Whether another draft of so many bytes may be written.
    pub(in crate::shard) fn has_room_for_draft(&self, bytes: u64) -> bool {
        let policy = self.draft_policy();
        policy.is_some_and(|policy| self.draft_line_bytes() + bytes <= policy.max_line_bytes)
    }

    /// Whether there are so many drafts that merging them should not wait for anything.
    pub(super) fn has_too_many_drafts(&self) -> bool {
        let policy = self.draft_policy();
        policy
            .is_some_and(|policy| self.draft_line_bytes() >= policy.max_line_bytes / TOO_MANY_PART)
    }

    /// Notes that a draft was written.
    pub(in crate::shard) fn note_draft(&mut self, now: Monotonic) {
        self.maintenance.last_draft = Some(now);
    }

    /// Has the drafts that are there merged at once: somebody wants to see all in its place.
    pub(in crate::shard) fn ask_for_drafts(&mut self) {
        self.maintenance.last_draft = None;
        self.maintenance.segments_changed();
    }

    /// From when on drafts are to be merged; `None` if there are none, or nothing is merged.
    /// Those that a start finds are not waited for.
    pub(super) fn drafts_due(&self) -> Option<Monotonic> {
        let maintenance = &self.maintenance;
        let mut drafts = self.segments.iter().filter(|segment| segment.footer.is_draft);
        if !maintenance.config.compaction.enabled
            || !drafts.any(|segment| maintenance.is_mergeable(segment))
        {
            return None;
        }
        let (Some(last), Some(policy)) = (maintenance.last_draft, self.draft_policy()) else {
            return Some(Monotonic(0));
        };
        let has_many = self.draft_line_bytes() >= policy.max_line_bytes / MANY_PART;
        Some(if has_many { Monotonic(0) } else { last.after(policy.quiet) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compact::Activity;
    use crate::shard::Event;
    use crate::shard::tests::Bench;

    #[test]
    fn merges_do_not_rest_once_there_are_too_many_drafts() {
        let mut bench = Bench::new();
        let max_bytes = DraftPolicy::default().max_line_bytes;
        for (bytes, activity) in [
            (0, Activity::Idle),
            (max_bytes / 5, Activity::Idle),
            (max_bytes / 4, Activity::Overtaken),
            (max_bytes, Activity::Overtaken),
            (max_bytes / 5, Activity::Idle),
        ] {
            bench.shard.maintenance.draft_line_bytes = bytes;
            bench.step(Event::Timer);
            assert_eq!(bench.shard.maintenance.throttle.get(), activity, "{bytes}");
        }
    }
}
