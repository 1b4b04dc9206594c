//! Index statistics and the shards that a query may be cut into.

use crate::encode::{Commas, QueryStats};

/// The extent of a selector in a range of time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct IndexStats {
    /// Streams.
    pub streams: u64,
    /// Blocks of entries.
    pub chunks: u64,
    /// Bytes of lines.
    pub bytes: u64,
    /// Entries.
    pub entries: u64,
}

/// Appends `{"streams":2,"chunks":4,"bytes":20480,"entries":160}`.
pub fn write_index_stats(stats: &IndexStats, out: &mut Vec<u8>) {
    let fields = [
        ("{\"streams\":", stats.streams),
        (",\"chunks\":", stats.chunks),
        (",\"bytes\":", stats.bytes),
        (",\"entries\":", stats.entries),
    ];
    for (name, value) in fields {
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }
    out.push(b'}');
}

/// Appends the answer of `index/shards`: `count` equal parts of the 64-bit space of
/// stream hashes, bounds included, each with its share of the statistics.
///
/// # Panics
/// When `count` is not a power of two.
pub fn write_index_shards(stats: &IndexStats, count: u64, out: &mut Vec<u8>) {
    assert!(count.is_power_of_two(), "the parts are equal");
    // For one part that is all of the space.
    let width = (u64::MAX / 2 + 1).checked_shr(count.trailing_zeros().wrapping_sub(1));
    let share = |total: u64| total.div_ceil(count);
    let part = IndexStats {
        streams: share(stats.streams),
        chunks: share(stats.chunks),
        bytes: share(stats.bytes),
        entries: share(stats.entries),
    };
    out.extend_from_slice(b"{\"shards\":[");
    let mut commas = Commas::default();
    for index in 0..count {
        let (min, max) = match width {
            Some(width) => (index * width, index * width + (width - 1)),
            None => (0, u64::MAX),
        };
        commas.next(out);
        out.extend_from_slice(b"{\"bounds\":{\"min\":");
        out.extend_from_slice(itoa::Buffer::new().format(min).as_bytes());
        out.extend_from_slice(b",\"max\":");
        out.extend_from_slice(itoa::Buffer::new().format(max).as_bytes());
        out.extend_from_slice(b"},\"stats\":");
        write_index_stats(&part, out);
        out.push(b'}');
    }
    out.extend_from_slice(b"],\"statistics\":");
    QueryStats::default().write_json(out);
    out.extend_from_slice(b"}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATS: IndexStats = IndexStats { streams: 2, chunks: 4, bytes: 20_480, entries: 160 };

    #[test]
    fn statistics_are_one_flat_object() {
        let mut out = Vec::new();
        write_index_stats(&STATS, &mut out);
        assert_eq!(out, br#"{"streams":2,"chunks":4,"bytes":20480,"entries":160}"#);
    }

    #[test]
    fn shards_cover_all_hashes_once() {
        for count in [1, 2, 4, 1 << 16] {
            let mut out = Vec::new();
            write_index_shards(&STATS, count, &mut out);
            let answer: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
            let shards = answer["shards"].as_array().expect("a list");
            assert_eq!(shards.len() as u64, count);
            let mut next = 0u64;
            for shard in shards {
                assert_eq!(shard["bounds"]["min"], next, "{count}");
                next = shard["bounds"]["max"].as_u64().expect("a number").wrapping_add(1);
            }
            assert_eq!(next, 0, "{count}: the last one ends with the largest hash");
            assert_eq!(shards[0]["stats"]["bytes"], 20_480u64.div_ceil(count));
            assert!(answer["statistics"]["summary"].is_object());
        }
    }
}
