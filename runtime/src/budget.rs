//! Ceilings on memory, counted in bytes and shared by all cores.
//!
//! Guarantees: the sum of all live [`Reservation`]s of a [`Budget`] never exceeds its ceiling, on
//! any interleaving of cores; dropping a reservation returns its bytes. Refusal is immediate: a
//! caller never waits for a budget, it answers "too busy". What can go wrong: a budget counts the
//! bytes that callers name, not the bytes that they allocate, so a caller that reserves less than
//! it takes breaks the ceiling.
//!
//! A budget may count the bytes of each owner, see [`crate::Owner`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Monotonic;
use crate::owners::{OWNER_KINDS, Owner, Owners};

/// A node-wide ceiling in bytes. Clones share the same count.
#[derive(Clone)]
pub struct Budget {
    shared: Arc<Shared>,
}

struct Shared {
    name: &'static str,
    max_bytes: u64,
    used_bytes: AtomicU64,
    peak_bytes: AtomicU64,
    refused_count: AtomicU64,
    owners: Option<Owners>,
}

impl Shared {
    /// The counters guard no other memory, so relaxed ordering is enough: a
    /// single atomic's modification order already keeps the sum under the
    /// ceiling.
    fn try_add(&self, owner: Owner, bytes: u64) -> bool {
        if self.excess_bytes(owner, bytes) > 0 {
            self.refused_count.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        let added =
            self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used_bytes| {
                used_bytes.checked_add(bytes).filter(|sum| *sum <= self.max_bytes)
            });
        match added {
            Ok(before_bytes) => {
                self.peak_bytes.fetch_max(before_bytes + bytes, Ordering::Relaxed);
                if let Some(owners) = &self.owners {
                    owners.add(owner, bytes);
                }
                true
            }
            Err(_) => {
                self.refused_count.fetch_add(1, Ordering::Relaxed);
                false
            }
        }
    }

    fn give_back(&self, owner: Owner, bytes: u64) {
        if let Some(owners) = &self.owners {
            owners.subtract(owner, bytes);
        }
        let before_bytes = self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before_bytes >= bytes, "budget {} returned more than it lent", self.name);
    }

    fn excess_bytes(&self, owner: Owner, more_bytes: u64) -> u64 {
        let owners = self.owners.as_ref();
        owners.map_or(0, |owners| owners.excess_bytes(owner, more_bytes, self.max_bytes))
    }
}

impl Budget {
    /// A budget of `max_bytes`. The name appears in metrics and in refusals.
    pub fn new(name: &'static str, max_bytes: u64) -> Budget {
        Budget::build(name, max_bytes, None)
    }

    /// A budget that counts the bytes of each owner.
    pub fn with_owners(name: &'static str, max_bytes: u64) -> Budget {
        Budget::build(name, max_bytes, Some(Owners::new()))
    }

    fn build(name: &'static str, max_bytes: u64, owners: Option<Owners>) -> Budget {
        Budget {
            shared: Arc::new(Shared {
                name,
                max_bytes,
                used_bytes: AtomicU64::new(0),
                peak_bytes: AtomicU64::new(0),
                refused_count: AtomicU64::new(0),
                owners,
            }),
        }
    }

    /// Takes `bytes` from the budget, or gives `None` and counts a refusal if
    /// the ceiling would be passed. Reserving zero bytes always works.
    pub fn try_reserve(&self, bytes: u64) -> Option<Reservation> {
        self.try_reserve_for(Owner::default(), bytes)
    }

    /// [`Budget::try_reserve`] for `owner`. Also gives `None` if another owner wants memory and
    /// this owner would have more than its share, half of the budget.
    pub fn try_reserve_for(&self, owner: Owner, bytes: u64) -> Option<Reservation> {
        let reserved = self.shared.try_add(owner, bytes);
        reserved.then(|| Reservation { shared: Arc::clone(&self.shared), bytes, owner })
    }

    /// The owner with these keys, one of each kind. It has no bucket of a kind without a key, and
    /// none at all in a budget without owners.
    pub fn owner(&self, keys: [Option<u64>; OWNER_KINDS]) -> Owner {
        self.shared.owners.as_ref().map_or(Owner::default(), |owners| owners.owner(keys))
    }

    /// Sets the secret that spreads keys over buckets. Only the first call counts, and it comes
    /// before owners are asked for.
    pub fn set_secret(&self, secret: u64) {
        if let Some(owners) = &self.shared.owners {
            owners.set_secret(secret);
        }
    }

    /// The bytes in the owner's bucket that holds most.
    pub fn held_bytes(&self, owner: Owner) -> u64 {
        self.shared.owners.as_ref().map_or(0, |owners| owners.held_bytes(owner))
    }

    /// How much more the owner holds than its share, if others want it.
    pub fn excess_bytes(&self, owner: Owner) -> u64 {
        self.shared.excess_bytes(owner, 0)
    }

    /// Says that the owner found no memory, so that until then others keep to their shares.
    pub fn want(&self, owner: Owner, until: Monotonic) {
        if let Some(owners) = &self.shared.owners {
            owners.want(owner, self.shared.max_bytes, until);
        }
    }

    /// Forgets wants up to `now`. True if an owner still wants memory.
    pub fn expire_wants(&self, now: Monotonic) -> bool {
        self.shared.owners.as_ref().is_some_and(|owners| owners.expire_wants(now))
    }

