//! Segments, directories and columns from arbitrary bytes.

use std::sync::LazyLock;

use logsvc_proto::{Labels, StreamId, TenantId};

use crate::columns::lengths::RunLines;
use crate::columns::templates::Timestamps;
use crate::columns::timestamps::RunTimes;
use crate::columns::{lengths, metadata, templates, timestamps};
use crate::{
    ColumnKind, Decoder, Directory, Entries, EntriesMetadata, FOOTER_LEN, Footer, PairsColumn,
    SegmentError, SegmentIdentity, SegmentWriter,
};

/// Reads the bytes as a segment; as changes of the directory of a small segment, with a matching
/// checksum; and as columns.
///
/// # Panics
/// If an accepted directory or column breaks a guarantee.
pub fn segment(data: &[u8]) {
    // Arbitrary bytes have no matching checksum.
    let _ = decode_all(data);
    damaged_directory(data);
    columns(data);
}

/// Encodes the bytes as templates of lines, which end with a byte 0xff, and decodes them. It
/// must compare every block, because a writer verifies only a sample of its blocks.
///
/// # Panics
/// If the decoded lines differ.
pub fn lines_as_templates(data: &[u8]) {
    let (mut lines, mut ends) = (Vec::with_capacity(data.len()), Vec::new());
    for line in data.split(|&byte| byte == 0xff) {
        lines.extend_from_slice(line);
        ends.push(lines.len() as u32);
    }
    // The first bytes give the timestamps.
    let head = data.first_chunk::<8>().map_or(0, |head| i64::from_le_bytes(*head));
    let (first_ns, step_ns) = (head, head >> 20);
    let timestamps_ns: Vec<i64> = (0..ends.len() as i64)
        .map(|line| first_ns.saturating_add(step_ns.saturating_mul(line)))
        .collect();
    let mut encoder = templates::Encoder::new();
    // Twice, since the encoder keeps its buffers and statistics.
    for _ in 0..2 {
        let mut stored = Vec::new();
        let encoded = encoder.encode(&lines, &ends, &timestamps_ns, &mut stored);
        let Some(encoded) = encoded else { return };
        let timestamps = match encoded.has_times {
            true => Timestamps::Of(&timestamps_ns),
            false => Timestamps::None,
        };
        let text = encoded.text.to_vec();
        let as_text = |_: &[u8], _| Ok(text.clone());
        let len = lines.len();
        let joined = templates::decode(&stored, len, timestamps, as_text, |malformed| malformed);
        assert_eq!(joined.as_deref(), Ok(&lines[..]));
    }
}

/// Opens a segment and decodes all its parts; returns the number of entries.
///
/// # Errors
/// If a part is damaged.
///
/// # Panics
/// If decoded parts do not fit each other.
pub fn decode_all(file: &[u8]) -> Result<u64, SegmentError> {
    let identity = SegmentIdentity::decode_header(file)?;
    let footer = Footer::parse(&file[file.len().saturating_sub(FOOTER_LEN)..], file.len() as u64)?;
    assert!(footer.identity == identity, "a header was exchanged");
    let read = |range: std::ops::Range<u64>| &file[range.start as usize..range.end as usize];
    let directory = Directory::open(footer, read(footer.directory_range()).to_vec())?;
    footer.check_filters(read(footer.filters_range()))?;
    decode_columns(&directory, file)
}

