//! `label_replace`: setting one label from another.

use logsvc_proto::{Labels, LabelsBuilder};
use regex::bytes::Captures;

use super::super::error::EvalError;
use super::super::meter::Meter;
use super::super::plan::Relabel;
use super::grouping::non_empty;
use super::series::Series;

/// Longest value of a label. Matching a pattern against it takes a good part of a second, and
/// a match cannot be interrupted.
const VALUE_MAX_BYTES: usize = 4 << 20;

/// The work of matching a byte of a value against a pattern, for [`Meter::work`].
const MATCH_WORK: usize = 64;

/// Relabels every series. Series that end with equal labels stay apart. A meter that is
/// stopped ends it early.
///
/// # Errors
/// A value would be too long.
pub(crate) fn relabel(
    meter: &Meter,
    relabel: &Relabel,
    series: &mut [Series],
) -> Result<(), EvalError> {
    for one in series {
        let before_bytes = meter.used_bytes();
        let old_bytes = one.labels.as_bytes().len();
        if !meter.work(one.work()) {
            break;
        }
        if let Some(labels) = replaced(meter, relabel, &one.labels)? {
            let new_bytes = labels.as_bytes().len();
            one.labels = labels;
            meter.release_to((before_bytes + new_bytes).saturating_sub(old_bytes));
        }
    }
    Ok(())
}

/// The new labels where the pattern matches, all of which have a value, unless the meter is
/// stopped.
fn replaced(
    meter: &Meter,
    relabel: &Relabel,
    labels: &Labels,
) -> Result<Option<Labels>, EvalError> {
    let source = labels.get(&relabel.src).unwrap_or("");
    if !meter.work(source.len() * MATCH_WORK) {
        return Ok(None);
    }
    let Some(captures) = relabel.regex.captures(source.as_bytes()) else { return Ok(None) };
    let mut value = Vec::new();
    match expand(meter, &relabel.replacement, &captures, &relabel.group_names, &mut value) {
        Ok(()) => {}
        Err(Unexpanded::Stopped) => return Ok(None),
        Err(Unexpanded::TooLong) => {
            let (label, max_bytes) = (relabel.dst.clone(), VALUE_MAX_BYTES);
            return Err(EvalError::ValueTooLong { label, max_bytes });
        }
    }
    // The labels are there as pairs and in their new form, and the value as text in addition if
    // it is none: a byte that is no text becomes three.
    let value_bytes = match std::str::from_utf8(&value) {
        Ok(_) => 2 * value.len(),
        Err(_) => 3 * 3 * value.len(),
    };
    if !meter.admit(value_bytes + 2 * labels.as_bytes().len() + LABELS_BYTES)
        || !meter.work(value_bytes)
    {
        return Ok(None);
    }
    let labels = non_empty(labels);
    let mut builder = LabelsBuilder::from_labels(&labels);
    if value.is_empty() {
        builder.del(&relabel.dst);
    } else {
        builder.set(relabel.dst.as_str(), String::from_utf8_lossy(&value));
    }
    Ok(Some(builder.build_result()))
}

/// Bytes of a label set while it is made, besides its texts, about.
const LABELS_BYTES: usize = 1024;

/// Why a replacement has no value.
#[derive(Debug, PartialEq, Eq)]
enum Unexpanded {
    /// The meter is stopped.
    Stopped,
    /// It is longer than [`VALUE_MAX_BYTES`].
    TooLong,
}

/// Appends to a value that has not become too long.
fn append(meter: &Meter, out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Unexpanded> {
    if out.len() + bytes.len() > VALUE_MAX_BYTES {
        return Err(Unexpanded::TooLong);
    }
    let is_appended = meter.work(bytes.len()) && meter.append(out, bytes);
    if is_appended { Ok(()) } else { Err(Unexpanded::Stopped) }
}

/// Expands `$1`, `${1}`, `$name`, `${name}` and `$$`. A name is the longest run of
/// word characters; a group that does not exist is empty; a `$` that begins no
/// reference stays.
fn expand(
    meter: &Meter,
    template: &[u8],
    captures: &Captures<'_>,
    group_names: &[Option<String>],
    out: &mut Vec<u8>,
) -> Result<(), Unexpanded> {
    let mut rest = template;
    while let Some(dollar) = memchr::memchr(b'$', rest) {
        append(meter, out, &rest[..dollar])?;
        rest = &rest[dollar + 1..];
        if let Some(tail) = rest.strip_prefix(b"$") {
            append(meter, out, b"$")?;
            rest = tail;
            continue;
        }
        match reference(rest) {
            Some((name, tail)) => {
                append(meter, out, group(name, captures, group_names))?;
                rest = tail;
            }
            None => append(meter, out, b"$")?,
        }
    }
    append(meter, out, rest)
}

/// The name at the start of `text`, and the text behind the reference.
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
        let (meter, mut value) = (Meter::default(), Vec::new());
        let (template, names) = (template.as_bytes(), &compiled.group_names);
        expand(&meter, template, &captures, names, &mut value).expect("a short value");
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
