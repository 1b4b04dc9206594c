//! The node among those that share its bucket.
//!
//! [`membership`] tells who else lives and where. It is a hint: what only one node may do is decided by
//! objects in the bucket.

pub(crate) mod membership;
