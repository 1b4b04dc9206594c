//! The side of the simulated disk for tests: power losses, failures, files without a runtime. None of
//! this takes virtual time or fails by chance.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::super::disk_faults::{DiskOperation, FaultRates};
use super::super::inode::Inode;
use super::super::names::{Entry, normalized};
use super::{Disk, FileNode};

impl Disk {
    /// The power goes. To be called when no node uses the disk; files that are
    /// open nevertheless fail from now on.
    pub fn power_loss(&self) {
        let state = &*self.state;
        state.epoch.set(state.epoch.get() + 1);
        let mut files = Vec::new();
        for (_, entry) in state.names.borrow().below(Path::new("/")) {
            if let Entry::File(node) = entry {
                files.push(Rc::clone(node));
            }
        }
        let survivors = state.names.borrow_mut().lose_power(&state.random);
        files.iter().for_each(|node| node.links.set(0));
        survivors.iter().for_each(|node| node.links.set(0));
        for node in &survivors {
            // A file with two names loses its bytes once.
            if node.links.replace(node.links.get() + 1) == 0 {
                node.locked.set(false);
                node.inode.borrow_mut().lose_power(&state.random);
            }
        }
        files.iter().chain(&survivors).for_each(|node| state.charge(node));
    }

    /// Lets the next `count` operations of this kind on names below `path` (a
    /// file or a folder; `/` for all) fail with `EIO`.
    ///
    /// # Panics
    /// If the path holds `..`.
    pub fn fail_next(&self, operation: DiskOperation, path: impl AsRef<Path>, count: u64) {
        let path = normalized(path.as_ref()).expect("a path without `..`");
        self.state.faults.borrow_mut().arm(operation, path, count);
    }

    /// Lets operations fail by chance.
    pub fn set_fault_rates(&self, rates: FaultRates) {
        self.state.faults.borrow_mut().set_rates(rates);
    }

    /// Ends all failures, armed ones and random ones.
    pub fn clear_faults(&self) {
        self.state.faults.borrow_mut().clear();
    }

    /// Sets the disk's size. A size below the used space makes the disk full.
    pub fn set_capacity_bytes(&self, capacity_bytes: u64) {
        self.state.capacity_bytes.set(capacity_bytes);
    }

    /// Bytes of all files that a name or an open file leads to.
    pub fn used_bytes(&self) -> u64 {
        self.state.used_bytes.get()
    }

    /// Sets the latency of operations, in nanoseconds: of syncs, and of all others. One in 64 takes
    /// thirty times as long.
    pub fn set_latency_nanos(&self, sync: RangeInclusive<u64>, other: RangeInclusive<u64>) {
        self.state.sync_latency_nanos.replace(sync);
        self.state.latency_nanos.replace(other);
    }

    /// Flips the bits of `mask` in one byte of a file, on the platter: reading
    /// gives no error. False if there is no such byte.
    pub fn corrupt(&self, path: impl AsRef<Path>, offset_bytes: u64, mask: u8) -> bool {
        self.node(path.as_ref())
            .is_some_and(|node| node.inode.borrow_mut().corrupt(offset_bytes, mask))
    }

    /// Paths of all files below a folder, sorted.
    pub fn files(&self, folder: impl AsRef<Path>) -> Vec<PathBuf> {
        let Ok(folder) = normalized(folder.as_ref()) else { return Vec::new() };
        let names = self.state.names.borrow();
        let files = names.below(&folder).filter(|(_, entry)| matches!(entry, Entry::File(_)));
        files.map(|(path, _)| path.to_owned()).collect()
    }

    /// The content of a file as a program would read it.
    pub fn read(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let node = self.node(path.as_ref())?;
        let mut content = Vec::new();
        node.inode.borrow().read(&mut content, 0, usize::MAX);
        Some(content)
    }

    /// Puts a file there, or replaces it, together with its folders. All pending
    /// changes of names become durable, and so is the file.
    ///
    /// # Panics
    /// If the path is that of a folder or leads through a file.
    pub fn write(&self, path: impl AsRef<Path>, content: &[u8]) {
        let path = normalized(path.as_ref()).expect("a path without `..`");
        let folder = path.parent().expect("not the root");
        self.state.names.borrow_mut().create_folders(folder).expect("the folders can be there");
        self.remove(&path);
        let inode = Inode::with_durable(content);
        self.state.link_new(&path, inode).expect("the name is free");
        self.state.names.borrow_mut().sync_all();
    }

    /// Takes a file away for good; false if there is none. All pending changes of
    /// names become durable.
    pub fn remove(&self, path: impl AsRef<Path>) -> bool {
        let Ok(path) = normalized(path.as_ref()) else { return false };
        let removed = self.state.names.borrow_mut().remove(&path);
        self.state.names.borrow_mut().sync_all();
        removed.map(|node| self.state.unlink(&node)).is_ok()
    }

    fn node(&self, path: &Path) -> Option<Rc<FileNode>> {
        self.state.names.borrow().file(&normalized(path).ok()?).ok()
    }
}
