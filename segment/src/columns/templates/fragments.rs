//! The distinct fragments of a block by slot, with two look-ups: by the whole fragment, and by
//! the bytes at a position of a line, whose fragment may have any length.
//!
//! For the second look-up each slot has a tree. A node has a few fragments. If they become too
//! many, the node is divided where they first differ: five or three bits of the byte there
//! choose the child, and fragments that end there stay. So a line is compared with few
//! fragments. A search visits at most as many nodes as fragments have bytes, and no fragment
//! twice.

use super::text::Text;
use super::{END, Form};

/// A distinct fragment of a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment {
    hash: u64,
    /// Its last eight bytes, or all bytes of a shorter one, the first byte lowest.
    tail: u64,
    pub(super) start: u32,
    pub(super) len: u32,
    /// Its number in its slot.
    number: u32,
    slot: u8,
    pub(super) next: u8,
}

/// The fragments that follow the numbers of one column.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// For each use 0 for a new fragment, or one more than the number of the fragment.
    pub(super) ids: Vec<u64>,
    /// Its fragments, as indexes into the list of all fragments.
    pub(super) fragments: Vec<u32>,
}

/// The distinct fragments of a block.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    pub(super) slots: Vec<Slot>,
    all: Vec<Fragment>,
    /// Open addressing: fragments by their hashes. Its length is a power of two.
    table: Vec<u32>,
    /// The root of each slot's tree, and then [`CHILDREN`] children of each divided node.
    nodes: Vec<Node>,
}

/// A node of a slot's tree.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// The fragments of the node: the first `count` elements.
    own: [u32; MOST_OWN],
    count: u8,
    /// The bits of the byte at `at` that choose the child.
    division: Division,
    at: u32,
    /// The index of the first child in the list of all nodes.
    children: u32,
    /// Of a divided node a fragment with the bytes before `at` that all fragments below have.
    sample: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Division {
    #[default]
    None,
    Low,
    High,
}

/// Most fragments of a node.
const MOST_OWN: usize = 4;
/// Trees stop to grow at so many nodes: a block with so many fragments has few repeated ones.
const MOST_NODES: usize = 1 << 15;
/// Children of a divided node.
const CHILDREN: usize = 32;

impl Node {
    #[inline]
    fn child(&self, byte: u8) -> usize {
        let bits = if self.division == Division::Low { byte & 31 } else { byte >> 5 };
        self.children as usize + usize::from(bits)
    }
}

/// A fragment at a position of a line, and the number after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// One more than its number in its slot.
    pub(super) id: u64,
    pub(super) next: u8,
    /// The start of the number.
    pub(super) number_at: usize,
    pub(super) value: u64,
    pub(super) digits: usize,
}

const VACANT: u32 = u32::MAX;
const TABLE_START_LEN: usize = 4096;

impl Fragments {
    /// Forgets the fragments of the last block.
    pub(super) fn clear(&mut self, columns: usize) {
        self.all.clear();
        self.table.clear();
        self.table.resize(TABLE_START_LEN, VACANT);
        self.nodes.clear();
        self.nodes.resize(columns + 1, Node::default());
        self.slots.resize_with(self.slots.len().max(columns + 1), Slot::default);
        for slot in &mut self.slots {
            slot.ids.clear();
            slot.fragments.clear();
        }
    }

    /// A fragment by its index in the list of all fragments.
    pub(super) fn get(&self, fragment: u32) -> &Fragment {
        &self.all[fragment as usize]
    }

    /// Searches a fragment at this position of a line that a number of the form of its column
    /// follows. May miss one.
    #[inline]
    pub(super) fn at(
        &self,
        slot: u8,
        text: &Text,
        at: usize,
        line_end: usize,
        forms: &[Form],
    ) -> Option<Found> {
        let mut node = &self.nodes[usize::from(slot)];
        loop {
            for &fragment in &node.own[..usize::from(node.count)] {
                if let Some(found) = self.try_one(fragment, text, at, line_end, forms) {
                    return Some(found);
                }
            }
            let byte_at = at + node.at as usize;
            if node.division == Division::None || byte_at >= line_end {
                return None;
            }
            node = &self.nodes[node.child(text.bytes()[byte_at])];
        }
    }

