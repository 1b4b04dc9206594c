//! Rule groups that the nodes of a cluster have in common: `rules/groups/<tenant>/<hash>`, a file for
//! each group, with the bytes of those in a data folder.
//!
//! Guarantees: a change that has returned is there for whoever is the keeper later. Names of namespaces
//! and groups are in the files alone, so two groups whose names have the same hash have two files.
//!
//! A file that is damaged costs its group alone: the log says so, and a later group of its name takes
//! its place. A file that another version of the program has written stays; a later group of its name
//! gets another one.
//!
//! What can go wrong: nobody knows whether a change that has failed is in force. [`RuleStore::poll`]
//! finds it out.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream;
use logsvc_proto::TenantId;

use super::format::{self, FormatError};
use super::{RuleStore, TenantChange};
use crate::catalogue::TenantGroups;
use crate::common::{CommonFiles, ContentNumber, ReadError};
use crate::model::RuleGroup;

/// The folder of the tenants' folders.
const GROUPS_FOLDER: &str = "rules/groups";

/// Files that are read at a time.
const READS: usize = 16;

/// What a file holds.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Held {
    Group {
        namespace: Arc<str>,
        name: Arc<str>,
    },
    /// Nothing that is of use to anybody.
    Damaged,
    /// A group of another version of the program.
    Foreign,
}

/// A file as it was read or written last.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Known {
    /// Which content; `None` while a change is under way, and if it has failed.
    number: Option<ContentNumber>,
    held: Held,
}

/// The files of a tenant by their names.
type Files = BTreeMap<String, Known>;

/// See the module.
#[derive(Debug)]
pub struct CommonStore {
    common: Rc<dyn CommonFiles>,
    files: BTreeMap<TenantId, Files>,
    /// Whether files that have changed could not be read.
    is_behind: bool,
}

impl CommonStore {
    /// The store of a term.
    pub fn new(common: Rc<dyn CommonFiles>) -> CommonStore {
        CommonStore { common, files: BTreeMap::new(), is_behind: false }
    }

    /// The files that there are.
    fn listed(&self) -> BTreeMap<TenantId, BTreeMap<String, ContentNumber>> {
        let mut tenants: BTreeMap<TenantId, BTreeMap<String, ContentNumber>> = BTreeMap::new();
        for (path, number) in self.common.list(GROUPS_FOLDER) {
            let inner = path.strip_prefix(GROUPS_FOLDER).and_then(|rest| rest.strip_prefix('/'));
            let Some((tenant, file)) = inner.and_then(|inner| inner.split_once('/')) else {
                continue;
            };
            match TenantId::new(tenant) {
                Ok(tenant) if format::is_file_name(file) => {
                    tenants.entry(tenant).or_default().insert(file.to_owned(), number);
                }
                _ => tracing::warn!(path, "no rule group has this name of a file"),
            }
        }
        tenants
    }

    /// Reads all files of a tenant.
    async fn load_tenant(
        &mut self,
        tenant: &TenantId,
        listed: BTreeMap<String, ContentNumber>,
    ) -> io::Result<TenantGroups> {
        let common = &self.common;
        let mut reads = stream::iter(listed)
            .map(|(file, number)| async move {
                let path = path_of(tenant, &file);
                let read = common.read(&path, number).await;
                (file, path, number, read)
            })
            .buffered(READS);
        let (mut groups, mut files) = (TenantGroups::default(), Files::new());
        while let Some((file, path, number, read)) = reads.next().await {
            let held = match group_of(&path, read)? {
                Ok((namespace, group)) => {
                    let name = group.name.as_str().into();
                    groups.insert(&namespace, Arc::new(group));
                    Held::Group { namespace, name }
                }
                Err(unusable) => unusable,
            };
            files.insert(file, Known { number: Some(number), held });
        }
        drop(reads);
        self.files.insert(tenant.clone(), files);
        Ok(groups)
    }

    /// The name of the file that a group has or gets.
    fn file_for(&self, tenant: &TenantId, namespace: &str, name: &str) -> String {
        let first = format::file_name(namespace, name);
        let files = self.files.get(tenant);
        let known = |file: &String| files.and_then(|files| files.get(file)).map(|it| &it.held);
        let is_own = |held: &Held| matches!(held, Held::Group { namespace: of, name: its } if **of == *namespace && **its == *name);
        let mut same_hash =
            files.into_iter().flatten().filter(|(file, _)| file.starts_with(&first));
        if let Some((file, _)) = same_hash.find(|(_, known)| is_own(&known.held)) {
            return file.clone();
        }
        let is_free = |file: &String| match known(file) {
            None => self.common.number(&path_of(tenant, file)).is_none(),
            Some(held) => *held == Held::Damaged,
        };
        // One of so many is free, unless somebody else writes files.
        let mut names = (0..=usize::from(u16::MAX)).map(|number| format::numbered(&first, number));
        names.find(is_free).unwrap_or(first)
    }

