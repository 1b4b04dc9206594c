use super::model::*;
use crate::batch::MetadataPairs;
use crate::columns::metadata;
use crate::*;

fn writer() -> SegmentWriter {
    SegmentWriter::new(SegmentIdentity::default()).unwrap()
}

fn begin(
    writer: &mut SegmentWriter,
    tenant: &str,
    labels: &[(&str, &str)],
) -> Result<(), WriteError> {
    let stream = stream(tenant, labels, vec![]);
    writer.begin_stream(&stream.tenant, &stream.labels, stream.id)
}

#[test]
fn streams_must_ascend_by_tenant_and_labels() {
    let mut writer = writer();
    begin(&mut writer, "a", &[("app", "m"), ("b", "1")]).unwrap();
    for (tenant, labels) in [
        ("a", &[("app", "m"), ("b", "1")][..]),
        ("a", &[("app", "m")]),
        ("a", &[("app", "c"), ("z", "9")]),
        ("Z", &[("app", "n")]),
    ] {
        assert_eq!(begin(&mut writer, tenant, labels), Err(WriteError::StreamOrder));
    }
    begin(&mut writer, "a", &[("app", "m"), ("c", "0")]).unwrap();
    begin(&mut writer, "b", &[]).unwrap();
}

#[test]
fn entries_need_a_stream_and_time_order() {
    let mut writer = writer();
    let none = MetadataPairs::NONE;
    assert_eq!(writer.push(1, b"x", none), Err(WriteError::NoStream));
    assert!(matches!(writer.finish(), Err(WriteError::Empty)));
    let mut writer = self::writer();
    begin(&mut writer, "a", &[]).unwrap();
    writer.push(5, b"x", none).unwrap();
    assert_eq!(writer.push(4, b"x", none), Err(WriteError::TimeOrder));
    writer.push(5, b"x", none).unwrap();
    begin(&mut writer, "b", &[]).unwrap();
    writer.push(4, b"x", none).unwrap();
    assert_eq!(writer.finish().unwrap().footer.totals.entries, 3, "a refusal leaves no trace");
}

#[test]
fn malformed_columns_are_refused() {
    let mut writer = writer();
    begin(&mut writer, "a", &[]).unwrap();
    let good = Entries {
        timestamps_ns: &[1, 2],
        lines_start: 0,
        line_ends: &[1, 3],
        lines: b"abc",
        metadata: EntriesMetadata::None,
    };
    let sets = logsvc_logql::engine::MetadataSets::new();
    let pairs =
        |start, ends| EntriesMetadata::Pairs(PairsColumn::of_own(b"\x01a\x01b", start, ends));
    let plain = [0, 1, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 1, b'a', 1, b'b'];
    let plain = metadata::decode_as_stored(&plain, 1, 4);
    let Ok(StoredMetadata::Plain(PlainMetadata { sets: plain, .. })) = plain else {
        panic!("it is well-formed")
    };
    let bad = [
        Entries { timestamps_ns: &[1], ..good },
        Entries { line_ends: &[3, 1], ..good },
        Entries { line_ends: &[1, 4], ..good },
        Entries { lines_start: 2, ..good },
        Entries { metadata: pairs(0, &[4]), ..good },
        Entries { metadata: pairs(0, &[4, 5]), ..good },
        Entries { metadata: pairs(5, &[4, 4]), ..good },
        Entries { metadata: EntriesMetadata::Sets { set_ids: &[0], sets: &sets }, ..good },
        Entries { metadata: EntriesMetadata::Sets { set_ids: &[0, 1], sets: &sets }, ..good },
        Entries { metadata: EntriesMetadata::Plain { entry_sets: &[1], sets: &plain }, ..good },
        Entries { metadata: EntriesMetadata::Plain { entry_sets: &[1, 2], sets: &plain }, ..good },
    ];
    for (case, entries) in bad.iter().enumerate() {
        assert!(matches!(writer.append(entries), Err(WriteError::Malformed(_))), "case {case}");
    }
    let falling = Entries { timestamps_ns: &[2, 1], ..good };
    assert_eq!(writer.append(&falling), Err(WriteError::TimeOrder));
    assert_eq!(writer.append(&good), Ok(Appended { entries: 2, finished_block: false }));
}

#[test]
fn an_entry_larger_than_a_block_may_be_is_refused() {
    let mut writer = writer();
    begin(&mut writer, "a", &[]).unwrap();
    let line = vec![0; BLOCK_MAX_LINE_BYTES + 1];
    let refused = writer.push(1, &line, MetadataPairs::NONE);
    assert_eq!(refused, Err(WriteError::EntryTooLarge { max_bytes: BLOCK_MAX_LINE_BYTES }));
    writer.push(1, b"small", MetadataPairs::NONE).unwrap();
    let refused = writer.push(1, &line, MetadataPairs::NONE);
    assert!(matches!(refused, Err(WriteError::EntryTooLarge { .. })), "also behind another");
    assert_eq!(writer.finish().unwrap().footer.totals.entries, 1);
}
