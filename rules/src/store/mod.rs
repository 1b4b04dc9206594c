//! Where rule groups are kept.
//!
//! [`RuleStore`] is what the ruler asks. It leaves room for stores that are asked over the network:
//! everything is asynchronous, by tenant, and a failure of one change is the failure of this change
//! alone.

mod common;
mod copies;
mod folder;
mod format;
mod local;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::rc::Rc;

use logsvc_proto::TenantId;
use logsvc_runtime::Runtime;

use crate::catalogue::TenantGroups;
use crate::common::CommonFiles;
use crate::config::RuleStorage;
use crate::model::RuleGroup;
pub use common::CommonStore;
pub use copies::{Copying, FileCopies, NotCopied};
pub use folder::FolderStore;
pub use local::LocalStore;

/// The groups of a tenant as the store has them.
pub type TenantChange = (TenantId, TenantGroups);

/// Keeps rule groups. One owner calls it, one call at a time.
#[allow(async_fn_in_trait)]
pub trait RuleStore: 'static {
    /// The groups of all tenants. What cannot be read of single groups or files is left out with a
    /// word in the log.
    ///
    /// # Errors
    /// Nothing can be read. The caller tries again later.
    async fn load(&mut self) -> io::Result<Vec<TenantChange>>;

    /// Looks for changes by others, and for what became of changes that have failed: the tenants whose
    /// groups may differ from those of the last look.
    async fn poll(&mut self) -> Vec<TenantChange>;

    /// Whether others change the groups, so that the ruler has to look for changes, and changes by
    /// the ruler are refused.
    fn is_read_only(&self) -> bool;

    /// Whether the last look could not read what has changed, so that another one is due soon.
    fn is_behind(&self) -> bool {
        false
    }

    /// The tenants of which something could not be read, or was wrong, at the last look; in order.
    fn unreadable(&self) -> Vec<TenantId>;

    /// Adds a group or replaces the one of its name, on stable storage.
    ///
    /// # Errors
    /// The group may be stored or not, until a further change of it succeeds.
    async fn put(
        &mut self,
        tenant: &TenantId,
        namespace: &str,
        group: &RuleGroup,
    ) -> io::Result<()>;

    /// Removes a group, on stable storage. A group that is not there is no error.
    ///
    /// # Errors
    /// The group may be stored or not, until a further change of it succeeds.
    async fn remove(&mut self, tenant: &TenantId, namespace: &str, name: &str) -> io::Result<()>;

    /// Removes all groups of a namespace, on stable storage.
    ///
    /// # Errors
    /// Any of the groups may be stored or not, until a further change of it succeeds.
    async fn remove_namespace(&mut self, tenant: &TenantId, namespace: &str) -> io::Result<()>;

    /// Waits until changes are also where a copy of the groups is kept; `None` if an answer is not to
    /// wait.
    fn copied(&self) -> Option<Copying> {
        None
    }
}

/// The stores that settings can choose.
#[derive(Debug)]
pub enum Backend<R: Runtime> {
    /// See [`FolderStore`].
    Folder(FolderStore<R>),
    /// See [`LocalStore`].
    Local(LocalStore<R>),
    /// See [`CommonStore`].
    Common(CommonStore),
}

impl<R: Runtime> Backend<R> {
    /// The store of these settings.
    pub fn new(runtime: R, data_dir: &Path, storage: &RuleStorage) -> Backend<R> {
        match storage {
            RuleStorage::DataFolder => {
                Backend::Folder(FolderStore::new(runtime, data_dir.to_path_buf()))
            }
            RuleStorage::Local { folder } => {
                Backend::Local(LocalStore::new(runtime, folder.clone()))
            }
        }
    }

    /// The store of these settings, for the keeper of the rules of several nodes. Files that others
    /// write are on its disk, too.
    pub fn of_keeper(runtime: R, common: Rc<dyn CommonFiles>, storage: &RuleStorage) -> Backend<R> {
        match storage {
            RuleStorage::DataFolder => Backend::Common(CommonStore::new(common)),
            RuleStorage::Local { folder } => {
                Backend::Local(LocalStore::new(runtime, folder.clone()))
            }
        }
    }

    /// The same for a node that keeps copies of its groups. Files that others write are not copied.
    #[must_use]
    pub fn with_copies(self, copies: Rc<dyn FileCopies>) -> Backend<R> {
        match self {
            Backend::Folder(store) => Backend::Folder(store.with_copies(copies)),
            Backend::Local(_) | Backend::Common(_) => self,
        }
    }
}

impl<R: Runtime> RuleStore for Backend<R> {
    async fn load(&mut self) -> io::Result<Vec<TenantChange>> {
        match self {
            Backend::Folder(store) => store.load().await,
            Backend::Local(store) => store.load().await,
            Backend::Common(store) => store.load().await,
        }
    }

    async fn poll(&mut self) -> Vec<TenantChange> {
        match self {
            Backend::Folder(store) => store.poll().await,
            Backend::Local(store) => store.poll().await,
            Backend::Common(store) => store.poll().await,
        }
    }

    fn is_read_only(&self) -> bool {
        match self {
            Backend::Folder(store) => store.is_read_only(),
            Backend::Local(store) => store.is_read_only(),
            Backend::Common(store) => store.is_read_only(),
        }
    }

    fn is_behind(&self) -> bool {
        match self {
            Backend::Folder(store) => store.is_behind(),
            Backend::Local(store) => store.is_behind(),
            Backend::Common(store) => store.is_behind(),
        }
    }

    fn unreadable(&self) -> Vec<TenantId> {
        match self {
            Backend::Folder(store) => store.unreadable(),
            Backend::Local(store) => store.unreadable(),
            Backend::Common(store) => store.unreadable(),
        }
    }

    async fn put(
        &mut self,
        tenant: &TenantId,
        namespace: &str,
        group: &RuleGroup,
    ) -> io::Result<()> {
        match self {
            Backend::Folder(store) => store.put(tenant, namespace, group).await,
            Backend::Local(store) => store.put(tenant, namespace, group).await,
            Backend::Common(store) => store.put(tenant, namespace, group).await,
        }
    }

    async fn remove(&mut self, tenant: &TenantId, namespace: &str, name: &str) -> io::Result<()> {
        match self {
            Backend::Folder(store) => store.remove(tenant, namespace, name).await,
            Backend::Local(store) => store.remove(tenant, namespace, name).await,
            Backend::Common(store) => store.remove(tenant, namespace, name).await,
        }
    }

    async fn remove_namespace(&mut self, tenant: &TenantId, namespace: &str) -> io::Result<()> {
        match self {
            Backend::Folder(store) => store.remove_namespace(tenant, namespace).await,
            Backend::Local(store) => store.remove_namespace(tenant, namespace).await,
            Backend::Common(store) => store.remove_namespace(tenant, namespace).await,
        }
    }

    fn copied(&self) -> Option<Copying> {
        match self {
            Backend::Folder(store) => store.copied(),
            Backend::Local(store) => store.copied(),
            Backend::Common(store) => store.copied(),
        }
    }
}

/// Body of a fuzz target: decodes a stored group, and writes it anew.
pub(crate) fn fuzz_stored_group(data: &[u8]) {
    if let Ok((namespace, group)) = format::decode(data)
        && let Some(again) = format::encode(&namespace, &group)
    {
        assert_eq!(format::decode(&again), Ok((namespace, group)));
    }
}
