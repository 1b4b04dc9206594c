//! Decodes the metadata column, see the parent module.

use std::borrow::Cow;
use std::ops::Range;

use logsvc_logql::engine::{ListedNames, MetadataSets, TextRef};
use logsvc_proto::varint;

use super::super::hex;
use super::super::packed::{self, Malformed};
use super::plain::{self, PlainMetadata};
use super::{CODE_NEXT, CODE_NONE, CODE_SEEN, FORM_HEX, FORM_TEXT};

/// The metadata of a block's entries in the form of the query engine.
#[derive(Debug)]
pub struct BlockMetadata {
    /// The distinct sets.
    pub sets: MetadataSets,
    /// For each entry of the block the id of its set; the ids of a run are a slice.
    pub set_ids: Vec<u32>,
    /// The only names that sets have; `None` if nothing was left out.
    pub listed: Option<ListedNames>,
}

impl BlockMetadata {
    /// Bytes of the names and values of some entries of the block.
    pub fn text_bytes(&self, entries: Range<u32>) -> u64 {
        let set_ids = &self.set_ids[entries.start as usize..entries.end as usize];
        set_ids.iter().map(|&id| self.sets.text_bytes(id)).sum()
    }

    /// Bytes that it occupies.
    pub fn held_bytes(&self) -> usize {
        self.sets.held_bytes()
            + self.set_ids.capacity() * size_of::<u32>()
            + self.listed.as_ref().map_or(0, ListedNames::held_bytes)
    }
}

/// The values of one name.
pub(super) struct Column {
    pub(super) name: TextRef,
    name_len: usize,
    /// The distinct values and their lengths.
    pub(super) values: Vec<(TextRef, usize)>,
    /// For each set that has the name the number of its value; `None` if every value is used
    /// once, in order.
    which: Option<Vec<u32>>,
    /// Sets with the name so far.
    taken: usize,
}

impl Column {
    /// The value of the next set that has the name; there are as many as `which` or
    /// `values` has.
    fn next_value(&mut self) -> (TextRef, usize) {
        let index = self.next_index();
        self.values[index]
    }

    /// The number of that value.
    pub(super) fn next_index(&mut self) -> usize {
        let taken = self.taken;
        self.taken += 1;
        self.which.as_ref().map_or(taken, |which| which[taken] as usize)
    }
}

/// Decodes the metadata of `entries` entries, whose pairs have `pairs_bytes` bytes in the
/// encoding of a batch without counts.
pub(crate) fn decode(
    bytes: &[u8],
    entries: usize,
    pairs_bytes: usize,
) -> Result<BlockMetadata, Malformed> {
    match decode_as_stored(bytes, entries, pairs_bytes)? {
        StoredMetadata::Sets(metadata) => Ok(metadata),
        StoredMetadata::Plain(metadata) => metadata.into_block_metadata(),
    }
}

/// The metadata of a block's entries in its stored form.
#[derive(Debug)]
pub enum StoredMetadata {
    /// The form of segments that are not drafts.
    Sets(BlockMetadata),
    /// The form of drafts.
    Plain(PlainMetadata),
}

/// Like [`decode`], without the conversion to the form of the engine.
pub(crate) fn decode_as_stored(
    bytes: &[u8],
    entries: usize,
    pairs_bytes: usize,
) -> Result<StoredMetadata, Malformed> {
    match bytes.first() {
        Some(&plain::MARK) => {
            PlainMetadata::decode(bytes, entries, pairs_bytes).map(StoredMetadata::Plain)
        }
        _ => decode_sets(bytes, entries, pairs_bytes).map(StoredMetadata::Sets),
    }
}

