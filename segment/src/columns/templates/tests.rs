use logsvc_proto::varint;

use super::*;
use crate::columns::packed::{self, Malformed};
use logsvc_testkit::{Rng, SeedGuard, seeds};

/// The ends of adjacent lines.
pub(super) fn ends_of(lines: &[Vec<u8>]) -> Vec<u32> {
    let mut end = 0;
    let ends = lines.iter().map(|line| {
        end += line.len() as u32;
        end
    });
    ends.collect()
}

/// A stored form with uncompressed text.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) bytes: Vec<u8>,
    pub(super) has_times: bool,
    pub(super) timestamps_ns: Vec<i64>,
}

/// Timestamps of some lines, of one second each.
pub(super) fn timestamps_of(lines: usize) -> Vec<i64> {
    (0..lines as i64).map(|line| 1_795_000_000_123_456_789 + line * 1_000_000_000).collect()
}

/// The lines, and their stored form.
pub(super) fn encode(lines: &[Vec<u8>]) -> (Vec<u8>, Stored) {
    encode_at(lines, timestamps_of(lines.len()))
}

/// Like [`encode`], for lines with these timestamps.
pub(super) fn encode_at(lines: &[Vec<u8>], timestamps_ns: Vec<i64>) -> (Vec<u8>, Stored) {
    let raw = lines.concat();
    let ends = ends_of(lines);
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new();
    // Buffers that another block has used.
    encoder.encode(b"id=17 a=\"x\"", &[6, 11], &[0, 1], &mut bytes).unwrap();
    bytes.clear();
    let encoded = encoder.encode(&raw, &ends, &timestamps_ns, &mut bytes).unwrap();
    let (text, has_times) = (encoded.text.to_vec(), encoded.has_times);
    bytes.extend_from_slice(&text);
    (raw, Stored { bytes, has_times, timestamps_ns })
}

pub(super) fn join(stored: &Stored, raw_len: usize) -> Result<Vec<u8>, Malformed> {
    let timestamps = match stored.has_times {
        true => Timestamps::Of(&stored.timestamps_ns),
        false => Timestamps::None,
    };
    decode_text(&stored.bytes, raw_len, timestamps)
}

/// Takes a text that was not compressed.
pub(super) fn as_text(text: &[u8], len: usize, out: &mut Vec<u8>) -> Result<(), Malformed> {
    out.extend_from_slice(text);
    if text.len() == len { Ok(()) } else { Err(Malformed) }
}

pub(super) fn decode_text(
    stored: &[u8],
    raw_len: usize,
    timestamps: Timestamps<'_>,
) -> Result<Vec<u8>, Malformed> {
    decode(stored, raw_len, timestamps, &mut Scratch::default(), as_text, |malformed| malformed)
}

/// A date and a time of day in some form, or a text that is nearly one.
fn time(rng: &mut Rng) -> String {
    let day = *rng.pick(&["2026-11-21", "2026-11-22", "2024-02-29", "2025-02-29", "9999-12-31"]);
    let between = *rng.pick(&["T", " ", "T", "_"]);
    let hour = *rng.pick(&[7, 7, 23, 24]);
    let (minute, second) = (rng.below(60), rng.below(61));
    let fraction = match rng.below(4) {
        0 => String::new(),
        1 => format!(".{:03}", rng.below(1000)),
        2 => format!(",{:06}", rng.below(1_000_000)),
        _ => format!(".{}", rng.next_u64()),
    };
    match rng.below(3) {
        0 => format!("{:02}/Nov/2026:{hour:02}:{minute:02}:{second:02}", rng.below(32)),
        1 => {
            let day = day.replace('-', "/");
            format!("{day} {hour:02}:{minute:02}:{second:02}{fraction}")
        }
        _ => format!("{day}{between}{hour:02}:{minute:02}:{second:02}{fraction}"),
    }
}

/// Kinds of lines that [`line`] makes.
pub(super) const KINDS: u64 = 6;

