//! Rule groups in the data folder: `rules/groups/<tenant>/<hash>`, a file for each group.
//!
//! Guarantees: after a crash a file holds its group from before a change or from behind it, and a
//! change that has returned survives. Names of namespaces and groups are in the files alone, so no
//! name is too long or odd, and two groups whose names have the same hash have two files.
//!
//! A file that is damaged costs its group alone: a start reports it and moves it to
//! `rules/quarantine/<tenant>/`. A file that cannot be read at the moment, or that another version
//! of the program has written, stays where it is. A later group of the same name moves it to the
//! quarantine instead of writing over it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use logsvc_proto::TenantId;
use logsvc_runtime::{Runtime, temporary_path};

use super::format::{self, FILE_MAX_BYTES, FormatError};
use super::{Copying, FileCopies, RuleStore, TenantChange};
use crate::catalogue::TenantGroups;
use crate::model::RuleGroup;

/// The folder of the tenants' folders, in the data folder.
const GROUPS_FOLDER: &str = "rules/groups";

/// What a file may hold.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Held {
    /// A group, or nothing after a change that has failed.
    Group { namespace: Arc<str>, name: Arc<str> },
    /// Something that cannot be read.
    Unreadable,
}

/// The files of a tenant by their names.
type Files = BTreeMap<String, Held>;

/// See the module.
#[derive(Debug)]
pub struct FolderStore<R: Runtime> {
    runtime: R,
    data_dir: PathBuf,
    /// All files that are there or may be there.
    files: BTreeMap<TenantId, Files>,
    /// Who keeps copies of the files.
    copies: Option<Rc<dyn FileCopies>>,
}

impl<R: Runtime> FolderStore<R> {
    /// The store in a data folder.
    pub fn new(runtime: R, data_dir: PathBuf) -> FolderStore<R> {
        FolderStore { runtime, data_dir, files: BTreeMap::new(), copies: None }
    }

    /// The same for a node that keeps copies of the files.
    #[must_use]
    pub fn with_copies(self, copies: Rc<dyn FileCopies>) -> FolderStore<R> {
        FolderStore { copies: Some(copies), ..self }
    }

    /// Tells that a file of a tenant has changed, or may have.
    fn note(&self, tenant: &TenantId, file: &str) {
        if let Some(copies) = &self.copies {
            copies.changed(&format!("{GROUPS_FOLDER}/{tenant}/{file}"));
        }
    }

    fn groups_dir(&self) -> PathBuf {
        self.data_dir.join(GROUPS_FOLDER)
    }

    fn tenant_dir(&self, tenant: &TenantId) -> PathBuf {
        self.groups_dir().join(tenant.as_str())
    }

    /// The groups of a tenant's folder.
    async fn load_tenant(&mut self, tenant: &TenantId) -> io::Result<TenantGroups> {
        let folder = self.tenant_dir(tenant);
        let mut groups = TenantGroups::default();
        let mut files = Files::new();
        for entry in self.runtime.read_dir(&folder).await? {
            let path = folder.join(&entry.name);
            if let Some(of) = entry.name.strip_suffix(".tmp")
                && format::is_file_name(of)
            {
                self.remove_if_there(&path).await?;
                continue;
            }
            if entry.is_dir || !format::is_file_name(&entry.name) {
                tracing::warn!(file = %path.display(), "no rule group has this name of a file");
                continue;
            }
            if let Some((namespace, group)) = self.load_file(tenant, &path).await {
                let name: Arc<str> = group.name.as_str().into();
                files.insert(entry.name, Held::Group { namespace: namespace.clone(), name });
                groups.insert(&namespace, Arc::new(group));
            } else if !self.is_gone(&path).await {
                files.insert(entry.name, Held::Unreadable);
            }
            self.runtime.yield_now().await;
        }
        // This start acts by what it finds, so a power cut must not bring back what was before.
        self.runtime.sync_dir(&folder).await?;
        self.files.insert(tenant.clone(), files);
        Ok(groups)
    }

