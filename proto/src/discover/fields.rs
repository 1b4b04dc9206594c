//! The names of fields that hold a level.

use crate::discover::words::{Triples, holds_any};

/// The names in force unless configured otherwise, most telling first.
pub const DEFAULT_LEVEL_FIELDS: [&str; 14] = [
    "level",
    "LEVEL",
    "Level",
    "log.level",
    "severity",
    "SEVERITY",
    "Severity",
    "SeverityText",
    "lvl",
    "LVL",
    "Lvl",
    "severity_text",
    "Severity_Text",
    "SEVERITY_TEXT",
];

/// Every default name contains one of these, so a line without them has no level
/// field and need not be parsed.
static HINTS: Triples<3> = Triples::new([*b"lev", *b"sev", *b"lvl"]);

/// A list of field names, most telling first, prepared for looking them up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LevelFields {
    names: Box<[Box<str>]>,
    /// Bit n is set if a name has n bytes; bit 63 stands for all longer ones.
    lengths: u64,
    /// Whether every name contains one of [`HINTS`].
    hinted: bool,
}

impl LevelFields {
    /// Prepares names. Empty ones are left out.
    pub fn new<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> LevelFields {
        let names: Box<[Box<str>]> = names
            .into_iter()
            .filter(|name| !name.as_ref().is_empty())
            .map(|name| name.as_ref().into())
            .collect();
        let lengths = names.iter().fold(0, |mask, name| mask | length_bit(name.len()));
        let hinted = names.iter().all(|name| holds_any(name.as_bytes(), &HINTS));
        LevelFields { names, lengths, hinted }
    }

    /// The names, most telling first.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.names.iter().map(|name| &**name)
    }

    /// Whether `name` is one of the names.
    #[inline]
    pub fn contains(&self, name: &[u8]) -> bool {
        self.lengths & length_bit(name.len()) != 0
            && self.names.iter().any(|known| known.as_bytes() == name)
    }

    /// Place of `name` in the list, letter case aside.
    #[inline]
    pub fn position_ignoring_case(&self, name: &[u8]) -> Option<usize> {
        if self.lengths & length_bit(name.len()) == 0 {
            return None;
        }
        self.names.iter().position(|known| known.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Whether a line may have one of the fields. Cheap, and never wrong when it says
    /// no (names that are written with JSON escapes aside).
    #[inline]
    pub fn may_occur_in(&self, line: &[u8]) -> bool {
        !self.hinted || holds_any(line, &HINTS)
    }
}

impl Default for LevelFields {
    fn default() -> LevelFields {
        LevelFields::new(DEFAULT_LEVEL_FIELDS)
    }
}

fn length_bit(len_bytes: usize) -> u64 {
    1 << len_bytes.min(63)
}
