use super::*;
use crate::version::UnknownPart;

const INDEX: LabelIndexPlace = LabelIndexPlace { offset: 200, root_len: 40, root_crc: 7 };

fn sample() -> Footer {
    Footer {
        version: VERSION,
        identity: SegmentIdentity { epoch: 1, shards: 2, shard: 1, seq: 9, created_ns: -4 },
        file_len: 1000,
        filters_offset: 100,
        stream_table_offset: 100,
        label_index: None,
        directory_offset: 300,
        filters_crc: 5,
        directory_crc: 6,
        totals: Totals {
            streams: 1,
            runs: 2,
            blocks: 2,
            entries: 3,
            line_bytes: 4,
            min_ns: i64::MIN,
            max_ns: i64::MAX,
        },
        is_draft: false,
        merged: None,
    }
}

#[test]
fn headers_and_footers_read_back_and_every_changed_byte_is_found() {
    let footer = sample();
    let header = footer.identity.encode_header();
    assert_eq!(SegmentIdentity::decode_header(&header), Ok(footer.identity));
    let draft = Footer { is_draft: true, ..footer };
    assert_eq!(Footer::parse(&draft.encode(), 1000), Ok(draft));
    let merged = Some(MergedPlace { level: 3, order: 1 << 40 });
    let merged = Footer { merged, ..footer };
    assert_eq!(Footer::parse(&merged.encode(), 1000), Ok(merged));
    let indexed = Footer { label_index: Some(INDEX), ..footer };
    assert_eq!(Footer::parse(&indexed.encode(), 1000), Ok(indexed));
    assert_eq!(indexed.stream_table_range(), 100..200);
    assert_eq!(indexed.label_index_range(), Some(200..300));
    assert_eq!(indexed.label_index_root_range(), Some(260..300));
    let bytes = footer.encode();
    assert_eq!(Footer::parse(&bytes, 1000), Ok(footer));
    let longer = [b"before".as_slice(), &bytes].concat();
    assert_eq!(Footer::parse(&longer, 1000), Ok(footer));
    for at in 0..bytes.len() {
        for mask in [1, 0x80, 0xff] {
            let mut bad = bytes;
            bad[at] ^= mask;
            assert!(Footer::parse(&bad, 1000).is_err(), "byte {at}");
            if at < HEADER_LEN {
                let mut bad = header;
                bad[at] ^= mask;
                assert!(SegmentIdentity::decode_header(&bad).is_err(), "byte {at}");
            }
        }
    }
    assert!(Footer::parse(&bytes, 999).is_err());
    assert!(Footer::parse(&bytes[1..], 1000).is_err());
}

#[test]
fn a_footer_that_contradicts_itself_is_refused() {
    let index = |offset, root_len| Some(LabelIndexPlace { offset, root_len, ..INDEX });
    let cases: [&dyn Fn(&mut Footer); 11] = [
        &|f| f.filters_offset = 63,
        &|f| f.stream_table_offset = 99,
        &|f| f.directory_offset = u64::MAX,
        &|f| f.directory_offset = 900,
        &|f| f.totals.entries = 0,
        &|f| (f.totals.min_ns, f.totals.max_ns) = (1, 0),
        &|f| f.label_index = index(99, 40),
        &|f| f.label_index = index(301, 0),
        &|f| f.label_index = index(261, 40),
        &|f| f.label_index = index(u64::MAX, u32::MAX),
        &|f| f.label_index = index(100, 301),
    ];
    for (index, change) in cases.iter().enumerate() {
        let mut footer = sample();
        change(&mut footer);
        assert!(Footer::parse(&footer.encode(), 1000).is_err(), "case {index}");
    }
}

#[test]
fn older_versions_are_read_and_others_are_told_from_damage() {
    let indexed = Footer { label_index: Some(INDEX), ..sample() };
    let old = Footer { version: 2, ..indexed };
    // What follows the place of a merged segment meant nothing.
    let read = Footer { label_index: None, ..old };
    assert_eq!(Footer::parse(&old.encode(), 1000), Ok(read));
    let header = old.identity.encode_header_of(2);
    assert_eq!(SegmentIdentity::decode_header(&header), Ok(old.identity));
    assert_eq!(old.check_header(&header), Ok(()));
    assert!(indexed.check_header(&header).is_err());
    assert!(old.check_header(&old.identity.encode_header()).is_err());
    let other = SegmentIdentity { seq: 8, ..old.identity };
    assert!(indexed.check_header(&other.encode_header()).is_err());
    for version in [1, VERSION + 1] {
        let unknown = Some(UnknownPart::Format { found: version, known: VERSION });
        let footer = Footer { version, ..sample() };
        let error = Footer::parse(&footer.encode(), 1000).unwrap_err();
        assert_eq!(error.unknown_version(), unknown);
        let header = SegmentIdentity::decode_header(&footer.identity.encode_header_of(version));
        assert_eq!(header.unwrap_err().unknown_version(), unknown);
    }
}
