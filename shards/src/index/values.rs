//! The values of one label in sorted order, with the streams that have them.
//!
//! Values lie in *chunks* of some dozens, each with its text in one piece, so that a walk
//! over all of them reads memory in a row and a value costs little besides its text. A
//! chunk is found by a lower bound of its values; it is divided when it becomes large,
//! and joined with its neighbour when both have become small.
//!
//! Guarantees: every operation on one value costs the logarithm of the number of values
//! and the length of a chunk; values come out sorted by their bytes; of two chunks that
//! follow each other one is not small, so values that go leave no memory behind.

use std::ops::Bound;

use super::Slot;
use super::chunks::{Chunks, up_to};
use super::postings::Postings;

/// A chunk that would have more values is divided.
const CHUNK_VALUES_MAX: usize = 64;

/// A chunk of several values that would have more text is divided.
const CHUNK_TEXT_MAX_BYTES: usize = 8 << 10;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Values {
    chunks: Chunks,
    count: usize,
}

/// Some values that follow each other, at least one.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    text: String,
    /// Exclusive ends of the values in `text`.
    ends: Vec<u32>,
    postings: Vec<Postings>,
}

impl Values {
    /// How many values there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The streams that have a value; none if no stream has the value.
    pub(super) fn slots(&self, value: &str) -> &[Slot] {
        let chunk = self.chunks.of_value(value);
        let found = chunk.and_then(|chunk| Some((chunk, chunk.find(value).ok()?)));
        found.map_or(&[], |(chunk, position)| chunk.postings[position].slots())
    }

    /// All values with their streams, sorted.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &[Slot])> {
        self.chunks.iter().flat_map(|(_, chunk)| chunk.iter())
    }

    /// Visits values with their streams, sorted. `visit` may return the length of a beginning of
    /// the value, in bytes: the walk passes over other values with this beginning, at the cost of a
    /// search.
    pub(super) fn walk<'v>(&'v self, mut visit: impl FnMut(&'v str, &'v [Slot]) -> Option<usize>) {
        let mut chunks = self.chunks.iter();
        let mut position = 0;
        while let Some((_, chunk)) = chunks.next() {
            let mut passed = None;
            while position < chunk.len() {
                let value = chunk.value(position);
                if let Some(len) = visit(value, chunk.postings[position].slots()) {
                    position = chunk.behind(&value.as_bytes()[..len], position);
                    passed = Some(&value[..value.ceil_char_boundary(len)]);
                } else {
                    position += 1;
                    passed = None;
                }
            }
            position = 0;
            let (Some(beginning), Some((_, next))) = (passed, chunks.clone().next()) else {
                continue;
            };
            // Values with this beginning that are not below `bound` are visited, or passed over by
            // another search.
            let bound = format!("{beginning}{}", char::MAX);
            if next.value(next.len() - 1) < &*bound
                && let Some((from, chunk)) = self.chunks.last_up_to(&bound)
            {
                position = chunk.find(&bound).unwrap_or_else(|position| position);
                chunks = self.chunks.range(Bound::Included(from));
            }
        }
    }

    /// Adds a stream that has a value.
    pub(super) fn add(&mut self, value: &str, slot: Slot) {
        let Some(chunk) = self.chunks.of_value_mut(value) else {
            // Below all bounds, so that there is none like this.
            self.chunks.insert("", Chunk::of(value, slot));
            self.count += 1;
            return;
        };
        let position = match chunk.find(value) {
            Ok(position) => return chunk.postings[position].add(slot),
            Err(position) => position,
        };
        self.count += 1;
        let fits = chunk.len() < CHUNK_VALUES_MAX
            && chunk.text.len() + value.len() <= CHUNK_TEXT_MAX_BYTES;
        if fits {
            chunk.insert(position, value, slot);
        } else if position == chunk.len() {
            // Rising values, which is how many come, fill their chunks.
            self.chunks.insert(value, Chunk::of(value, slot));
        } else {
            let middle = chunk.len() / 2;
            let mut behind = chunk.split_off(middle);
            if position <= middle {
                chunk.insert(position, value, slot);
            } else {
                behind.insert(position - middle, value, slot);
            }
            let bound = behind.value(0).to_owned();
            self.chunks.insert(&bound, behind);
        }
    }

    /// Takes out a stream that has a value. A value without streams goes, too.
    pub(super) fn remove(&mut self, value: &str, slot: Slot) {
        let Some(chunk) = self.chunks.of_value_mut(value) else { return };
        let Ok(position) = chunk.find(value) else { return };
        if !chunk.postings[position].take(slot) {
            return;
        }
        chunk.remove(position);
        self.count -= 1;
        if chunk.is_small() {
            self.shrink(value);
        }
    }

    /// Joins the small chunk of a value with one beside it if that is small, too.
    fn shrink(&mut self, value: &str) {
        let tree = match &mut self.chunks {
            Chunks::None => return,
            Chunks::One(chunk) => {
                chunk.shrink_to_fit();
                if chunk.len() == 0 {
                    self.chunks = Chunks::None;
                }
                return;
            }
            Chunks::Many(tree) => tree,
        };
        let mut before = tree.range::<str, _>(up_to(value)).rev();
        let Some((bound, _)) = before.next() else { return };
        let joined = before.next().filter(|(_, before)| before.is_small());
        let bound = joined.map_or(bound, |(bound, _)| bound).clone();
        let behind = (Bound::Excluded(&*bound), Bound::Unbounded);
        let next = tree.range::<str, _>(behind).next();
        let next = next.filter(|(_, next)| next.is_small());
        let next = next.map(|(bound, _)| bound.clone());
        let next = next.and_then(|bound| tree.remove(&bound));
        let Some(chunk) = tree.get_mut(&bound) else { return };
        if let Some(next) = next {
            chunk.append(next);
        }
        chunk.shrink_to_fit();
        if chunk.len() == 0 {
            tree.remove(&bound);
        }
        if tree.is_empty() {
            self.chunks = Chunks::None;
        }
    }
}

