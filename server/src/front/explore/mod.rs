//! The explore room: which streams, labels, fields and patterns there are, and how large they are.

mod catalogue;
mod detected;
mod index;
mod patterns;
mod volume;
