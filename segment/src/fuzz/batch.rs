//! Batches from arbitrary bytes.

use crate::batch::{BatchBuilder, MetadataPairs, checked_sections, sections};
use crate::head::{BlockPool, StreamHead};

/// Reads a batch, appends what decodes to a head, and builds the batch again from the decoded
/// entries. Returns the head.
///
/// # Panics
/// If an entry gets lost or changes on the way.
pub fn batch_sections(data: &[u8]) -> StreamHead {
    let (mut head, mut pool) = (StreamHead::default(), BlockPool::default());
    let mut builder = BatchBuilder::new(Vec::new());
    let mut walk = sections(data);
    let mut last_offset = 0;
    while let Some(section) = walk.next() {
        let Ok(section) = section else { break };
        assert!(walk.offset() > last_offset && walk.offset() <= data.len());
        last_offset = walk.offset();
        let count = section.entry_count();
        assert_eq!(section.entries().len(), count);
        builder.begin(section.stream);
        for entry in section.entries() {
            check_divided(entry.metadata);
            builder.push_entry(&entry);
        }
        builder.end();
        let appended = head.append(&section, &mut pool);
        assert_eq!(appended.entries + appended.duplicates, count as u64);
    }
    let held: usize = head.blocks().map(|block| block.len()).sum();
    let read: usize = sections(&data[..last_offset]).flatten().map(|s| s.entry_count()).sum();
    assert!(held <= read);

    let rebuilt = builder.finish();
    let before = sections(&data[..last_offset])
        .flatten()
        .flat_map(|section| section.entries().map(move |entry| (section.stream, entry)));
    let known_good = checked_sections(&rebuilt).flatten();
    let mut after = sections(&rebuilt).zip(known_good).flat_map(|(section, known_good)| {
        let section = section.expect("what was built decodes");
        assert_eq!(known_good, section, "without a second check");
        section.entries().map(move |entry| (section.stream, entry))
    });
    for entry in before {
        assert_eq!(after.next(), Some(entry));
    }
    assert_eq!(after.next(), None);
    head
}

/// Checks that the union of shared and own pairs does not depend on their division.
fn check_divided(metadata: MetadataPairs<'_>) {
    let mut union = Vec::new();
    metadata.write_to(&mut union);
    let whole = MetadataPairs::from_checked(&[], &union);
    assert!(whole == metadata && whole.eq(metadata), "writing metadata changes it");
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_proto::StreamId;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    fn random_batch(rng: &mut Rng) -> Vec<u8> {
        let mut builder = BatchBuilder::new(Vec::new());
        for _ in 0..rng.below(4) {
            builder.begin(StreamId(u128::from(rng.below(2))));
            for _ in 0..rng.below(5) {
                let line = vec![b'x'; rng.below(20) as usize];
                let metadata = (0..rng.below(3)).map(|n| (format!("k{n}"), "v".repeat(n as usize)));
                let (ns, metadata) =
                    (rng.below(4) as i64, metadata.collect::<Vec<_>>().into_iter());
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
    fn decoders_keep_their_word_on_damaged_and_random_bytes() {
        for seed in seeds(20_000) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let mut batch = random_batch(&mut rng);
            assert!(sections(&batch).all(|section| section.is_ok()));
            batch_sections(&batch);
            damage(&mut rng, &mut batch);
            batch_sections(&batch);
            let random: Vec<u8> = (0..rng.below(200)).map(|_| rng.next_u64() as u8).collect();
            batch_sections(&random);
        }
    }
}
