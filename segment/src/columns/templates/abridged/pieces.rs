//! The texts of abridged lines, which come in pieces: one piece of many lines after another.
//!
//! Guarantees: the pieces of a line stand in the order in which they were added. Lines have no more
//! than [`MOST_MORE_BYTES`] more than whole lines, or there is no answer ([`Pieces::is_full`]).

use std::ops::Range;

use super::super::LineParts;
use super::AbridgedLines;

/// Abridged lines are not longer than whole ones, but for so many bytes each.
const MOST_MORE_BYTES: usize = 64;

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
}

impl Pieces {
    pub(super) fn new(parts: &LineParts) -> Pieces {
        let lines = parts.line_count();
        Pieces {
            kept: Vec::new(),
            pieces: Vec::new(),
            tail: Text::default(),
            lens: vec![0; lines],
            room: parts.raw_len() + MOST_MORE_BYTES * lines,
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

    /// Adds a number to a line, and the texts before and behind it.
    pub(super) fn add_around(&mut self, line: usize, before: Text, number: &[u8], behind: Text) {
        if self.is_full() {
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
