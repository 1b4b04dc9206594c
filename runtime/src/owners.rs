//! The owners of a [`crate::Budget`]'s bytes.
//!
//! A budget with owners counts each reservation for one owner of each kind, for example an address
//! and a tenant. Guarantee: while an owner waits for memory, no owner takes more than half of the
//! budget; at other times an owner may take all of it. What can go wrong: the number of buckets is
//! fixed, and owners that share a bucket count as one. A secret decides the bucket of an owner, so
//! that a client cannot aim at the bucket of another owner.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Monotonic;

/// Kinds of owners that a budget knows.
pub const OWNER_KINDS: usize = 2;

/// Buckets of each kind, besides the bucket for reservations without an owner.
const BUCKETS: u16 = 2047;

/// The owner of a reservation. The default belongs to no bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Owner {
    /// A bucket of each kind; 0 is none.
    buckets: [u16; OWNER_KINDS],
}

/// The owners of one budget, see the module's header.
pub(crate) struct Owners {
    /// Bytes held, by kind and bucket.
    held_bytes: [Box<[AtomicU64]>; OWNER_KINDS],
    /// Until when an owner below its share wants memory, by kind; zero if none does.
    wanted_until: [AtomicU64; OWNER_KINDS],
    secret: AtomicU64,
}

impl Owners {
    pub(crate) fn new() -> Owners {
        let buckets = || (0..=BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Owners {
            held_bytes: std::array::from_fn(|_| buckets()),
            wanted_until: std::array::from_fn(|_| AtomicU64::new(0)),
            secret: AtomicU64::new(0),
        }
    }

    /// Sets the secret that decides the buckets of owners, once.
    pub(crate) fn set_secret(&self, secret: u64) {
        // Whichever core comes first decides.
        let _ = self.secret.compare_exchange(0, secret | 1, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(crate) fn owner(&self, keys: [Option<u64>; OWNER_KINDS]) -> Owner {
        let secret = self.secret.load(Ordering::Relaxed);
        let bucket = |key: Option<u64>| {
            key.map_or(0, |key| 1 + (mixed(key, secret) % u64::from(BUCKETS)) as u16)
        };
        Owner { buckets: keys.map(bucket) }
    }

    fn of(&self, owner: Owner) -> impl Iterator<Item = (usize, &AtomicU64)> {
        let buckets = owner.buckets.into_iter().enumerate();
        buckets
            .filter(|(_, bucket)| *bucket > 0)
            .map(|(kind, bucket)| (kind, &self.held_bytes[kind][usize::from(bucket)]))
    }

    pub(crate) fn add(&self, owner: Owner, bytes: u64) {
        self.of(owner).for_each(|(_, held)| {
            held.fetch_add(bytes, Ordering::Relaxed);
        });
    }

    pub(crate) fn subtract(&self, owner: Owner, bytes: u64) {
        self.of(owner).for_each(|(_, held)| {
            held.fetch_sub(bytes, Ordering::Relaxed);
        });
    }

    /// Bytes in the fullest bucket of the owner.
    pub(crate) fn held_bytes(&self, owner: Owner) -> u64 {
        let held = self.of(owner).map(|(_, held)| held.load(Ordering::Relaxed));
        held.max().unwrap_or(0)
    }

    /// How far `more_bytes` would bring the owner over its share, while others want memory.
    pub(crate) fn excess_bytes(&self, owner: Owner, more_bytes: u64, max_bytes: u64) -> u64 {
        let excess = self.of(owner).map(|(kind, held)| {
            if self.wanted_until[kind].load(Ordering::Relaxed) == 0 {
                return 0;
            }
            held.load(Ordering::Relaxed).saturating_add(more_bytes).saturating_sub(max_bytes / 2)
        });
        excess.max().unwrap_or(0)
    }

    /// Notes that the owner found no memory, for each kind of which its bucket has not its
    /// share.
    pub(crate) fn want(&self, owner: Owner, max_bytes: u64, until: Monotonic) {
        for (kind, held) in self.of(owner) {
            if held.load(Ordering::Relaxed) <= max_bytes / 2 {
                self.wanted_until[kind].fetch_max(until.0, Ordering::Relaxed);
            }
        }
    }

    /// Forgets wants that are over. True if there are others.
    pub(crate) fn expire_wants(&self, now: Monotonic) -> bool {
        let mut is_wanted = false;
        for wanted in &self.wanted_until {
            let until = wanted.load(Ordering::Relaxed);
            if until == 0 {
                continue;
            }
            if until > now.0 {
                is_wanted = true;
            } else {
                // If it was moved meanwhile, it holds.
                let _ = wanted.compare_exchange(until, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
        is_wanted
    }
}

/// Spreads keys over buckets. The bucket of a key cannot be told without the secret.
fn mixed(key: u64, secret: u64) -> u64 {
    let folded = |left: u64, right: u64| {
        let product = u128::from(left) * u128::from(right);
        (product as u64) ^ (product >> 64) as u64
    };
    let once = folded(key ^ secret, 0x9e37_79b9_7f4a_7c15);
    folded(once ^ secret.rotate_left(32), 0xd6e8_feb8_6659_fd93)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Budget;

    fn owners(budget: &Budget) -> [Owner; 3] {
        budget.set_secret(7);
        let owner = |address| budget.owner([Some(address), None]);
        [owner(1), owner(2), owner(3)]
    }

    #[test]
    fn one_alone_may_take_all() {
        let budget = Budget::with_owners("test", 100);
        let [one, ..] = owners(&budget);
        let held = budget.try_reserve_for(one, 100).expect("nobody else wants some");
        assert_eq!(budget.held_bytes(one), 100);
        drop(held);
        assert_eq!(budget.held_bytes(one), 0);
    }

    #[test]
    fn who_has_half_gets_no_more_while_others_want() {
        let budget = Budget::with_owners("test", 100);
        let [one, two, three] = owners(&budget);
        let mut held = budget.try_reserve_for(one, 60).expect("there is room");
        budget.want(two, Monotonic(10));
        assert!(!held.try_grow(1));
        assert_eq!((budget.excess_bytes(one), budget.excess_bytes(two)), (10, 0));
        let _others = [two, three].map(|other| budget.try_reserve_for(other, 20).expect("a share"));
        assert!(budget.expire_wants(Monotonic(9)));
        assert!(!budget.expire_wants(Monotonic(10)));
        assert_eq!(budget.excess_bytes(one), 0);
        drop(held);
        assert!(budget.try_reserve_for(one, 60).is_some());
    }

    /// Others make no room for an owner that has more than half already.
    #[test]
    fn who_has_half_wants_nothing() {
        let budget = Budget::with_owners("test", 100);
        let [one, two, _] = owners(&budget);
        let _held = budget.try_reserve_for(one, 60).expect("there is room");
        budget.want(one, Monotonic(10));
        assert!(!budget.expire_wants(Monotonic(0)));
        assert!(budget.try_reserve_for(two, 40).is_some());
    }

    /// Tenants behind one address do not share the bytes of the address.
    #[test]
    fn kinds_are_apart() {
        let budget = Budget::with_owners("test", 100);
        let behind_proxy = |tenant| budget.owner([Some(1), Some(tenant)]);
        let (greedy, other) = (behind_proxy(1), behind_proxy(2));
        let mut held = budget.try_reserve_for(greedy, 90).expect("there is room");
        budget.want(other, Monotonic(10));
        assert!(!held.try_grow(1));
        assert!(budget.try_reserve_for(other, 10).is_some(), "the address is nobody's rival");
    }

    #[test]
    fn parts_of_reservations_stay_with_their_owners() {
        let budget = Budget::with_owners("test", 100);
        let [one, two, _] = owners(&budget);
        let mut first = budget.try_reserve_for(one, 50).expect("there is room");
        let part = first.split(20);
        drop(first);
        assert_eq!(budget.held_bytes(one), 20);
        let mut second = budget.try_reserve_for(two, 30).expect("there is room");
        second.merge(part);
        assert_eq!((budget.held_bytes(one), budget.held_bytes(two)), (0, 50));
        second.shrink_to(5);
        assert_eq!((budget.held_bytes(two), budget.used_bytes()), (5, 5));
    }
}
