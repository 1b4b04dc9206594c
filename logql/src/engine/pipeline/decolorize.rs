//! `| decolorize`: the line without ANSI sequences.

use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};

use super::super::meter::Meter;
use super::{CompiledStage, Entry};

/// A sequence of colours or other terminal control: an introducer, then either a
/// text that ends with BEL, or parameters and a final character.
pub(super) const SEQUENCE: &str = concat!(
    r"(?:\x1b|\xc2\x9b)[\[\]()#;?]*",
    r"(?:(?:(?:[a-zA-Z0-9]*(?:;[a-zA-Z0-9]*)*)?\x07)",
    r"|(?:(?:[0-9]{1,4}(?:;[0-9]{0,4})*)?[0-9A-PRZcf-ntqry=><~]))",
);

/// The work of a sequence, see [`super::super::meter`].
const HIT_WORK: usize = 64;
/// The work of searching a byte.
const SEARCH_FACTOR: usize = 2;

/// [`SEQUENCE`], compiled once for all stages.
static SEQUENCES: LazyLock<Regex> = LazyLock::new(|| {
    RegexBuilder::new(SEQUENCE).unicode(false).build().expect("the pattern is valid")
});

/// A compiled `decolorize`.
#[derive(Debug)]
pub(crate) struct Decolorize {
    /// Scratch: the line without sequences.
    line: Vec<u8>,
}

impl Decolorize {
    pub(crate) fn new() -> Self {
        Self { line: Vec::new() }
    }
}

impl CompiledStage for Decolorize {
    type Outcome = ();

    fn process(&mut self, entry: &mut Entry<'_>) {
        let line = entry.line();
        if memchr::memchr2(b'\x1b', b'\x9b', line).is_none() {
            return;
        }
        self.line.clear();
        if !entry.meter().make_room(&mut self.line, line.len()) {
            return;
        }
        let mut copied = 0;
        for hit in SEQUENCES.find_iter(line) {
            self.line.extend_from_slice(&line[copied..hit.start()]);
            if !entry.meter().work(HIT_WORK + SEARCH_FACTOR * (hit.end() - copied)) {
                return;
            }
            copied = hit.end();
        }
        if copied > 0 {
            self.line.extend_from_slice(&line[copied..]);
            entry.replace_line(&mut self.line);
        }
    }

    fn held_bytes(&self) -> usize {
        self.line.capacity()
    }

    fn recycle(&mut self, meter: &Meter) {
        meter.recycle(&mut self.line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::labels::EntryLabels;

    #[test]
    fn sequences_vanish_and_text_stays() {
        let mut stage = Decolorize::new();
        for (line, plain) in [
            ("\u{1b}[1;31mred\u{1b}[0m plain", "red plain"),
            ("\u{9b}32mgreen", "green"),
            ("\u{1b}]0;title\u{7}x", "x"),
            ("no colour", "no colour"),
            ("\u{1b}", "\u{1b}"),
            ("\u{1b}[", "\u{1b}["),
            ("\u{1b}[31", ""),
            ("a\u{1b}[Kb", "ab"),
            ("caf\u{e9} \u{6db}", "caf\u{e9} \u{6db}"),
        ] {
            let (mut buffer, mut labels) = (Vec::new(), EntryLabels::new());
            let mut entry = Entry::new(line.as_bytes(), &mut buffer, &mut labels);
            stage.process(&mut entry);
            assert_eq!(String::from_utf8_lossy(entry.line()), plain, "{line:?}");
        }
    }
}
