//! Token buckets that all cores share, for the rates of tenants and streams.
//!
//! A bucket is one number, the time at which it is full again: taking bytes moves
//! that time on, and a push is refused if it came to lie further ahead than a full
//! bucket takes to fill (the generic cell rate algorithm, which decides exactly as a
//! token bucket does). So a core takes from a bucket with one atomic exchange and
//! never waits for another core.
//!
//! Buckets live in a table of fixed size. One that is full holds no information, so
//! its place may be taken by another. If every place that a bucket may have is in
//! use, the fullest one is forgotten: limits then err on the generous side. While a
//! place changes hands, one push of another core may be charged to the wrong bucket.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use logsvc_runtime::Monotonic;

/// Places that a bucket may have.
const NEIGHBOURS: usize = 8;

/// Rounds after which a push is let through instead of fighting on for its bucket.
const ROUNDS_MAX: usize = 64;

/// How fast and how much.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Rate {
    /// Bytes per second, more than 0.
    pub(crate) bytes_per_s: f64,
    /// Bytes of a full bucket.
    pub(crate) burst_bytes: f64,
}

impl Rate {
    fn fill_time_ns(&self, bytes: f64) -> u64 {
        // Casting saturates, and NaN becomes 0.
        (bytes / self.bytes_per_s * 1e9) as u64
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct TokenBuckets {
    buckets: Box<[Bucket]>,
}

#[derive(Debug, Default)]
struct Bucket {
    /// Whose bucket it is; 0 if nobody's.
    owner: AtomicU64,
    /// When it is full again, on the monotonic clock.
    full_at_ns: AtomicU64,
}

impl TokenBuckets {
    /// A table with at least this many places.
    pub(crate) fn new(places: usize) -> TokenBuckets {
        let places = places.max(NEIGHBOURS).next_power_of_two();
        TokenBuckets { buckets: (0..places).map(|_| Bucket::default()).collect() }
    }

    /// Takes `bytes` from the bucket of `owner`, a hash.
    ///
    /// # Errors
    /// The bucket does not hold them. Gives the time after which it may; a push that
    /// is larger than the bucket never gets in.
    pub(crate) fn take(
        &self,
        owner: u64,
        bytes: u64,
        rate: &Rate,
        now: Monotonic,
    ) -> Result<(), Duration> {
        let owner = owner.max(1);
        let cost_ns = rate.fill_time_ns(bytes as f64);
        let burst_ns = rate.fill_time_ns(rate.burst_bytes);
        for _ in 0..ROUNDS_MAX {
            let Some(bucket) = self.place(owner, now) else { continue };
            let full_at_ns = bucket.full_at_ns.load(Ordering::Acquire);
            let then_ns = full_at_ns.max(now.0).saturating_add(cost_ns);
            let ahead_ns = then_ns - now.0;
            if ahead_ns > burst_ns {
                return Err(Duration::from_nanos(ahead_ns - burst_ns));
            }
            let exchanged = bucket.full_at_ns.compare_exchange(
                full_at_ns,
                then_ns,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if exchanged.is_ok() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// How long it takes until the bucket of `owner` holds `bytes`; `None` if it does, or never
    /// will. Nothing is taken.
    pub(crate) fn wait(
        &self,
        owner: u64,
        bytes: u64,
        rate: &Rate,
        now: Monotonic,
    ) -> Option<Duration> {
        let (cost_ns, burst_ns) =
            (rate.fill_time_ns(bytes as f64), rate.fill_time_ns(rate.burst_bytes));
        let bucket = self.place(owner.max(1), now)?;
        let full_at_ns = bucket.full_at_ns.load(Ordering::Acquire).max(now.0);
        let ahead_ns = full_at_ns.saturating_add(cost_ns) - now.0;
        (cost_ns <= burst_ns && ahead_ns > burst_ns)
            .then(|| Duration::from_nanos(ahead_ns - burst_ns))
    }

    /// The place of a bucket, newly taken if it has none. `None`: another core was
    /// faster, look again.
    fn place(&self, owner: u64, now: Monotonic) -> Option<&Bucket> {
        let mask = self.buckets.len() - 1;
        // Hashes of streams choose their shard by other bits than these.
        let first = owner as usize;
        let neighbours = (0..NEIGHBOURS).map(|step| &self.buckets[(first + step) & mask]);
        let mut emptiest: Option<(&Bucket, u64, u64)> = None;
        for bucket in neighbours {
            let found = bucket.owner.load(Ordering::Acquire);
            if found == owner {
                return Some(bucket);
            }
            let full_at_ns = bucket.full_at_ns.load(Ordering::Acquire).max(now.0);
            if emptiest.is_none_or(|(_, _, least_ns)| full_at_ns < least_ns) {
                emptiest = Some((bucket, found, full_at_ns));
            }
        }
        let (bucket, found, _) = emptiest?;
        bucket.owner.compare_exchange(found, owner, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        // The debt of the former owner ends with its place.
        bucket.full_at_ns.store(0, Ordering::Release);
        Some(bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn rate(bytes_per_s: f64, burst_bytes: f64) -> Rate {
        Rate { bytes_per_s, burst_bytes }
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let buckets = TokenBuckets::new(16);
        let rate = rate(100.0, 300.0);
        let take = |at_ns, bytes| buckets.take(7, bytes, &rate, Monotonic(at_ns));
        assert_eq!(take(S, 301), Err(Duration::from_millis(10)), "more than a full bucket");
        assert_eq!(take(S, 200), Ok(()));
        assert_eq!(take(S, 100), Ok(()));
        assert_eq!(take(S, 1), Err(Duration::from_millis(10)));
        assert_eq!(take(2 * S, 101), Err(Duration::from_millis(10)));
        assert_eq!(take(2 * S, 100), Ok(()));
        assert_eq!(take(100 * S, 300), Ok(()), "it never holds more than its burst");
        assert_eq!(take(100 * S, 1), Err(Duration::from_millis(10)));
        assert_eq!(take(100 * S, 0), Ok(()));
    }

    #[test]
    fn a_wait_takes_nothing() {
        let buckets = TokenBuckets::new(16);
        let rate = rate(100.0, 300.0);
        let now = Monotonic(S);
        assert_eq!(buckets.wait(7, 300, &rate, now), None);
        assert_eq!(buckets.take(7, 300, &rate, now), Ok(()));
        for _ in 0..2 {
            assert_eq!(buckets.wait(7, 50, &rate, now), Some(Duration::from_millis(500)));
        }
        assert_eq!(buckets.wait(7, 50, &rate, Monotonic(2 * S)), None);
        assert_eq!(buckets.wait(7, 301, &rate, now), None, "no wait is long enough");
    }

    #[test]
    fn buckets_do_not_share() {
        let buckets = TokenBuckets::new(1024);
        let rate = rate(1.0, 10.0);
        for owner in 0..100u64 {
            let owner = owner.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7;
            assert_eq!(buckets.take(owner, 10, &rate, Monotonic(S)), Ok(()), "{owner}");
            assert!(buckets.take(owner, 1, &rate, Monotonic(S)).is_err(), "{owner}");
        }
    }

    #[test]
    fn full_buckets_make_room_and_a_crowd_errs_on_the_generous_side() {
        let buckets = TokenBuckets::new(NEIGHBOURS);
        let rate = rate(1.0, 10.0);
        for owner in 1..=NEIGHBOURS as u64 {
            assert_eq!(buckets.take(owner, owner, &rate, Monotonic(0)), Ok(()));
        }
        // The first owner's bucket is the fullest.
        assert_eq!(buckets.take(99, 10, &rate, Monotonic(0)), Ok(()));
        assert_eq!(buckets.take(99, 1, &rate, Monotonic(0)), Err(Duration::from_secs(1)));
        assert!(buckets.take(2, 9, &rate, Monotonic(0)).is_err(), "this one was kept");
        assert_eq!(buckets.take(1, 10, &rate, Monotonic(0)), Ok(()), "this one was forgotten");
    }

    /// Whatever the cores do at once, no more gets in than burst and rate allow.
    #[test]
    fn racing_cores_share_one_bucket() {
        let buckets = TokenBuckets::new(64);
        let rate = rate(1.0, 5_000.0);
        let let_in: u64 = std::thread::scope(|scope| {
            let pusher = || (0..4_000).filter(|_| buckets.take(3, 1, &rate, Monotonic(S)).is_ok());
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(move || pusher().count() as u64)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!(let_in, 5_000);
    }
}
