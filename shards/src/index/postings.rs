//! The streams that have one value of a label.

use super::Slot;

/// Slots in rising order, at least one. Most values of labels with many values have one
/// stream, so one takes no memory of its own.
#[derive(Debug)]
pub(super) enum Postings {
    One(Slot),
    Many(Vec<Slot>),
}

impl Postings {
    /// The slots, rising.
    pub(super) fn slots(&self) -> &[Slot] {
        match self {
            Postings::One(slot) => std::slice::from_ref(slot),
            Postings::Many(slots) => slots,
        }
    }

    pub(super) fn add(&mut self, slot: Slot) {
        match self {
            Postings::One(held) if *held == slot => {}
            Postings::One(held) => {
                *self = Postings::Many(vec![slot.min(*held), slot.max(*held)]);
            }
            Postings::Many(slots) => add(slots, slot),
        }
    }

    /// Takes a slot out. Returns whether none is left.
    pub(super) fn take(&mut self, slot: Slot) -> bool {
        match self {
            Postings::One(held) => *held == slot,
            Postings::Many(slots) => {
                take(slots, slot);
                if let &mut [left] = slots.as_mut_slice() {
                    *self = Postings::One(left);
                }
                false
            }
        }
    }
}

/// Adds a slot to slots in rising order.
pub(super) fn add(slots: &mut Vec<Slot>, slot: Slot) {
    if slots.last().is_none_or(|&last| last < slot) {
        slots.push(slot);
    } else if let Err(position) = slots.binary_search(&slot) {
        slots.insert(position, slot);
    }
}

/// Takes a slot out of slots in rising order.
pub(super) fn take(slots: &mut Vec<Slot>, slot: Slot) {
    if let Ok(position) = slots.binary_search(&slot) {
        slots.remove(position);
    }
}
