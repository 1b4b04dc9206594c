//! The version of the set of requests that hide entries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A version of the set of requests that hide entries. It grows with each change of the set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeletionVersion(u64);

impl DeletionVersion {
    /// At this version nothing is hidden. For numbers that tell what is stored.
    pub const NONE: DeletionVersion = DeletionVersion(0);
    /// The version at which requests of earlier starts begin to hide.
    pub const FIRST: DeletionVersion = DeletionVersion(1);

    /// The version after this one.
    #[must_use]
    pub fn next(self) -> DeletionVersion {
        DeletionVersion(self.0 + 1)
    }

    /// The version of a node among others, whose requests are as the entry of this number of the log of
    /// common files says.
    pub(crate) fn of_common(number: u64) -> DeletionVersion {
        DeletionVersion(DeletionVersion::FIRST.0.saturating_add(number))
    }

    /// The number of the entry of [`DeletionVersion::of_common`].
    pub fn common_number(self) -> u64 {
        self.0.saturating_sub(DeletionVersion::FIRST.0)
    }

    /// The version of a number.
    pub fn of_number(number: u64) -> DeletionVersion {
        DeletionVersion(number)
    }

    /// Its number, which grows from version to version.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// The version that is in force on the node. Clones are the same.
#[derive(Clone, Debug)]
pub struct NodeDeletions(Arc<AtomicU64>);

impl Default for NodeDeletions {
    fn default() -> NodeDeletions {
        NodeDeletions(Arc::new(AtomicU64::new(DeletionVersion::FIRST.number())))
    }
}

impl NodeDeletions {
    /// The version in force. A query takes it once, right before it asks the shards, and behind the
    /// stamp of its answer.
    pub fn version(&self) -> DeletionVersion {
        DeletionVersion(self.0.load(Ordering::Acquire))
    }

    /// Brings a later version into force. All shards know its filters.
    pub fn publish(&self, version: DeletionVersion) {
        self.0.store(version.number(), Ordering::Release);
    }
}
