//! Figures of filters: the share of excluded blocks, the size, and the bytes that are read.

use super::*;

/// Blocks of 256 KiB of service logs with two random ids in each line.
fn service_blocks(rng: &mut Rng, count: usize) -> Vec<Block> {
    let block = |rng: &mut Rng| {
        Block::of((0..1370).map(|number| {
            format!(
                "{{\"ts\":\"2026-11-21T10:{:02}:{:02}.{:03}Z\",\"level\":\"info\",\"msg\":\"order \
                 placed\",\"trace_id\":\"{}\",\"request_id\":\"{}\",\"user\":{},\"status\":200,\
                 \"duration_ms\":{}}}",
                number / 60 % 60,
                number % 60,
                rng.below(1000),
                hex(rng, 32),
                hex(rng, 14),
                rng.below(100_000),
                rng.below(900)
            )
        }))
    };
    (0..count).map(|_| block(rng)).collect()
}

#[test]
fn ids_that_are_not_there_exclude_nearly_all_blocks_and_read_little() {
    let mut rng = Rng::new(7);
    let blocks = service_blocks(&mut rng, 24);
    let raw_bytes: usize = blocks.iter().flat_map(|block| &block.lines).map(Vec::len).sum();
    let region = region_of(&blocks);
    let share = region.0.len() as f64 / raw_bytes as f64;
    assert!((0.02..0.04).contains(&share), "filters are {share} of the raw bytes");

    let mut absent = |len: usize, tries: usize| {
        let (mut passed, mut bytes_read) = (0, 0);
        for _ in 0..tries {
            let needle = Needle::substring(hex(&mut rng, len).as_bytes()).unwrap();
            let (candidates, bytes) = probe(&region, vec![vec![needle]]);
            passed += candidates.count();
            bytes_read += bytes;
        }
        let read_share = bytes_read as f64 / tries as f64 / region.0.len() as f64;
        (passed as f64 / (tries * blocks.len()) as f64, read_share)
    };
    let (passed, read) = absent(12, 400);
    assert!(passed < 0.03, "{passed} of the blocks pass for 12 digits");
    assert!(read < 0.03, "{read} of the filters are read");
    let (passed, _) = absent(16, 400);
    assert!(passed < 0.006, "{passed} of the blocks pass for 16 digits");
    let (passed, read) = absent(32, 400);
    assert!(passed < 0.0005, "{passed} of the blocks pass for 32 digits");
    assert!(read < 0.05, "{read} of the filters are read");

    // An existing id is found in its block, and in no other.
    let line = String::from_utf8(blocks[11].lines[700].clone()).unwrap();
    let id = line.split('"').nth(15).filter(|id| id.len() == 32).unwrap();
    assert_eq!(find(&region, id.as_bytes()).iter().collect::<Vec<_>>(), [11]);
    assert!(find(&region, &id.as_bytes()[9..21]).contains(11));
    // Words that are in no line. Shorter words test fewer bits.
    let words = ["unreachable", "certificate", "handshake", "migration", "overflow", "timeout"];
    let passed: usize = words.iter().map(|word| find(&region, word.as_bytes()).count()).sum();
    assert!(passed < 25, "{passed} of {}", words.len() * blocks.len());
}

#[test]
fn pairs_of_metadata_are_found_by_their_exact_bytes() {
    let mut rng = Rng::new(8);
    let mut blocks: Vec<Block> = (0..20).map(|_| Block::of(["line of the block"])).collect();
    for (number, block) in blocks.iter_mut().enumerate().skip(1) {
        for _ in 0..1000 {
            block.metadata.push((b"trace_id".to_vec(), hex(&mut rng, 32).into()));
        }
        block.metadata.push((b"pod".to_vec(), format!("api-{number}").into()));
    }
    let region = region_of(&blocks);
    let find = |needle: Needle| probe(&region, vec![vec![needle]]).0;
    assert_eq!(find(Needle::metadata_name(b"trace_id")).count(), 19);
    assert!(!find(Needle::metadata_name(b"pod")).contains(0), "it has no metadata");
    assert!(find(Needle::metadata(b"pod", b"api-7")).contains(7));
    let absent = [("trace_id", 5000), ("Pod", 0)].map(|(name, tries)| {
        let passed: usize = (0..tries)
            .map(|_| find(Needle::metadata(name.as_bytes(), hex(&mut rng, 32).as_bytes())).count())
            .sum();
        passed as f64 / (f64::from(tries) * 20.0).max(1.0)
    });
    assert!(absent[0] < 0.025, "{} pass", absent[0]);
    assert!(find(Needle::metadata(b"pod", b"API-7")).count() <= 2);
    assert!(find(Needle::metadata(b"POD", b"api-7")).count() <= 2);
    // Text and metadata are separate parts.
    assert!(find(Needle::metadata(b"line", b"of the block")).count() <= 2);
    assert!(find(Needle::substring(b"trace_id").unwrap()).is_empty());
    // A text, or anything under a name.
    let either = vec![Needle::substring(b"nowhere").unwrap(), Needle::metadata_name(b"pod")];
    assert_eq!(probe(&region, vec![either]).0.count(), 19);
}
