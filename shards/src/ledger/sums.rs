//! Sums in the log of a writer of many: who reads the log anew begins with one, and what is before goes.
//!
//! A sum stands for everything before it. If its number is a multiple of [`SUM_STEP`] it is found in a
//! listing. The writer alone removes what is before a sum, the lowest number first, and not before the sum
//! was there for [`SumsConfig::grace`].
//!
//! Guarantees:
//! - While an entry is there, no number behind it was ever freed ([`Anchor`]). So whoever has read from an
//!   entry on, and finds that entry still there afterwards, has read entries that count, without a hole,
//!   and a fence that was found or made behind them is one.
//! - A number that was freed has no fence of the writer's: the writer has gone on behind it.
//!
//! What can go wrong: what was read has gone meanwhile. Then the log is to be read anew ([`start`]). A
//! listing that is behind for longer than the grace hides sums; they are asked for again.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use logsvc_runtime::{Monotonic, Runtime};
use logsvc_store::log::{AtNumber, IN_FLIGHT_MAX, LogEnd, LogName, at_number};
use logsvc_store::object::Nonce;
use logsvc_store::{Folder, Store};

use super::LogEntry;
use super::names::LogPlace;
use super::open::LedgerError;

/// Sums that are found have multiples of this as numbers. One that is torn gets such a number again.
pub(crate) const SUM_STEP: u64 = IN_FLIGHT_MAX;

/// Numbers that are looked at at once.
const READS_AT_ONCE: usize = 8;
/// So often a listing is asked for, while sums take the place of others.
const ATTEMPTS: u32 = 3;
/// Sums that are remembered until what is before them may go.
const SUMS_MAX: usize = 256;

/// When a writer of many sums up its log.
#[derive(Clone, Copy, Debug)]
pub struct SumsConfig {
    /// After so many numbers, rounded up to a multiple of [`SUM_STEP`].
    pub interval: u64,
    /// How long what is before a sum stays. Longer than the listings of any store are behind, and than
    /// requests are on their way.
    pub grace: Duration,
}

impl Default for SumsConfig {
    fn default() -> SumsConfig {
        SumsConfig { interval: 128, grace: Duration::from_secs(3600) }
    }
}

/// The sums of a log that is being written.
#[derive(Debug)]
pub(super) struct Sums {
    config: SumsConfig,
    /// The number of the last sum, from which the next one is counted.
    last: u64,
    /// Sums before which not everything has gone, and since when they are there.
    made: VecDeque<(u64, Monotonic)>,
    /// The first number that may be there.
    first: u64,
}

impl Sums {
    pub(super) fn new(config: SumsConfig) -> Sums {
        Sums { config, last: 0, made: VecDeque::new(), first: 0 }
    }

    /// Whether the entry of a number is to be a sum.
    pub(super) fn is_due(&self, number: u64) -> bool {
        let interval = self.config.interval.max(1).next_multiple_of(SUM_STEP);
        number.is_multiple_of(SUM_STEP) && number >= self.last.saturating_add(interval)
    }

    /// Notes a sum that is in the log. Nobody finds one with another number, so nothing before that may go.
    pub(super) fn note(&mut self, number: u64, now: Monotonic) {
        if !number.is_multiple_of(SUM_STEP) {
            return;
        }
        self.last = number;
        // Later ones wait for those that are remembered.
        if self.made.len() < SUMS_MAX {
            self.made.push_back((number, now));
        }
    }

    /// The numbers that nobody needs any more, as of now. The lowest is to go first.
    pub(super) fn needless(&self, now: Monotonic) -> Range<u64> {
        let is_old = |since: Monotonic| now.since(since) >= self.config.grace;
        let last = self.made.iter().rev().find(|(_, since)| is_old(*since));
        self.first..last.map_or(self.first, |(number, _)| *number)
    }

    /// Notes that a number has gone.
    pub(super) fn note_removed(&mut self, number: u64) {
        self.first = self.first.max(number + 1);
        while self.made.front().is_some_and(|(sum, _)| *sum <= self.first) {
            self.made.pop_front();
        }
    }
}