pub(super) fn line(rng: &mut Rng, kind: u64) -> Vec<u8> {
    let number = rng.next_u64() >> rng.below(60);
    match kind {
        0 => format!(
            "ts=2026-11-21T07:{:02}:{:02}.{:03}Z id={:016x} took {}ms of {number} from 10.0.{}.{}:{}",
            rng.below(60), rng.below(60), rng.below(1000), rng.next_u64(), rng.below(3000),
            rng.below(256), rng.below(256), rng.below(65536),
        ),
        1 => format!(
            "{{\"trace\":\"{:016x}{:016x}\",\"uuid\":\"{:08x}-{:04x}\",\"n\":{},\"u\":\"\u{e9}{}\"}}",
            rng.next_u64(), rng.next_u64(), rng.below(1 << 32), rng.below(1 << 16),
            rng.below(100_000), rng.below(1000),
        ),
        2 => format!(
            "{:04} {:05} {number} {number:x} {number:019} 0{number} say=\"{}\"",
            rng.below(10), number % 100_000, ["yes", "no", ""][rng.below(3) as usize],
        ),
        3 => return (0..rng.below(80)).map(|_| rng.below(130) as u8).collect(),
        5 => {
            let (from, to) = (time(rng), time(rng));
            let level = *rng.pick(&["info", "error", "Nov", "T2"]);
            format!("[{from}] {level} until={to}Z level={level} n={number}")
        }
        _ => {
            let bytes = b"0019af \"\"=:-";
            return (0..rng.below(150)).map(|_| *rng.pick(bytes)).collect();
        }
    }
    .into_bytes()
}

#[test]
fn lines_of_any_kind_are_joined_again() {
    let (mut with_columns, mut with_times) = (0, 0);
    for seed in seeds(400) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let kinds = rng.between(1, KINDS);
        let lines: Vec<Vec<u8>> = (0..rng.below(250))
            .map(|_| {
                let kind = (rng.below(kinds) + seed) % KINDS;
                line(&mut rng, kind)
            })
            .collect();
        let (raw, mut stored) = encode(&lines);
        let mut at = 0;
        varint::read(&stored.bytes, &mut at).unwrap();
        assert_eq!(varint::read(&stored.bytes, &mut at), Ok(lines.len() as u64));
        with_columns += usize::from(stored.bytes[at] > 0);
        with_times += usize::from(stored.has_times);
        assert!(join(&stored, raw.len()).as_deref() == Ok(&raw[..]));
        assert!(join(&stored, raw.len() + 1).is_err());
        assert!(raw.is_empty() || join(&stored, raw.len() - 1).is_err());
        let last = stored.bytes.pop().unwrap();
        assert!(join(&stored, raw.len()).is_err());
        stored.bytes.push(last);
        for _ in 0..rng.between(1, 3) {
            let at = rng.below(stored.bytes.len() as u64) as usize;
            stored.bytes[at] ^= 1 << rng.below(8);
        }
        if let Ok(read) = join(&stored, raw.len()) {
            assert_eq!(read.len(), raw.len());
        }
        stored.bytes = (0..rng.below(60)).map(|_| rng.below(6) as u8).collect();
        if let Ok(read) = join(&stored, 20) {
            assert_eq!(read.len(), 20);
        }
    }
    let all = std::env::var_os("LOGSVC_SEED").is_none();
    assert!((with_columns > 150 && with_times > 50) || !all, "{with_columns}, {with_times}");
}

#[test]
fn ids_take_half_their_digits_and_fragments_are_stored_once() {
    let mut rng = Rng::new(1);
    let lines: Vec<Vec<u8>> = (0..1000)
        .map(|_| {
            let what = ["read", "write"][rng.below(2) as usize];
            format!("op=\"{what}\" id={:016x} in {} ms\n", rng.next_u64(), rng.below(1000))
                .into_bytes()
        })
        .collect();
    let (raw, stored) = encode(&lines);
    let text_len = varint::read(&stored.bytes, &mut 0).unwrap() as usize;
    // `op="`, `read" id=`, `write" id=`, ` in ` and ` ms` with a line's end.
    assert_eq!(text_len, 4 + 9 + 10 + 4 + 4);
    let numbers = stored.bytes.len() - text_len;
    // Ids, times, and two bits for the word.
    assert!(numbers < 1000 * 8 + 1000 * 12 / 8 + 16 * 8 + 100, "{numbers}");
    assert_eq!(join(&stored, raw.len()), Ok(raw));
}

