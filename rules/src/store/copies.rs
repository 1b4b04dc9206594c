//! Somebody who keeps a copy of the files of rule groups: the bucket of the node, if it has one.
//!
//! This crate knows nothing of buckets. The server puts one behind this interface.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// The copies have not come in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotCopied;

/// Ends when the copies are there, or when they do not come soon.
pub type Copying = Pin<Box<dyn Future<Output = Result<(), NotCopied>>>>;

/// See the module. Everything is called on core 0.
pub trait FileCopies: fmt::Debug + 'static {
    /// A file has changed, or may have; `path` begins at the data folder. It is on stable storage,
    /// unless the change has failed.
    fn changed(&self, path: &str);

    /// Waits until all files that have changed are copied; `None` if an answer is not to wait.
    fn copied(&self) -> Option<Copying>;
}
