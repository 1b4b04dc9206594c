//! The leaf of a log query: the best entries in query direction.
//!
//! # Order
//! Entries are ordered by time in query direction, then by their source stream
//! (see [`StreamKey`]; the same order in both directions), then by arrival within
//! the stream (reversed when the direction is). The order is total, so that any
//! split of the data over shards and blocks gives the same answer.
//!
//! # Duplicates
//! Entries of one source stream with equal time, processed line and final labels
//! count once, at the position that comes first in query direction. That choice,
//! unlike "the one that arrived first", can be made while entries are dropped at
//! the limit, whatever the order blocks come in.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use logsvc_proto::Labels;

use super::super::labels::sets::EntryLabelSet;
use super::super::meter::Meter;
use super::super::params::Direction;
use super::super::place::{Place, entry_hash, stream_hash};

/// Thinning searches for entries to drop when the collector holds so many.
const THIN_AT_LEAST: usize = 1024;

/// The canonical text of labels, and the bytes that making it takes, in lengths of the labels.
const KEY_TEXT_FACTOR: usize = 6;

/// Order of streams whose entries have equal times.
///
/// The interface leaves it open. Loki orders by its stream hash, XXH64 of
/// the names and values, each followed by the byte 0xff; doing the same makes
/// answers that are cut at a limit comparable side by side. Streams with equal
/// hashes are distinguished by their canonical text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct StreamKey {
    hash: u64,
    text: Arc<str>,
}

impl StreamKey {
    /// The key of a stream; some key if there is no memory for it.
    pub(crate) fn new(labels: &Labels, meter: &Meter) -> Self {
        // The text grows by its escapes, then it is copied.
        let text_max_bytes = KEY_TEXT_FACTOR * labels.as_bytes().len() + 64;
        meter.work(text_max_bytes);
        if !meter.admit(text_max_bytes) {
            return Self::first();
        }
        let key = Self { hash: stream_hash(labels), text: labels.canonical().into() };
        meter.release(text_max_bytes.saturating_sub(key.held_bytes()));
        key
    }

    /// The key that precedes all others.
    pub(crate) fn first() -> Self {
        Self { hash: 0, text: Arc::from("") }
    }

    /// The parts, which may go to another core.
    pub(crate) fn to_parts(&self) -> (u64, Box<str>) {
        (self.hash, (*self.text).into())
    }

    /// Heap memory in bytes, the two counts of the shared text included.
    pub(crate) fn held_bytes(&self) -> usize {
        self.text.len() + 2 * size_of::<usize>()
    }
}

/// Position of an entry in the result: smaller comes first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Position {
    /// The time, complemented for the backward direction.
    pub(crate) rank: i64,
    /// The source stream.
    pub(crate) stream: StreamKey,
    /// Number of the block, complemented for the backward direction.
    pub(crate) arrival: u64,
    /// Index in the block, complemented for the backward direction.
    pub(crate) index: u64,
}

/// Maps a time to a number that ascends in query direction, and back.
pub(crate) fn rank_of(timestamp_ns: i64, direction: Direction) -> i64 {
    match direction {
        Direction::Forward => timestamp_ns,
        Direction::Backward => !timestamp_ns,
    }
}

impl Position {
    /// The position of entry `index` of block `arrival`.
    pub(crate) fn new(
        timestamp_ns: i64,
        stream: &StreamKey,
        arrival: u64,
        index: usize,
        direction: Direction,
    ) -> Self {
        let flip = |number: u64| if direction == Direction::Forward { number } else { !number };
        Self {
            rank: rank_of(timestamp_ns, direction),
            stream: stream.clone(),
            arrival: flip(arrival),
            index: flip(index as u64),
        }
    }
}

#[derive(PartialEq, Eq, Debug)]
struct HeldEntry {
    label_set: u32,
    line: Box<[u8]>,
    /// See [`PartialEntry::stored_hash`].
    stored_hash: Option<u64>,
}

/// Collects the entries of a log query.
#[derive(Debug)]
pub(crate) struct LogCollector {
    direction: Direction,
    limit: usize,
    /// 0 when entries are not thinned.
    interval_ns: i64,
    entries: BTreeMap<Position, HeldEntry>,
    /// Entries behind this rank cannot be in the result.
    bound: Option<i64>,
    /// Number of entries at which thinning is tried next.
    thin_at: usize,
    held_bytes: usize,
    /// The key that precedes all others.
    first_stream: StreamKey,
    /// Where the last page ended.
    after: Option<Place>,
    /// The entries of the stream and the time of that place. The merge knows which of them come
    /// behind it, so all are kept, and none counts for the limit.
    beside: BTreeMap<Position, HeldEntry>,
    /// Whether [`PartialEntry::stored_hash`] is wanted.
    tells_places: bool,
}

