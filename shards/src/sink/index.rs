//! Which objects of the node's write-ahead log in the bucket are needed.
//!
//! The sink notes which files each object has pieces of. The follower asks, when it makes an entry of
//! the node's log of edits, which object is the first needed one, and removes those before it.
//!
//! Guarantees: an object is needed as long as one of its files is not covered, and as long as it is
//! not confirmed. Memory per object is constant while the files do not change.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use logsvc_runtime::Latch;

use crate::wal::covers::{Cover, FileCovers};
use crate::wal::format::WalName;

/// See the module. Cheap to clone; stays on its core.
#[derive(Clone, Debug, Default)]
pub struct WalIndex(Rc<State>);

#[derive(Debug, Default)]
struct State {
    /// The files of each object. Objects with the same files share the set.
    objects: RefCell<BTreeMap<u64, Rc<BTreeSet<WalName>>>>,
    /// The first object that is not confirmed.
    unconfirmed: Cell<u64>,
    /// The first object that the bucket's log of edits says to be needed.
    needed: Cell<u64>,
    /// Triggered when the bucket knows that the log is there.
    announced: Latch,
}

impl WalIndex {
    /// Notes the files of an object that is about to be written.
    pub(super) fn note_begun(&self, number: u64, names: BTreeSet<WalName>) {
        let mut objects = self.0.objects.borrow_mut();
        let last = objects.values().next_back().filter(|last| ***last == names);
        let names = last.map_or_else(|| Rc::new(names), Rc::clone);
        objects.insert(number, names);
    }

    /// Notes that an object, and all before it, count.
    pub(super) fn note_confirmed(&self, number: u64) {
        self.0.unconfirmed.set(number + 1);
    }

    /// The latch that tells that the bucket knows of the log. Until then whoever takes over does not
    /// look for it.
    pub(super) fn announced(&self) -> &Latch {
        &self.0.announced
    }

    /// Tells that the bucket knows of the log.
    pub(crate) fn announce(&self) {
        self.0.announced.trigger();
    }

    /// The first object that is needed if these covers hold; that may be the next one.
    pub(crate) fn first_needed(&self, covers: &[Cover]) -> u64 {
        let objects = self.0.objects.borrow();
        let is_covered = |name: &WalName| FileCovers::of(covers, *name).covers_file(*name);
        let mut known: Option<&Rc<BTreeSet<WalName>>> = None;
        for (&number, names) in objects.range(..self.0.unconfirmed.get()) {
            let is_same = known.is_some_and(|known| Rc::ptr_eq(known, names));
            if !is_same && !names.iter().all(is_covered) {
                return number;
            }
            known = Some(names);
        }
        self.0.unconfirmed.get()
    }

    /// Notes what the log of edits in the bucket says.
    pub(crate) fn note_needed(&self, first: u64) {
        self.0.needed.set(first);
    }

    /// Objects that have to go. The newest confirmed one stays, so that nobody takes the log for one
    /// that has not begun.
    pub(crate) fn unneeded(&self) -> Vec<u64> {
        let end = self.0.needed.get().min(self.0.unconfirmed.get().saturating_sub(1));
        self.0.objects.borrow().range(..end).map(|(&number, _)| number).collect()
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&self, number: u64) {
        self.0.objects.borrow_mut().remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Part;

    fn file(index: u32) -> WalName {
        WalName { epoch: 3, shards: 1, shard: 0, index }
    }

    fn cover(up_to_index: u32) -> [Cover; 1] {
        let part = Part::one(1, 0);
        [Cover { wal_epoch: 3, wal_shards: 1, wal_shard: 0, up_to_index, part }]
    }

    #[test]
    fn objects_are_needed_until_they_are_confirmed_and_covered() {
        let index = WalIndex::default();
        for (number, files) in [(0, vec![0]), (1, vec![0]), (2, vec![0, 1]), (3, vec![1])] {
            index.note_begun(number, files.into_iter().map(file).collect());
        }
        assert_eq!(index.first_needed(&cover(9)), 0, "nothing is confirmed");
        index.note_confirmed(2);
        assert_eq!(index.first_needed(&[]), 0);
        assert_eq!(index.first_needed(&cover(0)), 2);
        assert_eq!(index.first_needed(&cover(1)), 3, "the last one is on its way");
        assert!(index.unneeded().is_empty(), "the bucket does not know");
        index.note_needed(3);
        assert_eq!(index.unneeded(), [0, 1], "the newest confirmed one stays");
        index.forget(0);
        index.note_confirmed(3);
        index.note_needed(index.first_needed(&cover(1)));
        assert_eq!(index.unneeded(), [1, 2]);
    }
}
