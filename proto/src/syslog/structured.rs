//! Structured data of RFC 5424.
//!
//! Guarantees: the grammar to its end: a `]` in a value that is escaped does not end an element, and
//! escapes are undone. A backslash before another character stands for itself.

use std::borrow::Cow;

/// A parameter of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parameter<'a> {
    pub(super) element: &'a str,
    pub(super) name: &'a str,
    pub(super) value: Cow<'a, str>,
}

/// Reads elements at the beginning of a text. Gives the parameters and the text behind the
/// elements: it is empty or begins with a blank. `None` if that is not the grammar.
pub(super) fn elements(text: &str) -> Option<(Vec<Parameter<'_>>, &str)> {
    let mut parameters = Vec::new();
    let mut rest = text;
    while let Some(inner) = rest.strip_prefix('[') {
        let (element, mut inner) = name(inner, &[' ', ']'])?;
        loop {
            if let Some(behind) = inner.strip_prefix(']') {
                rest = behind;
                break;
            }
            let parameter = inner.strip_prefix(' ')?.trim_start_matches(' ');
            if let Some(behind) = parameter.strip_prefix(']') {
                rest = behind;
                break;
            }
            let (name, behind) = name(parameter, &['='])?;
            let (value, behind) = value(behind.strip_prefix("=\"")?)?;
            parameters.push(Parameter { element, name, value });
            inner = behind;
        }
    }
    let is_whole = rest.len() < text.len() && (rest.is_empty() || rest.starts_with(' '));
    is_whole.then_some((parameters, rest))
}

/// A name, which one of `ends` follows.
fn name<'a>(text: &'a str, ends: &[char]) -> Option<(&'a str, &'a str)> {
    let end = text.find([' ', '=', ']', '"', '['])?;
    let is_name = end > 0 && text[end..].starts_with(ends);
    is_name.then(|| text.split_at(end))
}

/// A value behind its first quote, and the text behind its last one.
fn value(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let bytes = text.as_bytes();
    let (mut at, mut kept_from) = (0, 0);
    let mut undone: Option<String> = None;
    loop {
        let next = at + memchr::memchr2(b'"', b'\\', &bytes[at..])?;
        if bytes[next] == b'"' {
            let last = &text[kept_from..next];
            let value = match undone {
                Some(mut undone) => {
                    undone.push_str(last);
                    Cow::Owned(undone)
                }
                None => Cow::Borrowed(last),
            };
            return Some((value, &text[next + 1..]));
        }
        at = next + 1;
        if matches!(bytes.get(at), Some(b'"' | b'\\' | b']')) {
            undone.get_or_insert_default().push_str(&text[kept_from..next]);
            kept_from = at;
            at += 1;
        }
    }
}
