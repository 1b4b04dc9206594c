//! What filters promise: nothing that is there is ever excluded, what is not there
//! mostly is, little is read, and damage is found.

use super::index::Part;
use super::*;
use crate::testing::{Rng, SeedGuard, seeds};

/// Lines of blocks, and their metadata.
#[derive(Default)]
struct Block {
    lines: Vec<Vec<u8>>,
    metadata: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Block {
    fn of(lines: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Block {
        Block { lines: lines.into_iter().map(Into::into).collect(), metadata: Vec::new() }
    }

    fn contains(&self, text: &[u8]) -> bool {
        self.lines
            .iter()
            .any(|line| line.windows(text.len()).any(|window| window.eq_ignore_ascii_case(text)))
    }
}

fn region_of(blocks: &[Block]) -> (Vec<u8>, FilterIndex) {
    let (mut builder, mut writer) = (BlockFilterBuilder::new(), RegionWriter::new());
    for block in blocks {
        let mut ends = Vec::new();
        let mut lines = Vec::new();
        for line in &block.lines {
            lines.extend_from_slice(line);
            ends.push(lines.len() as u32);
        }
        builder.add_lines(&lines, &ends);
        block.metadata.iter().for_each(|(name, value)| builder.add_metadata(name, value));
        writer.push(builder.finish());
    }
    let (region, index) = writer.finish();
    assert_eq!(FilterIndex::decode(&index.encode()).as_ref(), Ok(&index));
    assert_eq!(region.len() as u64, index.region_len());
    assert_eq!(index.check(&region), Ok(()));
    (region, index)
}

/// The candidates among all blocks, and how many bytes were read.
fn probe(
    (region, index): &(Vec<u8>, FilterIndex),
    conditions: Vec<Vec<Needle>>,
) -> (BlockSet, usize) {
    let mut probe = index.probe(conditions, BlockSet::full(index.block_count()));
    let mut bytes_read = 0;
    while let Some(reads) = probe.next_reads() {
        let read = |range: &std::ops::Range<u64>| &region[range.start as usize..range.end as usize];
        let pieces: Vec<&[u8]> = reads.iter().map(read).collect();
        bytes_read += pieces.iter().map(|piece| piece.len()).sum::<usize>();
        probe.supply(&pieces).expect("the region is whole");
    }
    (probe.into_candidates(), bytes_read)
}

fn find(region: &(Vec<u8>, FilterIndex), text: &[u8]) -> BlockSet {
    let needle = Needle::substring(text).expect("long enough");
    probe(region, vec![vec![needle]]).0
}

fn flip_case(rng: &mut Rng, text: &mut [u8]) {
    for byte in text {
        if rng.one_in(2) {
            let other = if rng.one_in(2) { u8::to_ascii_lowercase } else { u8::to_ascii_uppercase };
            *byte = other(byte);
        }
    }
}

fn hex(rng: &mut Rng, len: usize) -> String {
    let mut text = String::new();
    while text.len() < len {
        text += &format!("{:016x}", rng.next_u64());
    }
    text.truncate(len);
    text
}

fn random_line(rng: &mut Rng) -> Vec<u8> {
    let alphabet: &[u8] = match rng.below(6) {
        0 => b"ab",
        1 => b"0123456789abcdef",
        2 => b"The quick-brown_fox. Jumps:over/a \"lazy\" dog=42, {0x7F}",
        3 => "äöü €漢字 łódź naïve".as_bytes(),
        4 => b"\0\n\r\t\xff\xfe \x7f\x80AZaz09@[`{/:",
        _ => &(0..=255).collect::<Vec<u8>>()[..],
    };
    let max_len = *rng.pick(&[0, 3, 6, 20, 200, 200, 300, 9000]);
    (0..rng.below(max_len + 1)).map(|_| *rng.pick(alphabet)).collect()
}

fn random_block(rng: &mut Rng) -> Block {
    let mut block = Block::default();
    for _ in 0..rng.below(12) {
        let line = random_line(rng);
        // Repeated lines make blocks that have few grams for their size.
        let copies = *rng.pick(&[1, 1, 1, 40]);
        block.lines.extend(std::iter::repeat_n(line, copies));
    }
    for _ in 0..*rng.pick(&[0, 0, 3, 30]) {
        block.metadata.push((format!("name{}", rng.below(3)).into(), random_line(rng)));
    }
    block
}

#[test]
fn what_is_there_is_never_excluded() {
    let (mut whole, mut quarters, mut needles) = (0, 0, 0);
    for seed in seeds(150) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let blocks: Vec<Block> = (0..rng.between(1, 9)).map(|_| random_block(&mut rng)).collect();
        let region = region_of(&blocks);
        for descriptor in region.1.descriptors(Part::Text) {
            whole += usize::from(descriptor.bits() > 0 && !descriptor.has_quarter_of_mixed());
            quarters += usize::from(descriptor.has_quarter_of_mixed());
        }
        for (number, block) in blocks.iter().enumerate() {
            for line in block.lines.iter().filter(|line| !line.is_empty()) {
                let start = rng.below(line.len() as u64) as usize;
                let len = rng.between(1, (line.len() - start) as u64) as usize;
                let len = if rng.one_in(3) { len } else { len.min(rng.between(4, 40) as usize) };
                let mut text = line[start..start + len].to_vec();
                flip_case(&mut rng, &mut text);
                match Needle::substring(&text) {
                    Some(needle) => {
                        needles += 1;
                        let (candidates, _) = probe(&region, vec![vec![needle]]);
                        assert!(candidates.contains(number), "{}", text.escape_ascii());
                    }
                    None => assert!(text.len() < GRAM_LEN),
                }
            }
            for (name, value) in &block.metadata {
                let both = vec![
                    vec![Needle::metadata(name, value)],
                    vec![Needle::metadata(b"no", b"no"), Needle::metadata_name(name)],
                ];
                assert!(probe(&region, both).0.contains(number));
            }
        }
    }
    assert!(whole > 50 && quarters > 50 && needles > 2000, "{whole} {quarters} {needles}");
}

#[test]
fn conditions_are_all_required_and_their_alternatives_are_not() {
    for seed in seeds(100) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let words: Vec<String> = (0..8).map(|_| hex(&mut rng, 14)).collect();
        let blocks: Vec<Block> = (0..80)
            .map(|_| Block::of((0..rng.below(4)).map(|_| rng.pick(&words).as_bytes())))
            .collect();
        let region = region_of(&blocks);
        let conditions: Vec<Vec<&String>> = (0..rng.below(4))
            .map(|_| (0..rng.below(4)).map(|_| rng.pick(&words)).collect())
            .collect();
        let needles = |words: &Vec<&String>| {
            Needle::any_substring(words.iter().map(|word| word.as_bytes())).unwrap()
        };
        let (candidates, _) = probe(&region, conditions.iter().map(needles).collect());
        let expected: Vec<usize> = (0..blocks.len())
            .filter(|&block| {
                let has = |word: &&String| blocks[block].contains(word.as_bytes());
                conditions.iter().all(|words| words.iter().any(has))
            })
            .collect();
        // Blocks of a few words are so small that nothing passes by chance.
        assert_eq!(candidates.iter().collect::<Vec<_>>(), expected);
    }
    assert_eq!(Needle::any_substring([&b"long enough"[..], b"no"]), None);
}

