//! The state of a tenant's sample log and of its receivers, without I/O.
//!
//! Guarantees: a sample is accepted only if it is newer than all accepted ones of its series, so
//! that timestamps rise and none has two values. For each receiver, every accepted sample is
//! either pending or counted once: as taken, failed, or dropped for one reason.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ahash::{AHashMap, RandomState};
use logsvc_proto::TenantId;
use logsvc_runtime::Monotonic;

use super::position::{Place, Position};
use super::segment::HEADER_BYTES;
use super::signal::Signal;
use crate::config::RemoteClientConfig;
use crate::relabel::Relabeller;
use crate::remote_numbers::{ReceiverNumbers, SampleLogNumbers};

/// A segment ends when it is so long, or an eighth of the log's bound, if that is less.
pub(super) const SEGMENT_BYTES: u64 = 1 << 20;
/// The least length at which a segment ends.
const SEGMENT_MIN_BYTES: u64 = 4 << 10;
/// How long a series is remembered after its last sample.
pub(super) const SERIES_MAX_AGE: Duration = Duration::from_secs(3600);
/// So many of the newest segments stay though all receivers have passed them, and all that are
/// younger than [`PASSED_MAX_AGE`]: at the next start they tell which timestamps were accepted last.
const SEGMENTS_KEPT: usize = 2;
/// See [`SEGMENTS_KEPT`].
pub(super) const PASSED_MAX_AGE: Duration = Duration::from_secs(600);

/// A segment of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SegmentMeta {
    pub(super) number: u64,
    /// Readers go up to here.
    pub(super) len_bytes: u64,
    pub(super) samples: u64,
    /// When its last sample was appended.
    pub(super) appended: Monotonic,
    /// How long that was before the beginning of the clock.
    pub(super) waited_before_ns: u64,
}

impl SegmentMeta {
    /// How long its newest sample has waited.
    pub(super) fn age(&self, now: Monotonic) -> Duration {
        now.since(self.appended) + Duration::from_nanos(self.waited_before_ns)
    }
}

/// What is known of a series: 40 bytes with its hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeriesState {
    pub(super) last_ms: i64,
    /// The segment that has named it last, and its number there.
    pub(super) segment: u64,
    pub(super) set: u32,
    /// Seconds of the monotonic clock when its last sample was appended.
    pub(super) seen_s: u32,
}

/// Why samples left the log before a receiver had them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Drop {
    /// The log has no room.
    Room,
    /// They have waited too long.
    Age,
    /// They cannot be read.
    Damage,
}

/// A tenant's log.
#[derive(Debug)]
pub(super) struct LogState {
    pub(super) segments: VecDeque<SegmentMeta>,
    /// The number of the next segment; the last one has the number before.
    pub(super) next_number: u64,
    /// Whether the last segment is appended to.
    pub(super) is_active: bool,
    /// The number of the next label set of the active segment.
    pub(super) next_set: u32,
    pub(super) series: AHashMap<u128, SeriesState>,
    pub(super) receivers: Vec<Receiver>,
    /// Files of segments that are to be removed.
    pub(super) garbage: Vec<u64>,
    /// Whether there are bytes, or a file, that were not synced.
    pub(super) is_dirty: bool,
    pub(super) is_folder_dirty: bool,
    pub(super) numbers: SampleLogNumbers,
}

/// A receiver's state.
#[derive(Debug)]
pub(super) struct Receiver {
    /// Unique in the process.
    pub(super) key: u64,
    pub(super) config: Rc<RemoteClientConfig>,
    pub(super) relabeller: Arc<Relabeller>,
    pub(super) adds_org_id: bool,
    /// Counts changes of the settings.
    pub(super) generation: u64,
    /// Whether nothing is sent for now.
    pub(super) is_paused: bool,
    pub(super) position: Position,
    /// Samples of the segment of the position that are before it.
    pub(super) passed: u64,
    /// Samples that the receiver waits for.
    pub(super) pending: u64,
    /// When the oldest of them, or those behind the last batch, came.
    pub(super) since: Monotonic,
    /// Samples of the batch that is being sent.
    pub(super) claimed: Option<u64>,
    /// Why the log has dropped the batch that is being sent.
    pub(super) overtaken: Option<Drop>,
    pub(super) signal: Rc<Signal>,
    pub(super) numbers: ReceiverNumbers,
}

impl Receiver {
    fn count_drop(&mut self, reason: Drop, samples: u64) {
        self.pending = self.pending.saturating_sub(samples);
        let counter = match reason {
            Drop::Room => &mut self.numbers.dropped_for_room,
            Drop::Age => &mut self.numbers.dropped_for_age,
            Drop::Damage => &mut self.numbers.dropped_as_damaged,
        };
        *counter += samples;
    }

