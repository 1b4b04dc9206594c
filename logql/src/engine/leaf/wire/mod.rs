//! The bytes of a leaf's result, which go from the node that has the entries to the one that
//! merges.
//!
//! `docs/format.md` has the bytes. A result has one encoding, and the decoder takes no other.
//! Everything comes back bit for bit: floating point numbers, exact sums, and the order of items.
//! What items share they share again.
//!
//! Guarantees: the decoder meets arbitrary bytes without panic, without recursion, and with memory
//! in proportion to them. It takes the leaf that was asked, and refuses what this leaf cannot have
//! found, as far as merging relies on it: so [`crate::engine::MergeState`] merges whatever was decoded.
//!
//! What can go wrong: the result of a leaf that was stopped is incomplete in itself, and is not to
//! be encoded. Bytes that were changed on their way may be another result; who sends them adds a
//! checksum.

mod failure;
mod log;
mod patterns;
mod samples;
mod states;
mod streams;
mod sums;
mod values;

use super::{LeafData, LeafResult, LeafStats};
use crate::engine::plan::{LeafKind, LeafPlan};
use crate::engine::range::Keep;
use crate::engine::wire::WireError;
use crate::engine::wire::bytes::{Input, put_count};

/// The version of all that is encoded here.
const VERSION: u8 = 1;

/// No core counts further. Counters of a few hundred results can be added up below it.
const COUNTER_MAX: u64 = u64::MAX >> 8;

/// The kinds of results.
mod kind {
    pub(super) const LOG: u8 = 0;
    pub(super) const SUMS: u8 = 1;
    pub(super) const SAMPLES: u8 = 2;
    pub(super) const VALUES: u8 = 3;
    pub(super) const STATES: u8 = 4;
    pub(super) const PATTERNS: u8 = 5;
    pub(super) const FAILED: u8 = 6;
}

impl LeafResult {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let kind = match &self.data {
            LeafData::Log(_) => kind::LOG,
            LeafData::Sums(_) => kind::SUMS,
            LeafData::Samples(_) => kind::SAMPLES,
            LeafData::Values(_) => kind::VALUES,
            LeafData::States(_) => kind::STATES,
            LeafData::Patterns(_) => kind::PATTERNS,
            LeafData::Failed(_) => kind::FAILED,
        };
        out.extend([VERSION, kind]);
        put_count(out, self.leaf);
        let LeafStats { entries, line_bytes, entries_kept, blocks, summaries } = self.stats;
        for counter in [entries, line_bytes, entries_kept, blocks, summaries] {
            out.extend(counter.to_le_bytes());
        }
        match &self.data {
            LeafData::Log(partial) => log::put(out, partial),
            LeafData::Sums(series) => sums::put(out, series),
            LeafData::Samples(partial) => samples::put(out, partial),
            LeafData::Values(series) => values::put(out, series),
            LeafData::States(partial) => states::put(out, partial),
            LeafData::Patterns(found) => patterns::put(out, found),
            LeafData::Failed(error) => failure::put(out, error),
        }
    }

    /// Reads the result of a leaf. It holds [`LeafResult::held_bytes`] of memory afterwards.
    ///
    /// # Errors
    /// The bytes are not those of a result that this leaf can have.
    pub fn decode(bytes: &[u8], plan: &LeafPlan) -> Result<LeafResult, WireError> {
        let mut input = Input::new(bytes);
        let version = input.u8()?;
        if version != VERSION {
            return Err(WireError::Version(version));
        }
        let kind = input.u8()?;
        let leaf = input.reference(u32::MAX as usize)? as usize;
        if leaf != plan.index {
            return Err(WireError::OtherLeaf);
        }
        let stats = stats(&mut input)?;
        let data = match (kind, &plan.kind) {
            (kind::FAILED, _) => LeafData::Failed(failure::read(&mut input)?),
            (kind::LOG, LeafKind::Log { .. }) => LeafData::Log(log::read(&mut input)?),
            (kind::SUMS, LeafKind::Range { windows, .. }) => {
                LeafData::Sums(sums::read(&mut input, windows)?)
            }
            (kind::SAMPLES, LeafKind::Samples { keep: Keep::All, .. }) => {
                LeafData::Samples(samples::read(&mut input)?)
            }
            (kind::VALUES, LeafKind::Samples { windows, keep: Keep::Values, .. }) => {
                LeafData::Values(values::read(&mut input, windows)?)
            }
            (kind::STATES, LeafKind::Samples { windows, keep: Keep::State(parts), .. }) => {
                LeafData::States(states::read(&mut input, windows, *parts)?)
            }
            (kind::PATTERNS, LeafKind::Patterns { .. }) => {
                LeafData::Patterns(patterns::read(&mut input)?)
            }
            (kind::LOG..=kind::PATTERNS, _) => return Err(WireError::OtherLeaf),
            (kind, _) => return Err(WireError::Kind(kind)),
        };
        input.end()?;
        Ok(LeafResult { leaf, stats, data })
    }
}

fn stats(input: &mut Input<'_>) -> Result<LeafStats, WireError> {
    let mut counter = || {
        let counter = input.u64()?;
        if counter > COUNTER_MAX { Err(WireError::Number) } else { Ok(counter) }
    };
    Ok(LeafStats {
        entries: counter()?,
        line_bytes: counter()?,
        entries_kept: counter()?,
        blocks: counter()?,
        summaries: counter()?,
    })
}
