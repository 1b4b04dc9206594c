//! The part of a scan that runs on its core: it finds the blocks in the order of the query,
//! reads them, fills batches, and keeps decoded columns.
//!
//! It imports [`super::aside`], which computes the batches, and never the other way round.

mod ahead;
mod batch_size;
mod bundles;
mod env;
mod expand;
mod fill;
mod frontier;
mod groups;
mod hiding;
mod job;
mod late;
mod learn;
mod list;
mod load;
mod memory;
mod prune;
mod rows;
mod run;
mod share;
mod stored;
mod totals;

pub use env::{ScanConfig, ScanEnv};
pub use job::{LeafReply, ScanJob};
pub(crate) use list::Listing;
pub use list::{ListJob, Listed, list};
pub use run::run;
