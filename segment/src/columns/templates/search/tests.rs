//! Tests of the search for texts in parts.

use logsvc_logql::engine::{LineTest, Literal};

use super::super::Scratch;
use super::super::tests::{KINDS, Stored, as_text, encode, line};
use super::*;
use crate::columns::packed::Malformed;
use logsvc_testkit::{Rng, SeedGuard, seeds};

pub(in super::super) fn take_apart(
    stored: &Stored,
    raw_len: usize,
) -> Result<Option<LineParts>, Malformed> {
    let mut scratch = Scratch::default();
    let Stored { bytes, has_times, .. } = stored;
    LineParts::new(bytes, raw_len, *has_times, &mut scratch, as_text, |malformed| malformed)
}

fn lines_of(rng: &mut Rng, seed: u64) -> Vec<Vec<u8>> {
    let kinds = rng.between(1, KINDS);
    (0..rng.between(1, 250))
        .map(|_| {
            let kind = (rng.below(kinds) + seed) % KINDS;
            line(rng, kind)
        })
        .collect()
}

/// A part of a line, changed or unchanged.
fn text_of(rng: &mut Rng, lines: &[Vec<u8>]) -> Option<Literal> {
    let line = rng.pick(lines);
    if line.is_empty() {
        return None;
    }
    let start = rng.below(line.len() as u64) as usize;
    let most = *rng.pick(&[14, 14, 14, 45]);
    let len = rng.between(1, most).min((line.len() - start) as u64) as usize;
    let mut bytes = line[start..start + len].to_vec();
    if rng.below(4) == 0 {
        let at = rng.below(len as u64) as usize;
        bytes[at] = *rng.pick(b"0a9f=xq");
    }
    let ignore_case = rng.below(3) == 0;
    if ignore_case {
        bytes.make_ascii_lowercase();
    }
    Some(Literal { bytes, ignore_case })
}

fn passes(test: &LineTest, line: &[u8]) -> bool {
    test.any_of.iter().any(|text| text.occurs_in(line)) != test.negated
}

fn bit(words: &[u64], line: usize) -> bool {
    words[line / 64] >> (line % 64) & 1 == 1
}

#[test]
fn lines_are_judged_as_if_they_were_looked_at() {
    let (mut sure, mut doubtful, mut searches) = (0u64, 0u64, 0);
    for seed in seeds(400) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let lines = lines_of(&mut rng, seed);
        let (raw, stored) = encode(&lines);
        let Ok(Some(parts)) = take_apart(&stored, raw.len()) else {
            panic!("it is what was written")
        };
        assert_eq!(parts.line_count(), lines.len());
        let mut slot_lines = SlotLines::default();
        for _ in 0..20 {
            let tests: Vec<LineTest> = (0..rng.between(1, 4))
                .filter_map(|_| {
                    let texts = (0..rng.between(1, 3)).filter_map(|_| text_of(&mut rng, &lines));
                    let any_of: Vec<Literal> = texts.collect();
                    let (negated, decides) = (rng.below(3) == 0, rng.below(4) > 0);
                    (!any_of.is_empty()).then_some(LineTest { any_of, negated, decides })
                })
                .collect();
            let Some((search, has_all)) = LineSearch::new(&tests) else { continue };
            searches += 1;
            let outcomes = search.test(&parts, &mut slot_lines).expect("it is what was written");
            let all_decide = tests.iter().all(|test| test.decides);
            for (number, line) in lines.iter().enumerate() {
                let (yes, maybe) =
                    (bit(&outcomes.passing, number), bit(&outcomes.doubtful, number));
                assert!(!(yes && maybe));
                let expected = tests.iter().all(|test| passes(test, line));
                // A test that its texts do not decide passes some of the lines with them.
                let may_pass = tests.iter().all(|t| passes(t, line) || (t.negated && !t.decides));
                assert!(yes || maybe || !may_pass, "line {number} is lost: {tests:?}");
                assert!(!yes || !has_all || expected, "line {number}: {tests:?}");
                if all_decide && has_all {
                    sure += u64::from(!maybe);
                    doubtful += u64::from(maybe);
                }
            }
        }
    }
    assert!(searches > 1000 && sure > doubtful * 6, "{searches}, {sure}, {doubtful}");
}

#[test]
fn ends_of_a_text_without_its_beginning_leave_no_doubt() {
    let mut rng = Rng::new(5);
    let lines: Vec<Vec<u8>> = (0..800)
        .map(|_| {
            let (what, id) = (*rng.pick(&["orders", "carts", "order"]), rng.next_u64());
            let took = rng.below(5000);
            format!(
                "{{\"path\":\"/{what}\",\"status\":\"sent\",\"us\":{took},\"id\":\"{id:016x}\"}}"
            )
            .into_bytes()
        })
        .collect();
    let (raw, stored) = encode(&lines);
    let Ok(Some(parts)) = take_apart(&stored, raw.len()) else { panic!("it is what was written") };
    // Lines are cut after quotes, and `status` begins with the last letter of `orders`; the
    // other text lies across a number.
    for (text, is_doubtful) in [("orders", false), ("\"us\":12", true)] {
        let text = Literal { bytes: text.into(), ignore_case: false };
        let test = LineTest { any_of: vec![text], negated: false, decides: true };
        let (search, _) = LineSearch::new(std::slice::from_ref(&test)).expect("not a number");
        let outcomes = search.test(&parts, &mut SlotLines::default()).expect("good parts");
        assert_eq!(outcomes.doubtful.iter().any(|word| *word != 0), is_doubtful, "{test:?}");
        for (number, line) in lines.iter().enumerate() {
            let may = bit(&outcomes.passing, number) || bit(&outcomes.doubtful, number);
            assert!(may || !passes(&test, line), "{test:?} {number}");
            assert!(!bit(&outcomes.passing, number) || passes(&test, line), "{test:?} {number}");
        }
    }
}