    /// The group of a file. A damaged file is moved away.
    async fn load_file(&self, tenant: &TenantId, path: &Path) -> Option<(Arc<str>, RuleGroup)> {
        let file = path.display();
        let bytes = match self.runtime.read_file(path, FILE_MAX_BYTES).await {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::error!(%file, %error, "a rule group is not loaded: its file cannot be read");
                return None;
            }
        };
        match format::decode(&bytes) {
            Ok(group) => Some(group),
            Err(error @ FormatError::UnknownVersion { .. }) => {
                tracing::error!(%file, %error, "a rule group is not loaded");
                None
            }
            Err(error @ FormatError::Damaged(_)) => {
                tracing::error!(%file, %error, "a rule group is lost: its file moves to the quarantine");
                if let Err(error) = self.quarantine(tenant, path).await {
                    tracing::error!(%file, %error, "the damaged file cannot be moved");
                }
                None
            }
        }
    }

    /// Moves a file out of the way, without writing over another one.
    async fn quarantine(&self, tenant: &TenantId, path: &Path) -> io::Result<()> {
        let folder = self.data_dir.join("rules").join("quarantine").join(tenant.as_str());
        self.runtime.create_dir_all(&folder).await?;
        let taken: Vec<String> =
            self.runtime.read_dir(&folder).await?.into_iter().map(|entry| entry.name).collect();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // There is a free one among so many.
        let free = (0..=taken.len())
            .map(|number| format!("{name}-{number}"))
            .find(|name| !taken.contains(name));
        let free = free.ok_or_else(|| io::Error::other("no name is free"))?;
        let moved = self.runtime.rename(path, &folder.join(free)).await;
        self.note(tenant, &name);
        moved?;
        self.runtime.sync_dir(&folder).await?;
        self.runtime.sync_dir(path.parent().unwrap_or(Path::new("."))).await
    }

    async fn is_gone(&self, path: &Path) -> bool {
        let opened = self.runtime.open(path, logsvc_runtime::OpenMode::Read).await;
        opened.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    async fn remove_if_there(&self, path: &Path) -> io::Result<()> {
        match self.runtime.remove_file(path).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Makes the folder of a tenant, durably.
    async fn make_tenant_dir(&mut self, tenant: &TenantId) -> io::Result<()> {
        if self.files.contains_key(tenant) {
            return Ok(());
        }
        self.runtime.create_dir_all(&self.tenant_dir(tenant)).await?;
        let groups_dir = self.groups_dir();
        let parents = [groups_dir.clone(), self.data_dir.join("rules"), self.data_dir.clone()];
        for folder in parents {
            self.runtime.sync_dir(&folder).await?;
        }
        self.files.insert(tenant.clone(), Files::new());
        Ok(())
    }

    /// Removes files that are there or may be there. Their folder is synced once.
    async fn remove_files(&mut self, tenant: &TenantId, names: Vec<String>) -> io::Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let removed = self.remove_named(tenant, &names).await;
        names.iter().for_each(|name| self.note(tenant, name));
        removed?;
        if let Some(files) = self.files.get_mut(tenant) {
            files.retain(|name, _| !names.contains(name));
        }
        Ok(())
    }

    async fn remove_named(&self, tenant: &TenantId, names: &[String]) -> io::Result<()> {
        let folder = self.tenant_dir(tenant);
        for name in names {
            let path = folder.join(name);
            self.remove_if_there(&temporary_path(&path)).await?;
            self.remove_if_there(&path).await?;
        }
        self.runtime.sync_dir(&folder).await
    }

    /// The names of the files whose groups `is_wanted` accepts by namespace and name.
    fn files_of(&self, tenant: &TenantId, is_wanted: impl Fn(&str, &str) -> bool) -> Vec<String> {
        let files = self.files.get(tenant).into_iter().flatten();
        let wanted = files.filter(|(_, held)| match held {
            Held::Group { namespace, name } => is_wanted(namespace, name),
            Held::Unreadable => false,
        });
        wanted.map(|(file, _)| file.clone()).collect()
    }
}

impl<R: Runtime> RuleStore for FolderStore<R> {
    async fn load(&mut self) -> io::Result<Vec<TenantChange>> {
        let groups_dir = self.groups_dir();
        let entries = match self.runtime.read_dir(&groups_dir).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut tenants = Vec::new();
        for entry in entries.iter().filter(|entry| entry.is_dir) {
            let Ok(tenant) = TenantId::new(&entry.name) else {
                let folder = groups_dir.join(&entry.name);
                tracing::warn!(folder = %folder.display(), "no tenant has this name of a folder");
                continue;
            };
            let groups = self.load_tenant(&tenant).await?;
            tenants.push((tenant, groups));
        }
        for folder in [groups_dir, self.data_dir.join("rules"), self.data_dir.clone()] {
            self.runtime.sync_dir(&folder).await?;
        }
        Ok(tenants)
    }

    async fn poll(&mut self) -> Vec<TenantChange> {
        Vec::new()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn unreadable(&self) -> Vec<TenantId> {
        let is_unreadable =
            |(_, files): &(&TenantId, &Files)| files.values().any(|held| *held == Held::Unreadable);
        self.files.iter().filter(is_unreadable).map(|(tenant, _)| tenant.clone()).collect()
    }

    async fn put(
        &mut self,
        tenant: &TenantId,
        namespace: &str,
        group: &RuleGroup,
    ) -> io::Result<()> {
        let bytes = format::encode(namespace, group)
            .ok_or_else(|| io::Error::other("the group is too long for a file"))?;
        self.make_tenant_dir(tenant).await?;
        let first = format::file_name(namespace, &group.name);
        let held = Held::Group { namespace: namespace.into(), name: group.name.as_str().into() };
        let files = self.files.entry(tenant.clone()).or_default();
        let same_hash = |file: &&String| file.starts_with(&first);
        let known = files.keys().filter(same_hash).find(|file| files.get(*file) == Some(&held));
        let file = known.cloned().unwrap_or_else(|| {
            let is_free = |file: &String| !matches!(files.get(file), Some(Held::Group { .. }));
            // One of so many is free.
            let mut names = (0..=files.len()).map(|number| format::numbered(&first, number));
            names.find(is_free).unwrap_or_else(|| first.clone())
        });
        let path = self.tenant_dir(tenant).join(&file);
        if self.files.get(tenant).and_then(|files| files.get(&file)) == Some(&Held::Unreadable) {
            self.quarantine(tenant, &path).await?;
        }
        // Also if the change fails: then the file may be there.
        self.files.entry(tenant.clone()).or_default().insert(file.clone(), held);
        let replaced = self.runtime.replace_file(&path, bytes).await;
        self.note(tenant, &file);
        replaced
    }

    async fn remove(&mut self, tenant: &TenantId, namespace: &str, name: &str) -> io::Result<()> {
        let files = self.files_of(tenant, |n, g| n == namespace && g == name);
        self.remove_files(tenant, files).await
    }

    async fn remove_namespace(&mut self, tenant: &TenantId, namespace: &str) -> io::Result<()> {
        let files = self.files_of(tenant, |n, _| n == namespace);
        self.remove_files(tenant, files).await
    }

    fn copied(&self) -> Option<Copying> {
        self.copies.as_ref()?.copied()
    }
}
