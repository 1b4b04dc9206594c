//! Counts the changes of stored entries by time, so that a cache of answers can tell whether an
//! answer holds.
//!
//! Each shard counts its changes by tenant and by time, in *buckets* of 2^36 ns (69 seconds), and
//! again in fine buckets of 2^32 ns (4.3 seconds), for stamps of an hour at most. A change of more
//! than 18 minutes counts for fine stamps as a change of whole buckets.
//! A change is an entry that becomes visible, or an entry that goes because it has expired. A
//! request for deletion that comes into force or ends is a change of the times and the tenant that
//! it names; its keeper counts in a column of its own, as if it were one more shard. A cache takes the [`Stamp`] of the times that an answer depends on before it has the answer
//! computed. As long as a new stamp of these times is the same, computing the answer again
//! gives the same answer.
//!
//! Guarantees: a shard counts a change in the step that makes it: before any request can see the
//! change, and before the push is answered. A stamp that is taken after the answer to a push
//! differs from one that was taken before the push. Sealing and merging are no changes. Counters
//! lie in a table of fixed size per shard, and several times share one. So a stamp may report a
//! change of other times or of another tenant, and never misses a change.
//!
//! Only its shard, or the keeper of the requests for deletion, writes a counter. All cores read it, and no core waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ahash::RandomState;
use logsvc_proto::TenantId;

use crate::types::TimeRange;

/// Length of a bucket, as a power of two of nanoseconds.
const BUCKET_BITS: u32 = 36;

/// Length of a fine bucket, as a power of two of nanoseconds.
const FINE_BITS: u32 = 32;

/// Counters of a shard, of buckets and of fine buckets.
const COUNTERS: usize = 1 << 14;

/// Counters of a shard, of buckets that changes of long times count for fine stamps.
const WIDE_COUNTERS: usize = 1 << 12;

/// A change of more fine buckets than this is counted by buckets.
const COUNTED_FINE_MAX: i64 = 256;

/// A change of more buckets than this is counted as one of all times.
const COUNTED_BUCKETS_MAX: i64 = 2_000;

/// A stamp has no more counts than this. Buckets of long times are counted together.
const STAMP_COUNTS_MAX: i64 = 1_024;

/// Longer times, a year and more, have no stamp.
const STAMP_BUCKETS_MAX: i64 = 1 << 19;

/// The hash of a tenant's name, which chooses the tenant's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct TenantKey(u32);

impl TenantKey {
    /// Changes that may be of any tenant.
    const ANY: TenantKey = TenantKey(0);

    pub(crate) fn of(tenant: &TenantId) -> TenantKey {
        TenantKey(RandomState::with_seeds(7, 1, 5, 3).hash_one(tenant.as_str()) as u32)
    }

    /// The tenant's counter of a bucket, among a power of two of counters.
    fn counter_of(self, counters: &[AtomicU64], bucket: i64) -> &AtomicU64 {
        // Buckets that follow each other have counters that do.
        let index = i64::from(self.0).wrapping_add(bucket) & (counters.len() as i64 - 1);
        &counters[index as usize]
    }

    fn tenant_index(self) -> usize {
        self.0 as usize % TENANT_COUNTERS
    }
}

fn bucket_of(time_ns: i64) -> i64 {
    time_ns >> BUCKET_BITS
}

fn fine_bucket_of(time_ns: i64) -> i64 {
    time_ns >> FINE_BITS
}

/// The counters of one shard. Only the shard adds to them.
#[derive(Debug)]
struct ShardCounters {
    counters: Box<[AtomicU64]>,
    fine: Box<[AtomicU64]>,
    wide: Box<[AtomicU64]>,
    all: AtomicU64,
}

impl ShardCounters {
    fn new() -> ShardCounters {
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        ShardCounters {
            counters: zeros(COUNTERS),
            fine: zeros(COUNTERS),
            wide: zeros(WIDE_COUNTERS),
            all: AtomicU64::new(0),
        }
    }

    /// The changes of a tenant in a bucket of a length.
    fn changes(&self, key: TenantKey, bucket: i64, bucket_bits: u32) -> u64 {
        let load = |counter: &AtomicU64| counter.load(Ordering::Acquire);
        if bucket_bits != FINE_BITS {
            return load(key.counter_of(&self.counters, bucket));
        }
        let wide = key.counter_of(&self.wide, bucket >> (BUCKET_BITS - FINE_BITS));
        load(key.counter_of(&self.fine, bucket)).wrapping_add(load(wide))
    }
}

/// Adds one, without a bus lock: there is one writer.
fn count(counter: &AtomicU64) {
    let next = counter.load(Ordering::Relaxed).wrapping_add(1);
    counter.store(next, Ordering::Release);
}