#[test]
fn texts_that_no_time_has_leave_no_doubt_beside_times() {
    let lines: Vec<Vec<u8>> = (0..900)
        .map(|line| {
            let (minute, second, ms) = (line / 60, line % 60, line * 7919 % 1000);
            let what = ["up", "down"][line % 2];
            format!("2026-11-22T20:{minute:02}:{second:02}.{ms:03}Z level=info went {what}").into()
        })
        .collect();
    let (raw, stored) = encode(&lines);
    assert!(stored.has_times);
    let Ok(Some(parts)) = take_apart(&stored, raw.len()) else { panic!("it is what was written") };
    for (text, is_doubtful) in [
        ("down", false),
        ("level=info", false),
        ("Z level=", false),
        ("T30:", false),
        (" 20:", false),
        ("T20:14:", true),
        (":14:", true),
        ("22T20:14:59.", true),
        ("4Z level=info went d", true),
        ("xZ level", false),
        (".000Z lev", true),
        (":000Z lev", false),
        ("2026-11-22T20:", true),
        ("2026-11-22 20:", false),
    ] {
        let literal = Literal { bytes: text.into(), ignore_case: false };
        let test = LineTest { any_of: vec![literal], negated: false, decides: true };
        let (search, _) = LineSearch::new(std::slice::from_ref(&test)).expect("not a number");
        let outcomes = search.test(&parts, &mut SlotLines::default()).expect("good parts");
        assert_eq!(outcomes.doubtful.iter().any(|word| *word != 0), is_doubtful, "{text}");
        for (number, line) in lines.iter().enumerate() {
            let may = bit(&outcomes.passing, number) || bit(&outcomes.doubtful, number);
            assert!(may || !passes(&test, line), "{text} {number}");
            assert!(!bit(&outcomes.passing, number) || passes(&test, line), "{text} {number}");
        }
    }
}

#[test]
fn the_lines_that_are_asked_for_are_joined() {
    for seed in seeds(200) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let lines = lines_of(&mut rng, seed);
        let (raw, stored) = encode(&lines);
        let Ok(Some(parts)) = take_apart(&stored, raw.len()) else {
            panic!("it is what was written")
        };
        let wanted: Vec<bool> = lines.iter().map(|_| rng.below(3) == 0).collect();
        let end = rng.below(lines.len() as u64 + 1) as usize;
        let start = rng.below(end as u64 + 1) as usize;
        let mut found = Vec::new();
        let times = &stored.timestamps_ns;
        let mut slot_lines = SlotLines::default();
        let each = |n, line: &[u8]| found.push((n, line.to_vec()));
        let joined = parts.join(&mut slot_lines, times, start..end, |n| wanted[n], each);
        assert_eq!(joined, Ok(()));
        // A walk serves those that come later.
        let mut again = Vec::new();
        let each = |n, line: &[u8]| again.push((n, line.to_vec()));
        let mut others = SlotLines::default();
        let joined = parts.join(&mut others, times, start..end, |n| wanted[n], each);
        assert_eq!((joined, &again), (Ok(()), &found));
        let beyond = start..lines.len() + 1;
        let joined = parts.join(&mut slot_lines, times, beyond, |_| true, |_, _| ());
        assert_eq!(joined, Err(Malformed));
        let some = lines.into_iter().enumerate().take(end).skip(start);
        let expected: Vec<_> = some.filter(|(n, _)| wanted[*n]).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn arbitrary_bytes_are_bounded() {
    for seed in seeds(1500) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let lines = lines_of(&mut rng, seed);
        let (raw, mut stored) = encode(&lines);
        for _ in 0..rng.between(1, 4) {
            let at = rng.below(stored.bytes.len() as u64) as usize;
            stored.bytes[at] ^= 1 << rng.below(8);
        }
        let Ok(Some(parts)) = take_apart(&stored, raw.len()) else { continue };
        let count = parts.line_count();
        let times = &stored.timestamps_ns;
        for start in [0, count / 3, count.saturating_sub(2)] {
            let mut bytes = 0;
            let mut slot_lines = SlotLines::default();
            let each = |_, line: &[u8]| bytes += line.len();
            let _ = parts.join(&mut slot_lines, times, start..count, |_| true, each);
            assert!(bytes <= raw.len());
        }
        let text = Literal { bytes: b"id=".to_vec(), ignore_case: false };
        let test = LineTest { any_of: vec![text], negated: false, decides: true };
        if let Some((search, _)) = LineSearch::new(&[test]) {
            let _ = search.test(&parts, &mut SlotLines::default());
        }
    }
}
