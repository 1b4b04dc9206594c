use super::*;
use crate::segment::columns::packed::Malformed;
use crate::testing::{Rng, SeedGuard, seeds};
use logsvc_proto::varint;

/// The stored form with the text as it is.
fn split(lines: &[Vec<u8>]) -> Option<(Vec<u8>, Vec<u8>)> {
    let raw = lines.concat();
    let mut end = 0;
    let ends: Vec<u32> = lines
        .iter()
        .map(|line| {
            end += line.len() as u32;
            end
        })
        .collect();
    let mut stored = Vec::new();
    let mut splitter = Splitter::new();
    let text = splitter.split(&raw, &ends, &mut stored)?.to_vec();
    stored.extend_from_slice(&text);
    Some((raw, stored))
}

fn join(stored: &[u8], raw_len: usize) -> Result<Vec<u8>, Malformed> {
    decode(
        stored,
        raw_len,
        |text, len| if text.len() == len { Ok(text.to_vec()) } else { Err(Malformed) },
        |malformed| malformed,
    )
}

fn line(rng: &mut Rng, kind: u64) -> Vec<u8> {
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
        2 => format!("{:04} {:05} {number} {number:x} {number:019} 0{number}", rng.below(10), number % 100_000),
        _ => return (0..rng.below(80)).map(|_| rng.below(130) as u8).collect(),
    }
    .into_bytes()
}

#[test]
fn lines_of_any_kind_are_joined_again() {
    let mut marked = 0;
    for seed in seeds(300) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let kinds = rng.between(1, 4);
        let lines: Vec<Vec<u8>> = (0..rng.between(1, 200))
            .map(|_| {
                let kind = (rng.below(kinds) + seed) % 4;
                line(&mut rng, kind)
            })
            .collect();
        let Some((raw, mut stored)) = split(&lines) else { continue };
        marked += 1;
        assert!(join(&stored, raw.len()).as_deref() == Ok(&raw[..]));
        assert!(join(&stored, raw.len() + 1).is_err());
        assert!(join(&stored, raw.len() - 1).is_err());
        assert!(join(&stored[..stored.len() - 1], raw.len()).is_err());
        for _ in 0..rng.between(1, 3) {
            let at = rng.below(stored.len() as u64) as usize;
            stored[at] ^= 1 << rng.below(8);
        }
        if let Ok(read) = join(&stored, raw.len()) {
            assert_eq!(read.len(), raw.len());
        }
        let random: Vec<u8> = (0..rng.below(60)).map(|_| rng.below(6) as u8).collect();
        if let Ok(read) = join(&random, 20) {
            assert_eq!(read.len(), 20);
        }
    }
    assert!(marked > 100 || std::env::var_os("LOGSVC_SEED").is_some(), "{marked}");
}

#[test]
fn ids_take_half_their_digits_and_the_text_repeats() {
    let mut rng = Rng::new(1);
    let lines: Vec<Vec<u8>> = (0..1000)
        .map(|_| format!("id={:016x} in {} ms\n", rng.next_u64(), rng.below(1000)).into_bytes())
        .collect();
    let (raw, stored) = split(&lines).unwrap();
    let text_len = varint::read(&stored, &mut 0).unwrap() as usize;
    // One-digit numbers stay text.
    assert!((14_900..15_001).contains(&text_len), "{text_len}");
    let numbers = stored.len() - text_len;
    assert!(numbers < 1000 * 8 + 1000 * 10 / 8 + 64, "{numbers}");
    assert_eq!(join(&stored, raw.len()), Ok(raw));
}

#[test]
fn few_different_numbers_and_few_lines_are_left_alone() {
    let same: Vec<Vec<u8>> =
        (0..500).map(|i| format!("status={}", 200 + i % 7).into_bytes()).collect();
    assert!(split(&same).is_none());
    let few: Vec<Vec<u8>> = (0..20).map(|i| format!("id={}", i * 7919).into_bytes()).collect();
    assert!(split(&few).is_none());
}

#[test]
fn numbers_that_their_form_cannot_write_are_refused() {
    let stored = |form: [u8; 2], value: u64| {
        let mut stored = vec![2, 1];
        stored.extend_from_slice(&form);
        let mut section = Vec::new();
        super::super::packed::encode(&[value], &mut section);
        stored.extend_from_slice(&[1, section.len() as u8]);
        stored.extend_from_slice(&section);
        stored.extend_from_slice(&[MARK, 0]);
        stored
    };
    assert_eq!(join(&stored([1, 3], 999), 3), Ok(b"999".to_vec()));
    assert_eq!(join(&stored([1, 3], 7), 3), Ok(b"007".to_vec()));
    assert_eq!(join(&stored([0, 0], 0), 1), Ok(b"0".to_vec()));
    assert_eq!(join(&stored([0, 0], u64::MAX), 20), Ok(b"18446744073709551615".to_vec()));
    assert_eq!(join(&stored([2, 16], u64::MAX), 16), Ok(b"ffffffffffffffff".to_vec()));
    assert_eq!(join(&stored([2, 2], 10), 2), Ok(b"0a".to_vec()));
    for (form, value) in [([1, 3], 1000), ([2, 2], 256)] {
        assert!((1..30).all(|raw_len| join(&stored(form, value), raw_len).is_err()));
    }
    for form in [[0, 1], [1, 0], [1, 19], [2, 0], [2, 17], [3, 1]] {
        assert!((1..30).all(|raw_len| join(&stored(form, 1), raw_len).is_err()));
    }
}
