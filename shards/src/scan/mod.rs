//! Runs one shard's part of a query over a snapshot, beside the shard.
//!
//! A scan reads a list of *units*, ordered by time in query direction, so that a limit ends the
//! scan early (`on_core/frontier.rs`). A unit is a block of a head, or a block of a sealed segment
//! with the runs that the query wants. A segment is opened only when the scan has come to its
//! time. Of a sealed block the scan reads only the columns that the query needs
//! (`aside/columns.rs`). It reads none if the counts in the directory are enough, or if the
//! filters of the segment prove that the block has no match (`on_core/prune.rs`). Line filters
//! work on parts of lines where they can (`aside/search.rs`). A long scan is divided among all
//! cores (`on_core/share.rs`). An entry that is stored in two generations, because it was pushed
//! again after it was sealed, is seen once (`on_core/late.rs`).
//!
//! The folder [`on_core`] has the code that runs on the core of the scan: it finds the blocks,
//! reads them, and keeps decoded columns. The folder [`aside`] has the code that may run on any
//! thread: it decodes and evaluates a batch of blocks. `on_core` imports `aside`, and never the
//! other way round.
//!
//! A light scan (`LeafPlan::core_batch_bytes`) begins on its core, one small block at a time, and
//! most light scans end within [`ScanConfig::first_slice`]. Side threads compute the rest of a
//! light scan, its large blocks, and all of a heavy scan. So a push waits for no query. A light
//! scan that began on a side thread would take longer beside pushes at full speed: p50 5.2 ms
//! instead of 3.0 to 3.6 (2026-11-25, two CPUs). The
//! columns of a batch are reserved in the memory for queries (`on_core/memory.rs`). A scan that
//! takes longer than [`ScanConfig::heavy_after`] gets less of the CPU than sealing and other
//! queries.
//!
//! Guarantees: the snapshot does not change while it is read. The core's other tasks run after
//! the first slice of the scan plus the time of one small block. From then on they run at least
//! once per millisecond plus the time of checking one segment's directory and looking up the
//! streams in it. A cancelled query stops within one block. A block with damaged bytes is left
//! out, counted, and logged once, and the query answers from the rest. [`ScanError`] lists the
//! failures.

mod aside;
mod error;
mod head_blocks;
mod on_core;
mod request;
mod selector;
mod snapshots;
mod streams;

pub(crate) use aside::intern;
pub use aside::{PartAllowance, stop_of};
use error::ReadError;
pub use error::ScanError;
pub use head_blocks::{HeadBlockRef, HeadBlocks};
pub(crate) use on_core::Listing;
pub use on_core::{LeafReply, ListJob, Listed, ScanConfig, ScanEnv, ScanJob, list, run};
pub use request::LeafRequest;
pub(crate) use selector::StreamSelector;
pub(crate) use snapshots::FETCHED_AT_ONCE;
pub use snapshots::{StreamSnapshot, StreamSnapshots};
