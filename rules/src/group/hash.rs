//! Numbers that spread groups and rules. They are the same in all processes.

use crate::state::GroupKey;

/// A number of a list of texts: FNV-1a, with the bits mixed at the end, as the remainder by an
/// interval shall depend on all of them.
pub(super) fn of_texts(texts: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    for text in texts {
        text.bytes().for_each(&mut add);
        // No text has this byte.
        add(0xff);
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash
}

/// The number of a group.
pub(super) fn of_group(key: &GroupKey) -> u64 {
    of_texts(&[key.tenant.as_str(), &key.namespace, &key.name])
}
