//! Bodies of fuzz targets over code that this crate keeps to itself.

/// An answer of a name server out of arbitrary bytes.
pub fn srv_answer(bytes: &[u8]) {
    crate::srv::fuzz_answer(bytes);
}
