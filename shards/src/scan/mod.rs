//! Runs one shard's part of a query over a snapshot, beside the shard.
//!
//! What is read is a list of *units*, ordered by time in query direction so that a
//! limit ends the scan early: a block of a head, or a block of a sealed segment with
//! those of its runs that the query wants (`on_core/frontier.rs`). Segments are looked at
//! only when the scan has come to their time. Of a sealed block only the columns are
//! read that the query needs (`aside/columns.rs`), and none if the directory's counts are
//! enough or the segment's filters prove that nothing in it can match (`on_core/prune.rs`).
//! Lines are not put together where their filters can do without (`aside/search.rs`).
//! A scan that turns out to be long is divided among all cores (`on_core/share.rs`).
//! An entry that was stored twice because it came again after it had been sealed is
//! seen once (`on_core/late.rs`).
//!
//! A scan whose stages are light (`LeafPlan::core_batch_bytes`) begins on its core, one small block at
//! a time, and most are done within [`ScanConfig::first_slice`]. What comes then, what is large,
//! and all of other scans is computed on side threads, a batch of blocks at a time ([`aside`]):
//! the core only finds the blocks, reads them ([`on_core`]) and keeps what was decoded. So whatever
//! else the core has to do, such as a push, waits for no query. What a batch holds is reserved
//! (`on_core/memory.rs`). A scan that goes on for longer than [`ScanConfig::heavy_after`] gets less of
//! the CPU than sealing and other queries do.
//!
//! Guarantees: the snapshot does not change while it is read; the core's other
//! tasks get their turn after the scan's first slice plus the time of one small block, and from
//! then on at least once per millisecond plus the time of checking one segment's directory and
//! looking up the streams in it; a cancelled query stops within one block. A block whose
//! bytes are damaged is left out, counted, and logged once; the rest is answered. What else
//! can go wrong is in [`ScanError`].

mod aside;
mod error;
mod head_blocks;
mod on_core;
mod request;
mod snapshots;

pub(crate) use aside::intern;
pub use aside::{PartAllowance, stop_of};
pub use error::ScanError;
pub use head_blocks::{HeadBlockRef, HeadBlocks};
pub use on_core::{ScanConfig, ScanEnv, ScanJob, run};
pub use request::{LeafReply, LeafRequest};
pub(crate) use snapshots::FETCHED_AT_ONCE;
pub use snapshots::{StreamSnapshot, StreamSnapshots};