fn decode_sets(
    bytes: &[u8],
    entries: usize,
    pairs_bytes: usize,
) -> Result<BlockMetadata, Malformed> {
    let mut reader = Reader { bytes, position: 0 };
    let Sets { names, shapes, set_ids, shape_of_set, uses } =
        Sets::read(&mut reader, entries, pairs_bytes)?;
    let mut sets = MetadataSets::new();
    let mut columns = Vec::with_capacity(names.len());
    for (name, uses) in names.into_iter().zip(uses) {
        columns.push(read_column(&mut reader, name, uses, &mut sets)?);
    }
    if reader.position != bytes.len() {
        return Err(Malformed);
    }

    let mut budget = pairs_bytes;
    for &shape in &shape_of_set {
        let shape = &shapes[shape as usize];
        let mut text_len = 0;
        let id = sets.push_set(shape.iter().map(|&name| {
            let column = &mut columns[name as usize];
            let (value, len) = column.next_value();
            text_len += 2 + column.name_len + len;
            (column.name, value)
        }));
        // Ids count up from 1, as the sets of the column do; the entries' are right.
        id.ok_or(Malformed)?;
        budget = budget.checked_sub(text_len).ok_or(Malformed)?;
    }
    Ok(BlockMetadata { sets, set_ids, listed: None })
}

/// What a column tells in front of the values of its names.
pub(super) struct Sets<'a> {
    pub(super) names: Vec<&'a str>,
    /// The indexes of the names that sets of a shape have.
    pub(super) shapes: Vec<Vec<u32>>,
    /// For each entry 0, or one more than the index of its set.
    pub(super) set_ids: Vec<u32>,
    pub(super) shape_of_set: Vec<u32>,
    /// The number of values of each name.
    pub(super) uses: Vec<usize>,
}

impl<'a> Sets<'a> {
    pub(super) fn read(
        reader: &mut Reader<'a>,
        entries: usize,
        pairs_bytes: usize,
    ) -> Result<Sets<'a>, Malformed> {
        let names = read_names(reader)?;
        let shapes = read_shapes(reader, names.len())?;
        let set_count = reader.count(entries)?;
        let set_ids = read_entries(reader.section()?, entries, set_count)?;
        let shape_of_set = reader.numbers(set_count, shapes.len())?;
        let mut uses = vec![0usize; names.len()];
        let mut budget = pairs_bytes;
        for &shape in &shape_of_set {
            for &name in &shapes[shape as usize] {
                uses[name as usize] += 1;
                budget = budget.checked_sub(SHORTEST_PAIR_BYTES).ok_or(Malformed)?;
            }
        }
        Ok(Sets { names, shapes, set_ids, shape_of_set, uses })
    }
}

/// A pair in a batch: two lengths and a name of at least one byte.
const SHORTEST_PAIR_BYTES: usize = 3;

fn read_names<'a>(reader: &mut Reader<'a>) -> Result<Vec<&'a str>, Malformed> {
    let count = reader.count(reader.left())?;
    let mut names: Vec<&str> = Vec::with_capacity(count);
    for _ in 0..count {
        let len = reader.count(reader.left())?;
        let name = text(reader.take(len)?)?;
        if name.is_empty() || names.last().is_some_and(|&last| last >= name) {
            return Err(Malformed);
        }
        names.push(name);
    }
    Ok(names)
}

fn read_shapes(reader: &mut Reader<'_>, names: usize) -> Result<Vec<Vec<u32>>, Malformed> {
    let count = reader.count(reader.left())?;
    let mut shapes = Vec::with_capacity(count);
    for _ in 0..count {
        let len = reader.count(reader.left().min(names))?;
        let mut shape: Vec<u32> = Vec::with_capacity(len);
        for _ in 0..len {
            let name = reader.count(names.checked_sub(1).ok_or(Malformed)?)? as u32;
            if shape.last().is_some_and(|&last| last >= name) {
                return Err(Malformed);
            }
            shape.push(name);
        }
        if shape.is_empty() {
            return Err(Malformed);
        }
        shapes.push(shape);
    }
    Ok(shapes)
}

/// For each entry 0, or one more than the index of its set.
fn read_entries(bytes: &[u8], entries: usize, set_count: usize) -> Result<Vec<u32>, Malformed> {
    let mut out = Vec::with_capacity(entries);
    let mut used = 0;
    let mut bad = false;
    packed::decode(bytes, entries, |codes| {
        for &code in codes {
            out.push(match code {
                CODE_NONE => 0,
                CODE_NEXT => {
                    used += 1;
                    used
                }
                _ => {
                    let set = code - CODE_SEEN;
                    bad |= set >= u64::from(used);
                    set as u32 + 1
                }
            });
        }
    })?;
    if bad || used as usize != set_count { Err(Malformed) } else { Ok(out) }
}

