//! The limits of each tenant, which all cores share and which may change while the node runs.
//!
//! Guarantees: a core reads its own [`LimitsView`], and touches shared memory only to see
//! whether the limits have changed, which is one load of an atomic number. Limits that a change
//! leaves alone keep their [`Arc`], so a holder of a value that follows from limits can compare
//! pointers to see whether the value is still valid.

use std::cell::RefCell;
#[expect(
    clippy::disallowed_types,
    reason = "held for the copy of one pointer, and only after a change"
)]
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use ahash::{HashMap, RandomState};
use logsvc_proto::TenantId;

use super::Limits;
use super::ruler::LimitsOfAll;

/// The limits of all tenants at a time.
#[derive(Clone, Debug)]
pub(crate) struct LimitsOfTenants {
    /// For tenants without limits of their own.
    others: Arc<Limits>,
    /// SHA-256 of the files that say so; `None` if there are none.
    pub(crate) files_sha256: Option<[u8; 32]>,
    own: HashMap<TenantId, Arc<Limits>>,
}

impl LimitsOfTenants {
    /// The same limits for all tenants.
    pub(crate) fn same_for_all(limits: Limits) -> LimitsOfTenants {
        let own = HashMap::with_hasher(RandomState::with_seeds(21, 22, 23, 24));
        LimitsOfTenants { others: Arc::new(limits), files_sha256: None, own }
    }

    /// Gives a tenant limits of its own.
    pub(crate) fn set(&mut self, tenant: TenantId, limits: Limits) {
        self.own.insert(tenant, Arc::new(limits));
    }

    /// The limits of a tenant.
    pub(crate) fn of(&self, tenant: &TenantId) -> &Arc<Limits> {
        self.own.get(tenant).unwrap_or(&self.others)
    }

    /// The limits of tenants without limits of their own.
    pub(crate) fn others(&self) -> &Limits {
        &self.others
    }

    /// Their part for rules.
    pub(crate) fn of_rules(&self) -> LimitsOfAll<'_> {
        let own = self.own().map(|(tenant, limits)| (tenant, &limits.ruler)).collect();
        LimitsOfAll { others: &self.others.ruler, own }
    }

    /// Tenants with limits of their own, in no order.
    pub(crate) fn own(&self) -> impl Iterator<Item = (&TenantId, &Limits)> {
        self.own.iter().map(|(tenant, limits)| (tenant, &**limits))
    }

    /// Takes over equal values of `former`, so that pointers tell whether limits have changed.
    fn keep_equal(&mut self, former: &LimitsOfTenants) {
        if self.others == former.others {
            self.others = Arc::clone(&former.others);
        }
        for (tenant, limits) in &mut self.own {
            let was = former.of(tenant);
            if limits == was {
                *limits = Arc::clone(was);
            }
        }
    }
}

/// The limits that hold now. One for the node.
#[derive(Debug)]
pub(crate) struct TenantLimits {
    #[expect(clippy::disallowed_types, reason = "as above")]
    current: Mutex<Arc<LimitsOfTenants>>,
    /// Grows with each change.
    version: AtomicU64,
}

impl TenantLimits {
    /// Begins with these.
    #[expect(clippy::disallowed_types, reason = "as above")]
    pub(crate) fn new(limits: LimitsOfTenants) -> TenantLimits {
        TenantLimits { current: Mutex::new(Arc::new(limits)), version: AtomicU64::new(1) }
    }

    /// The limits in force.
    pub(crate) fn current(&self) -> Arc<LimitsOfTenants> {
        // Nothing can panic while it is held.
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the limits for all cores. Running work keeps the limits that it began with.
    pub(crate) fn replace(&self, mut limits: LimitsOfTenants) {
        limits.keep_equal(&self.current());
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(limits);
        self.version.fetch_add(1, Ordering::Release);
    }
}

/// The limits as a core sees them. Notices changes by itself.
#[derive(Debug)]
pub(crate) struct LimitsView {
    shared: Arc<TenantLimits>,
    seen: RefCell<(u64, Arc<LimitsOfTenants>)>,
}

impl LimitsView {
    /// A view of the limits of the node.
    pub(crate) fn new(shared: Arc<TenantLimits>) -> LimitsView {
        // Read before the limits: if they change in between they are read once more.
        let version = shared.version.load(Ordering::Acquire);
        let limits = shared.current();
        LimitsView { shared, seen: RefCell::new((version, limits)) }
    }

    /// The limits of a tenant.
    pub(crate) fn of(&self, tenant: &TenantId) -> Arc<Limits> {
        let version = self.shared.version.load(Ordering::Acquire);
        let mut seen = self.seen.borrow_mut();
        if seen.0 != version {
            *seen = (version, self.shared.current());
        }
        Arc::clone(seen.1.of(tenant))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(max_query_series: usize) -> Limits {
        Limits { max_query_series, ..Limits::default() }
    }

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).expect("a tenant")
    }

    #[test]
    fn views_follow_changes_and_keep_what_is_equal() {
        let (a, b, c) = (tenant("a"), tenant("b"), tenant("c"));
        let mut first = LimitsOfTenants::same_for_all(limits(1));
        first.set(a.clone(), limits(2));
        first.set(b.clone(), limits(3));
        let shared = Arc::new(TenantLimits::new(first));
        let view = LimitsView::new(Arc::clone(&shared));
        let series = |name: &TenantId| view.of(name).max_query_series;
        assert_eq!((series(&a), series(&b), series(&c)), (2, 3, 1));

        let (of_a, of_b, of_c) = (view.of(&a), view.of(&b), view.of(&c));
        let mut second = LimitsOfTenants::same_for_all(limits(1));
        second.set(a.clone(), limits(2));
        second.set(b.clone(), limits(4));
        shared.replace(second);
        assert_eq!((series(&a), series(&b), series(&c)), (2, 4, 1));
        assert!(Arc::ptr_eq(&of_a, &view.of(&a)) && Arc::ptr_eq(&of_c, &view.of(&c)));
        assert!(!Arc::ptr_eq(&of_b, &view.of(&b)));
        assert_eq!(of_b.max_query_series, 3, "what is held does not change");

        shared.replace(LimitsOfTenants::same_for_all(limits(5)));
        assert_eq!((series(&a), series(&b), series(&c)), (5, 5, 5));
    }
}
