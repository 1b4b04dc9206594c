//! The folders of the simulated disk: which name leads to which file.
//!
//! Modelled:
//! - A creation, rename or removal is visible at once and durable after a sync
//!   of the folder; a rename across folders after a sync of both. Before that a
//!   power loss undoes it or not. Half of the power losses keep a prefix of all
//!   pending changes (a journal); the others keep any of them, except that a
//!   change is lost if an earlier one of the same name is. A rename happens whole
//!   or not at all.
//! - Syncing a file does not make its name durable; syncing a folder does not make the folder's own
//!   name durable, and the content of a lost folder is lost.
//!
//! Not modelled: symbolic links, renaming folders, permissions, relative paths (they start at the
//! root), other names for one folder (`..` is refused).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::random::Random;

pub(super) enum Entry<F> {
    Dir,
    File(F),
}

impl<F: Clone> Clone for Entry<F> {
    fn clone(&self) -> Self {
        match self {
            Entry::Dir => Entry::Dir,
            Entry::File(file) => Entry::File(file.clone()),
        }
    }
}

type Tree<F> = BTreeMap<PathBuf, Entry<F>>;

/// A change of some names at the same moment.
struct Change<F> {
    edits: Vec<(PathBuf, Option<Entry<F>>)>,
    unsynced_folders: BTreeSet<PathBuf>,
}

impl<F> Change<F> {
    fn touches(&self, other: &Change<F>) -> bool {
        self.edits.iter().any(|(path, _)| other.edits.iter().any(|(other, _)| path == other))
    }
}

/// Names that lead to files of type `F`. All paths are as [`normalized`] gives
/// them.
pub(super) struct Names<F> {
    visible: Tree<F>,
    durable: Tree<F>,
    /// Oldest first.
    unsynced: Vec<Change<F>>,
}

/// The path as this module knows it: absolute, without `.`.
pub(super) fn normalized(path: &Path) -> io::Result<PathBuf> {
    let mut clean = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => clean.push(name),
            Component::ParentDir | Component::Prefix(_) => {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "a path with `..`"));
            }
        }
    }
    Ok(clean)
}

fn parent_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

impl<F: Clone> Names<F> {
    pub(super) fn new() -> Self {
        let root = BTreeMap::from([(PathBuf::from("/"), Entry::Dir)]);
        Names { visible: root.clone(), durable: root, unsynced: Vec::new() }
    }

