//! The expressions of the `pattern` parser and of the `|>` line filter: literal
//! text with captures `<name>` and `<_>`. There is no escaping; a `<` that begins
//! no capture is literal text.

use super::ParseError;

/// A piece of a pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PatternNode {
    /// Text that must occur. Never empty, and never next to another literal.
    Literal(Vec<u8>),
    /// `<name>`; `None` for `<_>`.
    Capture(Option<String>),
}

/// Splits a pattern into its pieces. Every text is a pattern.
#[must_use]
pub fn parse_pattern(pattern: &[u8]) -> Vec<PatternNode> {
    let mut nodes = Vec::new();
    let mut literal = Vec::new();
    let mut rest = pattern;
    while let Some(&byte) = rest.first() {
        let Some(name) = capture_name(rest) else {
            literal.push(byte);
            rest = &rest[1..];
            continue;
        };
        if !literal.is_empty() {
            nodes.push(PatternNode::Literal(std::mem::take(&mut literal)));
        }
        nodes.push(PatternNode::Capture((name != "_").then(|| name.to_owned())));
        rest = &rest[name.len() + 2..];
    }
    if !literal.is_empty() {
        nodes.push(PatternNode::Literal(literal));
    }
    nodes
}

/// The name of the capture at the start of the text.
fn capture_name(text: &[u8]) -> Option<&str> {
    let inside = text.strip_prefix(b"<")?;
    let len = inside.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
    let named = len > 0 && !inside[0].is_ascii_digit() && inside.get(len) == Some(&b'>');
    named.then(|| std::str::from_utf8(&inside[..len]).ok())?
}

/// Two captures without text between them can't be told apart.
///
/// # Errors
/// `found consecutive capture '<a><b>': invalid expression`.
pub fn check_no_consecutive_captures(nodes: &[PatternNode]) -> Result<(), String> {
    let written = |name: &Option<String>| format!("<{}>", name.as_deref().unwrap_or("_"));
    for pair in nodes.windows(2) {
        if let [PatternNode::Capture(a), PatternNode::Capture(b)] = pair {
            let (a, b) = (written(a), written(b));
            return Err(format!("found consecutive capture '{a}{b}': invalid expression"));
        }
    }
    Ok(())
}

/// The checks of the `pattern` parser: at least one named capture, none next to
/// another, no name twice.
///
/// # Errors
/// The detail that follows `invalid pattern parser: `.
pub fn check_pattern_parser(pattern: &[u8]) -> Result<(), String> {
    if pattern.is_empty() {
        let message = "syntax error: unexpected $end, expecting IDENTIFIER or LITERAL";
        return Err(ParseError::at(1, 1, message).to_string());
    }
    let nodes = parse_pattern(pattern);
    let mut names: Vec<&str> = nodes
        .iter()
        .filter_map(|node| match node {
            PatternNode::Capture(name) => name.as_deref(),
            PatternNode::Literal(_) => None,
        })
        .collect();
    if names.is_empty() {
        return Err("at least one capture is required".to_owned());
    }
    check_no_consecutive_captures(&nodes)?;
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("duplicate capture name ({}): invalid expression", pair[0])),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_and_literals() {
        let literal = |text: &str| PatternNode::Literal(text.as_bytes().to_vec());
        let capture = |name: &str| PatternNode::Capture(Some(name.to_owned()));
        for (pattern, nodes) in [
            ("", vec![]),
            ("<a> - <_>", vec![capture("a"), literal(" - "), PatternNode::Capture(None)]),
            ("<1x><a-b><", vec![literal("<1x><a-b><")]),
            ("<<a1_>>", vec![literal("<"), capture("a1_"), literal(">")]),
            ("<__>", vec![capture("__")]),
            ("<é>", vec![literal("<é>")]),
        ] {
            assert_eq!(parse_pattern(pattern.as_bytes()), nodes, "{pattern}");
        }
    }

    #[test]
    fn checks() {
        for (pattern, detail) in [
            ("x", "at least one capture is required"),
            ("<_>", "at least one capture is required"),
            ("<a><b>", "found consecutive capture '<a><b>': invalid expression"),
            ("<a><_> x", "found consecutive capture '<a><_>': invalid expression"),
            ("<a> <a>", "duplicate capture name (a): invalid expression"),
        ] {
            assert_eq!(check_pattern_parser(pattern.as_bytes()), Err(detail.to_owned()));
        }
        assert_eq!(check_pattern_parser(b"<a> <_> <b>"), Ok(()));
    }
}