#[test]
fn lines_may_come_one_by_one_or_together() {
    for seed in seeds(50) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let (mut together, mut apart) = (BlockFilterBuilder::new(), BlockFilterBuilder::new());
        for _ in 0..3 {
            let (mut lines, mut ends) = (Vec::new(), Vec::new());
            for line in random_block(&mut rng).lines {
                apart.add_line(&line);
                lines.extend_from_slice(&line);
                ends.push(lines.len() as u32);
            }
            together.add_lines(&lines, &ends);
            assert_eq!(together.finish(), apart.finish());
        }
    }
}

#[test]
fn a_text_across_lines_is_no_text_of_a_line() {
    let region = region_of(&[Block::of(["first-half", "other-half"])]);
    assert!(find(&region, b"first-half").contains(0));
    assert!(find(&region, b"halfother").is_empty());
}

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

    // An id that is there is found in its block, and nowhere else.
    let line = String::from_utf8(blocks[11].lines[700].clone()).unwrap();
    let id = line.split('"').nth(15).filter(|id| id.len() == 32).unwrap();
    assert_eq!(find(&region, id.as_bytes()).iter().collect::<Vec<_>>(), [11]);
    assert!(find(&region, &id.as_bytes()[9..21]).contains(11));
    // Words that are in no line. Shorter ones test fewer bits.
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
    // Each side of the region knows nothing of the other.
    assert!(find(Needle::metadata(b"line", b"of the block")).count() <= 2);
    assert!(find(Needle::substring(b"trace_id").unwrap()).is_empty());
    // A text, or anything under a name.
    let either = vec![Needle::substring(b"nowhere").unwrap(), Needle::metadata_name(b"pod")];
    assert_eq!(probe(&region, vec![either]).0.count(), 19);
}

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
            region[at] ^= 1 << bit;
        }
    }
    assert!(matches!(index.check(&region[1..]), Err(FilterError::Length { .. })));

    // A probe finds the damage in what it reads, and excludes nothing because of it.
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

    // Units do not pass for one another.
    let mut probe = index.probe(vec![vec![Needle::substring(b"other").unwrap()]], all());
    let read = probe.next_reads().unwrap()[0].clone();
    let len = (read.end - read.start) as usize;
    let other = if read.start == 0 { len } else { 0 };
    let failed = probe.supply(&[&region[other..other + len]]).unwrap_err();
    assert_eq!(failed, FilterError::Checksum { offset: read.start });
    // Nor do pieces of another length, or none.
    for pieces in [&[][..], &[&region[..len - 1]], &[&region[..len + 1]]] {
        let mut probe = index.probe(vec![vec![Needle::substring(b"other").unwrap()]], all());
        assert!(probe.next_reads().is_some());
        assert!(matches!(probe.supply(pieces), Err(FilterError::Length { .. })));
        assert_eq!(probe.next_reads(), None);
    }
}

