//! The fuzz bodies over random, damaged and small inputs.

use logsvc_fuzz_bodies::segment as fuzz;
use logsvc_segment::batch::sections;
use logsvc_testkit::{Rng, SeedGuard, seeds};

#[test]
fn damaged_and_random_batches_keep_their_entries() {
    for seed in seeds(20_000) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let mut batch = fuzz::random_batch(&mut rng);
        assert!(sections(&batch).all(|section| section.is_ok()));
        fuzz::batch_sections(&batch);
        rng.damage(&mut batch);
        fuzz::batch_sections(&batch);
        let random: Vec<u8> = (0..rng.below(200)).map(|_| rng.next_u64() as u8).collect();
        fuzz::batch_sections(&random);
    }
}

#[test]
fn the_sample_is_read_whole() {
    let (file, footer) = fuzz::sample();
    assert_eq!(fuzz::decode_all(&file), Ok(9));
    assert_eq!((footer.totals.streams, footer.totals.blocks, footer.totals.runs), (3, 3, 5));
    fuzz::segment(&file);
}

#[test]
fn decoders_keep_their_word_on_damaged_directories_and_random_columns() {
    let mut accepted = 0;
    let seeds = seeds(6000);
    let many = seeds.end - seeds.start > 1000;
    for seed in seeds {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let len = 3 * rng.between(1, 4);
        let mut data: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
        if rng.one_in(2) {
            // Small numbers are more often meaningful.
            data.iter_mut().skip(2).step_by(3).for_each(|byte| *byte %= 8);
        }
        fuzz::segment(&data);
        accepted += usize::from(fuzz::damaged_directory(&data));
    }
    assert!(accepted > 100 || !many, "only {accepted} directories told anything");
}

#[test]
fn random_label_indexes_stay_within_their_rows() {
    // What keys, lengths and ranges are made of.
    let pieces: [&[u8]; 12] = [
        b"\0",
        b"\x01",
        b"\0\0\0\0",
        b"\0\0\0\x01",
        b"a",
        b"a\0",
        b"b",
        b"bc",
        b"\x02",
        b"\x06",
        b"\x08",
        b"\xff",
    ];
    for seed in seeds(20_000) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let mut data = Vec::new();
        if rng.one_in(2) {
            // A page with one entry, and what may follow.
            let key: Vec<u8> =
                (0..rng.between(1, 5)).flat_map(|_| *rng.pick(&pieces)).copied().collect();
            data.extend_from_slice(&[0, key.len() as u8]);
            data.extend_from_slice(&key);
            data.extend_from_slice(&[0, rng.below(4) as u8]);
        }
        for _ in 0..rng.below(20) {
            data.extend_from_slice(pieces[rng.below(12) as usize]);
        }
        rng.damage(&mut data);
        fuzz::label_index(&data);
    }
}
