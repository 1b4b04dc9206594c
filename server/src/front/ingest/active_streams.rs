//! Streams that got entries lately, and their number for each tenant, for the limit on active
//! streams. All cores share one table and never wait for each other.
//!
//! The table has a fixed size and a few places for each stream. A stream that got no entries for
//! [`ACTIVE_FOR`] may lose its place. If all places that a new stream may have are taken by active
//! ones, it is let in and not counted: the limit errs on the generous side. The streams of a tenant
//! are counted anew whenever the tenant reaches its limit, so wrong counts of racing cores do not
//! last. After a restart all counts begin at zero.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use logsvc_runtime::Monotonic;

/// How long a stream counts after its last entry.
pub(crate) const ACTIVE_FOR: Duration = Duration::from_secs(30 * 60);

/// Places that a stream or the count of a tenant may have.
const NEIGHBOURS: usize = 16;

/// A place is not written again sooner, so that cores do not fight for it.
const SEEN_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Streams are not counted anew more often than this.
const RECOUNT_INTERVAL: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(crate) struct ActiveStreams {
    /// Made when the first limit is asked for.
    streams: OnceLock<Box<[StreamSlot]>>,
    stream_places: usize,
    tenants: Box<[TenantCount]>,
    recounted_ns: AtomicU64,
}

#[derive(Debug, Default)]
struct StreamSlot {
    /// Hash of the stream; 0 if the place is free.
    stream: AtomicU64,
    /// Hash of its tenant.
    tenant: AtomicU64,
    /// When it got entries, in ns of the monotonic clock.
    seen_ns: AtomicU64,
}

#[derive(Debug, Default)]
struct TenantCount {
    /// Hash of the tenant; 0 if the place is free.
    tenant: AtomicU64,
    streams: AtomicU64,
}

impl StreamSlot {
    fn is_idle(&self, now: Monotonic) -> bool {
        now.since(Monotonic(self.seen_ns.load(Ordering::Relaxed))) > ACTIVE_FOR
    }
}

impl ActiveStreams {
    /// A table for about this many streams and tenants.
    pub(crate) fn new(streams: usize, tenants: usize) -> ActiveStreams {
        let size = |places: usize| places.max(NEIGHBOURS).next_power_of_two();
        ActiveStreams {
            streams: OnceLock::new(),
            stream_places: size(streams),
            tenants: (0..size(tenants)).map(|_| TenantCount::default()).collect(),
            recounted_ns: AtomicU64::new(0),
        }
    }

    fn streams(&self) -> &[StreamSlot] {
        self.streams
            .get_or_init(|| (0..self.stream_places).map(|_| StreamSlot::default()).collect())
    }

    /// Whether a stream may get entries, given that its tenant may have `limit` active
    /// ones. Counts it if so. Streams and tenants are given by hashes.
    pub(crate) fn admit(&self, tenant: u64, stream: u64, limit: u64, now: Monotonic) -> bool {
        self.admit_of(tenant, stream, limit, now, |_| true)
    }

    /// The same where only some streams count: others lose their places when streams are counted anew.
    pub(crate) fn admit_of(
        &self,
        tenant: u64,
        stream: u64,
        limit: u64,
        now: Monotonic,
        counts: impl Fn(u64) -> bool,
    ) -> bool {
        let (tenant, stream) = (tenant.max(1), stream.max(1));
        if self.touch(stream, now) {
            return true;
        }
        let places = neighbours(self.streams(), stream);
        let Some(count) = self.count_of(tenant) else { return true };
        if !count_one_more(count, limit) {
            self.recount(tenant, count, now, counts);
            if !count_one_more(count, limit) {
                return false;
            }
        }
        if !self.claim_slot(places, tenant, stream, now) {
            count_one_less(count);
        }
        true
    }

    /// Notes that a stream has got entries; false if it is not known.
    pub(crate) fn touch(&self, stream: u64, now: Monotonic) -> bool {
        let Some(streams) = self.streams.get() else { return false };
        let stream = stream.max(1);
        let mut places = neighbours(streams, stream);
        let known = places.find(|place| place.stream.load(Ordering::Acquire) == stream);
        if let Some(place) = known {
            let seen = Monotonic(place.seen_ns.load(Ordering::Relaxed));
            if now.since(seen) > SEEN_AGAIN_AFTER {
                place.seen_ns.store(now.0, Ordering::Relaxed);
            }
        }
        known.is_some()
    }

