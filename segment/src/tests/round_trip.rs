use logsvc_runtime::{AlignedBuffer, DIRECT_BLOCK_BYTES};

use super::model::*;
use crate::filter::{BlockSet, Needle};
use crate::*;
use logsvc_fuzz_bodies::segment as fuzz;
use logsvc_proto::{StreamId, varint};
use logsvc_testkit::{Rng, SeedGuard, seeds};

fn random_pairs(rng: &mut Rng) -> Pairs {
    let mut pairs = Pairs::new();
    for name in ["level", "pod", "trace_id"] {
        if rng.one_in(2) {
            let value = match name {
                "level" => (*rng.pick(&["info", "warn", ""])).to_owned(),
                "pod" => format!("pod-{}", rng.below(5)),
                _ => format!("{:032x}", rng.next_u64()),
            };
            pairs.push((name.to_owned(), value));
        }
    }
    pairs
}

fn random_line(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(1000) {
        0 => rng.below(400_000),
        1..100 => 0,
        _ => rng.below(200),
    };
    if rng.one_in(3) {
        (0..len.min(1000)).map(|_| rng.next_u64() as u8).collect()
    } else {
        let words =
            ["GET ", "/api/v1/push ", "status=200 ", "duration=", "error ", "\u{e9}t\u{e9}"];
        let mut line = Vec::new();
        while (line.len() as u64) < len {
            line.extend_from_slice(rng.pick(&words).as_bytes());
            line.extend_from_slice(rng.below(1000).to_string().as_bytes());
        }
        line
    }
}

fn random_streams(rng: &mut Rng) -> Vec<Stream> {
    let mut streams = Vec::new();
    for number in 0..rng.between(1, 40) {
        let tenant = *rng.pick(&["a", "b.c", "fake", "z-1"]);
        let count = if rng.one_in(20) { rng.below(5000) } else { rng.below(60) };
        let scale = *rng.pick(&[0, 1, 1_000_000, 1_000_000_000]);
        let with_metadata = rng.one_in(2);
        let mut at = match rng.below(10) {
            0 => i64::MIN,
            1 => i64::MAX - 50,
            _ => 1_700_000_000_000_000_000 + rng.below(1000) as i64,
        };
        let entries = (0..count).map(|_| {
            at = at.saturating_add(rng.below(50) as i64 * scale);
            let mut entry = entry(at, random_line(rng));
            if with_metadata && rng.one_in(2) {
                entry.metadata = random_pairs(rng);
            }
            entry
        });
        let entries = entries.collect();
        let value = format!("{number}-{}", rng.below(1000));
        streams.push(stream(tenant, &[("app", &value), ("cluster", "x")], entries));
    }
    streams.push(stream("fake", &[], vec![entry(0, "at least one")]));
    sort(&mut streams);
    streams
}

/// Compares the directory with the streams.
fn check_directory(file: &[u8], streams: &[Stream]) {
    let directory = open(file).unwrap();
    assert_eq!(directory.stream_count() as usize, streams.len());
    assert_eq!(directory.find_stream(StreamId(7)), None);
    for (number, stream) in streams.iter().enumerate() {
        let number = number as u32;
        assert_eq!(directory.find_stream(stream.id), Some(number));
        assert_eq!(directory.stream_id(number), stream.id);
        assert_eq!(directory.tenant_of(number), stream.tenant.as_str());
        let times = stream.entries.iter().map(|entry| entry.timestamp_ns);
        let bounds = (times.clone().min().unwrap(), times.max().unwrap());
        assert_eq!(directory.stream_bounds_ns(number), bounds);
        let runs: Vec<RunInfo> = directory.runs_of_stream(number).collect();
        let summed = |value: fn(&RunInfo) -> u64| runs.iter().map(value).sum::<u64>();
        assert_eq!(summed(|run| run.summary().entries), stream.entries.len() as u64);
        let line_bytes: usize = stream.entries.iter().map(|entry| entry.line.len()).sum();
        assert_eq!(summed(|run| run.summary().line_bytes), line_bytes as u64);
        let mut rest = &stream.entries[..];
        for run in runs {
            let (now, later) = rest.split_at(run.entries.len());
            rest = later;
            assert_eq!(run.has_metadata, now.iter().any(|entry| !entry.metadata.is_empty()));
            assert_eq!((run.stream, run.min_ns), (number, now[0].timestamp_ns));
            let block = directory.block(run.block);
            assert!(block.runs.contains(&run.run) && block.min_ns <= run.min_ns);
            check_filter(file, &directory, run.block, &now[now.len() / 2]);
        }
    }
    let tenants: Vec<_> = directory.tenants().collect();
    assert_eq!(tenants.last().unwrap().1.end, directory.stream_count());
    for (name, range) in tenants {
        let of_tenant = range.clone().all(|number| directory.tenant_of(number) == name);
        assert!(of_tenant && !range.is_empty());
    }
}

