//! The columns in which a shard hands entries to the engine.
//!
//! A block is a run of entries of **one** stream. Its columns are borrowed, so the
//! same type serves heads (append arenas) and decoded segment blocks.
//!
//! # Lines are contiguous and have no separator
//!
//! Line `i` is `lines[line_ends[i-1]..line_ends[i]]` and line `i+1` starts where
//! it ends. A separator byte would prove nothing, because a line may itself hold
//! any byte including `\n`, and it would cost a byte per line in every arena and
//! segment. A search over the whole of `lines` therefore treats a hit that
//! crosses a line end as a candidate to be tested again, never as a match.
//!
//! # Guarantees
//!
//! The store guarantees the invariants named on the fields (they follow from how
//! columns are built: ends are prefix sums of checked lengths). A block that
//! breaks them makes the engine panic or give a wrong answer, never read out of
//! bounds.

use std::ops::Range;

use super::hash::{HashedMap, fixed_state};

/// The entries of the times `start <= t < end` among some in the order of time.
#[must_use]
pub fn rows_within(timestamps_ns: &[i64], (start_ns, end_ns): (i64, i64)) -> Range<usize> {
    let (Some(&oldest), Some(&newest)) = (timestamps_ns.first(), timestamps_ns.last()) else {
        return 0..0;
    };
    // Most blocks lie within the times of the query, and their middle need not be read.
    let first = match oldest >= start_ns {
        true => 0,
        false => timestamps_ns.partition_point(|&time_ns| time_ns < start_ns),
    };
    let end = match newest < end_ns {
        true => timestamps_ns.len(),
        false => timestamps_ns.partition_point(|&time_ns| time_ns < end_ns),
    };
    first..end.max(first)
}

/// The number of entries that are not later than `max_ns`, of entries in the order of time. Reads
/// few entries behind them, so that a walk from one end to the next reads memory in a row.
pub(crate) fn count_until(timestamps_ns: &[i64], max_ns: i64) -> usize {
    if timestamps_ns.last().is_none_or(|&newest| newest <= max_ns) {
        return timestamps_ns.len();
    }
    // The last one is later, so the bound never reaches the end.
    let (mut known, mut stride) = (0, 8);
    while known + stride < timestamps_ns.len() && timestamps_ns[known + stride - 1] <= max_ns {
        known += stride;
        stride *= 2;
    }
    let end = (known + stride).min(timestamps_ns.len());
    known + timestamps_ns[known..end].partition_point(|&time_ns| time_ns <= max_ns)
}

/// A run of entries of one stream.
#[derive(Clone, Copy, Debug)]
pub struct EntryBlock<'a> {
    /// Entry times in nanoseconds since the epoch.
    pub timestamps_ns: &'a [i64],
    /// Exclusive end of every line in `lines`, ascending; as long as
    /// `timestamps_ns`. May be empty when neither lines nor their lengths are
    /// needed, see [`super::leaf::Needs`].
    pub line_ends: &'a [u32],
    /// The lines, contiguous, without separators. May be empty when only lengths
    /// are needed.
    pub lines: &'a [u8],
    /// Structured metadata of every entry. May be [`MetadataColumn::None`] when it
    /// is not needed.
    pub metadata: MetadataColumn<'a>,
    /// Position of this block among the blocks of its stream in order of arrival:
    /// where two entries of a stream have equal timestamps, the one in the block
    /// with the smaller `arrival` arrived first, and within one block the one
    /// with the smaller index. Blocks of one stream have distinct numbers.
    pub arrival: u64,
    /// True when `timestamps_ns` never decreases. False costs a scan of all
    /// timestamps, never correctness.
    pub sorted: bool,
}

impl<'a> EntryBlock<'a> {
    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.timestamps_ns.len()
    }

    /// True when the block holds no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.timestamps_ns.is_empty()
    }

    /// The line columns.
    pub(crate) fn line_view(&self) -> Lines<'a> {
        Lines { ends: self.line_ends, bytes: self.lines }
    }
}

/// The facts about a block, or some blocks of a stream, that a directory has without their columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockSummary {
    /// How many blocks they are, at least 1.
    pub blocks: u64,
    /// Time of the oldest entry in nanoseconds.
    pub min_timestamp_ns: i64,
    /// Time of the newest entry in nanoseconds.
    pub max_timestamp_ns: i64,
    /// Number of entries.
    pub entries: u64,
    /// Sum of the line lengths in bytes.
    pub line_bytes: u64,
    /// Bytes of the names and values of all metadata, if they are known.
    pub metadata_bytes: Option<u64>,
}

/// Line columns of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines<'a> {
    pub(crate) ends: &'a [u32],
    pub(crate) bytes: &'a [u8],
}

