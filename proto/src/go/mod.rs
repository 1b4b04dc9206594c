//! Texts as Go programs read and write them. Loki's clients see them in messages, in label sets
//! and in queries, so they are reproduced here, once for all crates.
//!
//! - [`quote`] and [`unquote`]: strings and characters of package `strconv`
//! - [`float`]: floating point numbers of `strconv` and `fmt`
//! - [`duration`]: durations of package `time`, and durations of Prometheus
//! - [`size`]: sizes in bytes, in the three notations that Loki knows
//! - [`calendar`]: dates, RFC 3339, and how Go prints a time
//!
//! Readers take any text: they neither panic nor take more than time linear in its length.

pub mod calendar;
pub mod duration;
pub mod float;
pub mod quote;
pub mod size;
pub mod unquote;