    /// Whether a batch that was begun before a crash or a failure has to be sent again.
    pub(super) fn repeats(&self) -> bool {
        self.position.under_way.is_some()
    }
}

/// The beginning of a segment.
pub(super) fn start_of(segment: u64) -> Place {
    Place { segment, offset: HEADER_BYTES as u32, index: 0 }
}

/// What a sender has to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Work {
    pub(super) place: Place,
    /// The length and the samples of the segment.
    pub(super) len_bytes: u64,
    pub(super) samples: u64,
}

/// How a batch ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// The receiver has it, with so many samples beside those that were not in the request.
    Taken {
        /// In the request.
        sent: u64,
        /// Dropped by relabelling.
        relabelled: u64,
        /// Not readable.
        damaged: u64,
    },
    /// The receiver will never have it.
    Failed {
        /// In the request.
        sent: u64,
        /// Dropped by relabelling.
        relabelled: u64,
        /// Not readable.
        damaged: u64,
    },
    /// It is to be sent again.
    Again,
}

impl LogState {
    pub(super) fn new(tenant: TenantId) -> LogState {
        LogState {
            segments: VecDeque::new(),
            next_number: 1,
            is_active: false,
            next_set: 0,
            series: AHashMap::with_hasher(RandomState::with_seeds(9, 10, 11, 12)),
            receivers: Vec::new(),
            garbage: Vec::new(),
            is_dirty: false,
            is_folder_dirty: false,
            numbers: SampleLogNumbers::new(tenant),
        }
    }