/// Counters of changes of long times that the requests for deletion make, by tenant.
const TENANT_COUNTERS: usize = 1 << 10;

/// The counters of all shards of a start. Clones are the same.
#[derive(Clone, Debug)]
pub struct NodeChanges(Arc<Counters>);

#[derive(Debug)]
struct Counters {
    /// One for each shard, and the last one for the keeper of the requests for deletion.
    columns: Box<[ShardCounters]>,
    /// Changes of long times of single tenants; the keeper counts them.
    tenants: Box<[AtomicU64]>,
}

impl NodeChanges {
    /// Counters of so many shards.
    pub fn new(shards: u16) -> NodeChanges {
        NodeChanges(Arc::new(Counters {
            columns: (0..=shards).map(|_| ShardCounters::new()).collect(),
            tenants: (0..TENANT_COUNTERS).map(|_| AtomicU64::new(0)).collect(),
        }))
    }

    /// Counts that other entries of a tenant are hidden between two times, both included, in ns.
    /// Only the keeper of the requests for deletion calls it.
    pub(crate) fn deletions_changed(&self, tenant: &TenantId, min_ns: i64, max_ns: i64) {
        let key = TenantKey::of(tenant);
        if bucket_of(max_ns) - bucket_of(min_ns) < COUNTED_BUCKETS_MAX {
            let column = self.0.columns.len() - 1;
            ShardChanges { node: self.clone(), shard: column }.changed(key, min_ns, max_ns);
        } else {
            // A change of all times of all tenants would cost the others their answers.
            count(&self.0.tenants[key.tenant_index()]);
        }
    }

    /// The side of a shard that counts.
    ///
    /// # Panics
    /// The node has no shard of this number.
    pub fn of_shard(&self, shard: u16) -> ShardChanges {
        assert!(usize::from(shard) + 1 < self.0.columns.len(), "no such shard");
        ShardChanges { node: self.clone(), shard: usize::from(shard) }
    }

    /// The number of changes in a time range up to this moment; `None` if the range is very long,
    /// or empty.
    pub fn stamp(&self, tenants: &[TenantId], range: TimeRange) -> Option<Stamp> {
        if range.start_ns >= range.end_ns {
            return None;
        }
        let (first, last) = (fine_bucket_of(range.start_ns), fine_bucket_of(range.end_ns - 1));
        let (first, last, bucket_bits) = match last - first < STAMP_COUNTS_MAX {
            true => (first, last, FINE_BITS),
            false => (bucket_of(range.start_ns), bucket_of(range.end_ns - 1), BUCKET_BITS),
        };
        if last - first >= STAMP_BUCKETS_MAX {
            return None;
        }
        let mut group_bits = 0;
        while (last >> group_bits) - (first >> group_bits) >= STAMP_COUNTS_MAX {
            group_bits += 1;
        }
        let groups = (first >> group_bits)..=(last >> group_bits);
        let mut stamp = Stamp {
            tenants: tenants.iter().map(TenantKey::of).collect(),
            first_group: *groups.start(),
            group_bits,
            bucket_bits,
            counts: vec![0; groups.count()].into(),
            all: 0,
        };
        self.take(&mut stamp);
        Some(stamp)
    }

    /// Times of the stamp, half-open and in ns, in which something has changed since it was
    /// taken.
    pub fn since(&self, stamp: &Stamp) -> Vec<(i64, i64)> {
        let mut now = stamp.clone();
        self.take(&mut now);
        if now.all != stamp.all {
            return vec![(i64::MIN, i64::MAX)];
        }
        let counts = now.counts.iter().zip(&stamp.counts).zip(stamp.first_group..);
        let changed = counts.filter(|((now, then), _)| now != then);
        changed.map(|(_, group)| times_of(group, stamp.group_bits + stamp.bucket_bits)).collect()
    }

    /// Fills in the counts.
    fn take(&self, stamp: &mut Stamp) {
        stamp.all = 0;
        stamp.counts.fill(0);
        for tenant in stamp.tenants.iter() {
            let counter = &self.0.tenants[tenant.tenant_index()];
            stamp.all = stamp.all.wrapping_add(counter.load(Ordering::Acquire));
        }
        for shard in self.0.columns.iter() {
            stamp.all = stamp.all.wrapping_add(shard.all.load(Ordering::Acquire));
            for (count, group) in stamp.counts.iter_mut().zip(stamp.first_group..) {
                let first = group << stamp.group_bits;
                for bucket in first..first + (1 << stamp.group_bits) {
                    for key in stamp.tenants.iter().chain([&TenantKey::ANY]) {
                        // Counters only grow, so a sum is the same only if all are.
                        let changes = shard.changes(*key, bucket, stamp.bucket_bits);
                        *count = count.wrapping_add(changes);
                    }
                }
            }
        }
    }
}

