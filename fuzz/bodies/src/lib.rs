//! The bodies of fuzz targets: functions that take arbitrary bytes, decode them, and panic if a
//! property does not hold.
//!
//! The fuzz targets call them, and so do ordinary tests of the crates, over examples and random
//! bytes: so they run without a fuzzer, too. Each module needs the feature of its name, so that
//! the tests of one crate do not build the others.
//!
//! What must be absent: the product does not depend on this crate.

#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "logql")]
pub mod logql;
#[cfg(feature = "proto")]
pub mod proto;