    /// The name given at construction.
    pub fn name(&self) -> &'static str {
        self.shared.name
    }

    /// Sum of all live reservations.
    pub fn used_bytes(&self) -> u64 {
        self.shared.used_bytes.load(Ordering::Relaxed)
    }

    /// The ceiling.
    pub fn max_bytes(&self) -> u64 {
        self.shared.max_bytes
    }

    /// The largest sum there ever was.
    pub fn peak_bytes(&self) -> u64 {
        self.shared.peak_bytes.load(Ordering::Relaxed)
    }

    /// How often a reservation or its growth was refused.
    pub fn refused_count(&self) -> u64 {
        self.shared.refused_count.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("name", &self.name())
            .field("used_bytes", &self.used_bytes())
            .field("max_bytes", &self.max_bytes())
            .finish()
    }
}

/// Bytes taken from a [`Budget`]; dropping it returns them. May travel to
/// another core together with the memory that it accounts for.
#[must_use = "a dropped reservation returns its bytes at once"]
pub struct Reservation {
    shared: Arc<Shared>,
    bytes: u64,
    owner: Owner,
}

impl Reservation {
    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes `more_bytes` in addition; on refusal nothing changes.
    #[must_use = "a refused growth must stop the allocation"]
    pub fn try_grow(&mut self, more_bytes: u64) -> bool {
        let grown = self.shared.try_add(self.owner, more_bytes);
        if grown {
            self.bytes += more_bytes;
        }
        grown
    }

    /// Returns all bytes above `bytes`. Does nothing if the reservation holds less.
    pub fn shrink_to(&mut self, bytes: u64) {
        let surplus_bytes = self.bytes.saturating_sub(bytes);
        self.shared.give_back(self.owner, surplus_bytes);
        self.bytes -= surplus_bytes;
    }

    /// Moves `bytes` of this reservation into a new one.
    ///
    /// # Panics
    /// If less than `bytes` are held: the caller would account for memory that
    /// it never reserved.
    pub fn split(&mut self, bytes: u64) -> Reservation {
        assert!(bytes <= self.bytes, "split of {bytes} from {} bytes", self.bytes);
        self.bytes -= bytes;
        Reservation { shared: Arc::clone(&self.shared), bytes, owner: self.owner }
    }

    /// Moves all bytes of `other` into this reservation.
    ///
    /// # Panics
    /// If the two belong to different budgets.
    pub fn merge(&mut self, mut other: Reservation) {
        assert!(Arc::ptr_eq(&self.shared, &other.shared), "reservations of different budgets");
        let bytes = std::mem::take(&mut other.bytes);
        if let Some(owners) = &self.shared.owners
            && self.owner != other.owner
        {
            owners.add(self.owner, bytes);
            owners.subtract(other.owner, bytes);
        }
        self.bytes += bytes;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shared.give_back(self.owner, self.bytes);
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reservation({} bytes of {})", self.bytes, self.shared.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::on_thread;

    #[test]
    fn reservations_add_up_and_return() {
        let budget = Budget::new("test", 100);
        let mut first = budget.try_reserve(60).expect("fits");
        assert!(budget.try_reserve(41).is_none());
        let second = budget.try_reserve(40).expect("fits exactly");
        assert_eq!(budget.used_bytes(), 100);
        assert!(!first.try_grow(1));
        drop(second);
        assert!(first.try_grow(10));
        assert_eq!((first.bytes(), budget.used_bytes()), (70, 70));
        first.shrink_to(80);
        assert_eq!(first.bytes(), 70);
        first.shrink_to(20);
        assert_eq!((first.bytes(), budget.used_bytes()), (20, 20));
        drop(first);
        assert_eq!((budget.used_bytes(), budget.peak_bytes()), (0, 100));
        assert_eq!(budget.refused_count(), 2);
    }

    #[test]
    fn huge_requests_are_refused_without_overflow() {
        let budget = Budget::new("test", u64::MAX);
        let _held = budget.try_reserve(2).expect("fits");
        assert!(budget.try_reserve(u64::MAX).is_none());
        assert_eq!(budget.used_bytes(), 2);
    }

    #[test]
    fn split_and_merge_keep_the_sum() {
        let budget = Budget::new("test", 100);
        let mut whole = budget.try_reserve(50).expect("fits");
        let part = whole.split(20);
        assert_eq!((whole.bytes(), part.bytes(), budget.used_bytes()), (30, 20, 50));
        whole.merge(part);
        assert_eq!((whole.bytes(), budget.used_bytes()), (50, 50));
        drop(whole.split(50));
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    #[should_panic(expected = "split of 2 from 1 bytes")]
    fn split_of_more_than_held_panics() {
        let _part = Budget::new("test", 9).try_reserve(1).expect("fits").split(2);
    }

    #[test]
    #[should_panic(expected = "different budgets")]
    fn merge_of_different_budgets_panics() {
        let [mut left, right] = ["a", "b"].map(|name| Budget::new(name, 1).try_reserve(1));
        left.as_mut().expect("fits").merge(right.expect("fits"));
    }

    #[test]
    fn ceiling_holds_while_cores_race() {
        let budget = Budget::new("test", 1000);
        let threads = [7, 300, 550].map(|bytes| {
            let budget = budget.clone();
            on_thread(move || {
                for _ in 0..5_000 {
                    if let Some(mut held) = budget.try_reserve(bytes) {
                        assert!(budget.used_bytes() <= 1000);
                        if held.try_grow(bytes / 2) {
                            drop(held.split(bytes));
                        }
                    }
                }
            })
        });
        for thread in threads {
            thread.join().expect("no assertion failed");
        }
        assert_eq!(budget.used_bytes(), 0);
        assert!(budget.peak_bytes() <= 1000);
    }
}
