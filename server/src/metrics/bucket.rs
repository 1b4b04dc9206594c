//! Metrics of the bucket of the node: what is in it, what was asked of it, and how good the local disk
//! is as its cache.

use logsvc_shards::follower::BucketNumbers;
use logsvc_shards::messages::ShardStatus;
use logsvc_store::{Attempts, Counters, Request, TIME_BOUNDS_MS};

use super::Exposition;
use super::histogram::Counted;

/// Writes the numbers; nothing at all if the node has no bucket. `asked` has the counters of each
/// core.
pub(super) fn expose<'c>(
    numbers: Option<BucketNumbers>,
    asked: impl Iterator<Item = &'c Counters> + Clone,
    shards: &[ShardStatus],
    out: &mut Exposition,
) {
    let Some(numbers) = numbers else { return };
    let families = [
        (
            "logsvc_bucket_uploads_total",
            "counter",
            "Segments that were brought into the bucket.",
            numbers.uploads,
        ),
        ("logsvc_bucket_upload_bytes_total", "counter", "Their bytes.", numbers.upload_bytes),
        (
            "logsvc_bucket_failures_total",
            "counter",
            "Attempts to write the bucket that failed.",
            numbers.failures,
        ),
        (
            "logsvc_bucket_backlog_segments",
            "gauge",
            "Segments that the bucket lacks.",
            numbers.backlog_segments,
        ),
        ("logsvc_bucket_backlog_bytes", "gauge", "Their bytes.", numbers.backlog_bytes),
        (
            "logsvc_bucket_local_file_bytes",
            "gauge",
            "Bytes of segment files on the local disk that the bucket has, too.",
            numbers.local_file_bytes,
        ),
        (
            "logsvc_bucket_absent_tails",
            "gauge",
            "Segments of which not even the end is on the local disk; it is being fetched.",
            numbers.absent_tails,
        ),
        (
            "logsvc_bucket_removed_objects_total",
            "counter",
            "Objects of segments that were removed from the bucket.",
            numbers.removed_objects,
        ),
    ];
    for (name, kind, help, value) in families {
        out.single(name, kind, help, value);
    }
    const FAILING: &str = "logsvc_bucket_failing_seconds";
    let help = "How long nothing has come into the bucket although there was something; 0 if it \
                takes everything.";
    out.family(FAILING, "gauge", help);
    out.sample(FAILING, &[], numbers.failing_for.unwrap_or_default().as_secs_f64());
    expose_requests(asked, out);
    expose_reads(shards, out);
}

fn expose_requests<'c>(asked: impl Iterator<Item = &'c Counters> + Clone, out: &mut Exposition) {
    let kinds = Request::ALL.map(|kind| {
        (kind.name(), asked.clone().map(|core| core.of(kind)).fold(Attempts::default(), sum))
    });
    const REQUESTS: &str = "logsvc_bucket_requests_total";
    let help = "Requests to the bucket, repeated ones included.";
    out.family(REQUESTS, "counter", help);
    for (kind, attempts) in &kinds {
        out.sample(REQUESTS, &[("kind", kind)], attempts.count as f64);
    }
    const FAILURES: &str = "logsvc_bucket_request_failures_total";
    let help = "Those that failed; that an object exists or does not is an answer.";
    out.family(FAILURES, "counter", help);
    for (kind, attempts) in &kinds {
        out.sample(FAILURES, &[("kind", kind)], attempts.failures as f64);
    }
    const DURATION: &str = "logsvc_bucket_request_duration_seconds";
    let help = "How long they took; those that were dropped before they ended are left out.";
    out.family(DURATION, "histogram", help);
    for (kind, attempts) in &kinds {
        let (bounds, counts) = (&TIME_BOUNDS_US, attempts.times.to_vec());
        let counted = Counted { bounds, counts, sum: attempts.sum_us };
        out.histogram(DURATION, &[("kind", kind)], &counted);
    }
    let sent: u64 = kinds.iter().map(|(_, attempts)| attempts.sent_bytes).sum();
    let help = "Bytes of objects in requests to the bucket, failed ones included.";
    out.single("logsvc_bucket_sent_bytes_total", "counter", help, sent);
    let received: u64 = asked.clone().map(Counters::read_bytes).sum();
    let help = "Bytes of objects in answers of the bucket.";
    out.single("logsvc_bucket_received_bytes_total", "counter", help, received);
    let seconds: u64 = asked.map(Counters::second_reads).sum();
    let help = "Reads that were sent twice because the first was slow.";
    out.single("logsvc_bucket_second_reads_total", "counter", help, seconds);
}

const TIME_BOUNDS_US: [u64; TIME_BOUNDS_MS.len()] = {
    let mut bounds = TIME_BOUNDS_MS;
    let mut at = 0;
    while at < bounds.len() {
        bounds[at] *= 1_000;
        at += 1;
    }
    bounds
};

fn sum(mut all: Attempts, more: Attempts) -> Attempts {
    all.count += more.count;
    all.failures += more.failures;
    all.sent_bytes += more.sent_bytes;
    all.sum_us = all.sum_us.saturating_add(more.sum_us);
    for (count, more) in all.times.iter_mut().zip(more.times) {
        *count += more;
    }
    all
}

fn expose_reads(shards: &[ShardStatus], out: &mut Exposition) {
    let total = |of: fn(&ShardStatus) -> u64| shards.iter().map(of).sum::<u64>() as f64;
    const READS: &str = "logsvc_segment_reads_total";
    let help = "Ranges of segments that queries have read, by where the bytes were: the segment's \
                file, its tail, or the bucket.";
    out.family(READS, "counter", help);
    out.sample(READS, &[("from", "file")], total(|s| s.reads.file.reads));
    out.sample(READS, &[("from", "tail")], total(|s| s.reads.tail.reads));
    out.sample(READS, &[("from", "bucket")], total(|s| s.reads.bucket.reads));
    const BYTES: &str = "logsvc_segment_read_bytes_total";
    out.family(BYTES, "counter", "Their bytes.");
    out.sample(BYTES, &[("from", "file")], total(|s| s.reads.file.bytes));
    out.sample(BYTES, &[("from", "tail")], total(|s| s.reads.tail.bytes));
    out.sample(BYTES, &[("from", "bucket")], total(|s| s.reads.bucket.bytes));
    const EVICTED: &str = "logsvc_segment_evictions_total";
    let help = "Files of segments that have left the local disk and stay in the bucket.";
    out.family(EVICTED, "counter", help);
    out.sample(EVICTED, &[], total(|s| s.reads.evicted_files));
    const EVICTED_BYTES: &str = "logsvc_segment_evicted_bytes_total";
    out.family(EVICTED_BYTES, "counter", "Their bytes.");
    out.sample(EVICTED_BYTES, &[], total(|s| s.reads.evicted_bytes));
}
