//! The queues of queries: running and waiting requests, and the times of waiting.

use std::collections::BTreeMap;

use super::Exposition;
use super::histogram::{Histogram, Latencies};

/// Numbers of one queue.
#[derive(Clone, Debug)]
pub(crate) struct QueueStatus {
    /// The kind of its requests.
    pub(crate) work: &'static str,
    /// Requests that may run.
    pub(crate) places: usize,
    /// Requests that run.
    pub(crate) running: usize,
    /// Requests that wait, by their tenants.
    pub(crate) waiting: Vec<(String, usize)>,
}

/// Writes the state of the queues, and the waits of all cores.
pub(super) fn expose<'w>(
    queues: &[QueueStatus],
    waits: impl Iterator<Item = &'w Latencies>,
    out: &mut Exposition,
) {
    type Read = fn(&QueueStatus) -> usize;
    let families: [(&str, &str, Read); 3] = [
        ("logsvc_query_places", "How many queries or lookups may run.", |q| q.places),
        ("logsvc_queries_running", "How many do.", |q| q.running),
        ("logsvc_queries_waiting", "How many wait for their turn.", |q| {
            q.waiting.iter().map(|(_, count)| count).sum()
        }),
    ];
    for (name, help, read) in families {
        out.family(name, "gauge", help);
        for queue in queues {
            out.sample(name, &[("work", queue.work)], read(queue) as f64);
        }
    }
    const LENGTH: &str = "loki_query_scheduler_queue_length";
    out.family(LENGTH, "gauge", "Queries and lookups that wait for their turn.");
    let mut by_user = BTreeMap::new();
    for (user, count) in queues.iter().flat_map(|queue| &queue.waiting) {
        *by_user.entry(user.as_str()).or_insert(0) += count;
    }
    for (user, count) in by_user {
        out.sample(LENGTH, &[("user", user)], count as f64);
    }
    const WAITS: &str = "loki_query_scheduler_queue_duration_seconds";
    out.family(WAITS, "histogram", "How long queries and lookups have waited for their turn.");
    if let Some(sum) = Histogram::sum(waits.map(Latencies::histogram)) {
        out.histogram(WAITS, &[], &sum);
    }
}
