//! Batches, logs, manifests and requests for deletion out of arbitrary bytes.

use logsvc_shards::fuzz::interned;
pub use logsvc_shards::fuzz::{delete_requests, manifest, wal_pieces};
use logsvc_shards::wal::format::{
    FileHeader, FrameHeader, Record, WalName, records, write_batch, write_definition,
};

use crate::segment;

/// Reads a batch as [`segment::batch_sections`] does, and interns the metadata of the head that it
/// gives.
///
/// # Panics
/// If an entry or its metadata changes on the way.
pub fn batch_sections(data: &[u8]) {
    let head = segment::batch_sections(data);
    head.blocks().for_each(|block| interned(block));
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
