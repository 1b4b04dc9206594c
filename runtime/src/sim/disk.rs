//! The simulated disk: space, latency, failures, and the switches for tests ([`control`]).
//!
//! What may go wrong on it: everything that [`super::inode`] and [`super::names`] model at a power
//! loss; operations that fail with `EIO`, armed by a test or by chance (a failing write leaves a
//! part of its bytes, a failing sync forgets the dirty bytes); a full disk, on which a write leaves
//! the bytes that fit; flipped bits. A killed process leaves everything it has written; its
//! operations in flight happen, in part for a write, or do not.
//!
//! Not modelled: operations that never end, misdirected or repeated writes,
//! space taken by folders and holes (a file takes its length).

mod control;

use std::cell::{Cell, RefCell};
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::disk_faults::{DiskOperation, Faults};
use super::inode::Inode;
use super::names::{Entry, Names, normalized};
use super::random::Random;
use super::world::{Fate, World};
use crate::{DirEntry, DiskSpace, OpenMode};

/// One operation in so many is slow.
const SLOW_ONE_IN: u64 = 64;
/// How many times longer a slow operation takes.
const SLOW_FACTOR: u64 = 30;

/// A disk that outlives the nodes that use it. Clones are handles to one disk.
/// Its own operations take no virtual time and never fail by chance.
#[derive(Clone)]
pub struct Disk {
    pub(super) state: Rc<DiskState>,
}

pub(super) struct DiskState {
    pub(super) random: Random,
    world: Rc<World>,
    names: RefCell<Names<Rc<FileNode>>>,
    faults: RefCell<Faults>,
    capacity_bytes: Cell<u64>,
    used_bytes: Cell<u64>,
    /// Number of power losses; files opened before the last one are dead.
    epoch: Cell<u64>,
    latency_nanos: RefCell<RangeInclusive<u64>>,
    sync_latency_nanos: RefCell<RangeInclusive<u64>>,
}

/// A file, for as long as a name or an open file leads to it.
pub(super) struct FileNode {
    pub(super) inode: RefCell<Inode>,
    /// The name under which it was opened or to which it was last renamed.
    pub(super) path: RefCell<PathBuf>,
    /// When it was last written, by the wall clock. It does not go back when the power goes.
    modified_ns: Cell<i64>,
    /// How many names lead to it.
    links: Cell<u32>,
    open_count: Cell<u32>,
    locked: Cell<bool>,
    /// The share of the disk's used bytes that this file is counted with.
    charged_bytes: Cell<u64>,
}

/// An open file; closes when dropped.
pub(super) struct OpenFile {
    pub(super) disk: Disk,
    pub(super) node: Rc<FileNode>,
    epoch: u64,
    holds_lock: bool,
}

impl OpenFile {
    fn new(disk: &Disk, node: Rc<FileNode>, holds_lock: bool) -> OpenFile {
        node.open_count.set(node.open_count.get() + 1);
        OpenFile { disk: disk.clone(), node, epoch: disk.state.epoch.get(), holds_lock }
    }

    /// An error once the disk has lost power.
    pub(super) fn check_alive(&self) -> io::Result<()> {
        if self.epoch == self.disk.state.epoch.get() {
            return Ok(());
        }
        Err(io::Error::other("the disk has lost power since the file was opened"))
    }

    /// An error if the operation is meant to fail.
    pub(super) fn strike(&self, operation: DiskOperation) -> io::Result<()> {
        self.disk.state.strike(operation, &self.node.path.borrow())
    }

    /// How many of the bytes up to `end_bytes` the disk has space for.
    pub(super) fn room_until(&self, end_bytes: u64) -> u64 {
        let grown = end_bytes.saturating_sub(self.node.charged_bytes.get());
        end_bytes - grown.saturating_sub(self.disk.state.free_bytes())
    }

    /// Notes that content or length have changed.
    pub(super) fn note_change(&self) {
        self.node.modified_ns.set(self.disk.state.world.unix_nanos());
        self.charge();
    }

    /// Counts the file with its present length.
    pub(super) fn charge(&self) {
        self.disk.state.charge(&self.node);
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.node.open_count.set(self.node.open_count.get() - 1);
        if self.holds_lock && self.check_alive().is_ok() {
            self.node.locked.set(false);
        }
        self.disk.state.charge(&self.node);
    }
}

impl DiskState {
    pub(super) fn latency_nanos(&self, operation: DiskOperation) -> u64 {
        use DiskOperation::{Sync, SyncDir, WriteBack};
        let is_sync = matches!(operation, Sync | SyncDir | WriteBack);
        let range = if is_sync { &self.sync_latency_nanos } else { &self.latency_nanos };
        let usual_nanos = self.random.within(&range.borrow());
        if self.random.one_in(SLOW_ONE_IN) {
            usual_nanos.saturating_mul(SLOW_FACTOR)
        } else {
            usual_nanos
        }
    }

    fn strike(&self, operation: DiskOperation, path: &Path) -> io::Result<()> {
        self.faults.borrow_mut().strikes(operation, path, &self.random)
    }

    fn free_bytes(&self) -> u64 {
        self.capacity_bytes.get().saturating_sub(self.used_bytes.get())
    }

    fn charge(&self, node: &FileNode) {
        let is_alive = node.links.get() > 0 || node.open_count.get() > 0;
        let bytes = if is_alive { node.inode.borrow().len_bytes() } else { 0 };
        let charged_bytes = node.charged_bytes.replace(bytes);
        self.used_bytes.set(self.used_bytes.get() - charged_bytes + bytes);
    }

    fn unlink(&self, node: &FileNode) {
        node.links.set(node.links.get() - 1);
        self.charge(node);
    }

