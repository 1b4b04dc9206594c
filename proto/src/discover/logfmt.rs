//! Finds a level field in a line of `name=value` pairs.

use crate::discover::{LevelFields, is_blank};

/// The value of the most telling level field of a line, without its quotes. Text
/// that is not a pair is skipped.
pub(super) fn level_field<'l>(line: &'l [u8], fields: &LevelFields) -> Option<&'l [u8]> {
    let mut best: Option<(usize, &[u8])> = None;
    let mut rest = line;
    while let Some(start) = rest.iter().position(|&byte| !is_blank(byte)) {
        rest = &rest[start..];
        let end = rest.iter().position(|&byte| matches!(byte, b'=' | b'"') || is_blank(byte));
        let Some(end) = end else { break };
        let name = &rest[..end];
        if rest[end] != b'=' {
            // A word or a quoted text that belongs to no name.
            rest = if rest[end] == b'"' { quoted(&rest[end..]).1 } else { &rest[end..] };
            continue;
        }
        let (value, behind) = value(&rest[end + 1..]);
        rest = behind;
        let Some(place) = fields.position_ignoring_case(name) else { continue };
        if best.is_none_or(|(known, _)| place < known) {
            best = Some((place, value));
        }
        if place == 0 || !fields.may_occur_in(rest) {
            break;
        }
    }
    best.map(|(_, value)| value)
}

/// Splits off a value, quoted or not.
fn value(rest: &[u8]) -> (&[u8], &[u8]) {
    if rest.first() == Some(&b'"') {
        return quoted(rest);
    }
    let end = rest.iter().position(|&byte| is_blank(byte)).unwrap_or(rest.len());
    rest.split_at(end)
}

/// Splits off a quoted text, of which `rest` begins with the opening quote. One that
/// does not end is all that is left.
fn quoted(rest: &[u8]) -> (&[u8], &[u8]) {
    let mut at = 1;
    loop {
        let Some(found) = rest.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) else {
            return (&rest[1..], &[]);
        };
        at += found;
        if rest[at] == b'"' {
            return (&rest[1..at], &rest[at + 1..]);
        }
        at += 2;
    }
}
