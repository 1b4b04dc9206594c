//! Tests that both implementations set exactly the bits of the grams.

use super::super::keys::{GRAM_LEN, Key, word_flag};
use super::*;
use logsvc_testkit::{Rng, SeedGuard, seeds};

/// The bits by definition.
fn expected(lines: &[Vec<u8>]) -> Box<Bits> {
    let mut bits = Box::new([0; 2 * SLICES]);
    for gram in lines.iter().flat_map(|line| line.windows(GRAM_LEN)) {
        let mut eight = [0; 8];
        eight[..GRAM_LEN].copy_from_slice(&gram.to_ascii_lowercase());
        let key = Key::of_gram(eight);
        let mixed = gram.iter().any(|&byte| word_flag(byte) == 0);
        bits[key.slice() + if mixed { SLICES } else { 0 }] |= 1 << key.bit();
    }
    bits
}

/// Lines that share parts with earlier lines, at the same or another position.
fn alike_lines(rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut line: Vec<u8> = Vec::new();
    let count = rng.between(1, 40);
    (0..count)
        .map(|_| {
            if rng.one_in(10) {
                let len = *rng.pick(&[0, 4, 5, 9, 60, 61, 64, 65, 200, 700, 9000]);
                let all = rng.one_in(2);
                let byte = |rng: &mut Rng| {
                    if all { rng.next_u64() as u8 } else { *rng.pick(b"aBc-_.019[`{@Z ") }
                };
                line = (0..len).map(|_| byte(rng)).collect();
            }
            for _ in 0..rng.below(4) {
                let at = rng.below(line.len() as u64 + 1) as usize;
                match rng.below(4) {
                    0 if at < line.len() => drop(line.remove(at)),
                    1 => line.insert(at, rng.next_u64() as u8),
                    2 if at < line.len() => line[at] = *rng.pick(b"x7. "),
                    _ => {}
                }
            }
            if rng.one_in(20) { line[..line.len() / 2].to_vec() } else { line.clone() }
        })
        .collect()
}

#[test]
fn all_ways_set_the_bits_of_all_grams_and_no_others() {
    for seed in seeds(400) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let lines = alike_lines(&mut rng);
        let mut ends = Vec::new();
        let mut joined = Vec::new();
        for line in &lines {
            joined.extend_from_slice(line);
            ends.push(joined.len() as u32);
        }
        // The lines end with their allocation, so that reading beyond it may fail.
        joined.shrink_to_fit();
        let expected = expected(&lines);
        let mut bits = Box::new([0; 2 * SLICES]);
        portable::Buffers::new().add_lines(&mut bits, &joined, &ends);
        assert!(bits == expected, "portable");
        #[cfg(target_arch = "x86_64")]
        if let Some(mut vectors) = avx512::Vectors::new() {
            bits.fill(0);
            vectors.add_lines(&mut bits, &joined, &ends);
            assert!(bits == expected, "AVX-512");
        }
        let mut chosen = GramBits::new();
        chosen.add_lines(&joined, &ends);
        assert!(chosen.bits == expected, "the one that is chosen");
    }
}

#[test]
fn line_ends_that_lie_are_refused() {
    for ends in [&[3, 2][..], &[1, 6], &[7]] {
        let refused = std::panic::catch_unwind(|| GramBits::new().add_lines(b"12345", ends));
        assert!(refused.is_err(), "{ends:?}");
    }
}
