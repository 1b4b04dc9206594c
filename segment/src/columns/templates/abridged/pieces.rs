//! The texts of abridged lines, which come in pieces: one piece of many lines after another.
//!
//! Guarantees: the pieces of a line stand in the order in which they were added. Memory is bounded
//! by a few times the whole lines. Lines that would need more have no answer ([`Pieces::is_full`]).

use std::ops::Range;

use super::AbridgedLines;

/// Abridged lines are not longer than whole ones, but for so many bytes each.
const MOST_MORE_BYTES: usize = 64;

/// Texts are not longer than so many times the whole lines, and so many bytes for each line.
const MOST_TEXTS: usize = 4;

/// A place in the kept texts, in bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct Text {
    pub(super) start: u32,
    pub(super) len: u32,
}

impl Text {
    fn range(self) -> Range<usize> {
        self.start as usize..(self.start + self.len) as usize
    }
}

struct Piece {
    line: u16,
    text: Text,
}

/// The pieces of all lines of a block.
pub(super) struct Pieces {
    /// All texts.
    pub(super) kept: Vec<u8>,
    pieces: Vec<Piece>,
    /// The text at the end of every line.
    tail: Text,
    /// The length of each line.
    lens: Vec<u32>,
    /// Bytes of lines that may still come.
    room: usize,
    /// The length of texts to which others may be joined, in bytes.
    kept_max: usize,
}

impl Pieces {
    /// Of lines that have `raw_len` bytes in all.
    pub(super) fn new(lines: usize, raw_len: usize) -> Pieces {
        let room = raw_len + MOST_MORE_BYTES * lines;
        Pieces {
            kept: Vec::new(),
            pieces: Vec::new(),
            tail: Text::default(),
            lens: vec![0; lines],
            room,
            kept_max: MOST_TEXTS * room,
        }
    }

    /// Whether the lines have become too long, which lines of malformed parts may.
    pub(super) fn is_full(&self) -> bool {
        self.room == 0
    }

    /// Adds a text to a line.
    #[inline]
    pub(super) fn add(&mut self, line: usize, text: Text) {
        if text.len == 0 || self.is_full() {
            return;
        }
        self.room = self.room.saturating_sub(text.len as usize);
        self.lens[line] += text.len;
        self.pieces.push(Piece { line: line as u16, text });
    }

    /// Whether a longer text may be made of two.
    fn may_join(&mut self, bytes: u32) -> bool {
        if self.kept.len() + bytes as usize > self.kept_max {
            self.room = 0;
        }
        !self.is_full()
    }

    /// Adds a number to a line, and the texts before and behind it.
    pub(super) fn add_around(&mut self, line: usize, before: Text, number: &[u8], behind: Text) {
        if !self.may_join(before.len + number.len() as u32 + behind.len) {
            return;
        }
        let start = self.kept.len();
        self.kept.extend_from_within(before.range());
        self.kept.extend_from_slice(number);
        self.kept.extend_from_within(behind.range());
        self.add(line, Text { start: start as u32, len: (self.kept.len() - start) as u32 });
    }

    /// Ends each line with a text.
    pub(super) fn end_with(&mut self, tail: Text) {
        self.room = self.room.saturating_sub(tail.len as usize * self.lens.len());
        if !self.is_full() {
            self.tail = tail;
            self.lens.iter_mut().for_each(|len| *len += tail.len);
        }
    }

    /// One text, and another behind it.
    pub(super) fn joined(&mut self, text: Text, behind: Text) -> Text {
        if text.len == 0 || behind.len == 0 {
            return if text.len == 0 { behind } else { text };
        }
        if !self.may_join(text.len + behind.len) {
            return Text::default();
        }
        let start = self.kept.len() as u32;
        self.kept.extend_from_within(text.range());
        self.kept.extend_from_within(behind.range());
        Text { start, len: text.len + behind.len }
    }

    pub(super) fn are_equal(&self, one: Text, other: Text) -> bool {
        one.len == other.len
            && (one.len == 0
                || one.start == other.start
                || self.kept[one.range()] == self.kept[other.range()])
    }

    /// Puts the pieces of lines together.
    pub(super) fn lines(&self) -> AbridgedLines {
        let mut end = 0;
        let mut nexts: Vec<u32> = Vec::with_capacity(self.lens.len());
        let mut ends = Vec::with_capacity(self.lens.len());
        for len in &self.lens {
            nexts.push(end);
            end += len;
            ends.push(end);
        }
        let mut lines = vec![0; end as usize];
        for Piece { line, text } in &self.pieces {
            let at = &mut nexts[usize::from(*line)];
            lines[*at as usize..][..text.len as usize].copy_from_slice(&self.kept[text.range()]);
            *at += text.len;
        }
        let tail = &self.kept[self.tail.range()];
        if !tail.is_empty() {
            for end in &ends {
                lines[*end as usize - tail.len()..*end as usize].copy_from_slice(tail);
            }
        }
        AbridgedLines { ends, lines }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pieces: &mut Pieces, text: &str) -> Text {
        pieces.kept.extend_from_slice(text.as_bytes());
        Text { start: (pieces.kept.len() - text.len()) as u32, len: text.len() as u32 }
    }

    #[test]
    fn lines_have_their_pieces_in_order_and_the_same_end() {
        let mut pieces = Pieces::new(3, 12);
        let [a, b, end] = ["a", "bb", "}"].map(|part| text(&mut pieces, part));
        for (line, part) in [(0, a), (2, b), (0, b), (2, a)] {
            pieces.add(line, part);
        }
        pieces.add_around(2, a, b"17", Text::default());
        let joined = pieces.joined(a, b);
        pieces.add(0, joined);
        pieces.end_with(end);
        let found = pieces.lines();
        assert_eq!((&found.lines[..], &found.ends[..]), (&b"abbabb}}bbaa17}"[..], &[7, 8, 15][..]));
        assert!(!pieces.is_full());
    }

    #[test]
    fn texts_that_are_joined_again_and_again_are_bounded() {
        let mut pieces = Pieces::new(1, 100);
        let mut long = text(&mut pieces, &"x".repeat(60));
        for _ in 0..64 {
            long = pieces.joined(long, long);
        }
        assert!(pieces.is_full() && pieces.kept.len() <= MOST_TEXTS * 164);
        let mut pieces = Pieces::new(1000, 10);
        let long = text(&mut pieces, &"x".repeat(10_000));
        pieces.end_with(long);
        assert!(pieces.is_full());
    }
}
