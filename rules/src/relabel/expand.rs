//! References to groups of a match within a text, as Go's `Regexp.Expand` reads them: `$1`,
//! `${1}`, `$name`, `${name}`, and `$$` for a dollar.
//!
//! A name is the longest run of letters, digits and `_`. A group that does not exist or took no
//! part is empty. A `$` that begins no reference stays.

use regex::bytes::Captures;

use super::VALUE_MAX_BYTES;

/// The text of a template; `None` if it is longer than [`VALUE_MAX_BYTES`].
pub(super) fn expand(
    template: &str,
    captures: &Captures<'_>,
    group_names: &[Option<String>],
) -> Option<String> {
    let mut out = Vec::new();
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once('$') {
        out.extend_from_slice(before.as_bytes());
        rest = behind;
        if let Some(tail) = rest.strip_prefix('$') {
            out.push(b'$');
            rest = tail;
        } else if let Some((name, tail)) = reference(rest) {
            out.extend_from_slice(group(name, captures, group_names));
            rest = tail;
        } else {
            out.push(b'$');
        }
        if out.len() > VALUE_MAX_BYTES {
            return None;
        }
    }
    out.extend_from_slice(rest.as_bytes());
    // Groups of a match of valid text are valid, except for patterns of single bytes.
    (out.len() <= VALUE_MAX_BYTES).then(|| String::from_utf8_lossy(&out).into_owned())
}

/// The text with its first match replaced by the template.
pub(super) fn expand_within(
    text: &str,
    template: &str,
    captures: &Captures<'_>,
    group_names: &[Option<String>],
) -> Option<String> {
    let range = captures.get_match().range();
    let expanded = expand(template, captures, group_names)?;
    Some([text.get(..range.start)?, &expanded, text.get(range.end..)?].concat())
}

/// The name at the start of a text, and what is behind the reference.
fn reference(text: &str) -> Option<(&str, &str)> {
    let inside = text.strip_prefix('{');
    let text = inside.unwrap_or(text);
    let end = text.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(text.len());
    let (name, tail) = text.split_at(end);
    if name.is_empty() {
        return None;
    }
    Some((name, if inside.is_some() { tail.strip_prefix('}')? } else { tail }))
}

fn group<'h>(name: &str, captures: &Captures<'h>, names: &[Option<String>]) -> &'h [u8] {
    let text = |index: usize| captures.get(index).map(|found| found.as_bytes());
    if name.bytes().all(|b| b.is_ascii_digit()) {
        let is_canonical = name == "0" || !name.starts_with('0');
        let index = name.parse().ok().filter(|_| is_canonical);
        return index.and_then(text).unwrap_or_default();
    }
    // Names may repeat; the first one that took part in the match counts.
    let indexes = (1..).zip(names).filter(|(_, other)| other.as_deref() == Some(name));
    indexes.filter_map(|(index, _)| text(index)).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use logsvc_logql::syntax::go_regex::compile_capturing;

    use super::*;

    fn expanded(template: &str, pattern: &str, text: &str) -> Option<String> {
        let compiled = compile_capturing(pattern.as_bytes()).expect("valid");
        let captures = compiled.regex.captures(text.as_bytes()).expect("matches");
        expand(template, &captures, &compiled.group_names)
    }

    #[test]
    fn references_are_those_of_go() {
        for (template, value) in [
            ("$1-x", "aa-x"),
            ("$1x", ""),
            ("${1}x", "aax"),
            ("$first$2", "aa"),
            ("${first}_${nope}", "aa_"),
            ("$$1", "$1"),
            ("$0", "aa"),
            ("$01", ""),
            ("$99999999999999999999999", ""),
            ("$ $", "$ $"),
            ("${1", "${1"),
            ("${1 }", "${1 }"),
            ("$9", ""),
            ("$ß$1", "aa"),
            ("ß$1", "ßaa"),
        ] {
            let found = expanded(template, "(?P<first>a+)(b)?", "aa");
            assert_eq!(found.as_deref(), Some(value), "{template}");
        }
        let repeated = expanded("$n", "(?:(?P<n>x)|(?P<n>a+))", "aa");
        assert_eq!(repeated.as_deref(), Some("aa"));
    }

    #[test]
    fn a_text_that_grows_beyond_the_bound_is_given_up() {
        let text = "a".repeat(VALUE_MAX_BYTES / 2);
        assert_eq!(expanded("$0$0", "a+", &text).map(|text| text.len()), Some(VALUE_MAX_BYTES));
        assert!(expanded("${0}${0}x", "a+", &text).is_none());
        assert!(expanded("$0$0$0", "a+", &text).is_none());
    }
}
