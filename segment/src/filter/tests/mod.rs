//! Tests of filters: a block with the needle is never excluded, a block without it mostly is,
//! little is read, and damage is found.

mod damage;
mod join;
mod rates;

use super::index::Part;
use super::*;
use logsvc_testkit::{Rng, SeedGuard, seeds};

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
    let mut again = RegionWriter::new();
    let filters = load(&region, &index).unwrap();
    (0..blocks.len()).for_each(|block| again.push(filters.get(block).expect("every block")));
    assert!(filters.get(blocks.len()).is_none());
    assert!(again.finish() == (region.clone(), index.clone()), "filters can be moved");
    assert_eq!(FilterIndex::decode(&index.encode()).as_ref(), Ok(&index));
    assert_eq!(region.len() as u64, index.region_len());
    assert_eq!(index.check(&region), Ok(()));
    (region, index)
}

/// The filters of all blocks, read from a region.
fn load(region: &[u8], index: &FilterIndex) -> Result<RegionFilters, FilterError> {
    let mut loader = index.load(region.to_vec())?;
    while loader.advance()? {}
    Ok(loader.finish())
}

/// The candidates among all blocks, and the number of bytes that were read.
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
        // Blocks of repeated lines have few grams for their size.
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
        // Filters of a few words are so exact that no needle passes by chance.
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
    // A search that stops early leaves all blocks that are not excluded.
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
    // With so many grams the filter would be full.
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
