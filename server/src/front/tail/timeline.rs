//! Puts entries in order of time and holds them back for a while.
//!
//! An entry is due when `delay_for` has passed since its time, or since it came if its
//! time lies in the future. Entries leave in order of time; equal times keep the order
//! in which they came.

use std::collections::BTreeMap;
use std::rc::Rc;

use logsvc_runtime::{Budget, Reservation};

use super::frame::Entry;

/// Most memory of the entries of one timeline, in bytes.
const HELD_MAX_BYTES: u64 = 16 << 20;

struct Held {
    due_ns: i64,
    epoch: u64,
    entry: Rc<Entry>,
}

/// See the module. Times are in ns since the Unix epoch.
pub(super) struct Timeline {
    delay_ns: i64,
    held: BTreeMap<(i64, u64), Held>,
    /// Entries that came so far; tells equal times apart.
    came: u64,
    memory: Option<Reservation>,
    budget: Budget,
}

impl Timeline {
    /// Holds entries for `delay_s` seconds.
    pub(super) fn new(delay_s: u32, budget: &Budget) -> Timeline {
        Timeline {
            delay_ns: i64::from(delay_s) * 1_000_000_000,
            held: BTreeMap::new(),
            came: 0,
            memory: None,
            budget: budget.clone(),
        }
    }

    /// Takes an entry that came at `now_ns`. Gives it back if there is no memory for it.
    pub(super) fn push(
        &mut self,
        entry: Rc<Entry>,
        epoch: u64,
        now_ns: i64,
    ) -> Result<(), Rc<Entry>> {
        let due_ns = entry.timestamp_ns.min(now_ns).saturating_add(self.delay_ns);
        self.push_due(entry, epoch, due_ns)
    }

    /// [`Timeline::push`] for an entry that is due at a known time.
    pub(super) fn push_due(
        &mut self,
        entry: Rc<Entry>,
        epoch: u64,
        due_ns: i64,
    ) -> Result<(), Rc<Entry>> {
        let bytes = entry.held_bytes();
        let has_memory = match &mut self.memory {
            Some(memory) => memory.bytes() + bytes <= HELD_MAX_BYTES && memory.try_grow(bytes),
            None => {
                self.memory = self.budget.try_reserve(bytes);
                self.memory.is_some()
            }
        };
        if !has_memory {
            return Err(entry);
        }
        self.came += 1;
        self.held.insert((entry.timestamp_ns, self.came), Held { due_ns, epoch, entry });
        Ok(())
    }

    /// When the next entry is due.
    pub(super) fn next_due_ns(&self) -> Option<i64> {
        self.held.first_key_value().map(|(_, held)| held.due_ns)
    }

    /// Whether nothing is held.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The entries that are due, with their epochs.
    pub(super) fn release(&mut self, now_ns: i64) -> Vec<(u64, Rc<Entry>)> {
        let mut released = Vec::new();
        while let Some(first) = self.held.first_entry() {
            if first.get().due_ns > now_ns {
                break;
            }
            let Held { epoch, entry, .. } = first.remove();
            if let Some(memory) = &mut self.memory {
                memory.shrink_to(memory.bytes().saturating_sub(entry.held_bytes()));
            }
            released.push((epoch, entry));
        }
        if self.held.is_empty() {
            self.memory = None;
        }
        released
    }
}
