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
use std::sync::Arc;

use logsvc_runtime::{Bell, Latch};

use super::SinkStatus;
use crate::wal::covers::{Cover, FileCovers};
use crate::wal::format::WalName;

/// See the module. Cheap to clone; stays on its core.
#[derive(Clone, Debug)]
pub struct WalIndex(Rc<State>);

#[derive(Debug)]
struct State {
    status: Arc<SinkStatus>,
    objects: RefCell<BTreeMap<u64, Object>>,
    /// The first object that is not confirmed.
    unconfirmed: Cell<u64>,
    /// The first object that the bucket's log of edits says to be needed.
    needed: Cell<u64>,
    /// Triggered when the bucket knows that the log is there.
    announced: Latch,
    end_asked: Bell,
}

#[derive(Debug)]
struct Object {
    /// The files. Objects with the same ones share the set.
    names: Rc<BTreeSet<WalName>>,
    /// The last piece of each core that the object makes whole.
    ends: BTreeMap<u16, u64>,
    /// Whether its number does not count. The object, or the beginning of it, may be there.
    is_void: bool,
}

impl WalIndex {
    pub(super) fn new(status: Arc<SinkStatus>) -> WalIndex {
        WalIndex(Rc::new(State {
            status,
            objects: RefCell::default(),
            unconfirmed: Cell::new(0),
            needed: Cell::new(0),
            announced: Latch::new(),
            end_asked: Bell::new(),
        }))
    }

    /// Notes the files of an object that is about to be written, and the last piece of each core that
    /// it makes whole.
    pub(super) fn note_begun(
        &self,
        number: u64,
        names: BTreeSet<WalName>,
        ends: BTreeMap<u16, u64>,
    ) {
        let mut objects = self.0.objects.borrow_mut();
        let names = match objects.values().next_back() {
            Some(last) if *last.names == names => Rc::clone(&last.names),
            _ => Rc::new(names),
        };
        objects.insert(number, Object { names, ends, is_void: false });
    }

