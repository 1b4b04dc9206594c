//! `| regexp "(?P<name>...)"`: the named groups of a match become labels.

use regex::bytes::{CaptureLocations, Regex};

use super::super::labels::text::{is_blank, push_sanitized};
use super::super::labels::{EntryLabels, NameId};
use super::super::regex as patterns;
use super::{CompiledStage, Entry};
use crate::syntax::go_regex::compile_capturing;

/// The work of searching a byte for groups, see [`super::super::meter`].
const CAPTURE_FACTOR: usize = 4;

/// A compiled `regexp`.
#[derive(Debug)]
pub(crate) struct Regexp {
    regex: Regex,
    /// Its size in bytes, about.
    regex_bytes: usize,
    /// The groups with names, by number, and the labels they set.
    groups: Vec<(usize, NameId)>,
    /// Scratch: where the groups matched.
    locations: CaptureLocations,
}

impl Regexp {
    /// Compiles the expression.
    ///
    /// # Errors
    /// A bad pattern, which the parser has ruled out.
    pub(crate) fn compile(pattern: &[u8], labels: &mut EntryLabels) -> Result<Self, String> {
        let compiled = compile_capturing(pattern)?;
        let mut groups = Vec::new();
        let mut buffer = Vec::new();
        for (number, name) in (1..).zip(&compiled.group_names) {
            if let Some(name) = name
                && !is_blank(name.as_bytes())
            {
                buffer.clear();
                push_sanitized(&mut buffer, name.as_bytes());
                groups.push((number, labels.name_id(&buffer)));
            }
        }
        let locations = compiled.regex.capture_locations();
        let regex_bytes = patterns::held_bytes(patterns::cost_of(pattern));
        Ok(Self { regex: compiled.regex, regex_bytes, groups, locations })
    }
}

impl CompiledStage for Regexp {
    type Outcome = ();

    fn process(&mut self, entry: &mut Entry<'_>) {
        let (line, labels) = entry.parts();
        if labels.has_all() || !labels.meter().work(CAPTURE_FACTOR * line.len()) {
            return;
        }
        if self.regex.captures_read(&mut self.locations, line).is_none() {
            return;
        }
        for (number, name) in &self.groups {
            if let Some(target) = labels.target_of(*name) {
                let (start, end) = self.locations.get(*number).unwrap_or((0, 0));
                labels.set(target, &line[start..end]);
            }
        }
    }

    fn held_bytes(&self) -> usize {
        self.regex_bytes
            + self.groups.capacity() * size_of::<(usize, NameId)>()
            + self.locations.len() * size_of::<[Option<usize>; 2]>()
    }
}
