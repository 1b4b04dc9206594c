//! Pushes the streams of one day, and counts what the server refused.
//!
//! Every connection makes its next push itself and sends it. A push that is refused for the moment
//! is sent again, so the day is complete at the end; the refusals are counted. What can go wrong: a
//! push that is refused for good, or for too long, ends the day at once, and the result says so.

use super::generator::Generator;
use crate::http::Client;
use crate::push::may_succeed_later;
use crate::report::Tally;
use crate::schedule::backoff;
use crate::target::TargetArgs;
use crate::wire::{Encoding, WireArgs};
use anyhow::{Result, anyhow};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The endpoint.
const PATH: &str = "/loki/api/v1/push";
/// Protobuf in Snappy, as agents send it.
const WIRE: WireArgs = WireArgs { encoding: Encoding::Protobuf, gzip: false };

/// How to push.
pub(crate) struct Load<'a> {
    pub(crate) target: &'a TargetArgs,
    pub(crate) generator: &'a Generator,
    pub(crate) connections: usize,
    /// A push that is refused for longer ends the day.
    pub(crate) retry_for: Duration,
}

impl Load<'_> {
    /// Pushes all streams of a day. Without failed bodies in the tally, all was acknowledged.
    pub(crate) fn day(&self, day: u64) -> Result<Tally> {
        let next = AtomicU64::new(0);
        let stop = AtomicBool::new(false);
        let send_all = || -> Result<Tally> {
            let mut client = self.target.client();
            let mut tally = Tally::new();
            while !stop.load(Ordering::Relaxed) {
                let push = next.fetch_add(1, Ordering::Relaxed);
                if push >= self.generator.plan.pushes() {
                    break;
                }
                // An error ends the other connections, too.
                let sent = self.push(day, push, &mut client, &mut tally);
                if !matches!(sent, Ok(true)) {
                    stop.store(true, Ordering::Relaxed);
                }
                sent?;
            }
            Ok(tally)
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.connections).map(|_| scope.spawn(send_all)).collect();
            let mut total = Tally::new();
            for thread in threads {
                total.add(&thread.join().map_err(|_| anyhow!("a connection's thread panicked"))??);
            }
            Ok(total)
        })
    }

    /// Sends one push until it is acknowledged; false if it was given up.
    fn push(&self, day: u64, push: u64, client: &mut Client, tally: &mut Tally) -> Result<bool> {
        let Some((body, labels)) = self.generator.body(day, push) else { return Ok(true) };
        let (lines, raw_bytes) = (body.line_count, body.raw_bytes);
        let encoded = WIRE.encode(body, &labels)?;
        let tenant = self.target.tenant.as_deref();
        let request = self.target.url.request("POST", PATH, tenant, WIRE.headers(), Some(&encoded));
        let begin = Instant::now();
        for attempt in 1.. {
            let outcome = client.send(&request);
            tally.sent_bytes += request.len() as u64;
            tally.count_outcome(&outcome);
            if outcome.as_ref().is_ok_and(|response| response.is_success()) {
                tally.latencies.record(begin.elapsed());
                tally.acked_bodies += 1;
                tally.acked_lines += lines;
                tally.acked_raw_bytes += raw_bytes;
                return Ok(true);
            }
            let asked = outcome.as_ref().ok().and_then(|response| response.retry_after_seconds);
            let pause = backoff(attempt, asked);
            if !may_succeed_later(&outcome) || begin.elapsed() + pause > self.retry_for {
                break;
            }
            tally.retries += 1;
            std::thread::sleep(pause);
        }
        tally.failed_bodies += 1;
        Ok(false)
    }
}

/// Answers that were no success, broken connections included.
pub(crate) fn refused(tally: &Tally) -> u64 {
    let refusals = tally.outcomes.iter().filter(|(name, _)| !name.starts_with('2'));
    refusals.map(|(_, count)| count).sum()
}
