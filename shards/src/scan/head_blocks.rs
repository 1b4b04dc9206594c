//! The blocks of one head in a snapshot.

use std::ops::Deref;
use std::sync::Arc;

use logsvc_segment::head::HeadBlock;

/// Where the blocks of heads stand in the order of arrival: behind all segments. Entries that are
/// being sealed come before newer entries.
const GENERATION_FROZEN: u32 = u32::MAX - 1;
const GENERATION_HEAD: u32 = u32::MAX;

/// The arrival number of a block: generations in their order, and the blocks of one
/// stream within a generation.
pub(super) fn arrival(generation: u32, within: u32) -> u64 {
    (u64::from(generation) << 32) | u64::from(within)
}

/// A block of a head.
#[derive(Clone, Debug)]
pub struct HeadBlockRef {
    /// The block's position in the order of arrival: among all generations, and within its own.
    pub(super) generation: u32,
    pub(super) within: u32,
    /// The time bounds of the block. They stand here because ordering the blocks needs no look at
    /// them then.
    bounds_ns: (i64, i64),
    pub(super) block: Arc<HeadBlock>,
}

impl HeadBlockRef {
    /// Block number `within` of the entries that are being sealed, with its time bounds.
    pub(crate) fn frozen(
        within: u32,
        block: &Arc<HeadBlock>,
        bounds_ns: (i64, i64),
    ) -> HeadBlockRef {
        HeadBlockRef { generation: GENERATION_FROZEN, within, bounds_ns, block: Arc::clone(block) }
    }

    /// Block number `within` of the newest entries, with its time bounds.
    pub(crate) fn head(within: u32, block: &Arc<HeadBlock>, bounds_ns: (i64, i64)) -> HeadBlockRef {
        HeadBlockRef { generation: GENERATION_HEAD, within, bounds_ns, block: Arc::clone(block) }
    }

    /// Oldest and newest timestamp.
    pub(crate) fn time_bounds_ns(&self) -> (i64, i64) {
        self.bounds_ns
    }
}

/// Blocks of a head, in order. Most streams have one at most, which takes no memory of its
/// own: a snapshot may be of very many streams.
#[derive(Debug, Default)]
pub enum HeadBlocks {
    /// No block.
    #[default]
    None,
    /// A list of one block.
    One(HeadBlockRef),
    /// Any number.
    Many(Vec<HeadBlockRef>),
}

impl Deref for HeadBlocks {
    type Target = [HeadBlockRef];

    fn deref(&self) -> &[HeadBlockRef] {
        match self {
            HeadBlocks::None => &[],
            HeadBlocks::One(part) => std::slice::from_ref(part),
            HeadBlocks::Many(parts) => parts,
        }
    }
}

impl FromIterator<HeadBlockRef> for HeadBlocks {
    fn from_iter<I: IntoIterator<Item = HeadBlockRef>>(parts: I) -> HeadBlocks {
        let mut parts = parts.into_iter();
        let Some(first) = parts.next() else { return HeadBlocks::None };
        let Some(second) = parts.next() else { return HeadBlocks::One(first) };
        HeadBlocks::Many([first, second].into_iter().chain(parts).collect())
    }
}
