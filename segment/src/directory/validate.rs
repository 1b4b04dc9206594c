//! Checks the invariants that the accessors of a directory rely on.
//!
//! In an archive that has passed the check of rkyv, numbers may have any value. The checks are
//! one pass over the rows, without allocation.

use std::ops::Range;

use logsvc_proto::TenantId;

use super::rows::{
    ArchivedBlockRow, ArchivedColumnRow, ArchivedRoot, RUN_HAS_METADATA, UNKNOWN_METADATA,
};
use crate::column_kind::ColumnKind;
use crate::columns::compress::Codec;
use crate::columns::templates::MAX_RAW_BYTES;
use crate::format::{
    BLOCK_MAX_ENTRIES, BLOCK_MAX_LINE_BYTES, BLOCK_MAX_METADATA_BYTES, Footer,
    LABEL_CHUNK_MAX_BYTES, MAX_BLOCKS, MAX_RUNS, MAX_STREAMS, METADATA_COLUMN_MAX_BYTES,
};

/// The fault of a directory with a codec of a later version.
pub(super) const UNKNOWN_CODEC: &str = "a codec is unknown";

type Check = Result<(), &'static str>;

fn ensure(holds: bool, otherwise: &'static str) -> Check {
    if holds { Ok(()) } else { Err(otherwise) }
}

/// Checks all rows against each other and against the footer, and the list of the runs' metadata, if
/// it is not empty, against the rows.
pub(super) fn check(root: &ArchivedRoot, runs_metadata: &[u8], footer: &Footer) -> Check {
    let totals = &footer.totals;
    let counts = [
        (root.streams.len(), totals.streams, MAX_STREAMS),
        (root.runs.len(), totals.runs, MAX_RUNS),
        (root.blocks.len(), totals.blocks, MAX_BLOCKS),
    ];
    for (len, total, most) in counts {
        ensure(len == total as usize, "a list has not as many rows as the footer says")?;
        ensure((1..=most).contains(&len), "a list has too few or too many rows")?;
    }
    check_tenants(root)?;
    check_streams(root)?;
    check_label_chunks(root, footer)?;
    check_blocks(root, footer)?;
    check_runs(root)?;
    check_runs_metadata(root, runs_metadata)
}

fn check_tenants(root: &ArchivedRoot) -> Check {
    ensure_starts(root.tenants.iter().map(|row| row.first_stream.to_native()), root.streams.len())?;
    let names = root.tenants.iter().map(|row| row.name.as_str());
    ensure(names.clone().is_sorted_by(|a, b| a < b), "tenants are not in order")?;
    for name in names {
        ensure(TenantId::new(name).is_ok(), "a tenant has an invalid name")?;
    }
    Ok(())
}

fn check_streams(root: &ArchivedRoot) -> Check {
    ensure_starts(root.streams.iter().map(|row| row.first_run.to_native()), root.runs.len())?;
    // As many numbers as streams, and ids that strictly ascend: a permutation.
    ensure(root.by_id.len() == root.streams.len(), "the table of ids has not all streams")?;
    let mut last: Option<&[u8; 16]> = None;
    for stream in root.by_id.iter() {
        let stream = root.streams.get(stream.to_native() as usize);
        let id = &stream.ok_or("the table of ids names a stream that is not there")?.id;
        ensure(last.is_none_or(|last| last < id), "the table of ids is not in order")?;
        last = Some(id);
    }
    Ok(())
}

fn check_label_chunks(root: &ArchivedRoot, footer: &Footer) -> Check {
    let starts = root.label_chunks.iter().map(|row| row.first_stream.to_native());
    ensure_starts(starts, root.streams.len())?;
    for chunk in root.label_chunks.iter() {
        check_column(&chunk.column, &footer.stream_table_range(), LABEL_CHUNK_MAX_BYTES)?;
        let codec = Codec::from_byte(chunk.column.codec);
        ensure(!codec.is_some_and(Codec::is_for_lines), "labels are stored like lines")?;
    }
    Ok(())
}

