//! Which partitions a shard owns, if the node is one of many: they come and go while it runs.
//!
//! A shard *gains* partitions with the live segments that may have streams of them. It *settles*
//! others that it is going to give up: it takes no more entries for them, brings all that it has into
//! segments, and makes no edit about them from then on. Then it *loses* them, or goes on with them.
//!
//! Guarantees: between the answer to [`ShardRequest::Settle`](crate::messages::ShardRequest::Settle)
//! and the end of it the shard makes no edit about these partitions, and none of their entries is in
//! memory only. No job about segments is under way while partitions change, so a job
//! sees one set from its beginning to its end.
//!
//! Failures: a disk that fails holds up settling until it is well again.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use logsvc_runtime::mesh::ReplyTo;
use logsvc_segment::batch::sections;

use super::{Effect, Shard};
use crate::index::Slot;
use crate::manifest::SegmentName;
use crate::messages::{AppendRequest, GainRequest, GainedSegment, ShardReply};
use crate::sealed::SealedSegment;
use crate::types::OwnedPartitions;

/// See the module.
#[derive(Debug)]
pub(super) struct Ownership {
    /// The partitions for which entries are accepted; `None`: for all that the shard is sent.
    accepting: Option<OwnedPartitions>,
    settling: Vec<Settling>,
    gains: VecDeque<(GainRequest, ReplyTo<ShardReply>)>,
    /// Appends that were let into the log, and those of them that have ended.
    begun: u64,
    ended: u64,
}

/// Partitions that the shard is going to give up.
#[derive(Debug)]
struct Settling {
    partitions: OwnedPartitions,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Until so many appends have ended.
    Draining(u64, ReplyTo<ShardReply>),
    /// Until so many generations of heads are in segments.
    Sealing(u64, ReplyTo<ShardReply>),
    /// Everything is in segments.
    Settled,
}

impl Ownership {
    /// `owned` is what the shard of a member owns at first; `None`: the node is alone.
    pub(super) fn new(owned: Option<OwnedPartitions>) -> Ownership {
        Ownership {
            accepting: owned,
            settling: Vec::new(),
            gains: VecDeque::new(),
            begun: 0,
            ended: 0,
        }
    }

    /// Whether a push has streams whose entries are refused.
    pub(super) fn refuses_some(&self, request: &AppendRequest) -> bool {
        let Some(accepting) = &self.accepting else { return false };
        request.definitions.iter().any(|definition| !accepting.has(definition.id))
            // What is damaged is told later.
            || sections(&request.batch).map_while(Result::ok).any(|one| !accepting.has(one.stream))
    }

    /// Whether all of some partitions are settled.
    fn has_settled(&self, partitions: &OwnedPartitions) -> bool {
        self.without_settled(partitions).is_empty()
    }

    /// Partitions without those that are settled.
    fn without_settled(&self, owned: &OwnedPartitions) -> OwnedPartitions {
        let settled = self.settling.iter().filter(|one| matches!(one.stage, Stage::Settled));
        settled.fold(owned.clone(), |rest, one| rest.without(&one.partitions))
    }

    /// Whether the shard is to begin no job about segments.
    pub(super) fn blocks_jobs(&self) -> bool {
        !self.gains.is_empty() || !self.settling.is_empty()
    }

    /// Whether the heads have to be sealed, of which so many generations were frozen.
    pub(super) fn wants_sealing(&self, frozen: u64) -> bool {
        let wants = |settling: &Settling| match settling.stage {
            Stage::Sealing(generations, _) => generations > frozen,
            Stage::Draining(..) | Stage::Settled => false,
        };
        self.settling.iter().any(wants)
    }

    /// Notes that an append was let into the log.
    pub(super) fn note_begun(&mut self) {
        self.begun += 1;
    }

    /// Notes that so many appends have ended, in the order in which they were begun.
    pub(super) fn note_ended(&mut self, count: usize) {
        self.ended += count as u64;
    }

    /// Accepts entries for what is owned and not being settled.
    fn accept(&mut self, owned: &OwnedPartitions) {
        let Some(accepting) = &mut self.accepting else { return };
        let mut rest = owned.clone();
        for settling in &self.settling {
            rest = rest.without(&settling.partitions);
        }
        *accepting = rest;
    }
}

