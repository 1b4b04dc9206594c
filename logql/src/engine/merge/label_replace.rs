//! `label_replace`: setting one label from another.

use logsvc_proto::{Labels, LabelsBuilder};
use regex::bytes::Captures;

use super::super::plan::Relabel;
use super::grouping::non_empty;
use super::series::Series;

/// Relabels every series. Series that end with equal labels stay apart (Q14).
pub(crate) fn relabel(relabel: &Relabel, series: &mut [Series]) {
    for one in series {
        if let Some(labels) = replaced(relabel, &one.labels) {
            one.labels = labels;
        }
    }
}

/// The new labels where the pattern matches; all of them have a value.
fn replaced(relabel: &Relabel, labels: &Labels) -> Option<Labels> {
    let source = labels.get(&relabel.src).unwrap_or("");
    let captures = relabel.regex.captures(source.as_bytes())?;
    let value = expand(&relabel.replacement, &captures, &relabel.group_names);
    let labels = non_empty(labels);
    let mut builder = LabelsBuilder::from_labels(&labels);
    if value.is_empty() {
        builder.del(&relabel.dst);
    } else {
        builder.set(relabel.dst.as_str(), String::from_utf8_lossy(&value));
    }
    Some(builder.build_result())
}

/// Expands `$1`, `${1}`, `$name`, `${name}` and `$$`. A name is the longest run of
/// word characters; a group that does not exist is empty; a `$` that begins no
/// reference stays.
fn expand(template: &[u8], captures: &Captures<'_>, group_names: &[Option<String>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = template;
    while let Some(dollar) = memchr::memchr(b'$', rest) {
        out.extend_from_slice(&rest[..dollar]);
        rest = &rest[dollar + 1..];
        if let Some(tail) = rest.strip_prefix(b"$") {
            out.push(b'$');
            rest = tail;
            continue;
        }
        match reference(rest) {
            Some((name, tail)) => {
                out.extend_from_slice(group(name, captures, group_names));
                rest = tail;
            }
            None => out.push(b'$'),
        }
    }
    out.extend_from_slice(rest);
    out
}

/// The name at the start of `text` and what follows the reference.
fn reference(text: &[u8]) -> Option<(&str, &[u8])> {
    let (text, is_braced) = match text.strip_prefix(b"{") {
        Some(inside) => (inside, true),
        None => (text, false),
    };
    // Go counts Unicode letters and digits as word characters.
    let valid = match std::str::from_utf8(text) {
        Ok(valid) => valid,
        Err(error) => std::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or(""),
    };
    let len = valid.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(valid.len());
    let (name, tail) = (&valid[..len], &text[len..]);
    if name.is_empty() {
        return None;
    }
    let tail = if is_braced { tail.strip_prefix(b"}")? } else { tail };
    Some((name, tail))
}

fn group<'h>(name: &str, captures: &Captures<'h>, names: &[Option<String>]) -> &'h [u8] {
    let text = |index: usize| captures.get(index).map(|found| found.as_bytes());
    if name.bytes().all(|b| b.is_ascii_digit()) {
        let is_canonical = name == "0" || !name.starts_with('0');
        let index = name.parse().ok().filter(|_| is_canonical);
        return index.and_then(text).unwrap_or_default();
    }
    // Names may repeat; the one that took part in the match counts.
    let indexes = (1..).zip(names).filter(|(_, other)| other.as_deref() == Some(name));
    indexes.filter_map(|(index, _)| text(index)).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::go_regex::compile_capturing;

    fn expanded(template: &str, pattern: &str, text: &str) -> String {
        let compiled = compile_capturing(pattern.as_bytes()).expect("valid");
        let captures = compiled.regex.captures(text.as_bytes()).expect("matches");
        let value = expand(template.as_bytes(), &captures, &compiled.group_names);
        String::from_utf8(value).expect("valid")
    }

    #[test]
    fn references_take_the_longest_name() {
        let pattern = "(?P<first>a+)(b)?";
        for (template, value) in [
            ("$1-x", "aa-x"),
            ("$1x", ""),
            ("${1}x", "aax"),
            ("$first$2", "aa"),
            ("${first}_${nope}", "aa_"),
            ("$$1", "$1"),
            ("$0", "aa"),
            ("$ $", "$ $"),
            ("${1", "${1"),
            ("$9", ""),
        ] {
            assert_eq!(expanded(template, pattern, "aa"), value, "{template}");
        }
    }
}