    #[inline]
    fn try_one(
        &self,
        fragment: u32,
        text: &Text,
        at: usize,
        line_end: usize,
        forms: &[Form],
    ) -> Option<Found> {
        let known = &self.all[fragment as usize];
        let len = known.len as usize;
        let number_at = at + len;
        if number_at > line_end
            || text.tail(at, len) != known.tail
            || !text.are_equal(known.start as usize, at, len)
        {
            return None;
        }
        let (value, digits) = if known.next == END {
            (number_at == line_end).then_some((0, 0))?
        } else {
            text.number(number_at, forms[usize::from(known.next)])?
        };
        let id = u64::from(known.number) + 1;
        Some(Found { id, next: known.next, number_at, value, digits })
    }

    /// Adds a use of a fragment to its slot, which is 0 or one more than a column.
    pub(super) fn add(&mut self, text: &Text, start: usize, end: usize, slot: u8, next: u8) {
        let bytes = &text.bytes()[start..end];
        let hash = hash(bytes, slot, next);
        let mut place = hash as usize & (self.table.len() - 1);
        // A vacant slot has a number that no fragment has.
        while let Some(known) = self.all.get(self.table[place] as usize) {
            let is_same = known.hash == hash
                && (known.slot, known.next) == (slot, next)
                && &text.bytes()[known.start as usize..][..known.len as usize] == bytes;
            if is_same {
                self.slots[usize::from(slot)].ids.push(u64::from(known.number) + 1);
                return;
            }
            place = (place + 1) & (self.table.len() - 1);
        }
        let fragment = self.all.len() as u32;
        self.table[place] = fragment;
        let of_slot = &mut self.slots[usize::from(slot)];
        of_slot.ids.push(0);
        let number = of_slot.fragments.len() as u32;
        of_slot.fragments.push(fragment);
        let len = end - start;
        self.all.push(Fragment {
            hash,
            tail: text.tail(start, len),
            start: start as u32,
            len: len as u32,
            number,
            slot,
            next,
        });
        self.plant(text, fragment, slot);
        if self.all.len() * 2 > self.table.len() {
            self.grow();
        }
    }

    /// Adds a fragment to the tree of its slot, unless too many others have the same bytes.
    fn plant(&mut self, text: &Text, fragment: u32, slot: u8) {
        let Fragments { all, nodes, .. } = self;
        let byte = |fragment: u32, at: u32| {
            let Fragment { start, len, .. } = all[fragment as usize];
            (at < len).then(|| text.bytes()[(start + at) as usize])
        };
        let mut number = usize::from(slot);
        // All fragments below a division have the same bytes before it, and the same five bits of
        // the byte there.
        let (mut same, mut low_at) = (0, None);
        loop {
            if nodes.len() > MOST_NODES {
                return;
            }
            let node = nodes[number];
            let of_fragment = |at| byte(fragment, at);
            if node.division == Division::None {
                if let Some(free) = nodes[number].own.get_mut(usize::from(node.count)) {
                    *free = fragment;
                    nodes[number].count += 1;
                    return;
                }
                let is_common = |at: &u32| {
                    let byte_of = of_fragment(*at);
                    byte_of.is_some() && node.own.iter().all(|&own| byte(own, *at) == byte_of)
                };
                let at = (same..).find(|at| !is_common(at)).unwrap_or(same);
                divide(nodes, number, at, low_at, node.own[0]);
                for own in node.own {
                    let to = byte(own, at).map_or(number, |byte| nodes[number].child(byte));
                    let to = &mut nodes[to];
                    to.own[usize::from(to.count)] = own;
                    to.count += 1;
                }
                continue;
            }
            let differs =
                |at: &u32| of_fragment(*at).is_none_or(|b| byte(node.sample, *at) != Some(b));
            if let Some(at) = (same..node.at).find(differs) {
                // The fragment differs from all below this node. The node becomes the child of
                // another.
                divide(nodes, number, at, low_at, node.sample);
                let sample_byte = byte(node.sample, at).unwrap_or(0);
                let moved = nodes[number].child(sample_byte);
                nodes[moved] = node;
                continue;
            }
            same = node.at;
            match of_fragment(node.at) {
                Some(byte) => {
                    low_at = (node.division == Division::Low).then_some(node.at);
                    number = node.child(byte);
                }
                None => {
                    if let Some(free) = nodes[number].own.get_mut(usize::from(node.count)) {
                        *free = fragment;
                        nodes[number].count += 1;
                    }
                    return;
                }
            }
        }
    }

