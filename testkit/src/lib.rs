//! What tests and benchmarks of several crates share: random numbers from a seed, seeds that
//! replay a failure, and log lines as applications write them.
//!
//! No crate of the product depends on this one; their tests and benchmarks do. It depends on
//! none of them, so that the tests of each can use it.

mod lines;
mod random;
mod seeds;
pub mod words;

pub use lines::{Scene, Style, line};
pub use random::{Rng, mix};
pub use seeds::{SeedGuard, seeds};
