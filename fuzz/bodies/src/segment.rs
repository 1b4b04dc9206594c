//! Batches, block filters and segments out of arbitrary bytes.

use std::ops::Range;
use std::sync::LazyLock;

use logsvc_proto::{Labels, StreamId, TenantId};
use logsvc_segment::batch::{BatchBuilder, MetadataPairs, checked_sections, sections};
use logsvc_segment::filter::{BlockFilterBuilder, BlockSet, FilterIndex, Needle, RegionWriter};
use logsvc_segment::fuzz::columns;
pub use logsvc_segment::fuzz::{label_index, lines_as_templates};
use logsvc_segment::head::{BlockPool, StreamHead};
use logsvc_segment::{
    ColumnKind, Decoder, Directory, Entries, EntriesMetadata, FOOTER_LEN, Footer, LabelIndex,
    Listing, PairsColumn, SegmentError, SegmentIdentity, SegmentWriter,
};
use logsvc_testkit::Rng;

/// A batch of a few small entries, some with shared metadata.
#[must_use]
pub fn random_batch(rng: &mut Rng) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Vec::new());
    for _ in 0..rng.below(4) {
        builder.begin(StreamId(u128::from(rng.below(2))));
        for _ in 0..rng.below(5) {
            let line = vec![b'x'; rng.below(20) as usize];
            let metadata = (0..rng.below(3)).map(|n| (format!("k{n}"), "v".repeat(n as usize)));
            let (ns, metadata) = (rng.below(4) as i64, metadata.collect::<Vec<_>>().into_iter());
            match rng.below(3) {
                0 => builder.push(ns, &line, metadata),
                1 => builder.push_sharing(ns, &line, &[(b"k1", b"shared")], metadata),
                _ => builder.push_sharing(ns, &line, &[(b"level", b"info")], metadata),
            }
        }
        builder.end();
    }
    builder.finish()
}

/// Reads a batch, appends what decodes to a head, and builds the batch again from the decoded
/// entries. Returns the head.
///
/// # Panics
/// If an entry gets lost or changes on the way.
pub fn batch_sections(data: &[u8]) -> StreamHead {
    let (mut head, mut pool) = (StreamHead::default(), BlockPool::default());
    let mut builder = BatchBuilder::new(Vec::new());
    let mut walk = sections(data);
    let mut last_offset = 0;
    while let Some(section) = walk.next() {
        let Ok(section) = section else { break };
        assert!(walk.offset() > last_offset && walk.offset() <= data.len());
        last_offset = walk.offset();
        let count = section.entry_count();
        assert_eq!(section.entries().len(), count);
        builder.begin(section.stream);
        for entry in section.entries() {
            check_divided(entry.metadata);
            builder.push_entry(&entry);
        }
        builder.end();
        let appended = head.append(&section, &mut pool);
        assert_eq!(appended.entries + appended.duplicates, count as u64);
    }
    let held: usize = head.blocks().map(|block| block.len()).sum();
    let read: usize = sections(&data[..last_offset]).flatten().map(|s| s.entry_count()).sum();
    assert!(held <= read);

    let rebuilt = builder.finish();
    let before = sections(&data[..last_offset])
        .flatten()
        .flat_map(|section| section.entries().map(move |entry| (section.stream, entry)));
    let known_good = checked_sections(&rebuilt).flatten();
    let mut after = sections(&rebuilt).zip(known_good).flat_map(|(section, known_good)| {
        let section = section.expect("what was built decodes");
        assert_eq!(known_good, section, "without a second check");
        section.entries().map(move |entry| (section.stream, entry))
    });
    for entry in before {
        assert_eq!(after.next(), Some(entry));
    }
    assert_eq!(after.next(), None);
    head
}

/// Checks that the union of shared and own pairs does not depend on their division.
fn check_divided(metadata: MetadataPairs<'_>) {
    let mut union = Vec::new();
    metadata.write_to(&mut union);
    let whole = MetadataPairs::from_checked(&[], &union);
    assert!(whole == metadata && whole.eq(metadata), "writing metadata changes it");
}

