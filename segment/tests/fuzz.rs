//! The fuzz bodies over random, damaged and small inputs.

use logsvc_fuzz_bodies::segment as fuzz;
use logsvc_proto::StreamId;
use logsvc_segment::batch::{BatchBuilder, sections};
use logsvc_testkit::{Rng, SeedGuard, seeds};

fn random_batch(rng: &mut Rng) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Vec::new());
    for _ in 0..rng.below(4) {
        builder.begin(StreamId(u128::from(rng.below(2))));
        for _ in 0..rng.below(5) {
            let line = vec![b'x'; rng.below(20) as usize];
            let metadata = (0..rng.below(3)).map(|n| (format!("k{n}"), "v".repeat(n as usize)));
            let (ns, metadata) = (rng.below(4) as i64, metadata.collect::<Vec<_>>().into_iter());
            match rng.below(3) {
                0 => builder.push(ns, &line, metadata),
                1 => builder.push_sharing(ns, &line, &[(b"k1", b"shared")], metadata),
                _ => builder.push_sharing(ns, &line, &[(b"level", b"info")], metadata),
            }
        }
        builder.end();
    }
    builder.finish()
}

fn damage(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..rng.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = rng.below(bytes.len() as u64) as usize;
        match rng.below(5) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, rng.next_u64() as u8),
            2 => bytes[at] = *rng.pick(&[0, 1, 0x7f, 0x80, 0xff]),
            _ => bytes[at] ^= 1 << rng.below(8),
        }
    }
}

#[test]
fn damaged_and_random_batches_keep_their_entries() {
    for seed in seeds(20_000) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let mut batch = random_batch(&mut rng);
        assert!(sections(&batch).all(|section| section.is_ok()));
        fuzz::batch_sections(&batch);
        damage(&mut rng, &mut batch);
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