/// Decodes every chunk of labels and every column of every block.
fn decode_columns(directory: &Directory, file: &[u8]) -> Result<u64, SegmentError> {
    let read = |range: std::ops::Range<u64>| &file[range.start as usize..range.end as usize];
    let mut decoder = Decoder::new();
    let mut streams = 0;
    for chunk in 0..directory.label_chunk_count() {
        let stored = read(directory.label_chunk(chunk).place.range());
        decoder.labels(directory, chunk, stored, |stream, _, id, _| {
            assert_eq!(directory.find_stream(id), Some(stream));
            streams += 1;
        })?;
    }
    assert_eq!(streams, directory.stream_count());
    let mut entries = 0;
    for number in 0..directory.block_count() {
        let block = directory.block(number);
        let stored = |kind| read(block.column(kind).range());
        let times = decoder.timestamps(directory, number, stored(ColumnKind::Timestamps))?;
        let ends = decoder.line_ends(directory, number, stored(ColumnKind::Lengths))?;
        let lines = decoder.lines(directory, number, stored(ColumnKind::Lines), &times)?;
        let metadata = decoder.metadata(directory, number, stored(ColumnKind::Metadata))?;
        for run in directory.runs_of_block(number) {
            let (times, ends) = (run.of_entries(&times), run.of_entries(&ends));
            assert!(times.is_sorted() && ends.is_sorted());
            assert_eq!((times[0], times[times.len() - 1]), (run.min_ns, run.max_ns));
            assert_eq!(ends[ends.len() - 1] as usize, run.of_lines(&lines).len());
            if let Some(metadata) = &metadata {
                let ids = run.of_entries(&metadata.set_ids);
                assert!(ids.iter().all(|&id| (id as usize) < metadata.sets.len()));
            }
            entries += times.len() as u64;
        }
    }
    assert_eq!(entries, directory.footer().totals.entries);
    Ok(entries)
}

/// Changes the directory of a small segment by `data`, makes its checksum match, and calls all
/// accessors; returns whether the directory was accepted.
fn damaged_directory(data: &[u8]) -> bool {
    static SAMPLE: LazyLock<(Vec<u8>, Footer)> = LazyLock::new(sample);
    let (file, footer) = &*SAMPLE;
    let range = footer.directory_range();
    let mut bytes = file[range.start as usize..range.end as usize].to_vec();
    for change in data.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % bytes.len();
        bytes[at] = change[2];
    }
    let footer = Footer { directory_crc: crc32c::crc32c(&bytes), ..*footer };
    let Ok(directory) = Directory::open(footer, bytes) else { return false };
    for stream in 0..directory.stream_count() {
        let (min_ns, max_ns) = directory.stream_bounds_ns(stream);
        let mut last_ns = min_ns;
        let mut last_block = None;
        for run in directory.runs_of_stream(stream) {
            assert!(run.min_ns >= last_ns && run.max_ns >= run.min_ns && run.max_ns <= max_ns);
            assert!(last_block.is_none_or(|last: u32| last + 1 == run.block));
            let same = directory.runs_of_block(run.block).find(|other| other.run == run.run);
            assert_eq!(same, Some(run.clone()));
            assert_eq!(directory.find_stream(directory.stream_id(stream)), Some(stream));
            (last_ns, last_block) = (run.max_ns, Some(run.block));
        }
        let chunk = directory.label_chunk(directory.label_chunk_of(stream));
        assert!(chunk.streams.contains(&stream));
    }
    let streams: u32 = directory.tenants().map(|(_, streams)| streams.len() as u32).sum();
    assert_eq!(streams, directory.stream_count());
    let _ = decode_columns(&directory, file);
    true
}

/// Reads the bytes as columns.
fn columns(data: &[u8]) {
    let Some((&[first, second], rest)) = data.split_first_chunk::<2>() else { return };
    let entries = u32::from(first) + 1;
    let bound = i64::from(second) << (second % 50);
    let runs = [
        RunTimes { entries, min_ns: -bound, max_ns: bound },
        RunTimes { entries: 1, min_ns: i64::MAX, max_ns: i64::MAX },
    ];
    if let Ok(times) = timestamps::decode(rest, runs.into_iter(), entries as usize + 1) {
        assert!(times[..entries as usize].is_sorted());
        assert_eq!((times[0], times[entries as usize - 1]), (-bound, bound));
    }
    let runs = [entries, 0].map(|entries| RunLines { entries, line_bytes: u32::from(second) });
    if let Ok(ends) = lengths::decode(rest, runs[..1].iter().copied(), entries as usize) {
        assert!(ends.is_sorted());
    }
    let as_text = |text: &[u8], _| Ok(text.to_vec());
    // Timestamps that often lead to years that cannot be written.
    let times: Vec<i64> = (0..i64::from(second)).map(|line| bound << (line % 64)).collect();
    for timestamps in [Timestamps::None, Timestamps::Of(&times)] {
        let len = usize::from(first);
        let lines = templates::decode(rest, len, timestamps, as_text, |malformed| malformed);
        if let Ok(lines) = lines {
            assert_eq!(lines.len(), len);
        }
    }
    let pairs_bytes = usize::from(second) * 16;
    if let Ok(metadata) = metadata::decode(rest, entries as usize, pairs_bytes) {
        assert_eq!(metadata.set_ids.len(), entries as usize);
        assert!(metadata.set_ids.iter().all(|&id| (id as usize) < metadata.sets.len()));
    }
}