    /// Gives a new stream a place. False if there is none, or if another core was
    /// faster: the stream must not be counted then.
    fn claim_slot<'t>(
        &'t self,
        places: impl Iterator<Item = &'t StreamSlot> + Clone,
        tenant: u64,
        stream: u64,
        now: Monotonic,
    ) -> bool {
        for (index, place) in places.clone().enumerate() {
            let found = place.stream.load(Ordering::Acquire);
            if found != 0 && !place.is_idle(now) {
                continue;
            }
            let former = place.tenant.load(Ordering::Relaxed);
            let taken =
                place.stream.compare_exchange(found, stream, Ordering::AcqRel, Ordering::Relaxed);
            if taken.is_err() {
                continue;
            }
            place.tenant.store(tenant, Ordering::Relaxed);
            place.seen_ns.store(now.0, Ordering::Relaxed);
            if found != 0
                && let Some(count) = self.count_of(former)
            {
                count_one_less(count);
            }
            // Of two cores that bring the same stream at once, the one with the place
            // behind gives way.
            let twin = places.take(index).any(|p| p.stream.load(Ordering::Acquire) == stream);
            if twin {
                place.stream.store(0, Ordering::Release);
            }
            return !twin;
        }
        false
    }

    /// The count of a tenant, made if it has none. `None` if there is no place for it.
    fn count_of(&self, tenant: u64) -> Option<&TenantCount> {
        let counts = neighbours(&self.tenants, tenant);
        if let Some(count) =
            counts.clone().find(|count| count.tenant.load(Ordering::Acquire) == tenant)
        {
            return Some(count);
        }
        counts.into_iter().find(|count| {
            let found = count.tenant.load(Ordering::Acquire);
            // The tenant of a count of zero has no active streams to lose.
            (found == 0 || count.streams.load(Ordering::Acquire) == 0)
                && count
                    .tenant
                    .compare_exchange(found, tenant, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
        })
    }

    /// Frees the places of idle streams and of those that do not count, and counts the streams of a
    /// tenant anew.
    fn recount(
        &self,
        tenant: u64,
        count: &TenantCount,
        now: Monotonic,
        counts: impl Fn(u64) -> bool,
    ) {
        let recounted_ns = self.recounted_ns.load(Ordering::Relaxed);
        if recounted_ns != 0 && now.since(Monotonic(recounted_ns)) < RECOUNT_INTERVAL {
            return;
        }
        let mine = self.recounted_ns.compare_exchange(
            recounted_ns,
            now.0.max(1),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if mine.is_err() {
            return;
        }
        let mut active = 0;
        for place in self.streams() {
            let stream = place.stream.load(Ordering::Acquire);
            if stream == 0 {
                continue;
            }
            let of = place.tenant.load(Ordering::Relaxed);
            if !place.is_idle(now) && counts(stream) {
                active += u64::from(of == tenant);
                continue;
            }
            let freed =
                place.stream.compare_exchange(stream, 0, Ordering::AcqRel, Ordering::Relaxed);
            if freed.is_ok()
                && of != tenant
                && let Some(count) = self.count_of(of)
            {
                count_one_less(count);
            }
        }
        count.streams.store(active, Ordering::Release);
    }
}

/// The places that a hash may have.
fn neighbours<T>(places: &[T], hash: u64) -> impl Iterator<Item = &T> + Clone {
    let mask = places.len() - 1;
    (0..NEIGHBOURS).map(move |step| &places[(hash as usize).wrapping_add(step) & mask])
}

fn count_one_more(count: &TenantCount, limit: u64) -> bool {
    let more = |streams: u64| (streams < limit).then_some(streams + 1);
    count.streams.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
}

fn count_one_less(count: &TenantCount) {
    // Below zero nothing is counted; counting anew makes up for it.
    let less = |streams: u64| streams.checked_sub(1);
    let _ = count.streams.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn hash(number: u64) -> u64 {
        (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn a_tenant_has_its_limit_and_known_streams_stay() {
        let active = ActiveStreams::new(1024, 64);
        let admit = |tenant, stream| active.admit(hash(tenant), hash(stream), 3, Monotonic(S));
        for round in 0..2 {
            for stream in 0..3 {
                assert!(admit(1, stream), "{round} {stream}");
            }
            assert!(!admit(1, 3), "{round}");
        }
        assert!(admit(2, 100), "another tenant has its own count");
    }

    #[test]
    fn idle_streams_make_room() {
        let active = ActiveStreams::new(1024, 64);
        let admit = |stream, at_s| active.admit(7, hash(stream), 2, Monotonic(at_s * S));
        assert!(admit(0, 1) && admit(1, 1));
        let later = ACTIVE_FOR.as_secs();
        assert!(admit(1, later) && !admit(2, later));
        // By now the first one is idle, the second is not.
        assert!(admit(2, later + 10) && !admit(3, later + 20));
        assert!(admit(1, later + 20) && !admit(0, later + 30));
    }

    #[test]
    fn streams_that_count_no_longer_make_room() {
        let active = ActiveStreams::new(1024, 64);
        let admit =
            |stream, counts: fn(u64) -> bool| active.admit_of(7, stream, 2, Monotonic(S), counts);
        assert!(!active.touch(10, Monotonic(S)));
        assert!(admit(10, |_| true) && admit(21, |_| true));
        assert!(active.touch(10, Monotonic(S)) && !active.touch(30, Monotonic(S)));
        assert!(admit(30, |stream| stream % 2 == 0));
        assert!(active.touch(10, Monotonic(S)) && !active.touch(21, Monotonic(S)));
        assert!(!admit(40, |stream| stream % 2 == 0));
    }

    #[test]
    fn a_crowd_errs_on_the_generous_side() {
        let active = ActiveStreams::new(NEIGHBOURS, NEIGHBOURS);
        for stream in 0..100 {
            assert!(active.admit(7, hash(stream), 1000, Monotonic(S)), "{stream}");
        }
        let counted = active.tenants.iter().map(|count| count.streams.load(Ordering::Relaxed));
        assert_eq!(counted.sum::<u64>(), NEIGHBOURS as u64, "those without a place do not count");
    }

    #[test]
    fn racing_cores_share_one_count() {
        let active = ActiveStreams::new(1 << 14, 64);
        let active = &active;
        let admitted: u64 = std::thread::scope(|scope| {
            let pusher = |thread: u64| {
                (0..1_000).filter(move |stream| {
                    active.admit(7, hash(thread * 1_000 + stream), 1_500, Monotonic(S))
                })
            };
            let threads: Vec<_> =
                (0..4).map(|thread| scope.spawn(move || pusher(thread).count() as u64)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        // Counting anew while others count may let a few too many in, never too few.
        assert!((1_500..1_600).contains(&admitted), "{admitted}");
    }
}
