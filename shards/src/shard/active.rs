//! Which streams a shard has in memory.
//!
//! These are the streams with entries in heads or in the log, and others as long as their memory is
//! not wanted. All others are found through the labels in segments. A segment is *known* if all of
//! its streams are in memory, so that queries need not look at its labels.
//!
//! Guarantees: a stream with entries in heads or on their way through the log stays. Of the others
//! the one goes first whose entries were sealed longest ago. A segment that may have a stream which
//! has gone is not known.

use std::collections::VecDeque;
use std::sync::Arc;

use logsvc_proto::Labels;

use super::Shard;
use super::stream::StreamState;
use crate::index::Slot;
use crate::sealed::SealedSegment;
use crate::types::{OwnedPartitions, StreamDefinition};

/// The queue of idle streams is cleared of outdated places when it has so many times as many places
/// as there are streams.
const PLACES_PER_STREAM: usize = 2;

/// See the module.
#[derive(Debug)]
pub(super) struct ActiveStreams {
    /// The streams that are the shard's.
    pub(super) owner: OwnedPartitions,
    /// Slots of streams that were forgotten.
    pub(super) free: Vec<Slot>,
    /// Streams that may be idle, with the number of their place; the oldest place first. A stream
    /// has the place with [`StreamState::idle_place`] only.
    idle: VecDeque<(Slot, u64)>,
    next_place: u64,
    /// A segment is known if its first order is not smaller.
    known_from_order: u64,
    /// The newest time in segments that are not known; `None`: to be found out.
    unknown_newest_ns: Option<i64>,
}

impl ActiveStreams {
    /// No streams. Segments of an order below `known_from_order` are not known.
    pub(super) fn new(owner: OwnedPartitions, known_from_order: u64) -> ActiveStreams {
        ActiveStreams {
            owner,
            free: Vec::new(),
            idle: VecDeque::new(),
            next_place: 1,
            known_from_order,
            unknown_newest_ns: None,
        }
    }

    /// Whether all streams of a segment are in memory, as far as it has been in the shard's list.
    pub(super) fn knows(&self, segment: &SealedSegment) -> bool {
        segment.first_order >= self.known_from_order
    }

    /// Notes that the list of segments has changed.
    pub(super) fn segments_changed(&mut self) {
        self.unknown_newest_ns = None;
    }

    /// Puts a stream that may be idle at the end of the queue.
    pub(super) fn may_be_idle(&mut self, slot: Slot, stream: &mut StreamState) {
        stream.idle_place = self.next_place;
        self.idle.push_back((slot, self.next_place));
        self.next_place += 1;
    }
}

impl Shard {
    /// The newest time at which segments may have entries of a stream that is not in memory; the
    /// smallest number if there are no such segments.
    pub(super) fn unknown_newest_ns(&mut self) -> i64 {
        if let Some(newest_ns) = self.active.unknown_newest_ns {
            return newest_ns;
        }
        let unknown = self.segments.iter().filter(|segment| !self.active.knows(segment));
        let newest_ns = unknown.map(|segment| segment.live.max_ns).max().unwrap_or(i64::MIN);
        self.active.unknown_newest_ns = Some(newest_ns);
        newest_ns
    }

    /// Notes streams that have no entries in memory, or may have none.
    pub(super) fn may_be_idle(&mut self, slots: &[Slot]) {
        for &slot in slots {
            self.active.may_be_idle(slot, &mut self.streams[slot as usize]);
        }
        let most = self.by_id.len().max(1024) * PLACES_PER_STREAM;
        if self.active.idle.len() > most {
            let streams = &self.streams;
            self.active.idle.retain(|&(slot, place)| streams[slot as usize].idle_place == place);
        }
    }

    /// Forgets streams that were made for a push which is not stored.
    pub(super) fn forget_new(&mut self, slots: &[Slot]) {
        for &slot in slots {
            debug_assert!(self.streams[slot as usize].is_idle(), "no other push has used it");
            self.forget_stream(slot);
        }
    }

    /// Takes memory for a new stream, which idle streams give up if need be. Returns whether there
    /// was enough.
    pub(super) fn take_stream_memory(&mut self, definition: &StreamDefinition) -> bool {
        loop {
            // The last other stream of the tenant may have just gone.
            let bytes = self.stream_memory.cost_of(&definition.tenant, &definition.labels);
            if self.stream_memory.try_take(bytes) {
                return true;
            }
            if !self.forget_an_idle_stream() {
                return false;
            }
        }
    }

    /// Forgets the stream that has been idle longest. Returns whether there was one.
    fn forget_an_idle_stream(&mut self) -> bool {
        while let Some((slot, place)) = self.active.idle.pop_front() {
            let stream = &self.streams[slot as usize];
            if stream.idle_place == place && stream.is_idle() {
                self.forget_stream(slot);
                return true;
            }
        }
        false
    }

    fn forget_stream(&mut self, slot: Slot) {
        if let Some(order) = self.streams[slot as usize].sealed_order
            && order >= self.active.known_from_order
        {
            self.active.known_from_order = order + 1;
            self.active.segments_changed();
        }
        self.drop_stream(slot);
    }

    /// Forgets a stream; whoever wants it later does not look for it in segments, or knows better.
    pub(super) fn drop_stream(&mut self, slot: Slot) {
        let stream = &mut self.streams[slot as usize];
        if stream.indexed {
            self.index.remove(&stream.tenant, slot, &stream.labels);
        }
        if stream.tails.take().is_some() {
            self.tails.stream_forgotten();
        }
        self.by_id.remove(&stream.id);
        let (tenant, key) = (&stream.tenant, stream.tenant_key);
        self.stream_memory.forget_stream(tenant, key, &stream.labels);
        stream.labels = Arc::new(Labels::default());
        stream.deletions = None;
        stream.idle_place = 0;
        self.active.free.push(slot);
        self.maintenance.note_forgotten_stream();
    }
}

impl StreamState {
    /// Whether it has no entries in memory or on their way there.
    pub(super) fn is_idle(&self) -> bool {
        self.head.is_empty() && self.frozen.is_none() && self.in_log == 0
    }
}