/// Where an entry stands with regard to the last page.
enum Page {
    /// On it, or before it.
    Before,
    /// In its last stream, at its last time.
    Beside,
    /// Behind it.
    Behind,
}

impl LogCollector {
    pub(crate) fn new(direction: Direction, limit: usize, interval_ns: i64) -> Self {
        Self {
            direction,
            limit,
            interval_ns,
            entries: BTreeMap::new(),
            bound: if limit == 0 { Some(i64::MIN) } else { None },
            thin_at: THIN_AT_LEAST.max(limit.saturating_mul(2)),
            held_bytes: 0,
            first_stream: StreamKey::first(),
            after: None,
            beside: BTreeMap::new(),
            tells_places: false,
        }
    }

    /// The same with hashes of entries as they are stored, if so wanted.
    pub(crate) fn telling_places(self, tells_places: bool) -> Self {
        Self { tells_places, ..self }
    }

    /// Whether hashes of entries as they are stored are wanted.
    pub(crate) fn tells_places(&self) -> bool {
        self.tells_places
    }

    /// Keeps the hash of an entry as it is stored, if the entry is held.
    pub(crate) fn note_stored(&mut self, position: &Position, set: &EntryLabelSet, line: &[u8]) {
        let held = match self.entries.get_mut(position) {
            Some(held) => Some(held),
            None => self.beside.get_mut(position),
        };
        if let Some(held) = held {
            held.stored_hash = Some(entry_hash(&position.stream.text, set, line));
        }
    }

    /// The same for the page behind this place.
    pub(crate) fn after(self, after: Option<Place>) -> Self {
        Self { after, ..self }
    }

    fn page_of(&self, position: &Position) -> Page {
        let Some(after) = &self.after else { return Page::Behind };
        let place = (rank_of(after.timestamp_ns, self.direction), after.stream_hash);
        match (position.rank, position.stream.hash).cmp(&place) {
            Ordering::Less => Page::Before,
            Ordering::Equal => Page::Beside,
            Ordering::Greater => Page::Behind,
        }
    }

    pub(crate) fn direction(&self) -> Direction {
        self.direction
    }

    /// Whether an entry within these times could be in the result.
    pub(crate) fn wants(&self, min_timestamp_ns: i64, max_timestamp_ns: i64) -> bool {
        let best = match self.direction {
            Direction::Forward => min_timestamp_ns,
            Direction::Backward => max_timestamp_ns,
        };
        self.limit > 0 && self.bound.is_none_or(|bound| rank_of(best, self.direction) <= bound)
    }

    /// The times, `start <= t < end`, of the entries within `bounds_ns` that could
    /// still be in the result.
    pub(crate) fn open_bounds_ns(&self, bounds_ns: (i64, i64)) -> (i64, i64) {
        let (start_ns, end_ns) = bounds_ns;
        match (self.bound, self.direction) {
            (None, _) => bounds_ns,
            (Some(rank), Direction::Forward) => (start_ns, end_ns.min(rank.saturating_add(1))),
            // The rank is the time, complemented.
            (Some(rank), Direction::Backward) => (start_ns.max(!rank), end_ns),
        }
    }

    /// Whether an entry of this time could be in the result. The test is cheap, and saves the
    /// pipeline's work for entries that cannot.
    pub(crate) fn admits(&self, timestamp_ns: i64) -> bool {
        self.wants(timestamp_ns, timestamp_ns)
    }

    /// Takes an entry, if there is memory for it.
    pub(crate) fn add(&mut self, position: Position, label_set: u32, line: &[u8], meter: &Meter) {
        match self.page_of(&position) {
            _ if self.limit == 0 => {}
            Page::Before => {}
            Page::Beside => self.add_beside(position, label_set, line, meter),
            Page::Behind if self.interval_ns > 0 => {
                self.add_thinned(position, label_set, line, meter);
            }
            Page::Behind => self.add_limited(position, label_set, line, meter),
        }
    }