impl Chunk {
    fn of(value: &str, slot: Slot) -> Chunk {
        Chunk {
            text: value.into(),
            ends: vec![value.len() as u32],
            postings: vec![Postings::One(slot)],
        }
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is room for as many values again, and more.
    fn is_small(&self) -> bool {
        self.len() < CHUNK_VALUES_MAX / 4 && self.text.len() < CHUNK_TEXT_MAX_BYTES / 4
    }

    /// Where the value begins in the text.
    fn start(&self, position: usize) -> usize {
        if position == 0 { 0 } else { self.ends[position - 1] as usize }
    }

    fn value(&self, position: usize) -> &str {
        &self.text[self.start(position)..self.ends[position] as usize]
    }

    /// The position of a value, or where it would be.
    fn find(&self, value: &str) -> Result<usize, usize> {
        let (mut from, mut to) = (0, self.len());
        while from < to {
            let middle = from.midpoint(to);
            match self.value(middle).cmp(value) {
                std::cmp::Ordering::Less => from = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => to = middle,
            }
        }
        Err(from)
    }

    /// The first position behind values that begin as the one at `position` does, which is mostly
    /// near.
    fn behind(&self, beginning: &[u8], position: usize) -> usize {
        let begins = |position: usize| self.value(position).as_bytes().starts_with(beginning);
        let (mut from, mut step) = (position + 1, 1);
        while from + step <= self.len() && begins(from + step - 1) {
            from += step;
            step *= 2;
        }
        let mut to = self.len().min(from + step - 1);
        while from < to {
            let middle = from.midpoint(to);
            if begins(middle) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }

    fn iter(&self) -> impl Iterator<Item = (&str, &[Slot])> {
        let mut start = 0;
        self.ends.iter().zip(&self.postings).map(move |(&end, postings)| {
            let start = std::mem::replace(&mut start, end as usize);
            (&self.text[start..end as usize], postings.slots())
        })
    }

    fn insert(&mut self, position: usize, value: &str, slot: Slot) {
        let start = self.start(position);
        self.text.insert_str(start, value);
        self.ends.insert(position, start as u32);
        self.ends[position..].iter_mut().for_each(|end| *end += value.len() as u32);
        self.postings.insert(position, Postings::One(slot));
    }

    fn remove(&mut self, position: usize) {
        let range = self.start(position)..self.ends[position] as usize;
        let len = range.len() as u32;
        self.text.replace_range(range, "");
        self.ends.remove(position);
        self.ends[position..].iter_mut().for_each(|end| *end -= len);
        self.postings.remove(position);
    }

    /// Takes out the values from a position on.
    fn split_off(&mut self, position: usize) -> Chunk {
        let start = self.start(position);
        let mut ends = self.ends.split_off(position);
        ends.iter_mut().for_each(|end| *end -= start as u32);
        let behind = Chunk {
            text: self.text.split_off(start),
            ends,
            postings: self.postings.split_off(position),
        };
        self.shrink_to_fit();
        behind
    }

    /// Adds the values of a chunk that come behind all that are here.
    fn append(&mut self, behind: Chunk) {
        let start = self.text.len() as u32;
        self.text.push_str(&behind.text);
        self.ends.extend(behind.ends.iter().map(|end| start + end));
        self.postings.extend(behind.postings);
    }

    fn shrink_to_fit(&mut self) {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.postings.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    #[test]
    fn values_that_go_take_their_chunks_along() {
        // In rising, falling and random order.
        for (order, seed) in seeds(3).enumerate() {
            let mut rng = Rng::new(seed);
            let mut values = Values::default();
            let mut texts: Vec<String> = (0..5000).map(|n| format!("value-{n:05}")).collect();
            for (slot, text) in (0..).zip(&texts) {
                values.add(text, slot);
            }
            let few = values.chunks.iter().count();
            assert!(few <= 5000 / CHUNK_VALUES_MAX + 1, "rising values fill chunks: {few}");
            let mut slots: Vec<Slot> = (0..5000).collect();
            match order {
                0 => {}
                1 => slots.reverse(),
                _ => slots.sort_by_cached_key(|_| rng.next_u64()),
            }
            let stay = slots.split_off(4800);
            for slot in slots {
                values.remove(&texts[slot as usize], slot);
            }
            let lens: Vec<bool> = values.chunks.iter().map(|(_, chunk)| chunk.is_small()).collect();
            assert!(lens.windows(2).all(|pair| pair != [true, true]), "{lens:?}");
            texts = stay.iter().map(|&slot| texts[slot as usize].clone()).collect();
            texts.sort_unstable();
            assert!(values.iter().map(|(value, _)| value).eq(&texts));
            assert_eq!(values.count(), 200);
            for text in &texts {
                let [slot] = *values.slots(text) else { panic!("{text} has one stream") };
                values.remove(text, slot);
            }
            assert!(matches!(values.chunks, Chunks::None));
        }
    }

    #[test]
    fn long_values_and_the_empty_one_have_their_place() {
        let long = |c: char| c.to_string().repeat(CHUNK_TEXT_MAX_BYTES * 2 / 3);
        let mut values = Values::default();
        let texts = [long('b'), String::new(), long('a'), long('c'), "ab".into(), long('b') + "x"];
        for (slot, text) in (0..).zip(&texts) {
            values.add(text, slot);
            values.add(text, slot + 10);
        }
        assert!(values.chunks.iter().count() > 2);
        let mut sorted: Vec<&str> = texts.iter().map(String::as_str).collect();
        sorted.sort_unstable();
        assert!(values.iter().map(|(value, _)| value).eq(sorted));
        for (slot, text) in (0..).zip(&texts) {
            assert_eq!(values.slots(text), [slot, slot + 10]);
        }
        let mut found = Vec::new();
        values.walk(|value, slots| {
            found.push(slots[0]);
            (value.starts_with('a') || value.starts_with("bb")).then_some(1)
        });
        assert_eq!(found, [1, 2, 0, 3]);
        assert_eq!(values.slots("b"), [0; 0]);
    }

    #[test]
    fn a_walk_passes_over_what_it_is_told_to_and_nothing_else() {
        const PIECES: [&str; 6] = ["a", "b", "\u{e9}", "\u{e8}", "\u{10ffff}", "\u{1f600}"];
        for seed in seeds(200) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let mut values = Values::default();
            for slot in 0..*rng.pick(&[0, 50, 500, 3000]) {
                let pieces = 0..rng.below(9);
                let value: String = pieces.map(|_| *rng.pick(&PIECES)).collect();
                values.add(&value, slot);
            }
            // Beginnings that are passed over, which may end within a character.
            let mut beginnings: Vec<Vec<u8>> = Vec::new();
            for _ in 0..rng.below(6) {
                let pieces: String = (0..rng.below(4)).map(|_| *rng.pick(&PIECES)).collect();
                let len = pieces.len() - pieces.len().min(rng.below(3) as usize);
                if len > 0 || rng.one_in(20) {
                    beginnings.push(pieces.as_bytes()[..len].to_vec());
                }
            }
            let passed = |value: &str| {
                beginnings.iter().find(|beginning| value.as_bytes().starts_with(beginning))
            };
            let mut visited = Vec::new();
            values.walk(|value, slots| {
                assert_eq!(values.slots(value), slots);
                visited.push(value);
                passed(value).map(Vec::len)
            });
            assert!(visited.is_sorted_by(|a, b| a < b), "each once");
            let expected = values.iter().map(|(value, _)| value).filter(|v| passed(v).is_none());
            let wanted = visited.iter().copied().filter(|value| passed(value).is_none());
            assert!(wanted.eq(expected));
            // One of each beginning, and a few that a jump stops at.
            let useless = visited.iter().filter(|value| passed(value).is_some()).count();
            let chunks = values.chunks.iter().count();
            assert!(useless <= beginnings.len() + chunks, "{useless} {chunks}");
        }
    }
}
