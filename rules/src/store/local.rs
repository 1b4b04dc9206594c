//! Rule files that somebody else writes: `<folder>/<tenant>/<file>`. The name of a file is the
//! namespace of its groups.
//!
//! Guarantees: files are only read. All files are read again at each look, so a change is in force
//! at most one look later. A file that cannot be read or is broken keeps the groups that it had when
//! it was last good, if it was; all other files are what they are. The log names the file and the
//! reason, once for each content. A file that is gone takes its groups with it.
//!
//! What can go wrong: a folder of a tenant that cannot be listed keeps the groups that it had. A
//! file that is read while it is being written may look broken until the next look.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logsvc_proto::TenantId;
use logsvc_runtime::{DirEntry, Runtime, SideQueue};

use super::{RuleStore, TenantChange};
use crate::catalogue::TenantGroups;
use crate::model::RuleGroup;
use crate::validate::check_groups;
use crate::yaml::{self, TEXT_MAX_BYTES};

/// A file as it was at the last look.
#[derive(Clone, Debug, Default)]
struct SeenFile {
    /// Of its content; `None`: it could not be read.
    hash: Option<u128>,
    /// Of its last good content.
    groups: Vec<Arc<RuleGroup>>,
    /// Whether its content could not be read or was broken.
    is_bad: bool,
}

/// The files of a tenant by namespace.
type Files = BTreeMap<String, SeenFile>;

/// What was seen of a tenant.
#[derive(Clone, Debug, Default)]
struct SeenTenant {
    files: Files,
    /// Whether the folder could not be listed at the last look.
    is_lost: bool,
}

/// See the module.
#[derive(Debug)]
pub struct LocalStore<R: Runtime> {
    runtime: R,
    folder: PathBuf,
    tenants: BTreeMap<TenantId, SeenTenant>,
    /// Whether the folder could not be listed at the last look.
    is_lost: bool,
}

impl<R: Runtime> LocalStore<R> {
    /// The rule files below a folder.
    pub fn new(runtime: R, folder: PathBuf) -> LocalStore<R> {
        LocalStore { runtime, folder, tenants: BTreeMap::new(), is_lost: false }
    }

    /// The tenants whose files have changed.
    async fn look(&mut self) -> io::Result<Vec<TenantChange>> {
        let mut changes = Vec::new();
        let mut before = std::mem::take(&mut self.tenants);
        let entries = match self.runtime.read_dir(&self.folder).await {
            Ok(entries) => entries,
            Err(error) => {
                self.tenants = before;
                return Err(error);
            }
        };
        for entry in entries.iter().filter(|entry| entry.is_dir) {
            let Ok(tenant) = TenantId::new(&entry.name) else { continue };
            let old = before.remove(&tenant).unwrap_or_default();
            let (seen, has_changed) = self.look_at_tenant(&entry.name, &old.files).await;
            if has_changed {
                changes.push((tenant.clone(), groups_of(&seen.files)));
            }
            self.tenants.insert(tenant, seen);
        }
        // The folders of these tenants are gone.
        changes.extend(before.into_keys().map(|tenant| (tenant, TenantGroups::default())));
        Ok(changes)
    }

    /// The files of a tenant, and whether their groups are others than before.
    async fn look_at_tenant(&self, tenant: &str, old: &Files) -> (SeenTenant, bool) {
        let folder = self.folder.join(tenant);
        let entries = match self.runtime.read_dir(&folder).await {
            Ok(entries) => entries,
            Err(error) => {
                let folder = folder.display();
                tracing::error!(%folder, %error, "cannot list rule files; those known stay");
                return (SeenTenant { files: old.clone(), is_lost: true }, false);
            }
        };
        let mut files = Files::new();
        let mut has_changed = false;
        for DirEntry { name, .. } in entries.into_iter().filter(|entry| !is_hidden(entry)) {
            let seen = old.get(&name);
            let file = self.look_at_file(&folder.join(&name), seen).await;
            has_changed |= seen.map_or(&[][..], |seen| &seen.groups) != file.groups;
            files.insert(name, file);
        }
        has_changed |= old.keys().any(|name| !files.contains_key(name));
        (SeenTenant { files, is_lost: false }, has_changed)
    }

    async fn look_at_file(&self, path: &Path, seen: Option<&SeenFile>) -> SeenFile {
        let old = seen.cloned().unwrap_or_default();
        let file = path.display();
        let bytes = match self.runtime.read_file(path, TEXT_MAX_BYTES).await {
            Ok(bytes) => bytes,
            Err(error) => {
                if seen.is_none_or(|seen| seen.hash.is_some()) {
                    tracing::error!(%file, %error, "cannot read a rule file");
                }
                return SeenFile { hash: None, is_bad: true, ..old };
            }
        };
        let hash = xxhash_rust::xxh3::xxh3_128(&bytes);
        if old.hash == Some(hash) {
            return old;
        }
        let read = move || read(&bytes);
        match self.runtime.offload_to(SideQueue::Upkeep, read).await {
            Ok(groups) => SeenFile { hash: Some(hash), groups, is_bad: false },
            Err(error) => {
                let groups_kept = old.groups.len();
                tracing::error!(%file, %error, groups_kept, "a rule file is broken");
                SeenFile { hash: Some(hash), is_bad: true, ..old }
            }
        }
    }
}

/// The groups of a file's content.
fn read(bytes: &[u8]) -> Result<Vec<Arc<RuleGroup>>, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let groups = yaml::read_file(text).map_err(|error| error.to_string())?;
    check_groups(&groups)?;
    Ok(groups.into_iter().map(|group| Arc::new(group.into_group())).collect())
}

/// Folders, and files that editors and mounts of Kubernetes put beside rule files.
fn is_hidden(entry: &DirEntry) -> bool {
    entry.is_dir || entry.name.starts_with('.')
}

fn groups_of(files: &Files) -> TenantGroups {
    let mut all = TenantGroups::default();
    for (namespace, file) in files {
        for group in &file.groups {
            all.insert(namespace, Arc::clone(group));
        }
    }
    all
}

impl<R: Runtime> RuleStore for LocalStore<R> {
    async fn load(&mut self) -> io::Result<Vec<TenantChange>> {
        self.look().await.map_err(|error| {
            let folder = self.folder.display();
            io::Error::new(error.kind(), format!("the folder of rule files {folder}: {error}"))
        })
    }

    async fn poll(&mut self) -> Vec<TenantChange> {
        match self.look().await {
            Ok(changes) => {
                self.is_lost = false;
                changes
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_lost, true) {
                    let folder = self.folder.display();
                    tracing::error!(%folder, %error, "cannot list the folder of rule files");
                }
                Vec::new()
            }
        }
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn unreadable(&self) -> Vec<TenantId> {
        let is_unreadable = |(_, seen): &(&TenantId, &SeenTenant)| {
            self.is_lost || seen.is_lost || seen.files.values().any(|file| file.is_bad)
        };
        self.tenants.iter().filter(is_unreadable).map(|(tenant, _)| tenant.clone()).collect()
    }

    async fn put(&mut self, _: &TenantId, _: &str, _: &RuleGroup) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    async fn remove(&mut self, _: &TenantId, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    async fn remove_namespace(&mut self, _: &TenantId, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}
