//! Requests about the stored groups.

use std::io;
use std::sync::Arc;

use logsvc_proto::TenantId;
use logsvc_runtime::Runtime;

use super::Ruler;
use crate::common::ChangeError;
use crate::evaluation::Evaluation;
use crate::messages::{RulesReply, StoreRefusal};
use crate::model::RuleGroup;
use crate::store::RuleStore;

impl<R: Runtime, S: RuleStore, E: Evaluation> Ruler<R, S, E> {
    /// Refuses an operation while the store is not loaded, or if only others change it. Lists have
    /// no name of an operation.
    fn check(&self, operation: Option<&'static str>) -> Result<(), StoreRefusal> {
        if !self.is_loaded {
            return Err(StoreRefusal::NotLoaded);
        }
        match operation {
            Some(operation) if self.store.is_read_only() => {
                Err(StoreRefusal::ReadOnly { operation })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn list(
        &self,
        tenant: &TenantId,
        only: Option<&str>,
    ) -> Result<RulesReply, StoreRefusal> {
        self.check(None)?;
        let groups = self.groups.tenant(tenant).into_iter().flat_map(|groups| groups.namespaces());
        let wanted = groups.filter(|(namespace, _)| match only {
            Some(only) => namespace.as_ref() == only,
            None => true,
        });
        let listed = wanted.map(|(namespace, groups)| {
            (Arc::clone(namespace), groups.values().map(Arc::clone).collect())
        });
        Ok(RulesReply::Groups(listed.collect()))
    }

    pub(super) fn group(
        &self,
        tenant: &TenantId,
        namespace: &str,
        name: &str,
    ) -> Result<RulesReply, StoreRefusal> {
        self.check(Some("GetRuleGroup"))?;
        let groups = self.groups.tenant(tenant);
        let group = groups.and_then(|groups| groups.group(namespace, name));
        Ok(RulesReply::Group(group.cloned()))
    }

    pub(super) async fn set(
        &mut self,
        tenant: &TenantId,
        namespace: &str,
        group: RuleGroup,
        max_groups: usize,
    ) -> Result<RulesReply, StoreRefusal> {
        self.check(Some("SetRuleGroup"))?;
        // As the reference counts: one more than there are, also if one is replaced.
        let actual = self.groups.tenant(tenant).map_or(0, |groups| groups.len()) + 1;
        if max_groups > 0 && actual > max_groups {
            return Err(StoreRefusal::TooManyGroups { limit: max_groups, actual });
        }
        let held_bytes = self.groups.held_bytes_with(tenant, namespace, &group);
        let max_bytes = self.config.groups_max_bytes;
        if held_bytes > max_bytes.max(self.groups.held_bytes()) {
            return Err(StoreRefusal::TooManyBytes { max_bytes });
        }
        let stored = self.store.put(tenant, namespace, &group).await;
        stored.map_err(|error| self.failed(&error))?;
        self.groups.insert(tenant, namespace, Arc::new(group));
        self.tell(tenant);
        Ok(RulesReply::Done)
    }

    pub(super) async fn delete(
        &mut self,
        tenant: &TenantId,
        namespace: &str,
        name: &str,
    ) -> Result<RulesReply, StoreRefusal> {
        self.check(Some("DeleteRuleGroup"))?;
        // Also a group that is unknown, which a change that has failed may have left.
        let removed = self.store.remove(tenant, namespace, name).await;
        removed.map_err(|error| self.failed(&error))?;
        if !self.groups.remove(tenant, namespace, name) {
            return Ok(RulesReply::NotFound);
        }
        self.tell(tenant);
        Ok(RulesReply::Done)
    }

    pub(super) async fn delete_namespace(
        &mut self,
        tenant: &TenantId,
        namespace: &str,
    ) -> Result<RulesReply, StoreRefusal> {
        self.check(Some("DeleteNamespace"))?;
        let removed = self.store.remove_namespace(tenant, namespace).await;
        removed.map_err(|error| self.failed(&error))?;
        let groups = self.groups.tenant(tenant).and_then(|groups| groups.namespace(namespace));
        let Some(groups) = groups else { return Ok(RulesReply::NotFound) };
        let names: Vec<Arc<str>> = groups.keys().map(Arc::clone).collect();
        for name in names {
            self.groups.remove(tenant, namespace, &name);
        }
        self.tell(tenant);
        Ok(RulesReply::Done)
    }

    fn failed(&mut self, error: &io::Error) -> StoreRefusal {
        tracing::error!(%error, "cannot change the stored rule groups");
        // The change may be in force.
        self.next_look = self.runtime.now();
        let is_common = error.get_ref().is_some_and(|inner| inner.is::<ChangeError>());
        let kind = if is_common { StoreRefusal::Unsure } else { StoreRefusal::Io };
        kind(error.to_string())
    }
}
