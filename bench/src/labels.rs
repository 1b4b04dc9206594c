//! Label sets of the streams that this tool writes: sorted by name, printed in
//! the selector syntax that the push protocol and queries share.

use std::collections::BTreeMap;

/// A stream's labels. Sorted by name, so that equal sets are equal values.
pub(crate) type Labels = BTreeMap<String, String>;

/// The set as `{a="1", b="2"}`.
pub(crate) fn to_selector(labels: &Labels) -> String {
    let mut out = String::from("{");
    for (index, (name, value)) in labels.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        out.push_str(name);
        out.push('=');
        push_quoted(&mut out, value);
    }
    out.push('}');
    out
}

/// Appends `value` as a double-quoted string with Go's escapes.
fn push_quoted(out: &mut String, value: &str) {
    out.push('"');
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Reads one `name=value` of the command line.
pub(crate) fn parse_pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("{text:?} has no '='"))?;
    let mut chars = name.chars();
    let valid = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !valid {
        return Err(format!("{name:?} is not a label name"));
    }
    if value.is_empty() {
        return Err(format!("label {name} has an empty value, which servers drop"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selector_is_sorted_and_escaped() {
        let labels: Labels =
            [("b", "x\"\\\n\u{1}é"), ("a", "1")].map(|(n, v)| (n.to_owned(), v.to_owned())).into();
        assert_eq!(to_selector(&labels), r#"{a="1", b="x\"\\\n\u0001é"}"#);
    }

    #[test]
    fn pairs() {
        assert_eq!(parse_pair("env=a=b"), Ok(("env".to_owned(), "a=b".to_owned())));
        for text in ["", "env", "=x", "9a=x", "a-b=x", "env="] {
            assert!(parse_pair(text).is_err(), "{text}");
        }
    }
}
