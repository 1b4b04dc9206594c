//! The id of a stream: a stable hash of its tenant and label set.
//!
//! Hashed bytes:
//!
//! ```text
//! tenant_len   varint   bytes
//! tenant       bytes    ASCII
//! labels       bytes    the encoded label set, see `labels::encoding`
//! ```
//!
//! Every part is length-prefixed with minimal varints, so different inputs never
//! hash the same bytes. The hash is XXH3-128 with seed 0. Ids are stored in files
//! and choose the owning shard: the function must never change, and a golden
//! test pins it.

use std::fmt;

use xxhash_rust::xxh3::xxh3_128;

use crate::labels::Labels;
use crate::tenant::TenantId;
use crate::varint;

/// Identifies a stream of one tenant across restarts, machines and versions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamId(pub u128);

impl StreamId {
    /// The id of the stream with these labels.
    pub fn new(tenant: &TenantId, labels: &Labels) -> StreamId {
        let labels = labels.as_bytes();
        let mut bytes = Vec::with_capacity(2 + tenant.as_str().len() + labels.len());
        varint::write(&mut bytes, tenant.as_str().len() as u64);
        bytes.extend_from_slice(tenant.as_str().as_bytes());
        bytes.extend_from_slice(labels);
        StreamId(xxh3_128(&bytes))
    }

    /// The shard that owns the stream, below `shards`, which must not be zero.
    /// Multiply-shift over the upper half, so that shards own contiguous ranges
    /// of ids of nearly equal size.
    pub fn shard(self, shards: u16) -> u16 {
        debug_assert!(shards > 0, "a stream needs a shard to live on");
        let high = self.0 >> 64;
        ((high * u128::from(shards)) >> 64) as u16
    }

    /// The big-endian bytes; their order is the order of ids.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// Reads the bytes of [`Self::to_bytes`].
    pub fn from_bytes(bytes: [u8; 16]) -> StreamId {
        StreamId(u128::from_be_bytes(bytes))
    }
}

/// 32 lower-case hexadecimal digits.
impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(tenant: &str, pairs: &[(&str, &str)]) -> StreamId {
        let tenant = TenantId::new(tenant).expect("a valid tenant");
        StreamId::new(&tenant, &Labels::from_pairs(pairs.iter().copied()).expect("valid labels"))
    }

    /// Files on disk hold these ids: a change here is a change of the format.
    #[test]
    fn golden_ids_never_change() {
        // The published XXH3-128 value of the empty input.
        assert_eq!(xxh3_128(b""), 0x99aa_06d3_0147_98d8_6001_c324_468d_497f);
        let cases = [
            (id("fake", &[]), "c3a1bbabe1d9e98dee92e411ef1d3447"),
            (id("fake", &[("app", "web")]), "018c818f68c9ef57bf3e9d4e206943f3"),
            (id("fake", &[("app", "web"), ("env", "prod")]), "f1e74294ddf4920f5ac1e6f2fbf0494b"),
            (id("t1", &[("app", "web"), ("env", "prod")]), "fcaf35160e0a7f5e251b5faf329ff8d4"),
        ];
        for (id, expected) in cases {
            assert_eq!(id.to_string(), expected);
            assert_eq!(StreamId::from_bytes(id.to_bytes()), id);
        }
    }

    #[test]
    fn framing_keeps_neighbouring_texts_apart() {
        let ids = [
            id("ab", &[("c", "d")]),
            id("a", &[("bc", "d")]),
            id("a", &[("b", "cd")]),
            id("a", &[("b", "c"), ("d", "e")]),
            id("a", &[("b", "cde")]),
        ];
        for (index, left) in ids.iter().enumerate() {
            for right in &ids[index + 1..] {
                assert_ne!(left, right);
            }
        }
    }

    #[test]
    fn shards_share_streams_evenly() {
        for shards in [1u16, 2, 3, 7, 64] {
            let mut counts = vec![0u32; usize::from(shards)];
            for index in 0..20_000 {
                let value = index.to_string();
                counts[usize::from(id("t", &[("i", &value)]).shard(shards))] += 1;
            }
            let mean = 20_000 / u32::from(shards);
            for count in counts {
                assert!(count.abs_diff(mean) < mean / 4 + 10, "{count} of about {mean}");
            }
        }
        assert_eq!(StreamId(u128::MAX).shard(u16::MAX), u16::MAX - 1);
    }
}
