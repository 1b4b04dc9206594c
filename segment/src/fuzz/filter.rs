//! Filters from arbitrary bytes.

use crate::filter::{BlockFilterBuilder, BlockSet, FilterIndex, Needle, RegionWriter};

/// Reads the bytes as an index, and probes it with the same bytes as its region. Then builds
/// filters of the bytes as the lines of a few blocks, and searches pieces of them.
///
/// # Panics
/// If a filter excludes a block with the needle, or a probe breaks a guarantee.
pub fn filters(data: &[u8]) {
    let needle_len = data.first().map_or(5, |&byte| usize::from(byte) % 40 + 1);
    if let Ok(index) = FilterIndex::decode(data) {
        assert_eq!(FilterIndex::decode(&index.encode()), Ok(index.clone()));
        // The reserved bytes may have any value.
        assert_eq!(index.encode()[4..], data[4..]);
        let conditions = [data.get(..needle_len).and_then(Needle::substring)];
        let conditions = conditions.into_iter().flatten().map(|needle| vec![needle]).collect();
        run(&index, data, conditions);
    }

    let lines: Vec<&[u8]> = data.splitn(12, |&byte| byte == b'\n').collect();
    let (mut builder, mut writer) = (BlockFilterBuilder::new(), RegionWriter::new());
    for line in &lines {
        builder.add_line(line);
        builder.add_metadata(line, &line[line.len() / 2..]);
        writer.push(builder.finish());
    }
    let (region, index) = writer.finish();
    assert_eq!(index.check(&region), Ok(()));
    for (block, line) in lines.iter().enumerate() {
        let start = line.len().saturating_sub(needle_len) / 2;
        let text = &line[start..line.len().min(start + needle_len)];
        let mut conditions = vec![
            vec![Needle::metadata(b"no", b"thing"), Needle::metadata_name(line)],
            vec![Needle::metadata(line, &line[line.len() / 2..])],
        ];
        conditions.extend(Needle::any_substring([&text.to_ascii_uppercase()[..], text]));
        let candidates = run(&index, &region, conditions);
        assert!(candidates.contains(block), "block {block} was excluded");
    }
}

/// Probes a region, which may be shorter than the index says.
fn run(index: &FilterIndex, region: &[u8], conditions: Vec<Vec<Needle>>) -> BlockSet {
    let mut probe = index.probe(conditions, BlockSet::full(index.block_count()));
    while let Some(reads) = probe.next_reads() {
        assert!(reads.windows(2).all(|pair| pair[0].end < pair[1].start));
        assert!(reads.iter().all(|read| read.start < read.end && read.end <= index.region_len()));
        let piece = |place: u64| region.len().min(usize::try_from(place).unwrap_or(usize::MAX));
        let pieces: Vec<&[u8]> =
            reads.iter().map(|read| &region[piece(read.start)..piece(read.end)]).collect();
        // Damaged filters exclude no block, which the caller asserts.
        let _ = probe.supply(&pieces);
    }
    probe.into_candidates()
}
