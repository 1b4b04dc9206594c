//! What goes wrong in the bucket in memory.

use std::ops::RangeInclusive;

/// A way to the bucket. A request that is on its way when it is cut takes effect, and its answer is
/// lost.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Way {
    /// It is whole.
    #[default]
    Open,
    /// Connections are refused, or break.
    Refused,
    /// Nothing comes back. The client notices it after half a minute.
    Silent,
}

/// What goes wrong.
#[derive(Clone, Debug)]
pub struct Faults {
    /// How long a request takes, in ns.
    pub latency_ns: RangeInclusive<u64>,
    /// One request in a hundred takes so many times as long.
    pub slow_factor: u64,
    /// Requests in a million that fail without an effect.
    pub failures_per_million: u64,
    /// Requests in a million whose answer is lost after the effect.
    pub lost_answers_per_million: u64,
    /// Creates in a million of free names that are answered with "exists" without an effect.
    pub conflicts_per_million: u64,
    /// Bodies in a million whose connection breaks while they are sent, and whose beginning the store
    /// keeps: of objects, if their names are free, and of parts. Besides, so many of those whose sender
    /// dies.
    pub torn_per_million: u64,
    /// Requests in a million that are answered with "slow down" without an effect.
    pub busy_per_million: u64,
    /// Whether nothing gets through.
    pub is_down: bool,
    /// Whether creates replace what exists.
    pub ignores_conditions: bool,
    /// Creates in a million that look whether their name is free before they take effect, and then
    /// replace what has come meanwhile.
    pub early_looks_per_million: u64,
    /// How long before, at most, in ns; but not before they were sent.
    pub early_look_ns: u64,
    /// Listings show objects only when they are so old, and removed ones as long, in ns.
    pub listing_lag_ns: u64,
    /// The most bytes of all objects together; beyond it creates are refused.
    pub capacity_bytes: u64,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults {
            latency_ns: 5_000_000..=60_000_000,
            slow_factor: 1,
            failures_per_million: 0,
            lost_answers_per_million: 0,
            conflicts_per_million: 0,
            torn_per_million: 0,
            busy_per_million: 0,
            is_down: false,
            ignores_conditions: false,
            early_looks_per_million: 0,
            early_look_ns: 0,
            listing_lag_ns: 0,
            capacity_bytes: u64::MAX,
        }
    }
}
