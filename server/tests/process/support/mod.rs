//! Parts that the tests share: a server to start and to end, an HTTP client, bodies to push, and
//! answers to read.

pub(crate) mod body;
pub(crate) mod client;
mod command;
pub(crate) mod node;
pub(crate) mod page;
pub(crate) mod query;
pub(crate) mod random;
pub(crate) mod websocket;

use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) use body::{Entry, Stream, entry, stream};
pub(crate) use client::{Client, Reply};
pub(crate) use command::{logsvc, text};
pub(crate) use node::{DataDir, Server};

pub(crate) const SECOND_NS: i64 = 1_000_000_000;

/// The wall clock, in ns since the Unix epoch.
pub(crate) fn now_ns() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    i64::try_from(since_epoch.as_nanos()).expect("a clock before 2262")
}
