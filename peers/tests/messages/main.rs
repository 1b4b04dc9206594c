//! The bytes of messages between nodes: they come back as they were, have the fields that
//! `docs/format.md` tells, and are harmless whatever they are.

mod counting;
mod damaged;
mod heads;
mod limits;
mod questions;
mod replies;
mod support;
mod words;