/// Checks the starts of the pieces of a list: from 0, strictly ascending, within the list.
fn ensure_starts(starts: impl Iterator<Item = u32>, len: usize) -> Check {
    let mut next = 0;
    for (index, start) in starts.enumerate() {
        let fits = if index == 0 { start == 0 } else { start >= next };
        ensure(fits && (start as usize) < len, "pieces of a list do not follow each other")?;
        next = start + 1;
    }
    ensure(next > 0, "a list is empty")
}

fn check_blocks(root: &ArchivedRoot, footer: &Footer) -> Check {
    ensure_starts(root.blocks.iter().map(|row| row.first_run.to_native()), root.runs.len())?;
    let totals = &footer.totals;
    let (mut entries, mut line_bytes) = (0, 0);
    let (mut min_ns, mut max_ns) = (i64::MAX, i64::MIN);
    for block in root.blocks.iter() {
        let count = block.entries.to_native() as usize;
        ensure((1..=BLOCK_MAX_ENTRIES).contains(&count), "a block has too many entries")?;
        check_columns(block, footer)?;
        entries += count as u64;
        line_bytes += u64::from(block.line_bytes.to_native());
        min_ns = min_ns.min(block.min_ns.to_native());
        max_ns = max_ns.max(block.max_ns.to_native());
    }
    ensure(
        (entries, line_bytes, min_ns, max_ns)
            == (totals.entries, totals.line_bytes, totals.min_ns, totals.max_ns),
        "the blocks do not add up to the totals",
    )
}

fn check_columns(block: &ArchivedBlockRow, footer: &Footer) -> Check {
    let line_bytes = block.line_bytes.to_native() as usize;
    let metadata_bytes = block.metadata_bytes.to_native() as usize;
    ensure(line_bytes <= BLOCK_MAX_LINE_BYTES, "a block has too many line bytes")?;
    ensure(metadata_bytes <= BLOCK_MAX_METADATA_BYTES, "a block has too much metadata")?;
    let lines = &block.columns[ColumnKind::Lines as usize];
    ensure(lines.raw_len.to_native() as usize == line_bytes, "lines have another length")?;
    let metadata = &block.columns[ColumnKind::Metadata as usize];
    let has_metadata = metadata.raw_len.to_native() > 0;
    ensure(has_metadata == (metadata_bytes > 0), "metadata is missing or too much")?;
    // Packed numbers take at most 8 bytes each, and 11 per group of 64.
    let packed_most = block.entries.to_native() as usize * 9 + 32;
    let most = [BLOCK_MAX_LINE_BYTES, packed_most, packed_most, METADATA_COLUMN_MAX_BYTES];
    for ((column, kind), most) in block.columns.iter().zip(ColumnKind::ALL).zip(most) {
        check_column(column, &footer.columns_range(), most)?;
        ensure(
            kind == ColumnKind::Lines
                || !Codec::from_byte(column.codec).is_some_and(Codec::is_for_lines),
            "a small column is stored like lines",
        )?;
    }
    Ok(())
}

fn check_column(row: &ArchivedColumnRow, within: &Range<u64>, raw_most: usize) -> Check {
    let (stored, raw) = (row.stored_len.to_native(), row.raw_len.to_native());
    let offset = row.offset.to_native();
    let end = offset.checked_add(u64::from(stored));
    ensure(
        offset >= within.start && end.is_some_and(|end| end <= within.end),
        "stored bytes are not where they may be",
    )?;
    ensure(raw as usize <= raw_most, "a column is too large")?;
    match Codec::from_byte(row.codec) {
        Some(Codec::Raw) => ensure(stored == raw, "a column that is stored raw has two lengths"),
        Some(Codec::Zstd) => ensure((1..raw).contains(&stored), "a column grew by compression"),
        Some(Codec::Templates | Codec::TimedTemplates) => ensure(
            (1..raw).contains(&stored) && raw as usize <= MAX_RAW_BYTES,
            "a column grew by compression",
        ),
        None => Err(UNKNOWN_CODEC),
    }
}

