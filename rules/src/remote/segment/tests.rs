use logsvc_testkit::{Rng, SeedGuard, seeds};

use super::*;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    Labels::from_result_pairs(pairs.iter().copied()).unwrap()
}

fn encoded(labels: &Labels) -> Vec<u8> {
    let mut out = Vec::new();
    encode_labels(labels, &mut out);
    out
}

fn sample(set: u32, timestamp_ms: i64, value: f64) -> StoredSample {
    StoredSample { set, timestamp_ms, value }
}

/// A segment of two frames: the second one refers to the label set of the first one.
fn two_frames() -> Vec<u8> {
    let mut bytes = header(7).to_vec();
    let mut frame = FrameWriter::default();
    frame.add_set(&encoded(&labels(&[("__name__", "m"), ("empty", "")])));
    frame.add(sample(0, 1000, 1.5));
    frame.finish(0, 99, &mut bytes);
    let mut frame = FrameWriter::default();
    frame.add_set(&encoded(&labels(&[("__name__", "n")])));
    frame.add(sample(0, 2000, f64::NEG_INFINITY));
    frame.add(sample(1, -5, 0.0));
    frame.finish(1, 100, &mut bytes);
    bytes
}

fn read_all(bytes: &[u8]) -> Vec<(u32, i64, f64)> {
    let segment = Segment::read(bytes);
    let of_frame = |frame| segment.samples(bytes, frame).collect::<Vec<_>>();
    let samples = segment.frames.iter().flat_map(of_frame);
    samples.map(|sample| (sample.set, sample.timestamp_ms, sample.value)).collect()
}

#[test]
fn the_bytes_of_a_frame() {
    let bytes = two_frames();
    let frame = &bytes[HEADER_BYTES..HEADER_BYTES + 56];
    assert_eq!(&frame[..4], b"SFRM");
    assert_eq!(frame[8..12], 24u32.to_le_bytes(), "payload");
    assert_eq!(frame[16..20], 1u32.to_le_bytes(), "samples");
    assert_eq!(frame[20..24], 0u32.to_le_bytes(), "first set");
    assert_eq!(frame[24..32], 99i64.to_le_bytes(), "time");
    let payload = b"\x01\x0b\x08__name__\x01m\x00\xd0\x0f\0\0\0\0\0\0\xf8\x3f";
    assert_eq!(&frame[32..56], payload);
}

#[test]
fn what_was_written_is_read() {
    let bytes = two_frames();
    assert_eq!(read_header(&bytes, 7), Header::Good);
    assert_eq!(read_header(&bytes, 8), Header::Damaged);
    let segment = Segment::read(&bytes);
    assert_eq!(segment.end as usize, bytes.len());
    assert_eq!((segment.damaged, segment.sample_count()), (0, 3));
    assert_eq!(read_all(&bytes), [(0, 1000, 1.5), (0, 2000, f64::NEG_INFINITY), (1, -5, 0.0)]);
    let set = |number| segment.set(&bytes, number).and_then(decode_labels);
    assert_eq!(set(0).unwrap(), [("__name__", "m")]);
    assert_eq!(set(1).unwrap(), [("__name__", "n")]);
    assert_eq!(set(2), None);
    let second = segment.frames[1].offset;
    assert_eq!(segment.samples_before(second, 0), 1);
    assert_eq!(segment.samples_before(second, 9), 3);
}

#[test]
fn another_version_is_told_from_damage() {
    let mut bytes = header(7);
    bytes[8] = 2;
    assert_eq!(read_header(&bytes, 7), Header::Damaged);
    bytes[12..16].fill(0);
    let crc = crc32c(&bytes);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(read_header(&bytes, 7), Header::OtherVersion(2));
}

#[test]
fn a_torn_end_is_cut_at_every_byte() {
    let whole = two_frames();
    let second = Segment::read(&whole).frames[1].offset as usize;
    for end in HEADER_BYTES..whole.len() {
        let segment = Segment::read(&whole[..end]);
        let wanted = if end >= second { second } else { HEADER_BYTES };
        assert_eq!((segment.end as usize, segment.damaged), (wanted, 0), "cut at {end}");
    }
}

#[test]
fn a_damaged_frame_is_skipped_and_counted() {
    let whole = two_frames();
    let second = Segment::read(&whole).frames[1].offset as usize;
    for at in HEADER_BYTES..second {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        let segment = Segment::read(&bytes);
        assert_eq!(segment.damaged, 1, "byte {at}");
        assert_eq!(segment.end as usize, whole.len());
        let last = segment.frames.last().unwrap();
        assert_eq!(segment.samples(&bytes, last).count(), 2, "the other frame is whole");
        assert_eq!(segment.set(&bytes, 0), None, "its label set is lost");
        assert!(segment.set(&bytes, 1).is_some());
        let has_header = at >= HEADER_BYTES + FRAME_HEADER_BYTES;
        assert_eq!(segment.sample_count(), if has_header { 3 } else { 2 }, "byte {at}");
    }
}

#[test]
fn arbitrary_bytes_are_read_in_bounds() {
    for seed in seeds(300) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let mut bytes = two_frames();
        rng.damage(&mut bytes);
        fuzz_segment(&bytes);
        let len = rng.index(400);
        fuzz_segment(&rng.bytes(len));
    }
}