    fn link_new(&self, path: &Path, inode: Inode) -> io::Result<Rc<FileNode>> {
        let node = Rc::new(FileNode {
            inode: RefCell::new(inode),
            path: RefCell::new(path.to_owned()),
            modified_ns: Cell::new(self.world.unix_nanos()),
            links: Cell::new(1),
            open_count: Cell::new(0),
            locked: Cell::new(false),
            charged_bytes: Cell::new(0),
        });
        self.names.borrow_mut().create(path, Rc::clone(&node))?;
        self.charge(&node);
        Ok(node)
    }
}

fn dir_entry(path: &Path, entry: &Entry<Rc<FileNode>>) -> io::Result<DirEntry> {
    let name = path.file_name().unwrap_or_default();
    let name = name.to_str().ok_or(io::ErrorKind::InvalidData)?.to_owned();
    Ok(match entry {
        Entry::Dir => DirEntry { name, is_dir: true, len_bytes: 0, modified_ns: 0 },
        Entry::File(node) => {
            let (len_bytes, modified_ns) =
                (node.inode.borrow().len_bytes(), node.modified_ns.get());
            DirEntry { name, is_dir: false, len_bytes, modified_ns }
        }
    })
}

/// The side for the runtime's operations.
impl Disk {
    pub(super) fn new(world: &Rc<World>, number: u64) -> Disk {
        Disk {
            state: Rc::new(DiskState {
                random: Random::derive(world.seed(), 1_000 + number),
                world: Rc::clone(world),
                names: RefCell::new(Names::new()),
                faults: RefCell::default(),
                capacity_bytes: Cell::new(1 << 40),
                used_bytes: Cell::new(0),
                epoch: Cell::new(0),
                latency_nanos: RefCell::new(3_000..=150_000),
                sync_latency_nanos: RefCell::new(50_000..=1_500_000),
            }),
        }
    }

    pub(super) fn open(&self, path: &Path, mode: OpenMode) -> io::Result<OpenFile> {
        let path = normalized(path)?;
        self.state.strike(DiskOperation::Open, &path)?;
        let node = match mode {
            OpenMode::CreateNew | OpenMode::CreateNewDurable | OpenMode::CreateNewDirect => {
                self.state.link_new(&path, Inode::default())?
            }
            OpenMode::Read | OpenMode::ReadPieces | OpenMode::ReadDirect | OpenMode::ReadWrite => {
                self.state.names.borrow().file(&path)?
            }
        };
        Ok(OpenFile::new(self, node, false))
    }

    pub(super) fn lock(&self, path: &Path) -> io::Result<OpenFile> {
        let path = normalized(path)?;
        self.state.strike(DiskOperation::Open, &path)?;
        let existing = self.state.names.borrow().file(&path);
        let node = match existing {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.state.link_new(&path, Inode::default())?
            }
            other => other?,
        };
        if node.locked.replace(true) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(OpenFile::new(self, node, true))
    }

    pub(super) fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let path = normalized(path)?;
        self.state.strike(DiskOperation::CreateDir, &path)?;
        self.state.names.borrow_mut().create_folders(&path)
    }

    pub(super) fn entry(&self, path: &Path) -> io::Result<DirEntry> {
        let path = normalized(path)?;
        self.state.strike(DiskOperation::ReadDir, &path)?;
        dir_entry(&path, self.state.names.borrow().entry(&path)?)
    }

    pub(super) fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let path = normalized(path)?;
        self.state.strike(DiskOperation::ReadDir, &path)?;
        let names = self.state.names.borrow();
        let entries: io::Result<Vec<DirEntry>> =
            names.list(&path)?.into_iter().map(|(path, entry)| dir_entry(path, entry)).collect();
        let mut entries = entries?;
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (normalized(from)?, normalized(to)?);
        self.state.strike(DiskOperation::Rename, &to)?;
        let (moved, replaced) = {
            let mut names = self.state.names.borrow_mut();
            (names.file(&from)?, names.rename(&from, &to)?)
        };
        *moved.path.borrow_mut() = to;
        if let Some(replaced) = replaced {
            self.state.unlink(&replaced);
        }
        Ok(())
    }

    pub(super) fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (normalized(from)?, normalized(to)?);
        self.state.strike(DiskOperation::Rename, &to)?;
        let node = self.state.names.borrow().file(&from)?;
        self.state.names.borrow_mut().create(&to, Rc::clone(&node))?;
        node.links.set(node.links.get() + 1);
        Ok(())
    }

    pub(super) fn remove_file(&self, path: &Path) -> io::Result<()> {
        let path = normalized(path)?;
        self.state.strike(DiskOperation::Remove, &path)?;
        let removed = self.state.names.borrow_mut().remove(&path)?;
        self.state.unlink(&removed);
        Ok(())
    }

    pub(super) fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let path = normalized(path)?;
        self.state.strike(DiskOperation::Remove, &path)?;
        self.state.names.borrow_mut().remove_folder(&path)
    }

    pub(super) fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let path = normalized(path)?;
        self.state.strike(DiskOperation::SyncDir, &path)?;
        self.state.names.borrow_mut().sync(&path)
    }

    pub(super) fn space(&self, path: &Path) -> io::Result<DiskSpace> {
        if !self.state.names.borrow().exists(&normalized(path)?) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(DiskSpace {
            total_bytes: self.state.capacity_bytes.get(),
            available_bytes: self.state.free_bytes(),
        })
    }

    /// How much of a write gets through that was interrupted by a crash.
    pub(super) fn reached(&self, fate: Fate, len: usize) -> usize {
        match fate {
            Fate::Due => len,
            Fate::Interrupted => self.state.random.below(len as u64 + 1) as usize,
        }
    }
}