#[test]
fn numbers_of_the_blocks_before_count_until_the_fragment_ends() {
    let mut rng = Rng::new(11);
    let mut encoder = Encoder::new();
    let mut columns_of_next = |encoder: &mut Encoder| {
        let (mut raw, mut ends) = (Vec::new(), Vec::new());
        for _ in 0..16 {
            raw.extend_from_slice(format!("took={:06}us", rng.below(1_000_000)).as_bytes());
            ends.push(raw.len() as u32);
        }
        let mut stored = Vec::new();
        let text = encoder.encode(&raw, &ends, &[0; 16], &mut stored).unwrap().text.to_vec();
        stored.extend_from_slice(&text);
        let read = decode_text(&stored, raw.len(), Timestamps::None);
        assert!(read.as_deref() == Ok(&raw[..]));
        let mut at = 0;
        varint::read(&stored, &mut at).unwrap();
        varint::read(&stored, &mut at).unwrap();
        stored[at]
    };
    // A column needs 24 numbers, and the numbers of the last block count half.
    for _ in 0..2 {
        let columns = [0; 3].map(|_| columns_of_next(&mut encoder));
        assert_eq!(columns, [0, 1, 1]);
        encoder.forget();
    }
}

#[test]
fn few_different_numbers_get_no_column() {
    for lines in [
        (0..500).map(|i| format!("status={}", 200 + i % 7).into_bytes()).collect::<Vec<_>>(),
        (0..20).map(|i| format!("id={}", i * 7919).into_bytes()).collect(),
    ] {
        let (raw, stored) = encode(&lines);
        let mut at = 0;
        let head = [0; 2].map(|_| varint::read(&stored.bytes, &mut at));
        assert_eq!(head[1], Ok(lines.len() as u64));
        assert_eq!(stored.bytes[at], 0, "no column");
        assert_eq!(join(&stored, raw.len()), Ok(raw));
    }
}

/// A line of one number, without text before it.
fn one_number(form: [u8; 2], value: u64) -> Vec<u8> {
    let section = |stored: &mut Vec<u8>, numbers: &[u64]| {
        let mut section = Vec::new();
        packed::encode(numbers, &mut section);
        stored.push(section.len() as u8);
        stored.extend_from_slice(&section);
    };
    let mut stored = vec![0, 1, 1];
    stored.extend_from_slice(&form);
    stored.push(1);
    if form[0] != 3 {
        section(&mut stored, &[value]);
    }
    for next in [0, END] {
        // A new, empty fragment, and the column after it.
        section(&mut stored, &[0]);
        section(&mut stored, &[0]);
        section(&mut stored, &[u64::from(next)]);
    }
    stored
}

#[test]
fn numbers_that_their_form_cannot_write_are_refused() {
    let read =
        |form, value, raw_len| decode_text(&one_number(form, value), raw_len, Timestamps::None);
    assert_eq!(read([1, 3], 999, 3), Ok(b"999".to_vec()));
    assert_eq!(read([1, 3], 7, 3), Ok(b"007".to_vec()));
    assert_eq!(read([0, 0], 0, 1), Ok(b"0".to_vec()));
    assert_eq!(read([0, 0], u64::MAX, 20), Ok(b"18446744073709551615".to_vec()));
    assert_eq!(read([2, 16], u64::MAX, 16), Ok(b"ffffffffffffffff".to_vec()));
    assert_eq!(read([2, 2], 10, 2), Ok(b"0a".to_vec()));
    for (form, value) in [([1, 3], 1000), ([2, 2], 256)] {
        assert!((1..30).all(|raw_len| read(form, value, raw_len).is_err()));
    }
    for form in [[0, 1], [1, 0], [1, 19], [2, 0], [2, 17], [3, 1], [4, 0]] {
        assert!((1..30).all(|raw_len| read(form, 1, raw_len).is_err()));
    }
}

