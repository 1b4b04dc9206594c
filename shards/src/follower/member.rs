//! What the follower of a node among others has to know besides: which segments of other writers the
//! shards have.
//!
//! Guarantees: whoever gives a shard a partition notes its segments before, so that no edit about a
//! segment of another writer is taken for one about nothing. Objects of such segments are not removed
//! here: other nodes may read them.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use logsvc_runtime::Runtime;

use super::Follower;
use crate::ledger::LogEntry;
use crate::manifest::{Day, SegmentName};
use crate::types::{OwnedPartitions, StreamPartitions};

/// Segments that the shards of a node have got, and that they have no more. Cheap to clone; stays on
/// its core.
#[derive(Clone, Debug, Default)]
pub struct OwnedSegments(Rc<RefCell<Vec<Change>>>);

/// What was taken over of that.
#[derive(Debug, Default)]
pub(super) struct AsMember {
    owned: OwnedSegments,
    /// Entries that are to be appended as they are.
    pub(super) adopted: Vec<LogEntry>,
}

#[derive(Debug)]
enum Change {
    Gained(SegmentName, Day),
    LeftWith(OwnedPartitions),
    Adopted(Vec<LogEntry>),
}

impl OwnedSegments {
    /// Notes a segment that a shard is about to gain.
    pub(crate) fn note_gained(&self, name: SegmentName, day: Day) {
        self.0.borrow_mut().push(Change::Gained(name, day));
    }

    /// Notes that the shards have lost all partitions but these.
    pub(crate) fn note_left_with(&self, owned: OwnedPartitions) {
        self.0.borrow_mut().push(Change::LeftWith(owned));
    }

    /// Has entries appended to the node's log, which say what ended logs have said.
    pub(crate) fn adopt(&self, entries: Vec<LogEntry>) {
        self.0.borrow_mut().push(Change::Adopted(entries));
    }
}

impl<R: Runtime> Follower<R> {
    /// The same for a node among others.
    #[must_use]
    pub fn with_owned_segments(mut self, owned: OwnedSegments) -> Follower<R> {
        self.member.owned = owned;
        self
    }

    /// Takes over what was noted.
    pub(super) fn take_owned(&mut self) {
        for change in self.member.owned.0.take() {
            match change {
                Change::Gained(name, day) => {
                    self.objects.live.insert(name, day);
                    self.objects.foreign.insert(name);
                    // Its end comes, unless this node has made it.
                    self.disk.cache.add_absent(name);
                }
                Change::Adopted(entries) => self.member.adopted.extend(entries),
                Change::LeftWith(owned) => self.leave_with(&owned),
            }
        }
    }

    /// Forgets segments of which no shard has anything, and removes their files: others own them.
    fn leave_with(&mut self, owned: &OwnedPartitions) {
        let none = StreamPartitions::default();
        let is_left = |name: &SegmentName| owned.parts_of_file(name.writer(), &none).is_empty();
        let left: Vec<(SegmentName, Day)> =
            self.objects.live.extract_if(.., |name, _| is_left(name)).collect();
        let mut files = Vec::new();
        for (name, day) in left {
            self.objects.foreign.remove(&name);
            self.objects.forget_retired(name);
            self.disk.cache.remove(name);
            let segments_dir = &self.plan.segments_dir;
            files.extend([name.path(segments_dir, day), name.tail_path(segments_dir, day)]);
        }
        let runtime = self.runtime.clone();
        drop(self.runtime.spawn(async move {
            for file in files {
                match runtime.remove_file(&file).await {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        tracing::warn!(%error, file = %file.display(), "cannot remove a file");
                    }
                    _ => {}
                }
            }
        }));
    }
}
