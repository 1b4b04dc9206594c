//! The kept files of the folder at a start: which there are, and how those of the bucket take their
//! place.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use logsvc_runtime::{Runtime, temporary_path};
use logsvc_store::Store;

use super::{NodeError, io_error};
use crate::kept::{Content, GROUPS, KeptFile, KeptPath};
use crate::ledger::{LedgerError, fetch};

/// Files that are read from the bucket at once.
const FILES_AT_ONCE: usize = 8;

/// The kept files of a folder.
#[derive(Debug, Default)]
pub(super) struct FolderFiles {
    /// `None` for one that cannot be read.
    found: BTreeMap<KeptPath, Option<Content>>,
}

impl FolderFiles {
    /// Reads the kept files of a folder.
    pub(super) async fn read<R: Runtime>(
        runtime: &R,
        data_dir: &Path,
    ) -> Result<FolderFiles, NodeError> {
        let mut paths = vec![KeptPath::requests()];
        for tenant in list(runtime, &data_dir.join(GROUPS)).await? {
            let folder = format!("{GROUPS}/{tenant}");
            let files = list(runtime, &data_dir.join(&folder)).await?;
            paths.extend(files.iter().filter_map(|f| KeptPath::parse(&format!("{folder}/{f}"))));
        }
        let mut found = BTreeMap::new();
        for path in paths {
            let file = path.in_folder(data_dir);
            match runtime.read_file(&file, path.max_bytes()).await {
                Ok(bytes) => drop(found.insert(path, Some(Content::of(&bytes)))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::error!(file = %file.display(), %error, "cannot read a file");
                    found.insert(path, None);
                }
            }
        }
        Ok(FolderFiles { found })
    }

    /// The files that the bucket does not have as they are here, and those that only it has. A file
    /// that cannot be read is left as the bucket has it.
    pub(super) fn unsent(&self, bucket: &BTreeMap<KeptPath, KeptFile>) -> BTreeSet<KeptPath> {
        let differs = |(path, content): &(&KeptPath, &Option<Content>)| {
            let kept = bucket.get(*path).map(|file| file.content);
            content.is_some() && **content != kept
        };
        let changed = self.found.iter().filter(differs).map(|(path, _)| path);
        let removed = bucket.keys().filter(|path| !self.found.contains_key(*path));
        changed.chain(removed).cloned().collect()
    }

    /// How many files are here that the bucket does not have as they are.
    pub(super) fn unknown(&self, bucket: &BTreeMap<KeptPath, KeptFile>) -> usize {
        let is_known = |(path, content): &(&KeptPath, &Option<Content>)| {
            content.is_some() && bucket.get(*path).map(|file| file.content) == **content
        };
        self.found.len() - self.found.iter().filter(is_known).count()
    }

    /// How many files only the bucket has.
    pub(super) fn missing(&self, bucket: &BTreeMap<KeptPath, KeptFile>) -> usize {
        bucket.keys().filter(|path| !self.found.contains_key(*path)).count()
    }

    /// Puts the files of the bucket in the place of those of the folder, durably.
    pub(super) async fn replace<R: Runtime>(
        &self,
        runtime: &R,
        store: &Store<R>,
        data_dir: &Path,
        bucket: &BTreeMap<KeptPath, KeptFile>,
    ) -> Result<(), LedgerError> {
        let is_there =
            |path: &KeptPath, file: &KeptFile| self.found.get(path) == Some(&Some(file.content));
        let missing = bucket.iter().filter(|(path, file)| !is_there(path, file));
        let fetched = missing.map(|(path, file)| fetch(runtime, store, path, file));
        let mut fetched = stream::iter(fetched).buffered(FILES_AT_ONCE);
        let mut folders = Folders { data_dir, changed: BTreeSet::new() };
        let mut count = 0;
        while let Some((path, bytes)) = fetched.try_next().await? {
            let file = path.in_folder(data_dir);
            folders.note(&file);
            let folder = file.parent().unwrap_or(data_dir);
            runtime.create_dir_all(folder).await.map_err(failed("make", folder))?;
            runtime.replace_file(&file, bytes).await.map_err(failed("write", &file))?;
            count += 1;
        }
        for path in self.found.keys().filter(|path| !bucket.contains_key(*path)) {
            let file = path.in_folder(data_dir);
            folders.note(&file);
            // What was to take its place may have an old text, too.
            for file in [temporary_path(&file), file] {
                match runtime.remove_file(&file).await {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(failed("remove", &file)(error));
                    }
                    _ => {}
                }
            }
        }
        for folder in &folders.changed {
            runtime.sync_dir(folder).await.map_err(failed("sync", folder))?;
        }
        if count > 0 {
            tracing::info!(
                files = count,
                "brought rule groups and delete requests back from the bucket"
            );
        }
        Ok(())
    }
}

/// The folders whose names have to become durable.
struct Folders<'a> {
    data_dir: &'a Path,
    changed: BTreeSet<PathBuf>,
}

impl Folders<'_> {
    fn note(&mut self, file: &Path) {
        let folders = file.ancestors().skip(1);
        let ours = folders.take_while(|folder| folder.starts_with(self.data_dir));
        self.changed.extend(ours.map(Path::to_path_buf));
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LedgerError {
    let path = path.to_path_buf();
    move |source| LedgerError::Folder { action, path, source }
}

/// The names in a folder; none if there is no folder.
async fn list<R: Runtime>(runtime: &R, folder: &Path) -> Result<Vec<String>, NodeError> {
    match runtime.read_dir(folder).await {
        Ok(entries) => Ok(entries.into_iter().map(|entry| entry.name).collect()),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(Vec::new())
        }
        Err(error) => Err(io_error("list", folder)(error)),
    }
}