    /// Replaces the content of a file, or removes it.
    async fn change(
        &mut self,
        tenant: &TenantId,
        file: String,
        put: Option<(Held, Vec<u8>)>,
    ) -> io::Result<()> {
        let path = path_of(tenant, &file);
        let based_on = self.common.number(&path);
        let files = self.files.entry(tenant.clone()).or_default();
        let (held, content) = put.map_or((None, None), |(held, bytes)| (Some(held), Some(bytes)));
        // In case that the change fails.
        match (files.get_mut(&file), &held) {
            (Some(known), None) => known.number = None,
            (_, Some(held)) => {
                files.insert(file.clone(), Known { number: None, held: held.clone() });
            }
            (None, None) => {}
        }
        if based_on.is_none() && content.is_none() {
            files.remove(&file);
            return Ok(());
        }
        let number = self.common.replace(&path, based_on, content).await?;
        match held {
            Some(held) => drop(files.insert(file, Known { number, held })),
            None => drop(files.remove(&file)),
        }
        Ok(())
    }

    /// The names of the files whose groups `is_wanted` accepts by namespace and name.
    fn files_of(&self, tenant: &TenantId, is_wanted: impl Fn(&str, &str) -> bool) -> Vec<String> {
        let files = self.files.get(tenant).into_iter().flatten();
        let wanted = files.filter(|(_, known)| match &known.held {
            Held::Group { namespace, name } => is_wanted(namespace, name),
            Held::Damaged | Held::Foreign => false,
        });
        wanted.map(|(file, _)| file.clone()).collect()
    }

    async fn remove_files(&mut self, tenant: &TenantId, files: Vec<String>) -> io::Result<()> {
        for file in files {
            self.change(tenant, file, None).await?;
        }
        Ok(())
    }
}

fn path_of(tenant: &TenantId, file: &str) -> String {
    format!("{GROUPS_FOLDER}/{tenant}/{file}")
}

/// The group of a file, or what the file is otherwise.
///
/// # Errors
/// The file cannot be read at the moment.
fn group_of(
    path: &str,
    read: Result<Vec<u8>, ReadError>,
) -> io::Result<Result<(Arc<str>, RuleGroup), Held>> {
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(error @ ReadError::Away(_)) => return Err(io::Error::other(error)),
        Err(error @ ReadError::Unusable(_)) => {
            tracing::error!(path, %error, "a rule group is lost");
            return Ok(Err(Held::Damaged));
        }
    };
    Ok(match format::decode(&bytes) {
        Ok(group) => Ok(group),
        Err(error @ FormatError::UnknownVersion { .. }) => {
            tracing::error!(path, %error, "a rule group is not loaded");
            Err(Held::Foreign)
        }
        Err(error @ FormatError::Damaged(_)) => {
            tracing::error!(path, %error, "a rule group is lost");
            Err(Held::Damaged)
        }
    })
}

impl RuleStore for CommonStore {
    async fn load(&mut self) -> io::Result<Vec<TenantChange>> {
        self.files.clear();
        let mut tenants = Vec::new();
        for (tenant, listed) in self.listed() {
            let groups = self.load_tenant(&tenant, listed).await?;
            tenants.push((tenant, groups));
        }
        Ok(tenants)
    }

    /// What became of changes that have failed. Nobody else changes groups during a term.
    async fn poll(&mut self) -> Vec<TenantChange> {
        self.is_behind = false;
        let mut listed = self.listed();
        let mut changes = Vec::new();
        let tenants: BTreeSet<TenantId> = self.files.keys().chain(listed.keys()).cloned().collect();
        for tenant in tenants {
            let files = listed.remove(&tenant);
            let known = self.files.get(&tenant);
            let numbers = |files: &Files| -> BTreeMap<String, Option<ContentNumber>> {
                files.iter().map(|(file, known)| (file.clone(), known.number)).collect()
            };
            let known = known.map_or_else(BTreeMap::new, numbers);
            let files = files.into_iter().flatten().collect::<BTreeMap<_, _>>();
            let there = files.iter().map(|(file, number)| (file.clone(), Some(*number)));
            if known == there.collect() {
                continue;
            }
            match self.load_tenant(&tenant, files).await {
                Ok(groups) => changes.push((tenant, groups)),
                Err(error) => {
                    tracing::error!(%error, "cannot read rule groups; trying again");
                    self.is_behind = true;
                }
            }
        }
        changes
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn is_behind(&self) -> bool {
        self.is_behind
    }

    fn unreadable(&self) -> Vec<TenantId> {
        let is_unreadable = |(_, files): &(&TenantId, &Files)| {
            files.values().any(|known| matches!(known.held, Held::Damaged | Held::Foreign))
        };
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
        let file = self.file_for(tenant, namespace, &group.name);
        let held = Held::Group { namespace: namespace.into(), name: group.name.as_str().into() };
        self.change(tenant, file, Some((held, bytes))).await
    }

    async fn remove(&mut self, tenant: &TenantId, namespace: &str, name: &str) -> io::Result<()> {
        let files = self.files_of(tenant, |n, g| n == namespace && g == name);
        self.remove_files(tenant, files).await
    }

    async fn remove_namespace(&mut self, tenant: &TenantId, namespace: &str) -> io::Result<()> {
        let files = self.files_of(tenant, |n, _| n == namespace);
        self.remove_files(tenant, files).await
    }
}
