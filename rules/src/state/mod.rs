//! The state of alerts on the disk: an append-only log of what changed, `rules/state/ALERTS`.
//!
//! Guarantees:
//! - What [`StateLog::append`] has acknowledged survives the end of the process. It survives the
//!   loss of power once the file was synced, which happens within about a second.
//! - A file that is damaged costs the alerts behind the damage their age. It never keeps a process
//!   from starting, and no bytes make the reader panic or take memory beyond the file's length by
//!   more than a factor.
//! - The file is rewritten when it is longer than twice what it held when it was last rewritten,
//!   and [`REWRITE_SLACK_BYTES`]. A crash leaves the old file or the new one.
//! - A disk that fails stops no evaluation: the log says so, forgets, and writes all of the state
//!   anew when the disk works again.
//!
//! Of nodes that share a bucket one evaluates, and another one may take over. There the state is a
//! file that they have in common, with the same bytes, which is written anew when the state has
//! changed ([`CommonState`]).
//!
//! docs/format.md has the bytes.

mod common;
pub mod format;
pub mod fuzz;
mod image;
mod load;
mod log;
#[cfg(test)]
mod tests;

pub use common::{CommonState, STATE_MAX_BYTES, load_common};
pub use image::{GroupImage, GroupKey, RuleImage, StateImage};
pub use load::{LoadReport, load};
pub use log::{
    GroupSnapshot, REWRITE_SLACK_BYTES, RuleSnapshot, Snapshot, StateCounters, StateLog,
};

/// What is new of the state. Later kinds outweigh earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum News {
    /// Nothing.
    #[default]
    None,
    /// The time of an evaluation that has left firing and resolved alerts what they were.
    Time,
    /// The time of an evaluation that has left an alert pending.
    Waiting,
    /// An alert has another state.
    State,
}

/// The folder, in the data folder.
pub const FOLDER_NAME: &str = "rules/state";
/// The file in it.
pub const FILE_NAME: &str = "ALERTS";
