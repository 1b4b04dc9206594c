//! Maps of a cluster out of arbitrary bytes.

use logsvc_cluster::map::codec::Entry;

/// Fuzz target: entries of the log of maps. What is read has one encoding: the bytes.
pub fn map_entry(data: &[u8]) {
    if let Ok(entry) = Entry::decode(data) {
        assert_eq!(entry.encode().as_deref(), Ok(data));
    }
}