impl Shard {
    /// Begins to own partitions, as soon as no job about segments is under way.
    pub(super) fn gain(&mut self, request: GainRequest, reply_to: ReplyTo<ShardReply>) {
        self.ownership.gains.push_back((request, reply_to));
    }

    /// Accepts no more entries for partitions, and answers when all that it has of them is in
    /// segments.
    pub(super) fn settle(&mut self, partitions: OwnedPartitions, reply_to: ReplyTo<ShardReply>) {
        let stage = Stage::Draining(self.ownership.begun, reply_to);
        self.ownership.settling.push(Settling { partitions, stage });
        self.ownership.accept(&self.active.owner);
    }

    /// Goes on with partitions that were being settled.
    pub(super) fn resume(&mut self, partitions: &OwnedPartitions, effects: &mut Vec<Effect>) {
        self.end_settling(partitions, effects);
        self.own(self.active.owner.clone(), 0, effects);
    }

    /// Owns partitions no more that are settled. The streams leave the memory; so do segments that have
    /// no other streams of the shard.
    pub(super) fn lose(
        &mut self,
        partitions: &OwnedPartitions,
        effects: &mut Vec<Effect>,
    ) -> ShardReply {
        if !self.ownership.has_settled(partitions) {
            return ShardReply::Settled(Err(Arc::from("the partitions are not settled")));
        }
        let owned = self.active.owner.without(partitions);
        self.end_settling(partitions, effects);
        let is_lost = |slot: &Slot| {
            let stream = &self.streams[*slot as usize];
            partitions.has(stream.id) && self.by_id.get(&stream.id) == Some(slot)
        };
        let lost: Vec<Slot> = (0..self.streams.len() as Slot).filter(is_lost).collect();
        for slot in lost {
            debug_assert!(self.streams[slot as usize].is_idle(), "what is lost was settled");
            self.drop_stream(slot);
        }
        let has = |some: &OwnedPartitions, segment: &SealedSegment| {
            !some.parts_of_file(segment.live.name.writer(), &segment.left).is_empty()
        };
        let concerned = self.segments.iter().filter(|segment| has(partitions, segment));
        let concerned: Vec<_> = concerned.map(|one| (one.live, has(&owned, one))).collect();
        for (live, stays) in concerned {
            if !stays {
                self.remove_segment(live.name, true);
            } else {
                self.maintenance.forget_totals(live.name);
                self.changes.changed_for_all(live.min_ns, live.max_ns);
            }
        }
        self.own(owned, 0, effects);
        ShardReply::Owned
    }

    /// Begins what a change of partitions waits for. To be called before sealing is.
    pub(super) fn change_ownership(&mut self, effects: &mut Vec<Effect>) {
        let Ownership { settling, ended, .. } = &mut self.ownership;
        for Settling { stage, .. } in settling {
            *stage = match std::mem::replace(stage, Stage::Settled) {
                Stage::Draining(begun, reply_to) if *ended >= begun => {
                    Stage::Sealing(self.sealing.generations_with_heads(), reply_to)
                }
                other => other,
            };
        }
        if self.maintenance.is_running() {
            // It gives up after the next block.
            return;
        }
        while let Some((gain, reply_to)) = self.ownership.gains.pop_front() {
            self.gain_now(gain, effects);
            effects.push(Effect::Reply(reply_to, ShardReply::Owned));
        }
    }

    /// Answers those who wait for partitions to be settled. To be called at the end of a step.
    pub(super) fn answer_settled(&mut self, effects: &mut Vec<Effect>) {
        if self.maintenance.is_running() || self.sealing.is_running() {
            return;
        }
        let sealed = self.sealing.generations_sealed();
        let mut has_settled = false;
        for Settling { stage, .. } in &mut self.ownership.settling {
            *stage = match std::mem::replace(stage, Stage::Settled) {
                Stage::Sealing(generations, reply_to) if sealed >= generations => {
                    effects.push(Effect::Reply(reply_to, ShardReply::Settled(Ok(()))));
                    has_settled = true;
                    Stage::Settled
                }
                other => other,
            };
        }
        if has_settled {
            // The names of new segments say nothing of these partitions.
            let owned = self.ownership.without_settled(&self.active.owner);
            effects.push(Effect::Own { owned, first_order: 0 });
        }
    }

