//! Entry points for fuzzers: every decoder of this crate, over arbitrary bytes.
//!
//! Each panics if a decoder breaks its word; ordinary tests call them too.

use crate::batch::{BatchBuilder, MetadataPairs, checked_sections, sections};
use crate::head::{BlockPool, StreamHead};
use crate::scan::intern;
use crate::wal::format::{
    FileHeader, FrameHeader, Record, WalName, records, write_batch, write_definition,
};

/// Reads a batch, appends what decodes to a head, and builds it anew.
///
/// # Panics
/// If entries get lost or change on the way.
pub fn batch_sections(data: &[u8]) {
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
    for block in head.blocks() {
        let (sets, ids) = intern(block);
        for (index, &id) in ids.iter().enumerate() {
            assert!(sets.get(id).eq(block.metadata(index)), "a dictionary changes metadata");
        }
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
}

/// The union of shared and own pairs is the same however they are divided.
fn check_divided(metadata: MetadataPairs<'_>) {
    let mut union = Vec::new();
    metadata.write_to(&mut union);
    let whole = MetadataPairs::from_checked(&[], &union);
    assert!(whole == metadata && whole.eq(metadata), "writing metadata changes it");
}

/// Reads the bytes as a log's name, headers and records, and writes the records
/// anew.
///
/// # Panics
/// If a record changes on the way.
pub fn wal_records(data: &[u8]) {
    if let Some(name) = std::str::from_utf8(data).ok().and_then(WalName::parse) {
        assert_eq!(name.file_name().as_bytes(), data);
    }
    if let Some(header) = FileHeader::decode(data) {
        assert_eq!(FileHeader::decode(&header.encode()), Some(header));
    }
    if let Some(header) = FrameHeader::decode_any(data) {
        assert_eq!(FrameHeader::decode(&header.encode(), header.nonce), Some(header));
    }
    let mut rewritten = Vec::new();
    for record in records(data) {
        match record {
            Ok(Record::Definition { id, tenant, labels }) => {
                write_definition(&mut rewritten, id, &tenant, &labels);
            }
            Ok(Record::Batch(batch)) => {
                batch_sections(batch);
                write_batch(&mut rewritten, batch);
            }
            Err(error) => {
                assert_eq!(error.offset, rewritten.len());
                break;
            }
        }
    }
    assert_eq!(&data[..rewritten.len()], &rewritten);
}

/// Reads the bytes as names, headers, edits and files of the manifest, and writes what
/// they hold anew.
///
/// # Panics
/// If something changes on the way.
pub fn manifest(data: &[u8]) {
    crate::manifest::fuzz::check(data);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Rng, SeedGuard, seeds};
    use crate::wal::format::{Layout, Previous};
    use logsvc_proto::{Labels, StreamId, TenantId};

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

    fn random_payload(rng: &mut Rng) -> Vec<u8> {
        let mut payload = Vec::new();
        for _ in 0..rng.below(4) {
            if rng.one_in(2) {
                let labels = Labels::from_pairs([("app", "x"), ("number", "7")]).unwrap();
                let tenant = TenantId::new("acme").unwrap();
                write_definition(&mut payload, StreamId(1), &tenant, &labels);
            } else {
                write_batch(&mut payload, &random_batch(rng));
            }
        }
        payload
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
            let mut payload = random_payload(&mut rng);
            assert!(records(&payload).all(|record| record.is_ok()));
            wal_records(&payload);
            damage(&mut rng, &mut payload);
            wal_records(&payload);
            let random: Vec<u8> = (0..rng.below(200)).map(|_| rng.next_u64() as u8).collect();
            batch_sections(&random);
            wal_records(&random);
        }
    }

    #[test]
    fn headers_and_names_are_read_too() {
        let layout = Layout::Padded;
        let name = WalName { epoch: 1, shards: 2, shard: 1, index: 9 };
        wal_records(name.file_name().as_bytes());
        let previous = Some(Previous { index: 8, durable_len: 4096 });
        let (nonce, created_ns, is_reused) = (name.nonce(5), -1, true);
        let header = FileHeader { name, nonce, created_ns, layout, is_reused, previous };
        wal_records(&header.encode());
        let (nonce, number, payload_len, payload_crc) = (5, 1, 3, 9);
        let frame =
            FrameHeader { nonce, number, durable_len: 64, payload_len, payload_crc, layout };
        wal_records(&frame.encode());
    }
}
