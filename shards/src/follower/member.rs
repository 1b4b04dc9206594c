//! What the follower of a node among others has to know besides: which segments of other writers the
//! shards have.
//!
//! Guarantees: whoever gives a shard a partition notes its segments before, so that no edit about a
//! segment of another writer is taken for one about nothing. Objects of such segments are not removed
//! here: other nodes may read them.

use std::cell::RefCell;
use std::rc::Rc;

use logsvc_runtime::Runtime;

use super::Follower;
use crate::manifest::{Day, SegmentName};

/// Segments that the shards of a node have got, and that they have no more. Cheap to clone; stays on
/// its core.
#[derive(Clone, Debug, Default)]
pub struct OwnedSegments(Rc<RefCell<Vec<Change>>>);

#[derive(Debug)]
enum Change {
    Gained(SegmentName, Day),
    Lost(SegmentName),
}

impl OwnedSegments {
    /// Notes a segment that a shard is about to gain.
    pub fn note_gained(&self, name: SegmentName, day: Day) {
        self.0.borrow_mut().push(Change::Gained(name, day));
    }

    /// Notes a segment that no shard has any more although it may be live.
    pub fn note_lost(&self, name: SegmentName) {
        self.0.borrow_mut().push(Change::Lost(name));
    }
}

impl<R: Runtime> Follower<R> {
    /// The same for a node among others.
    #[must_use]
    pub fn with_owned_segments(mut self, owned: OwnedSegments) -> Follower<R> {
        self.owned = owned;
        self
    }

    /// Takes over what was noted.
    pub(super) fn take_owned(&mut self) {
        for change in self.owned.0.take() {
            match change {
                Change::Gained(name, day) => {
                    self.objects.live.insert(name, day);
                    self.objects.foreign.insert(name);
                }
                Change::Lost(name) => {
                    self.objects.live.remove(&name);
                    self.objects.foreign.remove(&name);
                    self.objects.forget_retired(name);
                }
            }
        }
    }
}