/// Reads the bytes as an index, and probes it with the same bytes as its region. Then builds
/// filters of the bytes as the lines of a few blocks, and searches pieces of them.
///
/// # Panics
/// If a filter excludes a block with the needle, or a probe breaks a guarantee.
pub fn filters(data: &[u8]) {
    let needle_len = data.first().map_or(5, |&byte| usize::from(byte) % 40 + 1);
    if let Ok(index) = FilterIndex::decode(data) {
        assert_eq!(FilterIndex::decode(&index.encode()), Ok(index.clone()));
        // The reserved bytes may have any value.
        assert_eq!(index.encode()[4..], data[4..]);
        let conditions = [data.get(..needle_len).and_then(Needle::substring)];
        let conditions = conditions.into_iter().flatten().map(|needle| vec![needle]).collect();
        run(&index, data, conditions);
    }

    let lines: Vec<&[u8]> = data.splitn(12, |&byte| byte == b'\n').collect();
    let (mut builder, mut writer) = (BlockFilterBuilder::new(), RegionWriter::new());
    for line in &lines {
        builder.add_line(line);
        builder.add_metadata(line, &line[line.len() / 2..]);
        writer.push(builder.finish());
    }
    let (region, index) = writer.finish();
    assert_eq!(index.check(&region), Ok(()));
    for (block, line) in lines.iter().enumerate() {
        let start = line.len().saturating_sub(needle_len) / 2;
        let text = &line[start..line.len().min(start + needle_len)];
        let mut conditions = vec![
            vec![Needle::metadata(b"no", b"thing"), Needle::metadata_name(line)],
            vec![Needle::metadata(line, &line[line.len() / 2..])],
        ];
        conditions.extend(Needle::any_substring([&text.to_ascii_uppercase()[..], text]));
        let candidates = run(&index, &region, conditions);
        assert!(candidates.contains(block), "block {block} was excluded");
    }
}

/// Probes a region, which may be shorter than the index says.
fn run(index: &FilterIndex, region: &[u8], conditions: Vec<Vec<Needle>>) -> BlockSet {
    let mut probe = index.probe(conditions, BlockSet::full(index.block_count()));
    while let Some(reads) = probe.next_reads() {
        assert!(reads.windows(2).all(|pair| pair[0].end < pair[1].start));
        assert!(reads.iter().all(|read| read.start < read.end && read.end <= index.region_len()));
        let piece = |place: u64| region.len().min(usize::try_from(place).unwrap_or(usize::MAX));
        let pieces: Vec<&[u8]> =
            reads.iter().map(|read| &region[piece(read.start)..piece(read.end)]).collect();
        // Damaged filters exclude no block, which the caller asserts.
        let _ = probe.supply(&pieces);
    }
    probe.into_candidates()
}

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

/// Opens a segment and decodes all its parts; returns the number of entries.
///
/// # Errors
/// If a part is damaged.
///
/// # Panics
/// If decoded parts do not fit each other.
pub fn decode_all(file: &[u8]) -> Result<u64, SegmentError> {
    let footer = Footer::parse(&file[file.len().saturating_sub(FOOTER_LEN)..], file.len() as u64)?;
    footer.check_header(file)?;
    let read = |range: std::ops::Range<u64>| &file[range.start as usize..range.end as usize];
    let directory = Directory::open(footer, read(footer.directory_range()).to_vec())?;
    footer.check_filters(read(footer.filters_range()))?;
    if let Some(root) = footer.label_index_root_range() {
        list_labels(&LabelIndex::open(&footer, read(root).to_vec())?, file)?;
    }
    decode_columns(&directory, file)
}

/// Lists all names and values of all tenants.
fn list_labels(index: &LabelIndex, file: &[u8]) -> Result<(), SegmentError> {
    let mut decoder = Decoder::new();
    let mut list = |mut listing: Listing<'_>, rows: &Range<u32>| {
        let mut texts: Vec<String> = Vec::new();
        while let Some(reads) = listing.next_reads() {
            let piece = |range: &Range<u64>| &file[range.start as usize..range.end as usize];
            let pieces: Vec<&[u8]> = reads.iter().map(piece).collect();
            listing.supply(&mut decoder, &pieces, |text, found| {
                assert!(found.ranges().all(|range| rows.contains(&(range.end - 1))));
                texts.push(text.to_owned());
            })?;
        }
        Ok::<_, SegmentError>(texts)
    };
    for (tenant, rows) in index.tenants() {
        for name in list(index.names(tenant), &rows)? {
            assert!(!list(index.values(tenant, &name), &rows)?.is_empty());
        }
    }
    Ok(())
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
///
/// # Panics
/// If an accepted directory breaks a guarantee.
pub fn damaged_directory(data: &[u8]) -> bool {
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

/// A segment of two tenants and three streams, and its footer.
///
/// # Panics
/// If the writer refuses it.
pub fn sample() -> (Vec<u8>, Footer) {
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
