//! The chunks of the values of one label.
//!
//! Most labels of most tenants have few values, which fit into one chunk. A tree allocates memory
//! for eleven chunks at once, so a single chunk lies here without a tree. With many tenants this
//! is most of the memory of each tenant.

use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;

use super::values::Chunk;

/// Chunks by a lower bound of their values that is above all values of the chunk before.
#[derive(Debug, Default)]
pub(super) enum Chunks {
    #[default]
    None,
    /// One, whose bound is the empty text.
    One(Chunk),
    Many(BTreeMap<Box<str>, Chunk>),
}

impl Chunks {
    /// The chunk that has a value if any chunk has it.
    pub(super) fn of_value(&self, value: &str) -> Option<&Chunk> {
        self.last_up_to(value).map(|(_, chunk)| chunk)
    }

    /// The same with its bound.
    pub(super) fn last_up_to(&self, value: &str) -> Option<(&str, &Chunk)> {
        match self {
            Chunks::None => None,
            Chunks::One(chunk) => Some(("", chunk)),
            Chunks::Many(tree) => {
                let last = tree.range::<str, _>(up_to(value)).next_back();
                last.map(|(bound, chunk)| (&**bound, chunk))
            }
        }
    }

    /// As [`Chunks::of_value`].
    pub(super) fn of_value_mut(&mut self, value: &str) -> Option<&mut Chunk> {
        match self {
            Chunks::None => None,
            Chunks::One(chunk) => Some(chunk),
            Chunks::Many(tree) => {
                tree.range_mut::<str, _>(up_to(value)).next_back().map(|(_, chunk)| chunk)
            }
        }
    }

    /// Adds a chunk with a bound that no other has. The first one has the empty bound.
    pub(super) fn insert(&mut self, bound: &str, chunk: Chunk) {
        match self {
            Chunks::None if bound.is_empty() => *self = Chunks::One(chunk),
            Chunks::None => *self = Chunks::Many(BTreeMap::from([(bound.into(), chunk)])),
            Chunks::One(_) => {
                let Chunks::One(first) = std::mem::take(self) else { return };
                *self = Chunks::Many(BTreeMap::from([("".into(), first), (bound.into(), chunk)]));
            }
            Chunks::Many(tree) => {
                tree.insert(bound.into(), chunk);
            }
        }
    }

    /// All of them.
    pub(super) fn iter(&self) -> ChunkIter<'_> {
        self.range(Bound::Unbounded)
    }

    /// The chunks from a bound on.
    pub(super) fn range(&self, from: Bound<&str>) -> ChunkIter<'_> {
        match self {
            Chunks::None => ChunkIter::One(None),
            // Its bound is below all others.
            Chunks::One(chunk) => ChunkIter::One(Some(chunk)),
            Chunks::Many(tree) => ChunkIter::Many(tree.range::<str, _>((from, Bound::Unbounded))),
        }
    }
}

pub(super) fn up_to(value: &str) -> (Bound<&str>, Bound<&str>) {
    (Bound::Unbounded, Bound::Included(value))
}

/// Chunks with their bounds, rising.
#[derive(Clone)]
pub(super) enum ChunkIter<'c> {
    One(Option<&'c Chunk>),
    Many(btree_map::Range<'c, Box<str>, Chunk>),
}

impl<'c> Iterator for ChunkIter<'c> {
    type Item = (&'c str, &'c Chunk);

    fn next(&mut self) -> Option<(&'c str, &'c Chunk)> {
        match self {
            ChunkIter::One(chunk) => chunk.take().map(|chunk| ("", chunk)),
            ChunkIter::Many(range) => range.next().map(|(bound, chunk)| (&**bound, chunk)),
        }
    }
}
