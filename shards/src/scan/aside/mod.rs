//! The part of a scan that may run on any thread: decoding, searching and evaluating blocks
//! whose columns were loaded.
//!
//! This folder does no I/O, waits for nothing, and knows nothing of the core ([`super::on_core`]),
//! which gives it batches and takes them back.

mod abridged;
mod allowance;
mod batch;
mod columns;
mod hiding;
mod leaf;
mod metadata;
mod pairs;
mod search;

pub use allowance::{PartAllowance, stop_of};
pub(super) use batch::{Batch, BatchMemory, BlockWork, Item, RunWork, StreamRun};
pub(super) use columns::{Column, Loaded, OpenBlock, RunColumns, Unready, columns_of};
pub(super) use leaf::Leaf;
pub(crate) use metadata::intern;