#[test]
fn what_makes_no_bytes_is_bounded() {
    // Each cut needs a byte of a line, so a block without bytes has no cut.
    let cut = one_number([3, 0], 0);
    assert!(decode_text(&cut, 0, Timestamps::None).is_err());
    // Cuts that follow each other without end.
    let mut stored = vec![0, 1, 1, 3, 0];
    varint::write(&mut stored, 1 << 20);
    let mut section = Vec::new();
    packed::encode(&[0], &mut section);
    for _ in 0..3 {
        stored.push(section.len() as u8);
        stored.extend_from_slice(&section);
    }
    // The first use is of a new fragment, all others are of the same one.
    let mut ids = vec![1; 1 << 20];
    ids[0] = 0;
    section.clear();
    packed::encode(&ids, &mut section);
    varint::write(&mut stored, section.len() as u64);
    stored.extend_from_slice(&section);
    section.clear();
    packed::encode(&[0], &mut section);
    for _ in 0..2 {
        stored.push(section.len() as u8);
        stored.extend_from_slice(&section);
    }
    assert!(decode_text(&stored, 1 << 20, Timestamps::None).is_err());
}

/// Prints time and size of a block of each kind:
/// `cargo test --release -p logsvc-segment -- --nocapture cost_of_a_block`. The bound is far
/// above the time of any build, and far below that of a mistake such as quadratic time.
#[test]
fn cost_of_a_block() {
    for (kind, name) in [(0, "times and addresses"), (1, "JSON"), (2, "numbers"), (4, "noise")] {
        const ROUNDS: u32 = 5;
        let mut rng = Rng::new(kind);
        let mut lines = Vec::new();
        let mut raw_len = 0;
        while raw_len < 256 << 10 {
            lines.push(line(&mut rng, kind));
            raw_len += lines[lines.len() - 1].len();
        }
        let raw = lines.concat();
        let ends = ends_of(&lines);
        let timestamps_ns = timestamps_of(ends.len());
        let mut encoder = Encoder::new();
        let mut has_times = false;
        let (mut stored, mut text) = (Vec::new(), Vec::new());
        #[expect(clippy::disallowed_methods, reason = "a measurement outside of any core")]
        let now = std::time::Instant::now;
        let begun = now();
        for _ in 0..ROUNDS {
            stored.clear();
            let encoded = encoder.encode(&raw, &ends, &timestamps_ns, &mut stored).unwrap();
            (text, has_times) = (encoded.text.to_vec(), encoded.has_times);
        }
        let timestamps = match has_times {
            true => Timestamps::Of(&timestamps_ns),
            false => Timestamps::None,
        };
        let encoded = now();
        let mut scratch = Scratch::default();
        for _ in 0..ROUNDS {
            let as_text = |_: &[u8], _, out: &mut Vec<u8>| {
                out.extend_from_slice(&text);
                Ok(())
            };
            let malformed = |malformed: Malformed| malformed;
            let read = decode(&stored, raw.len(), timestamps, &mut scratch, as_text, malformed);
            assert!(read.is_ok());
        }
        let decoded = now();
        let ns_per_byte = |from: std::time::Instant, to: std::time::Instant| {
            (to - from).as_nanos() as f64 / f64::from(ROUNDS) / raw.len() as f64
        };
        let (encode, decode) = (ns_per_byte(begun, encoded), ns_per_byte(encoded, decoded));
        let (numbers, text) = (stored.len() as f64, text.len() as f64);
        let of_raw = raw.len() as f64;
        println!(
            "{name}: encode {encode:.2} ns/byte, decode {decode:.2} ns/byte, numbers {:.3} and \
             text {:.3} per raw byte",
            numbers / of_raw,
            text / of_raw
        );
        assert!(encode < 10_000.0 && decode < 10_000.0, "{name}: {encode} and {decode} ns/byte");
    }
}