impl<'a> Lines<'a> {
    /// Offset of the first byte of line `i` (of the end of all lines for `i = len`).
    pub(crate) fn start(&self, i: usize) -> usize {
        if i == 0 { 0 } else { self.ends[i - 1] as usize }
    }

    pub(crate) fn end(&self, i: usize) -> usize {
        self.ends[i] as usize
    }

    /// Length of line `i` in bytes; needs no line bytes.
    pub(crate) fn len_of(&self, i: usize) -> usize {
        self.end(i) - self.start(i)
    }

    pub(crate) fn get(&self, i: usize) -> &'a [u8] {
        &self.bytes[self.start(i)..self.end(i)]
    }

    /// The line that holds the byte at `offset`, given that it is `from` or later.
    /// Gallops, so that walking through dense hits costs O(1) each and sparse hits
    /// cost O(log distance).
    pub(crate) fn line_at(&self, offset: usize, from: usize) -> usize {
        let mut low = from;
        let mut step = 1;
        while low + step <= self.ends.len() && self.end(low + step - 1) <= offset {
            low += step;
            step *= 2;
        }
        let high = (low + step).min(self.ends.len());
        low + self.ends[low..high].partition_point(|&end| end as usize <= offset)
    }
}

/// Structured metadata of the entries of a block.
#[derive(Clone, Copy, Debug)]
pub enum MetadataColumn<'a> {
    /// No entry has any (or the engine does not need it).
    None,
    /// Entry `i` has the set `sets.get(set_ids[i])`.
    Sets {
        /// One id per entry, each less than `sets.len()`. Id 0 is the empty set.
        set_ids: &'a [u32],
        /// The dictionary the ids point into; shared by any number of blocks.
        sets: &'a MetadataSets,
    },
}

/// A dictionary of structured-metadata sets. Every set is a list of
/// `(name, value)` pairs sorted by name, names unique. Id 0 is the empty set.
///
/// Names and values are stored once in one text arena, a pair is two references
/// into it, so an entry costs four bytes in its column and a repeated set nothing
/// more. The owner (a head, or a decoded segment) bounds its growth with
/// [`MetadataSets::held_bytes`].
#[derive(Debug)]
pub struct MetadataSets {
    text: String,
    /// The distinct strings of `text`, with the next older one of equal hash.
    strings: Vec<(Span, u32)>,
    /// Hash of a string to the newest of `strings` that has it.
    string_index: HashedMap<u32>,
    pairs: Vec<(Span, Span)>,
    /// Exclusive end of every set in `pairs`, with the next older set of equal hash;
    /// the first one ends at 0.
    sets: Vec<(u32, u32)>,
    /// Hash of a set to the newest id that has it.
    set_index: HashedMap<u32>,
    /// The different names, as long as they are few.
    names: Vec<Span>,
    state: ahash::RandomState,
}

/// End of a chain of equal hashes.
const NO_NEXT: u32 = u32::MAX;

/// Most names that a dictionary lists.
const MAX_NAMES: usize = 16;

/// The place of a text in one dictionary. Equal texts may have several places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextRef(Span);

/// A piece of `MetadataSets::text`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Span {
    start: u32,
    len: u32,
}

impl Default for MetadataSets {
    fn default() -> Self {
        Self::new()
    }
}

impl MetadataSets {
    /// A dictionary that holds the empty set only.
    #[must_use]
    pub fn new() -> Self {
        Self {
            text: String::new(),
            strings: Vec::new(),
            string_index: HashedMap::default(),
            pairs: Vec::new(),
            sets: vec![(0, NO_NEXT)],
            set_index: HashedMap::default(),
            names: Vec::new(),
            state: fixed_state(),
        }
    }

    /// Number of sets, the empty one included.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "it always holds the empty set")]
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// The id of the set with these pairs, which must be sorted by name with
    /// unique names. `None` when the dictionary is full (4 GiB of text or 2^32
    /// pairs); the caller seals the block and starts a new dictionary.
    pub fn intern<'p, I>(&mut self, pairs: I) -> Option<u32>
    where
        I: IntoIterator<Item = (&'p str, &'p str)>,
    {
        let first = self.pairs.len();
        for (name, value) in pairs {
            let (Some(name), Some(value)) = (self.intern_text(name), self.intern_text(value))
            else {
                self.pairs.truncate(first);
                return None;
            };
            self.pairs.push((name, value));
        }
        if self.pairs.len() == first {
            return Some(0);
        }
        let hash = self.state.hash_one(&self.pairs[first..]);
        let newest = self.set_index.get(&hash).copied().unwrap_or(NO_NEXT);
        let mut id = newest;
        while id != NO_NEXT {
            // Strings are unique, so equal sets have equal spans.
            if self.set_pairs(id) == &self.pairs[first..] {
                self.pairs.truncate(first);
                return Some(id);
            }
            id = self.sets[id as usize].1;
        }
        let id = self.add_set(first, newest)?;
        self.set_index.insert(hash, id);
        Some(id)
    }

