//! Upper, lower and title case with Go's simple mappings: one character becomes
//! one character, so `ß` has no upper case and `İ` becomes `i`.

use super::{Function, Param, runes, text};
use crate::engine::template::execution::Execution;
use crate::engine::template::value::{Text, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("ToLower", &[Param::Text], |run, args| lower(run, text(args, 0)?)),
    Function::new("lower", &[Param::Text], |run, args| lower(run, text(args, 0)?)),
    Function::new("ToUpper", &[Param::Text], |run, args| upper(run, text(args, 0)?)),
    Function::new("upper", &[Param::Text], |run, args| upper(run, text(args, 0)?)),
    Function::new("title", &[Param::Text], |run, args| title(run, &text(args, 0)?)),
];

pub(super) fn lower<'v>(run: &Execution<'v>, value: Text<'v>) -> Result<Value<'v>, String> {
    let bytes = value.bytes();
    if bytes.is_ascii() {
        run.work(bytes.len())?;
        let changes = bytes.iter().any(u8::is_ascii_uppercase);
        return Ok(if changes {
            run.make(bytes.len(), || bytes.to_ascii_lowercase()).map(Value::Text)?
        } else {
            Value::Text(value)
        });
    }
    map(run, bytes, to_lower)
}

pub(super) fn upper<'v>(run: &Execution<'v>, value: Text<'v>) -> Result<Value<'v>, String> {
    let bytes = value.bytes();
    if bytes.is_ascii() {
        run.work(bytes.len())?;
        let changes = bytes.iter().any(u8::is_ascii_lowercase);
        return Ok(if changes {
            run.make(bytes.len(), || bytes.to_ascii_uppercase()).map(Value::Text)?
        } else {
            Value::Text(value)
        });
    }
    map(run, bytes, to_upper)
}

/// Changes the first letter of every word.
pub(super) fn title<'v>(run: &Execution<'v>, value: &Text<'v>) -> Result<Value<'v>, String> {
    let mut previous = ' ';
    map(run, value.bytes(), |c| {
        let starts_word = is_separator(previous);
        previous = c;
        if starts_word { to_title(c) } else { c }
    })
}

fn map<'v>(
    run: &Execution<'v>,
    bytes: &[u8],
    mut mapping: impl FnMut(char) -> char,
) -> Result<Value<'v>, String> {
    run.build(|out| runes(bytes).try_for_each(|c| out.push_char(mapping(c)))).map(Value::text)
}

fn is_separator(c: char) -> bool {
    if c.is_ascii() { !(c.is_ascii_alphanumeric() || c == '_') } else { c.is_whitespace() }
}

/// The single character of a mapping, if it is one.
fn single(mut mapped: impl Iterator<Item = char>) -> Option<char> {
    mapped.next().filter(|_| mapped.next().is_none())
}

fn to_lower(c: char) -> char {
    match c {
        '\u{130}' => 'i',
        c => single(c.to_lowercase()).unwrap_or(c),
    }
}

fn to_upper(c: char) -> char {
    single(c.to_uppercase()).unwrap_or_else(|| match c as u32 {
        // Greek letters with an iota below, whose capitals have it beside.
        code @ (0x1f80..=0x1f87 | 0x1f90..=0x1f97 | 0x1fa0..=0x1fa7) => {
            char::from_u32(code + 8).unwrap_or(c)
        }
        code @ (0x1fb3 | 0x1fc3 | 0x1ff3) => char::from_u32(code + 9).unwrap_or(c),
        _ => c,
    })
}

fn to_title(c: char) -> char {
    match c {
        '\u{1c4}'..='\u{1c6}' => '\u{1c5}',
        '\u{1c7}'..='\u{1c9}' => '\u{1c8}',
        '\u{1ca}'..='\u{1cc}' => '\u{1cb}',
        '\u{1f1}'..='\u{1f3}' => '\u{1f2}',
        // Georgian letters have capitals but no title case.
        '\u{10d0}'..='\u{10ff}' => c,
        c => to_upper(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_map_one_to_one() {
        for (c, lower, upper, title) in [
            ('a', 'a', 'A', 'A'),
            ('\u{df}', '\u{df}', '\u{df}', '\u{df}'),
            ('\u{130}', 'i', '\u{130}', '\u{130}'),
            ('\u{131}', '\u{131}', 'I', 'I'),
            ('\u{1c6}', '\u{1c6}', '\u{1c4}', '\u{1c5}'),
            ('\u{1f80}', '\u{1f80}', '\u{1f88}', '\u{1f88}'),
            ('\u{1fb3}', '\u{1fb3}', '\u{1fbc}', '\u{1fbc}'),
            ('\u{10d0}', '\u{10d0}', '\u{1c90}', '\u{10d0}'),
            ('\u{149}', '\u{149}', '\u{149}', '\u{149}'),
        ] {
            assert_eq!((to_lower(c), to_upper(c), to_title(c)), (lower, upper, title), "{c:?}");
        }
    }
}