/// The times of a group of 2^`bits` ns.
fn times_of(group: i64, bits: u32) -> (i64, i64) {
    let ns = |group: i64| {
        let time = i128::from(group) << bits;
        i64::try_from(time).unwrap_or(if time < 0 { i64::MIN } else { i64::MAX })
    };
    (ns(group), ns(group + 1))
}

/// The number of changes in a time range, at the moment when the stamp was taken. See the module.
#[derive(Clone, Debug)]
pub struct Stamp {
    tenants: Box<[TenantKey]>,
    /// Groups of 2^`group_bits` buckets.
    first_group: i64,
    group_bits: u32,
    /// Of 2^`bucket_bits` ns.
    bucket_bits: u32,
    /// The sum of all counters of each group.
    counts: Box<[u64]>,
    all: u64,
}

impl Stamp {
    /// Bytes that it takes in memory.
    pub fn held_bytes(&self) -> usize {
        size_of::<Stamp>() + self.counts.len() * 8 + self.tenants.len() * 4
    }
}

/// The side of a shard, which counts.
#[derive(Clone, Debug)]
pub struct ShardChanges {
    node: NodeChanges,
    shard: usize,
}

impl ShardChanges {
    /// Counts a change of entries of a tenant between two times, both included, in ns.
    pub(crate) fn changed(&self, tenant: TenantKey, min_ns: i64, max_ns: i64) {
        let shard = &self.node.0.columns[self.shard];
        let (first, last) = (bucket_of(min_ns), bucket_of(max_ns));
        if last - first >= COUNTED_BUCKETS_MAX {
            count(&shard.all);
            return;
        }
        for bucket in first..=last {
            count(tenant.counter_of(&shard.counters, bucket));
        }
        let (first_fine, last_fine) = (fine_bucket_of(min_ns), fine_bucket_of(max_ns));
        if last_fine - first_fine < COUNTED_FINE_MAX {
            for bucket in first_fine..=last_fine {
                count(tenant.counter_of(&shard.fine, bucket));
            }
        } else {
            for bucket in first..=last {
                count(tenant.counter_of(&shard.wide, bucket));
            }
        }
    }

    /// Counts a change of entries of any tenants between two times.
    pub(crate) fn changed_for_all(&self, min_ns: i64, max_ns: i64) {
        self.changed(TenantKey::ANY, min_ns, max_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    const BUCKET_NS: i64 = 1 << BUCKET_BITS;
    const FINE_NS: i64 = 1 << FINE_BITS;

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).expect("a tenant")
    }

