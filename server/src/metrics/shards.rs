//! Metrics of shards.

use logsvc_shards::messages::{COMMIT_LATENCY_BOUNDS_US, ShardStatus};

use super::exposition::Exposition;
use super::histogram::Counted;
use super::streams;

/// A metric of which each shard has a value: name, kind, help and value.
pub(super) type ShardFamily = (&'static str, &'static str, &'static str, fn(&ShardStatus) -> u64);

pub(super) fn expose_each_shard(
    out: &mut Exposition,
    shards: &[ShardStatus],
    families: &[ShardFamily],
) {
    for (name, kind, help, read) in families {
        out.family(name, kind, help);
        for (shard, status) in shards.iter().enumerate() {
            out.sample(name, &[("shard", &shard.to_string())], read(status) as f64);
        }
    }
}

pub(super) fn expose_shards(out: &mut Exposition, shards: &[ShardStatus]) {
    streams::expose(out, shards);
    let families: &[ShardFamily] = &[
        ("logsvc_head_entries", "gauge", "Entries in memory.", |s| s.head_entries),
        ("logsvc_head_line_bytes", "gauge", "Bytes of lines in memory.", |s| s.head_line_bytes),
        (
            "logsvc_duplicate_entries_total",
            "counter",
            "Entries dropped because equal ones are stored.",
            |s| s.duplicates,
        ),
        ("logsvc_wal_commits_total", "counter", "Frames written to the write-ahead log.", |s| {
            s.wal.commits
        }),
        ("logsvc_wal_syncs_total", "counter", "Successful syncs of the write-ahead log.", |s| {
            s.wal.syncs
        }),
        (
            "logsvc_wal_written_bytes_total",
            "counter",
            "Bytes written to the write-ahead log.",
            |s| s.wal.written_bytes,
        ),
        (
            "logsvc_wal_failures_total",
            "counter",
            "Failed operations of the write-ahead log.",
            |s| s.wal.failures,
        ),
        ("logsvc_wal_files_total", "counter", "Write-ahead-log files begun.", |s| s.wal.files),
        ("logsvc_recovery_entries", "gauge", "Entries replayed at the start.", |s| {
            s.recovery.entries
        }),
        ("logsvc_recovery_torn_bytes", "gauge", "Bytes of torn tails cut off at the start.", |s| {
            s.recovery.torn_bytes
        }),
        (
            "logsvc_recovery_damaged_bytes",
            "gauge",
            "Acknowledged bytes found damaged at the start.",
            |s| s.recovery.damaged_bytes,
        ),
        (
            "logsvc_seals_total",
            "counter",
            "Times that recent entries were written to segments.",
            |s| s.seal.sealed,
        ),
        (
            "logsvc_seal_failures_total",
            "counter",
            "Attempts to write recent entries to segments that failed.",
            |s| s.seal.failures,
        ),
        ("logsvc_segments", "gauge", "Segments that are read.", |s| s.seal.segments),
        ("loki_querier_tail_active_streams", "gauge", "Streams that tails follow.", |s| {
            s.tails.streams
        }),
        (
            "logsvc_tail_dropped_entries_total",
            "counter",
            "Entries that had no room on their way to tails, for each group of equal tails.",
            |s| s.tails.dropped,
        ),
        ("logsvc_segment_file_bytes", "gauge", "Bytes of their files.", |s| s.seal.file_bytes),
        (
            "logsvc_filter_bundles",
            "gauge",
            "Files with the joined filters of many segments.",
            |s| s.seal.bundles,
        ),
        ("logsvc_filter_bundle_bytes", "gauge", "Bytes of these files.", |s| s.seal.bundle_bytes),
        ("logsvc_segment_line_bytes", "gauge", "Bytes of the lines in them.", |s| {
            s.seal.line_bytes
        }),
        (
            "logsvc_compactions_total",
            "counter",
            "Times that segments were merged, or one was rewritten.",
            |s| s.seal.maintenance.merges,
        ),
        (
            "logsvc_compaction_segments_total",
            "counter",
            "Segments that were merged or rewritten.",
            |s| s.seal.maintenance.merged_segments,
        ),
        (
            "logsvc_compaction_read_line_bytes_total",
            "counter",
            "Bytes of lines that were merged or rewritten.",
            |s| s.seal.maintenance.line_bytes_in,
        ),
        (
            "logsvc_compaction_written_line_bytes_total",
            "counter",
            "Bytes of lines that were left of them.",
            |s| s.seal.maintenance.line_bytes_out,
        ),
        (
            "logsvc_compaction_dropped_entries_total",
            "counter",
            "Entries that had expired or were repeated.",
            |s| s.seal.maintenance.dropped_entries,
        ),
        (
            "logsvc_compaction_failures_total",
            "counter",
            "Attempts to merge, rewrite or remove segments that failed.",
            |s| s.seal.maintenance.failures,
        ),
        (
            "logsvc_removed_segments_total",
            "counter",
            "Segments that were removed as a whole.",
            |s| s.seal.maintenance.removed_segments,
        ),
        (
            "logsvc_forgotten_streams_total",
            "counter",
            "Streams that left the memory because others needed it.",
            |s| s.seal.maintenance.forgotten_streams,
        ),
        (
            "logsvc_retired_segments",
            "gauge",
            "Segments that are not live any more but are still being read.",
            |s| s.seal.maintenance.retired_segments,
        ),
        (
            "logsvc_drafts_total",
            "counter",
            "Generations that were written as drafts, which are encoded later.",
            |s| s.seal.drafts,
        ),
        ("logsvc_draft_line_bytes", "gauge", "Bytes of the lines in drafts.", |s| {
            s.seal.draft_line_bytes
        }),
        (
            "logsvc_push_pauses_total",
            "counter",
            "Times that pushes began to wait for memory that sealing releases.",
            |s| s.pauses.pauses,
        ),
        (
            "logsvc_damaged_segments",
            "gauge",
            "Segments that could not be opened at the start.",
            |s| s.seal.damaged_segments,
        ),
        (
            "logsvc_refused_blocks_total",
            "counter",
            "Blocks whose encoded lines did not decode to what they were and were stored without templates.",
            |s| s.seal.refused_blocks,
        ),
        (
            "logsvc_lane_requests_total",
            "counter",
            "Requests that came to the shard through its lane. Each was answered by one message.",
            |s| s.lane.received,
        ),
        (
            "logsvc_lane_requests_from_other_cores_total",
            "counter",
            "Those of them that other cores sent.",
            |s| s.lane.from_other_cores,
        ),
        (
            "logsvc_lane_waits_total",
            "counter",
            "Those of them that found the shard waiting; the others were taken with one before.",
            |s| s.lane.waited,
        ),
    ];
    expose_each_shard(out, shards, families);
    let name = "logsvc_push_pauses_seconds_total";
    out.family(name, "counter", "Time in which at least one push waited for such memory.");
    for (shard, status) in shards.iter().enumerate() {
        out.sample(name, &[("shard", &shard.to_string())], status.pauses.total.as_secs_f64());
    }
    const COMMIT: &str = "logsvc_wal_commit_duration_seconds";
    out.family(COMMIT, "histogram", "Time of a write and its sync.");
    for (shard, status) in shards.iter().enumerate() {
        let latency = &status.commit_latency;
        let labels = [("shard", &*shard.to_string())];
        let counted = Counted {
            bounds: &COMMIT_LATENCY_BOUNDS_US,
            counts: latency.buckets.to_vec(),
            sum: latency.sum_us,
        };
        out.histogram(COMMIT, &labels, &counted);
    }
}
