//! What all rooms of a core share.

pub(super) mod lanes;
