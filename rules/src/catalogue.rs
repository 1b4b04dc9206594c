//! The rule groups of tenants in memory, by namespace and name.
//!
//! Guarantees: namespaces and groups are in the order of their bytes. Groups are shared: a change
//! of one group leaves the others the same values. The count of bytes is what the groups take, as
//! [`RuleGroup::held_bytes`] estimates.

use std::collections::BTreeMap;
use std::sync::Arc;

use logsvc_proto::TenantId;

use crate::model::RuleGroup;

/// The groups of a namespace by their names.
pub type Namespace = BTreeMap<Arc<str>, Arc<RuleGroup>>;

/// The groups of a tenant. No namespace is empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TenantGroups {
    namespaces: BTreeMap<Arc<str>, Namespace>,
}

impl TenantGroups {
    /// Whether there is no group.
    pub fn is_empty(&self) -> bool {
        self.namespaces.is_empty()
    }

    /// How many groups there are, in all namespaces.
    pub fn len(&self) -> usize {
        self.namespaces.values().map(BTreeMap::len).sum()
    }

    /// All namespaces in order, each with its groups.
    pub fn namespaces(&self) -> impl Iterator<Item = (&Arc<str>, &Namespace)> {
        self.namespaces.iter()
    }

    /// All groups by namespace, then by name.
    pub fn groups(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, &Arc<RuleGroup>)> {
        let all = self.namespaces.iter();
        all.flat_map(|(namespace, groups)| {
            groups.iter().map(move |(name, group)| (namespace, name, group))
        })
    }

    /// The groups of a namespace.
    pub fn namespace(&self, namespace: &str) -> Option<&Namespace> {
        self.namespaces.get(namespace)
    }

    /// One group.
    pub fn group(&self, namespace: &str, name: &str) -> Option<&Arc<RuleGroup>> {
        self.namespaces.get(namespace)?.get(name)
    }

    /// Adds a group or replaces the one of its name, which is returned.
    pub fn insert(&mut self, namespace: &str, group: Arc<RuleGroup>) -> Option<Arc<RuleGroup>> {
        let name: Arc<str> = group.name.as_str().into();
        match self.namespaces.get_mut(namespace) {
            Some(groups) => groups.insert(name, group),
            None => {
                self.namespaces.insert(namespace.into(), Namespace::from([(name, group)]));
                None
            }
        }
    }

    /// Takes a group out.
    pub fn remove(&mut self, namespace: &str, name: &str) -> Option<Arc<RuleGroup>> {
        let groups = self.namespaces.get_mut(namespace)?;
        let removed = groups.remove(name);
        if groups.is_empty() {
            self.namespaces.remove(namespace);
        }
        removed
    }

    /// What the groups take, in bytes.
    pub fn held_bytes(&self) -> u64 {
        self.groups().map(|(namespace, _, group)| group_bytes(namespace, group)).sum()
    }
}

/// The groups of all tenants, with their count of bytes.
#[derive(Debug, Default)]
pub struct Catalogue {
    tenants: BTreeMap<TenantId, TenantGroups>,
    held_bytes: u64,
}

impl Catalogue {
    /// The groups of a tenant; none for a tenant that is unknown.
    pub fn tenant(&self, tenant: &TenantId) -> Option<&TenantGroups> {
        self.tenants.get(tenant)
    }

    /// All tenants that have groups.
    pub fn tenants(&self) -> impl Iterator<Item = (&TenantId, &TenantGroups)> {
        self.tenants.iter()
    }

    /// What all groups take, in bytes.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// What all groups would take if this one replaced the one of its name, in bytes.
    pub fn held_bytes_with(&self, tenant: &TenantId, namespace: &str, group: &RuleGroup) -> u64 {
        let before = self.tenant(tenant).and_then(|groups| groups.group(namespace, &group.name));
        let before_bytes = before.map_or(0, |before| group_bytes(namespace, before));
        self.held_bytes - before_bytes + group_bytes(namespace, group)
    }

    /// Adds a group or replaces the one of its name.
    pub fn insert(&mut self, tenant: &TenantId, namespace: &str, group: Arc<RuleGroup>) {
        self.held_bytes += group_bytes(namespace, &group);
        let groups = self.tenants.entry(tenant.clone()).or_default();
        if let Some(before) = groups.insert(namespace, group) {
            self.held_bytes -= group_bytes(namespace, &before);
        }
    }

    /// Takes a group out. False: it was not there.
    pub fn remove(&mut self, tenant: &TenantId, namespace: &str, name: &str) -> bool {
        let Some(groups) = self.tenants.get_mut(tenant) else { return false };
        let removed = groups.remove(namespace, name);
        if groups.is_empty() {
            self.tenants.remove(tenant);
        }
        self.held_bytes -= removed.as_ref().map_or(0, |group| group_bytes(namespace, group));
        removed.is_some()
    }

    /// Replaces all groups of a tenant.
    pub fn replace(&mut self, tenant: &TenantId, groups: TenantGroups) {
        let added_bytes = groups.held_bytes();
        let before = match groups.is_empty() {
            true => self.tenants.remove(tenant),
            false => self.tenants.insert(tenant.clone(), groups),
        };
        let removed_bytes = before.map_or(0, |before| before.held_bytes());
        self.held_bytes = self.held_bytes + added_bytes - removed_bytes;
    }
}

fn group_bytes(namespace: &str, group: &RuleGroup) -> u64 {
    group.held_bytes() + namespace.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(id: &str) -> TenantId {
        TenantId::new(id).expect("a tenant")
    }

    fn group(name: &str, limit: u64) -> Arc<RuleGroup> {
        Arc::new(RuleGroup { name: name.to_owned(), limit, ..RuleGroup::default() })
    }

    #[test]
    fn bytes_are_counted_through_all_changes() {
        let (mut all, t1, t2) = (Catalogue::default(), tenant("t1"), tenant("t2"));
        all.insert(&t1, "b", group("g", 1));
        let one = all.held_bytes();
        assert_eq!(all.held_bytes_with(&t1, "b", &group("g", 2)), one);
        assert_eq!(all.held_bytes_with(&t2, "b", &group("g", 2)), 2 * one);
        all.insert(&t1, "b", group("g", 2));
        assert_eq!(all.held_bytes(), one);
        all.insert(&t1, "a", group("h", 2));
        all.insert(&t2, "a", group("h", 2));
        assert_eq!(all.held_bytes(), 3 * one);
        let names = |all: &Catalogue| {
            let groups = all.tenant(&t1).expect("groups").groups();
            groups.map(|(namespace, name, _)| format!("{namespace}/{name}")).collect::<Vec<_>>()
        };
        assert_eq!(names(&all), ["a/h", "b/g"]);
        assert!(!all.remove(&t1, "a", "g") && !all.remove(&t2, "b", "g"));
        assert!(all.remove(&t1, "a", "h"));
        assert_eq!(names(&all), ["b/g"]);
        assert_eq!(all.held_bytes(), 2 * one);
        let mut other = TenantGroups::default();
        other.insert("c", group("x", 0));
        other.insert("c", group("y", 0));
        assert_eq!(other.len(), 2);
        all.replace(&t1, other);
        assert_eq!(all.held_bytes(), 3 * one);
        all.replace(&t1, TenantGroups::default());
        assert!(all.remove(&t2, "a", "h"));
        assert_eq!((all.held_bytes(), all.tenants().count()), (0, 0));
    }
}
