//! Splits a body that comes in pieces into its lines.
//!
//! Guarantees: a line comes out whole, however the pieces are cut; empty lines are none; a carriage
//! return before the line break is not content. No more of a line is kept than it may have bytes,
//! besides the piece that was put in. A longer line is skipped to its end and told once.

/// The longest line that there needs to be: an entry has at most 56 MB.
pub const LINE_MAX_BYTES: usize = 64 << 20;

/// A line is longer than it may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the line is longer than {max_bytes} bytes")]
pub struct TooLong {
    /// The longest line.
    pub max_bytes: usize,
}

/// See the module.
#[derive(Debug)]
pub struct LineBuffer {
    text: Vec<u8>,
    /// Where the next line begins, and how far no line break was found.
    start: usize,
    searched: usize,
    /// Whether the rest of a long line is left out.
    skips: bool,
    /// Lines that came out.
    lines: u64,
    max_bytes: usize,
}

impl Default for LineBuffer {
    fn default() -> LineBuffer {
        LineBuffer::new(LINE_MAX_BYTES)
    }
}

impl LineBuffer {
    /// For lines of at most so many bytes.
    pub fn new(max_bytes: usize) -> LineBuffer {
        LineBuffer { text: Vec::new(), start: 0, searched: 0, skips: false, lines: 0, max_bytes }
    }

    /// Where the next piece goes, at the end.
    pub fn input(&mut self) -> &mut Vec<u8> {
        self.text.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        &mut self.text
    }

    /// Bytes of memory that are held.
    pub fn capacity_bytes(&self) -> usize {
        self.text.capacity()
    }

    /// The next line that is complete and not empty, with its number from 1.
    pub fn next_line(&mut self) -> Option<(u64, Result<&[u8], TooLong>)> {
        loop {
            let Some(found) = memchr::memchr(b'\n', &self.text[self.searched..]) else {
                self.searched = self.text.len();
                if self.text.len() - self.start > self.max_bytes {
                    self.skips = true;
                    self.start = self.text.len();
                }
                if self.skips {
                    self.start = self.text.len();
                }
                return None;
            };
            let (start, end) = (self.start, self.searched + found);
            (self.start, self.searched) = (end + 1, end + 1);
            self.lines += 1;
            if std::mem::take(&mut self.skips) || end - start > self.max_bytes {
                return Some((self.lines, Err(TooLong { max_bytes: self.max_bytes })));
            }
            let line = trimmed(start, end, &self.text);
            if !line.is_empty() {
                return Some((self.lines, Ok(&self.text[line])));
            }
        }
    }

    /// The last line, if no line break ends it. Call [`LineBuffer::next_line`] to its end before.
    pub fn last_line(&mut self) -> Option<(u64, Result<&[u8], TooLong>)> {
        let (start, end) = (self.start, self.text.len());
        (self.start, self.searched) = (end, end);
        if std::mem::take(&mut self.skips) {
            self.lines += 1;
            return Some((self.lines, Err(TooLong { max_bytes: self.max_bytes })));
        }
        let line = trimmed(start, end, &self.text);
        if line.is_empty() {
            return None;
        }
        self.lines += 1;
        Some((self.lines, Ok(&self.text[line])))
    }

    /// How many lines came to an end, empty ones too.
    pub fn lines(&self) -> u64 {
        self.lines
    }
}

/// The place of a line without its carriage return.
fn trimmed(start: usize, end: usize, text: &[u8]) -> std::ops::Range<usize> {
    let has_return = text[start..end].ends_with(b"\r");
    start..end - usize::from(has_return)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a body that comes in pieces of this length.
    fn split(body: &str, piece_len: usize, max_bytes: usize) -> Vec<(u64, Option<String>)> {
        let mut buffer = LineBuffer::new(max_bytes);
        let mut found = Vec::new();
        let text = |line: Result<&[u8], TooLong>| {
            line.ok().map(|line| String::from_utf8(line.to_vec()).unwrap())
        };
        for piece in body.as_bytes().chunks(piece_len) {
            buffer.input().extend_from_slice(piece);
            while let Some((number, line)) = buffer.next_line() {
                found.push((number, text(line)));
            }
            assert!(buffer.text.len() - buffer.start <= max_bytes);
        }
        let last = buffer.last_line().map(|(number, line)| (number, text(line)));
        found.extend(last);
        assert_eq!(buffer.last_line(), None);
        found
    }

    #[test]
    fn lines_come_out_whole_however_they_are_cut() {
        let body = "one\n\n\r\ntwo\r\nthree is long\nfour\nand five is longer";
        let line = |number, text: &str| (number, Some(text.to_owned()));
        for piece_len in 1..body.len() + 1 {
            let all = [
                line(1, "one"),
                line(4, "two"),
                line(5, "three is long"),
                line(6, "four"),
                line(7, "and five is longer"),
            ];
            assert_eq!(split(body, piece_len, 100), all, "{piece_len}");
            let short = [line(1, "one"), line(4, "two"), (5, None), line(6, "four"), (7, None)];
            let found = split(body, piece_len, 5);
            // A last line that comes in one piece may be longer.
            assert_eq!(found[..4], short[..4], "{piece_len}");
        }
        assert_eq!(split("", 1, 5), []);
        assert_eq!(split("\n\n", 1, 5), []);
    }
}
