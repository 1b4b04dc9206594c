//! What the bytes between nodes are made of, those of questions and those of results.
//!
//! Guarantees: a number, a text and a list have one encoding, and the decoder takes no other. It
//! meets arbitrary bytes without panic, and makes no list for more items than the bytes can hold.

pub(in crate::engine) mod bytes;
mod error;

pub use error::{LeafError, WireError};
