//! What was asked of a bucket, for metrics: requests are what a bucket costs.

use std::cell::Cell;
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
    /// By [`TIME_BOUNDS_MS`], with one above; not cumulative.
    pub times: [u64; TIME_BOUNDS_MS.len() + 1],
    /// The sum of their times, in microseconds.
    pub sum_us: u64,
}

/// Attempts since the start.
#[derive(Debug, Default)]
pub struct Counters {
    attempts: [Cell<Attempts>; Request::ALL.len()],
    read_bytes: Cell<u64>,
    seconds: Cell<u64>,
}

impl Counters {
    pub(crate) fn note(
        &self,
        request: Request,
        error: Option<&BucketError>,
        sent_bytes: u64,
        time: Duration,
    ) {
        let cell = &self.attempts[request as usize];
        let mut attempts = cell.get();
        attempts.count += 1;
        let is_answer =
            |error: &BucketError| matches!(error, BucketError::NotFound | BucketError::Exists(_));
        attempts.failures += u64::from(error.is_some_and(|error| !is_answer(error)));
        attempts.sent_bytes += sent_bytes;
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        attempts.times[TIME_BOUNDS_MS.partition_point(|&bound| bound < time_ms)] += 1;
        attempts.sum_us += u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        cell.set(attempts);
    }

    pub(crate) fn note_read_bytes(&self, len_bytes: u64) {
        self.read_bytes.set(self.read_bytes.get() + len_bytes);
    }

    pub(crate) fn note_second(&self) {
        self.seconds.set(self.seconds.get() + 1);
    }

    /// Attempts of a kind.
    pub fn of(&self, request: Request) -> Attempts {
        self.attempts[request as usize].get()
    }

    /// Bytes that were read.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes.get()
    }

    /// Reads that were asked for twice, because the first was slow.
    pub fn second_reads(&self) -> u64 {
        self.seconds.get()
    }
}