    /// Sum of the lengths of the names and values of a set, in bytes.
    #[must_use]
    pub fn text_bytes(&self, id: u32) -> u64 {
        let pairs = self.set_pairs(id).iter();
        pairs.map(|(name, value)| u64::from(name.len) + u64::from(value.len)).sum()
    }

    /// False when no set has a pair of that name. May be true in vain when there
    /// are many names.
    #[must_use]
    pub fn may_have_name(&self, name: &str) -> bool {
        self.names.len() >= MAX_NAMES || self.names.iter().any(|span| self.text_of(*span) == name)
    }

    /// False if no name and no value has this text.
    #[must_use]
    pub fn may_have_text(&self, text: &str) -> bool {
        memchr::memmem::find(self.text.as_bytes(), text.as_bytes()).is_some()
    }

    /// Adds a text for [`MetadataSets::push_set`] without a search for an equal text:
    /// for texts that are distinct because a dictionary has stored them. `None` when
    /// the dictionary is full.
    pub fn push_text(&mut self, text: &str) -> Option<TextRef> {
        let start = u32::try_from(self.text.len()).ok()?;
        let len = u32::try_from(text.len()).ok()?;
        start.checked_add(len)?;
        self.text.push_str(text);
        Some(TextRef(Span { start, len }))
    }

    /// Adds a set of texts that [`MetadataSets::push_text`] of this dictionary returned,
    /// sorted by name with unique names, and returns its id. Costs no hashing: for
    /// sets that are known to be distinct. A set that is there already gets a further
    /// id, and [`MetadataSets::intern`] does not find it; both cost memory only.
    /// `None` when the dictionary is full.
    pub fn push_set(&mut self, pairs: impl IntoIterator<Item = (TextRef, TextRef)>) -> Option<u32> {
        let first = self.pairs.len();
        self.pairs.extend(pairs.into_iter().map(|(name, value)| (name.0, value.0)));
        if self.pairs.len() == first {
            return Some(0);
        }
        self.add_set(first, NO_NEXT)
    }

    /// Makes a set of the pairs from `first` on; `older` is the next one of equal
    /// hash.
    fn add_set(&mut self, first: usize, older: u32) -> Option<u32> {
        let (Some(id), Ok(end)) = (index_of(self.sets.len()), u32::try_from(self.pairs.len()))
        else {
            self.pairs.truncate(first);
            return None;
        };
        self.sets.push((end, older));
        for (name, _) in &self.pairs[first..] {
            let is_known =
                |known: &Span| known == name || self.text_of(*known) == self.text_of(*name);
            if self.names.len() < MAX_NAMES && !self.names.iter().any(is_known) {
                self.names.push(*name);
            }
        }
        Some(id)
    }

    fn intern_text(&mut self, text: &str) -> Option<Span> {
        let hash = self.state.hash_one(text);
        let newest = self.string_index.get(&hash).copied().unwrap_or(NO_NEXT);
        let mut id = newest;
        while id != NO_NEXT {
            let (span, next) = self.strings[id as usize];
            if self.text_of(span) == text {
                return Some(span);
            }
            id = next;
        }
        let id = index_of(self.strings.len())?;
        let start = u32::try_from(self.text.len()).ok()?;
        let len = u32::try_from(text.len()).ok()?;
        start.checked_add(len)?;
        self.text.push_str(text);
        let span = Span { start, len };
        self.strings.push((span, newest));
        self.string_index.insert(hash, id);
        Some(span)
    }

    fn set_pairs(&self, id: u32) -> &[(Span, Span)] {
        let id = id as usize;
        let start = if id == 0 { 0 } else { self.sets[id - 1].0 as usize };
        &self.pairs[start..self.sets[id].0 as usize]
    }

    /// The places of the names and values of set `id`, sorted by name.
    pub(crate) fn places(&self, id: u32) -> impl Iterator<Item = (TextRef, TextRef)> {
        self.set_pairs(id).iter().map(|&(name, value)| (TextRef(name), TextRef(value)))
    }

    /// The text at a place of this dictionary.
    pub(crate) fn text_at(&self, place: TextRef) -> &str {
        self.text_of(place.0)
    }

    fn text_of(&self, span: Span) -> &str {
        &self.text[span.start as usize..(span.start + span.len) as usize]
    }

