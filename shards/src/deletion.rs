//! Requests to delete entries, and the entries that they hide.
//!
//! A request names a tenant, a log query and a range of times. It hides every entry that the query
//! would return. Hiding begins on all cores before the request is answered. Removing begins when
//! the cancel period is over: the shards rewrite the segments that hold hidden entries.
//!
//! Each shard knows the [`DeleteFilter`]s of all requests that are not processed, and each of its
//! streams knows the filters that select it. The node counts the changes of the set of filters in a
//! [`DeletionVersion`]. A query takes the version once, before it asks the shards. A shard applies
//! to the query the filters that hold at this version, so all shards hide the same entries.
//!
//! Guarantees: the hidden entries are the removed entries. A filter is known to all shards before a
//! version in which it holds is published.

mod filter;
pub mod format;
mod hidden;
mod messages;
mod request;
pub mod store;
mod target;
mod version;

pub use filter::{DeleteFilter, DeleteFilters, FilterWeight};
pub use hidden::{HiddenEntries, Hiding, ShownEntries, StreamDeletions, needs_of, union};
pub use messages::{
    CancelError, CreateError, DeletionReply, DeletionRequest, DeletionStatus, NewDelete,
    RemovalReport, TenantDeletions,
};
pub use request::{DeleteId, DeleteRequest, DeleteState};
pub(crate) use target::SelectedStream;
pub use target::{PurgeTarget, RemovedTotals};
pub use version::{DeletionVersion, NodeDeletions};
