//! LogQL: the query language.
//!
//! [`syntax`] turns query text into a checked tree and prints trees back.

pub mod fuzz;
pub mod syntax;
pub mod testing;
