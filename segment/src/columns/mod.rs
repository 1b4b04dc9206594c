//! The columns of a block: their encodings, and how the encoded bytes are stored.

pub(crate) mod compress;
mod hex;
pub(crate) mod lengths;
pub(crate) mod metadata;
pub(crate) mod packed;
mod template_store;
pub(crate) mod templates;
pub(crate) mod timestamps;
