//! The memory of one task that runs on several cores, as a part of a [`Budget`].
//!
//! A task starts with a guaranteed number of bytes, takes more from the budget when it needs
//! more, and never holds more than its own ceiling. All parts of the task take memory from one
//! [`Account`]. Each part holds its bytes as a [`Grant`], which can move to another core
//! together with the memory.
//!
//! Guarantees: the sum of all live grants of an account never exceeds its ceiling. The budget
//! always has at least that sum reserved. Bytes beyond the guaranteed ones return to the budget
//! when grants shrink.
//!
//! What can go wrong: an account counts the bytes that callers report, as a budget does. If
//! several parts ask for the last bytes at once, one can be refused although the request of
//! another one fails, too.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Budget, Reservation};

/// Why memory is not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// The task would hold more than it may ever hold.
    #[error("more than {max_bytes} bytes of memory would be held")]
    TooLarge {
        /// The ceiling of the account, in bytes.
        max_bytes: u64,
    },
    /// Others hold the budget now.
    #[error("there is no memory now")]
    Busy,
}

/// The memory of one task. Clones share the same count.
#[derive(Clone)]
pub struct Account {
    shared: Arc<Shared>,
}

struct Shared {
    budget: Budget,
    max_bytes: u64,
    /// Whether the task takes nothing from other budgets as long as it can.
    is_apart: bool,
    /// Sum of all grants.
    used_bytes: AtomicU64,
    /// The rest of the first bytes.
    first_bytes: AtomicU64,
    /// The first bytes.
    first: Reservation,
}

impl Account {
    /// An account that may hold `max_bytes`, of which it has `first_bytes` from the start.
    /// `None` if the budget has no room for these.
    pub fn open(budget: &Budget, first_bytes: u64, max_bytes: u64) -> Option<Account> {
        Account::with(budget, first_bytes, max_bytes, false)
    }

    /// [`Account::open`] for a task whose budget is there for tasks of its class alone: it takes
    /// the memory that it works on from this budget, too, see [`Account::apart_budget`].
    pub fn open_apart(budget: &Budget, first_bytes: u64, max_bytes: u64) -> Option<Account> {
        Account::with(budget, first_bytes, max_bytes, true)
    }

    fn with(budget: &Budget, first_bytes: u64, max_bytes: u64, is_apart: bool) -> Option<Account> {
        let shared = Shared {
            is_apart,
            budget: budget.clone(),
            max_bytes: max_bytes.max(first_bytes),
            used_bytes: AtomicU64::new(0),
            first_bytes: AtomicU64::new(first_bytes),
            first: budget.try_reserve(first_bytes)?,
        };
        Some(Account { shared: Arc::new(shared) })
    }

    /// An account with a budget of its own.
    pub fn alone(max_bytes: u64) -> Account {
        let budget = Budget::new("alone", max_bytes);
        Account::open(&budget, 0, max_bytes).expect("a budget has room for nothing")
    }

    /// An empty grant.
    pub fn grant(&self) -> Grant {
        Grant { account: self.clone(), first_bytes: 0, reservation: None }
    }

    /// The budget of an account that was opened with [`Account::open_apart`].
    pub fn apart_budget(&self) -> Option<&Budget> {
        self.shared.is_apart.then_some(&self.shared.budget)
    }

    /// Sum of all grants, in bytes.
    pub fn used_bytes(&self) -> u64 {
        self.shared.used_bytes.load(Ordering::Relaxed)
    }

    /// The ceiling in bytes.
    pub fn max_bytes(&self) -> u64 {
        self.shared.max_bytes
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account")
            .field("used_bytes", &self.used_bytes())
            .field("max_bytes", &self.max_bytes())
            .finish_non_exhaustive()
    }
}

/// Bytes of an [`Account`]; dropping it returns them.
#[must_use = "a dropped grant returns its bytes at once"]
#[derive(Debug)]
pub struct Grant {
    account: Account,
    /// The account's first bytes that the grant holds.
    first_bytes: u64,
    /// The bytes of the grant beyond the first bytes, taken from the budget.
    reservation: Option<Reservation>,
}