    /// Bytes of all segments.
    pub(super) fn size_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.len_bytes).sum()
    }

    /// The place behind all samples.
    pub(super) fn end(&self) -> Place {
        match self.segments.back().filter(|_| self.is_active) {
            Some(last) => Place {
                segment: last.number,
                offset: u32::try_from(last.len_bytes).unwrap_or(u32::MAX),
                index: 0,
            },
            None => start_of(self.next_number),
        }
    }

    /// Whether the active segment is to be ended before more is appended.
    pub(super) fn is_full(&self, max_bytes: u64) -> bool {
        let limit = (max_bytes / 8).clamp(SEGMENT_MIN_BYTES, SEGMENT_BYTES);
        !self.is_active || self.segments.back().is_none_or(|last| last.len_bytes >= limit)
    }

    /// Whether the segment that ends at an age is due.
    pub(super) fn is_aged(&self, now: Monotonic, begun: Monotonic, max_age: Duration) -> bool {
        self.is_active && now.since(begun) >= max_age / 8
    }

    /// A new segment is there, and empty.
    pub(super) fn add_segment(&mut self, now: Monotonic) {
        self.segments.push_back(SegmentMeta {
            number: self.next_number,
            len_bytes: HEADER_BYTES as u64,
            samples: 0,
            appended: now,
            waited_before_ns: 0,
        });
        self.next_number += 1;
        self.is_active = true;
        self.next_set = 0;
        (self.is_dirty, self.is_folder_dirty) = (true, true);
    }

    /// Ends the active segment.
    pub(super) fn seal(&mut self) {
        self.is_active = false;
    }

    /// Samples were appended to the active segment.
    pub(super) fn appended(&mut self, bytes: u64, samples: u64, now: Monotonic) {
        if let Some(last) = self.segments.back_mut() {
            last.len_bytes += bytes;
            last.samples += samples;
            (last.appended, last.waited_before_ns) = (now, 0);
        }
        self.is_dirty = true;
        self.numbers.samples_appended += samples;
        for receiver in &mut self.receivers {
            if receiver.pending == 0 {
                receiver.since = now;
            }
            receiver.pending += samples;
            receiver.signal.set();
        }
    }

    /// Drops the oldest segment, and counts what receivers lose. Returns how many samples that is
    /// for the receiver that loses most.
    pub(super) fn drop_oldest(&mut self, reason: Drop) -> u64 {
        let Some(oldest) = self.segments.pop_front() else { return 0 };
        if self.segments.is_empty() {
            self.is_active = false;
        }
        self.garbage.push(oldest.number);
        let mut most = 0;
        for receiver in &mut self.receivers {
            if receiver.position.place.segment > oldest.number {
                continue;
            }
            let claimed = match receiver.overtaken {
                None => receiver.claimed.unwrap_or(0),
                Some(_) => 0,
            };
            let lost = oldest.samples.saturating_sub(receiver.passed + claimed);
            if receiver.claimed.is_some() && receiver.overtaken.is_none() {
                receiver.overtaken = Some(reason);
            }
            receiver.count_drop(reason, lost);
            receiver.position.place = start_of(oldest.number + 1);
            receiver.position.under_way = None;
            receiver.passed = 0;
            most = most.max(lost);
        }
        most
    }

    /// Lets go of segments that all receivers have passed, but for new ones.
    pub(super) fn drop_passed(&mut self, now: Monotonic) {
        let first = self.receivers.iter().map(|receiver| receiver.position.place.segment).min();
        // Without a receiver nothing was appended that anybody waits for; age decides.
        let Some(first) = first else { return };
        while self.segments.len() > SEGMENTS_KEPT
            && let Some(oldest) = self.segments.front()
            && oldest.number < first
            && oldest.age(now) >= PASSED_MAX_AGE
        {
            self.garbage.push(oldest.number);
            self.segments.pop_front();
        }
    }

    /// Forgets series without a sample for a long time.
    pub(super) fn forget_series(&mut self, now: Monotonic) {
        let oldest_s = seconds(now).saturating_sub(SERIES_MAX_AGE.as_secs() as u32);
        let before = self.series.len();
        self.series.retain(|_, series| series.seen_s >= oldest_s);
        self.numbers.removed_series += (before - self.series.len()) as u64;
        if self.series.capacity() > 4 * self.series.len() {
            self.series.shrink_to_fit();
        }
    }

    /// The receiver with a key.
    pub(super) fn receiver(&mut self, key: u64) -> Option<&mut Receiver> {
        self.receivers.iter_mut().find(|receiver| receiver.key == key)
    }

    /// What a receiver's sender has to read next; `None`: nothing.
    pub(super) fn work(&mut self, key: u64) -> Option<Work> {
        loop {
            let place = self.receiver(key)?.position.place;
            let first = self.segments.front()?.number;
            // Segments are numbered without gaps, but for those that are of another version.
            let (index, meta) = self
                .segments
                .iter()
                .enumerate()
                .find(|(_, meta)| meta.number >= place.segment.max(first))?;
            let work = Work { place, len_bytes: meta.len_bytes, samples: meta.samples };
            let (number, is_last) = (meta.number, index + 1 == self.segments.len());
            let is_active = self.is_active && is_last;
            let receiver = self.receiver(key)?;
            if number != place.segment {
                (receiver.position.place, receiver.passed) = (start_of(number), 0);
                receiver.position.under_way = None;
            } else if u64::from(place.offset) < work.len_bytes {
                return Some(work);
            } else if is_active {
                return None;
            } else {
                // Samples that the file has lost were counted when its end was reached.
                receiver.position.place = start_of(number + 1);
                receiver.position.under_way = None;
                receiver.passed = 0;
                if is_last {
                    return None;
                }
            }
        }
    }

    /// A batch of so many samples is being sent.
    pub(super) fn claim(&mut self, key: u64, samples: u64, end: (u32, u32)) -> Option<Position> {
        let receiver = self.receiver(key)?;
        receiver.claimed = Some(samples);
        receiver.overtaken = None;
        receiver.position.under_way = Some(end);
        receiver.position.number += 1;
        Some(receiver.position)
    }

    /// A batch ends. Returns the position to be written, if it has moved.
    pub(super) fn resolve(
        &mut self,
        key: u64,
        end: End,
        at: (u32, u32),
        now: Monotonic,
    ) -> Option<Position> {
        let receiver = self.receiver(key)?;
        let claimed = receiver.claimed.take().unwrap_or(0);
        let overtaken = receiver.overtaken.take();
        if end == End::Again {
            if let Some(reason) = overtaken {
                receiver.count_drop(reason, claimed);
            }
            return None;
        }
        if let End::Taken { sent, relabelled, damaged }
        | End::Failed { sent, relabelled, damaged } = end
        {
            receiver.pending = receiver.pending.saturating_sub(sent + relabelled);
            receiver.count_drop(Drop::Damage, damaged);
            receiver.numbers.dropped_by_relabelling += relabelled;
            if matches!(end, End::Taken { .. }) {
                receiver.numbers.samples_taken += sent;
            } else {
                receiver.numbers.samples_failed += sent;
            }
        }
        receiver.since = now;
        if overtaken.is_none() {
            (receiver.position.place.offset, receiver.position.place.index) = at;
            receiver.position.under_way = None;
            receiver.passed += claimed;
        }
        receiver.position.number += 1;
        let position = receiver.position;
        self.drop_passed(now);
        Some(position)
    }
}

/// Seconds of the monotonic clock; it reaches a hundred years.
pub(super) fn seconds(now: Monotonic) -> u32 {
    u32::try_from(now.0 / 1_000_000_000).unwrap_or(u32::MAX)
}