    fn add_limited(&mut self, position: Position, label_set: u32, line: &[u8], meter: &Meter) {
        let is_full = self.entries.len() >= self.limit;
        if is_full {
            match self.entries.last_key_value() {
                Some((worst, _)) if position < *worst => {}
                _ => return,
            }
        }
        if let Some(equal) = find_equal(&self.entries, &position, label_set, line) {
            if position < equal
                && let Some(held) = self.entries.remove(&equal)
            {
                self.entries.insert(position, held);
            }
        } else {
            if is_full && let Some((_, dropped)) = self.entries.pop_last() {
                self.let_go(&dropped, meter);
            }
            self.insert(position, label_set, line, meter);
        }
        if self.entries.len() >= self.limit {
            self.bound = self.entries.last_key_value().map(|(worst, _)| worst.rank);
        }
    }

    /// The merge drops duplicates of these entries: it would be a search through all of them here.
    fn add_beside(&mut self, position: Position, label_set: u32, line: &[u8], meter: &Meter) {
        if let Some(held) = self.held(label_set, line, meter) {
            self.beside.insert(position, held);
        }
    }

    fn insert(&mut self, position: Position, label_set: u32, line: &[u8], meter: &Meter) {
        if let Some(held) = self.held(label_set, line, meter) {
            self.entries.insert(position, held);
        }
    }

    /// A copy of an entry, if there is memory for it.
    fn held(&mut self, label_set: u32, line: &[u8], meter: &Meter) -> Option<HeldEntry> {
        if !meter.admit(entry_bytes(line)) {
            return None;
        }
        meter.work(line.len());
        self.held_bytes += entry_bytes(line);
        Some(HeldEntry { label_set, line: line.into(), stored_hash: None })
    }

    fn let_go(&mut self, dropped: &HeldEntry, meter: &Meter) {
        let bytes = entry_bytes(&dropped.line);
        self.held_bytes -= bytes;
        meter.release(bytes);
    }

    /// Of entries with equal times at most the first can be returned.
    fn add_thinned(&mut self, position: Position, label_set: u32, line: &[u8], meter: &Meter) {
        let next = self.entries.range(self.first_of_rank(position.rank)..).next();
        let equal =
            next.filter(|(held, _)| held.rank == position.rank).map(|(held, _)| held.clone());
        if let Some(held) = equal {
            if held < position {
                return;
            }
            if let Some(dropped) = self.entries.remove(&held) {
                self.let_go(&dropped, meter);
            }
        }
        self.insert(position, label_set, line, meter);
        if self.entries.len() >= self.thin_at {
            self.thin(meter);
        }
    }

    /// Drops the entries behind the last one that thinning could return. With more
    /// entries to come (here or from other shards) the k-th returned entry only
    /// moves forward, so nothing behind today's last one is ever needed.
    fn thin(&mut self, meter: &Meter) {
        meter.work(self.entries.len() * ENTRY_WORK);
        let ranks = self.entries.keys().map(|position| position.rank);
        let last = thinned(ranks, self.interval_ns).nth(self.limit.saturating_sub(1));
        if let Some(last) = last {
            let dropped = match last.checked_add(1) {
                Some(behind) => self.entries.split_off(&self.first_of_rank(behind)),
                None => BTreeMap::new(),
            };
            for held in dropped.values() {
                self.let_go(held, meter);
            }
            self.bound = Some(last);
        }
        self.thin_at = THIN_AT_LEAST.max(self.entries.len() * 2);
    }

    /// A position that precedes all others of a rank.
    fn first_of_rank(&self, rank: i64) -> Position {
        Position { rank, stream: self.first_stream.clone(), arrival: 0, index: 0 }
    }

