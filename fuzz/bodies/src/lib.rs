//! The bodies of fuzz targets: functions that take arbitrary bytes, decode them, and panic if a
//! property does not hold.
//!
//! The fuzz targets call them, and so do ordinary tests of the crates, over examples and random
//! bytes: so they run without a fuzzer, too. Each module needs the feature of its name, so that
//! the tests of one crate do not build the others. Bodies that need code which a crate keeps to
//! itself are in the `fuzz` module of that crate.
//!
//! Unit tests of a crate that call a body get a second build of the crate with it. The types of the
//! two builds differ, so only bytes and numbers pass between such a test and a body.
//!
//! What must be absent: the product does not depend on this crate.

#[cfg(feature = "cluster")]
pub mod cluster;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "logql")]
pub mod logql;
#[cfg(feature = "membership")]
pub mod membership;
#[cfg(feature = "peers")]
pub mod peers;
#[cfg(feature = "proto")]
pub mod proto;
#[cfg(feature = "rules")]
pub mod rules;
#[cfg(feature = "runtime")]
pub mod runtime;
#[cfg(feature = "segment")]
pub mod segment;
#[cfg(feature = "shards")]
pub mod shards;
