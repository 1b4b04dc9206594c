//! Cuts lines into words and separators.
//!
//! Lines whose separators are the same can share a template, so a template reproduces its lines
//! byte for byte but for the words that are variable. Two variables never touch, because at least
//! one byte separates two words. So every template is a valid pattern filter.

use super::super::meter::Meter;

/// Bytes of a line that are split into words. The rest of the line is one variable.
const LINE_MAX_BYTES: usize = 2048;

/// Words of a line that are distinguished. The rest of the line is one variable.
const WORDS_MAX: usize = 96;

/// Most words of a line: there is a variable on either side of a message.
pub(super) const LINE_WORDS_MAX: usize = WORDS_MAX + 2;

/// Lines with fewer words are left out, as Loki does.
const WORDS_MIN: usize = 4;

/// Stands for a word in a skeleton. Not a separator.
pub(super) const WORD: u8 = 0;

/// The work of cutting a byte of a line, see [`crate::engine::meter`].
const CUT_FACTOR: usize = 4;

/// The start of the skeleton of a line that is a JSON object.
const KEY_MAX_BYTES: usize = 16;

/// A line in pieces; reused from line to line.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    /// The separators of the line, with [`WORD`] for each word.
    pub(super) skeleton: Vec<u8>,
    /// The words: bounds in the line, or `None` for a word that is variable by nature.
    pub(super) words: Vec<Option<(usize, usize)>>,
}

impl Tokens {
    /// Cuts a line. Any bytes are a line. False when it has too few words for a
    /// template, or there is no memory.
    pub(super) fn cut(&mut self, line: &[u8], meter: &Meter) -> bool {
        self.skeleton.clear();
        self.words.clear();
        // Each byte is at most one of a skeleton, and a variable on either side comes to it.
        let has_room = meter.work(line.len() * CUT_FACTOR)
            && meter.make_room(&mut self.skeleton, line.len() + KEY_MAX_BYTES)
            && meter.make_room(&mut self.words, LINE_WORDS_MAX);
        if !has_room {
            return false;
        }
        let Some((key, start, end)) = message(line) else {
            self.cut_text(line, 0, line.len());
            return self.words.len() >= WORDS_MIN;
        };
        // At least a brace stands on either side.
        self.push_variable();
        self.skeleton.extend_from_slice(key);
        self.cut_text(line, start, end);
        self.skeleton.push(b'"');
        self.push_variable();
        self.words.len() >= WORDS_MIN + 2
    }

    fn push_variable(&mut self) {
        self.skeleton.push(WORD);
        self.words.push(None);
    }

    /// Cuts the bytes from `at` to `text_end`.
    fn cut_text(&mut self, line: &[u8], mut at: usize, text_end: usize) {
        while at < text_end {
            let rest = &line[at..text_end];
            // A quoted value is one word, whatever it holds.
            let quoted = if self.skeleton.last() == Some(&b'=') { quoted_len(rest) } else { None };
            if quoted.is_none() && is_separator(rest[0]) {
                self.skeleton.push(rest[0]);
                at += 1;
                continue;
            }
            let unquoted = || rest.iter().take_while(|&&byte| !is_separator(byte)).count();
            let end = at + quoted.unwrap_or_else(unquoted);
            // Two variables must not touch.
            if self.skeleton.last() == Some(&WORD) {
                self.skeleton.pop();
                if let Some(word) = self.words.last_mut() {
                    *word = None;
                }
                self.skeleton.push(WORD);
                at = end;
                continue;
            }
            self.skeleton.push(WORD);
            if end > LINE_MAX_BYTES || self.words.len() + 1 == WORDS_MAX {
                self.words.push(None);
                return;
            }
            let is_literal = !is_variable(&line[at..end]);
            self.words.push(is_literal.then_some((at, end)));
            at = end;
        }
    }
}

/// The length of the quoted text at the start, with its quotes.
fn quoted_len(text: &[u8]) -> Option<usize> {
    let inside = text.strip_prefix(b"\"")?;
    Some(string_len(inside)? + 2)
}

/// The number of bytes before the quote that ends a string.
fn string_len(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

/// The place of the message of a JSON object, behind its key. A person wrote the message;
/// programs make the rest of the line.
fn message(line: &[u8]) -> Option<(&'static [u8], usize, usize)> {
    const KEYS: [&[u8]; 2] = [br#""msg":""#, br#""message":""#];
    let line = &line[..line.len().min(LINE_MAX_BYTES)];
    if line.first() != Some(&b'{') {
        return None;
    }
    KEYS.into_iter().find_map(|key| {
        let start = memchr::memmem::find(line, key)? + key.len();
        let end = start + string_len(&line[start..])?;
        (end + 1 < line.len()).then_some((key, start, end))
    })
}

fn is_separator(byte: u8) -> bool {
    matches!(
        byte,
        b' ' | b'\t'
            | b'\n'
            | b'\r'
            | b'='
            | b','
            | b';'
            | b'['
            | b']'
            | b'('
            | b')'
            | b'{'
            | b'}'
            | b'"'
            | b'\''
            | b'|'
    )
}

/// Whether a word differs from line to line by its nature: numbers, times, addresses,
/// identifiers, and words that cannot stand in a pattern.
fn is_variable(word: &[u8]) -> bool {
    let is_hex =
        word.len() >= 8 && word.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-');
    is_hex
        || word.iter().any(|byte| byte.is_ascii_digit() || matches!(byte, b'<' | b'>' | 0))
        || std::str::from_utf8(word).is_err()
}

/// Whether a word is a severity, which templates keep apart.
pub(super) fn is_severity(word: &[u8]) -> bool {
    const SEVERITIES: [&str; 10] = [
        "trace", "debug", "info", "notice", "warn", "warning", "error", "critical", "fatal",
        "panic",
    ];
    SEVERITIES.iter().any(|severity| severity.as_bytes().eq_ignore_ascii_case(word))
}
