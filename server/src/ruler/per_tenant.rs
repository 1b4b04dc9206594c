//! Settings of tenants, made out of those of the node and the limits of the tenant.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use logsvc_proto::TenantId;

use crate::config::{Limits, RulerLimits, RulerSettings};
use crate::node::NodeState;

type Make<T> = fn(&RulerSettings, &RulerLimits) -> T;

/// Values of tenants, with the limits that they were made of.
type Made<T> = BTreeMap<TenantId, (Arc<Limits>, Arc<T>)>;

/// One value per tenant, made anew when the limits of the tenant have changed. While they have not,
/// the same `Arc` comes, so that users tell a change by its address.
pub(super) struct PerTenant<T> {
    node: Arc<NodeState>,
    make: Make<T>,
    made: RefCell<Made<T>>,
}

impl<T: PartialEq> PerTenant<T> {
    pub(super) fn new(node: &Arc<NodeState>, make: Make<T>) -> PerTenant<T> {
        PerTenant { node: Arc::clone(node), make, made: RefCell::default() }
    }

    /// The value of a tenant at this moment.
    pub(super) fn of(&self, tenant: &TenantId) -> Arc<T> {
        let limits = Arc::clone(self.node.limits.current().of(tenant));
        let mut made = self.made.borrow_mut();
        let known = made.get(tenant);
        if let Some((of_limits, value)) = known
            && Arc::ptr_eq(of_limits, &limits)
        {
            return Arc::clone(value);
        }
        let value = (self.make)(&self.node.config.ruler, &limits.ruler);
        let value = match known {
            // Other limits have changed.
            Some((_, before)) if **before == value => Arc::clone(before),
            _ => Arc::new(value),
        };
        made.insert(tenant.clone(), (limits, Arc::clone(&value)));
        value
    }

    /// Forgets a tenant that has no rules.
    pub(super) fn forget(&self, tenant: &TenantId) {
        self.made.borrow_mut().remove(tenant);
    }
}
