//! The names and values of a tenant's labels, each once.
//!
//! Guarantees: a name, and a value of a name, has one number. Numbers count from 0 in the order in
//! which they were first asked for.

use ahash::RandomState;
use logsvc_proto::bytes::equal;

/// Stands for the name of a name.
const OF_NAME: u32 = u32::MAX;
const SLOTS_MIN: usize = 64;

/// The hash of a text, so that other texts are not looked at, and its number.
#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u32,
    /// `u32::MAX`: the slot is vacant.
    number: u32,
}

const VACANT: Slot = Slot { hash: 0, number: u32::MAX };

#[derive(Debug)]
pub(super) struct Texts {
    state: RandomState,
    /// Open addressing by hashes. Its length is a power of two.
    slots: Vec<Slot>,
    texts: Vec<Text>,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Text {
    start: usize,
    len: u32,
    /// The number of its name if it is a value.
    name: u32,
}

impl Texts {
    pub(super) fn new() -> Texts {
        // Fixed seeds: a simulation has to replay.
        let state = RandomState::with_seeds(0x6c61_6265, 0x6c73_2069, 0x6e64_6578, 0x2121_2121);
        let slots = vec![VACANT; SLOTS_MIN];
        Texts { state, slots, texts: Vec::new(), bytes: Vec::new() }
    }

    /// How many numbers there are.
    pub(super) fn count(&self) -> u32 {
        self.texts.len() as u32
    }

    /// The text with a number.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &[u8] {
        let text = &self.texts[number as usize];
        &self.bytes[text.start..text.start + text.len as usize]
    }

    /// The number of the name of a value; `None` for a name.
    pub(super) fn name_of(&self, number: u32) -> Option<u32> {
        Some(self.texts[number as usize].name).filter(|&name| name != OF_NAME)
    }

    /// The number of a name.
    pub(super) fn name(&mut self, name: &[u8]) -> u32 {
        self.number(OF_NAME, name)
    }

    /// The number of a value of the name with a number.
    pub(super) fn value(&mut self, name: u32, value: &[u8]) -> u32 {
        self.number(name, value)
    }

    fn number(&mut self, name: u32, bytes: &[u8]) -> u32 {
        let hash = self.state.hash_one((name, bytes)) as u32;
        let mask = self.slots.len() - 1;
        let mut place = hash as usize & mask;
        while self.slots[place].number != VACANT.number {
            let slot = self.slots[place];
            if slot.hash == hash
                && self.texts[slot.number as usize].name == name
                && equal(self.get(slot.number), bytes)
            {
                return slot.number;
            }
            place = (place + 1) & mask;
        }
        let number = self.count();
        self.slots[place] = Slot { hash, number };
        let (start, len) = (self.bytes.len(), bytes.len() as u32);
        self.texts.push(Text { start, len, name });
        self.bytes.extend_from_slice(bytes);
        if self.texts.len() * 4 > self.slots.len() * 3 {
            self.grow();
        }
        number
    }

    fn grow(&mut self) {
        let len = self.slots.len() * 2;
        let before = std::mem::replace(&mut self.slots, vec![VACANT; len]);
        for slot in before.into_iter().filter(|slot| slot.number != VACANT.number) {
            let mut place = slot.hash as usize & (len - 1);
            while self.slots[place].number != VACANT.number {
                place = (place + 1) & (len - 1);
            }
            self.slots[place] = slot;
        }
    }

    /// Forgets all texts. Keeps the memory if most of it was in use.
    pub(super) fn clear(&mut self) {
        if self.texts.len() * 16 < self.slots.len() && self.slots.len() > SLOTS_MIN {
            *self = Texts::new();
            return;
        }
        self.slots.fill(VACANT);
        self.texts.clear();
        self.bytes.clear();
    }

    /// Bytes that the texts occupy.
    pub(super) fn held_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
            + self.texts.capacity() * size_of::<Text>()
            + self.bytes.capacity()
    }
}