    /// Heap memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// The entries in order, with the label sets they use renumbered from zero by
    /// `resolve`. They are incomplete if the leaf is stopped here.
    pub(crate) fn finish(
        mut self,
        resolve: impl Fn(u32) -> EntryLabelSet,
        meter: &Meter,
    ) -> LogPartial {
        if self.interval_ns > 0 {
            self.thin(meter);
        }
        let mut partial = LogPartial::default();
        if !meter.make_room(&mut partial.entries, self.beside.len() + self.entries.len()) {
            return partial;
        }
        let mut streams: BTreeMap<StreamKey, u32> = BTreeMap::new();
        let mut label_sets: BTreeMap<u32, u32> = BTreeMap::new();
        for (position, held) in self.beside.into_iter().chain(self.entries) {
            let has_room = meter.work(ENTRY_WORK)
                // A copy of the key if the stream is new, and places in the maps.
                && (streams.contains_key(&position.stream)
                    || meter.admit(position.stream.text.len() + MAPPED_BYTES)
                        && meter.make_room(&mut partial.streams, 1))
                && (label_sets.contains_key(&held.label_set)
                    || meter.admit(MAPPED_BYTES) && meter.make_room(&mut partial.label_sets, 1));
            if !has_room {
                break;
            }
            meter.release(ENTRY_BYTES);
            let stream = *streams.entry(position.stream.clone()).or_insert_with(|| {
                partial.streams.push(position.stream.to_parts());
                u32::try_from(partial.streams.len() - 1).expect("no more streams than entries")
            });
            let label_set = *label_sets.entry(held.label_set).or_insert_with(|| {
                partial.label_sets.push(resolve(held.label_set));
                u32::try_from(partial.label_sets.len() - 1).expect("no more sets than entries")
            });
            partial.entries.push(PartialEntry {
                rank: position.rank,
                stream,
                arrival: position.arrival,
                index: position.index,
                label_set,
                line: held.line,
                stored_hash: held.stored_hash,
            });
        }
        partial
    }
}

/// The held duplicate of an entry.
fn find_equal(
    entries: &BTreeMap<Position, HeldEntry>,
    position: &Position,
    label_set: u32,
    line: &[u8],
) -> Option<Position> {
    let first = Position { arrival: 0, index: 0, ..position.clone() };
    let last = Position { arrival: u64::MAX, index: u64::MAX, ..position.clone() };
    entries
        .range(first..=last)
        .find(|(_, held)| held.label_set == label_set && *held.line == *line)
        .map(|(position, _)| position.clone())
}

/// The work of moving an entry besides its bytes, see [`crate::engine::meter`].
const ENTRY_WORK: usize = 32;

/// Memory of an entry besides its line: the tree's nodes may be half empty.
const ENTRY_BYTES: usize = 2 * size_of::<(Position, HeldEntry)>();

/// Memory of a stream or a label set in the maps that number them.
const MAPPED_BYTES: usize = 2 * size_of::<(StreamKey, u32)>();

/// Memory of one held entry.
fn entry_bytes(line: &[u8]) -> usize {
    line.len() + ENTRY_BYTES
}

/// The ranks that are returned when entries closer than `interval_ns` to the one
/// returned before are skipped.
pub(crate) fn thinned(
    ranks: impl Iterator<Item = i64>,
    interval_ns: i64,
) -> impl Iterator<Item = i64> {
    let mut last: Option<i64> = None;
    ranks.filter(move |&rank| {
        let is_far =
            last.is_none_or(|last| i128::from(rank) - i128::from(last) >= i128::from(interval_ns));
        if is_far {
            last = Some(rank);
        }
        is_far
    })
}

/// The partial result of a shard for a log query, in result order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct LogPartial {
    /// The source streams, as in [`StreamKey`].
    pub(crate) streams: Vec<(u64, Box<str>)>,
    pub(crate) label_sets: Vec<EntryLabelSet>,
    pub(crate) entries: Vec<PartialEntry>,
}

/// An entry of a [`LogPartial`]; see [`Position`] for the first four fields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PartialEntry {
    pub(crate) rank: i64,
    /// Index into the partial's streams.
    pub(crate) stream: u32,
    pub(crate) arrival: u64,
    pub(crate) index: u64,
    /// Index into the partial's label sets.
    pub(crate) label_set: u32,
    pub(crate) line: Box<[u8]>,
    /// [`super::super::place::EntryPlace::entry_hash`], where stages may have changed the entry
    /// and it is wanted.
    pub(crate) stored_hash: Option<u64>,
}

impl LogPartial {
    /// Memory of the partial in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<PartialEntry>()
            + self.entries.iter().map(|entry| entry.line.len()).sum::<usize>()
            + self.streams.capacity() * size_of::<(u64, Box<str>)>()
            + self.streams.iter().map(|(_, text)| text.len()).sum::<usize>()
            + self.label_sets.capacity() * size_of::<EntryLabelSet>()
            + self.label_sets.iter().map(EntryLabelSet::held_bytes).sum::<usize>()
    }
}
