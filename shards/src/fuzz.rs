//! Entry points for fuzzers: every decoder of this crate, over arbitrary bytes.
//!
//! Each panics if a decoder breaks its word; ordinary tests call them too.

use crate::scan::intern;
use crate::wal::format::{
    FileHeader, FrameHeader, Record, WalName, records, write_batch, write_definition,
};

/// Reads a batch as [`logsvc_segment::fuzz::batch_sections`] does, and interns the metadata of
/// the head that it gives.
///
/// # Panics
/// If an entry or its metadata changes on the way.
pub fn batch_sections(data: &[u8]) {
    let head = logsvc_segment::fuzz::batch_sections(data);
    for block in head.blocks() {
        let (sets, ids) = intern(block);
        for (index, &id) in ids.iter().enumerate() {
            assert!(sets.get(id).eq(block.metadata(index)), "a dictionary changes metadata");
        }
    }
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

/// Reads the bytes as names, headers, edits and files of the manifest, and writes their contents
/// anew.
///
/// # Panics
/// If something changes on the way.
pub fn manifest(data: &[u8]) {
    crate::manifest::fuzz::check(data);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::format::{Layout, Previous};
    use logsvc_proto::{Labels, StreamId, TenantId};
    use logsvc_segment::batch::{BatchBuilder, sections};
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
