//! Counts where reads of segments are answered, so that it shows how good the local disk is as a
//! cache of the bucket; and lets reads that nobody waits for give way to those of queries.
//!
//! Guarantees: a read that gives way does so for [`GIVES_WAY_MAX`] at most.

use std::cell::Cell;
use std::time::Duration;

use logsvc_runtime::{Monotonic, Runtime};

/// After a request of a query so much time passes before upkeep asks the bucket again: most
/// queries have asked for more by then.
const QUIET: Duration = Duration::from_millis(100);

/// The longest time that one read of upkeep gives way: upkeep goes on while queries do not end.
const GIVES_WAY_MAX: Duration = Duration::from_secs(3);

/// Where the bytes of a read were.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// In the segment's own file.
    File,
    /// In its tail.
    Tail,
    /// In the bucket.
    Bucket,
}

/// Reads of one place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadCount {
    /// Ranges that were read.
    pub reads: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The numbers of a core since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadCounters {
    /// Reads of segments' own files.
    pub file: ReadCount,
    /// Reads of tails.
    pub tail: ReadCount,
    /// Reads of the bucket.
    pub bucket: ReadCount,
    /// Files that were evicted.
    pub evicted_files: u64,
    /// Their bytes.
    pub evicted_bytes: u64,
}

/// The counters of a core.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    counters: Cell<ReadCounters>,
    /// Until when queries are taken to be at work with the bucket, if any ever was.
    busy_until: Cell<Option<Monotonic>>,
}

impl Reads {
    /// Notes a read.
    pub(super) fn note(&self, place: Place, bytes: u64) {
        let mut counters = self.counters.get();
        let count = match place {
            Place::File => &mut counters.file,
            Place::Tail => &mut counters.tail,
            Place::Bucket => &mut counters.bucket,
        };
        count.reads += 1;
        count.bytes += bytes;
        self.counters.set(counters);
    }

    /// Notes that a query asks the bucket, or has its answer.
    pub(super) fn note_busy(&self, now: Monotonic) {
        self.busy_until.set(Some(now.after(QUIET)));
    }

    /// Waits until queries do not ask the bucket.
    pub(super) async fn give_way<R: Runtime>(&self, runtime: &R) {
        let last = runtime.now().after(GIVES_WAY_MAX);
        while let Some(busy_until) = self.busy_until.get() {
            let until = busy_until.min(last);
            if runtime.now() >= until {
                return;
            }
            runtime.sleep_until(until).await;
        }
    }

    /// Notes that a file has gone.
    pub(super) fn note_evicted(&self, bytes: u64) {
        let mut counters = self.counters.get();
        counters.evicted_files += 1;
        counters.evicted_bytes += bytes;
        self.counters.set(counters);
    }

    pub(super) fn counters(&self) -> ReadCounters {
        self.counters.get()
    }
}

#[cfg(test)]
mod tests {
    use logsvc_runtime::sim::Simulation;

    use super::*;

    #[test]
    fn upkeep_waits_for_queries_but_not_for_ever() {
        Simulation::new(1).block_on(|runtime| async move {
            let reads = Reads::default();
            let took = async || {
                let begun = runtime.now();
                reads.give_way(&runtime).await;
                runtime.now().since(begun)
            };
            assert_eq!(took().await, Duration::ZERO, "nobody asks");
            reads.note_busy(runtime.now());
            assert_eq!(took().await, QUIET);
            assert_eq!(took().await, Duration::ZERO, "the query is over");
            reads.note_busy(runtime.now());
            let queries = async {
                loop {
                    reads.note_busy(runtime.now());
                    runtime.sleep_until(runtime.now().after(QUIET / 2)).await;
                }
            };
            let upkeep = std::pin::pin!(took());
            match futures_util::future::select(upkeep, std::pin::pin!(queries)).await {
                futures_util::future::Either::Left((took, _)) => assert_eq!(took, GIVES_WAY_MAX),
                futures_util::future::Either::Right(_) => panic!("queries do not end"),
            }
        });
    }
}
