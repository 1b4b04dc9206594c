//! How many tails each tenant has, over all cores, without a lock.
//!
//! Guarantees: a tenant never has more tails than its limit, except that two cores
//! which count a tenant's first two tails in the same moment may let one too many in.
//! If the table has no place left for a tenant, its tails are let in and not counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ahash::RandomState;
use logsvc_proto::TenantId;

/// Tenants whose tails are counted, about.
const TENANTS: usize = 4096;

/// Places that a tenant may have.
const NEIGHBOURS: usize = 16;

/// The lower bits of a place count tails, the others are the tenant's hash.
const COUNT_BITS: u32 = 20;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// See the module.
#[derive(Debug)]
pub(crate) struct TailCounts {
    places: Box<[AtomicU64]>,
}

/// A tail that is counted until this is dropped.
#[derive(Debug)]
pub(super) struct TailPermit {
    counts: Arc<TailCounts>,
    place: Option<usize>,
}

impl Drop for TailPermit {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.counts.places[place].fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl TailCounts {
    /// An empty table.
    pub(crate) fn new() -> TailCounts {
        TailCounts::for_tenants(TENANTS)
    }

    /// A table for about this many tenants.
    pub(super) fn for_tenants(tenants: usize) -> TailCounts {
        let size = tenants.max(NEIGHBOURS).next_power_of_two();
        TailCounts { places: (0..size).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Counts one more tail of a tenant, unless it has `limit` already; 0 is no limit.
    ///
    /// # Errors
    /// How many there would be.
    pub(super) fn add(
        self: &Arc<TailCounts>,
        tenant: &TenantId,
        limit: usize,
    ) -> Result<TailPermit, u64> {
        let hash = RandomState::with_seeds(3, 1, 4, 1).hash_one(tenant.as_str());
        let (tag, limit) = (hash & !COUNT_MASK, limit as u64);
        let home = (hash as usize) % self.places.len();
        let counted = |place| Ok(TailPermit { counts: Arc::clone(self), place });
        'again: loop {
            let mut free = None;
            for place in (0..NEIGHBOURS).map(|step| (home + step) % self.places.len()) {
                let found = self.places[place].load(Ordering::Relaxed);
                let count = found & COUNT_MASK;
                if count == 0 {
                    free = free.or(Some((place, found)));
                } else if found & !COUNT_MASK == tag {
                    if limit > 0 && count >= limit {
                        return Err(count + 1);
                    }
                    if count == COUNT_MASK {
                        return counted(None);
                    }
                    match self.exchange(place, found, found + 1) {
                        true => return counted(Some(place)),
                        false => continue 'again,
                    }
                }
            }
            match free {
                Some((place, found)) if self.exchange(place, found, tag | 1) => {
                    return counted(Some(place));
                }
                Some(_) => {}
                None => return counted(None),
            }
        }
    }

    fn exchange(&self, place: usize, found: u64, new: u64) -> bool {
        let (order, place) = (Ordering::Relaxed, &self.places[place]);
        place.compare_exchange(found, new, order, order).is_ok()
    }
}