    #[test]
    fn changes_are_told_where_they_are() {
        for seed in seeds(100) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let changes = NodeChanges::new(3);
            let tenants = [tenant("a"), tenant("b")];
            let base = rng.below(1 << 60) as i64 - (1 << 59);
            let length = *rng.pick(&[10, 500, 3_000, 40_000]);
            let mut times = [0; 2].map(|_| base + (rng.below(length) as i64) * (BUCKET_NS / 3));
            times.sort_unstable();
            let range = TimeRange { start_ns: times[0], end_ns: times[1] + 1 };
            let noise = |rng: &mut Rng| {
                let at = base + (rng.below(length) as i64) * (BUCKET_NS / 3);
                changes.of_shard(rng.below(3) as u16).changed(
                    TenantKey::of(rng.pick(&tenants)),
                    at,
                    at + rng.below(3 * BUCKET_NS as u64) as i64,
                );
            };
            (0..20).for_each(|_| noise(&mut rng));
            let stamp = changes.stamp(&tenants[..1], range).expect("not too long");
            assert!(stamp.counts.len() as i64 <= STAMP_COUNTS_MAX);
            assert_eq!(changes.since(&stamp), []);
            let at = base + (rng.below(length) as i64) * (BUCKET_NS / 3);
            let end = at + rng.below(5 * BUCKET_NS as u64) as i64;
            let shard = changes.of_shard(rng.below(3) as u16);
            match rng.below(3) {
                0 => shard.changed_for_all(at, end),
                1 => shard.changed(TenantKey::of(&tenants[0]), at, end),
                _ => shard.changed(TenantKey::of(&tenants[0]), i64::MIN, i64::MAX),
            }
            let told = changes.since(&stamp);
            // Every moment of the change that the stamp is about is told.
            for time in [at, end, at.midpoint(end)] {
                let is_told = told.iter().any(|&(from, to)| from <= time && time < to);
                let is_asked = range.start_ns <= time && time < range.end_ns;
                assert!(is_told || !is_asked, "{range:?} {at}..={end} {told:?}");
            }
            // And other times are not, where counters are not shared.
            let is_near = |&(from, to): &(i64, i64)| {
                let group_ns = 1 << (stamp.bucket_bits + stamp.group_bits);
                from <= end && at < to && to.saturating_sub(from) <= group_ns
            };
            let shares = match stamp.bucket_bits {
                FINE_BITS => length > 10,
                _ => length > 3_000,
            };
            assert!(told.iter().all(is_near) || told.len() == 1 || shares, "{at}..={end} {told:?}");
        }
    }

    #[test]
    fn other_tenants_and_times_are_told_apart() {
        let changes = NodeChanges::new(1);
        // Too long for fine buckets.
        let range = TimeRange { start_ns: 0, end_ns: 100 * BUCKET_NS };
        let stamp = changes.stamp(&[tenant("a")], range).expect("not too long");
        let shard = changes.of_shard(0);
        shard.changed(TenantKey::of(&tenant("b")), 0, BUCKET_NS);
        shard.changed(TenantKey::of(&tenant("a")), 100 * BUCKET_NS, 120 * BUCKET_NS);
        assert_eq!(changes.since(&stamp), []);
        shard.changed(TenantKey::of(&tenant("a")), 3 * BUCKET_NS, 3 * BUCKET_NS);
        assert_eq!(changes.since(&stamp), [(3 * BUCKET_NS, 4 * BUCKET_NS)]);
        shard.changed_for_all(5 * BUCKET_NS - 1, 5 * BUCKET_NS);
        let told: Vec<i64> = changes.since(&stamp).iter().map(|t| t.0 / BUCKET_NS).collect();
        assert_eq!(told, [3, 4, 5]);
    }

    #[test]
    fn changes_of_short_times_are_told_finely() {
        let changes = NodeChanges::new(1);
        let range = TimeRange { start_ns: 0, end_ns: 1000 * FINE_NS };
        let of = || changes.stamp(&[tenant("a")], range).expect("not too long");
        let (shard, key) = (changes.of_shard(0), TenantKey::of(&tenant("a")));
        let stamp = of();
        shard.changed(key, 7 * FINE_NS, 8 * FINE_NS - 1);
        assert_eq!(changes.since(&stamp), [(7 * FINE_NS, 8 * FINE_NS)]);
        let stamp = of();
        shard.changed(key, 0, (COUNTED_FINE_MAX - 1) * FINE_NS);
        assert_eq!(changes.since(&stamp).len() as i64, COUNTED_FINE_MAX);
        // A longer change is one of the whole buckets around it.
        let stamp = of();
        shard.changed(key, 5 * FINE_NS, (5 + COUNTED_FINE_MAX) * FINE_NS);
        let told = changes.since(&stamp);
        assert_eq!(told.first(), Some(&(0, FINE_NS)));
        assert_eq!(told.last().map(|times| times.1), Some(COUNTED_FINE_MAX * FINE_NS + BUCKET_NS));
        let stamp = of();
        shard.changed(key, 1000 * FINE_NS, 1001 * FINE_NS);
        shard.changed(TenantKey::of(&tenant("b")), 0, FINE_NS);
        assert_eq!(changes.since(&stamp), []);
    }

    #[test]
    fn requests_for_deletion_change_the_answers_of_their_tenant_alone() {
        let changes = NodeChanges::new(2);
        let range = TimeRange { start_ns: 0, end_ns: 10 * BUCKET_NS };
        let of = |name| changes.stamp(&[tenant(name)], range).expect("not too long");
        let (a, b) = (of("a"), of("b"));
        changes.deletions_changed(&tenant("a"), 3 * BUCKET_NS, 3 * BUCKET_NS + 1);
        assert_eq!(changes.since(&a), [(3 * BUCKET_NS, 3 * BUCKET_NS + FINE_NS)]);
        assert_eq!(changes.since(&b), []);
        let a = of("a");
        changes.deletions_changed(&tenant("a"), 0, COUNTED_BUCKETS_MAX * BUCKET_NS);
        assert_eq!(changes.since(&a), [(i64::MIN, i64::MAX)]);
        changes.deletions_changed(&tenant("a"), i64::MIN, i64::MAX);
        assert_eq!(changes.since(&b), []);
    }

    #[test]
    fn times_at_the_ends_do_not_overflow() {
        let changes = NodeChanges::new(1);
        let of = |start_ns, end_ns| changes.stamp(&[tenant("a")], TimeRange { start_ns, end_ns });
        assert!(of(i64::MIN, i64::MAX).is_none() && of(5, 5).is_none());
        let late = of(i64::MAX - 5, i64::MAX).expect("short");
        let early = of(i64::MIN, i64::MIN + 5).expect("short");
        changes.of_shard(0).changed(TenantKey::of(&tenant("a")), i64::MAX, i64::MAX);
        assert_eq!(changes.since(&late), [(i64::MAX - FINE_NS + 1, i64::MAX)]);
        assert_eq!(changes.since(&early), []);
    }
}
