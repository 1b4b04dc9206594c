use super::*;

const NONE: std::iter::Empty<(&str, &str)> = std::iter::empty();

const INFO: &[(&[u8], &[u8])] = &[(b"detected_level", b"info")];
const WARN: &[(&[u8], &[u8])] = &[(b"detected_level", b"warn")];

fn sample() -> Vec<u8> {
    let mut builder = BatchBuilder::new(Vec::new());
    builder.begin(StreamId(7));
    builder.push(10, b"first", NONE);
    builder.push(-5, b"", [("a", "1"), ("b", "x\u{e9}")].into_iter());
    builder.push(11, b"third", NONE);
    builder.end();
    builder.begin(StreamId(8));
    builder.end();
    builder.begin(StreamId(u128::MAX));
    builder.push(1, b"\xff\0", NONE);
    builder.end();
    builder.begin(StreamId(9));
    builder.push(1, b"none", NONE);
    builder.push_sharing(2, b"info", INFO, NONE);
    builder.push_sharing(3, b"warn", WARN, [("a", "1"), ("z", "2")].into_iter());
    builder.push_sharing(4, b"again", INFO, NONE);
    builder.end();
    assert_eq!(builder.entry_count(), 8);
    builder.finish()
}

#[test]
fn what_was_built_reads_back() {
    let batch = sample();
    let read: Vec<_> = sections(&batch).collect::<Result<_, _>>().unwrap();
    assert_eq!(read.len(), 3, "an empty section leaves no trace");
    assert_eq!((read[0].stream, read[0].min_ns, read[0].max_ns), (StreamId(7), -5, 11));
    let entries: Vec<_> = read[0]
        .entries()
        .map(|entry| (entry.timestamp_ns, entry.line, entry.metadata.collect::<Vec<_>>()))
        .collect();
    assert_eq!(
        entries,
        vec![
            (10, &b"first"[..], vec![]),
            (-5, b"", vec![("a", "1"), ("b", "x\u{e9}")]),
            (11, b"third", vec![]),
        ]
    );
    assert_eq!(read[1].entries().next().unwrap().line, b"\xff\0");
}

#[test]
fn any_number_of_pairs_reads_back() {
    for count in [0, 1, 127, 128, 300] {
        let pairs: Vec<(String, String)> =
            (0..count).map(|n| (format!("name_{n:03}"), "\u{e9}".repeat(n % 90))).collect();
        let mut builder = BatchBuilder::new(Vec::new());
        builder.begin(StreamId(7));
        builder.push(1, b"before", NONE);
        builder.push(2, b"with", pairs.iter().map(|(name, value)| (name, value)));
        builder.push(3, b"behind", NONE);
        let batch = builder.finish();
        let section = sections(&batch).next().unwrap().unwrap();
        let read: Vec<Vec<_>> = section.entries().map(|entry| entry.metadata.collect()).collect();
        let expected: Vec<_> = pairs.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(read, [vec![], expected, vec![]], "{count} pairs");
    }
}

#[test]
fn texts_that_are_not_utf8_are_refused_among_ascii() {
    for bad in [&b"\xff"[..], b"\xc3", b"x\xed\xa0\x80"] {
        let mut builder = BatchBuilder::new(Vec::new());
        builder.begin(StreamId(7));
        builder.push(2, b"line", [(&b"a"[..], bad), (b"b", b"good")].into_iter());
        let batch = builder.finish();
        let error = sections(&batch).next().unwrap().unwrap_err();
        assert_eq!(error.what, "bad metadata", "{bad:?}");
    }
}

#[test]
fn every_cut_and_every_flipped_byte_is_read_without_panic() {
    let batch = sample();
    for len in 0..batch.len() {
        let complete = sections(&batch[..len]).all(|section| section.is_ok());
        let mut walk = sections(&batch);
        let mut ends = vec![0];
        while walk.next().is_some() {
            ends.push(walk.offset());
        }
        assert_eq!(complete, ends.contains(&len), "cut at {len}");
    }
    for at in 0..batch.len() {
        for mask in [0x01, 0x80, 0xff] {
            let mut bad = batch.clone();
            bad[at] ^= mask;
            for section in sections(&bad).flatten() {
                for entry in section.entries() {
                    assert!(entry.metadata.count() <= batch.len());
                }
            }
        }
    }
}

fn pairs_of(batch: &[u8]) -> Vec<Vec<(&str, &str)>> {
    let sections = sections(batch).map(|section| section.expect("a good section"));
    sections.flat_map(|section| section.entries().map(|entry| entry.metadata.collect())).collect()
}

#[test]
fn shared_sets_are_named_once_and_read_as_a_union() {
    let batch = sample();
    let info = vec![("detected_level", "info")];
    let warn = vec![("a", "1"), ("detected_level", "warn"), ("z", "2")];
    assert_eq!(pairs_of(&batch)[4..], [vec![], info.clone(), warn, info]);
    let section = sections(&batch).nth(2).unwrap().unwrap();
    assert_eq!(section.set_numbers, [0, 1, 2, 1]);
    assert_eq!(section.sets.as_bytes().len(), 2 * (1 + 1 + 14 + 1 + 4));
}

