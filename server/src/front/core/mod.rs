//! What all rooms of a core share.

pub(super) mod errors;
pub(super) mod lanes;
