//! Templates that lines follow, with counts by step.

use std::collections::BTreeMap;

use crate::engine::patterns::{FoundTemplate, TEMPLATES_MAX};
use crate::engine::wire::WireError;
use crate::engine::wire::bytes::{Input, put_bytes, put_count};

/// Bytes of a step and its count.
const SAMPLE_BYTES: usize = 16;

/// The fewest bytes of a template: the level, a skeleton and words, of which there are none, and
/// the count of a step.
const TEMPLATE_MIN_BYTES: usize = 4 + SAMPLE_BYTES;

/// Appends templates.
pub(super) fn put(out: &mut Vec<u8>, found: &[FoundTemplate]) {
    put_count(out, found.len());
    for one in found {
        out.push(one.level());
        put_bytes(out, one.skeleton());
        put_count(out, one.words().len());
        for word in one.words() {
            out.push(u8::from(word.is_some()));
            if let Some(word) = word {
                put_bytes(out, word.as_bytes());
            }
        }
        put_count(out, one.samples().len());
        for (step, count) in one.samples() {
            out.extend(step.to_le_bytes());
            out.extend(count.to_le_bytes());
        }
    }
}

/// Reads templates, no more than a leaf finds. Each has the words of its skeleton, and the count of
/// a step.
pub(super) fn read(input: &mut Input<'_>) -> Result<Vec<FoundTemplate>, WireError> {
    let found = input.list(TEMPLATE_MIN_BYTES, read_one)?;
    if found.len() > TEMPLATES_MAX { Err(WireError::Number) } else { Ok(found) }
}

fn read_one(input: &mut Input<'_>) -> Result<FoundTemplate, WireError> {
    let level = input.u8()?;
    let skeleton = input.bytes()?.into();
    let words = input.list(1, |input| {
        Ok(match input.u8()? {
            0 => None,
            1 => Some(input.text()?.into()),
            kind => return Err(WireError::Kind(kind)),
        })
    })?;
    let mut samples = BTreeMap::new();
    for _ in 0..input.count(SAMPLE_BYTES)? {
        let step = input.i64()?;
        if samples.last_key_value().is_some_and(|(last, _)| *last >= step) {
            return Err(WireError::Order);
        }
        samples.insert(step, input.u64()?);
    }
    FoundTemplate::of_parts(level, skeleton, words, samples).ok_or(WireError::Reference)
}