/// A segment of two tenants, three streams and two blocks.
fn sample() -> (Vec<u8>, Footer) {
    let mut writer = SegmentWriter::new(SegmentIdentity {
        epoch: 3,
        shards: 2,
        shard: 1,
        seq: 4,
        created_ns: 5,
    })
    .expect("a compressor");
    let pairs = b"\x01k\x05value\x05trace\x0400ff";
    let long = "a long line that fills the first block, ".repeat(5000);
    let lines = format!("one{long}two");
    let ends = [3, 3 + long.len() as u32, lines.len() as u32];
    let metadata = EntriesMetadata::Pairs(PairsColumn::of_own(pairs, 0, &[8, 8, 19]));
    for (tenant, app, metadata) in
        [("acme", "a", EntriesMetadata::None), ("acme", "b", metadata), ("b.corp", "a", metadata)]
    {
        let tenant = TenantId::new(tenant).expect("a valid tenant");
        let labels = Labels::from_pairs([("app", app)]).expect("valid labels");
        let id = StreamId::new(&tenant, &labels);
        writer.begin_stream(&tenant, &labels, id).expect("in order");
        let mut entries = Entries {
            timestamps_ns: &[-7_000_000, 1_000_000, 5_000_000],
            lines_start: 0,
            line_ends: &ends,
            lines: lines.as_bytes(),
            metadata,
        };
        while !entries.is_empty() {
            let appended = writer.append(&entries).expect("well-formed entries");
            entries = entries.behind(appended.entries);
        }
    }
    let mut file = writer.take_output().to_vec();
    let finished = writer.finish().expect("it has entries");
    file.extend_from_slice(&finished.bytes);
    (file, finished.footer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    #[test]
    fn the_sample_is_read_whole() {
        let (file, footer) = sample();
        assert_eq!(decode_all(&file), Ok(9));
        assert_eq!((footer.totals.streams, footer.totals.blocks, footer.totals.runs), (3, 3, 5));
        segment(&file);
    }

    #[test]
    fn lines_come_back_from_templates() {
        let words: [&[u8]; 11] = [
            b"id=",
            b"1",
            b"0042",
            b"99999999999999999999",
            b"deadbeef",
            b"\"a b\" ",
            b"\xff",
            b":",
            b"2026-11-22T20:33:01",
            b"22/Nov/2026:20:33:0",
            b".000001",
        ];
        for seed in seeds(300) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let data: Vec<&[u8]> = (0..rng.below(400)).map(|_| *rng.pick(&words)).collect();
            lines_as_templates(&data.concat());
        }
    }

    #[test]
    fn decoders_keep_their_word_on_damaged_directories_and_random_columns() {
        let mut accepted = 0;
        let seeds = seeds(6000);
        let many = seeds.end - seeds.start > 1000;
        for seed in seeds {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let len = 3 * rng.between(1, 4);
            let mut data: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
            if rng.one_in(2) {
                // Small numbers are more often meaningful.
                data.iter_mut().skip(2).step_by(3).for_each(|byte| *byte %= 8);
            }
            segment(&data);
            accepted += usize::from(damaged_directory(&data));
        }
        assert!(accepted > 100 || !many, "only {accepted} directories told anything");
    }
}
