//! Regions that are joined: the same bytes as if one writer had had all blocks.

use super::*;

fn block(rng: &mut Rng) -> Block {
    let lines = (0..rng.below(40)).map(|_| format!("id={:016x} {}", rng.next_u64(), rng.below(9)));
    let mut block = Block::of(lines.collect::<Vec<_>>());
    if rng.one_in(2) {
        let pairs =
            (0..rng.below(20)).map(|_| (b"k".to_vec(), rng.next_u64().to_be_bytes().into()));
        block.metadata = pairs.collect();
    }
    block
}

fn joined(
    inputs: &[(Vec<u8>, FilterIndex)],
    step_bytes: u64,
) -> Result<(Vec<u8>, FilterIndex), FilterError> {
    let indexes = inputs.iter().map(|(_, index)| index.clone()).collect();
    let (mut joiner, mut out) = (RegionJoiner::new(indexes)?, Vec::new());
    while let Some(reads) = joiner.next_reads(step_bytes) {
        let pieces = inputs.iter().zip(reads);
        let pieces: Vec<&[u8]> =
            pieces.map(|((region, _), r)| &region[r.start as usize..r.end as usize]).collect();
        if let Err(DamagedInput { input, error }) = joiner.supply(&pieces, &mut out) {
            assert_eq!(input, 1, "the damaged one");
            return Err(error);
        }
    }
    let (index, crc) = joiner.finish();
    assert_eq!(crc, crc32c::crc32c(&out));
    Ok((out, index))
}

#[test]
fn joined_regions_are_those_of_all_blocks() {
    for seed in seeds(40) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let counts: Vec<u64> = (0..rng.between(1, 6)).map(|_| rng.below(12)).collect();
        let blocks: Vec<Vec<Block>> =
            counts.iter().map(|&count| (0..count).map(|_| block(&mut rng)).collect()).collect();
        let inputs: Vec<_> = blocks.iter().map(|blocks| region_of(blocks)).collect();
        let all: Vec<Block> = blocks.into_iter().flatten().collect();
        let step_bytes = *rng.pick(&[0, 100, 5000, u64::MAX]);
        assert!(joined(&inputs, step_bytes) == Ok(region_of(&all)));
    }
}

#[test]
fn damaged_regions_are_not_joined() {
    for seed in seeds(40) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let blocks: Vec<Block> = (0..3).map(|_| block(&mut rng)).collect();
        let mut inputs = vec![region_of(&blocks), region_of(&blocks)];
        let region = &mut inputs[1].0;
        if region.is_empty() {
            continue;
        }
        let at = rng.below(region.len() as u64) as usize;
        region[at] ^= 1 << rng.below(8);
        assert!(matches!(joined(&inputs, 5000), Err(FilterError::Checksum { .. })));
    }
}

#[test]
fn heads_of_bundles_come_back_and_damage_is_found() {
    for seed in seeds(40) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let blocks: Vec<Vec<Block>> = (0..rng.below(4))
            .map(|_| (0..rng.below(6)).map(|_| block(&mut rng)).collect())
            .collect();
        let inputs: Vec<_> = blocks.iter().map(|blocks| region_of(blocks)).collect();
        let (region, index) = joined(&inputs, 5000).expect("whole regions");
        let segments = blocks.iter().map(|blocks| BundledSegment {
            name: [1, 2, 3, 4].map(|bound| rng.below(bound * 1000) as u32),
            blocks: blocks.len() as u32,
            filters_crc: rng.next_u64() as u32,
        });
        let head = BundleHead::new(segments.collect(), index).expect("as many blocks");
        let mut bytes = head.encode();
        let header = bytes.first_chunk().expect("a header");
        assert_eq!(BundleHead::len_by_header(header), Ok(bytes.len()));
        assert_eq!(head.region(), bytes.len() as u64..(bytes.len() + region.len()) as u64);
        assert_eq!(BundleHead::decode(&bytes).as_ref(), Ok(&head));
        // A header that checks and claims more than there can be.
        let mut header: [u8; BundleHead::HEADER_LEN] = *bytes.first_chunk().expect("a header");
        header[12..16].fill(0);
        header[*rng.pick(&[18, 19, 23])] = 0xff;
        let crc = crc32c::crc32c(&header);
        header[12..16].copy_from_slice(&crc.to_le_bytes());
        assert!(BundleHead::len_by_header(&header).is_err());
        let at = rng.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << rng.below(8);
        assert!(BundleHead::decode(&bytes).is_err(), "byte {at}");
        bytes.truncate(at);
        assert!(BundleHead::decode(&bytes).is_err());
    }
}