    fn grow(&mut self) {
        let len = self.table.len() * 2;
        self.table.clear();
        self.table.resize(len, VACANT);
        for (fragment, number) in self.all.iter().zip(0..) {
            let mut place = fragment.hash as usize & (len - 1);
            while self.table[place] != VACANT {
                place = (place + 1) & (len - 1);
            }
            self.table[place] = number;
        }
    }

    /// Bytes that the buffers occupy.
    pub(super) fn held_bytes(&self) -> usize {
        let slot = |slot: &Slot| slot.ids.capacity() * 8 + slot.fragments.capacity() * 4;
        self.all.capacity() * size_of::<Fragment>()
            + self.table.capacity() * 4
            + self.nodes.capacity() * size_of::<Node>()
            + self.slots.iter().map(slot).sum::<usize>()
    }
}

/// Divides an empty node into empty children.
fn divide(nodes: &mut Vec<Node>, number: usize, at: u32, low_at: Option<u32>, sample: u32) {
    let division = if low_at == Some(at) { Division::High } else { Division::Low };
    let children = nodes.len() as u32;
    nodes[number] = Node { division, at, children, sample, ..Node::default() };
    nodes.resize(nodes.len() + CHILDREN, Node::default());
}

/// The hash of a fragment; fragments with equal hashes are compared.
fn hash(text: &[u8], slot: u8, next: u8) -> u64 {
    let fold = |state: u64, word: u64| {
        let product = u128::from(state ^ word) * 0x9E37_79B9_7F4A_7C15;
        product as u64 ^ (product >> 64) as u64
    };
    let seed = (text.len() as u64) << 16 | u64::from(slot) << 8 | u64::from(next);
    let mut state = fold(0x243F_6A88_85A3_08D3, seed);
    let (words, rest) = text.as_chunks::<8>();
    for &word in words {
        state = fold(state, u64::from_le_bytes(word));
    }
    if let Some(&last) = text.last_chunk::<8>() {
        return if rest.is_empty() { state } else { fold(state, u64::from_le_bytes(last)) };
    }
    fold(state, rest.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    /// The adjacent lines, and their text.
    fn text_of(lines: &[Vec<u8>]) -> Text {
        let mut text = Text::default();
        text.fill(&lines.concat(), &super::super::tests::ends_of(lines));
        text
    }

    #[test]
    fn what_was_added_is_found_however_alike_it_is() {
        for seed in seeds(300) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            // `a` and `A` differ in the upper bits of a byte only.
            let letters = *rng.pick(&[&b"aA"[..], b"ab", b"\0a!A", b"abcdefgh"]);
            let most = rng.between(1, 40);
            let lines: Vec<Vec<u8>> = (0..rng.below(400))
                .map(|_| (0..rng.below(most)).map(|_| *rng.pick(letters)).collect())
                .collect();
            let text = text_of(&lines);
            let mut fragments = Fragments::default();
            fragments.clear(0);
            let mut known: Vec<&Vec<u8>> = Vec::new();
            for (number, line) in lines.iter().enumerate() {
                let (at, end) = text.line(number);
                let found = fragments.at(0, &text, at, end, &[]);
                let place = known.iter().position(|other| *other == line);
                assert_eq!(found.map(|found| found.id), place.map(|place| place as u64 + 1));
                fragments.add(&text, at, end, 0, END);
                if place.is_none() {
                    known.push(line);
                }
            }
            assert_eq!(fragments.all.len(), known.len());
        }
    }

    #[test]
    fn a_fragment_is_found_if_its_number_is_there() {
        let lines = [&b"took 5 ms"[..], b"took x ms", b"took 17 ms", b"took 17", b"took 1"];
        let text = text_of(&lines.map(<[u8]>::to_vec));
        let forms = [Form::FixedDecimal(2), Form::Decimal];
        let mut fragments = Fragments::default();
        fragments.clear(2);
        let (at, end) = text.line(0);
        fragments.add(&text, at, at + 5, 0, 0);
        assert!(fragments.at(0, &text, at, end, &forms).is_none(), "of one digit");
        fragments.add(&text, at, at + 5, 0, 1);
        let found = |line| {
            let (at, end) = text.line(line);
            let found = fragments.at(0, &text, at, end, &forms)?;
            assert_eq!(found.number_at, at + 5);
            Some((found.next, found.value, found.digits))
        };
        let expected = [Some((1, 5, 1)), None, Some((0, 17, 2)), Some((0, 17, 2)), Some((1, 1, 1))];
        assert_eq!([0, 1, 2, 3, 4].map(found), expected);
    }
}
