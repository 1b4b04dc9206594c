//! The entries that a tail has shown, so that it shows none twice.
//!
//! Guarantees: an entry whose time is not below [`Seen::forgotten_ns`] is new once. What is kept is
//! bounded by [`SEEN_MAX`] and by the memory for tails; the entries with the oldest times go first.

use std::collections::BTreeSet;

use logsvc_logql::engine::EntryPlace;
use logsvc_runtime::{Budget, Reservation};

/// Most entries that are remembered.
pub(super) const SEEN_MAX: usize = 1 << 16;

/// Memory of one of them, in bytes, about.
const SEEN_BYTES: u64 = 48;

/// See the module. Times are in ns since the Unix epoch.
pub(super) struct Seen {
    entries: BTreeSet<(i64, EntryPlace)>,
    forgotten_ns: i64,
    memory: Option<Reservation>,
    budget: Budget,
}

impl Seen {
    /// Nothing was shown.
    pub(super) fn new(budget: &Budget) -> Seen {
        Seen {
            entries: BTreeSet::new(),
            forgotten_ns: i64::MIN,
            memory: None,
            budget: budget.clone(),
        }
    }

    /// Remembers an entry that is shown. False if it was shown before, as far as that is known.
    pub(super) fn is_new(&mut self, timestamp_ns: i64, place: EntryPlace) -> bool {
        if timestamp_ns < self.forgotten_ns {
            return true;
        }
        if !self.entries.insert((timestamp_ns, place)) {
            return false;
        }
        let has_memory = match &mut self.memory {
            Some(memory) => memory.try_grow(SEEN_BYTES),
            None => {
                self.memory = self.budget.try_reserve(SEEN_BYTES);
                self.memory.is_some()
            }
        };
        if !has_memory || self.entries.len() > SEEN_MAX {
            self.forget_first();
        }
        true
    }

    fn forget_first(&mut self) {
        let Some((time_ns, _)) = self.entries.pop_first() else { return };
        self.forget_before(time_ns.saturating_add(1));
    }

    /// Forgets entries with times below this one.
    pub(super) fn forget_before(&mut self, time_ns: i64) {
        if time_ns <= self.forgotten_ns {
            return;
        }
        self.forgotten_ns = time_ns;
        while self.entries.first().is_some_and(|(first_ns, _)| *first_ns < time_ns) {
            self.entries.pop_first();
        }
        if let Some(memory) = &mut self.memory {
            memory.shrink_to(self.entries.len() as u64 * SEEN_BYTES);
        }
    }

    /// Entries with times below this one may have been shown although they are not remembered.
    pub(super) fn forgotten_ns(&self) -> i64 {
        self.forgotten_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: u64) -> EntryPlace {
        EntryPlace { stream_hash: number, entry_hash: 1 }
    }

    #[test]
    fn an_entry_is_new_once() {
        let budget = Budget::new("tails", 1 << 20);
        let mut seen = Seen::new(&budget);
        assert!(seen.is_new(5, place(1)) && seen.is_new(5, place(2)) && seen.is_new(6, place(1)));
        assert!(!seen.is_new(5, place(1)) && !seen.is_new(6, place(1)));
        assert_eq!(budget.used_bytes(), 3 * SEEN_BYTES);
        seen.forget_before(6);
        assert_eq!((seen.forgotten_ns(), budget.used_bytes()), (6, SEEN_BYTES));
        assert!(!seen.is_new(6, place(1)) && seen.is_new(5, place(1)));
    }

    #[test]
    fn the_oldest_are_forgotten_when_there_is_no_memory() {
        let budget = Budget::new("tails", 10 * SEEN_BYTES);
        let mut seen = Seen::new(&budget);
        assert!((0..100).all(|time_ns| seen.is_new(time_ns, place(1))));
        assert_eq!(seen.forgotten_ns(), 90);
        assert!((90..100).all(|time_ns| !seen.is_new(time_ns, place(1))));
        drop(seen);
        assert_eq!(budget.used_bytes(), 0);
    }
}
