//! Entries of a log query.
//!
//! Entries that carry something of their own, such as the id of a trace, have a set of labels each.
//! The labels of their stream are the same, so sets refer to a table of these.

use std::sync::Arc;

use logsvc_proto::Labels;

use super::super::log::{LogPartial, PartialEntry};
use super::streams;
use crate::engine::hash::{FixedMap, new_map};
use crate::engine::labels::sets::EntryLabelSet;
use crate::engine::wire::WireError;
use crate::engine::wire::bytes::{Input, put_bytes, put_count, put_labels};

/// The fewest bytes of a set: the number of its stream labels, and two times no labels.
const SET_MIN_BYTES: usize = 3;

/// The fewest bytes of an entry: time, arrival and index, the numbers of its stream and its set, no
/// hash, and a line of no bytes.
const ENTRY_MIN_BYTES: usize = 3 * 8 + 4;

/// Appends the entries with their streams and labels.
pub(super) fn put(out: &mut Vec<u8>, partial: &LogPartial) {
    streams::put(out, &partial.streams);
    put_sets(out, &partial.label_sets);
    put_count(out, partial.entries.len());
    for entry in &partial.entries {
        let PartialEntry { rank, stream, arrival, index, label_set, line, stored_hash } = entry;
        out.extend(rank.to_le_bytes());
        out.extend(arrival.to_le_bytes());
        out.extend(index.to_le_bytes());
        put_count(out, *stream as usize);
        put_count(out, *label_set as usize);
        out.push(u8::from(stored_hash.is_some()));
        if let Some(hash) = stored_hash {
            out.extend(hash.to_le_bytes());
        }
        put_bytes(out, line);
    }
}

/// Appends the labels of stream category, numbered as they come first, and the sets.
fn put_sets(out: &mut Vec<u8>, sets: &[EntryLabelSet]) {
    let mut numbers: FixedMap<&[u8], usize> = new_map();
    let mut table: Vec<&Labels> = Vec::new();
    for set in sets {
        numbers.entry(set.stream.as_bytes()).or_insert_with(|| {
            table.push(&set.stream);
            table.len() - 1
        });
    }
    put_count(out, table.len());
    table.iter().for_each(|labels| put_labels(out, labels));
    put_count(out, sets.len());
    for set in sets {
        // All of them have a number.
        put_count(out, numbers.get(set.stream.as_bytes()).copied().unwrap_or(0));
        put_labels(out, &set.structured_metadata);
        put_labels(out, &set.parsed);
    }
}

/// Reads the entries, which are in the order of the result.
pub(super) fn read(input: &mut Input<'_>) -> Result<LogPartial, WireError> {
    let streams = streams::read(input)?;
    let label_sets = read_sets(input)?;
    let entries = input.list(ENTRY_MIN_BYTES, |input| {
        Ok(PartialEntry {
            rank: input.i64()?,
            arrival: input.u64()?,
            index: input.u64()?,
            stream: input.reference(streams.len())?,
            label_set: input.reference(label_sets.len())?,
            stored_hash: match input.u8()? {
                0 => None,
                1 => Some(input.u64()?),
                kind => return Err(WireError::Kind(kind)),
            },
            line: input.bytes()?.into(),
        })
    })?;
    // A reference that was read is there.
    let order = |entry: &PartialEntry| {
        (entry.rank, streams.get(entry.stream as usize), entry.arrival, entry.index)
    };
    if !entries.is_sorted_by(|a, b| order(a) < order(b)) {
        return Err(WireError::Order);
    }
    Ok(LogPartial { streams, label_sets, entries })
}

fn read_sets(input: &mut Input<'_>) -> Result<Vec<EntryLabelSet>, WireError> {
    let table = input.list(1, |input| Ok(Arc::new(input.labels()?)))?;
    let mut known: FixedMap<&[u8], ()> = new_map();
    if table.iter().any(|labels| known.insert(labels.as_bytes(), ()).is_some()) {
        return Err(WireError::Order);
    }
    let mut used = 0;
    let sets = input.list(SET_MIN_BYTES, |input| {
        // The next one of the table, or one that was used before.
        let number = input.reference(table.len().min(used + 1))? as usize;
        used = used.max(number + 1);
        let stream = table.get(number).ok_or(WireError::Reference)?;
        let set = EntryLabelSet {
            stream: Arc::clone(stream),
            structured_metadata: input.labels()?,
            parsed: input.labels()?,
        };
        if set.has_names_once() { Ok(set) } else { Err(WireError::Order) }
    })?;
    if used == table.len() { Ok(sets) } else { Err(WireError::Reference) }
}
