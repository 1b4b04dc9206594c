//! Cuts lines into words and what stands between them.
//!
//! Lines whose separators are the same can share a template, so a template reproduces
//! its lines byte for byte but for the words that are variable. Two variables never
//! touch, because at least one byte stands between two words; that keeps every template
//! a valid pattern filter.

/// Bytes of a line that are looked at; what follows is one variable.
const LINE_MAX_BYTES: usize = 2048;

/// Words of a line that are looked at; what follows is one variable.
const WORDS_MAX: usize = 96;

/// Stands for a word in a skeleton. Not a separator.
pub(super) const WORD: u8 = 0;

/// A line in pieces; reused from line to line.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    /// The separators of the line, with [`WORD`] for each word.
    pub(super) skeleton: Vec<u8>,
    /// The words: bounds in the line, or `None` for those that are variable by nature.
    pub(super) words: Vec<Option<(usize, usize)>>,
}

impl Tokens {
    /// Cuts a line. Any bytes are a line.
    pub(super) fn cut(&mut self, line: &[u8]) {
        self.skeleton.clear();
        self.words.clear();
        let mut at = 0;
        while at < line.len() {
            if is_separator(line[at]) {
                self.skeleton.push(line[at]);
                at += 1;
                continue;
            }
            let len = line[at..].iter().take_while(|&&byte| !is_separator(byte)).count();
            let end = at + len;
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
/// identifiers, and what cannot stand in a pattern.
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
