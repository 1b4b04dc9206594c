//! Remembers what became of lines, so that equal ones need not be parsed again.
//!
//! Abridged lines have few fields, and these few values. The pipeline gives equal lines the same
//! outcome if it looks at nothing but the line: not at labels of streams, nor at metadata.
//!
//! Guarantees: a line gets the outcome of an equal line. Memory is constant. Where few lines
//! repeat, most are not looked up.

use super::super::hash::fixed_state;

/// What became of an entry.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Outcome {
    /// A stage dropped it, or it has no sample.
    Dropped,
    /// It counts for this label set, with this sample.
    Kept { set: u32, value: f64 },
}

/// Longer lines are not remembered.
const LINE_BYTES: usize = 44;
const SLOTS: usize = 1024;
/// After so many lines the share of repeated ones decides about the next lines.
const LOOKS: u32 = 4096;
/// Lines that are not looked up where less than a quarter repeat.
const REST: u32 = 16 * LOOKS;

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// [`EMPTY`] if there is none.
    len: u8,
    line: [u8; LINE_BYTES],
    outcome: Outcome,
}

const EMPTY: u8 = u8::MAX;

/// The outcomes of some lines.
#[derive(Debug)]
pub(crate) struct Repeats {
    /// Made with the first line.
    slots: Vec<Slot>,
    hasher: ahash::RandomState,
    looks: u32,
    hits: u32,
    rest: u32,
}

/// Where a line is remembered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RepeatSlot(usize);

impl Repeats {
    /// Memory in bytes.
    pub(crate) const BYTES: usize = SLOTS * size_of::<Slot>();

    pub(crate) fn new() -> Repeats {
        Repeats { slots: Vec::new(), hasher: fixed_state(), looks: 0, hits: 0, rest: 0 }
    }

    /// The place of a line, if it is looked up.
    pub(crate) fn slot(&mut self, line: &[u8]) -> Option<RepeatSlot> {
        if line.len() > LINE_BYTES {
            return None;
        }
        if self.rest > 0 {
            self.rest -= 1;
            return None;
        }
        if self.looks == LOOKS {
            let repeat = self.hits * 4 >= self.looks;
            (self.looks, self.hits) = (0, 0);
            self.rest = if repeat { 0 } else { REST };
        }
        self.looks += 1;
        Some(RepeatSlot(self.hasher.hash_one(line) as usize % SLOTS))
    }

    /// The outcome of an equal line.
    pub(crate) fn get(&mut self, slot: RepeatSlot, line: &[u8]) -> Option<Outcome> {
        let found = self.slots.get(slot.0)?;
        let is_equal = usize::from(found.len) == line.len() && found.line[..line.len()] == *line;
        self.hits += u32::from(is_equal);
        is_equal.then_some(found.outcome)
    }

    /// Notes the outcome of a line of this place.
    pub(crate) fn put(&mut self, slot: RepeatSlot, line: &[u8], outcome: Outcome) {
        if self.slots.is_empty() {
            let empty = Slot { len: EMPTY, line: [0; LINE_BYTES], outcome: Outcome::Dropped };
            self.slots = vec![empty; SLOTS];
        }
        let place = &mut self.slots[slot.0];
        place.len = line.len() as u8;
        place.line[..line.len()].copy_from_slice(line);
        place.outcome = outcome;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lines_have_the_outcome_that_was_noted() {
        let mut repeats = Repeats::new();
        for number in 0..100_000_u32 {
            let line = format!("{}", number % 3000);
            let Some(slot) = repeats.slot(line.as_bytes()) else { continue };
            let outcome = Outcome::Kept { set: number % 3000, value: 1.0 };
            if let Some(found) = repeats.get(slot, line.as_bytes()) {
                assert_eq!(found, outcome);
            }
            repeats.put(slot, line.as_bytes(), outcome);
        }
        assert!(repeats.slots.iter().filter(|slot| slot.len != EMPTY).count() > SLOTS / 2);
        let long = [b'a'; LINE_BYTES + 1];
        assert!(repeats.slot(&long).is_none());
    }

    #[test]
    fn lines_that_do_not_repeat_are_not_looked_up() {
        let mut repeats = Repeats::new();
        let mut looks = 0;
        for number in 0..1_000_000_u32 {
            let line = number.to_be_bytes();
            let Some(slot) = repeats.slot(&line) else { continue };
            looks += 1;
            assert_eq!(repeats.get(slot, &line), None);
            repeats.put(slot, &line, Outcome::Dropped);
        }
        assert!((10_000..100_000).contains(&looks), "{looks}");
    }
}
