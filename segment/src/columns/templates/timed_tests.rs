//! Tests of columns of times.

use logsvc_proto::varint;

use super::tests::{Stored, decode_text, encode_at, join};
use super::*;
use logsvc_testkit::Rng;

/// The forms of all columns.
fn column_forms(stored: &Stored) -> Vec<Form> {
    let mut reader = head::Reader { bytes: &stored.bytes, at: 0 };
    reader.count(usize::MAX).unwrap();
    reader.count(usize::MAX).unwrap();
    let count = reader.count(MAX_COLUMNS).unwrap();
    let forms = (0..count).map(|_| {
        let head = reader.column(usize::MAX, true).unwrap();
        if head.form != Form::Nothing {
            reader.at += reader.count(usize::MAX).unwrap();
        }
        head.form
    });
    forms.collect()
}

/// A time of the year 2026 in milliseconds.
fn time_at(units: i64) -> String {
    let mut out = [0; times::MOST_BYTES];
    let layout = Layout::from_byte(3).unwrap();
    let len = times::Clock::new(layout).write(&mut out, units).unwrap();
    String::from_utf8(out[..len].to_vec()).unwrap()
}

#[test]
fn times_are_counted_from_what_takes_fewer_bytes() {
    const START_MS: i64 = 1_795_000_000_000;
    let mut rng = Rng::new(5);
    let mut stamps_ms = vec![START_MS];
    for _ in 0..999 {
        stamps_ms.push(stamps_ms[stamps_ms.len() - 1] + rng.below(90_000) as i64);
    }
    // Truncated to milliseconds, of another zone, or some milliseconds before the timestamp.
    for (offset_ms, jitter_ms, bits) in [(0, 1, 0), (-7_200_000, 1, 0), (3_600_000, 32, 5)] {
        let mut line = |&ms: &i64| {
            let ms = ms + offset_ms - rng.below(jitter_ms) as i64;
            format!("{} went up\n", time_at(ms)).into_bytes()
        };
        let lines: Vec<Vec<u8>> = stamps_ms.iter().map(&mut line).collect();
        let stamps_ns = stamps_ms.iter().map(|ms| ms * 1_000_000 + 7);
        let (raw, stored) = encode_at(&lines, stamps_ns.collect());
        assert_eq!(
            column_forms(&stored),
            [Form::Time(Layout::from_byte(3).unwrap(), Basis::Entry)]
        );
        // The rest is heads of 16 groups in each of four sections, and the text.
        let most = 1000 * bits / 8 + 4 * 16 + 100;
        assert!(stored.bytes.len() < most, "{} of {most}", stored.bytes.len());
        assert!(join(&stored, raw.len()).as_deref() == Ok(&raw[..]));
    }
    // Timestamps that are independent of the times.
    let lines: Vec<Vec<u8>> =
        stamps_ms.iter().map(|&ms| format!("at {}", time_at(ms)).into_bytes()).collect();
    let unrelated = (0..1000).map(|_| (rng.next_u64() >> 8) as i64).collect();
    let (raw, stored) = encode_at(&lines, unrelated);
    assert_eq!(column_forms(&stored), [Form::Time(Layout::from_byte(3).unwrap(), Basis::Row)]);
    assert!(stored.bytes.len() < 1000 * 17 / 8 + 200, "{}", stored.bytes.len());
    assert!(join(&stored, raw.len()).as_deref() == Ok(&raw[..]));
}

#[test]
fn times_without_timestamps_and_of_other_years_are_refused() {
    let lines: Vec<Vec<u8>> =
        (0..100).map(|n| format!("at {}", time_at(1_795_000_000_000 + n * 7919)).into()).collect();
    for timestamps_ns in [vec![1_795_000_000_000_000_000; 100], vec![i64::MIN; 100]] {
        let (raw, mut stored) = encode_at(&lines, timestamps_ns);
        assert!(stored.has_times);
        assert!(join(&stored, raw.len()).as_deref() == Ok(&raw[..]));
        assert!(decode_text(&stored.bytes, raw.len(), Timestamps::None).is_err());
        let few = Timestamps::Of(&stored.timestamps_ns[1..]);
        assert!(decode_text(&stored.bytes, raw.len(), few).is_err());
        if column_forms(&stored) == [Form::Time(Layout::from_byte(3).unwrap(), Basis::Entry)] {
            stored.timestamps_ns = vec![i64::MAX; 100];
            assert!(join(&stored, raw.len()).is_err());
        }
    }
    // A new fragment, a time, a new fragment and the end; for both bases.
    for (form, first) in [(4, false), (5, true)] {
        for (least, year) in [(0, Some("1970")), (-1, Some("1969")), (i64::MAX, None)] {
            let mut stored = vec![0, 1, 1, form, 0, 1];
            varint::write(&mut stored, (least << 1 ^ least >> 63) as u64);
            stored.extend(first.then_some(0));
            // One number, 0; and one new, empty fragment per slot.
            stored.extend([1, 0]);
            stored.extend([1, 0, 1, 0, 1, 0]);
            stored.extend([1, 0, 1, 0, 2, 8, END]);
            let read = decode_text(&stored, 19, Timestamps::Of(&[0]));
            assert_eq!(read.is_ok(), year.is_some(), "{form} {least}");
            if let (Ok(read), Some(year)) = (read, year) {
                assert!(read.starts_with(year.as_bytes()));
            }
        }
    }
}
