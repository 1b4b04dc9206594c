//! Clocks of nodes that are not right.
//!
//! Guarantees: a monotonic clock never goes back, whatever its rate is set to. Who sleeps until a time
//! of the own clock wakes when that clock has come to it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::world::NodeId;
use crate::Monotonic;

/// The rate of a clock that is right.
const RIGHT: u64 = 1_000_000;

/// The clock of a node.
#[derive(Clone, Copy)]
struct Clock {
    /// How far it goes while the right one goes a million.
    rate_per_million: u64,
    /// The right time at which it was set, and its own at this moment.
    set_nanos: u64,
    own_nanos: u64,
    /// How far its wall time is ahead.
    ahead_nanos: i64,
}

impl Clock {
    const EXACT: Clock =
        Clock { rate_per_million: RIGHT, set_nanos: 0, own_nanos: 0, ahead_nanos: 0 };

    fn own(&self, right_nanos: u64) -> u64 {
        let passed = u128::from(right_nanos.saturating_sub(self.set_nanos));
        let own = passed * u128::from(self.rate_per_million) / u128::from(RIGHT);
        self.own_nanos.saturating_add(u64::try_from(own).unwrap_or(u64::MAX))
    }

    /// The first right time at which it shows `own_nanos` or more.
    fn right(&self, own_nanos: u64) -> u64 {
        let left = u128::from(own_nanos.saturating_sub(self.own_nanos));
        let right = (left * u128::from(RIGHT)).div_ceil(u128::from(self.rate_per_million));
        self.set_nanos.saturating_add(u64::try_from(right).unwrap_or(u64::MAX))
    }
}

/// The clocks of the nodes that have one of their own.
#[derive(Default)]
pub(super) struct Clocks(RefCell<BTreeMap<NodeId, Clock>>);

impl Clocks {
    fn of(&self, node: NodeId) -> Option<Clock> {
        self.0.borrow().get(&node).copied()
    }

    /// What the clock of a node shows.
    pub(super) fn own(&self, node: NodeId, right_nanos: u64) -> Monotonic {
        Monotonic(self.of(node).map_or(right_nanos, |clock| clock.own(right_nanos)))
    }

    /// When the clock of a node shows a time, by the right clock.
    pub(super) fn right(&self, node: NodeId, own: Monotonic) -> Monotonic {
        match self.of(node) {
            Some(clock) if own != Monotonic::NEVER => Monotonic(clock.right(own.0)),
            _ => own,
        }
    }

    pub(super) fn ahead_nanos(&self, node: NodeId) -> i64 {
        self.of(node).map_or(0, |clock| clock.ahead_nanos)
    }

    fn change(&self, node: NodeId, change: impl FnOnce(&mut Clock)) {
        change(self.0.borrow_mut().entry(node).or_insert(Clock::EXACT));
    }

    pub(super) fn set_rate(&self, node: NodeId, right_nanos: u64, rate_per_million: u64) {
        assert!(rate_per_million > 0, "a clock goes on");
        self.change(node, |clock| {
            clock.own_nanos = clock.own(right_nanos);
            (clock.set_nanos, clock.rate_per_million) = (right_nanos, rate_per_million);
        });
    }

    pub(super) fn shift_wall(&self, node: NodeId, by_nanos: i64) {
        self.change(node, |clock| clock.ahead_nanos = clock.ahead_nanos.saturating_add(by_nanos));
    }
}