#[test]
fn a_level_costs_a_byte_of_an_entry() {
    let with_level = |count| {
        let mut builder = BatchBuilder::new(Vec::new());
        builder.begin(StreamId(7));
        (0..count).for_each(|ns| builder.push_sharing(ns, b"", INFO, NONE));
        let expected_len = builder.len_bytes();
        let batch = builder.finish();
        assert_eq!(batch.len(), expected_len);
        batch.len()
    };
    assert_eq!(with_level(1001) - with_level(1), 1000 * (12 + 1));
}

#[test]
fn entries_keep_what_finds_no_room_among_shared_sets() {
    let levels: Vec<String> = (0..600).map(|n| format!("level-{n}")).collect();
    let long = "x".repeat(1000);
    let mut builder = BatchBuilder::new(Vec::new());
    builder.begin(StreamId(7));
    for level in levels.iter().chain([&long]) {
        let shared: &[(&[u8], &[u8])] = &[(b"detected_level", level.as_bytes())];
        builder.push_sharing(1, b"", shared, [("a", "1"), ("z", "2")].into_iter());
    }
    let batch = builder.finish();
    let expected = |level| vec![("a", "1"), ("detected_level", level), ("z", "2")];
    let expected: Vec<_> = levels.iter().chain([&long]).map(|level| expected(level)).collect();
    assert_eq!(pairs_of(&batch), expected);
    // The same holds for a batch that is built from the entries of another batch.
    let mut rebuilt = BatchBuilder::new(Vec::new());
    rebuilt.begin(StreamId(7));
    let section = sections(&batch).next().unwrap().unwrap();
    assert_eq!(section.sets.count(), SHARED_SETS_MAX);
    section.entries().for_each(|entry| rebuilt.push_entry(&entry));
    assert_eq!(rebuilt.finish(), batch);
}

/// The length of the shared sets is zero in batches of logs from older servers.
#[test]
fn a_section_without_shared_sets_reads_as_before() {
    let mut section = Vec::new();
    section.extend_from_slice(&[7; 16]);
    for field in [2_u32, 5, 25, 0] {
        section.extend_from_slice(&field.to_le_bytes());
    }
    for ns in [10_i64, 11] {
        section.extend_from_slice(&ns.to_le_bytes());
    }
    section.extend_from_slice(b"onetw");
    for ns in [10_i64, 11] {
        section.extend_from_slice(&ns.to_le_bytes());
    }
    for end in [3_u32, 5] {
        section.extend_from_slice(&end.to_le_bytes());
    }
    section.extend_from_slice(b"\x01\x0edetected_level\x04info\x01\x01a\x00");
    let expected = [vec![("detected_level", "info")], vec![("a", "")]];
    assert_eq!(pairs_of(&section), expected);
    let read = sections(&section).next().unwrap().unwrap();
    let mut shared = BatchBuilder::new(Vec::new());
    shared.begin(read.stream);
    shared.push_sharing(10, b"one", INFO, NONE);
    let batch = shared.finish();
    let entry = sections(&batch).next().unwrap().unwrap().entries().next().unwrap();
    assert_eq!(entry, read.entries().next().unwrap(), "in both forms");
}

#[test]
fn shared_sets_that_do_not_fit_their_section_are_refused() {
    let mut builder = BatchBuilder::new(Vec::new());
    builder.begin(StreamId(7));
    builder.push_sharing(1, b"", INFO, NONE);
    builder.push_sharing(2, b"", WARN, NONE);
    let batch = builder.finish();
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bad = batch.clone();
        change(&mut bad);
        sections(&bad).next().unwrap().unwrap_err().what
    };
    let numbers_at = SECTION_HEADER_LEN + 2 * 12;
    assert_eq!(batch[numbers_at..numbers_at + 2], [1, 2]);
    assert_eq!(refused(&|bad| bad[numbers_at] = 3), "a shared set of metadata is not there");
    assert_eq!(refused(&|bad| bad[numbers_at + 2] += 1), "bad shared sets of metadata");
    assert_eq!(refused(&|bad| bad[28] += 1), "a column is cut short");
    let one_byte = |bad: &mut Vec<u8>| bad[28] = 1;
    assert_eq!(refused(&one_byte), "not every entry has the number of a shared set");
}

#[test]
fn a_batch_as_large_as_expected_is_not_moved() {
    let mut builder = BatchBuilder::expecting(100_000);
    let mut places = Vec::new();
    for number in 0..9 {
        builder.begin(StreamId(1));
        builder.push(number, &[b'x'; 10_000], NONE);
        builder.end();
        places.push(builder.bytes.as_ptr());
    }
    assert!(builder.bytes.capacity() >= 100_000 && builder.bytes.len() > 90_000);
    assert!(places.iter().all(|&place| place == places[0]));
}
