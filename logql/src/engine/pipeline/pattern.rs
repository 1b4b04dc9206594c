//! `| pattern "<ip> - <_> <status>"`: the texts between literals become labels.

use memchr::memmem::Finder;

use super::super::interner::equal;
use super::super::labels::{EntryLabels, NameId};
use super::{CompiledStage, Entry};
use crate::syntax::pattern::{PatternNode, check_pattern_parser, parse_pattern};

/// A value of so many bytes counts as work of its own, see [`super::super::meter`].
const LONG_BYTES: usize = 1 << 10;

/// A capture and the text behind it.
#[derive(Debug)]
struct Capture {
    /// `None` for `<_>`.
    label: Option<NameId>,
    /// `None` for a capture at the end, which takes the rest.
    until: Option<Finder<'static>>,
}

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Pattern {
    /// The beginning of every line that matches; empty when the pattern begins with a capture.
    prefix: Box<[u8]>,
    captures: Vec<Capture>,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// `at least one capture is required` and the like, which the parser has ruled
    /// out.
    pub(crate) fn compile(pattern: &[u8], labels: &mut EntryLabels) -> Result<Self, String> {
        check_pattern_parser(pattern)?;
        let mut prefix = Box::default();
        let mut captures: Vec<Capture> = Vec::new();
        for node in parse_pattern(pattern) {
            match node {
                PatternNode::Capture(name) => {
                    let label = name.map(|name| labels.name_id(name.as_bytes()));
                    captures.push(Capture { label, until: None });
                }
                PatternNode::Literal(literal) => match captures.last_mut() {
                    Some(capture) => capture.until = Some(Finder::new(&literal).into_owned()),
                    None => prefix = literal.into(),
                },
            }
        }
        Ok(Self { prefix, captures })
    }
}

impl CompiledStage for Pattern {
    type Outcome = ();

    fn process(&mut self, entry: &mut Entry<'_>) {
        let (line, labels) = entry.parts();
        let Some((start, mut rest)) = line.split_at_checked(self.prefix.len()) else { return };
        if line.is_empty() || !equal(start, &self.prefix) {
            return;
        }
        for capture in &self.captures {
            if labels.has_all() {
                return;
            }
            let end = capture.until.as_ref().and_then(|until| until.find(rest));
            let value = &rest[..end.unwrap_or(rest.len())];
            // Short ones are counted with the line.
            if value.len() >= LONG_BYTES && !labels.meter().work(value.len()) {
                return;
            }
            if let Some(label) = capture.label
                && let Some(target) = labels.target_of(label)
            {
                labels.set(target, value);
            }
            let (Some(end), Some(until)) = (end, &capture.until) else { return };
            rest = &rest[end + until.needle().len()..];
        }
    }

    fn held_bytes(&self) -> usize {
        let needles = self.captures.iter().filter_map(|capture| capture.until.as_ref());
        self.prefix.len()
            + self.captures.capacity() * size_of::<Capture>()
            + needles.map(|until| until.needle().len()).sum::<usize>()
    }
}
