//! Hash maps whose order of work does not depend on the process.
//!
//! The keys of the hasher are constants, so a query over the same data does the same work in every
//! run. A simulation seed can therefore replay a failure. No result of the engine shows the
//! iteration order of a map.

use ahash::RandomState;

/// A hash map with fixed hasher keys; create it with [`new_map`].
#[expect(
    clippy::disallowed_types,
    reason = "the hasher's keys are constants, see the module header"
)]
pub(crate) type FixedMap<K, V> = std::collections::HashMap<K, V, RandomState>;

/// The hasher of every [`FixedMap`].
pub(crate) fn fixed_state() -> RandomState {
    RandomState::with_seeds(
        0x6c6f_6773_7663_2d31,
        0x9e37_79b9_7f4a_7c15,
        0xbf58_476d_1ce4_e5b9,
        0x94d0_49bb_1331_11eb,
    )
}

/// An empty map.
pub(crate) fn new_map<K, V>() -> FixedMap<K, V> {
    FixedMap::with_hasher(fixed_state())
}

/// A hash map whose keys are hashes already; create it with `default`.
#[expect(clippy::disallowed_types, reason = "the hasher has no keys, see the module header")]
pub(crate) type HashedMap<V> =
    std::collections::HashMap<u64, V, std::hash::BuildHasherDefault<IdentityHasher>>;

/// Takes a number for its own hash.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct IdentityHasher(u64);

impl std::hash::Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Not reached with keys of type `u64`; any function of the bytes will do.
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}
