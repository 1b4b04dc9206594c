//! Bodies of fuzz targets over code that this crate keeps to itself: the dictionaries of a scan,
//! the decoders of the manifest and the record of requests for deletion.
//!
//! The bodies that need the public API alone are in `logsvc-fuzz-bodies`. A caller outside cannot
//! write these: the public functions read the manifest from files of a whole node, and scan whole
//! shards.

use logsvc_segment::head::HeadBlock;

use crate::scan::intern;

/// Interns the metadata of a block.
///
/// # Panics
/// If the metadata of an entry changes on the way.
pub fn interned(block: &HeadBlock) {
    let (sets, ids) = intern(block);
    for (index, &id) in ids.iter().enumerate() {
        assert!(sets.get(id).eq(block.metadata(index)), "a dictionary changes metadata");
    }
}

/// Reads the bytes as names, headers, edits and files of the manifest, and writes their contents
/// anew.
///
/// # Panics
/// If something changes on the way.
pub fn manifest(data: &[u8]) {
    crate::manifest::fuzz::check(data);
}

/// Reads the bytes as a record of requests for deletion, as they are and with right checksums.
///
/// # Panics
/// If a request changes on the way.
pub fn delete_requests(data: &[u8]) {
    crate::deletion::format::check(data);
}

/// Reads the bytes as an entry of the log of common files, and writes it anew.
///
/// # Panics
/// If something changes on the way.
pub fn common_entry(data: &[u8]) {
    crate::common::check(data);
}

/// Reads the bytes as an entry of a write-ahead log in a bucket, and writes its pieces anew.
///
/// # Panics
/// If a piece changes on the way.
pub fn wal_pieces(data: &[u8]) {
    crate::sink::pieces::check(data);
}