impl Grant {
    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.first_bytes + self.reserved_bytes()
    }

    /// Bytes of the budget that stay reserved for this grant's sake: its own ones beyond the
    /// guaranteed ones, and all guaranteed ones of its account.
    pub fn budget_bytes(&self) -> u64 {
        self.account.shared.first.bytes() + self.reserved_bytes()
    }

    fn reserved_bytes(&self) -> u64 {
        self.reservation.as_ref().map_or(0, Reservation::bytes)
    }

    /// Takes `more_bytes` in addition; on refusal nothing changes.
    ///
    /// # Errors
    /// The account would exceed its bound, or the budget has no room.
    pub fn grow(&mut self, more_bytes: u64) -> Result<(), Denied> {
        // As for a budget, the counters guard no other memory, so relaxed ordering is enough.
        let (order, shared) = (Ordering::Relaxed, &self.account.shared);
        let max_bytes = shared.max_bytes;
        let sum =
            |used_bytes: u64| used_bytes.checked_add(more_bytes).filter(|sum| *sum <= max_bytes);
        shared
            .used_bytes
            .fetch_update(order, order, sum)
            .map_err(|_| Denied::TooLarge { max_bytes })?;
        let left = |bytes: u64| Some(bytes - bytes.min(more_bytes));
        let (Ok(before_bytes) | Err(before_bytes)) =
            shared.first_bytes.fetch_update(order, order, left);
        let first_bytes = before_bytes.min(more_bytes);
        let missing_bytes = more_bytes - first_bytes;
        let is_reserved = match &mut self.reservation {
            _ if missing_bytes == 0 => true,
            Some(reservation) => reservation.try_grow(missing_bytes),
            None => {
                self.reservation = shared.budget.try_reserve(missing_bytes);
                self.reservation.is_some()
            }
        };
        if is_reserved {
            self.first_bytes += first_bytes;
            return Ok(());
        }
        shared.first_bytes.fetch_add(first_bytes, order);
        shared.used_bytes.fetch_sub(more_bytes, order);
        Err(Denied::Busy)
    }

    /// Returns all bytes above `bytes`, to the budget first. Does nothing if the grant holds less.
    pub fn shrink_to(&mut self, bytes: u64) {
        let surplus_bytes = self.bytes().saturating_sub(bytes);
        if surplus_bytes == 0 {
            return;
        }
        let of_budget_bytes = surplus_bytes.min(self.reserved_bytes());
        if let Some(reservation) = &mut self.reservation {
            reservation.shrink_to(reservation.bytes() - of_budget_bytes);
        }
        let shared = &self.account.shared;
        self.first_bytes -= surplus_bytes - of_budget_bytes;
        shared.first_bytes.fetch_add(surplus_bytes - of_budget_bytes, Ordering::Relaxed);
        shared.used_bytes.fetch_sub(surplus_bytes, Ordering::Relaxed);
    }

    /// An empty grant of the same account.
    pub fn sibling(&self) -> Grant {
        self.account.grant()
    }

    /// Moves all bytes of `other` into this grant.
    ///
    /// # Panics
    /// If the two belong to different accounts.
    pub fn merge(&mut self, mut other: Grant) {
        let is_same = Arc::ptr_eq(&self.account.shared, &other.account.shared);
        assert!(is_same, "grants of different accounts");
        self.first_bytes += std::mem::take(&mut other.first_bytes);
        match (&mut self.reservation, other.reservation.take()) {
            (Some(own), Some(others)) => own.merge(others),
            (own @ None, others) => *own = others,
            (Some(_), None) => {}
        }
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::on_thread;

    #[test]
    fn an_account_apart_tells_its_budget() {
        let budget = Budget::new("test", 1 << 20);
        let apart = Account::open_apart(&budget, 1000, 1 << 20).expect("fits");
        assert_eq!(apart.apart_budget().map(Budget::used_bytes), Some(1000));
        let shared = Account::open(&budget, 1000, 1 << 20).expect("fits");
        assert!(shared.apart_budget().is_none());
    }

    #[test]
    fn the_first_bytes_are_certain_and_others_are_taken_and_returned() {
        let budget = Budget::new("test", 1 << 20);
        let account = Account::open(&budget, 1000, 1 << 20).expect("fits");
        let others = budget.try_reserve((1 << 20) - 1000).expect("the rest");
        let mut grant = account.grant();
        grant.grow(1000).expect("certain");
        assert_eq!(grant.grow(1), Err(Denied::Busy));
        assert_eq!((grant.bytes(), account.used_bytes()), (1000, 1000));
        drop(others);
        grant.grow(200_000).expect("there is room now");
        assert_eq!((budget.used_bytes(), grant.budget_bytes()), (201_000, 201_000));
        let denied = Denied::TooLarge { max_bytes: 1 << 20 };
        assert_eq!(grant.grow(1 << 20), Err(denied));
        grant.shrink_to(10);
        assert_eq!((budget.used_bytes(), grant.budget_bytes()), (1000, 1000));
        drop(account);
        assert_eq!(budget.used_bytes(), 1000, "a grant keeps its account");
        drop(grant);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn an_account_needs_its_first_bytes() {
        let budget = Budget::new("test", 100);
        assert!(Account::open(&budget, 101, 200).is_none());
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn grants_of_an_account_merge() {
        let account = Account::open(&Budget::new("test", 100), 0, 100).expect("nothing to reserve");
        let mut all = account.grant();
        let mut part = all.sibling();
        part.grow(60).expect("fits");
        all.merge(part);
        assert_eq!((all.bytes(), account.used_bytes()), (60, 60));
        assert_eq!(account.grant().grow(41), Err(Denied::TooLarge { max_bytes: 100 }));
    }

    #[test]
    #[should_panic(expected = "different accounts")]
    fn grants_of_different_accounts_do_not_merge() {
        let budget = Budget::new("test", 100);
        let [one, other] = [0, 1].map(|_| Account::open(&budget, 0, 100).expect("empty"));
        one.grant().merge(other.grant());
    }

    #[test]
    fn what_is_used_is_always_reserved_while_cores_race() {
        let budget = Budget::new("test", 3 << 20);
        let account = Account::open(&budget, 5000, 2 << 20).expect("fits");
        let threads = [9_000, 200_000, 1_500_000].map(|bytes| {
            let (account, budget) = (account.clone(), budget.clone());
            on_thread(move || {
                for _ in 0..2_000 {
                    let mut grant = account.grant();
                    if grant.grow(bytes).is_ok() {
                        assert!(budget.used_bytes() >= grant.bytes());
                        assert!(account.used_bytes() <= 2 << 20);
                        grant.shrink_to(bytes / 3);
                    }
                }
            })
        });
        for thread in threads {
            thread.join().expect("no assertion failed");
        }
        assert_eq!(account.used_bytes(), 0);
        drop(account);
        assert_eq!(budget.used_bytes(), 0);
    }
}