    /// Notes that all objects from `torn` on, which are not confirmed, are written with numbers from
    /// `next` on, and that those between are void.
    pub(super) fn note_resumed(&self, torn: u64, next: u64) {
        let mut objects = self.0.objects.borrow_mut();
        let begun = objects.split_off(&torn);
        for (&number, object) in &begun {
            let (names, ends) = (Rc::clone(&object.names), BTreeMap::new());
            objects.insert(number, Object { names, ends, is_void: true });
        }
        objects.extend(begun.into_iter().map(|(number, object)| (number - torn + next, object)));
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

    /// The first object that is needed if these covers hold; that may be the next one. It is none of
    /// those that are void, but for the first of them.
    pub(crate) fn first_needed(&self, covers: &[Cover]) -> u64 {
        let objects = self.0.objects.borrow();
        let is_covered = |name: &WalName| FileCovers::of(covers, *name).covers_file(*name);
        let mut known: Option<&Rc<BTreeSet<WalName>>> = None;
        let confirmed = objects.range(..self.0.unconfirmed.get());
        for (&number, Object { names, .. }) in confirmed.filter(|(_, object)| !object.is_void) {
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

    /// Forgets the first object, which is gone.
    pub(crate) fn forget(&self, number: u64) {
        let removed = self.0.objects.borrow_mut().remove(&number);
        for (core, sequence) in removed.into_iter().flat_map(|object| object.ends) {
            self.0.status.note_gone(core, sequence);
        }
    }

    /// The first object with pieces that is there, or on its way.
    pub(crate) fn first_left(&self) -> Option<u64> {
        let objects = self.0.objects.borrow();
        objects.iter().find(|(_, object)| !object.names.is_empty()).map(|(&number, _)| number)
    }

    /// Whether an object without pieces would let the newest one go: no object is needed, and none is
    /// on its way.
    pub(crate) fn lacks_end(&self) -> bool {
        let unconfirmed = self.0.unconfirmed.get();
        let objects = self.0.objects.borrow();
        let newest = objects.last_key_value();
        self.0.needed.get() >= unconfirmed
            && newest
                .is_some_and(|(&number, newest)| number < unconfirmed && !newest.names.is_empty())
    }

    /// Asks for such an object. The sink makes none if it has pieces by then.
    pub(crate) fn ask_for_end(&self) {
        self.0.end_asked.ring();
    }

    pub(super) fn end_asked(&self) -> &Bell {
        &self.0.end_asked
    }
}

#[cfg(test)]
mod tests {
    use logsvc_runtime::Budget;

    use super::*;
    use crate::types::Part;

    fn file(index: u32) -> WalName {
        WalName { epoch: 3, shards: 1, shard: 0, index }
    }

    fn cover(up_to_index: u32) -> [Cover; 1] {
        let part = Part::one(1, 0);
        [Cover { wal_epoch: 3, wal_shards: 1, wal_shard: 0, up_to_index, part }]
    }

    fn index() -> WalIndex {
        WalIndex::new(Arc::new(SinkStatus::new(1, Budget::new("test", 0))))
    }

    fn begin(index: &WalIndex, number: u64, files: &[u32]) {
        let ends = [(0, number + 1)].into_iter().filter(|_| !files.is_empty()).collect();
        index.note_begun(number, files.iter().copied().map(file).collect(), ends);
    }

    #[test]
    fn objects_are_needed_until_they_are_confirmed_and_covered() {
        let index = index();
        for (number, files) in [(0, vec![0]), (1, vec![0]), (2, vec![0, 1]), (3, vec![1])] {
            begin(&index, number, &files);
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

    #[test]
    fn void_objects_are_not_needed_and_go_with_those_before_them() {
        let index = index();
        let status = Arc::clone(&index.0.status);
        for (number, files) in [(0, vec![0]), (1, vec![0, 1]), (2, vec![1])] {
            begin(&index, number, &files);
            status.note_sent(0, number + 1);
        }
        let mark = status.sent();
        index.note_confirmed(0);
        index.note_resumed(1, 9);
        assert_eq!(index.first_needed(&cover(0)), 1, "a reader goes on behind the void ones");
        index.note_confirmed(9);
        assert_eq!(index.first_needed(&cover(0)), 9);
        index.note_confirmed(10);
        assert_eq!((index.first_needed(&cover(0)), index.first_needed(&cover(1))), (9, 11));
        index.note_needed(11);
        assert_eq!((index.first_left(), index.unneeded()), (Some(0), vec![0, 1, 2, 9]));
        [0, 1, 2, 9].into_iter().for_each(|number| index.forget(number));
        assert!(index.lacks_end() && !status.has_left(&mark));
        index.forget(10);
        assert!(status.has_left(&mark));
    }

    #[test]
    fn the_newest_object_goes_when_one_without_pieces_follows() {
        let index = index();
        let status = Arc::clone(&index.0.status);
        for number in 0..3 {
            begin(&index, number, &[0]);
            status.note_sent(0, number + 1);
        }
        let mark = status.sent();
        index.note_confirmed(1);
        index.note_needed(index.first_needed(&cover(0)));
        assert!(!index.lacks_end(), "one is on its way");
        index.note_confirmed(2);
        assert!(!index.lacks_end(), "the bucket does not know that it is not needed");
        index.note_needed(index.first_needed(&cover(0)));
        assert!(index.lacks_end());
        index.unneeded().into_iter().for_each(|number| index.forget(number));
        assert!(index.lacks_end() && !status.has_left(&mark));
        begin(&index, 3, &[]);
        assert!(!index.lacks_end() && index.unneeded().is_empty());
        index.note_confirmed(3);
        assert_eq!(index.unneeded(), [2]);
        index.forget(2);
        assert!(!index.lacks_end() && status.has_left(&mark));
        status.note_sent(0, 4);
        assert!(status.has_left(&mark) && !status.has_left(&status.sent()));
    }
}
