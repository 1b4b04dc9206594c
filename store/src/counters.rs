//! What was asked of a bucket, for metrics: requests are what a bucket costs.
//!
//! Guarantees: one core writes, with relaxed atomics, and any may read. A request counts when it is
//! sent, so one whose caller went away counts, too.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::bucket::BucketError;

/// A kind of request, as price lists tell them apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// Creates an object, or a part of one.
    Create,
    /// Reads a part of an object.
    Read,
    /// Asks for the length of an object.
    Info,
    /// Lists objects.
    List,
    /// Removes an object.
    Remove,
}

impl Request {
    /// All kinds.
    pub const ALL: [Request; 5] =
        [Request::Create, Request::Read, Request::Info, Request::List, Request::Remove];

    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Request::Create => "create",
            Request::Read => "read",
            Request::Info => "info",
            Request::List => "list",
            Request::Remove => "remove",
        }
    }
}

/// Upper bounds of the buckets of times, in milliseconds.
pub const TIME_BOUNDS_MS: [u64; 10] = [5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 30_000];

/// Attempts of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// All of them.
    pub count: u64,
    /// Those that failed; that an object does not exist, or exists, is an answer.
    pub failures: u64,
    /// Bytes that were sent, failures included.
    pub sent_bytes: u64,
    /// Those that ended before their caller went away, by [`TIME_BOUNDS_MS`], with one above; not
    /// cumulative.
    pub times: [u64; TIME_BOUNDS_MS.len() + 1],
    /// The sum of their times, in microseconds.
    pub sum_us: u64,
}

#[derive(Debug, Default)]
struct Kind {
    count: AtomicU64,
    failures: AtomicU64,
    sent_bytes: AtomicU64,
    times: [AtomicU64; TIME_BOUNDS_MS.len() + 1],
    sum_us: AtomicU64,
}

/// Attempts since the start.
#[derive(Debug, Default)]
pub struct Counters {
    kinds: [Kind; Request::ALL.len()],
    read_bytes: AtomicU64,
    seconds: AtomicU64,
}

fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

impl Counters {
    /// Notes that an attempt begins.
    pub(crate) fn note_begun(&self, request: Request, sent_bytes: u64) {
        let kind = &self.kinds[request as usize];
        add(&kind.count, 1);
        add(&kind.sent_bytes, sent_bytes);
    }

    /// Notes how an attempt has ended.
    pub(crate) fn note_ended(&self, request: Request, error: Option<&BucketError>, time: Duration) {
        let kind = &self.kinds[request as usize];
        let is_answer =
            |error: &BucketError| matches!(error, BucketError::NotFound | BucketError::Exists(_));
        if error.is_some_and(|error| !is_answer(error)) {
            add(&kind.failures, 1);
        }
        let time_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        add(&kind.times[TIME_BOUNDS_MS.partition_point(|&bound| bound * 1_000 < time_us)], 1);
        add(&kind.sum_us, time_us);
    }

    pub(crate) fn note_read_bytes(&self, len_bytes: u64) {
        add(&self.read_bytes, len_bytes);
    }

    pub(crate) fn note_second(&self) {
        add(&self.seconds, 1);
    }

    /// Attempts of a kind.
    pub fn of(&self, request: Request) -> Attempts {
        let kind = &self.kinds[request as usize];
        let now = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Attempts {
            count: now(&kind.count),
            failures: now(&kind.failures),
            sent_bytes: now(&kind.sent_bytes),
            times: std::array::from_fn(|at| now(&kind.times[at])),
            sum_us: now(&kind.sum_us),
        }
    }

    /// Bytes that were read.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }

    /// Reads that were asked for twice, because the first was slow.
    pub fn second_reads(&self) -> u64 {
        self.seconds.load(Ordering::Relaxed)
    }
}