    pub(super) fn file(&self, path: &Path) -> io::Result<F> {
        match self.visible.get(path) {
            Some(Entry::File(file)) => Ok(file.clone()),
            Some(Entry::Dir) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn entry(&self, path: &Path) -> io::Result<&Entry<F>> {
        self.visible.get(path).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn exists(&self, path: &Path) -> bool {
        self.visible.contains_key(path)
    }

    pub(super) fn check_folder(&self, path: &Path) -> io::Result<()> {
        match self.visible.get(path) {
            Some(Entry::Dir) => Ok(()),
            Some(Entry::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn list<'a>(
        &'a self,
        folder: &'a Path,
    ) -> io::Result<Vec<(&'a Path, &'a Entry<F>)>> {
        self.check_folder(folder)?;
        let below = self.below(folder);
        Ok(below.filter(|(path, _)| path.parent() == Some(folder)).collect())
    }

    /// Everything below a folder, at any depth, sorted.
    pub(super) fn below<'a>(
        &'a self,
        folder: &'a Path,
    ) -> impl Iterator<Item = (&'a Path, &'a Entry<F>)> {
        self.visible
            .range::<Path, _>((std::ops::Bound::Excluded(folder), std::ops::Bound::Unbounded))
            .take_while(move |(path, _)| path.starts_with(folder))
            .map(|(path, entry)| (path.as_path(), entry))
    }

    /// Links a file that no name leads to yet.
    pub(super) fn create(&mut self, path: &Path, file: F) -> io::Result<()> {
        self.check_folder(parent_of(path))?;
        if self.exists(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.change(vec![(path.to_owned(), Some(Entry::File(file)))]);
        Ok(())
    }

    pub(super) fn create_folders(&mut self, path: &Path) -> io::Result<()> {
        let mut missing: Vec<&Path> =
            path.ancestors().take_while(|folder| !self.exists(folder)).collect();
        // The lowest existing folder above them, or the path itself, must be a folder.
        self.check_folder(missing.last().map_or(path, |highest| parent_of(highest)))?;
        while let Some(folder) = missing.pop() {
            self.change(vec![(folder.to_owned(), Some(Entry::Dir))]);
        }
        Ok(())
    }

    /// Moves a file; gives the file that had the name before.
    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<Option<F>> {
        let file = self.file(from)?;
        self.check_folder(parent_of(to))?;
        let replaced = match self.file(to) {
            Ok(replaced) => Some(replaced),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if from == to {
            return Ok(None);
        }
        self.change(vec![(from.to_owned(), None), (to.to_owned(), Some(Entry::File(file)))]);
        Ok(replaced)
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<F> {
        let file = self.file(path)?;
        self.change(vec![(path.to_owned(), None)]);
        Ok(file)
    }

    pub(super) fn remove_folder(&mut self, path: &Path) -> io::Result<()> {
        self.check_folder(path)?;
        if self.below(path).next().is_some() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        self.change(vec![(path.to_owned(), None)]);
        Ok(())
    }

    pub(super) fn sync(&mut self, folder: &Path) -> io::Result<()> {
        self.check_folder(folder)?;
        for change in &mut self.unsynced {
            change.unsynced_folders.remove(folder);
        }
        let mut settled: Vec<bool> =
            self.unsynced.iter().map(|change| change.unsynced_folders.is_empty()).collect();
        if self.unsynced.iter().any(|change| change.edits.len() > 1) {
            // A change cannot become durable before an earlier one of its names,
            // which may wait for another folder.
            for earlier in (0..settled.len()).rev() {
                let touched = |later: usize| {
                    settled[later] && self.unsynced[later].touches(&self.unsynced[earlier])
                };
                settled[earlier] = settled[earlier] || (earlier + 1..settled.len()).any(touched);
            }
        }
        let mut numbers = 0..;
        let is_settled =
            |_: &mut Change<F>| numbers.next().is_some_and(|number: usize| settled[number]);
        for change in self.unsynced.extract_if(.., is_settled) {
            apply(&mut self.durable, &change);
        }
        Ok(())
    }

    /// Undoes the changes that do not survive; gives the files that are left.
    pub(super) fn lose_power(&mut self, random: &Random) -> Vec<F> {
        let changes = std::mem::take(&mut self.unsynced);
        if random.one_in(2) {
            let kept = match random.below(4) {
                0 => 0,
                1 => changes.len(),
                _ => random.below(changes.len() as u64 + 1) as usize,
            };
            changes[..kept].iter().for_each(|change| apply(&mut self.durable, change));
        } else {
            let percent = [20, 50, 80][random.index(3)];
            let mut lost_names = BTreeSet::new();
            for change in &changes {
                let depends = change.edits.iter().any(|(path, _)| lost_names.contains(path));
                if depends || random.below(100) >= percent {
                    lost_names.extend(change.edits.iter().map(|(path, _)| path));
                } else {
                    apply(&mut self.durable, change);
                }
            }
        }
        // Parents sort before their content.
        let mut reachable = Tree::new();
        for (path, entry) in std::mem::take(&mut self.durable) {
            let is_root = path.parent().is_none();
            if is_root || matches!(reachable.get(parent_of(&path)), Some(Entry::Dir)) {
                reachable.insert(path, entry);
            }
        }
        self.visible = reachable.clone();
        self.durable = reachable;
        let files = self.durable.values().filter_map(|entry| match entry {
            Entry::File(file) => Some(file.clone()),
            Entry::Dir => None,
        });
        files.collect()
    }

    /// Makes all pending changes durable.
    pub(super) fn sync_all(&mut self) {
        for change in std::mem::take(&mut self.unsynced) {
            apply(&mut self.durable, &change);
        }
    }

    fn change(&mut self, edits: Vec<(PathBuf, Option<Entry<F>>)>) {
        let unsynced_folders = edits.iter().map(|(path, _)| parent_of(path).to_owned()).collect();
        let change = Change { edits, unsynced_folders };
        apply(&mut self.visible, &change);
        self.unsynced.push(change);
    }
}

fn apply<F: Clone>(tree: &mut Tree<F>, change: &Change<F>) {
    for (path, entry) in &change.edits {
        match entry {
            Some(entry) => tree.insert(path.clone(), entry.clone()),
            None => tree.remove(path),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(paths: &[&str]) -> Names<u32> {
        let mut names = Names::new();
        names.create_folders(Path::new("/a")).expect("new");
        names.create_folders(Path::new("/b")).expect("new");
        for (number, path) in paths.iter().enumerate() {
            names.create(Path::new(path), number as u32).expect("new");
        }
        names.sync_all();
        names
    }

    fn at(names: &Names<u32>, path: &str) -> Option<u32> {
        names.file(Path::new(path)).ok()
    }

    #[test]
    fn synced_names_survive_and_others_do_so_by_chance() {
        let mut outcomes = BTreeSet::new();
        for seed in 0..200 {
            let mut names = names(&["/a/old"]);
            names.create(Path::new("/a/new"), 7).expect("new");
            names.sync(Path::new("/a")).expect("a folder");
            names.create(Path::new("/a/late"), 8).expect("new");
            names.remove(Path::new("/a/old")).expect("there");
            names.sync(Path::new("/b")).expect("a folder");
            names.lose_power(&Random::derive(seed, 0));
            assert_eq!(at(&names, "/a/new"), Some(7), "seed {seed}");
            outcomes.insert((at(&names, "/a/late"), at(&names, "/a/old")));
        }
        // All four, the last one only without a journal.
        assert_eq!(outcomes.len(), 4, "{outcomes:?}");
    }

    #[test]
    fn a_rename_happens_whole_or_not_at_all() {
        let mut outcomes = BTreeSet::new();
        for seed in 0..100 {
            let mut names = names(&["/a/target"]);
            names.create(Path::new("/a/tmp"), 1).expect("new");
            let replaced = names.rename(Path::new("/a/tmp"), Path::new("/a/target"));
            assert_eq!(replaced.expect("both there"), Some(0));
            names.lose_power(&Random::derive(seed, 0));
            outcomes.insert((at(&names, "/a/tmp"), at(&names, "/a/target")));
        }
        let expected = [(None, Some(0)), (None, Some(1)), (Some(1), Some(0))];
        assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_lies_in_a_lost_folder_is_lost() {
        let mut lost = 0;
        for seed in 0..100 {
            let mut names = names(&[]);
            names.create_folders(Path::new("/a/x/y")).expect("new");
            names.create(Path::new("/a/x/y/f"), 3).expect("new");
            names.sync(Path::new("/a/x/y")).expect("a folder");
            names.sync(Path::new("/a/x")).expect("a folder");
            names.lose_power(&Random::derive(seed, 0));
            let there = at(&names, "/a/x/y/f").is_some();
            assert_eq!(there, names.exists(Path::new("/a/x")), "seed {seed}");
            lost += u32::from(!there);
        }
        assert!((5..95).contains(&lost), "{lost}");
    }

    #[test]
    fn changes_across_folders_keep_their_order() {
        for seed in 0..100 {
            let mut names = names(&["/a/f"]);
            names.rename(Path::new("/a/f"), Path::new("/b/f")).expect("there");
            names.remove(Path::new("/b/f")).expect("there");
            names.sync(Path::new("/b")).expect("a folder");
            names.lose_power(&Random::derive(seed, 0));
            assert_eq!((at(&names, "/a/f"), at(&names, "/b/f")), (None, None), "seed {seed}");
        }
    }

    #[test]
    fn errors_are_those_of_a_real_file_system() {
        let mut names = names(&["/a/f"]);
        let kind = |result: io::Result<()>| result.expect_err("refused").kind();
        assert_eq!(kind(names.create(Path::new("/a/f"), 1)), io::ErrorKind::AlreadyExists);
        assert_eq!(kind(names.create(Path::new("/c/f"), 1)), io::ErrorKind::NotFound);
        assert_eq!(kind(names.create_folders(Path::new("/a/f"))), io::ErrorKind::NotADirectory);
        assert_eq!(kind(names.create_folders(Path::new("/a/f/g"))), io::ErrorKind::NotADirectory);
        assert_eq!(kind(names.remove(Path::new("/a")).map(drop)), io::ErrorKind::IsADirectory);
        assert_eq!(kind(names.sync(Path::new("/a/f"))), io::ErrorKind::NotADirectory);
        assert_eq!(kind(normalized(Path::new("a/../b")).map(drop)), io::ErrorKind::InvalidInput);
        assert_eq!(normalized(Path::new("./a//b/")).expect("fine"), Path::new("/a/b"));
    }
}