pub(super) fn read_column(
    reader: &mut Reader<'_>,
    name: &str,
    uses: usize,
    sets: &mut MetadataSets,
) -> Result<Column, Malformed> {
    let count = reader.count(uses)?;
    let form = reader.take(1)?[0];
    let mut ends = Vec::with_capacity(count);
    let mut end = 0u64;
    let mut odd = false;
    packed::decode(reader.section()?, count, |lengths| {
        for &len in lengths {
            odd |= len % 2 == 1;
            end = end.saturating_add(len);
            ends.push(end);
        }
    })?;
    let text_len = usize::try_from(end).map_err(|_| Malformed)?;
    let text = match form {
        FORM_TEXT => Cow::Borrowed(text(reader.take(text_len)?)?),
        FORM_HEX if !odd => Cow::Owned(hex_text(reader.take(text_len / 2)?)),
        _ => return Err(Malformed),
    };
    let mut values = Vec::with_capacity(count);
    let mut start = 0;
    for end in ends {
        // Ends ascend to the length of the text. `get` also refuses ends within a character.
        let value = text.get(start..end as usize).ok_or(Malformed)?;
        values.push((sets.push_text(value).ok_or(Malformed)?, value.len()));
        start = end as usize;
    }
    let which = reader.section()?;
    let which = match (which.is_empty(), count == uses) {
        (true, true) => None,
        _ => Some(numbers_below(which, uses, count)?),
    };
    let name_len = name.len();
    let name = sets.push_text(name).ok_or(Malformed)?;
    Ok(Column { name, name_len, values, which, taken: 0 })
}

/// The text of a value that is stored as [`FORM_HEX`].
fn hex_text(bytes: &[u8]) -> String {
    let digits_of = |four: [u8; 4]| hex::digits_of(u32::from_be_bytes(four));
    let mut text = Vec::with_capacity(bytes.len() * 2);
    let (fours, rest) = bytes.as_chunks::<4>();
    for four in fours {
        text.extend_from_slice(&digits_of(*four));
    }
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    text.extend_from_slice(&digits_of(last)[..rest.len() * 2]);
    String::from_utf8(text).expect("digits are ASCII")
}

fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed)
}

fn numbers_below(bytes: &[u8], count: usize, bound: usize) -> Result<Vec<u32>, Malformed> {
    let mut out = Vec::with_capacity(count);
    let mut bad = false;
    packed::decode(bytes, count, |numbers| {
        for &number in numbers {
            bad |= number >= bound as u64;
            out.push(number as u32);
        }
    })?;
    if bad { Err(Malformed) } else { Ok(out) }
}

pub(super) struct Reader<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) position: usize,
}

impl<'a> Reader<'a> {
    fn left(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// A varint that is at most `most`.
    pub(super) fn count(&mut self, most: usize) -> Result<usize, Malformed> {
        let value = varint::read(self.bytes, &mut self.position).map_err(|_| Malformed)?;
        usize::try_from(value).ok().filter(|&value| value <= most).ok_or(Malformed)
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let taken = self.bytes[self.position..].get(..len).ok_or(Malformed)?;
        self.position += len;
        Ok(taken)
    }

    pub(super) fn section(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.count(self.left())?;
        self.take(len)
    }

    fn numbers(&mut self, count: usize, bound: usize) -> Result<Vec<u32>, Malformed> {
        numbers_below(self.section()?, count, bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_all_values_become_digits_wherever_they_stand() {
        let bytes: Vec<u8> = (0..=u8::MAX).chain(0..=u8::MAX).collect();
        for range in (0..9).flat_map(|start| (256..265).map(move |end| start..end)) {
            let digits: String = bytes[range.clone()].iter().map(|b| format!("{b:02x}")).collect();
            assert_eq!(hex_text(&bytes[range]), digits);
        }
        assert_eq!(hex_text(&[]), "");
    }
}
