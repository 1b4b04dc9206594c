//! The metadata column of a draft: sets of pairs in the order of arrival, and the number of
//! each entry's set. `docs/format.md` gives the bytes.
//!
//! Writing it is a copy, and reading it for another segment is a check. Sets may be equal.
//!
//! Guarantees: decoded sets are well-formed and take no more memory than the column's bytes.
//! Memory and time are in proportion to the bytes, also for damaged ones.

use logsvc_logql::engine::{MetadataSets, TextRef};
use logsvc_proto::bytes::equal;

use super::super::packed::Malformed;
use super::{BlockMetadata, EntrySets};
use crate::batch::MetadataPairs;

/// The first byte of a plain column. Other columns begin with the number of their names.
pub(super) const MARK: u8 = 0;

/// Sets of pairs by number; set 0 is empty.
#[derive(Debug)]
pub struct PlainSets {
    /// The pairs of all sets, as in a batch but without counts.
    texts: Vec<u8>,
    /// Exclusive ends of the sets within `texts`, from set 1 on.
    ends: Vec<u32>,
}

/// The metadata of a block's entries in the form of a draft.
#[derive(Debug)]
pub struct PlainMetadata {
    /// The sets.
    pub sets: PlainSets,
    /// For each entry of the block the number of its set.
    pub entry_sets: Vec<u32>,
}

/// Appends the column.
pub(crate) fn encode_plain(entries: &EntrySets<'_>, out: &mut Vec<u8>) {
    let EntrySets { texts, set_ends, entry_sets } = entries;
    out.reserve(1 + 4 * (1 + set_ends.len() + entry_sets.len()) + texts.len());
    out.push(MARK);
    out.extend_from_slice(&(set_ends.len() as u32).to_le_bytes());
    for numbers in [set_ends, entry_sets] {
        out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    }
    out.extend_from_slice(texts);
}

impl PlainSets {
    /// Number of sets, the empty one included.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.ends.len() + 1
    }

    /// The pairs of a set, as in a batch but without a count.
    ///
    /// # Panics
    /// If there is no such set.
    #[inline]
    pub fn get(&self, number: u32) -> &[u8] {
        let Some(place) = (number as usize).checked_sub(1) else { return &[] };
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.texts[start as usize..self.ends[place] as usize]
    }
}

impl PlainMetadata {
    /// Decodes a column that begins with [`MARK`], like [`super::decode`].
    pub(super) fn decode(
        bytes: &[u8],
        entries: usize,
        pairs_bytes: usize,
    ) -> Result<PlainMetadata, Malformed> {
        let (&[_, count @ ..], rest) = bytes.split_first_chunk::<5>().ok_or(Malformed)?;
        let count = u32::from_le_bytes(count) as usize;
        let (ends, rest) = numbers(rest, count).ok_or(Malformed)?;
        let (entry_sets, texts) = numbers(rest, entries).ok_or(Malformed)?;
        let rise = ends.is_sorted_by(|a, b| a < b) && ends.first() != Some(&0);
        let is_all = ends.last().map_or(0, |&end| end as usize) == texts.len();
        let are_there = entry_sets.iter().all(|&number| number as usize <= count);
        if !rise || !is_all || !are_there || texts.len() > pairs_bytes {
            return Err(Malformed);
        }
        let sets = PlainSets { texts: texts.to_vec(), ends };
        let is_ascii = texts.is_ascii();
        let mut names = Vec::new();
        for number in 1..=count as u32 {
            check_set(sets.get(number), is_ascii, &mut names)?;
        }
        Ok(PlainMetadata { sets, entry_sets })
    }

    /// Converts the metadata to the form of the query engine.
    pub(super) fn into_block_metadata(self) -> Result<BlockMetadata, Malformed> {
        let mut sets = MetadataSets::new();
        // Most sets have the names of the preceding set.
        let (mut before, mut pairs): (Vec<(&str, TextRef)>, Vec<_>) = (Vec::new(), Vec::new());
        for number in 1..self.sets.count() as u32 {
            pairs.clear();
            let set = MetadataPairs::from_checked(self.sets.get(number), &[]);
            for (at, (name, value)) in set.enumerate() {
                let name_ref = match before.get(at) {
                    Some(&(known, name_ref)) if known == name => name_ref,
                    _ => {
                        let name_ref = sets.push_text(name).ok_or(Malformed)?;
                        before.truncate(at);
                        before.push((name, name_ref));
                        name_ref
                    }
                };
                pairs.push((name_ref, sets.push_text(value).ok_or(Malformed)?));
            }
            // Ids count up from 1, as numbers do.
            sets.push_set(pairs.iter().copied()).ok_or(Malformed)?;
        }
        Ok(BlockMetadata { sets, set_ids: self.entry_sets, listed: None })
    }
}

/// Takes `count` numbers off the front.
fn numbers(bytes: &[u8], count: usize) -> Option<(Vec<u32>, &[u8])> {
    let (numbers, rest) = bytes.split_at_checked(count.checked_mul(4)?)?;
    let numbers = numbers.as_chunks::<4>().0;
    Some((numbers.iter().map(|number| u32::from_le_bytes(*number)).collect(), rest))
}

/// Whether a set has well-formed pairs with ascending names. `names` has the names of the
/// preceding set, and is replaced by those of this set if they differ.
fn check_set<'a>(
    set: &'a [u8],
    is_ascii: bool,
    names: &mut Vec<&'a [u8]>,
) -> Result<(), Malformed> {
    let mut rest = MetadataPairs::from_checked(set, &[]);
    let mut count = 0;
    while let Some((name, value)) = rest.next_texts() {
        let are_texts = || [name, value].into_iter().all(|text| std::str::from_utf8(text).is_ok());
        if !(is_ascii || are_texts()) {
            return Err(Malformed);
        }
        if !names.get(count).is_some_and(|before| equal(before, name)) {
            names.truncate(count);
            // A name has at least one byte.
            if name <= names.last().copied().unwrap_or_default() {
                return Err(Malformed);
            }
            names.push(name);
        }
        count += 1;
    }
    names.truncate(count);
    // A malformed pair ends the iteration.
    if rest.is_empty() && count > 0 { Ok(()) } else { Err(Malformed) }
}
