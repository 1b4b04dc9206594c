//! The keys of a label index.
//!
//! A key is the number of a tenant, a kind, and a text: a name, or a name, a zero byte and a value.
//! Names have no zero byte, so the names of a tenant stand together, and so do the values of a
//! name, each in order.

/// The kind of an entry for all streams that have a label.
pub(crate) const KIND_NAME: u8 = 0;
/// The kind of an entry for all streams with one value of a label.
pub(crate) const KIND_VALUE: u8 = 1;
/// Stands between name and value.
pub(crate) const VALUE_FOLLOWS: u8 = 0;

/// What all keys of a kind of a tenant begin with.
fn of_kind(tenant: u32, kind: u8) -> Vec<u8> {
    let mut key = tenant.to_be_bytes().to_vec();
    key.push(kind);
    key
}

/// What the keys of all names of a tenant begin with.
pub(super) fn before_names(tenant: u32) -> Vec<u8> {
    of_kind(tenant, KIND_NAME)
}

/// The key of a name.
pub(super) fn of_name(tenant: u32, name: &str) -> Vec<u8> {
    let mut key = before_names(tenant);
    key.extend_from_slice(name.as_bytes());
    key
}

/// What the keys of all values of a name begin with.
pub(super) fn before_values(tenant: u32, name: &str) -> Vec<u8> {
    let mut key = of_kind(tenant, KIND_VALUE);
    key.extend_from_slice(name.as_bytes());
    key.push(VALUE_FOLLOWS);
    key
}

/// The key of a value, of what [`before_values`] gives.
pub(super) fn of_value(before_values: &[u8], value: &str) -> Vec<u8> {
    [before_values, value.as_bytes()].concat()
}

/// How many bytes two texts have in common at their beginnings.
pub(crate) fn common_len(a: &[u8], b: &[u8]) -> usize {
    let words = a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0);
    let mut common = 0;
    for (a, b) in words {
        let differing = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differing != 0 {
            return common + differing.trailing_zeros() as usize / 8;
        }
        common += 8;
    }
    let rest = a[common..].iter().zip(&b[common..]);
    common + rest.take_while(|(a, b)| a == b).count()
}