/// An object of a log. While it is there no number behind it was freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Anchor {
    /// An entry with this number and random number.
    Entry(u64, Nonce),
    /// Whatever stands at the number 0.
    First,
}

impl Anchor {
    /// Whether it is still there, at a moment of this call.
    pub(super) async fn is_there<R: Runtime>(
        self,
        store: &Store<R>,
        log: &LogName,
        until: Monotonic,
    ) -> Result<bool, LedgerError> {
        let (number, expected) = match self {
            Anchor::Entry(number, nonce) => (number, Some(nonce)),
            Anchor::First => (0, None),
        };
        Ok(match at_number(store, log, number, until).await? {
            AtNumber::Nothing => false,
            AtNumber::Entry(nonce, _) => expected.is_none_or(|expected| expected == nonce),
            AtNumber::Torn | AtNumber::Fence => expected.is_none(),
        })
    }
}

/// Where who knows nothing of a log begins to read it.
pub(super) struct Start {
    /// The first number.
    pub(super) number: u64,
    /// The sum that has this number, if there is one.
    pub(super) sum: Option<(Nonce, LogEntry)>,
    /// `None` if the log had nothing.
    pub(super) anchor: Option<Anchor>,
}

impl Start {
    /// How far the log is read with that.
    pub(super) fn end(&self) -> LogEnd {
        match &self.sum {
            Some((nonce, _)) => LogEnd::behind(self.number, *nonce),
            None => LogEnd::before(self.number),
        }
    }
}

/// The newest sum of a writer's log; its first number if there is none.
///
/// # Errors
/// The store does not answer, or what it has begins with no sum. To be made again.
pub(super) async fn start<R: Runtime>(
    store: &Store<R>,
    log: &LogName,
    writer: u32,
    until: Monotonic,
) -> Result<Start, LedgerError> {
    let folder = Folder::new(&format!("log/{writer:08x}")).map_err(LedgerError::Name)?;
    for _ in 0..ATTEMPTS {
        let listed = store.list(&folder, None, until).await?;
        let places = listed.iter().filter_map(|info| LogPlace::parse("log", &info.name));
        let numbers: Vec<u64> = places.map(|place| place.number).collect();
        let mut steps: Vec<u64> =
            numbers.iter().copied().filter(|number| number.is_multiple_of(SUM_STEP)).collect();
        steps.sort_unstable_by(|a, b| b.cmp(a));
        for some in steps.chunks(READS_AT_ONCE) {
            let reads = some.iter().map(|number| at_number(store, log, *number, until));
            for (&number, read) in some.iter().zip(join_all(reads).await) {
                if let AtNumber::Entry(nonce, payload) = read?
                    && LogEntry::is_sum(&payload)
                {
                    return Start::at_sum(writer, number, nonce, &payload);
                }
            }
        }
        // The listing may be behind.
        let first = at_number(store, log, 0, until).await?;
        if first != AtNumber::Nothing {
            return Ok(Start { number: 0, sum: None, anchor: Some(Anchor::First) });
        }
        if numbers.is_empty() {
            return Ok(Start { number: 0, sum: None, anchor: None });
        }
    }
    Err(LedgerError::Unstarted { log: format!("log/{writer:08x}") })
}

impl Start {
    fn at_sum(
        writer: u32,
        number: u64,
        nonce: Nonce,
        payload: &Bytes,
    ) -> Result<Start, LedgerError> {
        let entry = LogEntry::decode(payload).map_err(|error| {
            let number = usize::try_from(number).unwrap_or(usize::MAX);
            LedgerError::Entry { log: format!("log/{writer:08x}"), number, error }
        })?;
        let anchor = Some(Anchor::Entry(number, nonce));
        Ok(Start { number, sum: Some((nonce, entry)), anchor })
    }
}

#[cfg(test)]
mod tests;
