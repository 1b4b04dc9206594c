//! Turns the metadata of a head block into the form that the engine takes.

use logsvc_logql::engine::MetadataSets;

use logsvc_segment::batch::MetadataPairs;
use logsvc_segment::head::HeadBlock;

/// About how many bytes the dictionary of a block's metadata takes: texts and the tables that
/// find them, lists that double.
pub(in crate::scan) fn dictionary_bytes(block: &HeadBlock) -> usize {
    const TEXT_FACTOR: usize = 6;
    const SET_BYTES: usize = 64;
    let (_, shared) = block.shared_metadata();
    let (own, ends) = block.own_metadata();
    let text_bytes = own.len() + shared.iter().map(|set| set.len()).sum::<usize>();
    block.len() * size_of::<u32>() + ends.len() * SET_BYTES + text_bytes * TEXT_FACTOR
}

/// The dictionary form of a block's metadata, as the engine takes it.
pub(crate) fn intern(block: &HeadBlock) -> (MetadataSets, Vec<u32>) {
    // A block holds far less than the 4 GiB of text that fill a dictionary.
    const FITS: &str = "a block's metadata fits a dictionary";
    let mut sets = MetadataSets::new();
    let (numbers, shared) = block.shared_metadata();
    let mut shared_ids = vec![0];
    for set in shared.iter() {
        shared_ids.push(sets.intern(MetadataPairs::from_checked(set, &[])).expect(FITS));
    }
    let id_of = |&number: &u8| shared_ids[usize::from(number)];
    if block.own_metadata().1.is_empty() {
        return (sets, numbers.iter().map(id_of).collect());
    }
    let mut set_ids = Vec::with_capacity(block.len());
    for index in 0..block.len() {
        let metadata = block.metadata(index);
        set_ids.push(match numbers.get(index) {
            Some(number) if metadata.own_bytes().is_empty() => id_of(number),
            _ => sets.intern(metadata).expect(FITS),
        });
    }
    (sets, set_ids)
}

/// Bytes of the pairs of all entries, as encoded for each of them.
pub(in crate::scan) fn metadata_bytes(block: &HeadBlock) -> u64 {
    let (numbers, shared) = block.shared_metadata();
    let mut lens = vec![0];
    lens.extend(shared.iter().map(|set| set.len() as u64));
    let shared_bytes: u64 = numbers.iter().map(|&number| lens[usize::from(number)]).sum();
    shared_bytes + block.own_metadata().0.len() as u64
}