/// Checks blocks, streams and runs in one pass: all three are in one order.
fn check_runs(root: &ArchivedRoot) -> Check {
    let mut stream = 0u32;
    let mut stream_max_ns = i64::MIN;
    for (index, block) in root.blocks.iter().enumerate() {
        let first_run = block.first_run.to_native();
        let end = root.blocks.get(index + 1).map(|next| next.first_run.to_native());
        let end = end.unwrap_or(root.runs.len() as u32);
        let (mut min_ns, mut max_ns) = (i64::MAX, i64::MIN);
        let mut has_metadata = false;
        // The earliest start of the next run.
        let (mut next_entry, mut next_line_byte) = (0, 0);
        for number in first_run..end {
            let next_stream = root.streams.get(stream as usize + 1);
            if next_stream.is_some_and(|next| next.first_run.to_native() == number) {
                stream += 1;
            } else if number == first_run && number > 0 {
                let row = &root.runs[number as usize];
                ensure(row.min_ns.to_native() >= stream_max_ns, "a stream goes back in time")?;
            } else {
                ensure(number == 0, "a block has two runs of a stream")?;
            }
            if number == first_run {
                let first_stream = block.first_stream.to_native();
                ensure(first_stream == stream, "a block begins with another stream")?;
            }
            let row = &root.runs[number as usize];
            let (first_entry, first_byte) =
                (row.first_entry.to_native(), row.first_line_byte.to_native());
            let begins = number > first_run || (first_entry, first_byte) == (0, 0);
            ensure(
                begins && first_entry >= next_entry && first_byte >= next_line_byte,
                "runs of a block overlap",
            )?;
            (next_entry, next_line_byte) = (first_entry.saturating_add(1), first_byte);
            let (run_min_ns, run_max_ns) = (row.min_ns.to_native(), row.max_ns.to_native());
            ensure(run_min_ns <= run_max_ns, "a run ends before it begins")?;
            ensure(row.flags & !RUN_HAS_METADATA == 0, "a run has unknown flags")?;
            has_metadata |= row.flags & RUN_HAS_METADATA != 0;
            (min_ns, max_ns) = (min_ns.min(run_min_ns), max_ns.max(run_max_ns));
            stream_max_ns = run_max_ns;
        }
        ensure(
            next_entry <= block.entries.to_native()
                && next_line_byte <= block.line_bytes.to_native(),
            "a run is not within its block",
        )?;
        ensure(
            (min_ns, max_ns) == (block.min_ns.to_native(), block.max_ns.to_native()),
            "a block has other bounds than its runs",
        )?;
        ensure(
            has_metadata == (block.metadata_bytes.to_native() > 0),
            "a block and its runs disagree on metadata",
        )?;
    }
    ensure(stream as usize + 1 == root.streams.len(), "a stream has no run")
}

/// Checks that no block has more bytes of names and values than its metadata takes with their
/// lengths. The runs are checked.
fn check_runs_metadata(root: &ArchivedRoot, list: &[u8]) -> Check {
    let (numbers, _) = list.as_chunks();
    let mut runs = root.runs.iter().zip(numbers);
    for (index, block) in root.blocks.iter().enumerate() {
        let first_run = block.first_run.to_native();
        let end = root.blocks.get(index + 1).map(|next| next.first_run.to_native());
        let end = end.unwrap_or(root.runs.len() as u32);
        let mut left_bytes = u64::from(block.metadata_bytes.to_native());
        for (run, number) in runs.by_ref().take((end - first_run) as usize) {
            let bytes = u32::from_le_bytes(*number);
            if run.flags & RUN_HAS_METADATA == 0 {
                ensure(bytes == 0, "a run without metadata has bytes of it")?;
            } else if bytes != UNKNOWN_METADATA {
                left_bytes = left_bytes
                    .checked_sub(bytes.into())
                    .ok_or("runs have more metadata than their block")?;
            }
        }
    }
    Ok(())
}