#[test]
fn a_probe_looks_at_candidates_only_and_stops_when_none_is_left() {
    let blocks: Vec<Block> =
        (0..40).map(|number| Block::of([format!("number {number}")])).collect();
    let (region, index) = region_of(&blocks);
    let mut some = BlockSet::empty(40);
    some.insert(3);
    some.insert(4);
    let needles = || vec![vec![Needle::substring(b"number").unwrap()]];
    let mut probe = index.probe(needles(), some.clone());
    while let Some(reads) = probe.next_reads() {
        let pieces: Vec<&[u8]> =
            reads.iter().map(|read| &region[read.start as usize..read.end as usize]).collect();
        probe.supply(&pieces).unwrap();
    }
    assert_eq!(probe.into_candidates(), some);
    assert_eq!(index.probe(needles(), BlockSet::empty(40)).next_reads(), None);
    assert_eq!(index.probe(Vec::new(), some.clone()).next_reads(), None);
    // Stopping early leaves what was not excluded.
    let mut probe = index.probe(needles(), some.clone());
    assert!(probe.next_reads().is_some());
    assert_eq!(probe.into_candidates(), some);
}

#[test]
fn blocks_may_be_unknown_or_empty() {
    let mut builder = BlockFilterBuilder::default();
    let mut writer = RegionWriter::new();
    writer.push(BlockFilter::unknown());
    writer.push(builder.finish());
    builder.add_line(b"tiny");
    writer.push(builder.finish());
    builder.add_line(b"this one");
    writer.push(builder.finish());
    // So many grams that the filter would be full.
    let mut rng = Rng::new(9);
    (0..400_000).for_each(|_| builder.add_line(&rng.next_u64().to_le_bytes()));
    writer.push(builder.finish());
    let region = writer.finish();
    assert_eq!(find(&region, b"this one").iter().collect::<Vec<_>>(), [0, 3, 4]);
    assert_eq!(find(&region, b"another").iter().collect::<Vec<_>>(), [0, 4]);
    let any_metadata = probe(&region, vec![vec![Needle::metadata_name(b"name")]]).0;
    assert_eq!(any_metadata.iter().collect::<Vec<_>>(), [0]);

    let (region, index) = RegionWriter::new().finish();
    assert!(region.is_empty() && index.block_count() == 0);
    assert_eq!(FilterIndex::decode(&index.encode()), Ok(index));
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
    // "rese" alone is no gram, and "reset" is the bit that its hash picks.
    let hash = (u64::from_le_bytes(*b"reset\0\0\0") << 24).wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
    let slice = (hash >> 52) as usize;
    let bit = slice % 512 * 2;
    assert_eq!(region[slice / 512 * 132 + bit / 8] >> (bit % 8) & 3, 1);
    assert_eq!(crc32c::crc32c(&region), 936_340_835);
}

#[test]
fn indexes_that_lie_are_refused() {
    let good = [1, 0, 0, 0, 2, 0, 0, 0, 0x81, 17, 3, 0];
    assert!(FilterIndex::decode(&good).is_ok());
    for len in 0..good.len() {
        assert!(FilterIndex::decode(&good[..len]).is_err());
    }
    for (at, byte) in [(0, 2), (4, 1), (4, 3), (7, 1), (8, 65), (9, 0x80), (10, 0xff)] {
        let mut bad = good;
        bad[at] = byte;
        assert!(matches!(FilterIndex::decode(&bad), Err(FilterError::Index(_))), "{at}");
    }
}

#[test]
fn any_bytes_are_taken() {
    for seed in seeds(400) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        fuzz::filters(&random_line(&mut rng));
        let count = rng.below(60);
        let mut index = vec![1, 0, 0, 0, count as u8, 0, 0, 0];
        index.extend((0..2 * count).map(|_| *rng.pick(&[0, 1, 17, 64, 127, 129, 192])));
        if rng.one_in(4) {
            let at = rng.below(index.len() as u64) as usize;
            index[at] ^= 1 << rng.below(8);
        }
        fuzz::filters(&index);
    }
}