/// Checks that the filter of a block excludes no text and no pair of the block.
fn check_filter(file: &[u8], directory: &Directory, block: u32, entry: &Entry) {
    let region = part(file, directory.footer().filters_range());
    let middle = &entry.line[entry.line.len() / 4..];
    let mut conditions: Vec<Vec<Needle>> = Vec::new();
    conditions
        .extend(Needle::substring(&middle[..middle.len().min(40)]).map(|needle| vec![needle]));
    for (name, value) in &entry.metadata {
        conditions.push(vec![Needle::metadata(name.as_bytes(), value.as_bytes())]);
    }
    let all = BlockSet::full(directory.block_count() as usize);
    let mut probe = directory.filters().probe(conditions, all);
    while let Some(reads) = probe.next_reads() {
        let pieces: Vec<&[u8]> = reads.iter().map(|range| part(region, range.clone())).collect();
        probe.supply(&pieces).unwrap();
    }
    assert!(probe.into_candidates().contains(block as usize));
}

#[test]
fn the_form_of_metadata_leaves_no_trace() {
    for seed in seeds(40) {
        let _guard = SeedGuard(seed);
        let streams = random_streams(&mut Rng::new(seed));
        let files = FORMS.map(|form| {
            let mut writer = SegmentWriter::new(SegmentIdentity::default()).unwrap();
            let mut file = Vec::new();
            for stream in &streams {
                writer.begin_stream(&stream.tenant, &stream.labels, stream.id).unwrap();
                append_all(&mut writer, Columns::new(&stream.entries).entries(form), &mut file);
            }
            file.extend_from_slice(&writer.finish().unwrap().bytes);
            file
        });
        assert!(files.iter().all(|file| *file == files[0]));
    }
}

#[test]
fn random_streams_read_back() {
    for seed in seeds(60) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let mut streams = random_streams(&mut rng);
        let file = write(&streams, &mut rng);
        streams.retain(|stream| !stream.entries.is_empty());
        assert_eq!(read(&file).unwrap(), streams);
        check_directory(&file, &streams);
        assert_eq!(fuzz::decode_all(&file).unwrap(), open(&file).unwrap().footer().totals.entries);
    }
}

#[test]
fn a_draft_reads_back_wherever_it_became_one() {
    for seed in seeds(60) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let mut streams = random_streams(&mut rng);
        let draft_from = rng.below(streams.len() as u64 + 1) as usize;
        let becomes_one = draft_from < streams.len();
        let mut writer = SegmentWriter::new(SegmentIdentity::default()).unwrap();
        let mut file = Vec::new();
        for (number, stream) in streams.iter().enumerate() {
            if number == draft_from {
                writer.make_draft();
            }
            writer.begin_stream(&stream.tenant, &stream.labels, stream.id).unwrap();
            let columns = Columns::new(&stream.entries);
            append_all(&mut writer, columns.entries(*rng.pick(&FORMS)), &mut file);
            if rng.one_in(2) {
                // In the middle of a block.
                let bytes = writer.take_output();
                file.extend_from_slice(&bytes);
                let is_whole = number < draft_from || bytes.is_empty();
                assert!(is_whole || file.len().is_multiple_of(DIRECT_BLOCK_BYTES));
                if rng.one_in(2) {
                    writer.reuse_output(bytes);
                }
            }
        }
        streams.retain(|stream| !stream.entries.is_empty());
        if streams.is_empty() {
            continue;
        }
        file.extend_from_slice(&writer.finish().unwrap().bytes);
        assert_eq!(read(&file).unwrap(), streams);
        check_directory(&file, &streams);
        let directory = open(&file).unwrap();
        for block in 0..directory.block_count() {
            let info = directory.block(block);
            let places = ColumnKind::ALL.map(|kind| info.column(kind).range());
            let stored: Vec<_> = places.into_iter().filter(|place| !place.is_empty()).collect();
            let is_one_piece = stored.windows(2).all(|pair| pair[0].end == pair[1].start);
            assert!(draft_from > 0 || is_one_piece, "{stored:?}");
        }
        let footer = *directory.footer();
        assert_eq!(footer.is_draft, becomes_one);
        assert!(draft_from > 0 || footer.filters_range().is_empty(), "no filter is known");
    }
}

