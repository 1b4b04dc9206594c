//! The stages from a body to the heads.

use super::Table;
use super::sample::{Sample, SampleBody};
use anyhow::{Context, Result, ensure};
use logsvc_proto::StreamId;
use logsvc_proto::discover::{DETECTED_LEVEL, LevelFields, beside_level, line_level};
use logsvc_proto::push::metadata::MetadataNormalizer;
use logsvc_proto::push::{EntryList, Push};
use logsvc_segment::batch::{BatchBuilder, sections};
use logsvc_segment::head::{BlockPool, StreamHead};
use logsvc_shards::wal::format::write_batch;
use std::collections::BTreeMap;
use std::hint::black_box;

/// How deep the server looks for a level in lines of JSON unless told otherwise.
const JSON_MAX_DEPTH: usize = 2;

/// Measures them.
pub(super) fn measure(sample: &Sample, table: &Table<'_>) -> Result<()> {
    let mut decoder = snap::raw::Decoder::new();
    let mut plain = Vec::new();
    table.stage("body: take Snappy off", || {
        for body in &sample.bodies {
            plain.resize(snap::raw::decompress_len(&body.wire)?, 0);
            decoder.decompress(&body.wire, &mut plain)?;
            black_box(&plain);
        }
        Ok(())
    })?;
    let plain = sample.plain_bodies()?;
    let mut list = EntryList::default();
    table.stage("body: check and count", || {
        let mut lines = 0;
        for body in &plain {
            lines += Push::protobuf_listed(body, &mut list)?.totals().entries;
        }
        ensure!(usize::try_from(lines)? == sample.line_count, "{lines} lines");
        Ok(())
    })?;
    let mut lists: Vec<EntryList> = plain.iter().map(|_| EntryList::default()).collect();
    let pushes = plain.iter().zip(&mut lists).map(|(body, list)| Push::protobuf_listed(body, list));
    let pushes = pushes.collect::<Result<Vec<_>, _>>()?;
    let fields = LevelFields::default();
    table.stage("push: levels of lines alone", || {
        let mut lines = 0;
        for push in &pushes {
            for stream in push.streams() {
                let mut entries = stream.entries();
                while let Some(entry) = entries.next() {
                    black_box(line_level(entry.line, &fields, JSON_MAX_DEPTH));
                    lines += 1;
                }
            }
        }
        ensure!(lines == sample.line_count, "{lines} lines");
        Ok(())
    })?;
    let mut normalizer = MetadataNormalizer::new();
    let mut buffer = Vec::new();
    table.stage("push: write a batch", || {
        for (push, body) in pushes.iter().zip(&sample.bodies) {
            buffer = batch_of(push, body, &mut normalizer, std::mem::take(&mut buffer))?;
        }
        Ok(())
    })?;
    let batches = pushes.iter().zip(&sample.bodies);
    let batches = batches.map(|(push, body)| batch_of(push, body, &mut normalizer, Vec::new()));
    let batches = batches.collect::<Result<Vec<_>>>()?;
    drop(pushes);
    drop(plain);
    let mut frame = Vec::new();
    table.stage("log: copy and checksum", || {
        for batch in &batches {
            frame.clear();
            write_batch(&mut frame, batch);
            black_box(crc32c::crc32c(&frame));
        }
        Ok(())
    })?;
    table.stage("batch: check", || {
        let mut lines = 0;
        for batch in &batches {
            for section in sections(batch) {
                lines += section?.entry_count();
            }
        }
        ensure!(lines == sample.line_count, "{lines} lines");
        Ok(())
    })?;
    let mut pool = BlockPool::default();
    table.stage("heads: append, check included", || {
        for (_, head) in fill_heads(sample, &batches, &mut pool)? {
            head.recycle(&mut pool);
        }
        Ok(())
    })
}

/// A batch with the level of each entry, as the server makes it: the level is in the labels of the
/// stream, or else in the line.
fn batch_of(
    push: &Push<'_>,
    body: &SampleBody,
    normalizer: &mut MetadataNormalizer,
    buffer: Vec<u8>,
) -> Result<Vec<u8>> {
    let mut builder = BatchBuilder::new(buffer);
    let fields = LevelFields::default();
    for (stream, known) in push.streams().zip(&body.streams) {
        builder.begin(known.id);
        let mut entries = stream.entries();
        while let Some(entry) = entries.next() {
            let timestamp_ns = entry.timestamp_ns.context("a line without a timestamp")?;
            let level = known
                .level
                .as_deref()
                .unwrap_or_else(|| line_level(entry.line, &fields, JSON_MAX_DEPTH).as_str());
            let shared: &[(&[u8], &[u8])] = &[(DETECTED_LEVEL.as_bytes(), level.as_bytes())];
            if entry.metadata.is_empty() {
                let none = std::iter::empty::<(&[u8], &[u8])>();
                builder.push_sharing(timestamp_ns, entry.line, shared, none);
            } else {
                let pairs = beside_level(normalizer.normalize(entry.metadata)?.iter());
                builder.push_sharing(timestamp_ns, entry.line, shared, pairs);
            }
        }
        builder.end();
    }
    Ok(builder.finish())
}

/// The heads of all streams with all lines of the sample.
fn fill_heads(
    sample: &Sample,
    batches: &[Vec<u8>],
    pool: &mut BlockPool,
) -> Result<BTreeMap<StreamId, StreamHead>> {
    let mut heads: BTreeMap<StreamId, StreamHead> = BTreeMap::new();
    let mut lines = 0;
    for batch in batches {
        for section in sections(batch) {
            let section = section?;
            let head = heads.entry(section.stream).or_default();
            lines += head.append(&section, pool).entries;
        }
    }
    ensure!(usize::try_from(lines)? == sample.line_count, "{lines} lines");
    Ok(heads)
}

/// The heads that a shard would seal.
pub(super) fn heads_of(sample: &Sample) -> Result<BTreeMap<StreamId, StreamHead>> {
    let plain = sample.plain_bodies()?;
    let mut normalizer = MetadataNormalizer::new();
    let batches = plain
        .iter()
        .zip(&sample.bodies)
        .map(|(plain, body)| batch_of(&Push::protobuf(plain)?, body, &mut normalizer, Vec::new()));
    let batches = batches.collect::<Result<Vec<_>>>()?;
    fill_heads(sample, &batches, &mut BlockPool::default())
}
