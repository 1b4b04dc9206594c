//! Buckets: objects that are created once and never overwritten.
//!
//! # Layers
//!
//! - [`ObjectName`]: names. [`Bucket`]: what a bucket can do, one attempt at a time.
//! - Buckets: [`cloud`] (S3 and what speaks like it, Google Cloud Storage, Azure), [`folder`] (files
//!   of a file system), and [`double`], which fails and lies in the simulation.
//! - [`Store`]: tries again, asks twice what is slow, and finds out what became of a create.
//! - [`object`]: the header of objects that are made here. On top of it: [`log`]s that can be taken
//!   over, [`epoch`]s that no two writers share, and the [`self_test`] of a store.
//!
//! # Guarantees
//!
//! - A create is known to have happened only when the object holds the caller's bytes, and known to
//!   be somebody else's only when other bytes were read.
//! - Time, chance and I/O come from the [`logsvc_runtime::Runtime`], and requests from
//!   `logsvc-http`'s client. No thread and no runtime of another kind is started.
//!
//! What must be absent: this crate knows no segments, no shards and no settings file.

pub mod bucket;
pub mod cloud;
mod counters;
pub mod double;
pub mod epoch;
pub mod folder;
pub mod log;
mod name;
pub mod object;
mod pace;
pub mod self_test;
mod store;
#[cfg(feature = "swift")]
pub mod swift;

pub use bucket::{Bucket, PART_BYTES};
pub use counters::{Attempts, Counters, Request, TIME_BOUNDS_MS};
pub use name::{Folder, NAME_MAX_BYTES, NameError, ObjectName};
pub use store::{Created, Store, StoreError};