#[test]
fn equal_entries_make_equal_bytes_however_they_are_given() {
    let mut rng = Rng::new(11);
    let streams = random_streams(&mut rng);
    let first = write(&streams, &mut Rng::new(1));
    // The end of a call is not the end of a block.
    assert!(first == write(&streams, &mut Rng::new(2)));
}

#[test]
fn a_stream_of_many_entries_fills_blocks_and_extremes_survive() {
    let mut at = 0;
    let mut rng = Rng::new(5);
    let mut entries: Vec<Entry> = vec![entry(i64::MIN, ""), entry(i64::MIN, "x")];
    entries.extend((0..100_000).map(|number| {
        at += rng.below(3) as i64;
        entry(at, format!("entry number {number} of a long stream"))
    }));
    entries.push(entry(i64::MAX, vec![b'y'; 3 << 20]));
    entries.push(entry(i64::MAX, vec![0xff; BLOCK_TARGET_LINE_BYTES + 1]));
    entries.push(entry(i64::MAX, ""));
    let streams = vec![stream("fake", &[("app", "x")], entries)];
    let file = write(&streams, &mut rng);
    assert!(read(&file).unwrap() == streams);
    let directory = open(&file).unwrap();
    let raw = directory.footer().totals.line_bytes;
    assert!(u64::from(directory.block_count()) <= raw / BLOCK_TARGET_LINE_BYTES as u64 + 3);
    assert!(file.len() as u64 * 5 < raw);
}

#[test]
fn small_streams_share_blocks() {
    let mut streams: Vec<Stream> = (0..2000)
        .map(|number| {
            let entries = (0..10).map(|at| entry(at, format!("{number} {at}"))).collect();
            stream("fake", &[("pod", &format!("pod-{number:04}"))], entries)
        })
        .collect();
    sort(&mut streams);
    let file = write(&streams, &mut Rng::new(0));
    assert!(read(&file).unwrap() == streams);
    let directory = open(&file).unwrap();
    assert_eq!((directory.block_count(), directory.run_count()), (1, 2000));
    check_directory(&file, &streams);
}

#[test]
fn a_writer_holds_a_bounded_part_of_a_large_segment() {
    let mut writer = SegmentWriter::new(SegmentIdentity::default()).unwrap();
    let one = stream("fake", &[], vec![]);
    writer.begin_stream(&one.tenant, &one.labels, one.id).unwrap();
    let mut rng = Rng::new(9);
    let (mut at, mut most) = (0, 0);
    let mut file = Vec::new();
    // Timestamps of eight bytes, so that the small columns outgrow a stripe.
    for _ in 0..30 {
        let entries: Vec<Entry> = (0..BLOCK_TARGET_ENTRIES)
            .map(|_| {
                at += (rng.next_u64() >> 21) as i64;
                entry(at, "")
            })
            .collect();
        append_all(&mut writer, Columns::new(&entries).entries(Form::Own), &mut file);
        most = most.max(writer.held_bytes());
    }
    assert!(most < 7 << 20, "{most}");
    file.extend_from_slice(&writer.finish().unwrap().bytes);
    let directory = open(&file).unwrap();
    assert_eq!(directory.block_count(), 30);
    assert_eq!(fuzz::decode_all(&file).unwrap(), 30 * BLOCK_TARGET_ENTRIES as u64);
    // The timestamps of all blocks of a stripe are adjacent.
    let places: Vec<_> = (0..30)
        .map(|block| directory.block(block).column(ColumnKind::Timestamps).range())
        .collect();
    let gaps = places.windows(2).filter(|pair| pair[0].end != pair[1].start).count();
    assert_eq!(gaps, 1);
}

