//! Source streams, by which entries and samples of equal time are ordered.

use crate::engine::wire::WireError;
use crate::engine::wire::bytes::{Input, put_bytes, put_count};

/// The fewest bytes of a stream: its hash, and a text of no bytes.
const MIN_BYTES: usize = 9;

/// Appends streams as they are.
pub(super) fn put(out: &mut Vec<u8>, streams: &[(u64, Box<str>)]) {
    put_count(out, streams.len());
    for (hash, text) in streams {
        out.extend(hash.to_le_bytes());
        put_bytes(out, text.as_bytes());
    }
}

/// Reads streams in any order.
pub(super) fn read(input: &mut Input<'_>) -> Result<Vec<(u64, Box<str>)>, WireError> {
    input.list(MIN_BYTES, |input| Ok((input.u64()?, input.text()?.into())))
}

/// Reads streams that are in their order, each of them once.
pub(super) fn read_sorted(input: &mut Input<'_>) -> Result<Vec<(u64, Box<str>)>, WireError> {
    let streams = read(input)?;
    if streams.is_sorted_by(|a, b| a < b) { Ok(streams) } else { Err(WireError::Order) }
}
