use super::model::*;
use crate::*;
use logsvc_testkit::Rng;

/// A small segment with all kinds of parts.
fn small() -> (Vec<u8>, Vec<Stream>) {
    let mut rng = Rng::new(42);
    let mut streams = Vec::new();
    for (tenant, app) in [("a", "x"), ("a", "y"), ("b", "x")] {
        let entries = (0..12).map(|number| {
            let mut entry = entry(number * 1000, format!("{app} says {number} and {number} again"));
            if number % 3 > 0 {
                let trace = format!("{:016x}", rng.next_u64());
                entry.metadata = vec![("level".into(), "info".into()), ("trace".into(), trace)];
            }
            entry
        });
        streams.push(stream(tenant, &[("app", app)], entries.collect()));
    }
    (write(&streams, &mut rng), streams)
}

#[test]
fn every_changed_byte_is_found() {
    let (file, streams) = small();
    assert_eq!(read(&file).unwrap(), streams);
    assert!(file.len() < 8000, "it takes long otherwise");
    let mut bad = file.clone();
    for at in 0..file.len() {
        for mask in [0x01, 0x10, 0x80, 0xff] {
            bad[at] ^= mask;
            assert!(read(&bad).is_err(), "byte {at} of {} with {mask:#x}", file.len());
            bad[at] = file[at];
        }
    }
}

#[test]
fn every_cut_is_found() {
    let (file, _) = small();
    for len in 0..file.len() {
        assert!(read(&file[..len]).is_err(), "cut at {len}");
    }
    let longer = [&file[..], b"x"].concat();
    assert!(read(&longer).is_err());
}

#[test]
fn damage_names_its_place_and_leaves_the_rest_readable() {
    let (mut file, _) = small();
    let directory = open(&file).unwrap();
    let block = directory.block(0);
    let place = block.column(ColumnKind::Lengths).range();
    file[place.start as usize] ^= 1;
    let mut decoder = Decoder::new();
    let error = decoder.line_ends(&directory, 0, part(&file, place)).unwrap_err();
    assert_eq!(error.part, Part::Column { block: 0, kind: ColumnKind::Lengths });
    assert_eq!(
        error.to_string(),
        "damaged segment: lengths of block 0: the checksum does not match"
    );
    let times = part(&file, block.column(ColumnKind::Timestamps).range());
    assert!(decoder.timestamps(&directory, 0, times).is_ok());
    let short = decoder.timestamps(&directory, 0, &times[1..]).unwrap_err();
    assert_eq!(short.what, "not all of it was read");
}

#[test]
fn columns_of_another_block_are_refused() {
    let entries: Vec<Entry> = (0..40_000).map(|at| entry(at * at, "x".repeat(20))).collect();
    let file = write(&[stream("a", &[], entries)], &mut Rng::new(1));
    let directory = open(&file).unwrap();
    let mut decoder = Decoder::new();
    let of = |block: u32, kind| part(&file, directory.block(block).column(kind).range());
    assert!(decoder.timestamps(&directory, 0, of(1, ColumnKind::Timestamps)).is_err());
    assert!(decoder.lines(&directory, 0, of(0, ColumnKind::Timestamps), &[]).is_err());
}
