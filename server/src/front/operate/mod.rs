//! The operate room: the state of the node, its settings, and how it is stopped.

pub(super) mod admin;
pub(super) mod operations;
pub(super) mod pages;
pub(crate) mod shutdown;