    /// The pairs of set `id`, sorted by name.
    ///
    /// # Panics
    /// When `id` is not less than [`MetadataSets::len`].
    #[inline]
    pub fn get(&self, id: u32) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.set_pairs(id).iter().map(|(name, value)| (self.text_of(*name), self.text_of(*value)))
    }

    /// Heap memory in bytes, by capacity.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.text.capacity()
            + self.pairs.capacity() * size_of::<(Span, Span)>()
            + self.strings.capacity() * size_of::<(Span, u32)>()
            + self.sets.capacity() * size_of::<(u32, u32)>()
            + self.names.capacity() * size_of::<Span>()
            // A bucket and its control byte.
            + (self.string_index.capacity() + self.set_index.capacity()) * 17
    }
}

/// A number of a string or set; `None` if there are too many for 32 bits.
fn index_of(len: usize) -> Option<u32> {
    u32::try_from(len).ok().filter(|index| *index != NO_NEXT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_their_times() {
        let mut seed = 5u32;
        let mut random = |bound: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            i64::from((seed >> 8) % bound)
        };
        for round in 0..2000 {
            let len = random(200);
            let mut times: Vec<i64> = (0..len).map(|_| random(1 + len as u32)).collect();
            times.sort_unstable();
            let (start, end) = (random(220) - 10, random(220) - 10);
            let before = |bound: i64| times.iter().filter(|&&time| time < bound).count();
            let rows = rows_within(&times, (start, end));
            let expected = before(start)..before(end).max(before(start));
            assert_eq!(rows, expected, "round {round}: {times:?} from {start} to {end}");
            assert_eq!(count_until(&times, end), before(end + 1), "round {round}: {times:?} {end}");
        }
    }

    #[test]
    fn equal_metadata_sets_share_an_id_and_the_empty_set_is_zero() {
        let mut sets = MetadataSets::new();
        let a = sets.intern([("a", "1"), ("b", "2")]).expect("not full");
        let b = sets.intern([("a", "2"), ("b", "1")]).expect("not full");
        assert_eq!(sets.intern([("a", "1"), ("b", "2")]), Some(a));
        assert_eq!(sets.intern([]), Some(0));
        assert_ne!(a, b);
        assert_eq!(sets.get(b).collect::<Vec<_>>(), [("a", "2"), ("b", "1")]);
        assert_eq!(sets.get(0).len(), 0);
        assert_eq!(sets.len(), 3);
        assert!(sets.may_have_name("a") && sets.may_have_name("b") && !sets.may_have_name("1"));
        for number in 0..MAX_NAMES {
            sets.intern([(format!("n{number}").as_str(), "")]).expect("not full");
        }
        assert!(sets.may_have_name("n15") && sets.may_have_name("unknown"));
    }

    #[test]
    fn pushed_sets_read_like_interned_ones() {
        let mut sets = MetadataSets::new();
        let [a, b, x, empty] = ["a", "b", "x\u{e9}", ""].map(|text| sets.push_text(text));
        let (a, b) = (a.expect("not full"), b.expect("not full"));
        let (x, empty) = (x.expect("not full"), empty.expect("not full"));
        assert_eq!(sets.push_set([]), Some(0));
        let first = sets.push_set([(a, x), (b, empty)]).expect("not full");
        let second = sets.push_set([(b, x)]).expect("not full");
        let third = sets.intern([("b", "x\u{e9}")]).expect("not full");
        assert_eq!(sets.get(first).collect::<Vec<_>>(), [("a", "x\u{e9}"), ("b", "")]);
        for id in [second, third] {
            assert_eq!(sets.get(id).collect::<Vec<_>>(), [("b", "x\u{e9}")]);
        }
        assert_eq!(sets.len(), 4);
        assert!(sets.may_have_name("a") && sets.may_have_name("b") && !sets.may_have_name("c"));
        for _ in 0..MAX_NAMES {
            let again = sets.push_text("c").expect("not full");
            sets.push_set([(again, x)]).expect("not full");
        }
        assert!(sets.may_have_name("c") && !sets.may_have_name("d"));
    }

    #[test]
    fn line_at_finds_the_line_of_every_byte_also_across_empty_lines() {
        let lengths = [3usize, 0, 0, 5, 1, 0, 40, 2];
        let mut ends = Vec::new();
        let mut owner = Vec::new();
        for (line, len) in lengths.iter().enumerate() {
            owner.extend(std::iter::repeat_n(line, *len));
            ends.push(u32::try_from(owner.len()).expect("small"));
        }
        let bytes = vec![b'x'; owner.len()];
        let lines = Lines { ends: &ends, bytes: &bytes };
        for (offset, line) in owner.iter().enumerate() {
            for from in 0..=*line {
                assert_eq!(lines.line_at(offset, from), *line, "offset {offset} from {from}");
            }
        }
    }
}
