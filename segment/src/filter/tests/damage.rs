//! Tests of damaged filters, and of the bytes of the format.

use super::*;

#[test]
fn every_damaged_byte_is_found() {
    let mut blocks: Vec<Block> =
        (0..3).map(|number| Block::of([format!("line {number}")])).collect();
    blocks[1].metadata.push((b"name".to_vec(), b"value".to_vec()));
    let (mut region, index) = region_of(&blocks);
    let all = || BlockSet::full(index.block_count());
    for at in 0..region.len() {
        for bit in 0..8 {
            region[at] ^= 1 << bit;
            assert!(matches!(index.check(&region), Err(FilterError::Checksum { .. })), "at {at}");
            assert!(matches!(load(&region, &index), Err(FilterError::Checksum { .. })), "at {at}");
            region[at] ^= 1 << bit;
        }
    }
    assert!(matches!(index.check(&region[1..]), Err(FilterError::Length { .. })));
    assert!(matches!(load(&region[1..], &index), Err(FilterError::Length { .. })));

    // A probe finds damage in the bytes that it reads, and excludes no block by them.
    let mut damaged = 0;
    for at in 0..region.len() {
        region[at] ^= 0x10;
        let needles = vec![vec![Needle::substring(b"absent needle").unwrap()]];
        let mut probe = index.probe(needles, all());
        let mut failed = false;
        while let Some(reads) = probe.next_reads() {
            let hit = reads.iter().any(|read| read.contains(&(at as u64)));
            let read =
                |range: &std::ops::Range<u64>| &region[range.start as usize..range.end as usize];
            let pieces: Vec<&[u8]> = reads.iter().map(read).collect();
            assert_eq!(probe.supply(&pieces).is_err(), hit);
            failed |= hit;
        }
        damaged += usize::from(failed);
        assert_eq!(probe.into_candidates(), if failed { all() } else { BlockSet::empty(3) });
        region[at] ^= 0x10;
    }
    assert!(damaged > 100, "{damaged}");

    // A unit at the place of another unit is found.
    let mut probe = index.probe(vec![vec![Needle::substring(b"other").unwrap()]], all());
    let read = probe.next_reads().unwrap()[0].clone();
    let len = (read.end - read.start) as usize;
    let other = if read.start == 0 { len } else { 0 };
    let failed = probe.supply(&[&region[other..other + len]]).unwrap_err();
    assert_eq!(failed, FilterError::Checksum { offset: read.start });
    // Pieces of another length, and missing ones, are found.
    for pieces in [&[][..], &[&region[..len - 1]], &[&region[..len + 1]]] {
        let mut probe = index.probe(vec![vec![Needle::substring(b"other").unwrap()]], all());
        assert!(probe.next_reads().is_some());
        assert!(matches!(probe.supply(pieces), Err(FilterError::Length { .. })));
        assert_eq!(probe.next_reads(), None);
    }
}

#[test]
fn indexes_that_lie_are_refused() {
    let good = [1, 0, 0, 0, 2, 0, 0, 0, 0x81, 17, 3, 0];
    assert!(FilterIndex::decode(&good).is_ok());
    for len in 0..good.len() {
        assert!(FilterIndex::decode(&good[..len]).is_err());
    }
    let mut newer = good;
    newer[0] = 2;
    assert_eq!(FilterIndex::decode(&newer), Err(FilterError::Version));
    for (at, byte) in [(4, 1), (4, 3), (7, 1), (8, 65), (9, 0x80), (10, 0xff)] {
        let mut bad = good;
        bad[at] = byte;
        assert!(matches!(FilterIndex::decode(&bad), Err(FilterError::Index(_))), "{at}");
    }
}

#[test]
fn the_bytes_are_those_of_the_format() {
    let mut block = Block::of(["Connection reset by peer", "GET /index.html"]);
    block.metadata.push((b"pod".to_vec(), b"api-0".to_vec()));
    let (region, index) = region_of(&[block, Block::of(["\u{fffd}\0 binary"])]);
    assert_eq!(index.encode(), [1, 0, 0, 0, 2, 0, 0, 0, 0x81, 0x81, 1, 0]);
    // 4096 slices of two bits in units of 512 slices; then 4096 of one bit in units of
    // 1024; each unit of 128 bytes has a checksum.
    assert_eq!(region.len(), 12 * 132);
    // "rese" is no gram, and the hash of "reset" gives its bit.
    let hash = (u64::from_le_bytes(*b"reset\0\0\0") << 24).wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
    let slice = (hash >> 52) as usize;
    let bit = slice % 512 * 2;
    assert_eq!(region[slice / 512 * 132 + bit / 8] >> (bit % 8) & 3, 1);
    assert_eq!(crc32c::crc32c(&region), 936_340_835);
}

#[test]
fn any_bytes_are_taken() {
    for seed in seeds(400) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        logsvc_fuzz_bodies::segment::filters(&random_line(&mut rng));
        let count = rng.below(60);
        let mut index = vec![1, 0, 0, 0, count as u8, 0, 0, 0];
        index.extend((0..2 * count).map(|_| *rng.pick(&[0, 1, 17, 64, 127, 129, 192])));
        if rng.one_in(4) {
            let at = rng.below(index.len() as u64) as usize;
            index[at] ^= 1 << rng.below(8);
        }
        logsvc_fuzz_bodies::segment::filters(&index);
    }
}
