//! Metrics of the bucket of the node.

use logsvc_shards::follower::BucketNumbers;

use super::Exposition;

/// Writes the numbers; nothing at all if the node has no bucket.
pub(super) fn expose(numbers: Option<BucketNumbers>, out: &mut Exposition) {
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
}