    fn end_settling(&mut self, partitions: &OwnedPartitions, effects: &mut Vec<Effect>) {
        for settling in &mut self.ownership.settling {
            settling.partitions = settling.partitions.without(partitions);
        }
        let is_over = |settling: &mut Settling| settling.partitions.is_empty();
        for ended in self.ownership.settling.extract_if(.., is_over) {
            if let Stage::Draining(_, reply_to) | Stage::Sealing(_, reply_to) = ended.stage {
                let reply = ShardReply::Settled(Err(Arc::from("it was called off")));
                effects.push(Effect::Reply(reply_to, reply));
            }
        }
        self.maintenance.segments_changed();
    }

    fn gain_now(&mut self, gain: GainRequest, effects: &mut Vec<Effect>) {
        let GainRequest { partitions, segments } = gain;
        let before = self.active.owner.clone();
        let owned = before.with(&partitions);
        self.lack_in_others(&partitions, &segments);
        let mut first_order = 0;
        for gained in segments {
            first_order = first_order.max(gained.live.order.saturating_add(1));
            self.changes.changed_for_all(gained.live.min_ns, gained.live.max_ns);
            self.gain_segment(gained, &before);
        }
        self.own(owned, first_order, effects);
    }

    /// Notes that segments of the list have nothing of partitions that are gained without them: earlier
    /// owners have brought that elsewhere.
    fn lack_in_others(&mut self, partitions: &OwnedPartitions, gained: &[GainedSegment]) {
        let names: BTreeSet<SegmentName> = gained.iter().map(|one| one.live.name).collect();
        for index in 0..self.segments.len() {
            let segment = &self.segments[index];
            let SealedSegment { live, ref path, footer, ref left, first_order, .. } = **segment;
            let may_have = !partitions.parts_of_file(live.name.writer(), left).is_empty();
            if may_have && !names.contains(&live.name) {
                let left = left.iter().chain(partitions.parts()).collect();
                let path = path.clone();
                let mut without = SealedSegment::new(live, path, footer).that_was_left_by(left);
                without.first_order = first_order;
                self.replace_segment(index, without);
            }
        }
    }

    /// Puts a segment into the place of itself, as it was before the shard owned other partitions.
    fn replace_segment(&mut self, index: usize, mut segment: SealedSegment) {
        let name = segment.live.name;
        segment.before = Some(Arc::clone(&self.segments[index]));
        self.segments[index] = Arc::new(segment);
        self.maintenance.forget_totals(name);
        self.active.segments_changed();
    }

    /// Puts a segment into the list that has streams of gained partitions, or puts it into the place of
    /// itself, if the shard has other streams in it. `owned` are the partitions before.
    ///
    /// The list has all segments of these. So if they had streams in one that it lacks, the shard has
    /// brought them elsewhere, perhaps by an edit that the bucket does not have yet: who has read the
    /// logs there does not know of it.
    fn gain_segment(&mut self, gained: GainedSegment, owned: &OwnedPartitions) {
        let GainedSegment { live, path, footer, left } = gained;
        let place = self.segments.iter().position(|other| other.live.name == live.name);
        let left = match place {
            Some(place) => left.iter().chain(self.segments[place].left.iter()).collect(),
            None => left.iter().chain(owned.parts()).collect(),
        };
        let mut segment = SealedSegment::new(live, path, footer).that_was_left_by(left);
        // Its streams are not in memory.
        segment.first_order = 0;
        if let Some(place) = place {
            self.replace_segment(place, segment);
            return;
        }
        // Its file must not go when scans let go of it.
        segment.before = self.take_retired(live.name);
        self.insert_segment(segment);
    }

    fn own(&mut self, owned: OwnedPartitions, first_order: u64, effects: &mut Vec<Effect>) {
        self.active.owner = owned.clone();
        self.maintenance.owned = owned.clone();
        self.ownership.accept(&owned);
        self.active.segments_changed();
        self.maintenance.segments_changed();
        let owned = self.ownership.without_settled(&owned);
        effects.push(Effect::Own { owned, first_order });
    }
}
