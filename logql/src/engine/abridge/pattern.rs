//! Abridges lines for `| pattern`: literals and wanted captures stay, and other captures become
//! empty.
//!
//! The parser looks for the first place of a literal behind the one before it. With a capture left
//! empty that place is where the literal stands. A line is refused if it does not begin as the
//! pattern does, and where a number may be part of a literal.

use super::{Names, NumberKind};
use crate::syntax::pattern::{PatternNode, parse_pattern};

/// A pattern as it is read.
#[derive(Debug)]
pub(super) struct Reading {
    prefix: Vec<u8>,
    captures: Vec<Capture>,
}

#[derive(Debug)]
struct Capture {
    is_kept: bool,
    /// The text behind it; empty for a capture at the end.
    until: Literal,
}

/// A text that is looked for by the algorithm of Knuth, Morris and Pratt.
#[derive(Debug, Default)]
struct Literal {
    text: Vec<u8>,
    /// For each number of bytes that were found: how many are left if the next one is another.
    falls: Vec<usize>,
}

/// What was read last.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum PatternState {
    /// So many bytes of the beginning.
    Prefix(usize),
    /// A part of a capture, and so many bytes of the text behind it.
    Within { capture: usize, found: usize },
    /// The pattern.
    Behind,
    /// Another beginning.
    Refused,
}

impl Reading {
    /// Of a pattern that the parser takes.
    pub(super) fn new(pattern: &[u8], names: &Names) -> Reading {
        let mut reading = Reading { prefix: Vec::new(), captures: Vec::new() };
        for node in parse_pattern(pattern) {
            match node {
                PatternNode::Capture(name) => {
                    let is_kept = name.is_some_and(|name| names.has(name.as_bytes()));
                    reading.captures.push(Capture { is_kept, until: Literal::default() });
                }
                PatternNode::Literal(literal) => match reading.captures.last_mut() {
                    Some(capture) => capture.until = Literal::new(literal),
                    None => reading.prefix = literal,
                },
            }
        }
        reading
    }

    /// The state behind the prefix, or behind a capture and its text.
    fn at(&self, capture: usize) -> PatternState {
        match capture < self.captures.len() {
            true => PatternState::Within { capture, found: 0 },
            false => PatternState::Behind,
        }
    }
}

impl Literal {
    fn new(text: Vec<u8>) -> Literal {
        let mut falls = vec![0; text.len()];
        for found in 1..text.len() {
            // The longest beginning that is an end of the bytes before.
            let mut fall = falls[found - 1];
            if found > 1 {
                while fall > 0 && text[fall] != text[found - 1] {
                    fall = falls[fall];
                }
                fall += usize::from(text[fall] == text[found - 1]);
            }
            falls[found] = fall;
        }
        Literal { text, falls }
    }

    /// The number of bytes that are found behind another byte.
    fn after(&self, mut found: usize, byte: u8) -> usize {
        while found > 0 && self.text[found] != byte {
            found = self.falls[found];
        }
        found + usize::from(self.text[found] == byte)
    }

    /// Whether a number may be the next part of the text, or its beginning.
    fn may_go_on(&self, mut found: usize, kind: NumberKind) -> bool {
        loop {
            if may_have(kind, self.text[found]) {
                return true;
            }
            if found == 0 {
                return false;
            }
            found = self.falls[found];
        }
    }
}

/// Whether a number may have this byte.
fn may_have(kind: NumberKind, byte: u8) -> bool {
    match kind {
        NumberKind::Decimal => byte.is_ascii_digit(),
        NumberKind::Hex => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        NumberKind::Time => byte.is_ascii_alphanumeric() || b"-/:.,".contains(&byte),
        NumberKind::SpacedTime => byte == b' ' || may_have(NumberKind::Time, byte),
    }
}

impl PatternState {
    pub(super) const START: PatternState = PatternState::Prefix(0);

    pub(super) fn is_refused(&self) -> bool {
        *self == PatternState::Refused
    }

    /// The same, where the prefix is empty.
    fn skip_prefix(&mut self, reading: &Reading) {
        if *self == PatternState::Prefix(reading.prefix.len()) {
            *self = reading.at(0);
        }
    }

    /// The number of bytes that leave the state as it is and are not kept, or fewer.
    pub(super) fn same(&self, text: &[u8], reading: &Reading) -> usize {
        match self {
            PatternState::Within { capture, found: 0 } => {
                let Capture { is_kept, until } = &reading.captures[*capture];
                match until.text.first() {
                    _ if *is_kept => 0,
                    Some(&first) => memchr::memchr(first, text).unwrap_or(text.len()),
                    None => text.len(),
                }
            }
            PatternState::Behind => text.len(),
            _ => 0,
        }
    }

    /// Reads a byte.
    pub(super) fn byte(&mut self, byte: u8, reading: &Reading, out: &mut Vec<u8>) {
        self.skip_prefix(reading);
        match self {
            PatternState::Prefix(read) if reading.prefix[*read] == byte => {
                out.push(byte);
                *read += 1;
            }
            PatternState::Prefix(_) => *self = PatternState::Refused,
            PatternState::Within { capture, found } => {
                let Capture { is_kept, until } = &reading.captures[*capture];
                if until.text.is_empty() {
                    if *is_kept {
                        out.push(byte);
                    }
                    return;
                }
                let after = until.after(*found, byte);
                if *is_kept {
                    // What was found and the byte, without the bytes that are found now.
                    let given_up = (*found + 1) - after;
                    out.extend(until.text[..*found].iter().chain(&[byte]).take(given_up));
                }
                *found = after;
                if after == until.text.len() {
                    out.extend_from_slice(&until.text);
                    *self = reading.at(*capture + 1);
                }
            }
            PatternState::Behind | PatternState::Refused => {}
        }
    }

    /// Reads a number: whether it is kept. `None` refuses the line.
    pub(super) fn number(
        &mut self,
        kind: NumberKind,
        reading: &Reading,
        out: &mut Vec<u8>,
    ) -> Option<bool> {
        self.skip_prefix(reading);
        match self {
            PatternState::Within { capture, found } => {
                let Capture { is_kept, until } = &reading.captures[*capture];
                if !until.text.is_empty() {
                    if until.may_go_on(*found, kind) {
                        return None;
                    }
                    if *is_kept {
                        out.extend_from_slice(&until.text[..*found]);
                    }
                    *found = 0;
                }
                Some(*is_kept)
            }
            PatternState::Behind => Some(false),
            PatternState::Prefix(_) | PatternState::Refused => None,
        }
    }

    /// Ends the line; false refuses it.
    pub(super) fn end(&self, reading: &Reading, out: &mut Vec<u8>) -> bool {
        let mut end = self.clone();
        end.skip_prefix(reading);
        match end {
            // The capture takes the rest of the line.
            PatternState::Within { capture, found } => {
                let Capture { is_kept, until } = &reading.captures[capture];
                if *is_kept {
                    out.extend_from_slice(&until.text[..found]);
                }
                true
            }
            PatternState::Behind => true,
            PatternState::Prefix(_) | PatternState::Refused => false,
        }
    }
}
