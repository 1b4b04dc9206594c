//! LogQL: the query language.
//!
//! [`syntax`] turns query text into a checked tree and prints trees back.
//! [`engine`] evaluates trees over entries.

pub mod engine;
pub mod syntax;
pub mod testing;
