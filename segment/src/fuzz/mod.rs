//! Entry points for fuzzers: the decoders of this crate over arbitrary bytes.
//!
//! Each function panics if a decoder breaks a guarantee that its documentation gives. Ordinary
//! tests call the same functions over random and damaged bytes.

mod batch;
mod filter;
mod segment;

pub use batch::batch_sections;
pub use filter::filters;
pub use segment::{decode_all, lines_as_templates, segment};