#[test]
fn templates_read_back_and_take_few_bytes() {
    let mut rng = Rng::new(21);
    let entries = |rng: &mut Rng, ids: bool| -> Vec<Entry> {
        let line = |at: i64| {
            let id = if ids { rng.next_u64() } else { 0 };
            let took = if ids { rng.below(5000) } else { 7 };
            entry(at, format!("level=info msg=\"request done\" id={id:016x} took={took}ms"))
        };
        (0..20_000).map(line).collect()
    };
    let mut streams = vec![
        stream("fake", &[("app", "ids")], entries(&mut rng, true)),
        stream("fake", &[("app", "plain")], entries(&mut rng, false)),
    ];
    streams[0].entries.push(entry(20_000, vec![1; 2 << 20]));
    let file =
        write_with(SegmentWriter::new(SegmentIdentity::default()).unwrap(), &streams, &mut rng);
    assert!(read(&file).unwrap() == streams);
    let directory = open(&file).unwrap();
    // 8 bytes for the id and 13 bits for the time; the rest takes hardly any.
    let lines = directory.block(0).column(ColumnKind::Lines);
    let most = directory.block(0).entries * 11 + 500;
    assert!(lines.stored_len < most, "{lines:?} and {most}");
    let codec = |block| directory.block(block).column(ColumnKind::Lines).codec;
    assert_eq!(codec(0), Codec::Templates);
    assert_eq!(codec(directory.block_count() - 1), Codec::Templates);
    assert_eq!(fuzz::decode_all(&file), Ok(40_001));
}

#[test]
fn a_segment_does_not_depend_on_what_its_writer_has_written_before() {
    let mut left = None;
    for seed in seeds(12) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let mut streams = random_streams(&mut rng);
        if rng.one_in(2) {
            // Blocks that are stored as templates; the first of them are verified.
            let entries = (0..6000).map(|at| entry(at, format!("took={}ms", rng.below(5000))));
            streams.push(stream("fake", &[("zz", "numbers")], entries.collect()));
            sort(&mut streams);
        }
        let new = || SegmentWriter::new(SegmentIdentity::default()).unwrap();
        let used = match left.take() {
            Some(left) => SegmentWriter::with_buffers(SegmentIdentity::default(), left),
            None => new(),
        };
        let (file, buffers) = write_and_leave(used, &streams, &mut Rng::new(seed));
        assert!(file == write_with(new(), &streams, &mut Rng::new(seed)));
        left = buffers.map(|mut buffers| {
            // Returned memory may have any content.
            buffers.reuse_output(AlignedBuffer::from(&file[..]));
            *buffers
        });
        assert!(left.is_some());
    }
}

#[test]
fn no_byte_of_a_segment_is_unclaimed() {
    let mut rng = Rng::new(77);
    let file = write(&random_streams(&mut rng), &mut rng);
    let directory = open(&file).unwrap();
    let footer = directory.footer();
    let mut places: Vec<_> = (0..directory.block_count())
        .flat_map(|block| ColumnKind::ALL.map(|kind| directory.block(block).column(kind).range()))
        .chain((0..directory.label_chunk_count()).map(|at| directory.label_chunk(at).place.range()))
        .chain([footer.filters_range(), footer.directory_range()])
        .chain(footer.label_index_range())
        .filter(|range| !range.is_empty())
        .collect();
    places.sort_by_key(|range| range.start);
    let mut next = HEADER_LEN as u64;
    for place in places {
        assert_eq!(place.start, next);
        next = place.end;
    }
    assert_eq!(next + FOOTER_LEN as u64, file.len() as u64);
}

#[test]
fn an_entry_with_huge_metadata_gets_a_block_of_its_own() {
    let mut entries = vec![entry(1, "before"), entry(2, "it"), entry(3, "behind")];
    let value = "v".repeat(BLOCK_TARGET_METADATA_BYTES);
    entries[1].metadata = vec![("big".to_owned(), value)];
    entries[2].metadata = vec![("small".to_owned(), "1".to_owned())];
    let streams = vec![stream("fake", &[], entries)];
    let file = write(&streams, &mut Rng::new(3));
    assert!(read(&file).unwrap() == streams);
    assert_eq!(open(&file).unwrap().block_count(), 3);
    let mut pairs = Vec::new();
    encode_pairs(&streams[0].entries[1].metadata, &mut pairs);
    let name_and_lengths = 3 + 1 + varint::MAX_LEN_BYTES;
    assert!(pairs.len() < BLOCK_TARGET_METADATA_BYTES + name_and_lengths);
}
