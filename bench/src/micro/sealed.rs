//! The stages from the heads to a segment, and from a segment back to lines.

use super::Table;
use super::ingest::heads_of;
use super::sample::Sample;
use anyhow::{Result, ensure};
use logsvc_proto::{Labels, StreamId};
use logsvc_segment::filter::BlockFilterBuilder;
use logsvc_segment::head::StreamHead;
use logsvc_segment::{
    ColumnKind, Decoder, Directory, Entries, FOOTER_LEN, Footer, SegmentIdentity, SegmentWriter,
    stream_order,
};
use std::hint::black_box;
use std::ops::Range;

/// Measures them, and prints how large the segment is.
pub(super) fn measure(sample: &Sample, table: &Table<'_>) -> Result<()> {
    let mut heads = heads_of(sample)?;
    let mut streams: Vec<(StreamId, &Labels, StreamHead)> = Vec::new();
    for (id, labels) in &sample.streams {
        if let Some(head) = heads.remove(id) {
            streams.push((*id, labels, head));
        }
    }
    let tenant = &sample.tenant;
    streams.sort_by(|a, b| stream_order((tenant, a.1, a.0), (tenant, b.1, b.0)));
    let mut filter = BlockFilterBuilder::new();
    table.stage("segment: filters alone", || {
        let mut bytes = 0;
        for block in streams.iter().flat_map(|(_, _, head)| head.blocks()) {
            filter.add_lines(block.lines(), block.line_ends());
            bytes += block.lines().len();
            // About as often as a segment has blocks.
            if bytes > logsvc_segment::BLOCK_TARGET_LINE_BYTES {
                black_box(filter.finish());
                bytes = 0;
            }
        }
        black_box(filter.finish());
        Ok(())
    })?;
    table.stage("segment: write, filters included", || {
        black_box(write(sample, &streams)?);
        Ok(())
    })?;
    let file = write(sample, &streams)?;
    drop(streams);
    table.stage("segment: open the directory", || {
        black_box(open(&file)?);
        Ok(())
    })?;
    let directory = open(&file)?;
    let mut decoder = Decoder::new();
    let stored = |range: Range<u64>| &file[range.start as usize..range.end as usize];
    table.stage("segment: read timestamps", || {
        let mut lines = 0;
        for block in 0..directory.block_count() {
            let column = directory.block(block).column(ColumnKind::Timestamps).range();
            lines += decoder.timestamps(&directory, block, stored(column))?.len();
        }
        ensure!(lines == sample.line_count, "{lines} lines");
        Ok(())
    })?;
    table.stage("segment: read lines", || {
        let mut lines = 0;
        for block in 0..directory.block_count() {
            let info = directory.block(block);
            let lengths = info.column(ColumnKind::Lengths).range();
            lines += decoder.line_ends(&directory, block, stored(lengths))?.len();
            let text = info.column(ColumnKind::Lines).range();
            let place = info.column(ColumnKind::Timestamps).range();
            let times = match info.column(ColumnKind::Lines).codec.needs_timestamps() {
                true => decoder.timestamps(&directory, block, stored(place))?,
                false => Vec::new(),
            };
            black_box(decoder.lines(&directory, block, stored(text), &times)?);
        }
        ensure!(lines == sample.line_count, "{lines} lines");
        Ok(())
    })?;
    println!(
        "\nThe segment has {:.3} bytes per raw byte in {} blocks.",
        file.len() as f64 / sample.raw_bytes as f64,
        directory.block_count(),
    );
    Ok(())
}

/// A segment with all streams, which are in order.
fn write(sample: &Sample, streams: &[(StreamId, &Labels, StreamHead)]) -> Result<Vec<u8>> {
    let mut writer = SegmentWriter::new(SegmentIdentity::default())?;
    let mut file = Vec::new();
    for (id, labels, head) in streams {
        writer.begin_stream(&sample.tenant, labels, *id)?;
        writer.expect_line_bytes(head.blocks().map(|block| block.lines().len() as u64).sum());
        for block in head.blocks() {
            ensure!(block.is_sorted(), "the lines of a stream are in order");
            let mut entries = Entries::of_head(block);
            while !entries.is_empty() {
                let appended = writer.append(&entries)?;
                entries = entries.behind(appended.entries);
                if appended.finished_block {
                    file.extend_from_slice(&writer.take_output());
                }
            }
        }
    }
    ensure!(writer.entry_count() == sample.line_count as u64, "a line is missing");
    file.extend_from_slice(&writer.finish()?.bytes);
    Ok(file)
}

fn open(file: &[u8]) -> Result<Directory> {
    let footer = Footer::parse(&file[file.len() - FOOTER_LEN..], file.len() as u64)?;
    let range = footer.directory_range();
    Ok(Directory::open(footer, file[range.start as usize..range.end as usize].to_vec())?)
}
