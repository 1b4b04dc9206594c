//! Drafts: segments that are written fast and without encoding, and encoded by a later merge.
//!
//! Where pushes come so fast that the heads are nearly full again before the last generation
//! is encoded, the rest of that generation is written as a draft ([`Drafts::wants_rest`]).
//! Once that has happened, a generation whose heads filled about as fast is a draft as a whole
//! if it has little of each stream ([`Drafts::wants`]): encoding it would take CPU time from
//! the pushes, and merging would encode most of it again.
//!
//! Guarantees: a shard has drafts of at most [`DraftPolicy::max_line_bytes`]. Drafts are merged
//! soon after pushes have become slower, except drafts with damaged bytes. So queries look at a
//! bounded amount of lines without filters.
//!
//! Worth (2026-11-25, two CPUs, 1.2 GB at full speed): 585 and 620 MB/s with a p99 of 8.6 and
//! 11.8 ms; without drafts 338 and 318 MB/s with 57 and 51 ms, and a sixth more CPU time.
//!
//! The rules are here. [`crate::shard`] asks them when it seals and when it plans a merge,
//! [`crate::sealed`] and the segment writer write drafts, and [`super::plan`] chooses the ones
//! that are merged together.

use std::time::Duration;

use logsvc_runtime::Monotonic;

use super::CompactionPolicy;
use logsvc_segment::BLOCK_TARGET_LINE_BYTES;

/// The next generation is late when its heads have come to this part of their bound, as a
/// fraction.
const LATE_PART: (u64, u64) = (3, 4);

/// Drafts are merged while pushes go on when they have come to one part in so many of their
/// bound.
const MANY_PART: u64 = 8;

/// A merge of drafts neither rests nor waits when the drafts take one part in so many of their
/// bound: the merge takes seconds, and frees nothing before its end.
const TOO_MANY_PART: u64 = 4;

/// When a shard writes drafts, and when it merges them.
#[derive(Clone, Copy, Debug)]
pub struct DraftPolicy {
    /// Heads that were filled within this time become a draft, even if sealing kept up with
    /// that so far.
    pub fast: Duration,
    /// Heads that took longer never do.
    pub fill_max: Duration,
    /// Line bytes of all drafts of a shard, at most. Queries have to look at these lines without
    /// filters. From an eighth of the bound on, drafts are merged although pushes come fast; from a
    /// quarter on, without a rest. The bound is large because a merge frees its inputs all at once,
    /// when it ends, and half of the speed of a burst can be more than is encoded meanwhile.
    pub max_line_bytes: u64,
    /// So long after the last one they are merged in any case. Longer than `fill_max`.
    pub quiet: Duration,
}

impl Default for DraftPolicy {
    fn default() -> DraftPolicy {
        DraftPolicy {
            fast: Duration::ZERO,
            fill_max: Duration::from_secs(1),
            max_line_bytes: 4 << 30,
            quiet: Duration::from_millis(1500),
        }
    }
}

/// Heads that are about to be sealed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads {
    /// Their memory, in bytes.
    pub(crate) bytes: u64,
    /// How many streams have entries in them.
    pub(crate) streams: usize,
    /// How long it took to fill them; `None` if they are not full.
    pub(crate) filled_in: Option<Duration>,
}

/// The drafts of a shard, and the state that decides about the next one.
#[derive(Debug)]
pub(crate) struct Drafts {
    /// `None`: no drafts are written, since no merge would encode them.
    policy: Option<DraftPolicy>,
    /// Whether segments are merged at all.
    is_merging: bool,
    /// Line bytes of all drafts that are live.
    line_bytes: u64,
    /// When the last one was written; `None` if drafts need not wait to be merged.
    last_written: Option<Monotonic>,
    /// How long the heads took to fill when they were last full before the generation ahead of
    /// them was sealed.
    too_fast: Option<Duration>,
    /// Generations that were written as drafts since the start.
    written: u64,
}

impl Drafts {
    /// No drafts.
    pub(crate) fn new(policy: &CompactionPolicy) -> Drafts {
        Drafts {
            policy: policy.drafts.filter(|_| policy.enabled),
            is_merging: policy.enabled,
            line_bytes: 0,
            last_written: None,
            too_fast: None,
            written: 0,
        }
    }

    /// Line bytes of all drafts that are live.
    pub(crate) fn line_bytes(&self) -> u64 {
        self.line_bytes
    }

    /// Generations that were written as drafts since the start.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Notes that a draft of so many line bytes is live.
    pub(crate) fn add(&mut self, line_bytes: u64) {
        self.line_bytes += line_bytes;
    }

    /// Notes that a draft of so many line bytes is not live any more.
    pub(crate) fn remove(&mut self, line_bytes: u64) {
        self.line_bytes -= line_bytes;
    }

    /// Notes that a generation was written as a draft.
    pub(crate) fn note_written(&mut self, now: Monotonic) {
        self.last_written = Some(now);
        self.written += 1;
    }

    /// Notes that heads were full before the generation ahead of them was sealed, and how long
    /// they took to fill.
    pub(crate) fn note_overrun(&mut self, filled_in: Option<Duration>) {
        self.too_fast = filled_in;
    }

    /// Has the drafts that are live merged at once.
    pub(crate) fn merge_at_once(&mut self) {
        self.last_written = None;
    }

    /// Whether heads that are about to be sealed are better written as a draft: they filled
    /// about as fast as when sealing was too slow for it, a merge would not copy full blocks of
    /// them, and there is room for another draft.
    pub(crate) fn wants(&self, heads: Heads) -> bool {
        let Some(policy) = &self.policy else { return false };
        let too_fast = self.too_fast.unwrap_or_default().saturating_mul(3) / 2;
        let fast = policy.fast.max(too_fast).min(policy.fill_max);
        // Blocks of their streams would be less than about half full.
        let block_bytes = (BLOCK_TARGET_LINE_BYTES / 2) as u64;
        heads.filled_in.is_some_and(|filled_in| filled_in <= fast)
            && heads.bytes < heads.streams as u64 * block_bytes
            && self.has_room(heads.bytes)
    }

    /// Whether the rest of a generation that is being sealed is better written as a draft: the
    /// heads behind it are nearly full, and pushes would have to wait.
    pub(crate) fn wants_rest(
        &self,
        generation_bytes: u64,
        head_bytes: u64,
        head_max_bytes: u64,
    ) -> bool {
        head_bytes >= head_max_bytes / LATE_PART.1 * LATE_PART.0 && self.has_room(generation_bytes)
    }

    /// Whether another draft of so many bytes may be written.
    fn has_room(&self, bytes: u64) -> bool {
        let policy = self.policy.as_ref();
        policy.is_some_and(|policy| self.line_bytes + bytes <= policy.max_line_bytes)
    }

    /// Whether there are so many drafts that merging them must not wait for anything.
    pub(crate) fn are_too_many(&self) -> bool {
        let policy = self.policy.as_ref();
        policy.is_some_and(|policy| self.line_bytes >= policy.max_line_bytes / TOO_MANY_PART)
    }

    /// The moment from which on the drafts are to be merged, if there are any; `None` if nothing is
    /// merged. Drafts that a start finds are due at once.
    pub(crate) fn due(&self) -> Option<Monotonic> {
        if !self.is_merging {
            return None;
        }
        let (Some(last), Some(policy)) = (self.last_written, &self.policy) else {
            return Some(Monotonic(0));
        };
        let are_many = self.line_bytes >= policy.max_line_bytes / MANY_PART;
        Some(if are_many { Monotonic(0) } else { last.after(policy.quiet) })
    }
}
